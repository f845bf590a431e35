/* keys.c: table_keys: names given to keys, and what follows from them. */
#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"

#include <stdlib.h>
#include <string.h>

static int by_mixed(const void *a, const void *b)
{
    uint64_t x = key_mix(*(const uint64_t *)a), y = key_mix(*(const uint64_t *)b);
    return (x > y) - (x < y);
}

static bool is_named_to_stay(void *context, uint64_t key, float *row)
{
    (void)row;
    return named_find(context, key) != NAME_ERASED;
}

/* What is kept for a clock of bsp goes with an erased row. */
static int undo_erase(struct tablet *own, const struct named *names)
{
    struct undo *old = own->undo, *fresh = old == NULL ? NULL : undo_new(old->width);
    if (old == NULL)
        return 0;
    if (fresh == NULL)
        return SHOAL_E_NOMEM;
    undo_begin(fresh, old->clock, old->from);
    int rc = 0;
    for (uint32_t i = 0; i < old->count && rc == 0; i++)
        if (named_find(names, old->keys[i]) != NAME_ERASED)
            rc = undo_save(fresh, old->keys[i], old->weights + (size_t)i * old->width);
    SHOAL_ASSERT(fresh->count <= old->count && fresh->clock == old->clock);
    undo_free(rc == 0 ? old : fresh);
    own->undo = rc == 0 ? fresh : old;
    return rc;
}

/* keys: those of one tablet, sorted, each once. */
static int name_in_tablet(struct table *t, uint32_t tablet, enum key_action action,
                          const uint64_t *keys, size_t count, uint64_t *changed)
{
    static const enum name_kind kind_of[] = {[KEY_ERASE] = NAME_ERASED,
                                             [KEY_BLOCK] = NAME_BLOCKED,
                                             [KEY_ALLOW] = NAME_ALLOWED,
                                             [KEY_RESET] = NAME_NONE};
    SHOAL_ASSERT((unsigned)action <= KEY_RESET && count > 0);
    struct tablet_life *life = table_life(t, tablet);
    uint64_t renamed, gone;
    if (life == NULL || named_set(&life->named, keys, count, kind_of[action], &renamed) != 0)
        return SHOAL_E_NOMEM;
    SHOAL_ASSERT(renamed <= count);
    *changed += renamed;
    if (action == KEY_ERASE || action == KEY_BLOCK)
        for (size_t i = 0; i < count; i++)
            waiting_forget(&life->waiting, keys[i]);
    if (action != KEY_ERASE)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (cold_erase(t, keys[i]) != 0)
            return SHOAL_E_NOMEM;
    int rc = table_keep(t, tablet, is_named_to_stay, &life->named, 0, &gone);
    return rc == 0 ? undo_erase(&t->tablets[tablet], &life->named) : rc;
}

int table_keys(struct table *t, enum key_action action, const uint64_t *keys, size_t count,
               const uint8_t *take, uint64_t *changed)
{
    uint64_t *sorted = malloc((count + 1) * sizeof *sorted);
    size_t n = 0, from = 0;
    int rc = 0;
    if (sorted == NULL)
        return SHOAL_E_NOMEM;
    *changed = 0;
    for (size_t i = 0; i < count; i++)
        if (take == NULL || take[key_tablet(key_mix(keys[i]), t->shape.tablet_bits)] != 0)
            sorted[n++] = keys[i];
    qsort(sorted, n, sizeof *sorted, by_mixed);
    size_t unique = 0;
    for (size_t i = 0; i < n; i++)
        if (unique == 0 || sorted[unique - 1] != sorted[i])
            sorted[unique++] = sorted[i];
    while (from < unique && rc == 0) {
        uint32_t tablet = key_tablet(key_mix(sorted[from]), t->shape.tablet_bits);
        size_t to = from + 1;
        while (to < unique && key_tablet(key_mix(sorted[to]), t->shape.tablet_bits) == tablet)
            to++;
        rc = name_in_tablet(t, tablet, action, sorted + from, to - from, changed);
        from = to;
    }
    SHOAL_ASSERT(rc != 0 || from == unique);
    free(sorted);
    return rc;
}

bool table_keys_fit(const struct table *t, size_t count)
{
    for (uint32_t i = 0; i < t->tablet_count; i++)
        if (t->tablets[i].life != NULL && t->tablets[i].life->named.count + count > NAMED_MAX)
            return false;
    return true;
}
