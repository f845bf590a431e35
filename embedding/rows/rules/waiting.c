/* waiting.c: linear probing without tombstones: a removal moves up the entries behind it. */
#include "embedding/rows/rules/waiting.h"

#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/salt.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PLACES_FIRST 16u
#define FREE_PLACE (-1.0f)

static bool taken(const struct waiting_key *k)
{
    return k->show >= 0;
}

static uint32_t home_of(const struct waiting_half *h, uint64_t key)
{
    return (uint32_t)salt_mix(h->salt, key_mix(key)) & h->mask;
}

/* The key's place, or the free place where it belongs; a free one always exists. */
static uint32_t place_of(const struct waiting_half *h, uint64_t key)
{
    uint32_t at = home_of(h, key);
    while (taken(&h->place[at]) && h->place[at].key != key)
        at = (at + 1) & h->mask;
    return at;
}

static struct waiting_key *find(const struct waiting_half *h, uint64_t key)
{
    if (h->count == 0)
        return NULL;
    struct waiting_key *k = &h->place[place_of(h, key)];
    return taken(k) ? k : NULL;
}

static void half_clear(struct waiting_half *h)
{
    free(h->place);
    *h = (struct waiting_half){0};
}

void waiting_clear(struct waiting *w)
{
    half_clear(&w->young);
    half_clear(&w->old);
}

/* Doubles the places; at least a quarter is free. */
static int grow(struct waiting_half *h)
{
    bool first = h->place == NULL;
    struct waiting_half more = {.mask = first ? PLACES_FIRST - 1 : 2 * h->mask + 1,
                                .count = h->count,
                                .salt = first ? salt_draw() : h->salt};
    more.place = malloc((more.mask + 1ULL) * sizeof *more.place);
    if (more.place == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t i = 0; i <= more.mask; i++)
        more.place[i] = (struct waiting_key){0, FREE_PLACE, 0};
    for (uint32_t i = 0; !first && i <= h->mask; i++)
        if (taken(&h->place[i]))
            more.place[place_of(&more, h->place[i].key)] = h->place[i];
    SHOAL_ASSERT(more.count <= more.mask / 4 * 3); /* a free place ends every search */
    free(h->place);
    *h = more;
    return 0;
}

int waiting_put(struct waiting_half *h, const struct waiting_key *k)
{
    if ((h->place == NULL || h->count >= h->mask / 4 * 3) && grow(h) != 0)
        return SHOAL_E_NOMEM;
    SHOAL_VERIFY_ASSERT(!taken(&h->place[place_of(h, k->key)]));
    h->place[place_of(h, k->key)] = *k;
    h->count++;
    SHOAL_ASSERT(h->count <= h->mask / 4 * 3); /* a free place ends every search */
    return 0;
}

/* True when a key whose home is `home` may lie at `free` instead of `at`: free lies between the
 * two, modulo the table. */
static bool may_move(uint32_t home, uint32_t free_at, uint32_t at, uint32_t mask)
{
    return ((at - home) & mask) >= ((at - free_at) & mask);
}

static void half_forget(struct waiting_half *h, uint64_t key)
{
    struct waiting_key *k = find(h, key);
    if (k == NULL)
        return;
    uint32_t free_at = (uint32_t)(k - h->place);
    for (uint32_t at = (free_at + 1) & h->mask; taken(&h->place[at]); at = (at + 1) & h->mask)
        if (may_move(home_of(h, h->place[at].key), free_at, at, h->mask)) {
            h->place[free_at] = h->place[at];
            free_at = at;
        }
    h->place[free_at].show = FREE_PLACE;
    h->count--;
    SHOAL_VERIFY_ASSERT(find(h, key) == NULL);
}

struct waiting_key waiting_find(const struct waiting *w, uint64_t key)
{
    const struct waiting_key *k = find(&w->young, key);
    if (k == NULL)
        k = find(&w->old, key);

    if (k != NULL)
        return *k;

    return (struct waiting_key){.key = key};
}

int waiting_add(struct waiting *w, uint32_t limit, uint64_t key, float show, float click)
{
    struct waiting_key *k = find(&w->young, key);
    if (k != NULL) {
        k->show += show;
        k->click += click;
        return 0;
    }
    struct waiting_key fresh = waiting_find(w, key);
    fresh.show += show;
    fresh.click += click;
    half_forget(&w->old, key);
    if (waiting_put(&w->young, &fresh) != 0)
        return SHOAL_E_NOMEM;
    SHOAL_VERIFY_ASSERT(find(&w->old, key) == NULL); /* a key is in one of the two */
    if (w->young.count >= waiting_half_limit(limit))
        waiting_turn(w);
    return 0;
}

void waiting_forget(struct waiting *w, uint64_t key)
{
    half_forget(&w->young, key);
    half_forget(&w->old, key);
}

void waiting_turn(struct waiting *w)
{
    half_clear(&w->old);
    w->old = w->young;
    w->young = (struct waiting_half){0};
}

static uint64_t half_bytes(const struct waiting_half *h)
{
    SHOAL_ASSERT(h->place != NULL || h->count == 0);

    if (h->place == NULL)
        return 0;

    return (h->mask + 1ULL) * sizeof *h->place;
}

uint64_t waiting_bytes(const struct waiting *w)
{
    return half_bytes(&w->young) + half_bytes(&w->old);
}

void waiting_write(const struct waiting_half *h, void *out)
{
    char *at = out;
    for (uint32_t i = 0; h->place != NULL && i <= h->mask; i++)
        if (taken(&h->place[i])) {
            memcpy(at, &h->place[i], sizeof h->place[i]);
            at += sizeof h->place[i];
        }
    SHOAL_ASSERT((size_t)(at - (char *)out) == h->count * sizeof *h->place);
}
