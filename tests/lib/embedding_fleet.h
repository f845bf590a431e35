/* embedding_fleet.h: several shards' engines as one small cluster. Each leads its share of every
 * table's tablets, a push is divided into their shares, and all hold a cut before any goes on.
 * Checks its own steps with Check. */
#ifndef TESTS_LIB_EMBEDDING_FLEET_H
#define TESTS_LIB_EMBEDDING_FLEET_H

#include "tests/lib/embedding_rig.h"

#define FLEET_SHARDS 8u
#define FLEET_TABLES 2u

struct fleet {
    uint32_t shards;
    struct rig s[FLEET_SHARDS];
    struct table_schema schema[LIMIT_TABLES];
    uint32_t tables;
    enum durability durability;
    char dir[LIMIT_PATH]; /* the folder of shard 0 is dir/0 */
};

/* Opens shards 0..shards-1 in DIR/0.. (NULL: in memory). The journal is small, so that there are
 * both images and records. */
void fleet_open(struct fleet *f, uint32_t shards, const char *dir, enum durability durability);
void fleet_close(struct fleet *f, bool flush_all);
/* Opens the same folders again, after fleet_close or a child's end, with the tables in them. */
void fleet_reopen(struct fleet *f);
/* Makes a table on all shards. fleet_schema gives table 0 with adagrad and table 1 with sgd and the
 * l2 of the whole table; any other schema will do, too. */
void fleet_table(struct fleet *f, const struct table_schema *schema);
struct table_schema fleet_schema(uint32_t number);
/* Makes both tables and sets the map. */
void fleet_tables(struct fleet *f);
void fleet_run_open(struct fleet *f, uint64_t run, uint32_t lanes, uint32_t mode);
/* Pushes batch (from, to] of a lane to one table, on shards [first, first + count). Returns the
 * status of the first refusal. */
int fleet_push_some(struct fleet *f, uint64_t run, uint32_t table, uint32_t lane, uint64_t from,
                    uint64_t to, uint32_t first, uint32_t count);
/* Pushes batches (from, to], one by one, to both tables and all shards, and flushes as needed. */
void fleet_train(struct fleet *f, uint64_t run, uint32_t lane, uint64_t from, uint64_t to);
void fleet_run(struct fleet *f); /* lets the I/O threads work */
void fleet_cut(struct fleet *f, uint64_t cut);
/* Exports all parts of a cut. Returns the status of the first failure, with its sentence in text
 * (ERR_TEXT_MAX, may be NULL). */
int fleet_export(struct fleet *f, uint64_t cut, const char *path, char *text);
/* One shard alone, as part 0 of 1. */
int fleet_export_one(struct fleet *f, uint64_t cut, uint32_t shard, const char *path, char *text);
/* Loads on all shards. Returns the status of the first failure. notes (may be NULL; 4096 bytes):
 * the translations. rows: sum over all shards. */
int fleet_load(struct fleet *f, const char *path, uint64_t run, char *notes, uint64_t *rows);
/* The first is a hash over the digests of a table's tablets, as the cluster reports it; the second
 * is one over the rows of the whole table sorted by key, which does not depend on the number of
 * tablets. */
uint64_t fleet_digest(struct fleet *f, uint32_t table);
uint64_t fleet_rows_digest(struct fleet *f, uint32_t table);
uint64_t fleet_rows(struct fleet *f, uint32_t table);
/* Gives the lowest and highest mark of a lane over all tablets of a table. */
void fleet_marks(struct fleet *f, uint64_t run, uint32_t lane, uint32_t table, uint64_t *low,
                 uint64_t *high);

#endif
