/* coord.c: the entry of the coordinator: dispatch by type, the operator's requests, the tick. */
#include "server/coord/coord.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/crash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/wire/allow.h"
#include "server/coord/core/phase.h"
#include "server/coord/fleet/add.h"
#include "server/coord/fleet/import.h"
#include "server/coord/job/aside.h"
#include "server/coord/job/back.h"
#include "server/coord/job/beat.h"
#include "server/coord/job/crew.h"
#include "server/coord/job/fleet_open.h"
#include "server/coord/job/flow.h"
#include "server/coord/job/handle.h"
#include "server/coord/job/look.h"
#include "server/coord/job/replace.h"
#include "server/coord/job/report.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/status.h"
#include "server/coord/job/submit.h"
#include "server/coord/job/turns.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/checkpoint_remove.h"
#include "server/coord/keep/cut.h"
#include "server/coord/work/grant.h"
#include "server/coord/work/heard.h"
#include "server/coord/work/ring_job.h"
#include "server/coord/work/stall.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS UINT64_C(50000000)
#define LATE_NS (10 * TICK_NS)
#define STATUS_NS UINT64_C(200000000)

/* ---- the operator ---------------------------------------------------------------------------- */

/* Refuses the request. */
static void refuse(struct coord *c, peer_t from, const struct wire *w, int rc, const char *text)
{
    SHOAL_ASSERT(rc < 0 && -rc < (int)COORD_REASONS);
    c->refused_as[-rc]++;
    coord_send(&c->fleet, from, wire_refusal(w, rc, "%s", text));
}

static void request_of(struct coord *c, peer_t from, const struct env_who *who,
                       const struct wire *w, const struct msg *m);
static void on_request(struct coord *c, peer_t from, const struct wire *w, const struct msg *m);

/* The errand has checked the folders of a job: hands its SUBMIT in again, to be answered. */
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
    struct coord_job *j;
    rc = coord_turns_slot(c, a->from, &submit, &j, &a->e);
    if (rc != 0)
        return rc;
    if (j == NULL)
        return coord_turns_take(c, a, &submit, &a->reply.u.SUBMIT_reply.run,
                                a->reply.u.SUBMIT_reply.said, &a->e);
    if (c->look != NULL)
        rc = coord_look_asked(c, a, &submit, &a->e);
    if (rc == 0) {
        coord_report_ended(j); /* the new job takes its slot */
        rc = coord_submit(j, a->from, &submit, c->look, &run, &a->e);
        if (rc == SHOAL_E_AGAIN && coord_look_begin(c, j, a, &submit, looked, &a->e) != 0)
            rc = a->e.code;
    }
    a->later = rc == SHOAL_E_AGAIN;
    if (a->later)
        return 0;
    if (rc != 0)
        return rc;
    a->reply.u.SUBMIT_reply.run = run;
    coord_submit_say(j, a->reply.u.SUBMIT_reply.said);
    return 0;
}

/* The errand has removed the checkpoint, or left it: hands the order in again, to be answered and
 * audited with its result, even when the peer that sent it has left. */
static void removed(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord *c = context;
    struct coord_job *j = coord_slot_newest(c);
    COORD_EACH_KEEPER(c, of)
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
    struct coord_job *j;
    int rc = coord_aside_find(c, a->request->u.CHECKPOINT_REMOVE.space, &j, &a->e);
    if (rc != 0)
        return rc;
    return coord_checkpoint_remove(j, a, c, removed);
}

/* The errand has read the checkpoint: hands the order in again, to be given, audited and
 * answered. */
static void replace_read(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord *c = context;
    const struct coord_replacing *was = coord_replace_read(c, rc, e);
    SHOAL_ASSERT(&was->errand == r);
    struct msg *m = wire_encode(&was->request);
    if (m != NULL)
        request_of(c, was->asker, &was->who, &was->request, m);
    msg_free(m);
    coord_replace_end(c, rc);
}

