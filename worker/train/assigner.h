/* assigner.h: sends rows by key to the shards that lead their tablets (ASSIGN), several blocks at a
 * time.
 *
 *   the source fills a block -> sorted by tablet -> for each stretch of tablets of one shard:
 *     sent --answered--> the next stretch, at the end the next block
 *          --NOT_LEADER, or "later" (client_passing)--> sent again, by the newest map
 *          --OLD_RUN: a job's run is still open there--> sent again, for half a minute
 *          --another map (assigner_remap)--> sent to the shard that leads them now
 *          --refused--> the assigner ends with that error
 *
 * Rows may be sent twice, and a server may die between the two: the same rows again have the same
 * effect (table_assign), so nothing is kept of what was sent. Blocks are in flight side by side and
 * begin at different places of the table, so that all shards are busy. A key that is twice in the
 * source may get either row; the source checks that. With ASSIGN_KEEP a row that was sent twice
 * counts as kept the second time. Thread: the loop's. */
#ifndef WORKER_TRAIN_ASSIGNER_H
#define WORKER_TRAIN_ASSIGNER_H

#include "proto/base/err.h"
#include "worker/train/client.h"

#include <stddef.h>
#include <stdint.h>

struct assigner;

struct assigner_options {
    struct client *client;                             /* borrowed */
    uint32_t table, tablet_first, tablet_bits, floats; /* as in the schema; floats of a row */
    uint32_t parts;                                    /* WIRE_ASSIGN_* */
    uint32_t at_once;                                  /* blocks; 0: 12 */
    /* Writes at most `room` keys and rows (room, floats) and returns their number; 0: there are no
     * more. Negative: an error, which ends the assigner. */
    int (*fill)(void *context, uint64_t *keys, float *rows, uint32_t room, struct err *e);
    /* All is done, or it has failed. Called once, from the loop; the assigner is freed later. */
    void (*done)(void *context, int status, const struct err *e);
    void *context;
};

struct assigner_counts { /* rows, as the shards have answered */
    uint64_t sent, made, replaced, kept, blocked;
};

/* NOMEM. */
int assigner_new(const struct assigner_options *options, struct assigner **out, struct err *e);
void assigner_free(struct assigner *a); /* NULL is allowed; requests in flight are dropped */
/* Begins; the client has a map. */
void assigner_start(struct assigner *a);
/* The client has another map: what is on its way to a shard that does not lead it any more goes to
 * the one that does. A shard that left the fleet answers nothing. */
void assigner_remap(struct assigner *a);
const struct assigner_counts *assigner_counts(const struct assigner *a);

#endif
