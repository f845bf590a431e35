/* cluster.h: tables seen from outside, of a running cluster or of the folders that a stopped one
 * left: the same questions to both. */
#ifndef DEPLOY_CLI_CLUSTER_H
#define DEPLOY_CLI_CLUSTER_H

#include "deploy/cli/cli.h"
#include "embedding/census.h"
#include "proto/job/schema.h"

struct cluster; /* live: connections; offline: engines opened on the shards' folders */

/* As --coordinator and --run-dir of a verb say: "tcp://..." of a running one; a run folder of
 * `shoal local` (live when its coordinator answers, else offline). */
int cluster_open_option(const struct option_line *o, struct cluster **out, struct err *e);
/* The same, of one that runs, for its status alone: without its tables. UNAVAILABLE: a run's
 * coordinator does not answer. */
int cluster_open_live(const struct option_line *o, struct cluster **out, struct err *e);
/* One of the two: an endpoint, a run folder. */
int cluster_open(const char *coordinator, const char *run_dir, struct cluster **out, struct err *e);
void cluster_close(struct cluster *c); /* NULL: nothing */
bool cluster_live(const struct cluster *c);
uint32_t cluster_tables(const struct cluster *c);
const struct table_schema *cluster_schema(const struct cluster *c, uint32_t index);
/* Index of a table by name; NOT_FOUND with the names that there are. */
int cluster_table(const struct cluster *c, const char *name, uint32_t *index, struct err *e);
/* Rows of all shards, and XXH3 over the digests of the table's tablets in order of tablet (each
 * over its rows sorted by key). */
int cluster_digest(struct cluster *c, uint32_t index, uint64_t *rows, uint64_t *digest,
                   struct err *e);
/* One row as JSON (embedding/row_json.h); *found false when there is no such row: *out is then what
 * the shard says of the key, or NULL. */
int cluster_inspect(struct cluster *c, uint32_t index, uint64_t key, bool *found, struct json **out,
                    struct err *e);
/* Every row of a table, laid out as in embedding/table.h, in no order; of folders alone. */
int cluster_visit(struct cluster *c, uint32_t index, void (*visit)(void *context, const void *row),
                  void *context, struct err *e);
/* The census of a table over all shards (embedding/census.h). The caller frees it. */
int cluster_census(struct cluster *c, uint32_t index, const struct census_ask *wish,
                   struct census **out, struct err *e);
/* Pushes of a key (embedding/engine.h), newest first, as JSON: table, key, complete, pushes: a
 * list, each with `who` (server/coord/lease.h; null: not known any more; missing where the cluster
 * does not run). */
int cluster_blame(struct cluster *c, uint32_t index, uint64_t key, uint32_t limit,
                  struct json **out, struct err *e);
/* Erases keys (count <= LIMIT_KEYS, each once) and waits until no shard has anything of them in
 * memory, journal, archive and store. *shards: a list of what each one did; the caller's in any
 * case (or NULL). */
int cluster_erase(struct cluster *c, uint32_t index, const uint64_t *keys, uint32_t count,
                  struct json **shards, struct err *e);
/* Text of the job that made the tables, with the names that they know (proto/job/legend.h); *text
 * NULL where there is none, else the caller's. */
int cluster_job(struct cluster *c, char **text, size_t *bytes, struct err *e);
/* Whether a server answers this machine at the endpoint that its status tells: asked over a
 * connection of its own, for three seconds. 0 also where nothing can be said: over keys, before a
 * map tells which the server's is. */
int cluster_dial(struct cluster *c, uint32_t shard, const char *endpoint, struct err *e);
/* STATUS of a live coordinator, as JSON. */
int cluster_status(struct cluster *c, struct json **out, struct err *e);

#endif
