/* coord.c: the entry of the coordinator: its messages, its steps and its tick. */
#include "server/coord/coord.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/wire/allow.h"
#include "server/coord/core/phase.h"
#include "server/coord/dispatch.h"
#include "server/coord/fleet/add.h"
#include "server/coord/job/aside.h"
#include "server/coord/job/back.h"
#include "server/coord/job/beat.h"
#include "server/coord/job/crew.h"
#include "server/coord/job/fleet_open.h"
#include "server/coord/job/flow.h"
#include "server/coord/job/handle.h"
#include "server/coord/job/look.h"
#include "server/coord/job/replace.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/status.h"
#include "server/coord/job/turns.h"
#include "server/coord/keep/cut.h"
#include "server/coord/operator.h"
#include "server/coord/work/stall.h"

#include <stdio.h>
#include <stdlib.h>

#define TICK_NS UINT64_C(50000000)
#define LATE_NS (10 * TICK_NS)

/* ---- messages -------------------------------------------------------------------------------- */

/* Takes replies only of peers that may send beats: the allow-list may have changed since the
 * request. */
static void on_reply(struct coord *c, peer_t from, const struct wire *w, const struct msg *m)
{
    if (!allow_may(WIRE_RIGHT_SHARD_BEAT, WIRE_COORDINATOR, env_who(c->fleet.env, from)->role,
                   false))
        return;
    if (w->type == WIRE_TYPE_KEYLIST)
        coord_allowed_answer(&c->fleet, from, w);
    else if (w->type == WIRE_TYPE_SHARES)
        coord_shares_answer(&c->fleet, from, w, m);
    else if (w->type == WIRE_TYPE_MAP_HELD && !coord_cluster_known(&c->fleet.cluster))
        coord_claims_map(&c->fleet, from, w, m);
    else
        coord_call_on_reply(&c->fleet.calls, from, w, m);
}

/* Where the last tick is long ago every lease is extended: the coordinator stood still (stopped, a
 * paused machine, a slow disk), and the beats of that time lie unread in its sockets. Before each
 * message, too: after a stop the loop may read some before it ticks. */
static void time_forgive(struct coord *c)
{
    uint64_t now = env_now_ns(c->fleet.env), gap = now - c->ticked_ns;
    if (gap <= LATE_NS)
        return;
    c->ticked_ns = now;
    gap -= TICK_NS;
    log_warn("the coordinator stood still for %.1f s: leases are longer by that",
             (double)gap * 1e-9);
    coord_member_forgive(&c->fleet.members, gap, now);
    coord_copies_forgive(&c->fleet, gap, now);
    coord_sight_forgive(&c->fleet, gap, now);
    struct coord_claims *claims = &c->fleet.cluster.claims;
    for (uint32_t i = 0; i < claims->count; i++)
        claims->claim[i].beat_ns = coord_later(claims->claim[i].beat_ns, gap, now);
    COORD_EACH_JOB (c, j) {
        coord_worker_forgive(&j->workers, gap, now);
        j->watch.begun_ns = coord_later(j->watch.begun_ns, gap, now);
        j->watch.worker_ns = coord_later(j->watch.worker_ns, gap, now);
        if (j->watch.left_ns != 0)
            j->watch.left_ns = coord_later(j->watch.left_ns, gap, now);
    }
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct coord *c = core;
    struct err e = {0};
    struct wire w;
    time_forgive(c);
    int rc = wire_decode(m, &w, &e);
    if (rc == 0)
        env_known(c->fleet.env, from);
    if (rc == SHOAL_E_VERSION) /* the answer is of this release, and the peer may drop it unread */
        log_warn("a program of another release is refused (%s): %s",
                 env_who(c->fleet.env, from)->address, e.text);
    if (rc != 0) {
        if (w.type != WIRE_TYPE_NONE && !w.reply && !c->fleet.stopping)
            coord_refuse(c, from, &w, rc, e.text);
    } else if (c->fleet.fatal == 0 && w.reply) {
        on_reply(c, from, &w, m);
    } else if (c->fleet.fatal == 0 && !c->fleet.stopping) {
        coord_dispatch(c, from, env_who(c->fleet.env, from), &w, m);
    }
    msg_free(m);
}

/* Moves tablets: first those of jobs that go back to a cut. */
static void moves_step(struct coord *c)
{
    struct coord_home home[COORD_SLOTS];
    uint32_t homes = 0;
    bool trains = false;
    COORD_EACH_JOB (c, j) {
        homes += coord_home_of(j, &home[homes]);
        trains = trains || j->at.phase == PHASE_TRAIN;
    }
    coord_moves_step(&c->fleet, home, homes, trains);
}

/* Retires what a plan has emptied, unless a job may go back to a cut of which it has a part. */
static void add_step(struct coord *c)
{
    const struct coord_fleet *f = &c->fleet;
    if (coord_moves_emptied(f) && coord_operator_needs(c, f->moves.drained) == NULL)
        coord_add_step(&c->fleet);
}

