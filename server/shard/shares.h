/* shares.h: SHARES: the shares of the memory that the spaces have (embedding/engine/share.h), and
 * how they are used. The coordinator repeats the message, for its figures, and sends it to a shard
 * whose beat tells another list. Thread: the shard's. */
#ifndef SERVER_SHARD_SHARES_H
#define SERVER_SHARD_SHARES_H

#include "proto/base/env.h"

#include <stdbool.h>
#include <stdint.h>

struct json;
struct meter_sheet;
struct shard;

void shares_on_message(struct shard *s, peer_t from);
/* True when pushes to the table wait for room of their own space, and waiting pushes have taken
 * half of the pool: the rest is for other spaces. */
bool shares_fill_pool(const struct shard *s, uint32_t table);
/* The digest of the list that the engine has; 0: it has none. */
uint64_t shares_digest(const struct shard *s);
/* The shares and their use, for SHARD_STATUS. NULL: there are none. */
struct json *shares_json(const struct shard *s);
void shares_gauges(const struct shard *s, struct meter_sheet *out);

#endif
