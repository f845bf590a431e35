/* ages.h: the ages of gradients, in steps.
 *
 * A push names the steps of the oldest rows that its gradients were computed from (PUSH.clock). Its
 * age is the number of steps that the table has gone since (engine_steps), its own not counted. It
 * is computed once, at admission, and goes into the push's record, so that followers and a replay
 * have the same one. The shard counts pushes by age for each table and its newest run. The counts
 * are in memory only: a shard that starts counts from 0. Thread: the shard's. */
#ifndef SERVER_SHARD_AGES_H
#define SERVER_SHARD_AGES_H

#include "embedding/engine.h"
#include "proto/base/limits.h"

#include <stdint.h>

#define AGES_CELLS 256u

struct json;

struct ages {
    struct ages_table {
        uint64_t run;              /* the newest that has pushed */
        uint64_t cell[AGES_CELLS]; /* its pushes by steps; the last cell: all beyond */
        uint64_t pushes, steps;    /* counts over all runs since the start: pushes, sum of ages */
    } table[LIMIT_TABLES];
};

/* The age of a push that is admitted now; 0: its clock is not known, or not reached here. */
uint32_t ages_of(const struct engine *g, const struct push_record *r);
/* Counts a push that was admitted, unless it has no keys, or no clock. */
void ages_count(struct ages *a, const struct push_record *r);
/* Sets `ages_run`, and `ages` to the cells up to the last one that is not 0; nothing where all
 * are. */
void ages_set(struct json *to, const struct ages_table *t);

#endif
