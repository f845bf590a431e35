/* cut.c: the states of a cut; cut.h has the invariants and the diagram. */
#include "server/coord/keep/cut.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/core/phase.h"
#include "server/coord/core/setup_state.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/work/ring_job.h"

#include <inttypes.h>
#include <string.h>

#define HOLD_MAX_NS UINT64_C(8000000000)
/* pause between attempts: the held pushes go on, and a slow shard may have recovered */
#define PAUSE_NS UINT64_C(1000000000)
#define ATTEMPTS 5u
/* the longest writing ahead; after it the cut takes the records along */
#define AHEAD_MAX_NS UINT64_C(60000000000)
/* the longest wait for a ring to rest: a worker may have died, and the ring gathers meanwhile */
#define REST_MAX_NS UINT64_C(60000000000)

static const char *const names[] = {
    [CUT_IDLE] = "idle",       [CUT_WRITING] = "writing",     [CUT_HOLDING] = "holding",
    [CUT_GOING] = "going",     [CUT_PAUSED] = "paused",       [CUT_RETURNING] = "returning",
    [CUT_OPENING] = "opening", [CUT_RESTORING] = "restoring", [CUT_RESTING] = "resting",
    [CUT_QUEUED] = "queued"};
static const uint32_t moves[] = {
    [CUT_IDLE] = SM_TO(CUT_WRITING) | SM_TO(CUT_RESTING) | SM_TO(CUT_QUEUED) | SM_TO(CUT_HOLDING) |
                 SM_TO(CUT_RETURNING),
    [CUT_WRITING] = SM_TO(CUT_RESTING) | SM_TO(CUT_QUEUED) | SM_TO(CUT_HOLDING) | SM_TO(CUT_IDLE),
    [CUT_RESTING] = SM_TO(CUT_QUEUED) | SM_TO(CUT_HOLDING) | SM_TO(CUT_PAUSED) | SM_TO(CUT_IDLE),
    [CUT_QUEUED] = SM_TO(CUT_RESTING) | SM_TO(CUT_HOLDING) | SM_TO(CUT_IDLE),
    [CUT_HOLDING] = SM_TO(CUT_GOING) | SM_TO(CUT_PAUSED) | SM_TO(CUT_IDLE),
    [CUT_GOING] = SM_TO(CUT_PAUSED) | SM_TO(CUT_IDLE),
    [CUT_PAUSED] = SM_TO(CUT_WRITING) | SM_TO(CUT_RESTING) | SM_TO(CUT_QUEUED) |
                   SM_TO(CUT_HOLDING) | SM_TO(CUT_IDLE),
    [CUT_RETURNING] = SM_TO(CUT_RESTORING) | SM_TO(CUT_IDLE),
    [CUT_RESTORING] = SM_TO(CUT_OPENING) | SM_TO(CUT_IDLE),
    [CUT_OPENING] = SM_TO(CUT_IDLE),
};
const struct sm coord_cut_moves = SM("a cut", names, moves);

static void held(void *context, const struct coord_call *call, int status, const char *text);

/* The job stands in the line, unless it does already. True: it is the first. */
static bool line_enter(struct coord_job *j)
{
    struct coord_hold_line *l = j->fleet->hold_line;
    uint32_t at = 0;
    while (at < l->count && l->job[at] != j)
        at++;
    SHOAL_ASSERT(at < COORD_HOLD_LINE); /* as many as there are slots */
    l->job[at] = j;
    l->count = MAX(l->count, at + 1);
    return at == 0;
}

static void line_leave(struct coord_job *j)
{
    struct coord_hold_line *l = j->fleet->hold_line;
    uint32_t left = 0;
    for (uint32_t i = 0; i < l->count; i++)
        if (l->job[i] != j)
            l->job[left++] = l->job[i];
    l->count = left;
}

