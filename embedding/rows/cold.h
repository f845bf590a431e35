/* cold.h: the set of keys of a tablet whose rows are in the store (table_cold.h). Thread: the
 * shard's. */
#ifndef EMBEDDING_ROWS_COLD_H
#define EMBEDDING_ROWS_COLD_H

#include "embedding/rows/arena_inner.h"
#include "embedding/table.h"

struct cold {
    uint64_t *slot; /* owned; (slots): mixed keys; 0: free */
    uint64_t salt;  /* salt of the keys' homes; 0: none, as in a tablet (tablet.h) */
    uint32_t slots, used;
    uint32_t count; /* number of rows: used, plus one with `zero` */
    uint32_t unit;  /* first unit of the slots, if they are in the arena */
    bool zero;      /* key 0, whose mixed key is 0, is in the set */
    bool stale;     /* the store may have pairs of other epochs */
    bool was;       /* rows have been in it, or an image has listed some, since it was made */
    /* an image written now lists the chosen rows as cold; set by the code that writes their pairs
     * with that image */
    bool leaving;
    /* part of the pairs' keys: a restored tablet begins a new one, so that rows of before are not
     * taken for its own */
    uint32_t epoch;
    /* the tablet's first clock after rows had left without one; 0: none yet */
    uint32_t began;
    /* how often rows have left memory: data read from the store before that may be old */
    uint32_t drops;
    /* owned; (gone_count): keys of rows that went for good and may still have a pair in the
     * store */
    uint64_t *gone;
    uint32_t gone_count, gone_room;
};

struct tablet_shape;
void cold_free(struct cold *c, const struct tablet_shape *s); /* c NULL is allowed */
uint64_t cold_set_bytes(const struct cold *c);                /* bytes of keys; NULL: 0 */
uint64_t cold_beside_bytes(const struct cold *c);             /* bytes outside the arena; NULL: 0 */
int cold_gone_add(struct cold *c, uint64_t key);              /* 0 or NOMEM */
/* drops a cold row for good; ignores other keys; 0 or NOMEM */
int cold_erase(struct table *t, uint64_t key);
struct tablet;
int cold_new(struct tablet *own, uint32_t epoch, uint32_t began); /* an empty set; 0 or NOMEM */
bool cold_has(const struct cold *c, uint32_t tablet_bits, uint64_t key);
/* Makes room for `count` keys before they come: in the order of another set they would fill a small
 * one from its beginning, each behind all others. 0 or NOMEM. */
int cold_reserve(struct cold *c, const struct tablet_shape *s, uint32_t count);
/* adds a key that is not in the set; 0 or NOMEM */
int cold_add(struct cold *c, const struct tablet_shape *s, uint64_t key);

#endif
