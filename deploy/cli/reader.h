/* reader.h: tables as seen from outside: the one way in which verbs get at rows and figures.
 *
 *     struct reader *r;
 *     int rc = reader_open(o, &r, e);         the place that the line names
 *     rc = reader_table(r, "emb", &i, e);     its tables
 *     rc = reader_inspect(r, i, key, ..);     a row, a census, a digest
 *     reader_close(r);
 *
 * the line                          the rows
 * --coordinator EP, --from fleet    questions to the cluster's shards; a job may be running
 * --from RUN, which runs            the same, at the run's own coordinator
 * --from RUN, which has ended       engines of this process on the folders of its shards, which are
 *                                   locked and must be writable (rights.h)
 *   .. and cannot be written        those of the checkpoint of its end; a note says so
 * --from CHECKPOINT                 read from its files, a part of a table at a time
 *
 * --run-dir DIR is another name for --from DIR. `shoal predict` and `eval` need servers that
 * workers can ask: they find the place in the same way (reader_find), and start them there
 * (predict.c). Thread: main only. */
#ifndef DEPLOY_CLI_READER_H
#define DEPLOY_CLI_READER_H

#include "deploy/cli/cli.h"
#include "embedding/census.h"
#include "proto/job/schema.h"
#include "proto/wire/coordinators.h"

/* ---- the place ---- */

enum reader_kind { READER_LIVE, READER_RUN, READER_CHECKPOINT };
struct reader_place {
    enum reader_kind kind;
    char endpoint[COORDINATORS_LIST]; /* live: those of the coordinators */
    char folder[LIMIT_PATH];          /* a run's or a checkpoint's; empty: a fleet */
};
/* The folder that --from or --run-dir names; NULL: a fleet. */
const char *reader_folder(const struct option_line *o);
/* The place that --from, --run-dir and --coordinator name. USAGE; NOINPUT: a folder of neither a
 * run nor a checkpoint; DENIED. */
int reader_find(const struct option_line *o, struct reader_place *out, struct err *e);

/* ---- opening ---- */

struct reader;

int reader_open(const struct option_line *o, struct reader **out, struct err *e);
/* The same for the tables of a space, in place of --space's; NULL, "": the only one's. */
int reader_open_space(const struct option_line *o, const char *space, struct reader **out,
                      struct err *e);
/* The rows of a folder, for reader_visit; space: as above. BUSY: the run in it goes on. */
int reader_open_in(const char *folder, const char *space, struct reader **out, struct err *e);
/* NOT_FOUND: the checkpoint is of another space. */
int reader_checkpoint_check(const char *folder, const char *space, struct err *e);
/* A running cluster's status alone, without its tables. UNAVAILABLE: a run's coordinator does not
 * answer. */
int reader_open_live(const struct option_line *o, struct reader **out, struct err *e);
void reader_close(struct reader *r); /* NULL: nothing */

/* ---- tables and rows ---- */

uint32_t reader_tables(const struct reader *r);
const struct table_schema *reader_schema(const struct reader *r, uint32_t index);
/* Index of a table by name. NOT_FOUND lists the existing names. */
int reader_table(const struct reader *r, const char *name, uint32_t *index, struct err *e);
/* How many tablets of a table are missing: the shard that had them is not in the folder of an ended
 * run, or was left out of a checkpoint. */
uint32_t reader_lacks(const struct reader *r, uint32_t index);
/* The missing part, as a clause; "": nothing. */
const char *reader_lacks_text(const struct reader *r);
/* Prints it as a note on stderr, as reader_open does. */
void reader_lacks_note(const struct reader *r, const char *folder);
/* The number of rows on all shards, and XXH3 over the digests of the table's tablets in order of
 * tablet (each over its rows sorted by key). */
int reader_digest(struct reader *r, uint32_t index, uint64_t *rows, uint64_t *digest,
                  struct err *e);
/* One row as JSON (embedding/row_json.h). *found is false when there is no such row; *out is then
 * the shard's information on the key, or NULL. */
int reader_inspect(struct reader *r, uint32_t index, uint64_t key, bool *found, struct json **out,
                   struct err *e);
/* The census of a table over all shards (embedding/census.h). The caller frees it. */
int reader_census(struct reader *r, uint32_t index, const struct census_ask *wish,
                  struct census **out, struct err *e);
/* The heat of a tablet (server/shard/heat.h) and the shard that leads it. */
struct reader_heat {
    uint32_t shard;
    uint64_t rows, bytes, pull_ns, push_ns;
};
/* out: (tablets of the table). UNAVAILABLE: not live. */
int reader_heat(struct reader *r, uint32_t index, struct reader_heat *out, struct err *e);
/* Visits every row of a table, laid out as in embedding/table.h, in no order; not live. */
int reader_visit(struct reader *r, uint32_t index, void (*visit)(void *context, const void *row),
                 void *context, struct err *e);
/* Copies the rows of tablets [first, first + count) of a table into memory; not live. The caller
 * frees the table (table_free) and owns the arena. */