static void waiting_start(struct coord_job *j)
{
    if (!j->cut->waits || j->cut->state != CUT_IDLE)
        return;
    struct coord_cut_order next = j->cut->waiting;
    j->cut->waits = false;
    coord_cut_order(j, &next);
}

/* Ends the order. `done` is called before the next order begins, because that one may end at once,
 * and the job with it. */
static void cut_end(struct coord_job *j, int status, const char *text)
{
    struct coord_cut_order ended = j->cut->order;
    uint64_t cut = j->cut->cut;
    SHOAL_ASSERT(status != 0 || j->cut->state == (ended.restore ? CUT_OPENING : CUT_GOING)); /* 2 */
    sm_move(&coord_cut_moves, &j->cut->state, CUT_IDLE);
    line_leave(j);
    coord_ring_go(j, RING_FOR_CUT);
    ended.done(j, status, text, cut);
    waiting_start(j);
}

/* Notes the sequence that a shard reports at HOLD, and compares it with the one at GO. */
static void sequence_note(void *context, const struct coord_call *call, uint32_t shard,
                          const struct wire *reply, const struct msg *m)
{
    struct coord_cut *cut = ((struct coord_job *)context)->cut;
    (void)m;
    SHOAL_ASSERT(call->owner == cut->cut && shard < LIMIT_SHARDS);
    if (reply->type == WIRE_TYPE_HOLD)
        cut->sequence[shard] = reply->u.HOLD_reply.sequence;
    else if (reply->type == WIRE_TYPE_GO)
        cut->uneven |= cut->sequence[shard] != reply->u.GO_reply.sequence;
}

static bool cut_call(struct coord_job *j, const struct wire *w, uint64_t cut, coord_call_done done)
{
    bool any = j->cut->order.tables || w->type == WIRE_TYPE_CUT_DROP;
    bool makes = w->type == WIRE_TYPE_HOLD || w->type == WIRE_TYPE_GO;
    SHOAL_ASSERT(!makes || cut == j->cut->stored); /* 1 */
    struct coord_call call = {.context = j,
                              .request = *w,
                              .target = COORD_NOBODY,
                              .owner = cut,
                              .set_up = any ? NULL : &j->setup,
                              .present = w->type == WIRE_TYPE_CUT_DROP,
                              .on_reply = makes ? sequence_note : NULL,
                              .on_done = done};
    if (makes)
        memcpy(call.answered, j->cut->order.without, sizeof call.answered);
    COORD_EACH_SHARD (&j->fleet->members, s)
        if (w->type == WIRE_TYPE_RESTORE && !coord_home_has(j, s))
            call.answered[s / 8] |= (uint8_t)(1u << (s % 8));
    return coord_call_start(&j->fleet->calls, &call);
}

static void hold_fill(const struct coord_job *j, struct wire_HOLD *w)
{
    if (j->cut->order.tables)
        *w = (struct wire_HOLD){.cut = j->cut->cut, WIRE_TABLES_IS(j->space->numbers)};
    else
        *w = (struct wire_HOLD){.cut = j->cut->cut, .run = j->at.run};
}

static void hold_begin(struct coord_job *j)
{
    struct wire w = {.type = WIRE_TYPE_HOLD};
    if (!line_enter(j)) {
        if (j->cut->state != CUT_QUEUED)
            sm_move(&coord_cut_moves, &j->cut->state, CUT_QUEUED);
        return;
    }
    SHOAL_ASSERT(j->fleet->hold_line->job[0] == j); /* 5 */
    sm_move(&coord_cut_moves, &j->cut->state, CUT_HOLDING);
    j->cut->since_ns = env_now_ns(j->fleet->env);
    hold_fill(j, &w.u.HOLD);
    if (!cut_call(j, &w, j->cut->cut, held))
        cut_end(j, SHOAL_E_NOMEM, "no memory to ask for a cut");
}

