/* turns.c: jobs that wait begin when their turn has come; turns.h. */
#include "server/coord/job/turns.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/core/fresh.h"
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
#define AGAIN_DOUBLES 5u /* the longest pause is 32 s */

/* ---- taking ---------------------------------------------------------------------------------- */

/* Returns the first job in the queue, before `place`, that a job of the space waits behind. */
static const struct coord_queued *before_of(const struct coord_queue *q, uint32_t place,
                                            const char *space)
{
    for (uint32_t i = 0; i < place; i++)
        if (strcmp(q->item[i].head.space, space) == 0)
            return &q->item[i];
    return NULL;
}

/* Returns a free slot for a job of this text that is submitted now; NULL: the job waits. */
static struct coord_job *slot_now(struct coord *c, const struct job *spec)
{
    const struct coord_queue *q = c->fleet.queue;
    const struct coord_job *why;
    /* those that wait for a place come first */
    if (before_of(q, q->count, spec->space) != NULL ||
        coord_slot_running(c) + q->count >= MAX(c->fleet.options.jobs, 1))
        return NULL;
    return coord_slot_free(c, spec->space, &why);
}

int coord_turns_slot(struct coord *c, peer_t from, const struct coord_submit *submit,
                     struct coord_job **out, struct err *e)
{
    struct job spec;
    *out = coord_slot_again(c, from, submit);
    if (*out != NULL)
        return 0;
    int rc = job_parse(submit->yaml, submit->bytes, "job", NULL, &spec, e);
    if (rc != 0)
        return rc;
    *out = slot_now(c, &spec);
    job_free(&spec);
    return 0;
}

