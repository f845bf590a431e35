/* cut.c: invariants and diagram in cut.h. */
#include "server/coord/cut.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/plant.h"
#include "server/coord/core.h"
#include "server/coord/phase.h"

#include <inttypes.h>

#define HOLD_MAX_NS UINT64_C(8000000000)
/* between attempts: pushes that were held go on, and what was slow may be over */
#define PAUSE_NS UINT64_C(1000000000)
#define ATTEMPTS 5u
/* then the cut brings the records along */
#define AHEAD_MAX_NS UINT64_C(60000000000)

static const char *const names[] = {
    [CUT_IDLE] = "idle",   [CUT_WRITING] = "writing", [CUT_HOLDING] = "holding",
    [CUT_GOING] = "going", [CUT_PAUSED] = "paused",   [CUT_RESTORING] = "restoring"};
static const uint32_t moves[] = {
    [CUT_IDLE] = SM_TO(CUT_WRITING) | SM_TO(CUT_HOLDING) | SM_TO(CUT_RESTORING),
    [CUT_WRITING] = SM_TO(CUT_HOLDING) | SM_TO(CUT_IDLE),
    [CUT_HOLDING] = SM_TO(CUT_GOING) | SM_TO(CUT_PAUSED) | SM_TO(CUT_IDLE),
    [CUT_GOING] = SM_TO(CUT_PAUSED) | SM_TO(CUT_IDLE),
    [CUT_PAUSED] = SM_TO(CUT_WRITING) | SM_TO(CUT_HOLDING) | SM_TO(CUT_IDLE),
    [CUT_RESTORING] = SM_TO(CUT_IDLE),
};
const struct sm coord_cut_moves = SM("a cut", names, moves);

static void held(void *context, const struct coord_call *call, int status, const char *text);

static void waiting_start(struct coord *c)
{
    if (!c->cut.waits || c->cut.state != CUT_IDLE)
        return;
    struct coord_cut_order next = c->cut.waiting;
    c->cut.waits = false;
    coord_cut_order(c, &next);
}

/* `done` is called before the next order begins: that one may end at once, and the job with it. */
static void cut_end(struct coord *c, int status, const char *text)
{
    struct coord_cut_order ended = c->cut.order;
    uint64_t cut = c->cut.cut;
    SHOAL_ASSERT(status != 0 ||
                 c->cut.state == (ended.restore ? CUT_RESTORING : CUT_GOING)); /* 2 */
    sm_move(&coord_cut_moves, &c->cut.state, CUT_IDLE);
    ended.done(c, status, text, cut);
    waiting_start(c);
}

/* What a shard says at HOLD, and again at GO. */
static void sequence_note(void *context, const struct coord_call *call, uint32_t shard,
                          const struct wire *reply, const struct msg *m)
{
    struct coord_cut *cut = &((struct coord *)context)->cut;
    (void)m;
    SHOAL_ASSERT(call->owner == cut->cut && shard < LIMIT_SHARDS);
    if (reply->type == WIRE_TYPE_HOLD)
        cut->sequence[shard] = reply->u.HOLD_reply.sequence;
    else if (reply->type == WIRE_TYPE_GO)
        cut->uneven |= cut->sequence[shard] != reply->u.GO_reply.sequence;
}

static bool cut_call(struct coord *c, const struct wire *w, uint64_t cut, coord_call_done done)
{
    bool makes = w->type == WIRE_TYPE_HOLD || w->type == WIRE_TYPE_GO;
    SHOAL_ASSERT(!makes || cut == c->cut.stored); /* 1 */
    return coord_call_start(
        &c->calls, &(struct coord_call){
                       .request = *w,
                       .target = COORD_NOBODY,
                       .owner = cut,
                       .early = c->cut.order.tables || w->type == WIRE_TYPE_CUT_DROP,
                       .present = w->type == WIRE_TYPE_CUT_DROP && !PLANTED("calls_of_absent"),
                       .on_reply = makes ? sequence_note : NULL,
                       .on_done = done});
}

static void hold_begin(struct coord *c)
{
    struct wire w = {.type = WIRE_TYPE_HOLD};
    sm_move(&coord_cut_moves, &c->cut.state, CUT_HOLDING);
    c->cut.since_ns = env_now_ns(c->env);
    w.u.HOLD.cut = c->cut.cut;
    w.u.HOLD.run = c->cut.order.tables ? 0 : c->job.at.run;
    if (!cut_call(c, &w, c->cut.cut, held))
        cut_end(c, SHOAL_E_NOMEM, "no memory to ask for a cut");
}

/* Whatever it said: HOLD says it again, if it matters. */
static void ahead_done(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord *c = context;
    SHOAL_ASSERT(c->cut.state == CUT_WRITING && call->owner == c->cut.cut);
    if (status != 0)
        log_warn("cut %" PRIu64 ": rows are not written ahead: %s", c->cut.cut, text);
    hold_begin(c);
}