int reader_copy(struct reader *r, uint32_t index, uint32_t first, uint32_t count,
                struct arena *arena, struct table **out, struct err *e);
/* How many rows a table has, for planning: a checkpoint of an older release knows only those of all
 * tables together; not live. */
uint64_t reader_rows(const struct reader *r, uint32_t index);
/* Text of the job that made the tables, with the names that the tables know (proto/job/legend.h).
 * *text is NULL when there is none, else the caller's. */
int reader_job(struct reader *r, char **text, size_t *bytes, struct err *e);

/* ---- pushes and keys ---- */

/* Pushes of a key (embedding/engine.h) as JSON: table, key, complete, and the list pushes: those of
 * the shard that leads the key's tablet, newest first, then those of each other shard, which may
 * have led it before. not_asked: the shards that could not be searched, and why. The member `who`
 * of a push names its worker and input rows (the coordinator's lease_log.h): null when that is no
 * longer known, missing when the cluster does not run. UNAVAILABLE: a checkpoint has no pushes. */
int reader_blame(struct reader *r, uint32_t index, uint64_t key, uint32_t limit, struct json **out,
                 struct err *e);
/* A change of keys' names on the shards that lead them, wherever tablets move meanwhile. */
struct reader_naming {
    enum wire_key_action action; /* not SCRUB */
    const uint64_t *keys;        /* (count), each once; in the order of key_mix they go fastest */
    size_t count;
    void (*progress)(size_t done, size_t count); /* called after each portion; NULL: none */
};
struct reader_named {
    uint64_t changed; /* keys that had another name before */
    /* keys sent again because an answer did not come: their change may not be in `changed` */
    uint64_t resent;
    uint64_t keys_of[LIMIT_SHARDS], changed_of[LIMIT_SHARDS]; /* by shard */
};
/* Sends the keys in portions of LIMIT_KEYS at most, each to the shards of the newest map. A shard
 * that is away, or leads no longer, is tried again for a minute. After an error *out has what is
 * done, and the same call again does the rest. UNAVAILABLE: not live, or a shard stays away;
 * TOO_BIG: a tablet has too many names; USAGE: the table is dense; DENIED. */
int reader_name(struct reader *r, uint32_t index, const struct reader_naming *n,
                struct reader_named *out, struct err *e);
/* Calls use with the names of a table's keys, at most WIRE_NAMED_MAX at a time; a live table's in
 * the order of key_mix, each key once. use returns 0 or a status, which ends the walk. */
typedef int (*reader_names_use)(void *context, const struct wire_named *names, uint32_t count);
int reader_names(struct reader *r, uint32_t index, reader_names_use use, void *context,
                 struct err *e);
/* Erases keys (count <= LIMIT_KEYS, each once) and waits until no shard has any data of them in
 * memory, journal, archive or store. *shards: a list of each shard's actions; the caller owns it in
 * any case (or NULL). UNAVAILABLE: not live. */
int reader_erase(struct reader *r, uint32_t index, const uint64_t *keys, uint32_t count,
                 struct json **shards, struct err *e);

/* ---- a running cluster ---- */

/* Asks a server at the endpoint in its status, as a worker on this machine would, over a separate
 * connection, for a second. *hello: its answer; empty with 0 when it cannot be asked: with
 * keys, before a map tells the server's key. */
int reader_dial(struct reader *r, uint32_t shard, const char *endpoint,
                struct wire_HELLO_reply *hello, struct err *e);
/* The same with the server's key at hand; "": it has none. */
int reader_dial_key(const char *endpoint, const char *key, struct wire_HELLO_reply *hello,
                    struct err *e);
/* The same of the coordinator. */
int reader_hello(struct reader *r, struct wire_HELLO_reply *hello, struct err *e);
/* The STATUS of a live coordinator, as JSON. */
int reader_status(struct reader *r, struct json **out, struct err *e);
/* The same about the job with this number (0: the newest that runs) within a time; TIMEOUT,
 * NOT_FOUND. */
int reader_status_within(struct reader *r, uint64_t job, uint32_t timeout_ms, struct json **out,
                         struct err *e);
/* Has workers trace one batch in `every` of each lane; 0: none. */
int reader_trace_every(struct reader *r, uint32_t every, struct err *e);
/* The traces that the coordinator has, the oldest first: (told->count), the caller's. */
int reader_traces(struct reader *r, const struct wire_TRACE *ask, struct wire_TRACE_reply *told,
                  struct wire_trace **out, struct err *e);
/* A shard's shares of them, the oldest first: (*count), the caller's. Needs no tables. */
int reader_spans(struct reader *r, uint32_t shard, const struct wire_SPANS *ask,
                 struct wire_span **out, uint32_t *count, struct err *e);
/* The lines of `shoal jobs`. DENIED: the key may not ask for them. */
int reader_jobs(struct reader *r, uint32_t timeout_ms, struct json **out, struct err *e);

#endif
