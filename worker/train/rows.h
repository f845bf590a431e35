/* rows.h: the memory of one batch in flight: keys, pulled rows, gradients, and their division by
 * shard.
 *
 * The data's path (DESIGN 5): unique keys by tablet -pull-> rows -> ... -> row gradients ->
 * gradients by tablet -push->. A job has one sparse table or several. The unique keys of a batch
 * lie table by table (dataset.h), and so do the pulled rows and the gradients: each is one array
 * for all sparse tables, of which a table has a stretch. Within a table keys are sorted by key_mix,
 * that is by tablet, so the tablets that one shard leads are a stretch again: a `part`. Parts are
 * sent as borrowed frames, without a copy; a pull's reply is copied once, into its stretch of
 * `pulled`. A lane that looks ahead (ahead.h) pulls only some keys of a batch: a pull's parts are
 * then stretches of the list of these, while a push covers all keys; a row goes to the place of its
 * key, whether a pull or a push brings it.
 *
 * The arrays of floats are most of a batch's memory. A batch that is only read and parsed does not
 * need them, so they move from batch to batch: rows_floats_swap.
 *
 * Dense tables work in the same way, except that the model needs a flat array in tensor order:
 * rows_take scatters blocks into it, rows_gather brings the gradients into key order.
 *
 * If a sparse table keeps statistics of its rows (schema.h), a key's shows (examples of the batch
 * that have it, each counted once) and clicks (those whose first label is above 0) follow its
 * gradient. The model leaves gradients without gaps; rows_gather moves each to its place, in the
 * same array from its end, and writes the two numbers behind it. That is the only copy; without
 * statistics nothing moves. The batch of a skipped step is not counted: its push is a tick.
 *
 * A frame that borrows from here holds a reference until it is released, on any thread: rows_quiet
 * tells when the memory may be reused, and the last reference frees it. All other calls run on the
 * worker's loop; batch_read and model_train fill the arrays on a thread of the pool while no other
 * thread touches them. */
#ifndef WORKER_TRAIN_ROWS_H
#define WORKER_TRAIN_ROWS_H

#include "dense/model.h"
#include "proto/base/msg.h"
#include "proto/job/packed.h"
#include "proto/metric/unseen.h"
#include "worker/data/dataset.h"
#include "worker/train/ahead.h"
#include "worker/train/map.h"

#include <stdbool.h>
#include <stdint.h>

/* Adjacent tablets of a table with one leader, few enough for one message. */
struct part {
    uint32_t table, shard;
    uint32_t tablet_first, tablet_count; /* numbers within the table */
    uint32_t key_first, key_count;
};

struct rows_table {
    const struct table_schema *schema; /* borrowed */
    const uint64_t *keys;              /* (key_count): in key order */
    uint32_t key_count;                /* 0 for a batch without examples */
    /* dense: flat block number of each key; NULL for a sparse table; borrowed */
    const uint32_t *block;
    uint32_t block_count;
    float *pulled; /* (key_count, width); dense: flat, owned */
    /* (key_count, schema_push_floats): in key order, from rows_gather on; dense: owned */
    float *gradients;
    uint32_t width;  /* width of these gradients, enum packed_width: set by rows_pack */
    float *flat;     /* owned; dense only: gradients in tensor order, as the model leaves them */
    size_t capacity; /* dense: rows of the arrays; 0: there are none */
    /* (pull_count): the keys to pull, and their places in `keys`; NULL: all, in order */
    const uint64_t *pull_keys;
    const uint32_t *pull_place;
    uint32_t pull_count;
};

/* The keys of a batch that one pull asks for, table by table. */
struct rows_list {
    uint64_t *key;   /* owned (capacity) */
    uint32_t *place; /* owned (capacity) */
    uint32_t capacity;
};

/* Arrays of all sparse tables, table by table. */
struct rows_floats {
    float *pulled; /* owned (pulled_capacity) */
    /* owned; (gradients_capacity): as the model leaves them, each has the width of its row */
    float *gradients;
    size_t pulled_capacity, gradients_capacity; /* in floats; 0: there are none */
};

struct rows {
    struct batch batch;
    struct rows_table table[MODEL_TABLES_MAX];
    uint32_t made;                /* tables that there are, */
    uint32_t table_count, sparse; /* tables that the batch uses; the first `sparse` are sparse */
    struct rows_floats floats;
    uint32_t table_rows[LIMIT_JOB_TABLES]; /* (sparse): keys of each, for the model */
    uint64_t *block_keys; /* owned; copy of the dense tables' keys, which frames borrow */
    float *scores;        /* owned: (batch size, tasks) */
    /* borrowed; allocates pulled, gradients, flat, scores and the batch's arrays; may be NULL */
    const struct backend *backend;
    bool counts; /* some sparse table has statistics */
    /* owned; (seen_capacity): of each key a note of one pass over the batch: for statistics the
     * number, from 1, of the last example that had it; in rows_unseen 1 when it has no row */
    uint32_t *seen;
    uint32_t seen_capacity;
    struct ahead ahead; /* used by a lane that looks ahead */
    /* the pull that is sent at once, and the one after an echo that did not come; each has its own
     * memory because frames of the first may still borrow from it */
    struct rows_list list[2];
    /* owned (made, steps_shards): the lowest `steps` (wire.h) of the answers with rows of a
     * table from each shard; UINT64_MAX: none was told */
    uint64_t *steps;
    uint32_t steps_shards;
    bool poisoned;     /* rows_check found a gradient that shards refuse */
    struct part *part; /* owned; (part_count) */
    uint32_t part_count, part_capacity;
    struct rows_reference *reference; /* counts borrowers and the owner */
};

