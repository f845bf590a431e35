/* coord.c: the core's door: dispatch by type, beats of shards, the operator's requests, the
 * tick. */
#include "server/coord/coord.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "server/coord/core.h"
#include "server/coord/flow.h"
#include "server/coord/grant.h"
#include "server/coord/phase.h"
#include "server/coord/setup.h"
#include "server/coord/status.h"
#include "server/coord/submit.h"
#include "server/coord/work.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS UINT64_C(50000000)

/* ---- what the other files of the core use ---------------------------------------------------- */

int coord_fatal(const struct coord *c)
{
    return c->fatal;
}

/* ---- shards ---------------------------------------------------------------------------------- */

/* A shard that comes back has its rows again, but not under durability memory. */
static void shard_came_back(struct coord *c, uint32_t shard, enum coord_beat what)
{
    const struct coord_shard *s = &c->members.shard[shard];
    SHOAL_ASSERT(shard < c->members.shards && (what != COORD_BEAT_SAME || !s->ready));
    if (what == COORD_BEAT_RESTARTED) {
        log_warn("server %s (shard %u) has started again", s->server, shard);
        coord_checkpoint_shard_lost(c, shard);
        if (coord_phase_running(c))
            c->job.at.restarts++;
        if (coord_phase_running(c) && c->job.at.phase >= PHASE_SETUP &&
            c->job.spec.durability == DURABLE_MEMORY) {
            coord_end_fail(c, SHOAL_E_UNAVAILABLE,
                           "server %s died and durability is memory: its rows are lost; start the "
                           "job again, or use durability: journal",
                           s->server);
            return;
        }
    }
    coord_call_forget_shard(&c->calls, shard);
}

static void on_shard_beat(struct coord *c, peer_t from, const struct wire *request,
                          const struct msg *m)
{
    (void)m;
    struct err e = {0};
    enum coord_beat what;
    uint32_t shard;
    struct wire w;
    int rc = coord_member_shard_beat(&c->members, c->store, &request->u.SHARD_BEAT, from,
                                     env_now_ns(c->env), &shard, &what, &e);
    if (rc != 0) {
        coord_answer(c, from, request, rc, &e);
        return;
    }
    if (what == COORD_BEAT_NEW)
        log_info("server %s is shard %u at %s", request->u.SHARD_BEAT.server, shard,
                 request->u.SHARD_BEAT.endpoint);
    if (what != COORD_BEAT_SAME || !request->u.SHARD_BEAT.ready)
        shard_came_back(c, shard, what);
    wire_reply_to(request, 0, &w);
    w.u.SHARD_BEAT_reply = (struct wire_SHARD_BEAT_reply){
        .shard = shard, .map_epoch = c->job.at.map_epoch, .lease_ms = c->options.lease_ms};
    coord_send(c, from, wire_encode(&w));
    if (!request->u.SHARD_BEAT.ready)
        coord_setup_map_early(c, shard);
}

/* ---- the operator ---------------------------------------------------------------------------- */

static void on_submit(struct coord *c, peer_t from, const struct wire *request, const struct msg *m)
{
    struct err e = {0};
    struct wire w;
    uint64_t run;
    if (m->frame[1].bytes > LIMIT_CONFIG_BYTES) {
        coord_refuse(c, from, request, SHOAL_E_TOO_BIG, "a job file of %zu bytes, at most %u",
                     m->frame[1].bytes, LIMIT_CONFIG_BYTES);
        return;
    }
    const struct coord_submit submit = {m->frame[1].data, m->frame[1].bytes,
                                        request->u.SUBMIT.workers, request->u.SUBMIT.from};
    int rc = coord_submit(c, from, &submit, &run, &e);
    if (rc != 0) {
        coord_answer(c, from, request, rc, &e);
        return;
    }
    wire_reply_to(request, 0, &w);
    w.u.SUBMIT_reply.run = run;
    coord_send(c, from, wire_encode(&w));
}

