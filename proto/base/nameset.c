/* nameset.c: an array in order of insertion, and a hash table of indices by open addressing. */
#include "proto/base/nameset.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/hash.h"

#include <stdlib.h>
#include <string.h>

#define PLACES_MIN 64u

struct nameset_item nameset_item(const char *name, size_t bytes)
{
    return (struct nameset_item){{hash_bytes(name, bytes, 1), hash_bytes(name, bytes, 2)}};
}

static bool same(const struct nameset_item *a, const struct nameset_item *b)
{
    return a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1];
}

/* The place of the item, or the free one for it. The table is never full. */
static uint32_t *place_of(const struct nameset *s, const struct nameset_item *item)
{
    uint32_t at = (uint32_t)item->hash[0] & (s->places - 1);
    while (s->place[at] != 0 && !same(&s->item[s->place[at] - 1], item))
        at = (at + 1) & (s->places - 1);
    return &s->place[at];
}

bool nameset_has(const struct nameset *s, struct nameset_item item)
{
    return s->places > 0 && *place_of(s, &item) != 0;
}

static void places_fill(struct nameset *s)
{
    memset(s->place, 0, s->places * sizeof *s->place);
    for (uint32_t i = 0; i < s->count; i++)
        *place_of(s, &s->item[i]) = i + 1;
}

/* Grows the table so that at most half of it is taken with one item more. */
static int places_room(struct nameset *s)
{
    uint32_t places = 2 * s->places;
    if (s->places == 0)
        places = PLACES_MIN;
    if (2 * (s->count + 1) <= s->places)
        return 0;
    uint32_t *place = malloc(places * sizeof *place);
    if (place == NULL)
        return SHOAL_E_NOMEM;
    free(s->place);
    s->place = place;
    s->places = places;
    places_fill(s);
    return 0;
}

int nameset_add(struct nameset *s, struct nameset_item item)
{
    if (nameset_has(s, item))
        return 0;
    if (s->count == NAMESET_MAX)
        return SHOAL_E_TOO_BIG;
    if (places_room(s) != 0 || array_room(&s->item, s->count, &s->capacity, PLACES_MIN) != 0)
        return SHOAL_E_NOMEM;
    s->item[s->count++] = item;
    *place_of(s, &item) = s->count;
    return 0;
}

int nameset_add_all(struct nameset *s, const void *from, size_t count)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        struct nameset_item item;
        memcpy(&item, (const char *)from + i * sizeof item, sizeof item);
        rc = nameset_add(s, item);
    }
    return rc;
}

void nameset_drop_last(struct nameset *s, uint32_t count)
{
    SHOAL_ASSERT(count <= s->count);
    s->count -= count;
    if (s->places > 0)
        places_fill(s);
}

uint32_t nameset_drop(struct nameset *s, const uint8_t *bits, uint32_t bits_count, uint32_t count)
{
    uint32_t kept = 0, gone = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        bool goes = gone < count && i < bits_count && (bits[i / 8] >> (i % 8) & 1) != 0;
        gone += goes;
        if (!goes)
            s->item[kept++] = s->item[i];
    }
    s->count = kept;
    if (s->places > 0)
        places_fill(s);
    return gone;
}

uint64_t nameset_digest(const struct nameset *s)
{
    return hash_bytes(s->item, s->count * sizeof *s->item, s->count);
}

void nameset_close(struct nameset *s)
{
    free(s->item);
    free(s->place);
    *s = (struct nameset){.count = 0};
}
