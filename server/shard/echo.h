/* echo.h: rows that go back with the answer to a push.
 *
 * A lane that looks ahead needs some rows of its coming batches as they are after its pushes. Such
 * a push names the keys (PUSH, proto/wire/wire.h). Their rows are read when the push's group has
 * been applied, and are copied once, from the table into the reply's frame. The request then holds
 * the reply in the place of its message, until the push may be answered:
 *
 *   admitted --group applied--> echo_read: the reply, with rows --synced, on the copies--> answered
 *
 * The rows are those that a pull of that instant would give, and clock, low and steps describe
 * them. So the sender can check its bound, and a lane sees its own push and at least what it saw
 * before. There are no rows, and the sender pulls them:
 *   - of a push that changed nothing: it was applied before, or refused;
 *   - under bsp, where a pull waits for a whole clock (pull.h);
 *   - where a row has left memory, or the reply has no room: in a frame, in the pool, in memory;
 *   - of a leader whose lease is over: it answers no pull either (copies.h).
 *
 * Thread: the shard's. Nothing but the reply is allocated. */
#ifndef SERVER_SHARD_ECHO_H
#define SERVER_SHARD_ECHO_H

#include "server/shard/shard.h"

/* The group of q is applied: drops its message, which nothing needs any more, and puts the reply in
 * its place if it gives rows. */
void echo_read(struct shard *s, struct request *q);
/* Starts the reply to a push in s->out: what became of it, without rows. */
struct wire_PUSH_reply *echo_reply(struct shard *s, const struct request *q);

#endif
