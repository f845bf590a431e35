/* turns.c: jobs that wait begin one after the other; turns.h. */
#include "server/coord/job/turns.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "server/coord/core/phase.h"
#include "server/coord/figures/queue.h"
#include "server/coord/job/look.h"
#include "server/coord/job/report.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/submit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define AGAIN_NS UINT64_C(1000000000)

/* ---- taking ---------------------------------------------------------------------------------- */

bool coord_turns_wait(const struct coord *c)
{
    bool free = false;
    for (uint32_t i = 0; i < c->slots; i++)
        free = free || !coord_phase_running(&c->slot[i]);
    return !free || c->fleet.queue->count > 0;
}

int coord_turns_take(struct coord *c, const struct coord_ask *a, const struct coord_submit *submit,
                     uint64_t *number, char said[ERR_TEXT_MAX], struct err *e)
{
    struct coord_queue *q = c->fleet.queue;
    struct coord_queue_head head = {
        .wall_s = env_wall_s(c->fleet.env), .workers = submit->workers, .start = submit->start};
    struct job spec;
    text_copy(head.from, sizeof head.from, submit->from);
    text_copy(head.by, sizeof head.by, a->who.name);
    uint32_t at = coord_queue_again(q, &head, submit->yaml, submit->bytes, a->from);
    int rc = 0;
    if (at == q->count) {
        rc = job_parse(submit->yaml, submit->bytes, "job", NULL, &spec, e);
        if (rc != 0)
            return rc;
        text_copy(head.job, sizeof head.job, spec.name);
        text_copy(head.space, sizeof head.space, spec.space);
        job_free(&spec);
        rc = coord_queue_add(&c->fleet, &head, submit->yaml, submit->bytes, a->from, e);
    }
    if (rc != 0)
        return rc;
    *number = q->item[at].head.number;
    (void)snprintf(said, ERR_TEXT_MAX, "it waits for its turn: %u before it, and job %s runs", at,
                   coord_slot_newest(c)->spec.name);
    if (!coord_phase_running(coord_slot_newest(c)))
        (void)snprintf(said, ERR_TEXT_MAX, "it waits for its turn: %u before it", at);
    return 0;
}

/* ---- ending without having begun ------------------------------------------------------------- */

static void end(struct coord *c, uint32_t place, const char *state, int status, const char *why)
{
    const struct coord_queued *item = &c->fleet.queue->item[place];
    log_info("job %s, number %" PRIu64 ", is %s before its turn: %s", item->head.job,
             item->head.number, state, why);
    struct json *line = coord_queue_line(item, state, status, why);
    if (line != NULL && coord_jobs_add(&c->fleet, line, env_wall_s(c->fleet.env)))
        (void)coord_queue_remove(&c->fleet, place);
}

bool coord_turns_stop(struct coord *c, uint64_t number)
{
    uint32_t place = coord_queue_find(c->fleet.queue, number);
    if (place == c->fleet.queue->count)
        return false;
    end(c, place, "stopped", SHOAL_E_STOPPED, "stopped by request");
    return true;
}

/* ---- beginning ------------------------------------------------------------------------------- */

static struct coord_job *slot_free(struct coord *c)
{
    COORD_EACH_JOB (c, j)
        if (!coord_phase_running(j))
            return j;
    return NULL;
}

static void looked(void *context, struct coord_errand *r, int rc, const struct err *e);

/* The folders of the first job are looked at. */
static int look_begin(struct coord *c, struct coord_job *j, const struct coord_submit *submit,
                      struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_SUBMIT};
    struct coord_ask a = {.request = &w};
    return coord_look_begin(c, j, &a, submit, looked, e);
}

/* True when the look was for this job: the one that it was for may have been stopped meanwhile. */
static bool look_fits(const struct coord_look *l, const struct coord_queued *item)
{
    return l->bytes == item->bytes && memcmp(l->yaml, item->yaml, l->bytes) == 0 &&
           l->start == (item->head.start != 0) && strcmp(l->path, item->head.from) == 0;
}

/* Lets the first job begin; look: the result of the look at its folders. */
static void begin(struct coord *c, struct coord_look *look)
{
    struct coord_queue *q = c->fleet.queue;
    struct coord_job *j = slot_free(c);
    struct err e = {0};
    if (j == NULL || q->count == 0)
        return;
    const struct coord_queued *first = &q->item[0];
    if (look != NULL && !look_fits(look, first))
        return;
    const struct coord_submit submit = {.yaml = first->yaml,
                                        .bytes = first->bytes,
                                        .workers = first->head.workers,
                                        .from = first->head.from,
                                        .start = first->head.start != 0};
    q->tried_ns = env_now_ns(c->fleet.env);
    coord_report_ended(j); /* the new job takes its slot */
    int rc = coord_submit_waited(j, first->head.number, first->peer, &submit, look, &e);
    if (rc == SHOAL_E_AGAIN)
        rc = look_begin(c, j, &submit, &e);
    else if (rc == 0)
        (void)coord_queue_remove(&c->fleet, 0);
    if (rc == 0)
        return;
    if (rc == SHOAL_E_UNAVAILABLE || rc == SHOAL_E_BUSY || rc == SHOAL_E_NOMEM)
        log_info("job %s waits: %s", first->head.job, e.text);
    else
        end(c, 0, "failed", rc, e.text);
}

static void looked(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord *c = context;
    struct coord_look *l = c->look;
    SHOAL_ASSERT(&l->errand == r && !l->over);
    if (rc != 0) { /* the folder hangs: tried again */
        log_warn("a job waits: %s", e->text);
        c->look = NULL;
        return;
    }
    l->over = true;
    begin(c, l);
    coord_look_end(c);
}

void coord_turns_step(struct coord *c)
{
    const struct coord_queue *q = c->fleet.queue;
    bool tried = q->tried_ns != 0 && env_now_ns(c->fleet.env) - q->tried_ns < AGAIN_NS;
    if (q->count == 0 || c->look != NULL || tried || c->fleet.fatal != 0)
        return;
    begin(c, NULL);
}
