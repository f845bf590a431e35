/* dispatch.c: the function that answers each request. */
#include "server/coord/dispatch.h"

#include "proto/base/assert.h"
#include "proto/base/crash.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/wire/allow.h"
#include "server/coord/job/aside.h"
#include "server/coord/job/beat.h"
#include "server/coord/job/crew.h"
#include "server/coord/job/handle.h"
#include "server/coord/job/report.h"
#include "server/coord/job/slot.h"
#include "server/coord/operator.h"
#include "server/coord/work/grant.h"
#include "server/coord/work/heard.h"
#include "server/coord/work/ring_job.h"

#include <inttypes.h>
#include <stdio.h>

void coord_refuse(struct coord *c, peer_t from, const struct wire *w, int rc, const char *text)
{
    SHOAL_ASSERT(rc < 0 && -rc < (int)COORD_REASONS);
    c->refused_as[-rc]++;
    coord_send(&c->fleet, from, wire_refusal(w, rc, "%s", text));
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
    X(SUBMIT, ANYBODY, COORD, coord_operator_submit)                                               \
    X(WHO, ANYBODY, JOB, coord_lease_who)                                                          \
    X(TRACE, ANYBODY, FLEET, coord_traces_ask)                                                     \
    X(TRACE_EVERY, ANYBODY, FLEET, coord_traces_order)                                             \
    X(STATUS, ANYBODY, COORD, coord_operator_status)                                               \
    X(REPORT, ANYBODY, JOB, coord_jobs_report)                                                     \
    X(JOBS, ANYBODY, COORD, coord_operator_jobs)                                                   \
    X(CHECKPOINT, ANYBODY, COORD, coord_aside_checkpoint)                                          \
    X(CHECKPOINT_REMOVE, ANYBODY, COORD, coord_operator_remove)                                    \
    X(DROP, ANYBODY, COORD, coord_operator_drop)                                                   \
    X(IMPORT, ANYBODY, COORD, coord_operator_import)                                               \
    X(PROMOTE, ANYBODY, FLEET, coord_copies_promote)                                               \
    X(MOVES, ANYBODY, COORD, coord_operator_moves)                                                 \
    X(REPLACE, ANYBODY, COORD, coord_operator_replace)                                             \
    X(STOP, ANYBODY, COORD, coord_operator_stop)

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

/* The worker that asks to join gets no job now. */
static int visit(struct coord *c, struct coord_ask *a, const struct coord_job *kept)
{
    char why[ERR_TEXT_MAX];
    if (kept == NULL)
        return coord_handle_visit(
            &c->fleet, a, coord_crew_why(c, coord_crew_external(&a->request->u.WORKER_JOIN)));
    (void)snprintf(why, sizeof why, "free workers are kept for job %s, which begins with %u",
                   kept->spec.name, kept->at.workers_wanted);
    return coord_handle_visit(&c->fleet, a, why);
}

/* Returns the job that a request is about; a worker's is the job that it has joined. NULL: none
 * takes the worker that asks; kept: as coord_crew_to_join. */
static struct coord_job *job_of(struct coord *c, const uint64_t *pass, const struct coord_ask *a,
                                const struct coord_job **kept)
{
    struct coord_job *j = NULL;
    switch (a->request->type) {
    case WIRE_TYPE_WORKER_JOIN:
        return coord_crew_to_join(c, &a->request->u.WORKER_JOIN, a->from, kept);
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
    const struct coord_job *kept = NULL;
    struct coord_job *j = job_of(c, h->pass, a, &kept);
    int rc = 0;
    if (j == NULL)
        return visit(c, a, kept);
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
    if (a->request->type == WIRE_TYPE_IMPORT && a->request->u.IMPORT.asks && rc == 0)
        return; /* no order */
    char object[160];
    if (rc == SHOAL_E_DENIED && !allow_may(right, WIRE_COORDINATOR, a->who.role, false))
        log_audit_bounded(.key = a->who.key, .role = role_text(a->who.role), .name = a->who.name,
                          .peer = a->who.address, .operation = operation, .result = "denied");
    else if (allow_audited(right) && !allow_again(&c->ordered, a->from, rc, a->m))
        log_audit(.key = a->who.key, .role = role_text(a->who.role), .name = a->who.name,
                  .peer = a->who.address, .operation = operation, .object = object_of(a, object),
                  .result = rc == 0 ? "ok" : err_text(rc));
}

void coord_dispatch(struct coord *c, peer_t from, const struct env_who *who, const struct wire *w,
                    const struct msg *m)
{
    struct coord_ask a = {.from = from, .request = w, .m = m, .who = *who};
    wire_reply_to(w, 0, &a.reply);
    int rc = ask_run(c, &a);
    if (a.later)
        return;
    audit(c, &a, rc);
    if (rc != 0)
        coord_refuse(c, from, w, rc, a.e.text);
    else if (a.frame != NULL)
        (void)coord_send_frame(&c->fleet, from, &a.reply, a.frame, a.frame_bytes);
    else if (!a.silent)
        coord_send(&c->fleet, from, wire_encode(&a.reply));
}
