/* push.h: gradients on their way to the group of a drain.
 *
 *   push_on_message: checked --nothing is held--> on its way
 *     |                                            ^  |  |
 *     +--a cut is held (cut.h), or a               |  |  |
 *        tablet is given (move.h)--> queued --go on+  |  +--> park_enter: parked until its rows and
 *                                                     |         |         room are there
 *                                                     v         |
 *                              bsp_push: held for its clock     | push_parked
 *                                          |                    |
 *                                          +-------> push_group_admit (push_group.h)
 */
#ifndef SERVER_SHARD_PUSH_H
#define SERVER_SHARD_PUSH_H

#include "server/shard/shard.h"

/* s->in holds the decoded PUSH. */
void push_on_message(struct shard *s, peer_t from);
/* Takes q, a push or an assignment that was checked, and holds it or puts it on its way. */
void push_enter(struct shard *s, struct request *q);
/* 0, or NOT_LEADER: not all of these tablets are led here. */
int push_check_led(const struct shard *s, const struct table_schema *schema, uint32_t first,
                   uint32_t count, struct err *e);
/* Nothing is held any more, or perhaps so: queued pushes go on their way, where the present map
 * allows it. */
void push_go_on(struct shard *s);
/* The first step of a tick: pushes that waited for rows or room and may go on, those of bsp too. */
void push_parked(struct shard *s);

#endif
