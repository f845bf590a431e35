/* table_cold.h: rows of a tablet that are in the store and not in memory.
 *
 * A tablet has the keys of its cold rows in a set: 8 bytes for each key, open addressing, up to
 * four fifths full. The set tells without a look at the store whether a key has a row, and where. A
 * pair in the store whose key is not in the set is a leftover and never read. A row of the table is
 * either in the index or in the set.
 *
 * The value of a cold row's pair (stored.h) is the row's bytes as they were in memory and the
 * tablet's clock then. In a table that ages, a row that comes back ages by what the clock has moved
 * since (age_row): ageing depends only on the row, the number of boundaries passed and the last of
 * them, so late ageing has the same bits. Rows of dense tables and of tables with a capacity stay
 * in memory: every batch uses the first, and the second must be compared with each other.
 *
 * In the index each row has notes (tablet.h): whether the store has it unchanged, how often it was
 * used, and whether it was pulled and awaits its push. To make room, rows are chosen, the least
 * used first; those that the store does not have yet are written, with an image that lists them as
 * cold; then those that were not touched meanwhile are dropped. Neither notes nor tier are state:
 * digests ignore them.
 *
 * Thread: the shard's. */
#ifndef EMBEDDING_ROWS_TABLE_COLD_H
#define EMBEDDING_ROWS_TABLE_COLD_H

#include "embedding/table.h"

/* ---- queries ---- */
uint32_t table_cold_tablet(const struct table *t, uint32_t tablet);
uint32_t table_cold_epoch(const struct table *t, uint32_t tablet);
bool table_cold_has(const struct table *t, uint64_t key);
/* Copies those of keys (count) whose rows are cold, in order, to cold (count); returns their
 * number. */
size_t table_cold_among(const struct table *t, const uint64_t *keys, size_t count, uint64_t *cold);
/* Counts those of keys (count) that are in memory as used now: rows of one request must not leave
 * while it waits for the others. */
void table_cold_keep(struct table *t, const uint64_t *keys, size_t count);
/* Copies the keys of a tablet's cold rows, in any order, to keys (table_cold_tablet). */
void table_cold_keys(const struct table *t, uint32_t tablet, uint64_t *keys);
/* How often rows of the tablet have left memory. */
uint32_t table_cold_drops(const struct table *t, uint32_t tablet);
/* True when rows of the table have ever left memory since the start or a restore, or before: an
 * image may list some even if they are back. */
bool table_cold_was(const struct table *t);
/* True when rows of the table may leave memory at all. */
bool table_cold_may(const struct table *t);

/* ---- rows come in ---- */
/* Bytes of a pair's value: the row as in memory, and the clock (u32). */
size_t table_cold_bytes(const struct table *t);
/* Takes in a cold row with the value of its pair: it ages, and is then in the index and out of the
 * set; or it is gone for good if it expired. A key that is not cold is ignored. 0, CORRUPT (another
 * length) or NOMEM. */
int table_cold_take(struct table *t, uint64_t key, const void *value, size_t bytes);
/* That this key comes in soon: the processor fetches what it will look at. */
void table_cold_ahead(const struct table *t, uint64_t key);
/* For a reader: `into`, a table of the same schema, gets the aged row; t does not change. */
int table_cold_copy(const struct table *t, struct table *into, uint64_t key, const void *value,
                    size_t bytes);

/* ---- rows leave ---- */
/* Chooses about `most` rows to leave, the least used first; if too few were unused since they came,
 * the others count as less used from now on. Rows that await a push are spared, once. Calls put for
 * each row that the store does not have unchanged, with the contents of its pair (row_bytes, then
 * the clock); put NULL: chooses only rows that the store has. *chosen: their number. 0, or the
 * result of put. */
typedef int (*cold_put)(void *context, uint64_t key, const void *row, size_t row_bytes,
                        uint32_t clock);
int table_cold_choose(struct table *t, uint32_t tablet, uint32_t most, cold_put put, void *context,
                      uint32_t *chosen);
/* While `leaving`, images of the tablet list chosen rows as cold. 0 or NOMEM. */
int table_cold_leaving(struct table *t, uint32_t tablet, bool leaving);
/* Moves the chosen rows that were neither touched nor changed since from the index to the set.
 * *count: their number. 0 or NOMEM. */
int table_cold_drop(struct table *t, uint32_t tablet, uint32_t *count);
/* Keys of rows that went for good since the last clear; flush_put_gone deletes their pairs in the
 * batch of the tablet's next image. *keys is valid until the tablet changes. */
uint32_t table_cold_gone(const struct table *t, uint32_t tablet, const uint64_t **keys);
void table_cold_gone_clear(struct table *t, uint32_t tablet);

/* ---- restoring ---- */
/* Empties the tablet's set and starts this epoch; pairs of other epochs in the store are stale. 0
 * or NOMEM. */
int table_cold_begin(struct table *t, uint32_t tablet, uint32_t epoch);
/* Detaches the tablet from a store: no row is cold, and none counts as stored. The rows that are
 * cold now are lost. */
void table_cold_forget(struct table *t, uint32_t tablet);
/* Makes a key without a row cold: its pair is in the store under the tablet's epoch. 0 or NOMEM. */
int table_cold_add(struct table *t, uint64_t key);

/* table_cold_stale: the store may have pairs of the tablet under other epochs. The second call ends
 * that. */
bool table_cold_stale(const struct table *t, uint32_t tablet);
void table_cold_fresh(struct table *t, uint32_t tablet);

#endif
