/* trace.h: `shoal trace`: traces of batches as JSON, and that as text. */
#ifndef DEPLOY_CLI_TRACE_H
#define DEPLOY_CLI_TRACE_H

#include "proto/base/json.h"

#include <stdbool.h>

/* {"run", "every", "traces": [{"lane", "batch", "generation", "worker", "epoch", "examples",
 * "keys", "begun_ms", "wall_ms", "stages": [{"stage", "ms", "beside_ms", ..}]}], "silent":
 * [{"shard", "why"}]}, the newest trace last. begun_ms is by the worker's clock. The stages
 * follow each other and add up to wall_ms; beside_ms is the part of one in which the lane computed
 * other batches. Of a stage: read has file_ms and parse_ms, plan and compute have thread_ms; pull
 * and push have "parts", the number of requests, and "slowest": [{"shard", "table", "keys",
 * "tries", "ms", "way_ms", "shard_ms"}]. shard_ms has a member for each of wire.h's kinds of span,
 * null where the shard does not have it (any more); way_ms is the rest of ms: networks, queues of
 * sockets, the worker's loop. silent: shards that did not answer. */

void trace_list_print(const struct json *told);
/* The first of `traces`, as lines of time. */
void trace_one_print(const struct json *told);

#endif
