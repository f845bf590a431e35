/* coord.c: the core's door: dispatch by type, beats of shards, the operator's requests, the
 * tick. */
#include "server/coord/coord.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/plant.h"
#include "proto/wire/allow.h"
#include "server/coord/back.h"
#include "server/coord/checkpoint_remove.h"
#include "server/coord/core.h"
#include "server/coord/flow.h"
#include "server/coord/grant.h"
#include "server/coord/keys.h"
#include "server/coord/look.h"
#include "server/coord/lost.h"
#include "server/coord/phase.h"
#include "server/coord/report.h"
#include "server/coord/setup.h"
#include "server/coord/stall.h"
#include "server/coord/status.h"
#include "server/coord/submit.h"
#include "server/coord/work.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS UINT64_C(50000000)
#define LATE_NS (10 * TICK_NS)
#define STATUS_NS UINT64_C(200000000)

/* ---- shards ---------------------------------------------------------------------------------- */

static void shard_came_back(struct coord *c, uint32_t shard, enum coord_beat what)
{
    const struct coord_shard *s = &c->members.shard[shard];
    SHOAL_ASSERT(shard < c->members.shards && (what != COORD_BEAT_SAME || !s->ready));
    if (what == COORD_BEAT_RESTARTED) {
        log_event(SERVER_AGAIN, s->server, "server %s (shard %u) has started again", s->server,
                  shard);
        coord_checkpoint_shard_lost(c, shard);
        if (coord_phase_running(c))
            c->job.at.restarts++;
    }
    coord_call_forget_shard(&c->calls, shard);
    if (coord_back_rows_lost(c, shard, what))
        coord_back_lost(c, shard);
    else if (what == COORD_BEAT_RESTARTED && s->rebooted)
        coord_work_anew(c, s->server);
}

static void beat_answer(struct coord *c, peer_t to, uint64_t id, uint32_t shard)
{
    struct wire w = {.type = WIRE_TYPE_SHARD_BEAT, .reply = true, .id = id};
    w.u.SHARD_BEAT_reply = (struct wire_SHARD_BEAT_reply){.shard = shard,
                                                          .map_epoch = c->cluster.map_epoch,
                                                          .lease_ms = c->options.lease_ms,
                                                          .cluster_high = c->cluster.id[0],
                                                          .cluster_low = c->cluster.id[1],
                                                          .shards = c->members.shards};
    coord_send(c, to, wire_encode(&w));
}

/* The beat of a shard that belongs here. */
static int beat_take(struct coord *c, const struct wire_SHARD_BEAT *beat, peer_t from, uint64_t id,
                     struct err *e)
{
    enum coord_beat what;
    uint32_t shard;
    uint64_t now = env_now_ns(c->env);
    int rc = coord_member_shard_beat(&c->members, c->store, beat, from, now, &shard, &what, e);
    if (rc == 0)
        rc = coord_member_note_synced(&c->members, shard, c->store, now, e);
    if (rc != 0)
        return rc;
    if (what == COORD_BEAT_NEW)
        log_info("server %s is shard %u at %s", beat->server, shard, beat->endpoint);
    coord_names_learn(c, shard, beat); /* first: it has the better advice */
    coord_taken_learn(c, shard, beat);
    coord_cluster_learn(c, shard, beat);
    rc = coord_keys_learn(c, shard, from, beat->keylist, e);
    if (rc != 0)
        return rc;
    if (what != COORD_BEAT_SAME || !beat->ready)
        shard_came_back(c, shard, what);
    beat_answer(c, from, id, shard); /* it goes before the map */
    if (!beat->ready)
        coord_setup_map_early(c, shard);
    return 0;
}

/* The cluster has just become known: those that waited for that hear of it. */
static void claims_take(struct coord *c)
{
    struct coord_cluster *cl = &c->cluster;
    struct err e;
    for (uint32_t i = 0; i < cl->claims && c->fatal == 0; i++)
        (void)beat_take(c, &cl->claim[i].beat, cl->claim[i].peer, 0, &e); /* it beats again */
    cl->claims = 0;
}

