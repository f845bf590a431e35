/* awaited.h: the servers that a job waits for. */
#ifndef SERVER_COORD_CORE_AWAITED_H
#define SERVER_COORD_CORE_AWAITED_H

#include "server/coord/core/core.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_SHORT_NS UINT64_C(3000000000)   /* a met bound mostly makes room by itself */
#define COORD_UNHEARD_NS UINT64_C(3000000000) /* three beats (WIRE_BEAT_MS) */

/* Returns for how long a server has not been heard. */
uint64_t coord_awaited_silent_ns(const struct coord_job *j, const struct coord_shard *s);
/* True when it has been silent for longer than the coordinator's lease. */
bool coord_awaited_silent(const struct coord_job *j, const struct coord_shard *s);
/* True when it is to be told that it is not heard: after COORD_UNHEARD_NS, or the lease if that is
 * shorter. */
bool coord_awaited_unheard(const struct coord_job *j, const struct coord_shard *s);
/* Returns the first server that is silent, or NULL. */
const struct coord_shard *coord_awaited_missing(const struct coord_job *j);
/* Returns the first server that has refused pushes for longer than COORD_SHORT_NS, or NULL. */
const struct coord_shard *coord_awaited_short(const struct coord_fleet *f);
/* Returns the first server that is there and still recovers its rows, or NULL. */
const struct coord_shard *coord_awaited_reading(const struct coord_fleet *f);
/* True when the job is held up by a server, a disk or a request that shards put off: then no worker
 * is to blame. */
bool coord_awaited_any(const struct coord_job *j);

#endif
