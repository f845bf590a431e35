/* picture.h: the figures of the status page (server/coord/page): the status, and beside it what
 * only a picture shows: the curves of the job, the load of each tablet, the last jobs.
 *
 * Making a picture asks the shards for the load of their tablets, at most every PICTURE_HEAT_NS,
 * and only while all shards answer and no tablet moves. So a page that is not read costs nothing,
 * and no picture delays an order. A load that is not known yet is 0.
 *
 *     {"status": coord_picture_status of the newest job that runs, "now", "version",
 *      "curve": {"examples", "logloss", "rate"}: lists of one length,
 *      "auc": {"examples", "auc" or "rmse"}: likewise,
 *      "map": {"tablets", "cell", "shards": [{"shard", "tablets", "load", "cells"}],
 *              "hottest": {"shard", "share"} of the hottest tablet; absent without a load},
 *      "jobs": the last PICTURE_JOBS lines of `shoal jobs`, oldest first}
 *
 * Each `rate` is that of the last PICTURE_RATE_S of training, and of more where points are rarer:
 * reports come in bursts. A shard's `load` is its share of all, 0 to 1. Its `cells` stand for its
 * tablets in order of the map, `cell` of them each, so that all shards together have about
 * PICTURE_CELLS: a digit for the hottest tablet in it, 0 for none, 9 for more than half the load of
 * the hottest tablet of all, 8 for more than a quarter, and so on.
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_JOB_PICTURE_H
#define SERVER_COORD_JOB_PICTURE_H

#include "proto/base/json.h"

#include <stdint.h>

#define PICTURE_HEAT_NS UINT64_C(10000000000)
#define PICTURE_CELLS 4096u
#define PICTURE_POINTS 200u
#define PICTURE_JOBS 12u
#define PICTURE_RATE_S 1.0

struct coord;
struct coord_job;

/* The last known load, kept in struct coord. */
struct coord_picture {
    uint64_t *load; /* owned, (tablets) by global number; NULL: none yet */
    uint32_t tablets;
    uint64_t asked_ns;
};

/* Returns coord_status_json of the job, and beside it "running": [{"number", "job", "space",
 * "state", "epoch", "examples", "rate", "workers", "workers_wanted", "waiting" (absent: for
 * nothing)}] of all jobs that run, and "queued": how many wait for their turn. The caller frees
 * it. */
struct json *coord_picture_status(struct coord *c, struct coord_job *j);
/* Returns the text, which the caller frees; NULL when out of memory. */
char *coord_picture_text(struct coord *c);
void coord_picture_close(struct coord_picture *p);

#endif
