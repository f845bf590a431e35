/* census.h: counts what is in a table: rows by field, histograms of weight norms, shows and ages,
 * and the rows that another rule would keep. It counts tablet by tablet, so that a shard may do it
 * in steps, and results of shards can be added.
 *
 * A histogram has a cell for each power of two: cell c counts values in [2^(c - 32), 2^(c - 31)),
 * the first cell also 0 and all below 2^-31, the last one also all above. An age is event time: the
 * later of the tablet's clock and its newest row's time, less the row's own time, as in ageing.
 * Rows whose pushes had no time are counted apart. Thread: the caller's. */
#ifndef EMBEDDING_CENSUS_H
#define EMBEDDING_CENSUS_H

#include "embedding/table.h"
#include "proto/base/json.h"

#define CENSUS_CELLS 64u

/* Another rule, to try out: it removes rows that have fewer shows, a lower score, or an age above
 * ttl. Each tablet then keeps what rules.age_capacity would keep with its share of `rows`, rounded
 * down: all rows up to the share, beyond it 15/16 of the share, and of these the newest, or those
 * with the highest score if the table's age_by says so (age_rank). 0: not used. */
struct census_ask {
    bool what_if;
    float shows, score;
    uint32_t ttl; /* seconds */
    uint64_t rows;
};

struct census; /* opaque */

/* USAGE: shows, score or ttl for a table without statistics. */
int census_new(const struct table_schema *schema, const struct census_ask *ask, struct census **out,
               struct err *e);
void census_free(struct census *c);
/* Counts one tablet of a table with that schema, in which the tablet has all its rows
 * (engine_whole). live: the engine's own table, which knows where each row is, or t itself. NOMEM:
 * nothing was counted. */
int census_add_tablet(struct census *c, const struct table *t, uint32_t tablet,
                      const struct table *live);
uint64_t census_rows(const struct census *c);

/* Members: table, values, rows, row_bytes, bytes (rows alone), memory_bytes (pages and index of
 * rows in memory), tier (rows in memory, and in store if there are any); named (of a sparse table:
 * keys by name that are erased, blocked, allowed); statistics; fields: field, rows, bytes, stored
 * (rows in the store, if there are any), with statistics shows and clicks, and with what_if kept;
 * norms, shows, ages: zero, cells [power, rows] that are not empty, and for ages untold; what_if:
 * rows, capacity (of the whole table, with ask.rows), bytes and (statistics) the share of the shows
 * that are kept. The caller frees it. */
struct json *census_json(const struct census *c);
/* Adds the census_json of the same table on another shard. DATA: j is not one. */
int census_add_json(struct census *c, const struct json *j, struct err *e);

/* Bytes of memory of a row with this many floats (schema_row_floats), including its share of an
 * index at mean load (tablet.h). */
double census_row_memory(uint32_t floats);

#endif
