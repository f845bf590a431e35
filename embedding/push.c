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

/* The key's row, made if it is absent, with its lines asked for; NULL when memory is out. */
ISA_INLINE float *row_ready(struct table *t, uint64_t key, uint64_t mixed, const uint32_t bytes, const bool aligned)
{
    struct tablet *tablet = table_tablet(t, mixed);
    /* The home is found again: an insert since it was asked for may have moved the index. */
    float *row = tablet_find_from(tablet, &t->shape, tablet_home(tablet, t->shape.tablet_bits, mixed), key);
    if (__builtin_expect(row == NULL, 0))
        return table_insert(t, mixed_tablet(mixed, t->shape.tablet_bits), key);
    walk_prefetch(row, bytes, aligned);
    return row;
}

ISA_INLINE int push_walk(struct table *t, const uint64_t *keys, const float *gradients, size_t count,
                         const struct push_args *args, const uint32_t bytes, const bool aligned)
{
    const opt_update_fn update = t->optimizer.update;
    const uint32_t width = t->schema.width, bits = t->shape.tablet_bits;
    struct opt_step step;
    uint64_t mixed_of[WALK_INDEX];
    float *row_of[WALK_ROW];
    optimizer_step(&t->schema, args->lr_scale, &step);
    for (size_t i = 0; i < count + WALK_ROW + WALK_INDEX; i++) {
        if (i >= WALK_ROW + WALK_INDEX) {
            size_t at = i - WALK_ROW - WALK_INDEX;
            float *row = row_of[at % WALK_ROW];
            if (__builtin_expect(row != NULL, 1)) {
                if (__builtin_expect(args->undo_clock != 0, 0) && undo_keep(t, keys[at], row, args->undo_clock) != 0)
                    return SHOAL_E_NOMEM;
                update(row, gradients + at * width, &step);
            }
        }
        if (i >= WALK_INDEX && i < count + WALK_INDEX) {
            size_t at = i - WALK_INDEX;
            uint64_t mixed = mixed_of[at % WALK_INDEX];
            bool taken = args->take == NULL || args->take[mixed_tablet(mixed, bits)] != 0;
            float *row = taken ? row_ready(t, keys[at], mixed, bytes, aligned) : NULL;
            if (__builtin_expect(taken && row == NULL, 0))
                return SHOAL_E_NOMEM;
            row_of[at % WALK_ROW] = row;
        }
        if (i < count) {
            uint64_t mixed = key_mix(keys[i]);
            mixed_of[i % WALK_INDEX] = mixed;
            __builtin_prefetch(tablet_home(table_tablet(t, mixed), bits, mixed));
        }
    }
    return 0;
}

int table_push(struct table *t, const uint64_t *keys, const float *gradients, size_t count,
               const struct push_args *args)
{
    if (t->shape.row_bytes == 128)
        return push_walk(t, keys, gradients, count, args, 128, true);
    return push_walk(t, keys, gradients, count, args, t->shape.row_bytes, t->shape.row_bytes % 64 == 0);
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
