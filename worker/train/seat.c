/* seat.c: asks for work and does it. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "worker/train/seat_inner.h"

#include <inttypes.h>
#include <stdlib.h>

#define MS UINT64_C(1000000)
enum { WAIT_MS_MIN = 10, WAIT_MS_MAX = 5000, WAIT_MS_DEFAULT = 200 };

static const char *const names[] = {
    [FREE] = "free",         [ASKING] = "asking",   [RESTING] = "resting",
    [OPENING] = "opening",   [WORKING] = "working", [REPORTING] = "reporting",
    [DROPPING] = "dropping",
};
/* DROPPING: given up while its lane is at work; FREE when that ends. */
static const uint32_t moves[] = {
    [FREE] = SM_TO(ASKING),
    [ASKING] = SM_TO(RESTING) | SM_TO(OPENING) | SM_TO(FREE),
    [RESTING] = SM_TO(ASKING) | SM_TO(FREE),
    [OPENING] = SM_TO(WORKING) | SM_TO(REPORTING) | SM_TO(FREE),
    [WORKING] = SM_TO(REPORTING) | SM_TO(FREE) | SM_TO(DROPPING),
    [REPORTING] = SM_TO(ASKING) | SM_TO(FREE) | SM_TO(WORKING),
    [DROPPING] = SM_TO(FREE),
};
const struct sm seat_moves = SM("a seat", names, moves);

static void seat_move(struct seat *s, enum seat_state to)
{
    struct dataset *data = s->data;
    sm_move(&seat_moves, &s->state, to);
    if (data == NULL || to == WORKING || to == REPORTING || to == DROPPING)
        return;
    s->data = NULL;
    s->host->release(s->host->context, data);
}

