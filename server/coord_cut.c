/* coord_cut.c: invariants and diagram in coord_cut.h. */
#include "server/coord_cut.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "server/coord_core.h"

#define HOLD_MAX_NS 8000000000ull
#define ATTEMPTS 5u

static void held(void *context, const struct coord_call *call, int status, const char *text);

static void cut_end(struct coord *c, int status, const char *text)
{
    c->cut.state = CUT_IDLE;
    c->cut.done(c, status, text, c->cut.cut);
}

static bool cut_call(struct coord *c, const struct wire *w, uint64_t cut, coord_call_done done)
{
    return coord_call_start(&c->calls, w, NULL, 0, false, COORD_NOBODY, false, cut, NULL, done) != NULL;
}

static void cut_begin(struct coord *c)
{
    struct wire w = {.type = WIRE_TYPE_HOLD};
    uint64_t cut = c->counters.next_cut++;

    if (!coord_put(c, "counters", &c->counters, sizeof c->counters)) /* invariant 1 */
        return;
    c->cut.cut = cut;
    c->cut.state = CUT_HOLDING;
    c->cut.since_ns = env_now_ns(c->env);
    w.u.HOLD.cut = cut;
    if (!cut_call(c, &w, cut, held))
        cut_end(c, SHOAL_E_NOMEM, "no memory to ask for a cut");
}

static void cut_again(struct coord *c, int status, const char *text)
{
    log_warn("cut %llu was not made (%s: %s)", (unsigned long long)c->cut.cut, err_text(status), text);
    coord_call_cancel(&c->calls, WIRE_TYPE_HOLD, c->cut.cut);
    coord_call_cancel(&c->calls, WIRE_TYPE_GO, c->cut.cut);
    coord_cut_drop(c, c->cut.cut); /* invariant 2 */
    if (++c->cut.attempt >= ATTEMPTS)
        cut_end(c, status, text);
    else
        cut_begin(c);
}

static void gone(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord *c = context;

    (void)call;
    SHOAL_ASSERT(c->cut.state == CUT_GOING);
    if (status != 0)
        cut_again(c, status, text);
    else
        cut_end(c, 0, "");
}

static void held(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord *c = context;
    struct wire w = {.type = WIRE_TYPE_GO};

    (void)call;
    SHOAL_ASSERT(c->cut.state == CUT_HOLDING);
    if (status != 0) {
        cut_again(c, status, text);
        return;
    }
    c->cut.state = CUT_GOING;
    w.u.GO.cut = c->cut.cut;
    if (!cut_call(c, &w, c->cut.cut, gone))
        cut_end(c, SHOAL_E_NOMEM, "no memory to complete a cut");
}

static void restored(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord *c = context;

    (void)call;
    SHOAL_ASSERT(c->cut.state == CUT_RESTORING);
    cut_end(c, status, text);
}

void coord_cut_make(struct coord *c, coord_cut_done done)
{
    SHOAL_ASSERT(c->cut.state == CUT_IDLE);
    c->cut.attempt = 0;
    c->cut.done = done;
    cut_begin(c);
}

void coord_cut_restore(struct coord *c, uint64_t cut, uint64_t run, coord_cut_done done)
{
    struct wire w = {.type = WIRE_TYPE_RESTORE};

    SHOAL_ASSERT(c->cut.state == CUT_IDLE);
    c->cut = (struct coord_cut){.state = CUT_RESTORING, .cut = cut, .since_ns = env_now_ns(c->env), .done = done};
    w.u.RESTORE.cut = cut;
    w.u.RESTORE.run = run;
    if (!cut_call(c, &w, cut, restored))
        cut_end(c, SHOAL_E_NOMEM, "no memory to restore a cut");
}

static void dropped(void *context, const struct coord_call *call, int status, const char *text)
{
    (void)context;
    if (status != 0)
        log_warn("cut %llu was not dropped: %s", (unsigned long long)call->owner, text);
}

void coord_cut_drop(struct coord *c, uint64_t cut)
{
    struct wire w = {.type = WIRE_TYPE_CUT_DROP};

    w.u.CUT_DROP.cut = cut;
    (void)cut_call(c, &w, cut, dropped); /* what is left on a disk is dropped with the next one */
}

/* A shard that came back between HOLD and GO no longer holds: the others must not wait for it longer than their own
 * HOLD lasts. */
void coord_cut_tick(struct coord *c)
{
    if (c->cut.state == CUT_HOLDING && env_now_ns(c->env) - c->cut.since_ns > HOLD_MAX_NS)
        cut_again(c, SHOAL_E_TIMEOUT, "not every shard held in time");
}

void coord_cut_cancel(struct coord *c)
{
    coord_call_cancel(&c->calls, WIRE_TYPE_HOLD, UINT64_MAX);
    coord_call_cancel(&c->calls, WIRE_TYPE_GO, UINT64_MAX);
    coord_call_cancel(&c->calls, WIRE_TYPE_RESTORE, UINT64_MAX);
    c->cut.state = CUT_IDLE;
}
