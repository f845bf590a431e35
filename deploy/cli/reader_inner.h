/* reader_inner.h: struct reader, shared by the files that implement reader.h: reader.c,
 * reader_live.c, reader_kept.c, reader_audit.c, reader_keys.c, reader_trace.c. */
#ifndef DEPLOY_CLI_READER_INNER_H
#define DEPLOY_CLI_READER_INNER_H

#include "deploy/cli/checkpoint.h"
#include "deploy/cli/reader.h"
#include "embedding/checkpoint.h"
#include "embedding/engine.h"
#include "proto/net/net.h"

/* long: for questions that walk all rows of a shard */
enum { QUESTION_MS = 10000, LONG_QUESTION_MS = 120000 };

struct reader {
    struct table_schema *schema[LIMIT_TABLES]; /* owned */
    uint32_t tables;
    /* live */
    struct ask *coordinator;  /* NULL: not live */
    char space[LIMIT_NAME];   /* whose tables; "": the only one's */
    uint16_t *shard_of;       /* by tablet, over all tables */
    struct table_set numbers; /* tables on the shards, in their order (table_set_nth) */
    uint32_t tablet_count;
    struct ask *shard[LIMIT_SHARDS];
    uint32_t asked;        /* number of connected shards */
    uint64_t files;        /* open files before the first of these; 0: not known */
    char (*endpoint)[256]; /* (shards) */
    char (*key)[48];       /* (shards): the key that each has to show; empty: none */
    uint32_t shards;
    /* an ended run */
    struct net *net;
    struct engine *engine[LIMIT_SHARDS];
    char (*folder)[LIMIT_PATH]; /* (engines) */
    uint32_t engines;
    const struct table *own; /* the table of the shard that is walked: it knows where rows are */
    /* a checkpoint */
    struct checkpoint *checkpoint; /* NULL: no checkpoint */
    char job[2 * LIMIT_PATH];      /* an ended run, a checkpoint: the file of its job */
    uint32_t lost[LIMIT_TABLES];   /* (tables): tablets of each that are missing */
    char lacks[LACKS_BYTES];       /* the missing part; empty: nothing */
};

/* Adds a table, copied. NOMEM. */
int reader_schema_add(struct reader *r, const struct table_schema *s, struct err *e);

/* ---- reader_live.c ---- */
int reader_live_open(struct reader *r, const char *endpoint, struct err *e);
/* Loads map and tables. UNAVAILABLE while a job has yet to make its own tables: the servers' tables
 * are unknown then, which is not the same as no tables. */
int reader_live_known(struct reader *r, struct err *e);
/* Asks; *out: the JSON of the reply's frame. */
int reader_ask_json(struct ask *a, struct wire *w, const struct frame *frame, uint32_t timeout_ms,
                    struct wire *reply, struct json **out, struct err *e);
/* The connection to a shard, made at the first question; borrowed until another shard is asked. */
int reader_shard(struct reader *r, uint32_t shard, struct ask **out, struct err *e);
/* Loads the map anew and ends all connections to shards; after an error the map is empty. */
int reader_map_renew(struct reader *r, struct err *e);
/* True when the shard leads a tablet. One that leads none has no row; its server may have left the
 * cluster. */
bool reader_shard_leads(const struct reader *r, uint32_t shard);
/* The same for the shard that leads the key's tablet. NOT_LEADER. */
int reader_ask_key(struct reader *r, const struct table_schema *s, uint64_t key, struct wire *w,
                   uint32_t timeout_ms, struct wire *reply, struct json **out, struct err *e);

/* ---- reader_kept.c: an ended run and a checkpoint ---- */
int reader_run_open(struct reader *r, const char *run, struct err *e);
int reader_checkpoint_open(struct reader *r, const char *folder, struct err *e);
/* Calls use for each tablet that has rows or names, on each shard; the table has all its rows. use
 * returns 0 or a status, which ends the walk. */
typedef int (*reader_use)(void *context, const struct table *t, uint32_t tablet);
int reader_tablets(struct reader *r, uint32_t index, reader_use use, void *context, struct err *e);
/* As reader_inspect. */
int reader_kept_row(struct reader *r, uint32_t index, uint64_t key, bool *found, struct json **out,
                    struct err *e);
/* As reader_job. */
int reader_kept_job(struct reader *r, char **text, size_t *bytes, struct err *e);

#endif
