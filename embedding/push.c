/* push.c: table_push, the walk over keys that changes rows, and the check of gradients that goes before it. */
#include "embedding/table_inner.h"

#include "proto/base/limits.h"

#include <string.h>

/* Keeps the row's weights if this is its first change of the clock. */
static int undo_keep(struct table *t, uint64_t key, const float *row, uint64_t clock)
{
    struct tablet *tablet = table_tablet(t, key_mix(key));
    if (tablet->undo == NULL && (tablet->undo = undo_new(t->schema.width)) == NULL)
        return SHOAL_E_NOMEM;
    undo_begin(tablet->undo, clock);
    return undo_save(tablet->undo, key, row);
}

#define L2_BATCHES_MAX 1024.0f /* of a row that comes back after long */

/* Counts the batches of this push in every tablet that takes it. */
static void count_batches(struct table *t, const struct push_args *args)
{
    for (uint32_t i = args->tablet_first; i < args->tablet_first + args->tablet_count; i++)
        if (args->take == NULL || args->take[i] != 0)
            t->tablets[i].batches += args->steps != NULL ? args->steps[i] : args->step;
}

static float within_limit(float x)
{
    return x > LIMIT_GRADIENT ? LIMIT_GRADIENT : x < -LIMIT_GRADIENT ? -LIMIT_GRADIENT : x;
}

/* The row's gradient with its l2, for all batches of its tablet, of whichever lane, since the one that touched it last:
 * what a loss with the L2 of the whole table in each step would have added up to, had the weights stayed. Under SGD the
 * step takes no more than the weights themselves. */
static const float *gradient_pull_back(const struct table *t, uint64_t key, float *row, const float *gradient,
                                       const struct opt_step *step)
{
    float *last = row + t->last_at, now = (float)table_tablet(t, key_mix(key))->batches, batches = now - *last;
    if (*last == LAST_NEVER || batches <= 0) { /* new, or beyond what a float tells apart */
        *last = now;
        return gradient;
    }
    *last = now;
    float factor = t->schema.optimizer.l2 * (batches < L2_BATCHES_MAX ? batches : L2_BATCHES_MAX);
    if (t->schema.optimizer.kind == OPT_SGD && factor * step->lr > 1.0f)
        factor = 1.0f / step->lr;
    for (uint32_t i = 0; i < t->schema.width; i++)
        t->pulled_back[i] = within_limit(gradient[i] + factor * row[i]);
    return t->pulled_back;
}

#define WALK_TARGET
#define WALK_MATCH bucket_match
#define WALK_NAME(x) x##_base
#include "embedding/push_walk.h"
#undef WALK_TARGET
#undef WALK_MATCH
#undef WALK_NAME
#define WALK_TARGET ISA_TARGET_AVX2
#define WALK_MATCH walk_match_avx2
#define WALK_NAME(x) x##_avx2
#include "embedding/push_walk.h"
#undef WALK_TARGET
#undef WALK_MATCH
#undef WALK_NAME
#define WALK_TARGET ISA_TARGET_AVX512
#define WALK_MATCH walk_match_avx512
#define WALK_NAME(x) x##_avx512
#include "embedding/push_walk.h"

int table_push(struct table *t, const uint64_t *keys, const float *gradients, size_t count,
               const struct push_args *args)
{
    static int (*const push[ISA_COUNT])(struct table *, const uint64_t *, const float *, size_t,
                                        const struct push_args *) = {push_base, push_avx2, push_avx512};
    if (t->pulled_back != NULL)
        count_batches(t, args);
    return push[t->isa](t, keys, gradients, count, args);
}

/* Compared as integers: without its sign a float grows with its bits, and infinities and NaNs lie above every finite
 * one. So limit - bits is negative, its top bit set, for the bad ones alone: three operations on whole vectors and no
 * branch. */
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