static void on_status(struct coord *c, peer_t from, const struct wire *request, const struct msg *m)
{
    (void)m;
    struct wire w;
    char *text = coord_status_text(c);
    if (text == NULL)
        return;
    wire_reply_to(request, 0, &w);
    w.u.STATUS_reply.state = coord_phase_state(c);
    w.u.STATUS_reply.job_status = c->job.at.status;
    (void)coord_send_frame(c, from, &w, text, strlen(text));
    free(text);
}

static void on_report(struct coord *c, peer_t from, const struct wire *request, const struct msg *m)
{
    (void)m;
    struct wire w;
    if (c->job.at.phase == PHASE_NONE ||
        (request->u.REPORT.run != 0 && request->u.REPORT.run != c->job.at.number)) {
        coord_refuse(c, from, request, SHOAL_E_NOT_FOUND,
                     "run %" PRIu64 " is not the last one here", request->u.REPORT.run);
        return;
    }
    wire_reply_to(request, 0, &w);
    w.u.REPORT_reply.state = coord_phase_state(c);
    w.u.REPORT_reply.job_status = c->job.at.status;
    memcpy(w.u.REPORT_reply.job_text, c->job.at.text, sizeof w.u.REPORT_reply.job_text);
    const char *text = c->job.report == NULL ? "{}" : c->job.report;
    (void)coord_send_frame(c, from, &w, text, strlen(text));
}

static void on_stop(struct coord *c, peer_t from, const struct wire *request, const struct msg *m)
{
    (void)m;
    struct wire w;
    coord_end_fail(c, SHOAL_E_STOPPED, "stopped by request");
    wire_reply_to(request, 0, &w);
    coord_send(c, from, wire_encode(&w));
    if (!request->u.STOP.job_only && !c->stopping) {
        c->stopping = true;
        env_stop(c->env);
    }
}

static void on_hello(struct coord *c, peer_t from, const struct wire *request, const struct msg *m)
{
    (void)m;
    struct wire w;
    wire_reply_to(request, 0, &w);
    w.u.HELLO_reply = (struct wire_HELLO_reply){
        .version = WIRE_VERSION, .name = "coordinator", .map_epoch = c->job.at.map_epoch};
    coord_send(c, from, wire_encode(&w));
}

/* ---- dispatch -------------------------------------------------------------------------------- */

/* The worker's number in the request: it must be known, and its lease is renewed. */
#define KNOWN(name) (&w->u.name.worker)
#define ANYBODY(name) NULL

/* X(TYPE, who may ask, handler): the types that a coordinator answers; all others are a
 * server's. */
#define DISPATCH_MAP(X)                                                                            \
    X(HELLO, ANYBODY, on_hello)                                                                    \
    X(SHARD_BEAT, ANYBODY, on_shard_beat)                                                          \
    X(WORKER_JOIN, ANYBODY, coord_work_join)                                                       \
    X(WORKER_BEAT, KNOWN, coord_work_beat)                                                         \
    X(WORKER_LEAVE, ANYBODY, coord_work_leave)                                                     \
    X(INDEX_DONE, KNOWN, coord_work_index)                                                         \
    X(TABLE_DECLARE, ANYBODY, coord_work_declare)                                                  \
    X(TABLE_GET, ANYBODY, coord_work_table_get)                                                    \
    X(MAP_GET, ANYBODY, coord_work_map_get)                                                        \
    X(LANE_NEXT, ANYBODY, coord_grant_next)                                                        \
    X(TASK_DONE, KNOWN, coord_work_task)                                                           \
    X(EVAL_DONE, KNOWN, coord_work_eval)                                                           \
    X(SUBMIT, ANYBODY, on_submit)                                                                  \
    X(WHO, ANYBODY, coord_lease_who)                                                               \
    X(STATUS, ANYBODY, on_status)                                                                  \
    X(REPORT, ANYBODY, on_report)                                                                  \
    X(CHECKPOINT, ANYBODY, coord_checkpoint_request)                                               \
    X(STOP, ANYBODY, on_stop)

struct handler {
    void (*run)(struct coord *c, peer_t from, const struct wire *w, const struct msg *m);
    const uint64_t *worker; /* NULL: whoever it is */
};