/* Writes what the job at this place of the queue waits for. */
static void wait_say(struct coord *c, uint32_t place, char said[ERR_TEXT_MAX])
{
    const struct coord_queue *q = c->fleet.queue;
    const char *space = q->item[place].head.space;
    const struct coord_queued *before = before_of(q, place, space);
    const struct coord_job *why = NULL;
    if (before == NULL)
        (void)coord_slot_free(c, space, &why);
    if (before != NULL)
        (void)snprintf(said, ERR_TEXT_MAX,
                       "it waits for its turn: job %s, number %" PRIu64
                       ", is before it and uses space %s, too",
                       before->head.job, before->head.number, space);
    else if (why != NULL && strcmp(why->spec.space, space) == 0)
        (void)snprintf(said, ERR_TEXT_MAX,
                       "it waits for its turn: job %s, number %" PRIu64 ", runs in space %s",
                       why->spec.name, why->at.number, space);
    else if (why != NULL)
        (void)snprintf(said, ERR_TEXT_MAX, "it waits for its turn: %u before it, and job %s runs",
                       place, why->spec.name);
    else
        (void)snprintf(said, ERR_TEXT_MAX, "it waits for its turn: %u before it", place);
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
    wait_say(c, at, said);
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

static void looked(void *context, struct coord_errand *r, int rc, const struct err *e);

/* The folders of a job are looked at. */
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

/* Mixes one more value into a stamp. */
static uint64_t mixed(uint64_t stamp, uint64_t value)
{
    return (stamp ^ value) * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

/* Returns a number that differs when something has changed that may let a job begin which could
 * not: the servers, the names that they know, a drop, the jobs at hand and their checkpoints. */
static uint64_t stamp_of(const struct coord *c)
{
    const struct coord_fleet *f = &c->fleet;
    uint64_t stamp = mixed(f->cluster.map_epoch, f->names.version);
    COORD_EACH_SHARD (&f->members, s)
        stamp = mixed(stamp, f->members.shard[s].incarnation ^ f->members.shard[s].ready);
    stamp = mixed(stamp, f->drop.asker);
    stamp = mixed(stamp, f->taken->version ^ f->taken->newest);
    for (uint32_t i = 0; i < c->slots; i++) {
        stamp = mixed(stamp, c->slot[i].at.number);
        stamp = mixed(stamp, coord_phase_running(&c->slot[i]));
        stamp = mixed(stamp, (uint64_t)c->slot[i].checkpoint->state);
    }
    return stamp;
}

/* True when the job may be tried: it was not, or something has changed since, or its pause, which
 * doubles, is over. */
static bool is_due(const struct coord *c, const struct coord_queued *item, uint64_t stamp)
{
    uint64_t pause_ns = AGAIN_NS << MIN(item->tries - (item->tries > 0), AGAIN_DOUBLES);
    return item->tries == 0 || item->stamp != stamp ||
           env_now_ns(c->fleet.env) - item->tried_ns >= pause_ns;
}

/* Its turn has come, and it cannot begin yet. */
static void wait_for(struct coord_queued *item, const char *why)
{
    log_info("job %s waits: %s", item->head.job, why);
    text_copy(item->why, sizeof item->why, why);
}

/* Lets the job at this place begin; look: the result of the look at its folders. True: the queue
 * has changed. */
static bool begin(struct coord *c, uint32_t place, struct coord_job *j, struct coord_look *look)
{
    struct coord_queued *item = &c->fleet.queue->item[place];
    struct err e = {0};
    const struct coord_submit submit = {.yaml = item->yaml,
                                        .bytes = item->bytes,
                                        .workers = item->head.workers,
                                        .from = item->head.from,
                                        .start = item->head.start != 0};
    item->tried_ns = env_now_ns(c->fleet.env);
    item->stamp = stamp_of(c);
    item->tries++;
    coord_report_ended(j); /* the new job takes its slot */
    int rc = coord_submit_waited(j, item->head.number, item->peer, &submit, look, &e);
    if (rc == SHOAL_E_AGAIN && look == NULL) {
        if (look_begin(c, j, &submit, &e) != 0)
            wait_for(item, e.text);
        return false;
    }
    if (rc == 0)
        return coord_queue_remove(&c->fleet, place);
    if (rc == SHOAL_E_UNAVAILABLE || rc == SHOAL_E_BUSY || rc == SHOAL_E_NOMEM ||
        rc == SHOAL_E_AGAIN) {
        wait_for(item, e.text);
        return false;
    }
    end(c, place, "failed", rc, e.text);
    return true;
}

/* Returns the slot that the job at this place can take now; NULL: its turn has not come. */
static struct coord_job *slot_of(struct coord *c, uint32_t place)
{
    const struct coord_queue *q = c->fleet.queue;
    const struct coord_queued *item = &q->item[place];
    const struct coord_job *why;
    if (before_of(q, place, item->head.space) != NULL)
        return NULL;
    return coord_slot_free(c, item->head.space, &why);
}

static void looked(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord *c = context;
    struct coord_look *l = c->look;
    const struct coord_queue *q = c->fleet.queue;
    SHOAL_ASSERT(&l->errand == r && !l->over);
    if (rc != 0) { /* the folder hangs: tried again */
        log_warn("a job waits: %s", e->text);
        c->look = NULL;
        return;
    }
    l->over = true;
    for (uint32_t i = 0; i < q->count; i++) {
        struct coord_job *j = look_fits(l, &q->item[i]) ? slot_of(c, i) : NULL;
        if (j == NULL)
            continue;
        (void)begin(c, i, j, l);
        break;
    }
    coord_look_end(c);
}

void coord_turns_step(struct coord *c)
{
    const struct coord_queue *q = c->fleet.queue;
    if (q->count == 0)
        return;
    uint64_t stamp = stamp_of(c);
    uint32_t i = 0;
    while (i < q->count && c->fleet.fatal == 0) {
        bool due = is_due(c, &q->item[i], stamp) && (!q->item[i].looks || c->look == NULL);
        struct coord_job *j = due ? slot_of(c, i) : NULL;
        if (j == NULL || !begin(c, i, j, NULL))
            i++;
    }
}
