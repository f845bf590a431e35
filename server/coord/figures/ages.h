/* ages.h: the ages of a job's gradients, by table: how many batches of all lanes a table had
 * applied since the rows were read from which a push was computed. Shards count pushes by age
 * (server/shard/ages.h) and report the counts in SHARD_STATUS (`tables`); here they are added up.
 * A shard counts since the newest run of the table began, or since it was started. Pure. */
#ifndef SERVER_COORD_FIGURES_AGES_H
#define SERVER_COORD_FIGURES_AGES_H

#include "proto/base/json.h"
#include "proto/base/limits.h"

#include <stdint.h>

#define COORD_AGES 256u

struct coord_ages {
    struct coord_ages_table {
        char table[LIMIT_NAME];
        uint64_t cell[COORD_AGES]; /* pushes by steps; the last cell: all beyond */
    } table[LIMIT_TABLES];
    uint32_t tables;
};

/* Adds a shard's list, unless its counts are of a run before `run`. Values that are not numbers
 * from 0 are left out. */
void coord_ages_add(struct coord_ages *a, const struct json *tables, uint64_t run);
/* {"pushes", "p50", "p99", "max", "mean"} of a table, the caller's; NULL: no age is known. */
struct json *coord_ages_json(const struct coord_ages *a, const char *table);

#endif