static struct handler handler_of(const struct wire *w)
{
    switch (w->type) {
#define X(name, who, function)                                                                     \
    case WIRE_TYPE_##name:                                                                         \
        return (struct handler){function, who(name)};
        DISPATCH_MAP(X)
#undef X
    default:
        return (struct handler){0};
    }
}

static void on_request(struct coord *c, peer_t from, const struct wire *w, const struct msg *m)
{
    struct handler h = handler_of(w);
    if (h.run == NULL)
        coord_refuse(c, from, w, SHOAL_E_USAGE, "a coordinator does not answer %s: ask a server",
                     wire_type_name(w->type));
    else if (h.worker == NULL || coord_work_known(c, from, w, *h.worker))
        h.run(c, from, w, m);
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct coord *c = core;
    struct err e = {0};
    struct wire w;
    int rc = wire_decode(m, &w, &e);
    if (rc != 0) {
        log_debug("a message is refused: %s", e.text);
        if (w.type != WIRE_TYPE_NONE && !w.reply)
            coord_refuse(c, from, &w, rc, "%s", e.text);
    } else if (c->fatal == 0 && w.reply) {
        coord_call_on_reply(&c->calls, from, &w, m);
    } else if (c->fatal == 0) {
        on_request(c, from, &w, m);
    }
    msg_free(m);
}

static void on_drained(void *core)
{
    coord_flow_step(core);
}

const struct env_handler coord_handler = {on_message, on_drained, NULL};

static void on_tick(struct env_timer *t)
{
    struct coord *c = container_of(t, struct coord, timer);
    if (c->fatal != 0 || c->stopping)
        return;
    coord_work_expire(c);
    coord_call_tick(&c->calls);
    coord_watch_tick(c);
    coord_flow_step(c);
    env_timer_start(c->env, t, TICK_NS);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Numbers of runs begin at a random place: a coordinator that lost its store must not take up a run
 * that servers still know. */
static int counters_load(struct coord *c, struct err *e)
{
    int rc = coord_store_get_fixed(c->store, "counters", &c->counters, sizeof c->counters, e);
    if (rc != SHOAL_E_NOT_FOUND)
        return rc;
    uint64_t base = (env_random(c->env) & 0x7fffffff) * 1000;
    c->counters = (struct coord_counters){.next_run = base + 1, .next_cut = base + 1};
    return 0;
}

int coord_new(const struct coord_options *options, struct env *env, struct coord_store *store,
              struct coord **out, struct err *e)
{
    if (options->shards == 0 || options->shards > LIMIT_SHARDS)
        return err_set(e, SHOAL_E_CONFIG, "shards: %u, 1 to %u are possible", options->shards,
                       LIMIT_SHARDS);
    struct coord *c = calloc(1, sizeof *c);
    if (c == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the coordinator");
    c->options = *options;
    c->job.from_hold = COORD_FOLDER_NONE; /* coord_free may follow before flow.c says so */
    if (c->options.lease_ms == 0)
        c->options.lease_ms = 10000;
    if (c->options.resend_ms == 0)
        c->options.resend_ms = 500;
    c->env = env;
    c->store = store;
    c->timer.fire = on_tick;
    c->watch.begun_ns = c->watch.worker_ns = env_now_ns(env);
    coord_call_open(&c->calls, env, &c->members, c, c->options.resend_ms * UINT64_C(1000000));
    int rc = coord_member_open(&c->members, c->options.shards, store, e);
    if (rc == 0)
        rc = counters_load(c, e);
    if (rc == 0)
        rc = coord_lease_open(&c->leases, store, e);
    if (rc == 0)
        rc = coord_flow_open(c, e);
    if (rc == 0)
        rc = coord_checkpoint_open(c, e);
    if (rc != 0) {
        coord_free(c);
        return rc;
    }
    env_timer_start(env, &c->timer, TICK_NS);
    *out = c;
    return 0;
}

void coord_free(struct coord *c)
{
    if (c == NULL)
        return;
    env_timer_stop(c->env, &c->timer);
    coord_checkpoint_close(c);
    coord_call_cancel_all(&c->calls);
    coord_submit_close(c);
    coord_member_close(&c->members);
    coord_lease_close(&c->leases);
    free(c);
}