static void ahead_begin(struct coord *c)
{
    struct wire w = {.type = WIRE_TYPE_HOLD};
    sm_move(&coord_cut_moves, &c->cut.state, CUT_WRITING);
    c->cut.since_ns = env_now_ns(c->env);
    w.u.HOLD.cut = c->cut.cut;
    w.u.HOLD.run = c->cut.order.tables ? 0 : c->job.at.run;
    w.u.HOLD.ahead = true;
    if (!cut_call(c, &w, c->cut.cut, ahead_done))
        hold_begin(c);
}

static void cut_begin(struct coord *c)
{
    uint64_t cut = c->counters.next_cut++;
    SHOAL_ASSERT(c->cut.stored == 0 || cut > c->cut.stored); /* 1 */
    SHOAL_ASSERT(!c->cut.order.restore && c->cut.attempt < ATTEMPTS);
    /* Not synced by itself, but before the counters in the same store: a coordinator that dies
     * drops what it was making. */
    if (!coord_note(c, "cut", &cut, sizeof cut) ||
        !coord_put(c, "counters", &c->counters, sizeof c->counters))
        return;
    c->cut.cut = c->cut.stored = cut;
    c->cut.uneven = false;
    if (c->cut.order.lean)
        ahead_begin(c);
    else
        hold_begin(c);
}

static void cut_again(struct coord *c, int status, const char *text)
{
    SHOAL_ASSERT(c->cut.state == CUT_HOLDING || c->cut.state == CUT_GOING);
    SHOAL_ASSERT(status != 0 && c->cut.attempt < ATTEMPTS && c->cut.cut == c->cut.stored);
    log_warn("cut %" PRIu64 " was not made (%s: %s)", c->cut.cut, err_text(status), text);
    coord_call_cancel(&c->calls, WIRE_TYPE_HOLD, c->cut.cut);
    coord_call_cancel(&c->calls, WIRE_TYPE_GO, c->cut.cut);
    coord_cut_drop(c, c->cut.cut);
    bool waits = c->cut.order.patient && coord_server_away(c) != NULL;
    if ((!waits && ++c->cut.attempt >= ATTEMPTS) || status == SHOAL_E_NO_SPACE) {
        /* room does not come back in a moment */
        cut_end(c, status, text);
    } else {
        sm_move(&coord_cut_moves, &c->cut.state, CUT_PAUSED);
        c->cut.since_ns = env_now_ns(c->env);
    }
}

static void gone(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord *c = context;
    SHOAL_ASSERT(c->cut.state == CUT_GOING && call->owner == c->cut.cut);
    SHOAL_ASSERT(status != 0 || call->missing == 0); /* 2 */
    if (status != 0)
        cut_again(c, status, text);
    else if (c->cut.uneven)
        cut_again(c, SHOAL_E_AGAIN, "a shard let go before the cut was complete");
    else
        cut_end(c, 0, "");
}

static void held(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord *c = context;
    struct wire w = {.type = WIRE_TYPE_GO};
    SHOAL_ASSERT(c->cut.state == CUT_HOLDING && call->owner == c->cut.cut);
    SHOAL_ASSERT(status != 0 || call->missing == 0); /* 3 */
    if (status != 0) {
        cut_again(c, status, text);
        return;
    }
    struct err e = {0};
    status = c->cut.order.held != NULL ? c->cut.order.held(c, &e) : 0;
    SHOAL_ASSERT(c->cut.state == CUT_HOLDING); /* 3 */
    if (status != 0) {
        coord_cut_drop(c, c->cut.cut);
        cut_end(c, status, e.text);
        return;
    }
    sm_move(&coord_cut_moves, &c->cut.state, CUT_GOING);
    w.u.GO.cut = c->cut.cut;
    if (!cut_call(c, &w, c->cut.cut, gone))
        cut_end(c, SHOAL_E_NOMEM, "no memory to complete a cut");
}

static void restored(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord *c = context;
    SHOAL_ASSERT(c->cut.state == CUT_RESTORING && call->owner == c->cut.cut);
    SHOAL_ASSERT(status != 0 || call->missing == 0);
    cut_end(c, status, text);
}

static void restore_call(struct coord *c, bool look, coord_call_done done)
{
    struct wire w = {.type = WIRE_TYPE_RESTORE};
    SHOAL_ASSERT(c->cut.state == CUT_RESTORING && c->cut.order.restore);
    w.u.RESTORE = (struct wire_RESTORE){.cut = c->cut.cut, .run = c->cut.order.run, .look = look};
    if (!cut_call(c, &w, c->cut.cut, done))
        cut_end(c, SHOAL_E_NOMEM, "no memory to restore a cut");
}

static void looked(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord *c = context;
    SHOAL_ASSERT(c->cut.state == CUT_RESTORING && call->owner == c->cut.cut);
    SHOAL_ASSERT(status != 0 || call->missing == 0); /* 4 */
    if (status != 0)
        cut_end(c, status, text);
    else
        restore_call(c, false, restored);
}

