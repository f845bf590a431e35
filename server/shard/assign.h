/* assign.h: tablets of the network, whole: a worker assigns one (ASSIGN), or reads one (IMAGE).
 *
 * A push that power takes is missed, for its lane's mark lies before what was acknowledged. No lane
 * has a mark for an assignment, and with the evaluation or the end that follows it the tables
 * could go back unnoticed. So its answer waits for the sync.
 *
 *   ASSIGN -> checked --as a push from here on (push.h)--> group: admitted, committed, applied
 *          -> answered once it is on disk, under `journal`, too, and in every copy in sync
 *   IMAGE  -> the group is settled -> answered at once
 *
 * Under bsp an assignment is not held for its clock: no other lane assigns the tablet.
 *
 * 1. An image is given only of what is acknowledged: a worker that goes on from it would have what
 *    the servers may lose. [test: an_image_waits_for_the_copies, an_image_waits_for_the_sync]
 * 2. An assignment that was answered is on disk, except with `memory`. [test:
 *    an_assignment_is_on_disk_when_it_is_answered]
 *
 * Thread: the shard's. s->in holds the request. */
#ifndef SERVER_SHARD_ASSIGN_H
#define SERVER_SHARD_ASSIGN_H

#include "server/shard/shard.h"

void assign_on_message(struct shard *s, peer_t from);
void assign_on_image(struct shard *s, peer_t from);
/* Starts the reply to an assignment in s->out. */
void assign_reply(struct shard *s, const struct request *q);

#endif
