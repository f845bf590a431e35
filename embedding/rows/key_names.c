/* key_names.c: takes names out of tablets and puts them back. */
#include "embedding/rows/key_names.h"
#include "proto/base/key.h"

#include "embedding/rows/table_inner.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"

#include <stdlib.h>
#include <string.h>

static const struct named *named_of(const struct table *t, uint32_t tablet)
{
    static const struct named none;
    SHOAL_ASSERT(tablet < t->tablet_count);
    const struct tablet_life *life = t->tablets[tablet].life;

    if (life == NULL)
        return &none;

    return &life->named;
}

int key_names_take(struct key_names *n, struct table *t, uint32_t tablet)
{
    const struct named *from = named_of(t, tablet);
    if (array_room(&n->tablet, n->count, &n->room, 64) != 0)
        return SHOAL_E_NOMEM;
    struct named_key *list = malloc((from->count + 1) * sizeof *list);
    if (list == NULL)
        return SHOAL_E_NOMEM;
    if (from->count > 0)
        memcpy(list, from->list, from->count * sizeof *list);
    n->tablet[n->count++] = (struct key_names_of_tablet){t, tablet, from->count, list};
    return 0;
}

/* Gives a name to the keys of the list that have it; with NAME_NONE to all. */
static int name_all(struct table *t, const struct named_key *list, uint32_t count,
                    enum name_kind kind, enum key_action action)
{
    uint64_t changed, *keys = malloc((count + 1) * sizeof *keys);
    uint32_t n = 0;
    if (keys == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        if (kind == NAME_NONE || list[i].kind == kind)
            keys[n++] = list[i].key;
    int rc = 0;
    if (n != 0)
        rc = table_keys(t, action, keys, n, NULL, &changed);

    free(keys);
    return rc;
}

int key_names_give(const struct key_names *all, uint32_t i)
{
    SHOAL_ASSERT(i < all->count);
    const struct key_names_of_tablet *n = &all->tablet[i];
    const struct named *now = named_of(n->table, n->tablet);
    int rc = 0;
    if (now->count != 0)
        rc = name_all(n->table, now->list, now->count, NAME_NONE, KEY_RESET);
    if (rc == 0)
        rc = name_all(n->table, n->list, n->count, NAME_ERASED, KEY_ERASE);
    if (rc == 0)
        rc = name_all(n->table, n->list, n->count, NAME_BLOCKED, KEY_BLOCK);
    if (rc == 0)
        rc = name_all(n->table, n->list, n->count, NAME_ALLOWED, KEY_ALLOW);
    SHOAL_ASSERT(rc != 0 || named_of(n->table, n->tablet)->count == n->count);
    return rc;
}

void key_names_free(struct key_names *n)
{
    for (uint32_t i = 0; i < n->count; i++)
        free(n->tablet[i].list);
    free(n->tablet);
    *n = (struct key_names){0};
}

_Static_assert(NAMED_MAX * sizeof(struct named_key) <= LIMIT_FRAME_BYTES / 2,
               "names leave an image room for its rows");

/* The place in the list of the first key that is mixed to `from` or more. */
static uint32_t first_from(const struct named *n, uint64_t from)
{
    uint32_t low = 0, high = n->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (key_mix(n->list[middle].key) < from)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t table_names(const struct table *t, uint32_t tablet, uint64_t from, struct table_name *out,
                     uint32_t room)
{
    static const enum key_action action[] = {
        [NAME_ERASED] = KEY_ERASE, [NAME_BLOCKED] = KEY_BLOCK, [NAME_ALLOWED] = KEY_ALLOW};
    const struct named *n = named_of(t, tablet);
    uint32_t first = 0, count = 0;
    if (n->count > 0)
        first = first_from(n, from);
    for (; count < room && first + count < n->count; count++) {
        const struct named_key *k = &n->list[first + count];
        SHOAL_ASSERT(k->kind >= NAME_ERASED && k->kind <= NAME_ALLOWED);
        out[count] = (struct table_name){k->key, action[k->kind]};
    }
    return count;
}

const char *key_names_of(const struct table *t, uint64_t key)
{
    static const char *const text[] = {[NAME_NONE] = NULL,
                                       [NAME_ERASED] = "erased",
                                       [NAME_BLOCKED] = "blocked",
                                       [NAME_ALLOWED] = "allowed"};
    const struct named *n = named_of(t, key_tablet(key_mix(key), t->shape.tablet_bits));

    if (n->count == 0)
        return NULL;

    return text[named_find(n, key)];
}
