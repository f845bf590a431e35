/* lib_fleet.h: a fleet's tables as the functions of shoal.h see them: connections, map, schemas.
 *
 * A fleet has no thread: each call runs the loop until its answer is there (lib_fleet_run), on the
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
struct features;
struct fetcher;

struct shoal_fleet {
    char coordinator[COORDINATORS_LIST], space[LIMIT_NAME];
    uint32_t wait_ms;
    struct keyfile *keys;
    struct net *net;
    struct client *client;
    struct table_schema *schema; /* owned (tables): all of the space's, in the job's order */
    struct table_set numbers;    /* by which the fleet knows them */
    bool anew;                   /* the map has other tables in their places by now */
    uint32_t tables, sparse;     /* the first `sparse` are sparse */
    struct job job;              /* the one that made them, with have_job; */
    bool have_job;
    struct err job_why;        /* or why its text cannot be read */
    struct features *features; /* owned; NULL until a key needs them (lib_key.c) */

    /* the call under way */
    struct env_timer limit;
    struct request ask;
    struct fetcher *fetcher; /* NULL, and so is the other: no such call */
    struct assigner *assigner;
    uint32_t asked;             /* the table that is asked for */
    char refused[ERR_TEXT_MAX]; /* the coordinator's last refusal of a map */
    uint64_t moved;             /* rows at the last look of `limit` */
    bool mapped, over;
    struct err end; /* its result */
};

/* Rows of a table, sparse or dense. */
struct lib_fleet_rows {
    uint32_t table;       /* index among all tables of the space */
    const uint64_t *keys; /* (count) */
    uint64_t *owned;      /* keys, where they are the struct's; else NULL */
    size_t count;
    float *weights, *state; /* (count, width), (count, state floats); state NULL: none */
    uint8_t *found;         /* (count), or NULL; read alone */
};

/* CONFIG: the tables were made anew, so that no request may go out by their numbers. */
int lib_fleet_check(const struct shoal_fleet *f, const char *what, struct err *e);
/* Begins a call; lib_fleet_run waits for its end. */
void lib_fleet_begin(struct shoal_fleet *f);
/* Ends the call under way. From the loop. */
void lib_fleet_end(struct shoal_fleet *f, int status, const char *text);
/* Runs the loop until lib_fleet_end, or until nothing has come for the fleet's wait (TIMEOUT).
 * what: the caller, for messages. */
int lib_fleet_run(struct shoal_fleet *f, const char *what, struct err *e);

/* Floats of a row's optimizer state, without statistics. */
uint32_t lib_fleet_state_floats(const struct table_schema *s);
/* Read rows, and write them with SHOAL_KEEP or 0 (counts: NULL, or filled; BUSY, too, where a job
 * began in between). Other errors as of fetcher.h and assigner.h. */
int lib_fleet_fetch(struct shoal_fleet *f, const char *what, const struct lib_fleet_rows *rows,
                    struct err *e);
struct assigner_counts;
int lib_fleet_assign(struct shoal_fleet *f, const char *what, const struct lib_fleet_rows *rows,
                     uint32_t flags, struct assigner_counts *counts, struct err *e);
/* CONFIG: the text of the tables' job cannot be read here. */
int lib_fleet_job(const struct shoal_fleet *f, const char *what, struct err *e);
void lib_fleet_features_free(struct shoal_fleet *f);

#endif