/* Runs what is due now, first for the fleet, then for each job. */
static void step(struct coord *c)
{
    bool back = false;
    if (c->fleet.fatal != 0)
        return;
    coord_replace_step(c);
    COORD_EACH_JOB (c, j)
        coord_back_step(j);
    coord_cluster_step(&c->fleet);
    COORD_EACH_JOB (c, j)
        back = back || coord_goes_back(j);
    if (!back) { /* work with the rows of a job that goes back would be lost */
        coord_names_step(&c->fleet);
        coord_taken_step(&c->fleet);
        coord_drop_step(&c->fleet);
    }
    moves_step(c);
    add_step(c);
    COORD_EACH_JOB (c, j)
        if (!coord_goes_back(j))
            coord_flow_step(j);
    coord_aside_step(c);
    coord_turns_step(c);
    coord_crew_step(c);
}

static void on_drained(void *core)
{
    struct coord *c = core;
    step(c);
    coord_fleet_end(&c->fleet);
}

static void on_peer_gone(void *core, peer_t peer)
{
    struct coord *c = core;
    coord_copies_gone(&c->fleet, peer);
    coord_sight_gone(&c->fleet, peer);
}

const struct env_handler coord_handler = {on_message, on_drained, on_peer_gone};

static void on_tick(struct env_timer *t)
{
    struct coord *c = container_of(t, struct coord, timer);
    if (c->fleet.fatal != 0 || c->fleet.stopping)
        return;
    time_forgive(c);
    c->ticked_ns = env_now_ns(c->fleet.env);
    COORD_EACH_JOB (c, j) {
        coord_handle_expire(j);
        coord_stall_tick(j);
    }
    coord_copies_tick(&c->fleet);
    coord_beat_taken(c);
    coord_sight_tick(&c->fleet);
    coord_errand_tick(&c->fleet);
    coord_call_tick(&c->fleet.calls);
    coord_heat_tick(&c->fleet);
    coord_allowed_tick(&c->fleet);
    coord_shares_tick(&c->fleet);
    COORD_EACH_JOB (c, j)
        coord_watch_tick(j);
    step(c);
    coord_fleet_end(&c->fleet);
    env_timer_start(c->fleet.env, t, TICK_NS);
}

/* ---- life ------------------------------------------------------------------------------------ */

int coord_new(const struct coord_options *options, struct env *env, struct coord_store *store,
              struct coord **out, struct err *e)
{
    SHOAL_ASSERT(options->jobs <= COORD_SLOTS);
    if (options->shards == 0 || options->shards > LIMIT_SHARDS)
        return err_set(e, SHOAL_E_CONFIG, "shards: %u, 1 to %u are possible", options->shards,
                       LIMIT_SHARDS);
    if (options->replicas > LIMIT_COPIES || options->min_in_sync > MAX(options->replicas, 1u))
        return err_set(e, SHOAL_E_CONFIG,
                       "replicas: %u, min_in_sync: %u: at most %u copies are possible, and "
                       "min_in_sync counts some of them",
                       options->replicas, options->min_in_sync, LIMIT_COPIES);
    struct coord *c = calloc(1, sizeof *c);
    if (c == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the coordinator");
    c->timer.fire = on_tick;
    c->ticked_ns = env_now_ns(env);
    coord_slot_wire(c);
    int rc = coord_fleet_open(&c->fleet, options, env, store, e);
    if (rc == 0)
        rc = coord_slot_open(c, MAX(options->jobs, 1), e);
    if (rc != 0) {
        coord_free(c);
        return rc;
    }
    env_timer_start(env, &c->timer, TICK_NS);
    *out = c;
    return 0;
}

int coord_keys_set(struct coord *c, const char *text, size_t bytes, struct err *e)
{
    int rc = coord_allowed_take(&c->fleet, text, bytes, e);
    coord_fleet_end(&c->fleet);
    return rc;
}

void coord_memory_set(struct coord *c, const struct coord_weights *memory)
{
    coord_shares_weigh(&c->fleet, memory);
    coord_fleet_end(&c->fleet);
}

char *coord_page(struct coord *c)
{
    return coord_picture_text(c);
}

void coord_describe(struct coord *c, char *text, size_t bytes)
{
    uint32_t running = coord_slot_running(c);
    size_t at = 0;
    if (running > 1)
        at = (size_t)snprintf(text, bytes, "%u jobs run; ", running);
    if (at < bytes)
        coord_status_line(coord_slot_newest(c), text + at, bytes - at);
}

bool coord_hangs(const struct coord *c, char *text, size_t bytes)
{
    return coord_errand_hangs(&c->fleet, 0, text, bytes);
}

int coord_fatal(const struct coord *c)
{
    return c->fleet.fatal;
}

void coord_free(struct coord *c)
{
    if (c == NULL)
        return;
    coord_errand_end(&c->fleet);
    coord_look_end(c);
    coord_slot_close(c);
    coord_fleet_close(&c->fleet);
    coord_picture_close(&c->picture);
    for (uint32_t i = 0; i < COORD_SLOTS; i++)
        free(c->told[i].text);
    free(c);
}

const char *coord_library(unsigned *protocol)
{
    *protocol = WIRE_VERSION;
    return wire_library();
}
