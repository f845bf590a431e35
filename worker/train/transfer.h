/* transfer.h: one batch's rows on their way in (pull) or its gradients on their way out (push): a
 * request for each part of the batch.
 *
 * A pull asks only for parts that have keys. A push sends every part, so that every tablet of every
 * table gets the batch or its tick. Refusals that pass (BUSY, ...) are repeated by the client;
 * NOT_LEADER makes the client fetch the map, and the owner starts the transfer anew when the map
 * has changed. GAP (an earlier push of the lane is missing at a shard) is told to the owner, who
 * sends the earlier ones again, then this one follows. Where nothing earlier is left to send and
 * the shard keeps saying so, it has lost what it acknowledged (durability memory): refused with
 * GAP.
 *
 * A part of a push that is refused for its values is sent again as a tick. What the shards took of
 * the other parts depends on how tablets are dealt; where that must not matter (bsp) the rows have
 * been looked at before (rows_check), and of a batch with a bad gradient only the bad parts go out
 * whole, to be refused and kept.
 *
 * The struct is its owner's and lives in it; transfer_init once, transfer_close at the end. Thread:
 * the worker's loop.
 */
#ifndef WORKER_TRAIN_TRANSFER_H
#define WORKER_TRAIN_TRANSFER_H

#include "worker/train/client.h"
#include "worker/train/rows.h"

#include <stdbool.h>
#include <stdint.h>

#define STALENESS_CELLS 64u /* of the histogram in TASK_DONE */

/* Whose batch it is; the header fields of its pulls and pushes. */
struct transfer_name {
    uint64_t run, generation, batch;
    uint32_t lane;         /* UINT32_MAX: of no lane (evaluation) */
    uint32_t bound;        /* of pulls */
    float lr_scale;        /* of pushes */
    uint32_t event_time;   /* of pushes: of the batch, 0: none is known */
    uint64_t worker, task; /* likewise: whose it is, for messages */
};

struct transfer {
    struct client *client; /* borrowed */
    struct rows *rows;     /* borrowed */
    /* Every part is answered. */
    void (*done)(struct transfer *t);
    /* A refusal that repeating does not help; the transfer is cancelled already. */
    void (*refused)(struct transfer *t, int status, const char *text);
    /* A shard refuses a part of a push for its values and keeps it in its quarantine; it is sent
     * once more as a tick, so that the lane goes on without it. */
    void (*poisoned)(struct transfer *t, const struct part *p, const char *text);
    /* A shard lacks an earlier batch of the lane for part p, whose push was sent last as number
     * `order`: the owner calls transfer_resend of the lane's earlier pushes, in order, and answers
     * how many parts of theirs are not acknowledged. */
    uint32_t (*gap)(struct transfer *t, const struct part *p, uint64_t order);
    /* A part of a pull is answered, with this clock and low of its shard (server/shard/pull.h); may
     * be NULL. */
    void (*took)(struct transfer *t, const struct part *p, uint64_t clock, uint64_t low);
    uint64_t *staleness; /* (STALENESS_CELLS) of pulls; borrowed, may be NULL */

    struct transfer_name name;
    bool push;
    struct transfer_part *part; /* owned (part_capacity) */
    uint32_t part_count, part_capacity;
    uint32_t pending; /* parts not answered */
    /* What came of it. */
    uint64_t keys;    /* of answered parts */
    uint64_t held_ns; /* pull: the longest that a shard held a part back for the bound */
    bool skipped;     /* push: some tablet had the batch already */
    bool recomputed;  /* push: ... and it cannot have been this very push */
};

void transfer_init(struct transfer *t, struct client *client, struct rows *rows);
void transfer_close(struct transfer *t); /* cancels */
/* Divides the rows by the client's newest map and sends. pending is 0 afterwards when there is
 * nothing to ask: done is not called then. Errors as of rows_split, AGAIN when there is no map. */
int transfer_start(struct transfer *t, const struct transfer_name *name, bool push, struct err *e);
void transfer_cancel(struct transfer *t);
/* Sends unanswered parts again that overlap `p` and were sent last before `order` (later ones are
 * on their way). Answers how many overlap. */
uint32_t transfer_resend(struct transfer *t, const struct part *p, uint64_t order);

#endif