/* True while the shards load a checkpoint for another job. */
static bool others_load(const struct coord_job *j)
{
    COORD_EACH_SPACE (j->fleet, s)
        if (s != j->space && j->fleet->spaces.use(j->fleet, s).loads)
            return true;
    return false;
}

/* Pushes are held as soon as the network is in the tables, and no load is in the way. */
static void rest_begin(struct coord_job *j)
{
    if (others_load(j)) { /* 6 */
        if (j->cut->state == CUT_QUEUED)
            return;
        log_info("cut %" PRIu64 " waits until the checkpoint of another job is loaded",
                 j->cut->cut);
        sm_move(&coord_cut_moves, &j->cut->state, CUT_QUEUED);
        return;
    }
    if (j->cut->order.tables || coord_ring_rest(j, RING_FOR_CUT)) {
        hold_begin(j);
        return;
    }
    sm_move(&coord_cut_moves, &j->cut->state, CUT_RESTING);
    j->cut->since_ns = env_now_ns(j->fleet->env);
}

/* Writing ahead has ended. A failure is only logged: if it matters, HOLD reports it again. */
static void ahead_done(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_job *j = context;
    SHOAL_ASSERT(j->cut->state == CUT_WRITING && call->owner == j->cut->cut);
    if (status != 0)
        log_warn("cut %" PRIu64 ": rows are not written ahead: %s", j->cut->cut, text);
    rest_begin(j);
}

static void ahead_begin(struct coord_job *j)
{
    struct wire w = {.type = WIRE_TYPE_HOLD};
    sm_move(&coord_cut_moves, &j->cut->state, CUT_WRITING);
    j->cut->since_ns = env_now_ns(j->fleet->env);
    hold_fill(j, &w.u.HOLD);
    w.u.HOLD.ahead = true;
    if (!cut_call(j, &w, j->cut->cut, ahead_done))
        rest_begin(j);
}

static void cut_begin(struct coord_job *j)
{
    uint64_t cut = j->fleet->counters.next_cut++;
    SHOAL_ASSERT(j->cut->stored == 0 || cut > j->cut->stored); /* 1 */
    SHOAL_ASSERT(!j->cut->order.restore && j->cut->attempt < ATTEMPTS);
    /* The note is not synced by itself, but it precedes the counters in the same store: a
     * coordinator that dies drops the cut that it was making. */
    if (!coord_job_note(j, "cut", &cut, sizeof cut) ||
        !coord_put(j->fleet, "counters", &j->fleet->counters, sizeof j->fleet->counters))
        return;
    j->cut->cut = j->cut->stored = cut;
    j->cut->uneven = false;
    if (j->cut->order.lean)
        ahead_begin(j);
    else
        rest_begin(j);
}

static void cut_again(struct coord_job *j, int status, const char *text)
{
    SHOAL_ASSERT(j->cut->state == CUT_RESTING || j->cut->state == CUT_HOLDING ||
                 j->cut->state == CUT_GOING);
    SHOAL_ASSERT(status != 0 && j->cut->attempt < ATTEMPTS && j->cut->cut == j->cut->stored);
    log_warn("cut %" PRIu64 " was not made (%s: %s)", j->cut->cut, err_text(status), text);
    coord_call_cancel(&j->fleet->calls, j, WIRE_TYPE_HOLD, j->cut->cut);
    coord_call_cancel(&j->fleet->calls, j, WIRE_TYPE_GO, j->cut->cut);
    coord_cut_drop(j, j->cut->cut);
    line_leave(j);
    bool waits = j->cut->order.patient && coord_server_away(j) != NULL;
    if ((!waits && ++j->cut->attempt >= ATTEMPTS) || status == SHOAL_E_NO_SPACE) {
        /* free disk space does not come back within a moment */
        cut_end(j, status, text);
    } else {
        sm_move(&coord_cut_moves, &j->cut->state, CUT_PAUSED);
        coord_ring_go(j, RING_FOR_CUT);
        j->cut->since_ns = env_now_ns(j->fleet->env);
    }
}

