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
#include "server/coord/older.h"
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

#define EACH_JOB(c, j) (struct coord_job *j = (c)->slot; j < (c)->slot + (c)->slots; j++)

/* The job that an order is about which names none: the one that was submitted last. */
static struct coord_job *newest_job(struct coord *c)
{
    return &c->slot[c->newest];
}

/* ---- shards ---------------------------------------------------------------------------------- */

static void job_shard_came_back(struct coord_job *j, uint32_t shard, enum coord_beat what)
{
    const struct coord_shard *s = &j->fleet->members.shard[shard];
    if (what == COORD_BEAT_RESTARTED) {
        coord_checkpoint_shard_lost(j, shard);
        if (coord_phase_running(j))
            j->at.restarts++;
    }
    coord_setup_lost(j, shard);
    if (coord_back_rows_lost(j, shard, what))
        coord_back_lost(j, shard);
    else if (what == COORD_BEAT_RESTARTED && s->rebooted)
        coord_work_anew(j, s->server);
}

static void shard_came_back(struct coord *c, uint32_t shard, enum coord_beat what)
{
    struct coord_shard *s = &c->fleet.members.shard[shard];
    SHOAL_ASSERT(shard < c->fleet.members.shards && (what != COORD_BEAT_SAME || !s->ready));
    if (what == COORD_BEAT_RESTARTED)
        log_event(SERVER_AGAIN, s->server, "server %s (shard %u) has started again", s->server,
                  shard);
    coord_call_forget_shard(&c->fleet.calls, NULL, shard);
    s->greeted = false;
    for
        EACH_JOB(c, j)
    job_shard_came_back(j, shard, what);
}

static void beat_answer(struct coord *c, peer_t to, uint64_t id, uint32_t shard)
{
    struct wire w = {.type = WIRE_TYPE_SHARD_BEAT, .reply = true, .id = id};
    w.u.SHARD_BEAT_reply = (struct wire_SHARD_BEAT_reply){.shard = shard,
                                                          .map_epoch = c->fleet.cluster.map_epoch,
                                                          .lease_ms = c->fleet.options.lease_ms,
                                                          .cluster_high = c->fleet.cluster.id[0],
                                                          .cluster_low = c->fleet.cluster.id[1],
                                                          .shards = c->fleet.members.shards};
    coord_send(&c->fleet, to, wire_encode(&w));
}

/* The beat of a shard that belongs here. */
static int beat_take(struct coord *c, const struct wire_SHARD_BEAT *beat, peer_t from, uint64_t id,
                     struct err *e)
{
    enum coord_beat what;
    uint32_t shard;
    uint64_t now = env_now_ns(c->fleet.env);
    int rc = coord_member_shard_beat(&c->fleet.members, c->fleet.store, beat, from, now, &shard,
                                     &what, e);
    if (rc == 0)
        rc = coord_member_note_synced(&c->fleet.members, shard, c->fleet.store, now, e);
    if (rc != 0)
        return rc;
    if (what == COORD_BEAT_NEW)
        log_info("server %s is shard %u at %s", beat->server, shard, beat->endpoint);
    /* names first: they have the better advice */
    bool names = coord_names_learn(&c->fleet, shard, beat);
    for
        EACH_JOB(c, j)
    if (names)
        coord_older_names(j, beat);
    bool taken = coord_taken_learn(&c->fleet, shard, beat);
    for
        EACH_JOB(c, j)
    if (taken)
        coord_older_taken(j, beat);
    bool numbers = coord_cluster_learn(&c->fleet, shard, beat);
    for
        EACH_JOB(c, j)
    if (numbers)
        coord_older_run(j, beat);
    rc = coord_keys_learn(&c->fleet, shard, from, beat->keylist, e);
    if (rc != 0)
        return rc;
    if (what != COORD_BEAT_SAME || !beat->ready)
        shard_came_back(c, shard, what);
    beat_answer(c, from, id, shard); /* it goes before the map */
    for
        EACH_JOB(c, j)
    if (!beat->ready)
        coord_setup_map_early(j, shard);
    return 0;
}