/* Returns the job that may go back to a cut of which a shard of the server has a part; NULL: none.
 * */
static const struct coord_job *needs_server(struct coord *c, const char *server)
{
    COORD_EACH_JOB (c, j)
        COORD_EACH_SHARD (&c->fleet.members, s)
            if (coord_copies_on(&c->fleet, s, server) && coord_home_needs(j, s))
                return j;
    return NULL;
}

/* Returns why no server may join or leave at once; code 0: it may. A server that joins has no cut
 * of before, so none joins while one is made. One that is away may be to write its part of a
 * checkpoint, until that is given up. */
static struct err moves_busy(struct coord *c, const struct wire_MOVES *order)
{
    const struct coord_job *needs = NULL;
    bool joins = order->order == WIRE_MOVES_ADD;
    struct err e = {0};
    COORD_EACH_KEEPER(c, j)
    if ((joins && j->cut->state != CUT_IDLE) || (!joins && coord_checkpoint_cut(j) != 0) ||
        coord_checkpoint_opening(j))
        (void)err_set(&e, SHOAL_E_BUSY,
                      "the tables of space %s are being kept or restored: ask again in a "
                      "moment",
                      j->space->name);
    if (!joins)
        needs = needs_server(c, order->server);
    if (needs != NULL)
        (void)err_set(&e, SHOAL_E_BUSY,
                      "job %s may go back to its best epoch, of which server %s has a part: start "
                      "the server again, or stop the job",
                      needs->spec.name, order->server);
    return e;
}

static int on_moves(struct coord *c, struct coord_ask *a)
{
    const struct err busy = moves_busy(c, &a->request->u.MOVES);
    return coord_moves_order(&c->fleet, a, &busy);
}

static int on_replace(struct coord *c, struct coord_ask *a)
{
    if (a->request->u.REPLACE.from[0] == 0)
        return coord_copies_replace(&c->fleet, a);
    return coord_replace_ask(c, a, replace_read);
}

/* Returns the status text of a job. A client that asks often gets the same text for STATUS_NS, but
 * a new phase shows at once. NULL: no memory. */
static const char *status_told(struct coord *c, struct coord_job *j)
{
    struct coord_told *t = &c->told[j->slot];
    uint64_t now = env_now_ns(c->fleet.env);
    if (t->text != NULL && now - t->made_ns < STATUS_NS && t->phase == j->at.phase &&
        t->run == j->at.run)
        return t->text;
    free(t->text);
    struct json *s = coord_picture_status(c, j);
    t->text = json_text(s, 0);
    json_free(s);
    t->made_ns = now;
    t->phase = j->at.phase;
    t->run = j->at.run;
    t->made++;
    return t->text;
}

static int on_status(struct coord *c, struct coord_ask *a)
{
    struct coord_job *j = coord_slot_numbered(c, a->request->u.STATUS.run);
    if (j == NULL)
        return err_set(&a->e, SHOAL_E_NOT_FOUND,
                       "job %" PRIu64 " does not run here: shoal jobs lists those that wait and "
                       "those that have ended",
                       a->request->u.STATUS.run);
    const char *text = status_told(c, j);
    a->silent = true; /* without memory no answer is sent, and the client asks again */
    if (text == NULL)
        return 0;
    a->reply.u.STATUS_reply.state = coord_phase_state(j);
    a->reply.u.STATUS_reply.job_status = j->at.status;
    (void)coord_send_frame(&c->fleet, a->from, &a->reply, text, strlen(text));
    return 0;
}

/* True when this is a copy of the STOP that was answered last, or that the job obeys: its sender
 * repeated it while it waited, and wants neither a second stop nor the end of another job. */
static bool stop_again(struct coord *c, const struct coord_ask *a)
{
    uint64_t id = a->request->id;
    bool again = id != 0 && id == c->stopped.id;
    COORD_EACH_JOB (c, j)
        again = again || (id != 0 && id == j->stop.id);
    return a->request->u.STOP.job_only && again;
}