static void gone(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_job *j = context;
    SHOAL_ASSERT(j->cut->state == CUT_GOING && call->owner == j->cut->cut);
    SHOAL_ASSERT(status != 0 || call->missing == 0); /* 2 */
    if (status != 0)
        cut_again(j, status, text);
    else if (j->cut->uneven)
        cut_again(j, SHOAL_E_AGAIN, "a shard let go before the cut was complete");
    else
        cut_end(j, 0, "");
}

static void held(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_job *j = context;
    struct wire w = {.type = WIRE_TYPE_GO};
    SHOAL_ASSERT(j->cut->state == CUT_HOLDING && call->owner == j->cut->cut);
    SHOAL_ASSERT(status != 0 || call->missing == 0); /* 3 */
    if (status != 0) {
        cut_again(j, status, text);
        return;
    }
    struct err e = {0};
    if (j->cut->order.held != NULL)
        status = j->cut->order.held(j, &e);
    SHOAL_ASSERT(j->cut->state == CUT_HOLDING); /* 3 */
    if (status != 0) {
        coord_cut_drop(j, j->cut->cut);
        cut_end(j, status, e.text);
        return;
    }
    sm_move(&coord_cut_moves, &j->cut->state, CUT_GOING);
    w.u.GO.cut = j->cut->cut;
    if (!cut_call(j, &w, j->cut->cut, gone))
        cut_end(j, SHOAL_E_NOMEM, "no memory to complete a cut");
}

/* Every shard has the new run and no former one: a shard without a part of the cut by its setup and
 * CUT_KEEP. */
static void opening_step(struct coord_job *j)
{
    if (coord_setup_all(j) && coord_setup_greeted(j))
        cut_end(j, 0, "");
}

static void restored(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_job *j = context;
    SHOAL_ASSERT(j->cut->state == CUT_RESTORING && call->owner == j->cut->cut);
    SHOAL_ASSERT(status != 0 || call->missing == 0);
    if (status != 0) {
        cut_end(j, status, text);
        return;
    }
    sm_move(&coord_cut_moves, &j->cut->state, CUT_OPENING);
    opening_step(j);
}

static void restore_call(struct coord_job *j, bool look, coord_call_done done)
{
    struct wire w = {.type = WIRE_TYPE_RESTORE};
    SHOAL_ASSERT(j->cut->state == CUT_RESTORING && j->cut->order.restore);
    w.u.RESTORE = (struct wire_RESTORE){.cut = j->cut->cut, .run = j->cut->order.run, .look = look};
    if (!cut_call(j, &w, j->cut->cut, done))
        cut_end(j, SHOAL_E_NOMEM, "no memory to restore a cut");
}

static void looked(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_job *j = context;
    SHOAL_ASSERT(j->cut->state == CUT_RESTORING && call->owner == j->cut->cut);
    SHOAL_ASSERT(status != 0 || call->missing == 0); /* 4 */
    if (status != 0)
        cut_end(j, status, text);
    else
        restore_call(j, false, restored);
}

/* The tablets that have moved since the cut are back: the restore begins. */
static void returning_step(struct coord_job *j)
{
    SHOAL_ASSERT(j->cut->state == CUT_RETURNING);
    if (!coord_home_reached(j))
        return;
    sm_move(&coord_cut_moves, &j->cut->state, CUT_RESTORING);
    j->cut->since_ns = env_now_ns(j->fleet->env);
    restore_call(j, true, looked);
}

static void restore_begin(struct coord_job *j)
{
    SHOAL_ASSERT(j->cut->order.restore);
    sm_move(&coord_cut_moves, &j->cut->state, CUT_RETURNING);
    j->cut->cut = j->cut->order.cut;
    COORD_EACH_SHARD (&j->fleet->members, s)
        if (!coord_home_has(j, s))
            coord_setup_again(j, s);
    if (!coord_home_reached(j))
        log_info("job %s goes back: its tablets go first to the shards that led them at the cut",
                 j->spec.name);
    returning_step(j);
}

