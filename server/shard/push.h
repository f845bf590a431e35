/* push.h: gradients to rows: admission, the group of a drain, replies.
 *
 *     checked -> (held by a cut) -> (held by bsp, or parked until its rows and room are there)
 *             -> admitted to the group -> committed -> applied -> synced -> answered
 *
 * Refusals other than GAP are answered at once: they promise nothing. A GAP names a mark, and
 * "skipped" says that a push is kept, so both wait in the group like an applied push: under fsync
 * neither may be told before what it rests on is synced. */
#ifndef SERVER_SHARD_PUSH_H
#define SERVER_SHARD_PUSH_H

#include "server/shard/shard.h"

/* Takes m. s->in holds the decoded PUSH. */
void push_on_message(struct shard *s, peer_t from, struct msg *m);
/* From the cut's queue back on its way. */
void push_enter(struct shard *s, struct request *q);
/* Admits to the group; all rows of its keys are in memory (engine_warm, in this turn). Takes q, and
 * answers a refusal, but for BUSY: then q is still the caller's. Returns the engine's verdict. */
int push_admit(struct shard *s, struct request *q);
/* Into the group with an answer that is known already: skipped (status 0) or GAP. */
void push_answer_later(struct shard *s, struct request *q, int status, uint64_t mark);
/* Commits, applies and answers the group: 0, or the fatal error's code. */
int push_settle(struct shard *s);
/* Answers what the engine acknowledges by now (fsync). */
void push_synced(struct shard *s);

#endif