/* Ends one job: in order, or at once by a second STOP. True: in order. */
static bool stop_one(struct coord_job *j, uint64_t id, bool job_only)
{
    bool ends = job_only && coord_stop_order(j, id);
    if (!ends)
        coord_end_fail(j, SHOAL_E_STOPPED, "stopped by request");
    coord_report_ended(j); /* the process may end with this message */
    return ends;
}

/* Writes the names and numbers of the jobs that run. */
static void running_say(struct coord *c, char out[ERR_TEXT_MAX / 2])
{
    size_t at = 0, most = ERR_TEXT_MAX / 2;
    out[0] = 0;
    COORD_EACH_JOB (c, j)
        if (coord_phase_running(j) && at < most)
            at += (size_t)snprintf(out + at, most - at, "%s%s (%" PRIu64 ")", text_if(at > 0, ", "),
                                   j->spec.name, j->at.number);
}

/* The job with the number is not at hand: it waits, or has ended. */
static int stop_other(struct coord *c, struct coord_ask *a)
{
    uint64_t number = a->request->u.STOP.run;
    char *said = a->reply.u.STOP_reply.said;
    if (coord_turns_stop(c, number))
        (void)snprintf(said, ERR_TEXT_MAX, "the job waits no more");
    else if (!coord_jobs_ended(&c->fleet, number, said))
        return err_set(&a->e, SHOAL_E_NOT_FOUND,
                       "no job here has number %" PRIu64 ": shoal jobs lists them", number);
    return 0;
}

static int on_stop(struct coord *c, struct coord_ask *a)
{
    bool *ends = &a->reply.u.STOP_reply.ends, job_only = a->request->u.STOP.job_only;
    uint64_t number = a->request->u.STOP.run;
    char names[ERR_TEXT_MAX / 2];
    struct coord_job *j = coord_slot_numbered(c, number);
    if (stop_again(c, a)) {
        *ends = a->request->id != c->stopped.id || c->stopped.ends;
        return 0;
    }
    if (j == NULL || (number != 0 && !coord_phase_running(j)))
        return stop_other(c, a);
    if (job_only && number == 0 && coord_slot_running(c) > 1) {
        running_say(c, names);
        return err_set(&a->e, SHOAL_E_USAGE, "%u jobs run here, %s: say which one by its number",
                       coord_slot_running(c), names);
    }
    if (job_only)
        *ends = stop_one(j, a->request->id, true);
    else
        COORD_EACH_JOB (c, each)
            (void)stop_one(each, a->request->id, false);
    c->stopped.id = a->request->id;
    c->stopped.ends = *ends;
    c->fleet.stopping |= !job_only;
    return 0;
}

static int on_drop(struct coord *c, struct coord_ask *a)
{
    return coord_drop_request(&c->fleet, a, coord_aside_used, c);
}

/* Rows of a table that a job trains would get gradients of other rows (embedding/engine/assign.c,
 * 4): the shards refuse them, too. */
static int on_import(struct coord *c, struct coord_ask *a)
{
    const struct wire_IMPORT *w = &a->request->u.IMPORT;
    if (w->number >= LIMIT_TABLES)
        return err_set(&a->e, SHOAL_E_MALFORMED, "there is no table number %u", w->number);
    COORD_EACH_JOB (c, j)
        if (!w->done && coord_phase_running(j) && table_set_has(&j->space->numbers, w->number))
            return err_set(&a->e, SHOAL_E_BUSY,
                           "job %s trains in table %s: wait for its end or stop it first (shoal "
                           "stop)",
                           j->spec.name, w->table);
    a->reply.u.IMPORT_reply.map_epoch = c->fleet.cluster.map_epoch;
    if (w->done)
        return coord_import_done(&c->fleet, w, &a->e);
    return coord_import_begin(&c->fleet, w, &a->e);
}

static int on_jobs(struct coord *c, struct coord_ask *a)
{
    return coord_jobs_ask(c->slot, c->slots, a);
}

