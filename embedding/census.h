/* census.h: what is in a table: rows by field, histograms of weight norms, of shows, of ages, and
 * what another rule would keep. Counted tablet by tablet, so that a shard may do it in steps, and
 * added up over shards.
 *
 * Histograms have a cell for each power of two: cell c holds what lies in [2^(c - 32), 2^(c - 31)),
 * the first one 0 and all below 2^-31, the last one all above. Age is event time: the tablet's
 * clock (or its newest row's time) less the row's own, as ageing sees it; rows whose pushes told no
 * time are counted apart. Thread: the caller's. */
#ifndef EMBEDDING_CENSUS_H
#define EMBEDDING_CENSUS_H

#include "embedding/table.h"
#include "proto/base/json.h"

#define CENSUS_CELLS 64u

/* Another rule, tried out: rows go that have fewer shows, a lower score, or an age above ttl; then
 * each tablet keeps what it would with its share of `rows`, rounded down, as rules.age_capacity:
 * all up to the share, past it 15/16 of the share, the newest ones, or those of the highest score
 * where the table's age_by says so (age_rank). 0: not asked. */
struct census_ask {
    bool what_if;
    float shows, score;
    uint32_t ttl; /* seconds */
    uint64_t rows;
};

struct census; /* opaque */

/* USAGE: shows, score or ttl of a table without statistics. */
int census_new(const struct table_schema *schema, const struct census_ask *ask, struct census **out,
               struct err *e);
void census_free(struct census *c);
/* Counts one tablet of a table of that schema, in which it has all its rows (engine_whole); live:
 * the engine's own table, which knows where each lies, or t itself. NOMEM: nothing was counted. */
int census_add_tablet(struct census *c, const struct table *t, uint32_t tablet,
                      const struct table *live);
uint64_t census_rows(const struct census *c);

/* Members: table, values, rows, row_bytes, bytes (rows alone), memory_bytes (pages and index of
 * those in memory), tier (rows by where they lie: memory, and store where there are any),
 * statistics; fields: field, rows, bytes, stored (rows of them in the store, where there are any),
 * with statistics shows, clicks, and with what_if kept; norms, shows, ages: zero, cells [power,
 * rows] that are not empty, and of ages untold; what_if: rows, capacity (of the whole table, with
 * ask.rows), bytes and (statistics) share of the shows that are kept. The caller frees. */
struct json *census_json(const struct census *c);
/* Adds what census_json of another shard's census of the same table says. DATA when it is not
 * that. */
int census_add_json(struct census *c, const struct json *j, struct err *e);

/* Bytes of memory of a row of so many floats (schema_row_floats), its share of an index at mean
 * load included (tablet.h). */
double census_row_memory(uint32_t floats);

#endif
