/* older.h: a coordinator's data_dir was put back to an older state, so servers know more than its
 * job began with. The job ends, and its error says what to do.
 *
 * beat.c calls these with the beat of a shard that knows more than the store. */
#ifndef SERVER_COORD_JOB_OLDER_H
#define SERVER_COORD_JOB_OLDER_H

#include "proto/wire/wire.h"

struct coord_job;

/* The shard knows newer names of fields (coord_names_learn). */
void coord_older_names(struct coord_job *j, const struct wire_SHARD_BEAT *beat);
/* The shard knows more files or objects that the tables have learnt from (coord_taken_learn). */
void coord_older_taken(struct coord_job *j, const struct wire_SHARD_BEAT *beat);
/* The shard knows a newer run (coord_cluster_learn). */
void coord_older_run(struct coord_job *j, const struct wire_SHARD_BEAT *beat);

#endif
