/* table_cold.h: rows of a tablet that are in the store and not in memory.
 *
 * A tablet keeps the keys of its cold rows in a set: 8 bytes a key, open addressing, up to four
 * fifths full. So it is known without a look at the store whether a key has a row, and where. What
 * is in the store for a key that is not in the set is a leftover and never read. A row of the table
 * is either in the index or in the set.
 *
 * A cold row's pair in the store (stored.h) is the row's bytes as they lay in memory and the
 * tablet's clock then. Where tablets age, a row that comes back ages by what the clock has moved
 * since (age_row): ageing looks at nothing but the row, the boundaries passed and the last of them,
 * so late is the same as in time, bit for bit. Rows of dense tables and of tables with a capacity
 * stay in memory: the first are used at each batch, the second must be compared with each other.
 *
 * In the index each row has notes (tablet.h): whether the store has it as it is, how often it was
 * used, and whether it was pulled and awaits its push. To make room: rows are chosen, the least
 * used first; those that the store does not have yet are written, with an image that lists them as
 * cold; then those that nobody has touched meanwhile are dropped. Neither notes nor tier are state:
 * digests ignore them.
 *
 * Thread: the shard's. */
#ifndef EMBEDDING_ROWS_TABLE_COLD_H
#define EMBEDDING_ROWS_TABLE_COLD_H

#include "embedding/table.h"

/* ---- what there is ---- */
uint32_t table_cold_tablet(const struct table *t, uint32_t tablet);
uint32_t table_cold_epoch(const struct table *t, uint32_t tablet);
bool table_cold_has(const struct table *t, uint64_t key);
/* Those of keys (count) whose rows are cold, in order, to cold (count); how many. */
size_t table_cold_among(const struct table *t, const uint64_t *keys, size_t count, uint64_t *cold);
/* Those of keys (count) that are in memory count as used now: rows of one request must not leave
 * while it waits for the others. */
void table_cold_keep(struct table *t, const uint64_t *keys, size_t count);
/* The keys of a tablet's cold rows, in no order, to keys (table_cold_tablet). */
void table_cold_keys(const struct table *t, uint32_t tablet, uint64_t *keys);
/* Times that rows of the tablet have left memory. */
uint32_t table_cold_drops(const struct table *t, uint32_t tablet);
/* Whether rows of the table have left memory since the start or a restore, or had before: an image
 * may list some, be they back. */
bool table_cold_was(const struct table *t);
/* Whether rows of the table may leave memory at all. */
bool table_cold_may(const struct table *t);

/* ---- coming in ---- */
/* Bytes of a pair's value: the row as it lay in memory, and the clock (u32). */
size_t table_cold_bytes(const struct table *t);
/* A cold row comes in with the value of its pair: aged, it is in the index and out of the set; or
 * it is gone for good, if it did not outlast its ageing. A key that is not cold: nothing. 0,
 * CORRUPT (another length) or NOMEM. */
int table_cold_take(struct table *t, uint64_t key, const void *value, size_t bytes);
/* That this key comes in soon: the processor fetches what it will look at. */
void table_cold_ahead(const struct table *t, uint64_t key);
/* The same for a reader: `into`, a table of the same schema, gets the row, aged; t does not
 * change. */
int table_cold_copy(const struct table *t, struct table *into, uint64_t key, const void *value,
                    size_t bytes);

/* ---- leaving ---- */
/* Chooses rows to go, about `most`, the least used first; when too few of them were not used again
 * since they came, the others count as less used from now on. Rows that await a push are spared,
 * once. put is called for each that the store does not have as it is, with what its pair is to hold
 * (row_bytes, then the clock); NULL: only rows that the store has are chosen. *chosen: how many. 0,
 * or what put returned. */
typedef int (*cold_put)(void *context, uint64_t key, const void *row, size_t row_bytes,
                        uint32_t clock);
int table_cold_choose(struct table *t, uint32_t tablet, uint32_t most, cold_put put, void *context,
                      uint32_t *chosen);
/* Images of the tablet list chosen rows as cold from `leaving` on, until not. 0 or NOMEM. */
int table_cold_leaving(struct table *t, uint32_t tablet, bool leaving);
/* Rows that were chosen and have been neither touched nor changed since leave the index for the
 * set. *count: how many. 0 or NOMEM. */
int table_cold_drop(struct table *t, uint32_t tablet, uint32_t *count);
/* Keys of rows that went for good since the last clear, whose pairs flush_put_gone deletes in the
 * batch of the tablet's next image; *keys lives until the tablet changes. */
uint32_t table_cold_gone(const struct table *t, uint32_t tablet, const uint64_t **keys);
void table_cold_gone_clear(struct table *t, uint32_t tablet);

/* ---- restoring ---- */
/* The tablet's set is empty from now on and of that epoch; what the store has of other epochs is
 * stale. 0 or NOMEM. */
int table_cold_begin(struct table *t, uint32_t tablet, uint32_t epoch);
/* The tablet knows of no store: nothing is cold, and no row counts as stored. What is cold now is
 * lost. */
void table_cold_forget(struct table *t, uint32_t tablet);
/* Makes a key that has no row cold: its pair is in the store under the tablet's epoch. 0 or
 * NOMEM. */
int table_cold_add(struct table *t, uint64_t key);

/* Whether pairs of the tablet under other epochs may be in the store; no longer. */
bool table_cold_stale(const struct table *t, uint32_t tablet);
void table_cold_fresh(struct table *t, uint32_t tablet);

#endif
