/* plan.h: the moves of tablets after which shards carry the same bytes and the same load. Pure.
 *
 * Tablets of shards that are to be empty go to the others. Then tablets go from shards with more
 * bytes than the mean to those with fewer, as long as that makes both more even. Then, while one
 * shard carries more than COORD_PLAN_EVEN of the mean load, some of its loaded tablets change
 * places with as many little loaded ones, of about the same bytes, of the shard that carries least.
 * So few tablets move, and the bytes stay even.
 *
 * A shard's tablets are kept in few stretches, because workers send a request for each stretch: a
 * server's tablets that were dealt out by turns would cost each batch a request a tablet. So a
 * tablet goes where those beside it are, as long as there is room. Load changes places by a single
 * tablet where that is enough, else by stretches of 2, 4, 8, ...: each exchange takes away an
 * eighth of what is too much. [test: plan_keeps_tablets_in_few_stretches] */
#ifndef SERVER_COORD_FLEET_PLAN_H
#define SERVER_COORD_FLEET_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define COORD_PLAN_EVEN 1.05

struct coord_plan {
    const uint16_t *owner; /* (tablets) */
    const uint64_t *bytes; /* (tablets) */
    const uint64_t *load;  /* (tablets), in any unit */
    const bool *leaves;    /* (shards): true: all its tablets go; not all shards are so */
    uint32_t tablets, shards;
};

/* Writes the shard that is to lead each tablet. goal: (tablets). False: out of memory. */
bool coord_plan_make(const struct coord_plan *p, uint16_t *goal);

#endif