static int on_shard_beat(struct coord *c, struct coord_ask *a)
{
    const struct wire_SHARD_BEAT *beat = &a->request->u.SHARD_BEAT;
    int rc = coord_keys_claim(c, beat->server, &a->who, &a->e);
    if (rc == 0)
        rc = coord_cluster_claim(c, beat, a->from, &a->e);
    a->silent = true;
    bool waits = rc == SHOAL_E_AGAIN;
    if (rc == 0 && c->cluster.claims > 0)
        claims_take(c);
    if (waits)
        beat_answer(c, a->from, a->request->id, WIRE_NO_SHARD);
    else if (rc == 0)
        rc = beat_take(c, beat, a->from, a->request->id, &a->e);
    coord_cluster_note(c, beat, waits || rc == 0 ? NULL : a->e.text);
    return waits ? 0 : rc;
}

/* ---- the operator ---------------------------------------------------------------------------- */

static void request_of(struct coord *c, peer_t from, const struct env_who *who,
                       const struct wire *w, const struct msg *m);
static void on_request(struct coord *c, peer_t from, const struct wire *w, const struct msg *m);

/* The folders of a job have been looked at: its SUBMIT comes once more, to be answered. */
static void looked(struct coord *c, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord_look *l = c->look;
    SHOAL_ASSERT(&l->errand == r && !l->over);
    if (rc != 0) {
        coord_send(c, l->asker, wire_refusal(&l->request, rc, "%s", e->text));
        c->look = NULL;
        return;
    }
    l->over = true;
    struct msg *m = coord_look_wanted(c) ? coord_framed(&l->request, l->yaml, l->bytes) : NULL;
    if (m != NULL)
        on_request(c, l->asker, &l->request, m);
    msg_free(m);
    coord_look_end(c);
}

static int on_submit(struct coord *c, struct coord_ask *a)
{
    uint64_t run;
    int rc = 0;
    if (a->m->frame[1].bytes > LIMIT_CONFIG_BYTES)
        return err_set(&a->e, SHOAL_E_TOO_BIG, "a job file of %zu bytes, at most %u",
                       a->m->frame[1].bytes, LIMIT_CONFIG_BYTES);
    const struct coord_submit submit = {a->m->frame[1].data, a->m->frame[1].bytes,
                                        a->request->u.SUBMIT.workers, a->request->u.SUBMIT.from,
                                        a->request->u.SUBMIT.start};
    if (c->look != NULL)
        rc = coord_look_asked(c, a, &submit, &a->e);
    if (rc == 0) {
        coord_report_ended(c); /* the new job takes its place */
        rc = coord_submit(c, a->from, &submit, c->look, &run, &a->e);
        if (rc == SHOAL_E_AGAIN)
            rc = coord_look_begin(c, a, &submit, looked, &a->e) == 0 ? SHOAL_E_AGAIN : a->e.code;
    }
    a->later = rc == SHOAL_E_AGAIN;
    if (rc != 0)
        return a->later ? 0 : rc;
    a->reply.u.SUBMIT_reply.run = run;
    return 0;
}

/* The checkpoint is removed, or stays: its order comes once more, to be answered and audited with
 * what came of it, also where the peer that sent it has left. */
static void removed(struct coord *c, struct coord_errand *r, int rc, const struct err *e)
{
    const struct coord_removing *was = coord_checkpoint_removed(c, r, rc, e);
    struct msg *m = wire_encode(&was->request);
    if (m != NULL)
        request_of(c, was->asker, &was->who, &was->request, m);
    msg_free(m);
    coord_checkpoint_remove_end(c, rc);
}

static int on_remove(struct coord *c, struct coord_ask *a)
{
    return coord_checkpoint_remove(c, a, removed);
}

/* Whoever asks often gets the same text for a while; a phase is told at once. NULL: no memory. */
static const char *status_told(struct coord *c)
{
    uint64_t now = env_now_ns(c->env);
    if (c->told.text != NULL && now - c->told.made_ns < STATUS_NS &&
        c->told.phase == c->job.at.phase && c->told.run == c->job.at.run)
        return c->told.text;
    free(c->told.text);
    c->told.text = coord_status_text(c);
    c->told.made_ns = now;
    c->told.phase = c->job.at.phase;
    c->told.run = c->job.at.run;
    c->told.made++;
    return c->told.text;
}

static int on_status(struct coord *c, struct coord_ask *a)
{
    const char *text = status_told(c);
    a->silent = true; /* without memory it is asked again */
    if (text == NULL)
        return 0;
    a->reply.u.STATUS_reply.state = coord_phase_state(c);
    a->reply.u.STATUS_reply.job_status = c->job.at.status;
    (void)coord_send_frame(c, a->from, &a->reply, text, strlen(text));
    return 0;
}

