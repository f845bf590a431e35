/* plan.h: which tablets go where so that shards carry the same bytes and the same load. Pure.
 *
 * Tablets of shards that are to be empty go to the others. Then tablets go from shards with more
 * bytes than the mean to those with fewer, as long as that makes both more even. Then, while one
 * shard carries more than COORD_PLAN_EVEN of the mean load, one of its loaded tablets changes
 * places with a little loaded one, of about the same bytes, of the shard that carries least. So few
 * tablets move, and the bytes stay even. */
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
