/* sight.h: a view for an operator without asking: the workers that are there but not part of a
 * job, and sentences on what is wrong with the cluster, whether or not it stops the job at hand
 * (status.h: what the job waits for). This is the one list of problems: `shoal status`, `shoal
 * doctor`, `shoal top` and the page print its sentences, and Prometheus gets a series for each. The
 * same four print the notes. */
#ifndef SERVER_COORD_JOB_SIGHT_H
#define SERVER_COORD_JOB_SIGHT_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_fleet;
struct coord_job;
struct coord_ask;
struct coord_worker;

/* Workers that asked to join and were not taken: there is no job, or they do not fit it; and those
 * whose lease ran out. A worker is forgotten when its connection closes, since its process may have
 * ended and another one have its name, or when it is not heard for three leases; a lost one after a
 * minute. */
struct coord_visitors {
    struct coord_visitor {
        char name[LIMIT_NAME], why[ERR_TEXT_MAX]; /* why it was refused; empty: it waits */
        uint32_t pid, lanes;                      /* lanes: that it has places for */
        peer_t peer;                              /* its connection; lost: 0 */
        bool lost;                                /* its lease ran out */
        bool external;                            /* it has a network of its own (crew.h) */
        uint64_t heard_ns;                        /* lost: when that was */
    } * visitor;                                  /* owned (count) */
    uint32_t count, capacity;
};

/* A worker has asked to join. why: NULL: the worker is a member now. */
void coord_sight_visit(struct coord_fleet *f, const struct wire_WORKER_JOIN *join, peer_t from,
                       const char *why);
/* The connection has closed. */
void coord_sight_gone(struct coord_fleet *f, peer_t peer);
/* Returns the lanes that the workers of a kind (crew.h) that wait for a job, and are heard, have
 * places for; with `most` above 0 of at most so many, those with the fewest places. *workers: their
 * number. */
uint32_t coord_sight_places(const struct coord_fleet *f, bool external, uint32_t most,
                            uint32_t *workers);
/* Returns the number of workers of a kind that wait for a job and are heard, but for the one at
 * this connection (0: of all). */
uint32_t coord_sight_free(const struct coord_fleet *f, bool external, peer_t but);
/* A worker's lease has run out. */
void coord_sight_lost(struct coord_fleet *f, const struct coord_worker *w);
void coord_sight_tick(struct coord_fleet *f);
/* As coord_worker_forgive, for visitors. */
void coord_sight_forgive(struct coord_fleet *f, uint64_t gap_ns, uint64_t now_ns);
void coord_sight_close(struct coord_visitors *v);
/* [{"name", "pid", "why", "silent_ms"}] */
struct json *coord_sight_idle(const struct coord_fleet *f);
/* Handler of SERVER_DISK. */
int coord_sight_disk(struct coord_fleet *f, struct coord_ask *a);
/* Returns for how many seconds the disk of a shard's server has not answered, as its main thread or
 * its beats say; 0: the disk answers, or the server no longer says so. */
uint64_t coord_sight_hangs(const struct coord_fleet *f, uint32_t shard);
/* Returns [{"problem": what kind, as "disk_hangs"; "of": the server, worker, job or shard that has
 * it, or ""; "text": a sentence: since when, and what to do; "fact": since.h}]; empty: nothing is
 * wrong. */
struct json *coord_sight_found(const struct coord_job *j);
/* Returns [sentence] on states that an operator has chosen, and which are no problems: servers that
 * were drained and still run, a job with fewer lanes than workers, batches that are traced. */
struct json *coord_sight_notes(const struct coord_job *j);
/* Returns coord_sight_found's ["text"]. */
struct json *coord_sight_texts(const struct json *found);
/* Returns for how long one of them has been found so far. */
double coord_sight_seconds(struct coord_fleet *f, const struct json *problem);

#endif
