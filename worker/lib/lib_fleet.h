/* lib_fleet.h: a fleet's tables as the functions of shoal.h see them: connections, the map, schemas.
 *
 * A fleet has no thread: each call runs the loop until its answer is there (fleet_run), on the
 * caller's thread. */
#ifndef WORKER_LIB_LIB_FLEET_H
#define WORKER_LIB_LIB_FLEET_H

#include "proto/job/job.h"
#include "proto/job/schema.h"
#include "proto/net/net.h"
#include "proto/wire/coordinators.h"
#include "worker/lib/shoal.h"
#include "worker/train/client.h"

struct assigner;
struct fetcher;

struct shoal_fleet {
    char coordinator[COORDINATORS_LIST], space[LIMIT_NAME];
    uint32_t wait_ms;
    struct keyfile *keys;
    struct net *net;
    struct client *client;
    struct table_schema *schema; /* owned (tables): all of the space's, in the job's order */
    uint32_t tables, sparse;     /* the first `sparse` are sparse */
    struct job job;              /* the one that made them */
    bool have_job;

    /* the call under way */
    struct env_timer limit;
    struct request ask;
    struct fetcher *fetcher; /* NULL, and so is the other: no such call */
    struct assigner *assigner;
    uint32_t asked; /* the table that is asked for */
    bool mapped, over;
    struct err end; /* its result */
};

/* Begins a call; fleet_run waits for its end. */
void fleet_begin(struct shoal_fleet *f);
/* Floats of a row's optimizer state, without statistics. */
uint32_t fleet_state_floats(const struct table_schema *s);
/* Ends the call under way. From the loop. */
void fleet_end(struct shoal_fleet *f, int status, const char *text);
/* Runs the loop until fleet_end, or the fleet's wait is over (TIMEOUT). */
int fleet_run(struct shoal_fleet *f, const char *what, struct err *e);

#endif
