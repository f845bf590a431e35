/* push_group.h: the pushes of a drain: they are admitted one by one and settled together.
 *
 *   push_group_admit: in the group --push_group_settle: committed, applied-->
 *   push_group_synced: answered
 *
 * Refusals other than GAP are answered at once: they promise nothing. A GAP names a mark, and
 * "skipped" says that a push is kept, so both wait in the group like an applied push: under fsync
 * neither may be sent before the records that it depends on are synced. */
#ifndef SERVER_SHARD_PUSH_GROUP_H
#define SERVER_SHARD_PUSH_GROUP_H

#include "server/shard/shard.h"

/* Admits q to the group; all rows of its keys are in memory (engine_warm, in this turn). Takes q
 * and answers a refusal, except for BUSY: then q is still the caller's. Returns the engine's
 * verdict. */
int push_group_admit(struct shard *s, struct request *q);
/* Adds q to the group with an answer that is known already: skipped (status 0) or GAP. */
void push_group_answer_later(struct shard *s, struct request *q, int status, uint64_t mark);
/* Commits, applies and answers the pushes admitted so far. Called before anything that must not
 * fall between admission and application: a cut, a restore, a digest. 0, or the fatal error's
 * code. */
int push_group_settle(struct shard *s);
/* Answers the pushes that the engine has acknowledged by now (fsync). */
void push_group_synced(struct shard *s);

#endif