/* The cluster has just become known: those that waited for that hear of it. */
static void claims_take(struct coord *c)
{
    struct coord_cluster *cl = &c->fleet.cluster;
    struct err e;
    for (uint32_t i = 0; i < cl->claims && c->fleet.fatal == 0; i++)
        (void)beat_take(c, &cl->claim[i].beat, cl->claim[i].peer, 0, &e); /* it beats again */
    cl->claims = 0;
}

static int on_shard_beat(struct coord *c, struct coord_ask *a)
{
    const struct wire_SHARD_BEAT *beat = &a->request->u.SHARD_BEAT;
    int rc = coord_keys_claim(&c->fleet, beat->server, &a->who, &a->e);
    if (rc == 0)
        rc = coord_cluster_claim(&c->fleet, beat, a->from, &a->e);
    a->silent = true;
    bool waits = rc == SHOAL_E_AGAIN;
    if (rc == 0 && c->fleet.cluster.claims > 0)
        claims_take(c);
    if (waits)
        beat_answer(c, a->from, a->request->id, WIRE_NO_SHARD);
    else if (rc == 0)
        rc = beat_take(c, beat, a->from, a->request->id, &a->e);
    coord_cluster_note(&c->fleet, beat, waits || rc == 0 ? NULL : a->e.text);
    return waits ? 0 : rc;
}

/* ---- the operator ---------------------------------------------------------------------------- */

static void request_of(struct coord *c, peer_t from, const struct env_who *who,
                       const struct wire *w, const struct msg *m);
static void on_request(struct coord *c, peer_t from, const struct wire *w, const struct msg *m);

