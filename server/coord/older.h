/* older.h: a job of a coordinator whose data_dir was put back to an older state: servers know more
 * than the job began with, so the job ends, with the advice that fits.
 *
 * Each is called with the beat of a shard that knows more than the store, before anything else is
 * done with the beat. */
#ifndef SERVER_COORD_OLDER_H
#define SERVER_COORD_OLDER_H

#include "proto/wire/wire.h"

struct coord_job;

/* Newer names of fields (coord_names_learn). */
void coord_older_names(struct coord_job *j, const struct wire_SHARD_BEAT *beat);
/* More of what the tables have learnt from (coord_taken_learn). */
void coord_older_taken(struct coord_job *j, const struct wire_SHARD_BEAT *beat);
/* A newer run (coord_cluster_learn). */
void coord_older_run(struct coord_job *j, const struct wire_SHARD_BEAT *beat);

#endif