void seat_leave(struct seat *s)
{
    s->number = SEAT_NO_LANE;
    s->generation = 0;
    s->batch = 0;
    seat_move(s, FREE);
    s->host->freed(s->host->context);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static struct msg *ask_build(struct request *r)
{
    struct seat *s = container_of(r, struct seat, ask);
    struct wire w;
    SHOAL_ASSERT(s->state == ASKING);
    client_head(r, &w);
    w.u.LANE_NEXT.pass = s->host->pass;
    w.u.LANE_NEXT.lane = s->number;
    w.u.LANE_NEXT.generation = s->generation;
    w.u.LANE_NEXT.batch = s->batch;
    if (s->number == SEAT_NO_LANE)
        w.u.LANE_NEXT.batch = s->host->lanes(s->host->context);

    return wire_encode(&w);
}

void seat_ask(struct seat *s)
{
    seat_move(s, ASKING);
    client_start(s->host->base.client, &s->ask);
}

static void rest_fire(struct env_timer *t)
{
    struct seat *s = container_of(t, struct seat, rest);
    SHOAL_ASSERT(s->state == RESTING);
    seat_ask(s);
}

static void seat_rest(struct seat *s, uint32_t ms)
{
    uint64_t wait = ms;
    if (ms == 0)
        wait = WAIT_MS_DEFAULT;
    else if (ms < WAIT_MS_MIN)
        wait = WAIT_MS_MIN;
    else if (ms > WAIT_MS_MAX)
        wait = WAIT_MS_MAX;

    seat_move(s, RESTING);
    env_timer_start(s->host->base.env, &s->rest, wait * MS);
}

/* Takes a task for a lane and holds the lane, unless another seat holds it (then this is a late
 * copy of an old grant). */
static void seat_take(struct seat *s)
{
    if (s->host->held(s->host->context, s, s->task.lane, s->task.generation)) {
        seat_leave(s);
        return;
    }
    s->number = s->task.lane;
    s->generation = s->task.generation;
    seat_move(s, OPENING);
    s->host->freed(s->host->context); /* another seat may ask now */
    seat_look(s);
}

static enum request_verdict ask_reply(struct request *r, const struct wire *w, const struct msg *m)
{
    struct seat *s = container_of(r, struct seat, ask);
    struct seat_host *host = s->host;
    (void)m;
    SHOAL_ASSERT(s->state == ASKING);
    if (w->status == SHOAL_E_UNAVAILABLE) {
        host->unknown(host->context);
        return REQUEST_DONE;
    }
    if (client_passing(w->status))
        return REQUEST_LATER;
    if (w->status == SHOAL_E_FENCED || w->status == SHOAL_E_OLD_RUN) {
        seat_leave(s);
        return REQUEST_DONE;
    }
    if (w->status != 0) {
        host->fatal(host->context, w->status, w->error);
        return REQUEST_DONE;
    }
    s->task = w->u.LANE_NEXT_reply;
    switch ((enum wire_next)s->task.kind) {
    case WIRE_NEXT_WAIT:
        seat_rest(s, s->task.retry_ms);
        break;
    case WIRE_NEXT_INDEX:
    case WIRE_NEXT_EVAL:
        seat_move(s, OPENING);
        host->freed(host->context);
        seat_look(s);
        break;
    case WIRE_NEXT_TASK:
        seat_take(s);
        break;
    case WIRE_NEXT_LEAVE:
        seat_leave(s);
        break;
    case WIRE_NEXT_END:
        host->end(host->context);
        break;
    default:
        host->fatal(host->context, SHOAL_E_MALFORMED,
                    "the coordinator answers a kind of work that this worker does not know");
    }
    return REQUEST_DONE;
}

/* ---- doing ----------------------------------------------------------------------------------- */

/* True when the seat must prove its input before its first task. Otherwise a worker that joined
 * after a file was replaced would train the job on parts of both versions. Objects are identified
 * by their marks. */
static bool seat_unproved(const struct seat *s)
{
    const struct job *job = s->host->base.job;
    return s->data != NULL && s->task.object == 0 && s->task.split < JOB_SPLITS &&
           !job->data.objects.of[s->task.split].on && !s->host->proved[s->task.split];
}

void seat_work_begin(struct seat *s)
{
    seat_move(s, WORKING);
    lane_start(s->lane, &s->task, s->data);
}

void seat_look(struct seat *s)
{
    struct err e = {0};
    if (s->state != OPENING)
        return;
    bool index = s->task.kind == WIRE_NEXT_INDEX;
    int rc = s->host->ready(s->host->context, &s->task, &s->data, &e);
    if (rc == SHOAL_E_AGAIN)
        return;
    if (index) {
        s->index_status = rc;
        s->index_error = e;
        seat_report(s);
    } else if (rc != 0) {
        /* other workers could read it, so it is missing or damaged only here */
        bool here = rc == SHOAL_E_NOINPUT || rc == SHOAL_E_DATA || rc == SHOAL_E_CHECKSUM;
        if (here && s->task.object == 0)
            s->host->apart(s->host->context, e.text);
        else
            s->host->fatal(s->host->context, rc, e.text);
    } else if (seat_unproved(s)) {
        s->proves = true;
        s->index_status = 0;
        seat_report(s);
    } else {
        seat_work_begin(s);
    }
}

/* on_end of the lane. */
static void seat_worked(void *owner)
{
    struct seat *s = owner;
    const struct lane_result *result = lane_result(s->lane);
    SHOAL_ASSERT(s->state == WORKING || s->state == DROPPING);
    if (s->state == DROPPING) {
        seat_move(s, FREE);
        s->host->freed(s->host->context);
        return;
    }
    switch (result->status) {
    case 0:
        seat_report(s);
        break;
    case SHOAL_E_FENCED:
    case SHOAL_E_OLD_RUN:
        log_info("lane %u generation %" PRIu64 " was taken away: %s", s->number, s->generation,
                 result->text);
        seat_leave(s);
        break;
    /* acknowledged pushes are lost: the worker joins anew and gets the lane from the state that is
     * left */
    case SHOAL_E_GAP:
        log_warn("%s", result->text);
        s->host->unknown(s->host->context);
        break;
    case SHOAL_E_AGAIN:
        s->host->back(s->host->context, result->text);
        break;
    default:
        if (result->broken)
            s->host->broken(s->host->context, result->status, result->text);
        else
            s->host->fatal(s->host->context, result->status, result->text);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

int seat_new(struct seat_host *host, struct seat **out, struct err *e)
{
    struct seat *s = calloc(1, sizeof *s);
    if (s == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a lane's seat");
    s->host = host;
    s->number = SEAT_NO_LANE;
    s->rest.fire = rest_fire;
    s->ask = (struct request){.type = WIRE_TYPE_LANE_NEXT,
                              .target = CLIENT_COORDINATOR,
                              .build = ask_build,
                              .reply = ask_reply};
    seat_report_init(s);
    int rc = lane_new(&host->base, seat_worked, s, &s->lane, e);
    if (rc != 0) {
        free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void seat_begin(struct seat *s)
{
    lane_begin(s->lane);
}

void seat_free(struct seat *s)
{
    if (s == NULL)
        return;
    SHOAL_ASSERT(s->state == FREE);
    env_timer_stop(s->host->base.env, &s->rest);
    lane_free(s->lane);
    free(s);
}

void seat_drop(struct seat *s)
{
    client_cancel(s->host->base.client, &s->ask);
    client_cancel(s->host->base.client, &s->files);
    client_cancel(s->host->base.client, &s->report);
    env_timer_stop(s->host->base.env, &s->rest);
    s->number = SEAT_NO_LANE;
    s->generation = 0;
    s->batch = 0;
    s->proves = false;
    if (s->state == FREE || s->state == DROPPING)
        return;
    if (s->state == WORKING && !lane_idle(s->lane)) {
        seat_move(s, DROPPING);
        lane_drop(s->lane, SHOAL_E_STOPPED);
        return;
    }
    seat_move(s, FREE);
}

bool seat_is_free(const struct seat *s)
{
    return s->state == FREE;
}

bool seat_is_asking(const struct seat *s)
{
    return s->number == SEAT_NO_LANE && (s->state == ASKING || s->state == RESTING);
}

uint32_t seat_lane(const struct seat *s)
{
    return s->number;
}

uint64_t seat_generation(const struct seat *s)
{
    return s->generation;
}

struct lane *seat_work(struct seat *s)
{
    return s->lane;
}