/* A copy of the question that was answered last: who waited for the answer sent it again, and means
 * neither a second stop nor the next job. */
static bool stop_again(const struct coord *c, const struct coord_ask *a)
{
    uint64_t id = a->request->id;
    return a->request->u.STOP.job_only && id != 0 && (id == c->stopped.id || id == c->job.stop.id);
}

static int on_stop(struct coord *c, struct coord_ask *a)
{
    bool *ends = &a->reply.u.STOP_reply.ends;
    if (stop_again(c, a)) {
        *ends = a->request->id == c->stopped.id ? c->stopped.ends : true;
        return 0;
    }
    /* asked twice it ends at once */
    *ends = a->request->u.STOP.job_only && coord_stop_order(c, a->request->id);
    if (!*ends)
        coord_end_fail(c, SHOAL_E_STOPPED, "stopped by request");
    coord_report_ended(c); /* the process may end with this message */
    c->stopped.id = a->request->id;
    c->stopped.ends = *ends;
    a->silent = true; /* it is answered before the loop ends */
    coord_send(c, a->from, wire_encode(&a->reply));
    if (!a->request->u.STOP.job_only && !c->stopping) {
        c->stopping = true;
        env_stop(c->env);
    }
    return 0;
}

static int on_hello(struct coord *c, struct coord_ask *a)
{
    a->reply.u.HELLO_reply = (struct wire_HELLO_reply){
        .version = WIRE_VERSION, .name = "coordinator", .map_epoch = c->cluster.map_epoch};
    return 0;
}

/* ---- dispatch -------------------------------------------------------------------------------- */

/* Who shows the pass of a worker that is known: its lease is renewed. */
#define A_WORKER(name) (&w->u.name.pass)
#define ANYBODY(name) NULL

/* X(TYPE, who may ask, handler): the types that a coordinator answers; all others are a
 * server's. */
#define DISPATCH_MAP(X)                                                                            \
    X(HELLO, ANYBODY, on_hello)                                                                    \
    X(SHARD_BEAT, ANYBODY, on_shard_beat)                                                          \
    X(SERVER_DISK, ANYBODY, coord_sight_disk)                                                      \
    X(WORKER_JOIN, ANYBODY, coord_work_join)                                                       \
    X(WORKER_BEAT, A_WORKER, coord_work_beat)                                                      \
    X(WORKER_LEAVE, ANYBODY, coord_work_leave)                                                     \
    X(INDEX_DONE, A_WORKER, coord_work_index)                                                      \
    X(WINDOWS, A_WORKER, coord_work_windows)                                                       \
    X(PROFILE, A_WORKER, coord_work_profile)                                                       \
    X(FILES, A_WORKER, coord_taken_files)                                                          \
    X(TAKEN, A_WORKER, coord_taken_ask)                                                            \
    X(OBJECTS, A_WORKER, coord_work_objects)                                                       \
    X(OBJECT_DONE, A_WORKER, coord_work_object)                                                    \
    X(LEGEND, A_WORKER, coord_work_legend)                                                         \
    X(JOB_TEXT, ANYBODY, coord_made_job_text)                                                      \
    X(TABLE_DECLARE, ANYBODY, coord_work_declare)                                                  \
    X(TABLE_GET, ANYBODY, coord_made_table_get)                                                    \
    X(MAP_GET, ANYBODY, coord_made_map_get)                                                        \
    X(LANE_NEXT, ANYBODY, coord_grant_next)                                                        \
    X(TASK_DONE, A_WORKER, coord_work_task)                                                        \
    X(EVAL_DONE, A_WORKER, coord_work_eval)                                                        \
    X(SUBMIT, ANYBODY, on_submit)                                                                  \
    X(WHO, ANYBODY, coord_lease_who)                                                               \
    X(STATUS, ANYBODY, on_status)                                                                  \
    X(REPORT, ANYBODY, coord_jobs_report)                                                          \
    X(JOBS, ANYBODY, coord_jobs_ask)                                                               \
    X(CHECKPOINT, ANYBODY, coord_checkpoint_request)                                               \
    X(CHECKPOINT_REMOVE, ANYBODY, on_remove)                                                       \
    X(DROP, ANYBODY, coord_drop_request)                                                           \
    X(STOP, ANYBODY, on_stop)

