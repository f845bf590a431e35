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
 * them. All are in memory: they were when the push was admitted, and no row leaves before its group
 * is applied (embedding/engine/tier.c, 1). [assert: rows_copy] There are no rows, and the sender
 * pulls them:
 *   - of a push that changed nothing: it was applied before, or refused;
 *   - under bsp, where a pull waits for a whole clock (pull.h);
 *   - where the reply has no room: in a frame, in the pool, in memory;
 *   - of a leader whose lease is over: it answers no pull either (copies.h).
 *
 * The bound. A pull of batch c may be answered when all live lanes have reached clock(c) -
 * staleness - 1, and then its rows have every lane's pushes up to there. An echo with the push of
 * batch b may serve batch c when the other live lanes have, which is what `low` says:
 *   - A row has the pushes of another lane at least up to that lane's lowest mark here, so at least
 *     up to `low`.
 *   - Of its own lane it has all pushes before c that change it. The lane's pushes to a tablet are
 *     applied in order, so it has those up to b. Those between b and c are without its key: b is
 *     the latest batch before c that has the key (worker/train/ahead.h).
 * The lane's own clock does not count: it is the lowest mark over all tables, and the parts of b
 * for other tables may be on their way still.
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