/* The folders of a job have been looked at: its SUBMIT comes once more, to be answered. */
static void looked(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord *c = context;
    struct coord_look *l = c->look;
    SHOAL_ASSERT(&l->errand == r && !l->over);
    if (rc != 0) {
        coord_send(&c->fleet, l->asker, wire_refusal(&l->request, rc, "%s", e->text));
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

/* Where a job goes that is submitted: to its own slot when it is sent again, else to the first
 * that no job runs in; there where all run, which refuses it. */
static struct coord_job *slot_for(struct coord *c, peer_t from, const struct coord_submit *submit)
{
    for
        EACH_JOB(c, j)
    if (coord_submit_again(j, from, submit))
        return j;
    for
        EACH_JOB(c, j)
    if (!coord_phase_running(j))
        return j;
    return newest_job(c);
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
    struct coord_job *j = slot_for(c, a->from, &submit);
    if (c->look != NULL)
        rc = coord_look_asked(c, a, &submit, &a->e);
    if (rc == 0) {
        coord_report_ended(j); /* the new job takes its place */
        rc = coord_submit(j, a->from, &submit, c->look, &run, &a->e);
        if (rc == 0)
            c->newest = (uint32_t)(j - c->slot);
        if (rc == SHOAL_E_AGAIN)
            rc = coord_look_begin(c, j, a, &submit, looked, &a->e) == 0 ? SHOAL_E_AGAIN : a->e.code;
    }
    a->later = rc == SHOAL_E_AGAIN;
    if (rc != 0)
        return a->later ? 0 : rc;
    a->reply.u.SUBMIT_reply.run = run;
    return 0;
}

/* The checkpoint is removed, or stays: its order comes once more, to be answered and audited with
 * what came of it, also where the peer that sent it has left. */
static void removed(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord *c = context;
    struct coord_job *j = newest_job(c);
    for
        EACH_JOB(c, of)
    if (coord_checkpoint_removes(of, r))
        j = of;
    const struct coord_removing *was = coord_checkpoint_removed(j, r, rc, e);
    struct msg *m = wire_encode(&was->request);
    if (m != NULL)
        request_of(c, was->asker, &was->who, &was->request, m);
    msg_free(m);
    coord_checkpoint_remove_end(j, rc);
}

static int on_remove(struct coord *c, struct coord_ask *a)
{
    return coord_checkpoint_remove(newest_job(c), a, c, removed);
}

/* Whoever asks often gets the same text for a while; a phase is told at once. NULL: no memory. */
static const char *status_told(struct coord *c)
{
    struct coord_job *j = newest_job(c);
    uint64_t now = env_now_ns(c->fleet.env);
    if (c->told.text != NULL && now - c->told.made_ns < STATUS_NS && c->told.phase == j->at.phase &&
        c->told.run == j->at.run)
        return c->told.text;
    free(c->told.text);
    c->told.text = coord_status_text(j);
    c->told.made_ns = now;
    c->told.phase = j->at.phase;
    c->told.run = j->at.run;
    c->told.made++;
    return c->told.text;
}

static int on_status(struct coord *c, struct coord_ask *a)
{
    const struct coord_job *j = newest_job(c);
    const char *text = status_told(c);
    a->silent = true; /* without memory it is asked again */
    if (text == NULL)
        return 0;
    a->reply.u.STATUS_reply.state = coord_phase_state(j);
    a->reply.u.STATUS_reply.job_status = j->at.status;
    (void)coord_send_frame(&c->fleet, a->from, &a->reply, text, strlen(text));
    return 0;
}

/* A copy of the question that was answered last: who waited for the answer sent it again, and means
 * neither a second stop nor the next job. */
static bool stop_again(const struct coord *c, const struct coord_ask *a)
{
    uint64_t id = a->request->id;
    return a->request->u.STOP.job_only && id != 0 &&
           (id == c->stopped.id || id == c->slot[c->newest].stop.id);
}

static int on_stop(struct coord *c, struct coord_ask *a)
{
    bool *ends = &a->reply.u.STOP_reply.ends;
    if (stop_again(c, a)) {
        *ends = a->request->id == c->stopped.id ? c->stopped.ends : true;
        return 0;
    }
    struct coord_job *j = newest_job(c);
    /* asked twice it ends at once */
    *ends = a->request->u.STOP.job_only && coord_stop_order(j, a->request->id);
    if (!*ends)
        coord_end_fail(j, SHOAL_E_STOPPED, "stopped by request");
    coord_report_ended(j); /* the process may end with this message */
    c->stopped.id = a->request->id;
    c->stopped.ends = *ends;
    a->silent = true; /* it is answered before the loop ends */
    coord_send(&c->fleet, a->from, wire_encode(&a->reply));
    if (!a->request->u.STOP.job_only && !c->fleet.stopping) {
        c->fleet.stopping = true;
        env_stop(c->fleet.env);
    }
    return 0;
}

/* Why no field can go now; code 0: no job uses the tables. */
static struct err tables_used(const struct coord_job *j)
{
    struct err e = {0};
    if (coord_phase_running(j))
        (void)err_set(&e, SHOAL_E_BUSY,
                      "job %s is running: wait for its end or stop it first (shoal stop)",
                      j->spec.name);
    else if (j->checkpoint.state != CHECKPOINT_IDLE)
        (void)err_set(&e, SHOAL_E_BUSY, "checkpoint %s is being made: ask again when it is there",
                      j->checkpoint.name);
    return e;
}

static int on_drop(struct coord *c, struct coord_ask *a)
{
    struct err used = {0};
    for
        EACH_JOB(c, j)
    if (used.code == 0)
        used = tables_used(j);
    return coord_drop_request(&c->fleet, a, &used);
}

static int on_hello(struct coord *c, struct coord_ask *a)
{
    a->reply.u.HELLO_reply = (struct wire_HELLO_reply){
        .version = WIRE_VERSION, .name = "coordinator", .map_epoch = c->fleet.cluster.map_epoch};
    return 0;
}

/* ---- dispatch -------------------------------------------------------------------------------- */

/* Who shows the pass of a worker that is known: its lease is renewed. */
#define A_WORKER(name) (&w->u.name.pass)
#define ANYBODY(name) NULL

/* X(TYPE, who may ask, what it is about, handler): the types that a coordinator answers; all others
 * are a server's. */
#define DISPATCH_MAP(X)                                                                            \
    X(HELLO, ANYBODY, COORD, on_hello)                                                             \
    X(SHARD_BEAT, ANYBODY, COORD, on_shard_beat)                                                   \
    X(SERVER_DISK, ANYBODY, FLEET, coord_sight_disk)                                               \
    X(WORKER_JOIN, ANYBODY, JOB, coord_work_join)                                                  \
    X(WORKER_BEAT, A_WORKER, JOB, coord_work_beat)                                                 \
    X(WORKER_LEAVE, ANYBODY, JOB, coord_work_leave)                                                \
    X(INDEX_DONE, A_WORKER, JOB, coord_work_index)                                                 \
    X(WINDOWS, A_WORKER, JOB, coord_work_windows)                                                  \
    X(PROFILE, A_WORKER, JOB, coord_work_profile)                                                  \
    X(FILES, A_WORKER, JOB, coord_taken_files)                                                     \
    X(TAKEN, A_WORKER, JOB, coord_taken_ask)                                                       \
    X(OBJECTS, A_WORKER, JOB, coord_work_objects)                                                  \
    X(OBJECT_DONE, A_WORKER, JOB, coord_work_object)                                               \
    X(LEGEND, A_WORKER, JOB, coord_work_legend)                                                    \
    X(JOB_TEXT, ANYBODY, FLEET, coord_made_job_text)                                               \
    X(TABLE_DECLARE, ANYBODY, JOB, coord_work_declare)                                             \
    X(TABLE_GET, ANYBODY, JOB, coord_made_table_get)                                               \
    X(MAP_GET, ANYBODY, JOB, coord_made_map_get)                                                   \
    X(LANE_NEXT, ANYBODY, JOB, coord_grant_next)                                                   \
    X(TASK_DONE, A_WORKER, JOB, coord_work_task)                                                   \
    X(EVAL_DONE, A_WORKER, JOB, coord_work_eval)                                                   \
    X(SUBMIT, ANYBODY, COORD, on_submit)                                                           \
    X(WHO, ANYBODY, JOB, coord_lease_who)                                                          \
    X(STATUS, ANYBODY, COORD, on_status)                                                           \
    X(REPORT, ANYBODY, JOB, coord_jobs_report)                                                     \
    X(JOBS, ANYBODY, JOB, coord_jobs_ask)                                                          \
    X(CHECKPOINT, ANYBODY, JOB, coord_checkpoint_request)                                          \
    X(CHECKPOINT_REMOVE, ANYBODY, COORD, on_remove)                                                \
    X(DROP, ANYBODY, COORD, on_drop)                                                               \
    X(STOP, ANYBODY, COORD, on_stop)

struct handler {
    /* one of the three: by what the request is about */
    int (*of_job)(struct coord_job *j, struct coord_ask *a);
    int (*of_fleet)(struct coord_fleet *f, struct coord_ask *a);
    int (*of_coord)(struct coord *c, struct coord_ask *a);
    const uint64_t *pass; /* in the request; NULL: anybody may ask */
};

#define JOB(function, pass) ((struct handler){function, NULL, NULL, pass})
#define FLEET(function, pass) ((struct handler){NULL, function, NULL, pass})
#define COORD(function, pass) ((struct handler){NULL, NULL, function, pass})

static struct handler handler_of(const struct wire *w)
{
    switch (w->type) {
#define X(name, who, of, function)                                                                 \
    case WIRE_TYPE_##name:                                                                         \
        return of(function, who(name));
        DISPATCH_MAP(X)
#undef X
    default:
        return (struct handler){0};
    }
}

/* The job that a request is about: of a worker the one that it has joined, of a WORKER_JOIN one
 * that may want it; else the newest. */
static struct coord_job *job_of(struct coord *c, const struct handler *h, const struct coord_ask *a)
{
    for
        EACH_JOB(c, j)
    if (h->pass != NULL ? coord_worker_of_pass(&j->workers, *h->pass, a->who.key) != NULL
                        : coord_worker_of_peer(&j->workers, a->from) != NULL)
        return j;
    if (a->request->type != WIRE_TYPE_WORKER_JOIN)
        return newest_job(c);
    struct coord_job *least = newest_job(c);
    for
        EACH_JOB(c, j)
    if (coord_phase_running(j) &&
        (!coord_phase_running(least) || j->workers.count < least->workers.count))
        least = j;
    return least;
}

static int handler_run(struct coord *c, const struct handler *h, struct coord_ask *a)
{
    if (h->of_fleet != NULL)
        return h->of_fleet(&c->fleet, a);
    if (h->of_coord != NULL)
        return h->of_coord(c, a);
    struct coord_job *j = job_of(c, h, a);
    int rc = h->pass == NULL ? 0 : coord_work_known(j, a, *h->pass);
    return rc != 0 ? rc : h->of_job(j, a);
}

static int ask_run(struct coord *c, struct coord_ask *a)
{
    struct handler h = handler_of(a->request);
    if (h.of_job == NULL && h.of_fleet == NULL && h.of_coord == NULL)
        return err_set(&a->e, SHOAL_E_USAGE, "a coordinator does not answer %s: ask a server",
                       wire_type_name(a->request->type));
    enum wire_right right = allow_right_of(a->request);
    if (!allow_may(right, WIRE_COORDINATOR, a->who.role, false) && !PLANTED("any_role"))
        return allow_denied(right, WIRE_COORDINATOR, role_text(a->who.role), &a->e);
    return handler_run(c, &h, a);
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
        coord_send(&c->fleet, from, wire_refusal(w, rc, "%s", a.e.text));
    else if (a.frame != NULL)
        (void)coord_send_frame(&c->fleet, from, &a.reply, a.frame, a.frame_bytes);
    else if (!a.silent)
        coord_send(&c->fleet, from, wire_encode(&a.reply));
}

static void on_request(struct coord *c, peer_t from, const struct wire *w, const struct msg *m)
{
    request_of(c, from, env_who(c->fleet.env, from), w, m);
}

/* Only of those who may beat: another list may have come since. */
static void on_reply(struct coord *c, peer_t from, const struct wire *w, const struct msg *m)
{
    if (!allow_may(WIRE_RIGHT_SHARD_BEAT, WIRE_COORDINATOR, env_who(c->fleet.env, from)->role,
                   false))
        return;
    if (w->type == WIRE_TYPE_KEYLIST)
        coord_keys_answer(&c->fleet, from, w);
    else
        coord_call_on_reply(&c->fleet.calls, from, w, m);
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct coord *c = core;
    struct err e = {0};
    struct wire w;
    int rc = wire_decode(m, &w, &e);
    if (rc == 0)
        env_known(c->fleet.env, from);
    if (rc != 0) {
        log_debug("a message is refused: %s", e.text);
        if (w.type != WIRE_TYPE_NONE && !w.reply)
            coord_send(&c->fleet, from, wire_refusal(&w, rc, "%s", e.text));
    } else if (c->fleet.fatal == 0 && w.reply) {
        on_reply(c, from, &w, m);
    } else if (c->fleet.fatal == 0) {
        on_request(c, from, &w, m);
    }
    msg_free(m);
}

/* What is due now: the fleet's, then each job's. */
static void step(struct coord *c)
{
    bool back = false;
    if (c->fleet.fatal != 0)
        return;
    for
        EACH_JOB(c, j)
    coord_back_step(j);
    coord_cluster_step(&c->fleet);
    for
        EACH_JOB(c, j)
    back = back || coord_goes_back(j);
    if (!back) { /* nothing that is done with the rows of a job that goes back counts */
        coord_names_step(&c->fleet);
        coord_taken_step(&c->fleet);
        coord_drop_step(&c->fleet);
    }
    for
        EACH_JOB(c, j)
    if (!coord_goes_back(j))
        coord_flow_step(j);
}

static void on_drained(void *core)
{
    step(core);
}

const struct env_handler coord_handler = {on_message, on_drained, NULL};

/* A tick that comes late: the coordinator stood still (stopped, a paused machine, a slow disk), and
 * the beats of that time lie unread in its sockets. */
static void time_forgive(struct coord *c)
{
    uint64_t now = env_now_ns(c->fleet.env), gap = now - c->ticked_ns;
    c->ticked_ns = now;
    if (gap <= LATE_NS || PLANTED("pause"))
        return;
    gap -= TICK_NS;
    log_warn("the coordinator stood still for %.1f s: leases are longer by that",
             (double)gap * 1e-9);
    coord_member_forgive(&c->fleet.members, gap, now);
    for (uint32_t i = 0; i < c->fleet.cluster.claims; i++)
        c->fleet.cluster.claim[i].beat_ns =
            coord_later(c->fleet.cluster.claim[i].beat_ns, gap, now);
    for
        EACH_JOB(c, j)
        {
            coord_worker_forgive(&j->workers, gap, now);
            j->watch.begun_ns = coord_later(j->watch.begun_ns, gap, now);
            j->watch.worker_ns = coord_later(j->watch.worker_ns, gap, now);
            if (j->watch.left_ns != 0)
                j->watch.left_ns = coord_later(j->watch.left_ns, gap, now);
        }
}

static void on_tick(struct env_timer *t)
{
    struct coord *c = container_of(t, struct coord, timer);
    if (c->fleet.fatal != 0 || c->fleet.stopping)
        return;
    time_forgive(c);
    for
        EACH_JOB(c, j)
        {
            coord_work_expire(j);
            coord_stall_tick(j);
        }
    coord_sight_tick(&c->fleet);
    coord_errand_tick(&c->fleet);
    coord_call_tick(&c->fleet.calls);
    coord_keys_tick(&c->fleet);
    for
        EACH_JOB(c, j)
    coord_watch_tick(j);
    step(c);
    env_timer_start(c->fleet.env, t, TICK_NS);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int job_open(struct coord_job *j, struct err *e)
{
    struct coord_fleet *f = j->fleet;
    int rc = coord_lease_open(&j->leases, j->store, e);
    if (rc == 0)
        rc = coord_flow_open(j, e);
    if (rc == 0 && (f->cluster.map_epoch != 0 || j->at.map_epoch != 0))
        rc = coord_cluster_shards(f, e);
    if (rc == 0)
        rc = coord_checkpoint_open(j, e);
    if (rc != 0)
        return rc;
    if (f->cluster.taken_over && j->at.phase == PHASE_NONE)
        coord_lost_look(f); /* it has started again since */
    j->watch.left_ns = coord_phase_running(j) ? j->watch.begun_ns : 0;
    return 0;
}

static void slot_close(struct coord_job *j)
{
    coord_submit_close(j);
    coord_lease_close(&j->leases);
    coord_worker_close(&j->workers);
}

/* The first slot has the keys of the store that a coordinator of one job has; each other one has
 * its own part. */
static int slots_make(struct coord *c, uint32_t slots, struct err *e)
{
    for (uint32_t i = 0; i < slots; i++) {
        char prefix[16];
        struct coord_job *j = &c->slot[i];
        (void)snprintf(prefix, sizeof prefix, "job%u/", i + 1);
        j->fleet = &c->fleet;
        j->from_hold = COORD_FOLDER_NONE; /* coord_free may follow before flow.c says so */
        j->watch.begun_ns = j->watch.worker_ns = c->ticked_ns;
        j->store = i == 0 ? c->fleet.store : coord_store_part(c->fleet.store, prefix);
        if (j->store == NULL)
            return err_set(e, SHOAL_E_NOMEM, "no memory for a job's part of the store");
        c->slots = i + 1;
    }
    return 0;
}

int coord_new(const struct coord_options *options, struct env *env, struct coord_store *store,
              struct coord **out, struct err *e)
{
    SHOAL_ASSERT(options->jobs <= COORD_SLOTS);
    if (options->shards == 0 || options->shards > LIMIT_SHARDS)
        return err_set(e, SHOAL_E_CONFIG, "shards: %u, 1 to %u are possible", options->shards,
                       LIMIT_SHARDS);
    struct coord *c = calloc(1, sizeof *c);
    if (c == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the coordinator");
    c->timer.fire = on_tick;
    c->ticked_ns = env_now_ns(env);
    int rc = coord_fleet_open(&c->fleet, options, env, store, e);
    if (rc == 0)
        rc = slots_make(c, options->jobs == 0 ? 1 : options->jobs, e);
    for
        EACH_JOB(c, j)
    if (rc == 0)
        rc = job_open(j, e);
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
    return coord_keys_take(&c->fleet, text, bytes, e);
}

void coord_describe(struct coord *c, char *text, size_t bytes)
{
    coord_status_line(newest_job(c), text, bytes);
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
    for
        EACH_JOB(c, j)
        {
            coord_output_close(j);
            coord_checkpoint_close(j);
        }
    coord_call_cancel_all(&c->fleet.calls);
    for
        EACH_JOB(c, j)
    slot_close(j);
    coord_fleet_close(&c->fleet);
    free(c->told.text);
    free(c);
}

const char *coord_library(unsigned *protocol)
{
    *protocol = WIRE_VERSION;
    return wire_library();
}
