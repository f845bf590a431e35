/* cold.h: the set of keys of a tablet whose rows are in the store (table_cold.h). Thread: the
 * shard's. */
#ifndef EMBEDDING_ROWS_COLD_H
#define EMBEDDING_ROWS_COLD_H

#include "embedding/rows/arena_inner.h"
#include "embedding/table.h"

struct cold {
    uint64_t *slot; /* owned; (slots), mixed keys; 0: free */
    uint64_t salt;  /* of their homes; 0: none, as in a tablet (tablet.h) */
    uint32_t slots, used;
    uint32_t count; /* rows: used, and one more with `zero` */
    uint32_t unit;  /* where slots lie, if in the arena's units */
    bool zero;      /* key 0, whose mixed key is 0, is in it */
    bool stale;     /* pairs of other epochs may be in the store */
    bool was;       /* rows have been in it, or an image has listed some, since it began */
    /* an image written now lists the chosen rows as cold: set around it by who writes their pairs
     * with it */
    bool leaving;
    /* part of the pairs' keys: a restored tablet begins a new one, so that rows of before are not
     * taken for its own */
    uint32_t epoch;
    /* the first clock that the tablet had after rows had left without one; 0: none yet */
    uint32_t began;
    /* times that rows have left memory: what was read from the store before may be old */
    uint32_t drops;
    /* owned; (gone_count): keys of rows that went for good and may have a pair left in the store */
    uint64_t *gone;
    uint32_t gone_count, gone_room;
};

void cold_free(struct cold *c, struct arena *a);  /* NULL: nothing */
uint64_t cold_set_bytes(const struct cold *c);    /* of keys; NULL: 0 */
uint64_t cold_beside_bytes(const struct cold *c); /* memory that is not the arena's; NULL: 0 */
int cold_gone_add(struct cold *c, uint64_t key);  /* 0 or NOMEM */
/* a cold row goes for good; another key: nothing. 0 or NOMEM */
int cold_erase(struct table *t, uint64_t key);
struct tablet;
int cold_new(struct tablet *own, uint32_t epoch, uint32_t began); /* an empty set; 0 or NOMEM */
bool cold_has(const struct cold *c, uint32_t tablet_bits, uint64_t key);
/* Room for `count` keys, before they come: in the order of another set they would fill a small one
 * from its beginning, each behind all others. 0 or NOMEM. */
int cold_reserve(struct cold *c, struct arena *a, uint32_t tablet_bits, uint32_t count);
/* one that is not in it; 0 or NOMEM */
int cold_add(struct cold *c, struct arena *a, uint32_t tablet_bits, uint64_t key);

#endif
