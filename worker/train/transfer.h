/* transfer.h: moves one batch's rows in (a pull) or its gradients out (a push), by one request
 * for each part of the batch.
 *
 * A pull asks only for parts that have keys. A push sends every part, so that every tablet of every
 * table gets the batch or its tick. The client repeats a request after a temporary refusal (BUSY,
 * ...). After NOT_LEADER the client fetches the map, and the owner starts the transfer again when
 * the map has changed. After GAP (a shard lacks an earlier push of the lane) the owner sends the
 * earlier pushes again, and then this one follows. If no earlier push is left to send and the shard
 * still answers GAP, the shard has lost acknowledged pushes (durability memory): the transfer is
 * refused with GAP.
 *
 * A part of a push that is refused for its values is sent again as a tick. The shards may have
 * accepted other parts, and which ones depends on the division of tablets among shards. Under bsp
 * that must not matter, so the rows are checked before (rows_check): of a batch with a bad gradient
 * only the bad parts are sent with their values, to be refused and kept in the quarantine.
 *
 * A push asks for the rows of some of its keys as they are after it (echoes, ahead.h). The shard's
 * answer brings them, or none; the owner takes them from `echoed`.
 *
 * The struct is embedded in its owner; transfer_init is called once, and transfer_close at the end.
 * Thread: the worker's loop. */
#ifndef WORKER_TRAIN_TRANSFER_H
#define WORKER_TRAIN_TRANSFER_H

#include "worker/train/client.h"
#include "worker/train/rows.h"
#include "worker/train/trace.h"

#include <stdbool.h>
#include <stdint.h>

#define STALENESS_CELLS 64u /* cells of the histogram in TASK_DONE */

/* The batch's identity and the header fields of its pulls and pushes. */
struct transfer_name {
    uint64_t run, generation, batch;
    uint32_t lane;          /* UINT32_MAX: no lane (evaluation) */
    uint32_t bound;         /* pulls only */
    enum value_kind values; /* form of fp32 tables' rows on their way to the worker */
    float lr_scale;         /* pushes only */
    uint32_t event_time;    /* pushes only: the batch's; 0: unknown */
    uint64_t worker, task;  /* pushes only: the origin, for messages */
};

struct transfer {
    struct client *client; /* borrowed */
    struct rows *rows;     /* borrowed */
    /* All parts are answered. */
    void (*done)(struct transfer *t);
    /* A part was refused for good; the transfer is cancelled already. */
    void (*refused)(struct transfer *t, int status, const char *text);
    /* A shard refuses a part of a push for its values and keeps it in its quarantine. The part is
     * sent once more as a tick, so that the lane goes on without it. */
    void (*poisoned)(struct transfer *t, const struct part *p, const char *text);
    /* A shard lacks an earlier batch of the lane for part p, whose push was last sent with number
     * `order`. The owner calls transfer_resend for the lane's earlier pushes, in order, and returns
     * the number of their parts that are not acknowledged. */
    uint32_t (*gap)(struct transfer *t, const struct part *p, uint64_t order);
    /* Called for each answered part of a push with echoes: their rows in order, borrowed; NULL: the
     * shard gives none. p: the part with all its keys, also where it went out as a tick. */
    void (*echoed)(struct transfer *t, const struct part *p, const struct wire_PUSH_reply *reply,
                   const void *rows);
    /* Such a part is answered, and other parts of the push are not. */
    void (*arrived)(struct transfer *t);
    uint64_t *staleness; /* (STALENESS_CELLS), counts pulls; borrowed, may be NULL */
    struct trace *trace; /* trace of the batch; borrowed; NULL: it is not traced */

    struct transfer_name name;
    bool push;
    struct transfer_part *part; /* owned (part_capacity) */
    uint32_t part_count, part_capacity;
    uint32_t pending; /* parts not answered */
    /* Results. */
    uint64_t keys;     /* keys of answered parts */
    uint64_t first_ns; /* when the first part was answered; 0: none is */
    uint64_t held_ns;  /* pull: longest time that a shard held back a part for the bound */
    bool skipped;      /* push: some tablet already had the batch */
    bool recomputed;   /* push: ... and not from this push, which was sent only once */
};

void transfer_init(struct transfer *t, struct client *client, struct rows *rows);
void transfer_close(struct transfer *t); /* cancels */
/* Divides the rows by the client's newest map and sends the parts. If there is nothing to ask,
 * pending is 0 afterwards and done is not called. Errors as of rows_split; AGAIN: there is no map
 * yet. */
int transfer_start(struct transfer *t, const struct transfer_name *name, bool push, struct err *e);
void transfer_cancel(struct transfer *t);
/* Sends unanswered parts again that overlap `p` and were last sent before `order` (later ones are
 * on their way). Returns the number of unanswered parts that overlap. */
uint32_t transfer_resend(struct transfer *t, const struct part *p, uint64_t order);

#endif