struct handler {
    int (*run)(struct coord *c, struct coord_ask *a);
    const uint64_t *pass; /* in the request; NULL: whoever it is */
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

static int ask_run(struct coord *c, struct coord_ask *a)
{
    struct handler h = handler_of(a->request);
    if (h.run == NULL)
        return err_set(&a->e, SHOAL_E_USAGE, "a coordinator does not answer %s: ask a server",
                       wire_type_name(a->request->type));
    enum wire_right right = allow_right_of(a->request);
    if (!allow_may(right, WIRE_COORDINATOR, a->who.role, false) && !PLANTED("any_role"))
        return allow_denied(right, WIRE_COORDINATOR, role_text(a->who.role), &a->e);
    int rc = h.pass != NULL ? coord_work_known(c, a, *h.pass) : 0;
    return rc != 0 ? rc : h.run(c, a);
}

/* What an order was about, in a word or two. */
static const char *object_of(const struct coord_ask *a, char out[160])
{
    const struct wire *w = a->request;
    out[0] = 0;
    if (w->type == WIRE_TYPE_SUBMIT && a->reply.u.SUBMIT_reply.run != 0)
        (void)snprintf(out, 160, "run %" PRIu64, a->reply.u.SUBMIT_reply.run);
    else if (w->type == WIRE_TYPE_STOP)
        (void)snprintf(out, 160, "%s", w->u.STOP.job_only ? "job" : "coordinator");
    else if (w->type == WIRE_TYPE_CHECKPOINT)
        (void)snprintf(out, 160, "%s", w->u.CHECKPOINT.name);
    else if (w->type == WIRE_TYPE_CHECKPOINT_REMOVE)
        (void)snprintf(out, 160, "%s", w->u.CHECKPOINT_REMOVE.name);
    else if (w->type == WIRE_TYPE_DROP)
        (void)snprintf(out, 160, "%s/%.80s", w->u.DROP.table, w->u.DROP.field);
    return out;
}

static void audit(struct coord *c, const struct coord_ask *a, int rc)
{
    enum wire_right right = allow_right_of(a->request);
    const char *operation = wire_type_name(a->request->type);
    char object[160];
    if (rc == SHOAL_E_DENIED && !allow_may(right, WIRE_COORDINATOR, a->who.role, false))
        log_audit_bounded(.key = a->who.key, .role = role_text(a->who.role), .name = a->who.name,
                          .peer = a->who.address, .operation = operation, .result = "denied");
    else if (allow_audited(right) && !allow_again(&c->ordered, a->from, rc, a->m))
        log_audit(.key = a->who.key, .role = role_text(a->who.role), .name = a->who.name,
                  .peer = a->who.address, .operation = operation, .object = object_of(a, object),
                  .result = rc == 0 ? "ok" : err_text(rc));
}

static void request_of(struct coord *c, peer_t from, const struct env_who *who,
                       const struct wire *w, const struct msg *m)
{
    struct coord_ask a = {.from = from, .request = w, .m = m, .who = *who};
    wire_reply_to(w, 0, &a.reply);
    int rc = ask_run(c, &a);
    if (a.later)
        return;
    audit(c, &a, rc);
    if (rc != 0)
        coord_send(c, from, wire_refusal(w, rc, "%s", a.e.text));
    else if (a.frame != NULL)
        (void)coord_send_frame(c, from, &a.reply, a.frame, a.frame_bytes);
    else if (!a.silent)
        coord_send(c, from, wire_encode(&a.reply));
}

static void on_request(struct coord *c, peer_t from, const struct wire *w, const struct msg *m)
{
    request_of(c, from, env_who(c->env, from), w, m);
}

/* Only of those who may beat: another list may have come since. */
static void on_reply(struct coord *c, peer_t from, const struct wire *w, const struct msg *m)
{
    if (!allow_may(WIRE_RIGHT_SHARD_BEAT, WIRE_COORDINATOR, env_who(c->env, from)->role, false))
        return;
    if (w->type == WIRE_TYPE_KEYLIST)
        coord_keys_answer(c, from, w);
    else
        coord_call_on_reply(&c->calls, from, w, m);
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct coord *c = core;
    struct err e = {0};
    struct wire w;
    int rc = wire_decode(m, &w, &e);
    if (rc == 0)
        env_known(c->env, from);
    if (rc != 0) {
        log_debug("a message is refused: %s", e.text);
        if (w.type != WIRE_TYPE_NONE && !w.reply)
            coord_send(c, from, wire_refusal(&w, rc, "%s", e.text));
    } else if (c->fatal == 0 && w.reply) {
        on_reply(c, from, &w, m);
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

/* A tick that comes late: the coordinator stood still (stopped, a paused machine, a slow disk), and
 * the beats of that time lie unread in its sockets. */
static void time_forgive(struct coord *c)
{
    uint64_t now = env_now_ns(c->env), gap = now - c->ticked_ns;
    c->ticked_ns = now;
    if (gap <= LATE_NS || PLANTED("pause"))
        return;
    gap -= TICK_NS;
    log_warn("the coordinator stood still for %.1f s: leases are longer by that",
             (double)gap * 1e-9);
    coord_member_forgive(&c->members, gap, now);
    for (uint32_t i = 0; i < c->cluster.claims; i++)
        c->cluster.claim[i].beat_ns = coord_later(c->cluster.claim[i].beat_ns, gap, now);
    c->watch.begun_ns = coord_later(c->watch.begun_ns, gap, now);
    c->watch.worker_ns = coord_later(c->watch.worker_ns, gap, now);
    if (c->watch.left_ns != 0)
        c->watch.left_ns = coord_later(c->watch.left_ns, gap, now);
}

static void on_tick(struct env_timer *t)
{
    struct coord *c = container_of(t, struct coord, timer);
    if (c->fatal != 0 || c->stopping)
        return;
    time_forgive(c);
    coord_work_expire(c);
    coord_stall_tick(c);
    coord_sight_tick(c);
    coord_errand_tick(c);
    coord_call_tick(&c->calls);
    coord_keys_tick(c);
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
    c->watch.begun_ns = c->watch.worker_ns = c->ticked_ns = env_now_ns(env);
    coord_call_open(&c->calls, env, &c->members, c, c->options.resend_ms * UINT64_C(1000000),
                    c->options.lease_ms * UINT64_C(1000000));
    int rc = coord_member_open(&c->members, c->options.shards, store, e);
    if (rc == 0)
        rc = coord_cluster_open(c, e);
    if (rc == 0)
        rc = coord_keys_open(c, e);
    if (rc == 0)
        rc = coord_names_open(c, e);
    if (rc == 0)
        rc = coord_made_open(c, e);
    if (rc == 0)
        rc = coord_jobs_open(c, e);
    if (rc == 0)
        rc = coord_taken_open(c, e);
    if (rc == 0)
        rc = counters_load(c, e);
    if (rc == 0)
        rc = coord_lease_open(&c->leases, store, e);
    if (rc == 0)
        rc = coord_fresh_open(c, e);
    if (rc == 0)
        rc = coord_flow_open(c, e);
    if (rc == 0 && (c->cluster.map_epoch != 0 || c->job.at.map_epoch != 0))
        rc = coord_cluster_shards(c, e);
    if (rc == 0)
        rc = coord_checkpoint_open(c, e);
    if (rc != 0) {
        coord_free(c);
        return rc;
    }
    if (c->cluster.taken_over && c->job.at.phase == PHASE_NONE)
        coord_lost_look(c); /* it has started again since */
    c->watch.left_ns = coord_phase_running(c) ? c->watch.begun_ns : 0;
    env_timer_start(env, &c->timer, TICK_NS);
    *out = c;
    return 0;
}

bool coord_hangs(const struct coord *c, char *text, size_t bytes)
{
    return coord_errand_hangs(c, 0, text, bytes);
}

int coord_fatal(const struct coord *c)
{
    return c->fatal;
}

void coord_free(struct coord *c)
{
    if (c == NULL)
        return;
    coord_errand_end(c);
    coord_look_end(c);
    coord_output_close(c);
    coord_checkpoint_close(c);
    coord_call_cancel_all(&c->calls);
    coord_submit_close(c);
    coord_member_close(&c->members);
    coord_cluster_close(&c->cluster);
    coord_names_close(&c->names);
    coord_made_close(&c->made);
    coord_jobs_close(&c->jobs);
    coord_taken_close(&c->taken);
    coord_keys_close(&c->keys);
    coord_lease_close(&c->leases);
    coord_sight_close(&c->visitors);
    coord_errand_close(c);
    free(c->told.text);
    free(c);
}

const char *coord_library(unsigned *protocol)
{
    *protocol = WIRE_VERSION;
    return wire_library();
}
