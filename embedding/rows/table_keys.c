/* table_keys.c: table_keys: names keys and applies the consequences; removes rows of keys and of
 * whole fields. */
#include "embedding/rows/table_cold.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"

#include <stdlib.h>
#include <string.h>

static bool is_named_to_stay(void *context, uint64_t key, float *row)
{
    (void)row;
    return named_find(context, key) != NAME_ERASED;
}

/* Drops the undo entries of rows that go. */
static int undo_keep(struct tablet *own, table_stays stays, void *context)
{
    struct undo *old = own->undo;
    if (old == NULL)
        return 0;
    struct undo *fresh = undo_new(old->width);
    if (fresh == NULL)
        return SHOAL_E_NOMEM;
    undo_begin(fresh, old->clock, old->from);
    int rc = 0;
    for (uint32_t i = 0; i < old->count && rc == 0; i++)
        if (stays(context, old->keys[i], NULL))
            rc = undo_save(fresh, old->keys[i], old->weights + (size_t)i * old->width);
    SHOAL_ASSERT(fresh->count <= old->count && fresh->clock == old->clock);
    if (rc != 0) {
        undo_free(fresh);
        return rc;
    }
    undo_free(old);
    own->undo = fresh;
    return 0;
}

/* ---- rows of keys ---- */

struct keys { /* (count), in the order of key_mix */
    const uint64_t *list;
    size_t count;
};

static bool is_of_no_key(void *context, uint64_t key, float *row)
{
    const struct keys *k = context;
    (void)row;
    return bsearch(&key, k->list, k->count, sizeof *k->list, key_by_mixed) == NULL;
}

/* Removes the rows of keys (count) of the tablet; *rows: their number. */
static int evict_in_tablet(struct table *t, uint32_t tablet, const uint64_t *keys, size_t count,
                           uint64_t *rows)
{
    struct keys evicted = {keys, count};
    uint64_t gone = 0;
    for (size_t i = 0; i < count; i++) {
        *rows += table_cold_has(t, keys[i]);
        if (cold_erase(t, keys[i]) != 0)
            return SHOAL_E_NOMEM;
    }
    int rc = table_keep(t, tablet, is_of_no_key, &evicted, 0, &gone);
    *rows += gone;
    if (rc != 0)
        return rc;

    return undo_keep(&t->tablets[tablet], is_of_no_key, &evicted);
}

/* ---- whole fields ---- */

static bool is_of_another(void *context, uint64_t key, float *row)
{
    (void)row;
    return !table_fields_have(context, key);
}

static int cold_drop(struct table *t, uint32_t tablet, const uint64_t *fields, uint64_t *rows)
{
    uint32_t count = table_cold_tablet(t, tablet);
    uint64_t *keys = malloc((count + 1ULL) * sizeof *keys);
    int rc = 0;
    if (keys == NULL)
        return SHOAL_E_NOMEM;
    table_cold_keys(t, tablet, keys);
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        if (!table_fields_have(fields, keys[i]))
            continue;
        rc = cold_erase(t, keys[i]);
        ++*rows;
    }
    free(keys);
    return rc;
}

static int waiting_drop(struct waiting *w, const struct waiting_half *half, const uint64_t *fields)
{
    uint32_t count = half->count;
    struct waiting_key *list = malloc((count + 1ULL) * sizeof *list);
    if (list == NULL)
        return SHOAL_E_NOMEM;
    waiting_write(half, list);
    for (uint32_t i = 0; i < count; i++)
        if (table_fields_have(fields, list[i].key))
            waiting_forget(w, list[i].key);
    free(list);
    return 0;
}

static int named_drop(struct named *n, const uint64_t *fields)
{
    uint64_t changed, *keys = malloc((n->count + 1ULL) * sizeof *keys);
    size_t count = 0;
    if (keys == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t i = 0; i < n->count; i++)
        if (table_fields_have(fields, n->list[i].key))
            keys[count++] = n->list[i].key;
    int rc = 0;
    if (count > 0)
        rc = named_set(n, keys, count, NAME_NONE, &changed);

    free(keys);
    return rc;
}