/* schemas: (count), borrowed for the rows' life: those of model_schemas, sparse ones first.
 * examples_max: the job's batch size. tasks: labels of an example; 0 counts as 1. The backend must
 * outlive the last frame, the model need not. */
int rows_new(const struct model *m, const struct backend *backend,
             const struct table_schema *schemas, uint32_t count, uint32_t examples_max,
             uint32_t tasks, struct rows **out, struct err *e);
/* drops the owner's reference; the last frame frees the memory */
void rows_release(struct rows *r);
bool rows_quiet(const struct rows *r);

/* rows_has_floats: it has the arrays of floats. rows_floats_swap exchanges them with another batch
 * of the same tables; both must be quiet. */
bool rows_has_floats(const struct rows *r);
void rows_floats_swap(struct rows *r, struct rows *other);
/* Sets whether the next batch pulls and pushes the dense tables. Quiet; before rows_reserve. */
void rows_use(struct rows *r, bool dense);
/* After batch_read, or for an empty batch with examples 0: counts the keys and makes room for rows
 * and gradients. NOMEM. */
int rows_reserve(struct rows *r, struct err *e);

/* rows_ahead.c. After rows_reserve: later batches may await rows from this batch's push. divided:
 * its own keys are due, for a division; else all are pulled. NOMEM. */
int rows_ahead(struct rows *r, bool divided, struct err *e);
/* A table's keys as a division takes them. */
static inline struct ahead_keys rows_keys(const struct rows *r, uint32_t table)
{
    return (struct ahead_keys){r->table[table].keys, r->table[table].key_count};
}
/* From now on a pull asks for the due keys alone, which are due no more. again: 1: after an echo
 * did not come; else 0. NOMEM. */
int rows_pull_due(struct rows *r, uint32_t again, struct err *e);
/* Adds frame 3 of a push of part p: the bitmap of its echoes. */
int rows_add_echo(struct rows *r, const struct part *p, struct msg *m);
/* Echoes among the keys of a part of a push. */
uint32_t rows_echoes(const struct rows *r, const struct part *p);
/* Copies one row to the place of a table's key. */
void rows_put(struct rows *r, uint32_t table, uint32_t place, enum value_kind values,
              const void *row);
/* Notes the `steps` that a shard told with rows of a table, and gives the lowest; 0: not known. */
void rows_steps_note(struct rows *r, uint32_t table, uint32_t shard, uint64_t steps);
uint64_t rows_steps(const struct rows *r, uint32_t table, uint32_t shard);

/* Finds gradients that a shard would refuse. After rows_gather, on the thread that computes the
 * batch. */
void rows_check(struct rows *r);
/* Packs the sparse tables' gradients in place (packed.h). After rows_check, on the same thread. A
 * poisoned batch stays as it is: its parts are still to be checked. */
void rows_pack(struct rows *r, enum packed_width width, uint32_t lane, uint64_t batch);
/* True when a shard would refuse this part of a push. */
bool rows_part_refused(const struct rows *r, const struct part *p);
/* Pushes nothing of this batch but a tick. */
void rows_void(struct rows *r);
/* Divides all tablets of all tables into parts by the map, with the keys to push or those to pull.
 * INTERNAL: the map lacks tablets; TOO_BIG: one tablet alone has more keys than a message may
 * carry; NOMEM. */
int rows_split(struct rows *r, const struct map *map, bool push, struct err *e);

/* Adds frame 1 of a pull or push of part p: its keys, borrowed. */
int rows_add_keys(struct rows *r, const struct part *p, bool push, struct msg *m);
/* Adds frame 2 of a push of part p: its gradients, borrowed. */
int rows_add_gradients(struct rows *r, const struct part *p, struct msg *m);
/* Copies the rows of a pull's reply, (p->key_count, width) of these values, to their places. */
void rows_take(struct rows *r, const struct part *p, enum value_kind values, const void *rows);
/* Brings the dense gradients into key order, and puts shows and clicks behind the sparse ones.
 * Called once, after model_train and before the first push. */
void rows_gather(struct rows *r);

/* Adds to *out how many values of each field were pulled, and how many of them have no row, for a
 * pull whose answers mark those (wire.h). */
void rows_unseen(struct rows *r, struct unseen *out);
/* The batch in the form that the model takes and fills. */
void rows_input(const struct rows *r, struct model_input *in);
void rows_output(struct rows *r, struct model_output *out);

#endif