static void restore_begin(struct coord *c)
{
    SHOAL_ASSERT(c->cut.order.restore);
    sm_move(&coord_cut_moves, &c->cut.state, CUT_RESTORING);
    c->cut.cut = c->cut.order.cut;
    c->cut.since_ns = env_now_ns(c->env);
    if (PLANTED("restore_unlooked"))
        restore_call(c, false, restored);
    else
        restore_call(c, true, looked);
}

void coord_cut_order(struct coord *c, const struct coord_cut_order *order)
{
    SHOAL_ASSERT(order->hold_max_ns <= HOLD_MAX_NS); /* HOLD itself lasts no longer */
    SHOAL_ASSERT(!order->restore || order->run < c->counters.next_run);
    if (c->cut.state != CUT_IDLE) {
        SHOAL_ASSERT(!c->cut.waits); /* best epochs and checkpoints each give one order at a time */
        c->cut.waiting = *order;
        c->cut.waits = true;
        return;
    }
    c->cut.order = *order;
    c->cut.attempt = 0;
    if (order->restore)
        restore_begin(c);
    else
        cut_begin(c);
}

static void dropped(void *context, const struct coord_call *call, int status, const char *text)
{
    (void)context;
    if (status != 0)
        log_warn("cut %" PRIu64 " was not dropped: %s", call->owner, text);
}

void coord_cut_drop(struct coord *c, uint64_t cut)
{
    struct wire w = {.type = WIRE_TYPE_CUT_DROP};
    w.u.CUT_DROP.cut = cut;
    (void)cut_call(c, &w, cut, dropped); /* what is left on a disk is dropped with the next one */
}

uint64_t coord_cut_known(const struct coord *c, uint64_t *keep)
{
    uint64_t below = c->counters.next_cut, exported = coord_checkpoint_cut(c);
    SHOAL_ASSERT(exported == 0 || exported < below);
    *keep = coord_phase_running(c) ? c->job.at.best_cut : 0;
    if ((c->cut.state == CUT_WRITING || c->cut.state == CUT_HOLDING || c->cut.state == CUT_GOING) &&
        c->cut.cut < below)
        below = c->cut.cut;
    return exported != 0 && exported < below ? exported : below;
}

/* A shard that came back between HOLD and GO no longer holds: the others must not wait for it
 * longer than their own HOLD lasts. */
void coord_cut_tick(struct coord *c)
{
    SHOAL_ASSERT(c->cut.state == CUT_IDLE || c->cut.attempt < ATTEMPTS);
    uint64_t most = c->cut.order.hold_max_ns != 0 ? c->cut.order.hold_max_ns : HOLD_MAX_NS;
    if (c->cut.state == CUT_WRITING && env_now_ns(c->env) - c->cut.since_ns > AHEAD_MAX_NS) {
        coord_call_cancel(&c->calls, WIRE_TYPE_HOLD, c->cut.cut);
        hold_begin(c);
    } else if (c->cut.state == CUT_HOLDING && env_now_ns(c->env) - c->cut.since_ns > most)
        cut_again(c, SHOAL_E_TIMEOUT, "not every shard held in time");
    else if (c->cut.state == CUT_PAUSED && env_now_ns(c->env) - c->cut.since_ns > PAUSE_NS &&
             (!c->cut.order.patient || coord_server_away(c) == NULL))
        cut_begin(c);
}

static void calls_cancel(struct coord *c)
{
    coord_call_cancel(&c->calls, WIRE_TYPE_HOLD, UINT64_MAX);
    coord_call_cancel(&c->calls, WIRE_TYPE_GO, UINT64_MAX);
    coord_call_cancel(&c->calls, WIRE_TYPE_RESTORE, UINT64_MAX);
    if (c->cut.state != CUT_IDLE)
        sm_move(&coord_cut_moves, &c->cut.state, CUT_IDLE);
}

void coord_cut_withdraw(struct coord *c, coord_cut_done done)
{
    if (c->cut.waits && c->cut.waiting.done == done)
        c->cut.waits = false;
    if (c->cut.state == CUT_IDLE || c->cut.order.done != done)
        return;
    bool made = !c->cut.order.restore && c->cut.state != CUT_PAUSED;
    SHOAL_ASSERT(!made || c->cut.cut == c->cut.stored);
    calls_cancel(c);
    if (made)
        coord_cut_drop(c, c->cut.cut);
    waiting_start(c);
}

void coord_cut_cancel(struct coord *c)
{
    calls_cancel(c);
    c->cut.waits = false;
}

int coord_cut_open(struct coord *c, uint64_t kept, struct err *e)
{
    uint64_t cut;
    SHOAL_ASSERT(c->cut.state == CUT_IDLE && c->cut.stored == 0); /* else its own were dropped */
    int rc = coord_store_get_fixed(c->store, "cut", &cut, sizeof cut, e);
    if (rc == SHOAL_E_CORRUPT) /* shards drop what is not kept as they register */
        log_warn("which cut was being made is not known any more: %s", e->text);
    if (rc != 0)
        return rc == SHOAL_E_NOT_FOUND || rc == SHOAL_E_CORRUPT ? 0 : rc;
    if (cut != kept)
        coord_cut_drop(c, cut);
    return 0;
}
