/* setup.h: gives a shard what the job needs: MAP_SET, TABLE_CREATE for each table, RUN_OPEN,
 * FENCES, in this order, each answered before the next. This is done at the job's start and again
 * whenever a shard comes back; all of it is idempotent. Asks also for the digests at the end. */
#ifndef SERVER_COORD_JOB_SETUP_H
#define SERVER_COORD_JOB_SETUP_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_job;
struct coord_space;

#define COORD_SPACE_KEY "of_space" /* value: number of the job's space, u32 */

/* Finds the space of the stored job; first: of the first slot, which has one from the beginning.
 * CORRUPT, IO. */
int coord_setup_open(struct coord_job *j, bool first, struct err *e);
/* The slot's job is of this space from now on. */
void coord_setup_space(struct coord_job *j, struct coord_space *s);
/* Makes and stores tables and map from the workers' declarations. SCHEMA, CONFIG, NOMEM. */
int coord_setup_map(struct coord_job *j, struct err *e);
int coord_setup_load(struct coord_job *j, struct err *e); /* after a restart */
/* Sends a shard that still recovers its rows what it needs to answer readers: the map, once.
 * Nothing waits for the answer. */
void coord_setup_map_early(struct coord_job *j, uint32_t shard);
/* Sends ready shards what they need to know whether or not a job runs: the map, and which cuts and
 * runs are wanted. */
void coord_setup_greet(struct coord_job *j);
/* Begins or goes on with the setup of every ready shard that is not set up. */
void coord_setup_step(struct coord_job *j);
/* Asks for the digests of all tables; job.digested counts the tables that all shards have
 * answered. */
void coord_setup_digest(struct coord_job *j);

#endif
