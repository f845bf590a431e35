/* waiting.h: keys of one tablet that have no row yet, with what has been seen of them: exact, and
 * bounded.
 *
 * Two generations. A key that is seen lies in the young one, moved there if it was old, with its
 * counts. When the young one has half of what is allowed, or the tablet ages, the old one is
 * forgotten and the young one becomes old: so what is forgotten has not been seen for at least that
 * long, and memory has a bound whatever keys come. A key stands in at most one of the two. Owned by
 * its tablet, part of its image. Thread: the shard's. */
#ifndef EMBEDDING_ROWS_RULES_WAITING_H
#define EMBEDDING_ROWS_RULES_WAITING_H

#include <stddef.h>
#include <stdint.h>

#define WAITING_DEFAULT 65536u /* keys of a tablet, when its table does not say */

struct waiting_key {
    uint64_t key;
    /* sums; show also counts appearances where pushes carry no shows. In memory: show < 0 is a free
     * place */
    float show, click;
};
_Static_assert(sizeof(struct waiting_key) == 16, "waiting_key is a disk format");

struct waiting_half {
    /* owned; open addressing by mixed key and salt, (mask + 1), NULL while empty */
    struct waiting_key *place;
    uint64_t salt;
    uint32_t mask, count;
};

struct waiting {
    struct waiting_half young, old;
};

void waiting_clear(struct waiting *w); /* gives everything back */
/* What is known of the key; zeros when nothing. */
struct waiting_key waiting_find(const struct waiting *w, uint64_t key);
/* Adds to what is known of the key. limit: keys allowed, both generations together. 0 or
 * SHOAL_E_NOMEM. */
int waiting_add(struct waiting *w, uint32_t limit, uint64_t key, float show, float click);
void waiting_forget(struct waiting *w, uint64_t key);
/* The old generation goes, the young one is old. */
void waiting_turn(struct waiting *w);
static inline uint32_t waiting_count(const struct waiting *w)
{
    return w->young.count + w->old.count;
}
uint64_t waiting_bytes(const struct waiting *w);
/* Most keys that one generation can have. */
static inline uint32_t waiting_half_limit(uint32_t limit)
{
    if (limit > 1)
        return limit / 2;

    return 1;
}

/* For images: the keys of one generation, in no order that matters, to `out` (count; at any
 * address), and one put back: 0 or SHOAL_E_NOMEM. */
void waiting_write(const struct waiting_half *h, void *out);
int waiting_put(struct waiting_half *h, const struct waiting_key *k);

#endif
