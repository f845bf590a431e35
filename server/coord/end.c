/* end.c: a job ends before its time; what any end leaves behind. */
#include "server/coord/end.h"
#include "proto/base/log.h"
#include "server/coord/from.h"
#include "server/coord/phase.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static void run_dropped(void *context, const struct coord_call *call, int status, const char *text)
{
    (void)context;
    if (status != 0)
        log_warn("run %" PRIu64 " was not dropped: %s", call->owner, text);
}

void coord_end_tidy(struct coord *c)
{
    struct wire w = {.type = WIRE_TYPE_RUN_DROP};
    bool loading = c->job.at.from == FROM_TO_LOAD;
    w.u.RUN_DROP.run = c->job.at.run;
    if (loading) {
        w.type = WIRE_TYPE_LOAD_DROP;
        w.u.LOAD_DROP.run = c->job.at.run;
    }
    (void)coord_call_start(&c->calls, &w, NULL, 0, false, COORD_NOBODY, loading, c->job.at.run,
                           NULL, run_dropped);
    if (c->job.at.best_cut != 0)
        coord_cut_drop(c, c->job.at.best_cut);
}

/* Whoever waits for a lane asks again, and hears that there is no more. */
static void dismiss(struct coord *c)
{
    struct wire w = {.type = WIRE_TYPE_LANE_NEXT, .reply = true};
    w.u.LANE_NEXT_reply = (struct wire_LANE_NEXT_reply){
        .kind = WIRE_NEXT_WAIT, .retry_ms = coord_retry_ms(c), .run = c->job.at.run};
    for (uint32_t l = 0; l < c->job.tasks.lanes; l++) {
        struct coord_lane *lane = &c->job.tasks.lane[l];
        w.id = lane->ask_id;
        if (lane->ask_peer != 0)
            coord_send(c, lane->ask_peer, wire_encode(&w));
        lane->ask_peer = 0;
    }
}

void coord_end_fail(struct coord *c, int status, const char *format, ...)
{
    va_list arguments;
    if (!coord_phase_running(c))
        return;
    c->job.at.status = status;
    va_start(arguments, format);
    (void)vsnprintf(c->job.at.text, sizeof c->job.at.text, format, arguments);
    va_end(arguments);
    uint64_t unfinished = c->cut.state == CUT_HOLDING || c->cut.state == CUT_GOING ? c->cut.cut : 0;
    coord_checkpoint_give_up(c, SHOAL_E_STOPPED, "the job has ended");
    coord_call_cancel_all(&c->calls);
    coord_cut_cancel(c);
    if (unfinished != 0)
        coord_cut_drop(c, unfinished);
    coord_from_let_go(c);
    if (c->job.at.phase >= PHASE_SETUP)
        coord_end_tidy(c);
    coord_call_forget(&c->calls);
    log_error("job %s failed in %s: %s", c->job.spec.name, coord_phase_name(c), c->job.at.text);
    (void)coord_phase_enter(c, PHASE_FAILED);
    dismiss(c);
}
