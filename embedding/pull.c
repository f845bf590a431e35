/* pull.c: table_pull, the walk over keys that copies weights out and changes nothing. */
#include "embedding/table_inner.h"

#include "embedding/init.h"

#include <string.h>

struct pull_step {
    const struct tablet *tablet;
    const struct bucket *home;
};

/* width is a constant where it is one of the common ones, so that the copy is a few moves. */
ISA_INLINE void pull_walk(const struct table *t, const uint64_t *keys, size_t count, float *rows, const uint32_t width,
                          const bool aligned)
{
    struct pull_step step[WALK_INDEX];
    const float *row[WALK_ROW];
    for (size_t i = 0; i < count + WALK_ROW + WALK_INDEX; i++) {
        if (i >= WALK_ROW + WALK_INDEX) {
            size_t at = i - WALK_ROW - WALK_INDEX;
            const float *from = row[at % WALK_ROW];
            if (__builtin_expect(from != NULL, 1))
                memcpy(rows + at * width, from, width * sizeof *rows);
            else
                init_weights(&t->schema, keys[at], rows + at * width);
        }
        if (i >= WALK_INDEX && i < count + WALK_INDEX) {
            size_t at = i - WALK_INDEX;
            const struct pull_step *s = &step[at % WALK_INDEX];
            const float *found = tablet_find_from(s->tablet, &t->shape, s->home, keys[at]);
            row[at % WALK_ROW] = found;
            if (__builtin_expect(found != NULL, 1))
                walk_prefetch(found, width * (uint32_t)sizeof *rows, aligned);
        }
        if (i < count) {
            uint64_t mixed = key_mix(keys[i]);
            struct pull_step *s = &step[i % WALK_INDEX];
            s->tablet = table_tablet(t, mixed);
            s->home = tablet_home(s->tablet, t->shape.tablet_bits, mixed);
            __builtin_prefetch(s->home);
        }
    }
}

void table_pull(const struct table *t, const uint64_t *keys, size_t count, float *rows)
{
    const bool aligned = t->shape.row_bytes % 64 == 0;
    if (t->schema.width == 16 && aligned)
        pull_walk(t, keys, count, rows, 16, true);
    else if (t->schema.width == 16)
        pull_walk(t, keys, count, rows, 16, false);
    else if (t->schema.width == 8)
        pull_walk(t, keys, count, rows, 8, false);
    else
        pull_walk(t, keys, count, rows, t->schema.width, aligned);
}

void table_pull_before(const struct table *t, const uint64_t *keys, size_t count, uint64_t clock, float *rows)
{
    uint32_t width = t->schema.width;
    table_pull(t, keys, count, rows);
    if (clock == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        const struct undo *undo = table_tablet(t, key_mix(keys[i]))->undo;
        if (undo == NULL || undo->clock != clock)
            continue;
        const float *kept = undo_find(undo, keys[i]);
        if (kept != NULL)
            memcpy(rows + i * width, kept, width * sizeof *rows);
    }
}