void coord_cut_order(struct coord_job *j, const struct coord_cut_order *order)
{
    SHOAL_ASSERT(order->hold_max_ns <= HOLD_MAX_NS); /* HOLD itself lasts no longer */
    SHOAL_ASSERT(!order->restore || order->run < j->fleet->counters.next_run);
    if (j->cut->state != CUT_IDLE) {
        SHOAL_ASSERT(
            !j->cut->waits); /* best epochs and checkpoints each give one order at a time */
        j->cut->waiting = *order;
        j->cut->waits = true;
        return;
    }
    j->cut->order = *order;
    j->cut->attempt = 0;
    if (order->restore)
        restore_begin(j);
    else
        cut_begin(j);
}

static void dropped(void *context, const struct coord_call *call, int status, const char *text)
{
    (void)context;
    if (status != 0)
        log_warn("cut %" PRIu64 " was not dropped: %s", call->owner, text);
}

void coord_cut_drop(struct coord_job *j, uint64_t cut)
{
    struct wire w = {.type = WIRE_TYPE_CUT_DROP};
    w.u.CUT_DROP.cut = cut;
    (void)cut_call(j, &w, cut, dropped); /* the next cut drops what remains on a disk */
}

uint64_t coord_cut_known(const struct coord_job *j, uint64_t *keep)
{
    uint64_t below = j->fleet->counters.next_cut, exported = coord_checkpoint_cut(j);
    SHOAL_ASSERT(exported == 0 || exported < below);
    *keep = 0;
    if (coord_phase_running(j))
        *keep = j->at.best_cut;
    if ((j->cut->state == CUT_WRITING || j->cut->state == CUT_RESTING ||
         j->cut->state == CUT_QUEUED || j->cut->state == CUT_HOLDING ||
         j->cut->state == CUT_GOING) &&
        j->cut->cut < below)
        below = j->cut->cut;
    if (exported == 0)
        return below;
    return MIN(exported, below);
}

static void resting_step(struct coord_job *j)
{
    char why[ERR_TEXT_MAX];
    if (coord_ring_rest(j, RING_FOR_CUT))
        hold_begin(j);
    else if (coord_ring_alone(j, why, sizeof why)) {
        coord_cut_drop(j, j->cut->cut);
        cut_end(j, SHOAL_E_UNAVAILABLE, why);
    } else if (env_now_ns(j->fleet->env) - j->cut->since_ns > REST_MAX_NS)
        cut_again(j, SHOAL_E_TIMEOUT,
                  "the workers, which keep the network, did not rest after one step in time");
}

/* Makes the cut again after hold_max_ns. A shard that came back between HOLD and GO does not hold
 * any more, and the others must not wait for it longer than their own HOLD lasts. */
void coord_cut_tick(struct coord_job *j)
{
    SHOAL_ASSERT(j->cut->state == CUT_IDLE || j->cut->attempt < ATTEMPTS);
    uint64_t most = j->cut->order.hold_max_ns != 0 ? j->cut->order.hold_max_ns : HOLD_MAX_NS;
    if (j->cut->state == CUT_WRITING &&
        env_now_ns(j->fleet->env) - j->cut->since_ns > AHEAD_MAX_NS) {
        coord_call_cancel(&j->fleet->calls, j, WIRE_TYPE_HOLD, j->cut->cut);
        rest_begin(j);
    } else if (j->cut->state == CUT_RESTING)
        resting_step(j);
    else if (j->cut->state == CUT_QUEUED)
        rest_begin(j);
    else if (j->cut->state == CUT_HOLDING && env_now_ns(j->fleet->env) - j->cut->since_ns > most)
        cut_again(j, SHOAL_E_TIMEOUT, "not every shard held in time");
    else if (j->cut->state == CUT_PAUSED &&
             env_now_ns(j->fleet->env) - j->cut->since_ns > PAUSE_NS &&
             (!j->cut->order.patient || coord_server_away(j) == NULL))
        cut_begin(j);
    else if (j->cut->state == CUT_RETURNING)
        returning_step(j);
    else if (j->cut->state == CUT_OPENING)
        opening_step(j);
}

