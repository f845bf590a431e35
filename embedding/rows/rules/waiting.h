/* waiting.h: keys of one tablet without a row, with exact counts of what was seen of them, in
 * bounded memory.
 *
 * Two generations. A key that is seen goes to the young one, with its counts if it was in the old
 * one. When the young one has half of the allowed keys, or the tablet ages, the old one is
 * forgotten and the young one becomes old. A forgotten key was therefore not seen for at least that
 * long, and memory is bounded for any keys. A key is in at most one of the two. Owned by its
 * tablet, part of its image. Thread: the shard's. */
#ifndef EMBEDDING_ROWS_RULES_WAITING_H
#define EMBEDDING_ROWS_RULES_WAITING_H

#include <stddef.h>
#include <stdint.h>

#define WAITING_DEFAULT 65536u /* keys of a tablet whose table sets no limit */

struct waiting_key {
    uint64_t key;
    /* Sums; show also counts appearances where pushes have no shows. In memory show < 0 marks a
     * free place. */
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

void waiting_clear(struct waiting *w); /* frees everything */
/* The counts of a key; zeros: it does not wait. */
struct waiting_key waiting_find(const struct waiting *w, uint64_t key);
/* Adds to the counts of a key. limit: keys of both generations together. 0 or SHOAL_E_NOMEM. */
int waiting_add(struct waiting *w, uint32_t limit, uint64_t key, float show, float click);
void waiting_forget(struct waiting *w, uint64_t key);
/* Forgets the old generation; the young one becomes old. */
void waiting_turn(struct waiting *w);
static inline uint32_t waiting_count(const struct waiting *w)
{
    return w->young.count + w->old.count;
}
uint64_t waiting_bytes(const struct waiting *w);
/* Most keys of one generation. */
static inline uint32_t waiting_half_limit(uint32_t limit)
{
    if (limit > 1)
        return limit / 2;

    return 1;
}

/* For images: writes the keys of one generation, in any order, to `out` (count; any address), and
 * puts one back: 0 or SHOAL_E_NOMEM. */
void waiting_write(const struct waiting_half *h, void *out);
int waiting_put(struct waiting_half *h, const struct waiting_key *k);

#endif
