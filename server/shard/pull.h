/* pull.h: rows of keys to a worker. A pull never writes. It is noted on arrival and answered in the
 * tick, after the drain's pushes have been applied, or as soon as its clock is reached and its rows
 * are in memory. The rows are copied once, from the table into the reply's frame.
 *
 * Under bsp a pull of batch b sees all pushes of clock b - 1 and none of clock b, whoever died: it
 * waits until the whole of clock b - 1 is applied here, and reads around what is already applied of
 * clock b (table_pull_before), so that a batch computed again on behalf of a shard that lacks it
 * gives the same gradients. Once clock b + 1 is applied here those rows are gone and the pull is
 * refused (GAP): a worker that pushes b + 1 anywhere before b is acknowledged everywhere would come
 * to this. */
#ifndef SERVER_SHARD_PULL_H
#define SERVER_SHARD_PULL_H

#include "server/shard/shard.h"

/* s->in holds the decoded PULL. */
void pull_on_message(struct shard *s, peer_t from);
/* Answers what waited and is due, then answers or puts to wait what arrived. */
void pull_tick(struct shard *s);
/* Now and then: refuses what waits for nobody any more. */
void pull_expire(struct shard *s);

#endif
