/* fleet.h: the fleet that jobs share: its servers, the map of tablets to shards, the names and
 * tables that the servers hold, and the keys of peers. The files of a job also find the store, the
 * answers and the calls of the coordinator here.
 *
 * An event of the loop (a batch of messages, a tick, the end of an errand) changes the store in
 * memory. At its end coord_fleet_end commits all its changes as one transaction. From the first
 * change until that transaction is complete, messages are held back, in order, no errand begins,
 * and the coordinator does not end.
 *
 * A store may stand still, so at most LIMIT_HELD messages of LIMIT_HELD_BYTES are held. Further
 * ones are dropped, as env_send drops them for a peer that does not read. Nothing is lost:
 *
 *     reply               the peer repeats its request, and gets the same reply
 *     request of a call   call.h repeats it until the shard has answered, allowed.h the allow-list
 *     early map           coord_send_frame returns false, so the next beat causes another try
 *     reply to the STOP   always held, since no coordinator is left to be asked again. After it no
 *                         request is taken, so nothing more comes to be held
 *
 * The fleet holds no job. A job reaches the fleet as job->fleet. Where a shard knows more than the
 * store, the fleet returns that, and the caller ends the job (older.h). */
#ifndef SERVER_COORD_FLEET_FLEET_H
#define SERVER_COORD_FLEET_FLEET_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"
#include "server/coord/fleet/allowed.h"
#include "server/coord/fleet/call.h"
#include "server/coord/fleet/cluster.h"
#include "server/coord/fleet/cluster_map.h"
#include "server/coord/fleet/copies.h"
#include "server/coord/fleet/drop.h"
#include "server/coord/fleet/errand.h"
#include "server/coord/fleet/heat.h"
#include "server/coord/fleet/map.h"
#include "server/coord/fleet/member.h"
#include "server/coord/fleet/moves.h"
#include "server/coord/fleet/moves_order.h"
#include "server/coord/fleet/names.h"
#include "server/coord/fleet/options.h"
#include "server/coord/fleet/replace.h"
#include "server/coord/fleet/shares.h"
#include "server/coord/fleet/since.h"
#include "server/coord/fleet/spaces.h"
#include "server/coord/fleet/traces.h"
#include "server/coord/fleet/writes.h"
#include "server/coord/store/store.h"

#include <stdbool.h>
#include <stdint.h>

/* Value of "counters" in the store. */
struct coord_counters {
    uint64_t next_run, next_cut;
};

/* A message that may tell of changes of the store that are not complete. */
struct coord_held {
    struct coord_held *next;
    uint64_t after; /* the transaction that it waits for */
    peer_t to;
    struct msg *m; /* owned */
};

struct coord_job;

struct coord_fleet {
    struct coord_options options;
    struct env *env;           /* borrowed */
    struct coord_store *store; /* borrowed */
    struct coord_counters counters;
    struct coord_members members;
    struct coord_cluster cluster;
    struct coord_copies copies;
    struct coord_spaces spaces;
    struct coord_names names;
    struct coord_allowed keys;
    struct coord_shares shares;
    struct coord_drop drop;
    struct coord_heat heat;
    struct coord_traces traces;
    struct coord_moves moves;
    struct coord_moves_asker moves_asker;
    struct coord_replace replace;
    struct coord_calls calls;
    struct coord_errands errands;
    struct coord_since since;
    struct coord_writes writes;
    /* states that other rooms know (job/slot.h): the ended jobs, those that wait, the versions of
     * what the tables have learnt, the workers without a job, the jobs
     * that hold the shards */
    struct coord_jobs *jobs;
    struct coord_queue *queue;
    struct coord_taken_all *taken;
    struct coord_visitors *visitors;
    struct coord_job *aside; /* the slot that never has a job (job/aside.h) */
    struct coord_hold_line *hold_line;
    struct coord_held *held, *held_last; /* in order; owned */
    uint32_t held_count;
    uint64_t held_bytes;
    bool shedding; /* messages were dropped since `held` was last empty */
    int fatal;     /* the store failed: the coordinator promises nothing more */
    bool stopping; /* ends when all changes are complete */
};

struct coord_worker;

/* A request of a peer. The handler of its type (dispatch.c) returns 0 and fills in the reply, or
 * refuses the request with a status and `e`. */
struct coord_ask {
    peer_t from;
    struct env_who who;
    const struct wire *request;
    const struct msg *m;
    struct coord_worker *worker; /* the worker whose pass the request has; NULL: it needs none */
    struct wire reply;           /* filled in as a success without further fields */
    const void *frame;           /* the reply's raw frame; NULL: it has none */
    size_t frame_bytes;
    bool silent; /* no reply now: it was sent already, comes later, or the peer asks again */
    bool later;  /* the handler's errand will hand the request in again */
    struct err e;
};

/* Handles the status of a change of the store: false, and the coordinator stops, when it failed. */
bool coord_fleet_stored(struct coord_fleet *f, int status, const struct err *e);
/* Puts into a store, and handles its failure in one place. False: the coordinator is stopping, and
 * nothing is answered any more. */
bool coord_fleet_store(struct coord_fleet *f, struct coord_store *store, const char *key,
                       const void *value, size_t bytes, bool sync);
/* Ends an event: commits its changes, and sends what waits for no transaction. */
void coord_fleet_end(struct coord_fleet *f);
/* As coord_store_told, with the fleet as context. */
void coord_fleet_told(void *context, int rc, const struct err *e);
/* True while a change is not complete. */
bool coord_fleet_waits(const struct coord_fleet *f);
/* Puts into the fleet's own store, synced. */
bool coord_put(struct coord_fleet *f, const char *key, const void *value, size_t bytes);
bool coord_remove(struct coord_fleet *f, const char *key);
/* Sends a message once all changes so far are complete. It may be dropped, and m may be NULL (out
 * of memory): the peer asks again. */
void coord_send(struct coord_fleet *f, peer_t to, struct msg *m);
/* Returns the message followed by a frame of bytes; NULL: out of memory. */
struct msg *coord_framed(const struct wire *w, const void *bytes, size_t count);
/* Adds a frame to m, and takes m; NULL: out of memory, or m was NULL. */
struct msg *coord_framed_more(struct msg *m, const void *bytes, size_t count);
/* Sends such a message; false: out of memory, or it is dropped. */
bool coord_send_frame(struct coord_fleet *f, peer_t to, const struct wire *w, const void *bytes,
                      size_t count);
/* BUSY: a field is being dropped (drop.h). */
int coord_drop_check(const struct coord_fleet *f, struct err *e);
/* Returns the lease of shards, and of workers that have joined no job. */
uint64_t coord_fleet_lease_ns(const struct coord_fleet *f);
/* True when the shard is ready and was heard within the lease. */
bool coord_fleet_heard(const struct coord_fleet *f, const struct coord_shard *s);
/* Returns the first shard that is not; NULL: all are. */
const struct coord_shard *coord_fleet_silent(const struct coord_fleet *f);

#endif
