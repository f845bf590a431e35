/* push.c: table_push: walks over keys and changes rows; and the check of gradients before it. */
#include "embedding/rows/admit.h"
#include "embedding/rows/age.h"
#include "embedding/rows/l2.h"
#include "embedding/rows/rules.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/limits.h"
#include "proto/base/minmax.h"
#include "proto/job/gradient.h"
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

/* A piece of a push that is opened at a time: floats that stay in the processor's cache until they
 * are applied. A walk begins anew with each piece, so pieces are not smaller. */
#define OPENED_FLOATS 8192u
_Static_assert(OPENED_FLOATS >= LIMIT_WIDTH + 2, "a row and its statistics fit");

static int push_rows(struct table *t, const uint64_t *keys, const void *gradients, size_t count,
                     const struct push_args *args)
{
    static int (*const push[ISA_COUNT])(struct table *, const uint64_t *, const float *, size_t,
                                        const struct push_args *) = {push_base, push_avx2,
                                                                     push_avx512};
    float opened[OPENED_FLOATS] __attribute__((aligned(64)));
    const uint32_t bytes = packed_bytes(&t->schema, args->width);
    const size_t piece = OPENED_FLOATS / t->push_floats;
    SHOAL_ASSERT(t->isa < ISA_COUNT);
    if (args->width == PACKED_NOT) {
        SHOAL_VERIFY_ASSERT(gradient_floats_ok(gradients, count * t->push_floats));
        return push[t->isa](t, keys, gradients, count, args);
    }
    for (size_t at = 0; at < count; at += piece) {
        const size_t n = MIN(count - at, piece);
        packed_open(&t->schema, args->width, (const char *)gradients + at * bytes, opened, n);
        SHOAL_VERIFY_ASSERT(gradient_floats_ok(opened, n * t->push_floats));
        int rc = push[t->isa](t, keys + at, opened, n, args);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int table_push(struct table *t, const uint64_t *keys, const void *gradients, size_t count,
               const struct push_args *args)
{
    SHOAL_ASSERT((uint64_t)args->tablet_first + args->tablet_count <= t->tablet_count);
    SHOAL_VERIFY_ASSERT(table_stats_ok(&t->schema, args->width, gradients, count));
    if (t->pulled_back != NULL)
        l2_count(t, args);
    if (t->undo_went != 0 && args->undo_clock != 0 && args->undo_clock != t->undo_went)
        undo_let_go(t, args);
    if (!t->ruled && !t->ages)
        return push_rows(t, keys, gradients, count, args);
    int rc = age_before(t, args);
    if (rc == 0)
        rc = push_rows(t, keys, gradients, count, args);
    if (rc != 0)
        return rc;

    return age_after(t, args);
}

bool table_stats_ok(const struct table_schema *schema, uint32_t width, const void *gradients,
                    size_t count)
{
    const uint32_t bytes = packed_bytes(schema, width);
    const char *at = gradients;
    bool ok = true;
    for (size_t i = 0; schema->rules.stats != 0 && i < count; i++) {
        float stats[2]; /* shows, clicks */
        at += bytes;
        memcpy(stats, at - sizeof stats, sizeof stats);
        /* false for a NaN */
        ok &= stats[1] >= 0 && stats[0] >= stats[1] && stats[0] <= LIMIT_GRADIENT;
    }
    return ok;
}