/* Drops the fields of the keys (count) from the tablet. */
static int drop_in_tablet(struct table *t, uint32_t tablet, enum key_action action,
                          const uint64_t *keys, size_t count, uint64_t *rows)
{
    uint64_t fields[LIMIT_FIELDS / 64] = {0}, gone = 0;
    struct tablet_life *life = t->tablets[tablet].life;
    for (size_t i = 0; i < count; i++)
        if (key_field(keys[i]) < LIMIT_FIELDS)
            fields[key_field(keys[i]) / 64] |= UINT64_C(1) << key_field(keys[i]) % 64;
    int rc = cold_drop(t, tablet, fields, rows);
    if (rc == 0)
        rc = table_keep(t, tablet, is_of_another, fields, 0, &gone);
    *rows += gone;
    if (rc == 0)
        rc = undo_keep(&t->tablets[tablet], is_of_another, fields);
    if (rc == 0 && life != NULL)
        rc = waiting_drop(&life->waiting, &life->waiting.young, fields);
    if (rc == 0 && life != NULL)
        rc = waiting_drop(&life->waiting, &life->waiting.old, fields);
    if (rc == 0 && life != NULL && action == KEY_DROP)
        return named_drop(&life->named, fields);

    return rc;
}

/* ---- checking the keys ---- */

struct found {
    uint64_t left[LIMIT_FIELDS / 64]; /* fields without a row so far */
    uint64_t *keys;
    uint32_t count;
};

static void see(struct found *f, uint64_t key)
{
    if (!table_fields_have(f->left, key))
        return;
    SHOAL_ASSERT(f->count < LIMIT_FIELDS);
    f->left[key_field(key) / 64] &= ~(UINT64_C(1) << key_field(key) % 64);
    f->keys[f->count++] = key;
}

static int see_waiting(struct found *f, const struct waiting_half *half)
{
    struct waiting_key *list = malloc((half->count + 1ULL) * sizeof *list);
    if (list == NULL)
        return SHOAL_E_NOMEM;
    waiting_write(half, list);
    for (uint32_t i = 0; i < half->count; i++)
        see(f, list[i].key);
    free(list);
    return 0;
}

static int see_cold(struct found *f, const struct table *t, uint32_t tablet)
{
    uint32_t count = table_cold_tablet(t, tablet);
    uint64_t *keys = malloc((count + 1ULL) * sizeof *keys);
    if (keys == NULL)
        return SHOAL_E_NOMEM;
    table_cold_keys(t, tablet, keys);
    for (uint32_t i = 0; i < count; i++)
        see(f, keys[i]);
    free(keys);
    return 0;
}

int table_keys_of(const struct table *t, uint32_t tablet, const uint64_t *fields, uint64_t *keys,
                  uint32_t *count)
{
    const struct tablet *own = &t->tablets[tablet];
    struct found f = {.keys = keys};
    SHOAL_ASSERT(tablet < t->tablet_count);
    memcpy(f.left, fields, sizeof f.left);
    for (uint32_t b = 0; b < own->bucket_count; b++)
        for (uint32_t i = 0; i < own->buckets[b].count; i++)
            see(&f, own->buckets[b].key[i]);
    int rc = see_cold(&f, t, tablet);
    if (rc == 0 && own->life != NULL)
        rc = see_waiting(&f, &own->life->waiting.young);
    if (rc == 0 && own->life != NULL)
        rc = see_waiting(&f, &own->life->waiting.old);
    for (uint32_t i = 0; own->life != NULL && i < own->life->named.count; i++)
        see(&f, own->life->named.list[i].key);
    *count = f.count;
    return rc;
}

/* ---- naming keys ---- */

/* keys: of one tablet, sorted, each once. */
static int name_in_tablet(struct table *t, uint32_t tablet, enum key_action action,
                          const uint64_t *keys, size_t count, uint64_t *changed)
{
    static const enum name_kind kind_of[] = {[KEY_ERASE] = NAME_ERASED,
                                             [KEY_BLOCK] = NAME_BLOCKED,
                                             [KEY_ALLOW] = NAME_ALLOWED,
                                             [KEY_RESET] = NAME_NONE};
    SHOAL_ASSERT((unsigned)action <= KEY_EVICT && count > 0);
    if (action == KEY_EVICT)
        return evict_in_tablet(t, tablet, keys, count, changed);
    if (action == KEY_FRESH || action == KEY_DROP)
        return drop_in_tablet(t, tablet, action, keys, count, changed);
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
    if (rc != 0)
        return rc;

    return undo_keep(&t->tablets[tablet], is_named_to_stay, &life->named);
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
    qsort(sorted, n, sizeof *sorted, key_by_mixed);
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
