/* beat.h: beats of shards: the fleet takes what a shard says of itself, and each job hears that a
 * shard came back, or knows more than the coordinator's store. */
#ifndef SERVER_COORD_BEAT_H
#define SERVER_COORD_BEAT_H

struct coord;
struct coord_ask;

/* A SHARD_BEAT (core.h). Answered at once, before the map that the shard may be told. */
int coord_beat_shard(struct coord *c, struct coord_ask *a);

#endif