static void calls_cancel(struct coord_job *j)
{
    coord_call_cancel(&j->fleet->calls, j, WIRE_TYPE_HOLD, UINT64_MAX);
    coord_call_cancel(&j->fleet->calls, j, WIRE_TYPE_GO, UINT64_MAX);
    coord_call_cancel(&j->fleet->calls, j, WIRE_TYPE_RESTORE, UINT64_MAX);
    if (j->cut->state != CUT_IDLE)
        sm_move(&coord_cut_moves, &j->cut->state, CUT_IDLE);
    line_leave(j);
    coord_ring_go(j, RING_FOR_CUT);
}

void coord_cut_withdraw(struct coord_job *j, coord_cut_done done)
{
    if (j->cut->waits && j->cut->waiting.done == done)
        j->cut->waits = false;
    if (j->cut->state == CUT_IDLE || j->cut->order.done != done)
        return;
    bool made = !j->cut->order.restore && j->cut->state != CUT_PAUSED;
    SHOAL_ASSERT(!made || j->cut->cut == j->cut->stored);
    calls_cancel(j);
    if (made)
        coord_cut_drop(j, j->cut->cut);
    waiting_start(j);
}

void coord_cut_cancel(struct coord_job *j)
{
    calls_cancel(j);
    j->cut->waits = false;
}

int coord_cut_open(struct coord_job *j, uint64_t kept, struct err *e)
{
    uint64_t cut;
    /* else its own cuts were dropped */
    SHOAL_ASSERT(j->cut->state == CUT_IDLE && j->cut->stored == 0);
    int rc = coord_store_get_fixed(j->store, "cut", &cut, sizeof cut, e);
    if (rc == SHOAL_E_CORRUPT) /* shards drop other cuts when they register */
        log_warn("which cut was being made is not known any more: %s", e->text);
    if (rc == SHOAL_E_NOT_FOUND || rc == SHOAL_E_CORRUPT)
        return 0;
    if (rc != 0)
        return rc;
    if (cut != kept)
        coord_cut_drop(j, cut);
    return 0;
}

void coord_cut_run_dropped(void *context, const struct coord_call *call, int status,
                           const char *text)
{
    (void)context;
    if (status != 0)
        log_warn("run %" PRIu64 " was not dropped: %s", call->owner, text);
}

void coord_cut_run_drop(struct coord_job *j)
{
    struct wire w = {.type = WIRE_TYPE_RUN_DROP};
    bool loading = coord_from_loading(&j->at);
    w.u.RUN_DROP.run = j->at.run;
    if (loading) {
        w.type = WIRE_TYPE_ROWS_GO;
        w.u.ROWS_GO = (struct wire_ROWS_GO){
            .run = j->at.run, WIRE_TABLES_IS(j->space->numbers), .what = WIRE_ROWS_LOADED};
    }
    (void)coord_call_start(&j->fleet->calls,
                           &(struct coord_call){.context = j,
                                                .request = w,
                                                .target = COORD_NOBODY,
                                                .set_up = loading ? NULL : &j->setup,
                                                .owner = j->at.run,
                                                .on_done = coord_cut_run_dropped});
    for (uint32_t i = 0; i < LIMIT_SHARDS; i++)
        if (!j->setup.shard[i].done)
            j->setup.shard[i].greeted = false; /* the greeting drops the run (setup.c) */
    if (j->at.best_cut != 0)
        coord_cut_drop(j, j->at.best_cut);
}
