/* setup.h: giving a shard what the job needs: MAP_SET, TABLE_CREATE for each table, RUN_OPEN,
 * FENCES, in this order, each answered before the next. Done at the job's start and again whenever
 * a shard comes back; all of it is idempotent. Also the digests at the end. */
#ifndef SERVER_COORD_SETUP_H
#define SERVER_COORD_SETUP_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_job;

/* Makes and stores tables and map from what was declared. SCHEMA, CONFIG, NOMEM. */
int coord_setup_map(struct coord_job *j, struct err *e);
int coord_setup_load(struct coord_job *j, struct err *e); /* after a restart */
/* Tells one that is there but reads its rows back what it needs to answer readers: the map, once.
 * Nothing waits for the answer. */
void coord_setup_map_early(struct coord_job *j, uint32_t shard);
/* Tells shards that are ready what they need to know whether a job runs or not: the map, which cuts
 * and runs are wanted. */
void coord_setup_greet(struct coord_job *j);
/* Begins or goes on with every ready shard that is not set up. */
void coord_setup_step(struct coord_job *j);
/* Asks for the digests of all tables; job.digested counts the tables answered by all shards. */
void coord_setup_digest(struct coord_job *j);

#endif
