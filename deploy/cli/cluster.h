/* cluster.h: tables as seen from outside: of a running cluster, or of the folders that a stopped
 * one left. Both answer the same questions. */
#ifndef DEPLOY_CLI_CLUSTER_H
#define DEPLOY_CLI_CLUSTER_H

#include "deploy/cli/cli.h"
#include "embedding/census.h"
#include "proto/job/schema.h"

struct cluster; /* live: connections; offline: engines opened on the shards' folders */

/* Opens what --coordinator or --run-dir of a verb names: "tcp://..." of a running cluster, or a run
 * folder of `shoal local` (live when its coordinator answers, else offline). */
int cluster_open_option(const struct option_line *o, struct cluster **out, struct err *e);
/* The same for a running cluster's status alone, without its tables. UNAVAILABLE: a run's
 * coordinator does not answer. */
int cluster_open_live(const struct option_line *o, struct cluster **out, struct err *e);
/* Exactly one is given: an endpoint or a run folder. */
int cluster_open(const char *coordinator, const char *run_dir, struct cluster **out, struct err *e);
void cluster_close(struct cluster *c); /* NULL: nothing */
bool cluster_live(const struct cluster *c);
uint32_t cluster_tables(const struct cluster *c);
const struct table_schema *cluster_schema(const struct cluster *c, uint32_t index);
/* Index of a table by name. NOT_FOUND lists the existing names. */
int cluster_table(const struct cluster *c, const char *name, uint32_t *index, struct err *e);
/* The number of rows on all shards, and XXH3 over the digests of the table's tablets in order of
 * tablet (each over its rows sorted by key). */
int cluster_digest(struct cluster *c, uint32_t index, uint64_t *rows, uint64_t *digest,
                   struct err *e);
/* One row as JSON (embedding/row_json.h). *found is false when there is no such row; *out is then
 * the shard's information on the key, or NULL. */
int cluster_inspect(struct cluster *c, uint32_t index, uint64_t key, bool *found, struct json **out,
                    struct err *e);
/* Visits every row of a table, laid out as in embedding/table.h, in no order; offline only. */
int cluster_visit(struct cluster *c, uint32_t index, void (*visit)(void *context, const void *row),
                  void *context, struct err *e);
/* The census of a table over all shards (embedding/census.h). The caller frees it. */
int cluster_census(struct cluster *c, uint32_t index, const struct census_ask *wish,
                   struct census **out, struct err *e);
/* Pushes of a key (embedding/engine.h), newest first, as JSON: table, key, complete, and the list
 * pushes. Each push has `who` (server/coord/work/lease.h): null when that is no longer known,
 * missing when the cluster does not run. */
int cluster_blame(struct cluster *c, uint32_t index, uint64_t key, uint32_t limit,
                  struct json **out, struct err *e);
/* Erases keys (count <= LIMIT_KEYS, each once) and waits until no shard has any data of them in
 * memory, journal, archive or store. *shards: a list of each shard's actions; the caller owns it in
 * any case (or NULL). */
int cluster_erase(struct cluster *c, uint32_t index, const uint64_t *keys, uint32_t count,
                  struct json **shards, struct err *e);
/* Text of the job that made the tables, with the names that the tables know (proto/job/legend.h).
 * *text is NULL when there is none, else the caller's. */
int cluster_job(struct cluster *c, char **text, size_t *bytes, struct err *e);
/* Checks that a server answers this machine at the endpoint in its status; asks over a separate
 * connection, for three seconds. Also 0 when no check is possible: with keys, before a map tells
 * the server's key. */
int cluster_dial(struct cluster *c, uint32_t shard, const char *endpoint, struct err *e);
/* The STATUS of a live coordinator, as JSON. */
int cluster_status(struct cluster *c, struct json **out, struct err *e);

#endif
