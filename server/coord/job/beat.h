/* beat.h: beats of shards. The fleet takes the state that a shard reports. Each job is told when a
 * shard came back, or knows more than the coordinator's store. */
#ifndef SERVER_COORD_JOB_BEAT_H
#define SERVER_COORD_JOB_BEAT_H

struct coord;
struct coord_ask;

/* Handles a SHARD_BEAT (core.h). The answer is sent at once, before the map that the shard may be
 * told. */
int coord_beat_shard(struct coord *c, struct coord_ask *a);
/* Tells the jobs of each shard that another copy leads now: its setup begins anew, and its rows are
 * there. */
void coord_beat_taken(struct coord *c);

#endif
