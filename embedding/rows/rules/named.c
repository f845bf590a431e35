/* named.c: searches and changes the list of names. */
#include "embedding/rows/rules/named.h"

#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/key.h"

#include <stdlib.h>
#include <string.h>

void named_clear(struct named *n)
{
    free(n->list);
    *n = (struct named){0};
}

enum name_kind named_find(const struct named *n, uint64_t key)
{
    uint64_t mixed = key_mix(key);
    uint32_t low = 0, high = n->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (key_mix(n->list[middle].key) < mixed)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < n->count && n->list[low].key == key)
        return (enum name_kind)n->list[low].kind;

    return NAME_NONE;
}

int named_set(struct named *n, const uint64_t *keys, size_t count, enum name_kind kind,
              uint64_t *changed)
{
    struct named_key *list = malloc((n->count + count + 1) * sizeof *list);
    uint32_t out = 0, at = 0;
    if (list == NULL)
        return SHOAL_E_NOMEM;
    SHOAL_ASSERT(kind <= NAME_ALLOWED);
    *changed = 0;
    for (size_t i = 0; i < count; i++) {
        SHOAL_ASSERT(i == 0 || key_mix(keys[i - 1]) < key_mix(keys[i]));
        while (at < n->count && key_mix(n->list[at].key) < key_mix(keys[i]))
            list[out++] = n->list[at++];
        enum name_kind before = NAME_NONE;
        if (at < n->count && n->list[at].key == keys[i])
            before = (enum name_kind)n->list[at++].kind;
        if (kind != NAME_NONE)
            list[out++] = (struct named_key){keys[i], (uint32_t)kind, 0};
        *changed += before != kind;
    }
    while (at < n->count)
        list[out++] = n->list[at++];
    SHOAL_ASSERT(out <= n->count + count && *changed <= count);
    SHOAL_ASSERT(out + count >= n->count); /* no other key's name is lost */
    free(n->list);
    n->list = list;
    n->count = out;
    if (out == 0)
        named_clear(n);
    return 0;
}