static int on_hello(struct coord *c, struct coord_ask *a)
{
    a->reply.u.HELLO_reply = (struct wire_HELLO_reply){.version = WIRE_VERSION,
                                                       .name = "coordinator",
                                                       .map_epoch = c->fleet.cluster.map_epoch,
                                                       .wall_s = env_wall_s(c->fleet.env)};
    (void)snprintf(a->reply.u.HELLO_reply.build, WIRE_BUILD, "%s", crash_build());
    return 0;
}

/* ---- dispatch -------------------------------------------------------------------------------- */

/* A_WORKER: the request has the pass of a known worker, and renews its lease. ANY_PASS: it has a
 * pass, and the handler answers a worker that is not known. ANYBODY: it has no pass. */
#define A_WORKER(name) &w->u.name.pass, true
#define ANY_PASS(name) &w->u.name.pass, false
#define ANYBODY(name) NULL, false

/* X(TYPE, its pass, its subject, handler): the types that a coordinator answers; a server answers
 * all others. */
#define DISPATCH_MAP(X)                                                                            \
    X(HELLO, ANYBODY, COORD, on_hello)                                                             \
    X(SHARD_BEAT, ANYBODY, COORD, coord_beat_shard)                                                \
    X(SERVER_DISK, ANYBODY, FLEET, coord_sight_disk)                                               \
    X(IN_SYNC, ANYBODY, FLEET, coord_copies_in_sync)                                               \
    X(WORKER_JOIN, ANYBODY, JOB, coord_handle_join)                                                \
    X(WORKER_BEAT, A_WORKER, JOB, coord_handle_beat)                                               \
    X(WORKER_LEAVE, ANY_PASS, JOB, coord_handle_leave)                                             \
    X(INDEX_DONE, A_WORKER, JOB, coord_handle_index)                                               \
    X(WINDOWS, A_WORKER, JOB, coord_handle_windows)                                                \
    X(PROFILE, A_WORKER, JOB, coord_handle_profile)                                                \
    X(FILES, A_WORKER, JOB, coord_taken_files)                                                     \
    X(TAKEN, A_WORKER, JOB, coord_taken_ask)                                                       \
    X(OBJECTS, A_WORKER, JOB, coord_handle_objects)                                                \
    X(OBJECT_DONE, A_WORKER, JOB, coord_handle_object)                                             \
    X(LEGEND, A_WORKER, JOB, coord_handle_legend)                                                  \
    X(JOB_TEXT, ANYBODY, JOB, coord_made_job_text)                                                 \
    X(TABLE_DECLARE, ANYBODY, JOB, coord_handle_declare)                                           \
    X(TABLE_GET, ANYBODY, JOB, coord_made_table_get)                                               \
    X(MAP_GET, ANYBODY, JOB, coord_made_map_get)                                                   \
    X(LANE_NEXT, ANY_PASS, JOB, coord_grant_next)                                                  \
    X(TASK_DONE, A_WORKER, JOB, coord_handle_task)                                                 \
    X(TRACES, A_WORKER, JOB, coord_handle_traces)                                                  \
    X(EVAL_DONE, A_WORKER, JOB, coord_handle_eval)                                                 \
    X(RING, A_WORKER, JOB, coord_ring_ask)                                                         \
    X(SUBMIT, ANYBODY, COORD, on_submit)                                                           \
    X(WHO, ANYBODY, JOB, coord_lease_who)                                                          \
    X(TRACE, ANYBODY, FLEET, coord_traces_ask)                                                     \
    X(TRACE_EVERY, ANYBODY, FLEET, coord_traces_order)                                             \
    X(STATUS, ANYBODY, COORD, on_status)                                                           \
    X(REPORT, ANYBODY, JOB, coord_jobs_report)                                                     \
    X(JOBS, ANYBODY, COORD, on_jobs)                                                               \
    X(CHECKPOINT, ANYBODY, COORD, coord_aside_checkpoint)                                          \
    X(CHECKPOINT_REMOVE, ANYBODY, COORD, on_remove)                                                \
    X(DROP, ANYBODY, COORD, on_drop)                                                               \
    X(IMPORT, ANYBODY, COORD, on_import)                                                           \
    X(PROMOTE, ANYBODY, FLEET, coord_copies_promote)                                               \
    X(MOVES, ANYBODY, COORD, on_moves)                                                             \
    X(REPLACE, ANYBODY, COORD, on_replace)                                                         \
    X(STOP, ANYBODY, COORD, on_stop)

