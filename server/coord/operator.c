/* operator.c: the handlers of operator.h. */
#include "server/coord/operator.h"

#include "proto/base/assert.h"
#include "proto/base/text.h"
#include "server/coord/core/phase.h"
#include "server/coord/dispatch.h"
#include "server/coord/fleet/import.h"
#include "server/coord/job/aside.h"
#include "server/coord/job/look.h"
#include "server/coord/job/replace.h"
#include "server/coord/job/report.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/status.h"
#include "server/coord/job/stop.h"
#include "server/coord/job/submit.h"
#include "server/coord/job/turns.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/checkpoint_remove.h"
#include "server/coord/keep/cut.h"
#include "server/coord/keep/home.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_NS UINT64_C(200000000)

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
        coord_dispatch(c, l->asker, env_who(c->fleet.env, l->asker), &l->request, m);
    msg_free(m);
    coord_look_end(c);
}

int coord_operator_submit(struct coord *c, struct coord_ask *a)
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
        coord_dispatch(c, was->asker, &was->who, &was->request, m);
    msg_free(m);
    coord_checkpoint_remove_end(j, rc);
}

int coord_operator_remove(struct coord *c, struct coord_ask *a)
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
        coord_dispatch(c, was->asker, &was->who, &was->request, m);
    msg_free(m);
    coord_replace_end(c, rc);
}

/* Returns the job that may go back to a cut of which a shard of the server has a part; NULL: none.
 * */
const struct coord_job *coord_operator_needs(struct coord *c, const char *server)
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
        needs = coord_operator_needs(c, order->server);
    if (needs != NULL)
        (void)err_set(&e, SHOAL_E_BUSY,
                      "job %s may go back to its best epoch, of which server %s has a part: start "
                      "the server again, or stop the job",
                      needs->spec.name, order->server);
    return e;
}

int coord_operator_moves(struct coord *c, struct coord_ask *a)
{
    const struct err busy = moves_busy(c, &a->request->u.MOVES);
    return coord_moves_order(&c->fleet, a, &busy);
}

int coord_operator_replace(struct coord *c, struct coord_ask *a)
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

int coord_operator_status(struct coord *c, struct coord_ask *a)
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

int coord_operator_stop(struct coord *c, struct coord_ask *a)
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

int coord_operator_drop(struct coord *c, struct coord_ask *a)
{
    return coord_drop_request(&c->fleet, a, coord_aside_used, c);
}

/* Rows of a table that a job trains would get gradients of other rows (embedding/engine/assign.c,
 * 4): the shards refuse them, too. */
int coord_operator_import(struct coord *c, struct coord_ask *a)
{
    const struct wire_IMPORT *w = &a->request->u.IMPORT;
    if (w->number >= LIMIT_TABLES)
        return err_set(&a->e, SHOAL_E_MALFORMED, "there is no table number %u", w->number);
    COORD_EACH_JOB (c, j)
        if (!w->done && !w->asks && coord_phase_running(j) &&
            table_set_has(&j->space->numbers, w->number))
            return err_set(&a->e, SHOAL_E_BUSY,
                           "job %s trains in table %s: wait for its end or stop it first (shoal "
                           "stop)",
                           j->spec.name, w->table);
    a->reply.u.IMPORT_reply.map_epoch = c->fleet.cluster.map_epoch;
    if (w->done || w->asks)
        return coord_import_done(&c->fleet, w, &a->e);
    return coord_import_begin(&c->fleet, w, &a->e);
}

int coord_operator_jobs(struct coord *c, struct coord_ask *a)
{
    return coord_jobs_ask(c->slot, c->slots, a);
}
