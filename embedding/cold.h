/* cold.h: rows of a tablet that are in the store and not in memory.
 *
 * A tablet keeps the keys of its cold rows in a set: 8 bytes a key, open addressing. So it is known without a look at the
 * store whether a key has a row, and where. What is in the store for a key that is not in the set is a leftover and never
 * read. A row of the table is either in the index or in the set.
 *
 * A cold row's pair in the store (stored.h) is the row's bytes as they lay in memory and the tablet's clock then. Where
 * tablets age, a row that comes back ages by what the clock has moved since (age_row): ageing looks at nothing but the
 * row, the boundaries passed and the last of them, so late is the same as in time, bit for bit.
 *
 * In the index each row has two more things: whether the store has it as it is (`stored`: it may go without a write), and
 * how lately it was used (`heat`: 3 when touched, one less at each look of who chooses rows to go). Neither is state:
 * digests, images and followers ignore them. Thread: the shard's. */
#ifndef EMBEDDING_COLD_H
#define EMBEDDING_COLD_H

#include "embedding/slab.h"
#include "embedding/table.h"

struct cold {
    uint64_t *slot; /* owned; (slots), mixed keys; 0: free */
    uint32_t slots, count;
    uint32_t unit;  /* where they lie, if in the arena's units */
    bool zero;      /* whether key 0, whose mixed key is 0, is in it */
    uint32_t epoch; /* part of the pairs' keys: a restored tablet begins a new one, so that rows of before are not taken for its own */
    uint32_t drops; /* times that rows have left memory: what was read from the store before may be old */
    uint64_t *gone; /* owned; (gone_count): keys of rows that went for good and may have a pair left in the store */
    uint32_t gone_count, gone_room;
};

/* ---- for the engine (tier.c, flush.c, recover.c) and what reads whole tables ---- */
uint64_t table_cold_rows(const struct table *t);
uint32_t table_tablet_cold(const struct table *t, uint32_t tablet);
uint32_t table_cold_epoch(const struct table *t, uint32_t tablet);
/* Bytes of a pair's value: the row and the clock. */
size_t table_cold_bytes(const struct table *t);
bool table_cold_has(const struct table *t, uint64_t key);
/* Those of keys (count) whose rows are cold, in order, to cold (count); how many. */
size_t table_cold_among(const struct table *t, const uint64_t *keys, size_t count, uint64_t *cold);
/* The keys of a tablet's cold rows, in no order, to keys (table_tablet_cold). */
void table_cold_keys(const struct table *t, uint32_t tablet, uint64_t *keys);
/* A cold row comes in with the value of its pair (table_cold_bytes long): aged, it is in the index and out of the set, or gone for good if
 * it did not outlast its ageing. A key that is not cold: nothing. 0, CORRUPT (another length) or NOMEM. */
int table_cold_take(struct table *t, uint64_t key, const void *value, size_t bytes);
/* The same without ageing or leaving the set: `into` (a table of the same schema, such as engine_whole's) gets the row, aged as of t's clock. */
int table_cold_copy(const struct table *t, struct table *into, uint64_t key, const void *value, size_t bytes);

/* Rows to go, at most `most`, the least heat first; others lose heat. Not those that changed since the undo's clock. Each: where
 * `stored` is not set, `put` is called with the value of its pair and the row counts as stored from then on. Returns how many were
 * chosen (put or not), or UINT32_MAX: put failed. They stay in memory until table_cold_drop. */
typedef int (*cold_put)(void *context, uint64_t key, const void *value, size_t bytes);
uint32_t table_cold_choose(struct table *t, uint32_t tablet, uint32_t most, cold_put put, void *context);
/* Rows that were chosen and have been neither touched nor changed since leave the index for the set. *count: how many. 0 or NOMEM. */
int table_cold_drop(struct table *t, uint32_t tablet, uint32_t *count);
/* The whole set moves into a new epoch and is empty: whoever restores a tablet. 0 or NOMEM. */
int table_cold_begin(struct table *t, uint32_t tablet, uint32_t epoch);
/* Makes key cold: whoever restores a tablet from rows that are already in the store. 0 or NOMEM. */
int table_cold_add(struct table *t, uint64_t key);
/* Keys whose pairs may be deleted, and then that they have been. */
uint32_t table_cold_gone(const struct table *t, uint32_t tablet, const uint64_t **keys);
void table_cold_gone_clear(struct table *t, uint32_t tablet, uint32_t count); /* the first `count` of them */

#endif