struct handler {
    /* one of the three, by the subject of the request */
    int (*of_job)(struct coord_job *j, struct coord_ask *a);
    int (*of_fleet)(struct coord_fleet *f, struct coord_ask *a);
    int (*of_coord)(struct coord *c, struct coord_ask *a);
    const uint64_t *pass; /* in the request; NULL: it has none */
    bool known;           /* the pass must be that of a known worker */
};

#define JOB(function, ...) ((struct handler){function, NULL, NULL, __VA_ARGS__})
#define FLEET(function, ...) ((struct handler){NULL, function, NULL, __VA_ARGS__})
#define COORD(function, ...) ((struct handler){NULL, NULL, function, __VA_ARGS__})

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

static struct coord_job *job_of_run(struct coord *c, uint64_t run)
{
    COORD_EACH_JOB (c, j)
        if (j->at.run == run)
            return j;
    return coord_slot_newest(c);
}

/* Returns the job that a request is about; a worker's is the job that it has joined. NULL: none
 * takes the worker that asks. */
static struct coord_job *job_of(struct coord *c, const uint64_t *pass, const struct coord_ask *a)
{
    struct coord_job *j = NULL;
    switch (a->request->type) {
    case WIRE_TYPE_WORKER_JOIN:
        return coord_crew_to_join(c, a->from);
    case WIRE_TYPE_WHO:
        return job_of_run(c, a->request->u.WHO.run);
    case WIRE_TYPE_REPORT:
        j = coord_slot_numbered(c, a->request->u.REPORT.run);
        return j != NULL ? j : coord_slot_newest(c);
    default:
        return coord_slot_of(c, a->from, pass, a->who.key);
    }
}

static int handler_run(struct coord *c, const struct handler *h, struct coord_ask *a)
{
    if (h->of_fleet != NULL)
        return h->of_fleet(&c->fleet, a);
    if (h->of_coord != NULL)
        return h->of_coord(c, a);
    struct coord_job *j = job_of(c, h->pass, a);
    int rc = 0;
    if (j == NULL)
        return coord_handle_visit(&c->fleet, a, "no job that runs has a place for one more worker");
    if (h->known)
        rc = coord_heard(j, a, *h->pass);
    if (rc != 0)
        return rc;
    return h->of_job(j, a);
}

static int ask_run(struct coord *c, struct coord_ask *a)
{
    struct handler h = handler_of(a->request);
    if (h.of_job == NULL && h.of_fleet == NULL && h.of_coord == NULL)
        return err_set(&a->e, SHOAL_E_USAGE, "a coordinator does not answer %s: ask a server",
                       wire_type_name(a->request->type));
    enum wire_right right = allow_right_of(a->request);
    if (!allow_may(right, WIRE_COORDINATOR, a->who.role, false))
        return allow_denied(right, WIRE_COORDINATOR, role_text(a->who.role), &a->e);
    return handler_run(c, &h, a);
}

