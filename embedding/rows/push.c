/* push.c: table_push: walks over keys and changes rows; and the check of gradients before it. */
#include "embedding/rows/admit.h"
#include "embedding/rows/age.h"
#include "embedding/rows/l2.h"
#include "embedding/rows/rules.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/limits.h"
#include "proto/job/packed.h"

#include <stdlib.h>
#include <string.h>

int table_undo_begin(struct table *t, uint32_t number, uint64_t clock, uint32_t from)
{
    SHOAL_ASSERT(number < t->tablet_count);
    struct tablet *tablet = &t->tablets[number];
    if (tablet->undo == NULL && (tablet->undo = undo_new(t->schema.width)) == NULL)
        return SHOAL_E_NOMEM;
    undo_begin(tablet->undo, clock, from);
    return 0;
}

int table_undo_keep(struct table *t, uint32_t number, uint64_t key, const float *weights,
                    uint64_t clock)
{
    const struct tablet_life *life = t->tablets[number].life;
    int rc = table_undo_begin(t, number, clock, life == NULL ? 0 : life->clock);
    if (rc != 0)
        return rc;

    return undo_save(t->tablets[number].undo, key, weights);
}

static int undo_keep(struct table *t, uint64_t key, const float *row, uint64_t clock)
{
    return table_undo_keep(t, key_tablet(key_mix(key), t->shape.tablet_bits), key, row, clock);
}

/* True when `clock` is a later clock of the same run: names of one run's clocks are consecutive
 * (table_undo_clock), those of two runs are unrelated. */
static bool undo_is_past(const struct undo *u, uint64_t clock)
{
    return clock - u->clock - 1 < UINT32_MAX;
}

/* At the first push of a clock: drops undo entries of gone rows from an earlier clock of its run,
 * which are no longer needed. Skips tablets that do not take the push: in a replay they may be
 * later than it. */
static void undo_let_go(struct table *t, const struct push_args *args)
{
    uint64_t left = 0;
    SHOAL_ASSERT(args->undo_clock != 0);
    for (uint32_t i = 0; i < t->tablet_count; i++) {
        struct undo *u = t->tablets[i].undo;
        if (u == NULL || !u->went)
            continue;
        bool takes = i - args->tablet_first < args->tablet_count &&
                     (args->take == NULL || args->take[i] != 0);
        if (takes && undo_is_past(u, args->undo_clock)) {
            undo_free(u);
            t->tablets[i].undo = NULL;
        } else {
            left = u->clock;
        }
    }
    t->undo_went = left;
}

void table_undo_drop(struct table *t, uint64_t run)
{
    for (uint32_t i = 0; i < t->tablet_count; i++) {
        struct undo *u = t->tablets[i].undo;
        if (u != NULL && u->clock - table_undo_clock(run, 0) < UINT32_MAX) {
            undo_free(u);
            t->tablets[i].undo = NULL;
        }
    }
}

#define WALK_TARGET
#define WALK_MATCH bucket_match
#define WALK_NAME(x) x##_base
#include "embedding/rows/push_walk.h"
#undef WALK_TARGET
#undef WALK_MATCH
#undef WALK_NAME
#define WALK_TARGET ISA_TARGET_AVX2
#define WALK_MATCH walk_match_avx2
#define WALK_NAME(x) x##_avx2
#include "embedding/rows/push_walk.h"
#undef WALK_TARGET
#undef WALK_MATCH
#undef WALK_NAME
#define WALK_TARGET ISA_TARGET_AVX512
#define WALK_MATCH walk_match_avx512
#define WALK_NAME(x) x##_avx512
#include "embedding/rows/push_walk.h"

int table_gradients(struct table *t, uint32_t width, const void *gradients, size_t count,
                    const float **out)
{
    const size_t floats = count * t->push_floats;
    *out = gradients;
    if (width == PACKED_NOT || count == 0)
        return 0;
    if (floats > t->opened_floats) {
        float *more = aligned_alloc(64, (floats * sizeof *more + 63) / 64 * 64);
        if (more == NULL)
            return SHOAL_E_NOMEM;
        free(t->opened);
        t->opened = more;
        t->opened_floats = floats;
    }
    packed_open(&t->schema, width, gradients, t->opened, count);
    *out = t->opened;
    return 0;
}

int table_push(struct table *t, const uint64_t *keys, const float *gradients, size_t count,
               const struct push_args *args)
{
    static int (*const push[ISA_COUNT])(struct table *, const uint64_t *, const float *, size_t,
                                        const struct push_args *) = {push_base, push_avx2,
                                                                     push_avx512};
    SHOAL_ASSERT(t->isa < ISA_COUNT &&
                 (uint64_t)args->tablet_first + args->tablet_count <= t->tablet_count);
    SHOAL_VERIFY_ASSERT(table_gradients_ok(gradients, count * t->push_floats) &&
                        table_stats_ok(&t->schema, gradients, count));
    if (t->pulled_back != NULL)
        l2_count(t, args);
    if (t->undo_went != 0 && args->undo_clock != 0 && args->undo_clock != t->undo_went)
        undo_let_go(t, args);
    if (!t->ruled && !t->ages)
        return push[t->isa](t, keys, gradients, count, args);
    int rc = age_before(t, args);
    if (rc == 0)
        rc = push[t->isa](t, keys, gradients, count, args);
    if (rc != 0)
        return rc;

    return age_after(t, args);
}

bool table_stats_ok(const struct table_schema *schema, const float *gradients, size_t count)
{
    const uint32_t floats = schema_push_floats(schema);
    bool ok = true;
    for (size_t i = 0; schema->rules.stats != 0 && i < count; i++) {
        float show = gradients[i * floats + schema->width],
              click = gradients[i * floats + schema->width + 1];
        ok &= click >= 0 && show >= click && show <= LIMIT_GRADIENT; /* false for a NaN */
    }
    return ok;
}

/* Compares as integers: without its sign a float grows with its bits, and infinities and NaNs lie
 * above every finite one. limit - bits is therefore negative only for bad values: three operations
 * on whole vectors and no branch. */
bool table_gradients_ok(const float *gradients, size_t count)
{
    typedef int32_t lanes __attribute__((vector_size(16)));
    const float limit_float = LIMIT_GRADIENT;
    int32_t limit, bits;
    memcpy(&limit, &limit_float, sizeof limit);
    lanes sum[4] = {{0}, {0}, {0}, {0}};
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        lanes in[4];
        memcpy(in, gradients + i, sizeof in);
        sum[0] |= limit - (in[0] & 0x7fffffff);
        sum[1] |= limit - (in[1] & 0x7fffffff);
        sum[2] |= limit - (in[2] & 0x7fffffff);
        sum[3] |= limit - (in[3] & 0x7fffffff);
    }
    lanes all = (sum[0] | sum[1]) | (sum[2] | sum[3]);
    int32_t any = all[0] | all[1] | all[2] | all[3];
    for (; i < count; i++) {
        memcpy(&bits, gradients + i, sizeof bits);
        any |= limit - (bits & 0x7fffffff);
    }
    return any >= 0;
}
