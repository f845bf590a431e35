/* times.c: the limit of event times, their range, and wrong clocks. */
#include "server/coord/work/times.h"

#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/core/core.h"
#include "server/coord/work/amount.h"
#include "server/coord/work/grow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMES_KEY "times"
#define GRACE_S 86400u
enum { CLAMPED_OF = 1000 }; /* in a log without an end, fewer examples decide nothing */

static uint32_t limit_by_calendar(const struct coord_fleet *f)
{
    uint64_t now = env_wall_s(f->env);
    if (now == 0 || now > UINT32_MAX - GRACE_S)
        return 0;
    return (uint32_t)now + GRACE_S;
}

uint32_t coord_times_limit(const struct coord_fleet *f, const struct job *job, uint32_t was)
{
    if (!job_timed(job) && job->data.format != DATA_EVENTS)
        return 0;
    return was != 0 ? was : limit_by_calendar(f);
}

uint32_t coord_times_limit_now(const struct coord_job *j)
{
    return coord_grow_on(j) && j->grow->at.limit != 0 ? j->grow->at.limit : j->spec.data.time_limit;
}

uint32_t coord_times_limit_of_round(const struct coord_job *j)
{
    uint32_t now = limit_by_calendar(j->fleet), of_job = j->spec.data.time_limit;
    return of_job != 0 && now > of_job ? now : 0;
}

int coord_times_load(struct coord_job *j, struct err *e)
{
    struct coord_times *t = j->times;
    int rc = coord_store_get_fixed(j->store, TIMES_KEY, t, sizeof *t, e);
    t->apart[LIMIT_NAME - 1] = 0;
    if (rc != 0 || t->job != j->at.number)
        *t = (struct coord_times){.job = j->at.number};
    return coord_store_optional(rc); /* an earlier release stored none */
}

/* True when too many examples were clamped. In a log with an end they are too many in any case,
 * even if none of the rest is. */
static bool clamped_too_many(const struct coord_job *j)
{
    const struct coord_times *t = j->times;
    uint64_t rows = coord_grow_on(j) ? CLAMPED_OF : coord_epoch_amount(j).rows,
             all = MAX(t->examples, rows);
    return (double)t->clamped > COORD_CLAMPED_SHARE * (double)all;
}

static int clamped_refuse(const struct coord_job *j, struct err *e)
{
    const struct coord_times *t = j->times;
    char limit[32], last[32];
    zone_label(&j->spec.data.zone, coord_times_limit_now(j), limit);
    zone_label(&j->spec.data.zone, t->last, last);
    return err_set(e, SHOAL_E_DATA,
                   "data.time: %" PRIu64 " of %" PRIu64
                   " examples have a time later than %s (the last one %s), which is a day past the "
                   "clock of the coordinator's machine when it took the job: set that clock right "
                   "and submit the job again; where it is right, data.time, data.time_unit or "
                   "data.time_format are wrong; data.time_limit takes a log that is ahead of time",
                   t->clamped, t->examples, limit, last);
}

int coord_times_task(struct coord_job *j, const struct wire_TASK_DONE *q, struct err *e)
{
    struct coord_times *t = j->times;
    t->job = j->at.number;
    t->examples += q->examples;
    t->clamped += MIN(q->clamped, q->examples);
    if (q->first_time != 0 && (q->first_time < t->first || t->first == 0))
        t->first = q->first_time;
    if (q->last_time > t->last)
        t->last = q->last_time;
    if (t->last == 0) /* the log has no times */
        return 0;
    if (coord_job_note(j, TIMES_KEY, t, sizeof *t) && q->clamped > 0 && clamped_too_many(j))
        return clamped_refuse(j, e);
    return 0;
}

void coord_times_beat(struct coord_job *j, const struct coord_worker *w,
                      const struct wire_WORKER_BEAT *q)
{
    struct coord_times *t = j->times;
    if (!wire_clock_apart(q->clock_ahead_s) || wire_clock_apart(w->figures.clock_ahead_s))
        return;
    log_warn("the clock of worker %s is %d s %s the coordinator's: set it right; rows go by the "
             "coordinator's alone",
             w->name, abs(q->clock_ahead_s), q->clock_ahead_s > 0 ? "ahead of" : "behind");
    t->job = j->at.number;
    if (t->aparts++ == 0) {
        t->apart_s = q->clock_ahead_s;
        memcpy(t->apart, w->name, sizeof t->apart);
    }
    (void)coord_job_note(j, TIMES_KEY, t, sizeof *t);
}

void coord_times_json(const struct coord_job *j, struct json *to)
{
    const struct coord_times *t = j->times;
    char label[32];
    if (t->last == 0)
        return;
    struct json *events = json_new_object();
    json_set_int(events, "first", t->first);
    json_set_int(events, "last", t->last);
    zone_label(&j->spec.data.zone, t->first, label);
    json_set_string(events, "from", label);
    zone_label(&j->spec.data.zone, t->last, label);
    json_set_string(events, "to", label);
    json_set(to, "events", events);
}

void coord_times_note(const struct coord_job *j, struct json *list)
{
    const struct coord_times *t = j->times;
    char more[32] = "", text[320];
    if (t->aparts == 0)
        return;
    if (t->aparts > 1)
        (void)snprintf(more, sizeof more, " (and of %u others)", t->aparts - 1);
    (void)snprintf(text, sizeof text,
                   "the clock of worker %s%s is wrong, or the coordinator's: it is %d s %s that "
                   "one; rows go by the coordinator's, and dates in log lines do not agree",
                   t->apart, more, abs(t->apart_s), t->apart_s > 0 ? "ahead of" : "behind");
    json_append_string(list, text);
}