/* Returns a word or two for the audit log: the object of an order. */
static const char *object_of(const struct coord_ask *a, char out[160])
{
    const struct wire *w = a->request;
    out[0] = 0;
    if (w->type == WIRE_TYPE_SUBMIT && a->reply.u.SUBMIT_reply.run != 0)
        (void)snprintf(out, 160, "run %" PRIu64, a->reply.u.SUBMIT_reply.run);
    else if (w->type == WIRE_TYPE_STOP && w->u.STOP.run != 0)
        (void)snprintf(out, 160, "job %" PRIu64, w->u.STOP.run);
    else if (w->type == WIRE_TYPE_STOP)
        (void)snprintf(out, 160, "%s", w->u.STOP.job_only ? "job" : "coordinator");
    else if (w->type == WIRE_TYPE_CHECKPOINT)
        (void)snprintf(out, 160, "%.40s%s%.40s%s%.60s", w->u.CHECKPOINT.space,
                       text_if(w->u.CHECKPOINT.space[0] != 0, "/"), w->u.CHECKPOINT.name,
                       text_if(w->u.CHECKPOINT.without[0] != 0, " without "),
                       w->u.CHECKPOINT.without);
    else if (w->type == WIRE_TYPE_CHECKPOINT_REMOVE)
        (void)snprintf(out, 160, "%s%s%s", w->u.CHECKPOINT_REMOVE.space,
                       text_if(w->u.CHECKPOINT_REMOVE.space[0] != 0, "/"),
                       w->u.CHECKPOINT_REMOVE.name);
    else if (w->type == WIRE_TYPE_MOVES)
        (void)snprintf(out, 160, "%.150s", w->u.MOVES.server);
    else if (w->type == WIRE_TYPE_TRACE_EVERY)
        (void)snprintf(out, 160, "one batch in %u", w->u.TRACE_EVERY.every);
    else if (w->type == WIRE_TYPE_DROP)
        (void)snprintf(out, 160, "%.60s%s%.60s%s%.30s", w->u.DROP.space,
                       text_if(w->u.DROP.table[0] != 0 && w->u.DROP.space[0] != 0, "/"),
                       w->u.DROP.table, text_if(w->u.DROP.field[0] != 0, "/"), w->u.DROP.field);
    else if (w->type == WIRE_TYPE_IMPORT)
        (void)snprintf(out, 160, "%.40s %s%" PRIu64 " rows of %.60s, xxh3 %016" PRIx64,
                       w->u.IMPORT.table, text_if(w->u.IMPORT.done, "has "), w->u.IMPORT.rows,
                       w->u.IMPORT.file, w->u.IMPORT.checksum);
    else if (w->type == WIRE_TYPE_PROMOTE)
        (void)snprintf(out, 160, "shard %u%s", w->u.PROMOTE.shard,
                       text_if(w->u.PROMOTE.accept_loss, ", loss accepted"));
    else if (w->type == WIRE_TYPE_REPLACE)
        (void)snprintf(out, 160, "%s", w->u.REPLACE.server);
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
        refuse(c, from, w, rc, a.e.text);
    else if (a.frame != NULL)
        (void)coord_send_frame(&c->fleet, from, &a.reply, a.frame, a.frame_bytes);
    else if (!a.silent)
        coord_send(&c->fleet, from, wire_encode(&a.reply));
}

static void on_request(struct coord *c, peer_t from, const struct wire *w, const struct msg *m)
{
    request_of(c, from, env_who(c->fleet.env, from), w, m);
}

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
            refuse(c, from, &w, rc, e.text);
    } else if (c->fleet.fatal == 0 && w.reply) {
        on_reply(c, from, &w, m);
    } else if (c->fleet.fatal == 0 && !c->fleet.stopping) {
        on_request(c, from, &w, m);
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
    if (coord_moves_emptied(f) && needs_server(c, f->moves.drained) == NULL)
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
        j->space->runs = j->space->opens = false;
    COORD_EACH_SPACE (&c->fleet, s) /* one whose slot has another space now, too */
        s->loads = false;
    COORD_EACH_JOB (c, j) {
        j->space->runs |= coord_phase_running(j);
        j->space->opens |=
            coord_phase_running(j) && j->at.phase >= PHASE_SETUP && j->at.phase != PHASE_FINISH;
        j->space->loads |= j->at.phase == PHASE_SETUP && coord_from_loading(&j->at);
    }
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
