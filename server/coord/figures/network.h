/* network.h: figures of a network that the workers keep in step (train.dense: allreduce), for
 * report, status and metrics. */
#ifndef SERVER_COORD_FIGURES_NETWORK_H
#define SERVER_COORD_FIGURES_NETWORK_H

#include "proto/base/json.h"
#include "server/coord/core/core.h"

/* Seconds since the tables of the servers got the network; NAN: they have none, or this coordinator
 * has not heard of it yet. */
double coord_network_age_s(const struct coord_job *j);
/* {"rings", "members", "starts", "steps", "bytes_a_step", "wait_ms_a_step", "published",
 * "state_bytes", of optimizer state at the worker that has most}, the
 * caller's; NULL: the servers keep this job's network. sum: of all workers (coord_worker_sums).
 * steps: the newest that the coordinator knows to be whole. Figures of a step are means of one
 * worker; null: none was made. */
struct json *coord_network_json(const struct coord_job *j, const struct wire_WORKER_BEAT *sum);
/* The same, with "state", "rest", the step after which the ring rests (absent: it does not),
 * "workers", its members by name, and "published_seconds", the age. */
struct json *coord_network_status(struct coord_job *j, const struct wire_WORKER_BEAT *sum);

#endif
