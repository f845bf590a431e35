/* rows.h: the memory of one batch on its way: keys, pulled rows, gradients, and how they divide
 * over the shards.
 *
 * The data's way (DESIGN 5): unique keys by tablet -pull-> rows -> ... -> row gradients ->
 * gradients by tablet -push->. A job has one sparse table or several. The unique keys of a batch
 * lie table by table (dataset.h); so do the rows pulled, and the gradients: each is one array for
 * all sparse tables, of which a table has a stretch. In a table keys are sorted by key_mix, that is
 * by tablet, so what one shard leads is a stretch again: a `part`. Parts are sent as borrowed
 * frames, nothing is copied on the way out; a pull's reply is copied once, into its stretch of
 * `pulled`. With a cache of rows (row_cache.h) only the keys that it lacks are pulled: the parts of
 * a pull are then stretches of those; a push covers all keys.
 *
 * The arrays of floats are the bulk of a batch. A batch that is only read and parsed does not need
 * them, so they move from batch to batch: rows_floats_swap.
 *
 * Dense tables are the same, except that the model wants a flat array in tensor order: rows_take
 * scatters blocks into it, rows_gather brings the gradients into key order.
 *
 * Where a sparse table keeps statistics of its rows (schema.h), a key's shows (examples of the
 * batch that have it, each once) and clicks (of these, with label 0 positive) follow its gradient.
 * The model leaves gradients one after the other; rows_gather moves each to its place and writes
 * the two behind it. That is in the same array, from its end, and the only copy. (Where no table
 * has statistics, nothing moves.) The batch of a skipped step is not counted: its push is a tick.
 *
 * A frame that is borrowed from here holds a reference until it is released, on whatever thread:
 * memory is used again when rows_quiet says so, and freed with the last reference. All else on the
 * worker's loop, except that batch_read and model_train fill the arrays from a thread of the pool
 * while nobody else touches them. */
#ifndef WORKER_TRAIN_ROWS_H
#define WORKER_TRAIN_ROWS_H

#include "dense/model.h"
#include "proto/base/msg.h"
#include "proto/metric/unseen.h"
#include "worker/data/dataset.h"
#include "worker/train/client.h"
#include "worker/train/row_cache.h"

#include <stdbool.h>
#include <stdint.h>

/* A stretch of a table's tablets with one leader, small enough for one message. */
struct part {
    uint32_t table, shard;
    uint32_t tablet_first, tablet_count; /* tablets of the table */
    uint32_t key_first, key_count;
};

struct rows_table {
    const struct table_schema *schema; /* borrowed */
    const uint64_t *keys;              /* (key_count) in key order */
    uint32_t key_count;                /* 0 when the batch has no example */
    /* dense: flat block number of each key; NULL for a sparse table. Borrowed */
    const uint32_t *block;
    uint32_t block_count;
    float *pulled; /* (pull_count, width); dense: flat, owned */
    /* (key_count, schema_push_floats) in key order, from rows_gather on; dense: owned */
    float *gradients;
    float *flat;     /* owned: dense only: gradients in flat order, as the model leaves them */
    size_t capacity; /* dense: rows of the arrays; 0: there are none */
    /* (pull_count): those to pull: keys, or what the cache lacks of them */
    const uint64_t *pull_keys;
    uint32_t pull_count;
};

/* The arrays of all sparse tables: what is in them lies table by table, one behind another. */
struct rows_floats {
    float *pulled; /* owned (pulled_capacity) */
    /* owned (gradients_capacity); as the model leaves them each has the width of its row */
    float *gradients;
    size_t pulled_capacity, gradients_capacity; /* in floats; 0: there are none */
};

struct rows {
    struct batch batch;
    struct rows_table table[MODEL_TABLES_MAX];
    uint32_t table_count, sparse; /* of these the first `sparse` are sparse */
    struct rows_floats floats;
    struct model_part by_table[LIMIT_JOB_TABLES]; /* (sparse) for the model */
    uint64_t *block_keys; /* owned: a copy of the dense tables' keys, which frames borrow */
    float *scores;        /* owned: (batch size, tasks) */
    /* borrowed: where pulled, gradients, flat, scores, the plan's source and keep and the batch's
     * arrays are allocated; may be NULL */
    const struct backend *backend;
    struct row_plan plan; /* owned arrays (plan_capacity); used with a cache */
    uint32_t plan_capacity;
    bool counts; /* some sparse table has statistics */
    /* owned (seen_capacity): the last example, from 1, that had a key; used with statistics */
    uint32_t *seen;
    uint32_t seen_capacity;
    bool planned;
    bool poisoned;     /* rows_check found something */
    struct part *part; /* owned (part_count) */
    uint32_t part_count, part_capacity;
    struct rows_reference *reference; /* how many borrow; the owner counts one */
};

/* schemas: (count), borrowed for the rows' life: those of model_schemas, sparse ones first.
 * examples_max: the job's batch. tasks: labels of an example; 0 counts as 1. The backend outlives
 * the last frame, the model need not. */
int rows_new(const struct model *m, const struct backend *backend,
             const struct table_schema *schemas, uint32_t count, uint32_t examples_max,
             uint32_t tasks, struct rows **out, struct err *e);
void rows_release(struct rows *r); /* the owner's reference; memory goes with the last frame */
bool rows_quiet(const struct rows *r);

/* Whether it has arrays of floats; and an exchange of them with another batch of the same tables,
 * both quiet. */
bool rows_has_floats(const struct rows *r);
void rows_floats_swap(struct rows *r, struct rows *other);
/* After batch_read (or for an empty batch, examples 0): counts and room for rows and gradients; all
 * keys are to be pulled. NOMEM. */
int rows_reserve(struct rows *r, struct err *e);
/* After rows_reserve: of the sparse keys only those are to be pulled that the cache lacks for this
 * batch. NOMEM. */
int rows_plan(struct rows *r, struct row_cache *cache, uint64_t batch, struct err *e);
/* Looks whether a shard will refuse any of the gradients. After rows_gather, on whatever thread has
 * the batch. */
void rows_check(struct rows *r);
/* Whether a shard will refuse this part, of a push. */
bool rows_part_refused(const struct rows *r, const struct part *p);
/* Nothing of this batch is to be pushed: its push is a tick. */
void rows_void(struct rows *r);
/* Divides all tablets of all tables into parts by the map: of the keys to push, or of those to
 * pull. INTERNAL when the map lacks tablets, TOO_BIG when one tablet alone has more keys than a
 * message may carry, NOMEM. */
int rows_split(struct rows *r, const struct map *map, bool push, struct err *e);

/* Frame 1 of a pull or push of part p: its keys, borrowed. */
int rows_add_keys(struct rows *r, const struct part *p, bool push, struct msg *m);
/* Frame 2 of a push of part p: its gradients, borrowed. */
int rows_add_gradients(struct rows *r, const struct part *p, struct msg *m);
/* Copies the rows of a pull's reply, (p->key_count, width), into their place. */
void rows_take(struct rows *r, const struct part *p, const float *rows);
/* Brings the dense gradients into key order, and shows and clicks behind the sparse ones. After
 * model_train, before the first push, once. */
void rows_gather(struct rows *r);

/* Adds to *out how many values of each field were pulled, and how many of them have no row: of a
 * pull whose answers mark those (wire.h). Without a plan. */
void rows_unseen(const struct rows *r, struct unseen *out);
/* The batch as the model takes and leaves it. */
void rows_input(const struct rows *r, struct model_input *in);
void rows_output(struct rows *r, struct model_output *out);

#endif
