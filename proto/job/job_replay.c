/* job_replay.c: the section replay of job.yaml: windows and ranges of event time. */
#include "proto/job/job.h"
#include "proto/job/job_inner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Parses "2026-03-04", "2026-03-04T05", "..T05:30", "..:59", or seconds since 1970: the named time
 * begins at *from and lasts *seconds. Returns false for other text. */
static bool moment(const char *text, size_t bytes, const struct zone *zone, uint32_t *from,
                   uint32_t *seconds)
{
    static const struct {
        size_t bytes;
        const char *format;
        uint32_t seconds;
    } forms[] = {{10, "%Y-%m-%d", 86400},
                 {13, "%Y-%m-%dT%H", 3600},
                 {16, "%Y-%m-%dT%H:%M", 60},
                 {19, "%Y-%m-%dT%H:%M:%S", 1}};
    char copy[24], *end;
    if (bytes == 0 || bytes >= sizeof copy)
        return false;
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    if (strspn(copy, "0123456789") == bytes) {
        unsigned long long number = strtoull(copy, NULL, 10);
        *from = (uint32_t)number;
        *seconds = 1;
        return number >= 100000000 && number < UINT32_MAX; /* 20260304 is meant as a date */
    }
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct tm t = {.tm_mday = 1};
        if (forms[i].bytes != bytes || (end = strptime(copy, forms[i].format, &t)) == NULL ||
            *end != 0)
            continue;
        struct tm same = t;
        int64_t at = timegm(&same); /* 31 February becomes another day */
        return same.tm_mday == t.tm_mday && same.tm_mon == t.tm_mon &&
               zone_span(zone, at, forms[i].seconds, from, seconds);
    }
    return false;
}

bool job_span_parse(const char *text, const struct zone *zone, struct job_span *out)
{
    const char *dots = strstr(text, "..");
    uint32_t lasts, to;
    size_t bytes = strlen(text);
    if (dots != NULL)
        bytes = (size_t)(dots - text);
    if (!moment(text, bytes, zone, &out->from, &lasts))
        return false;
    out->to = out->from + lasts;
    if (dots == NULL)
        return true;
    if (!moment(dots + 2, strlen(dots + 2), zone, &to, &lasts))
        return false;
    out->to = to;
    return out->from < out->to;
}

static int bound_take(const struct config *c, const char *path, const struct zone *zone,
                      uint32_t *out, struct err *e)
{
    const char *text = config_string(c, path);
    uint32_t lasts;
    *out = 0;
    if (text[0] == 0 || moment(text, strlen(text), zone, out, &lasts))
        return 0;
    return job_refuse(c, path, e,
                      ": '%s' is none of 2026-03-04, 2026-03-04T05 and seconds since "
                      "1970",
                      text);
}

static int outs_take(const struct config *c, struct job *j, struct err *e)
{
    struct string_list list = {0};
    if (config_list(c, "replay.leave_out", &list) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    int rc = 0;
    if (list.count > LIMIT_REPLAY_OUT)
        rc = job_refuse(c, "replay.leave_out", e, ": %zu spans, at most %u", list.count,
                        LIMIT_REPLAY_OUT);
    for (size_t i = 0; rc == 0 && i < list.count; i++)
        if (!job_span_parse(list.item[i], &j->data.zone, &j->replay.out[j->replay.outs++]))
            rc = job_refuse(c, "replay.leave_out", e,
                            ": '%s' is none of 2026-03-04, 2026-03-04T05 and A..B, A before B",
                            list.item[i]);
    config_list_free(&list);
    return rc;
}

/* Refuses the settings that a replay excludes. */
static int others_check(const struct config *c, const struct job *j, struct err *e)
{
    if (!job_timed(j))
        return job_refuse(c, "replay", e,
                          ": it goes by event time: name its column in data.time, or the time in "
                          "files' names in data.partition");
    if (j->data.shuffle_within > 0 || (j->data.shuffle_said && j->data.shuffle))
        return job_refuse(c, "replay.window", e,
                          ": it takes the log in order of time: take data.shuffle away");
    if (j->train.epochs != 1)
        return job_refuse(c, "train.epochs", e, ": a replay goes through its log once");
    if (j->train.early_stop.patience > 0)
        return job_refuse(c, "train.early_stop.patience", e,
                          ": a replay takes all of its range; say replay.to");
    return 0;
}

int job_replay_take(const struct config *c, struct job *j, struct err *e)
{
    uint64_t step = j->data.partition.step > 0 ? j->data.partition.step : 3600;
    uint64_t window = config_size_or(c, "replay.window", step * 1000),
             every = config_size(c, "replay.every");
    j->replay.on = config_has(c, "replay");
    if (!j->replay.on)
        return 0;
    const char *key = config_has(c, "replay.every") ? "replay.every" : "replay.window";
    if (window % 1000 != 0 || every % window != 0)
        return job_refuse(c, key, e,
                          ": a day, %.15g s, is of whole windows of whole seconds, and one is "
                          "%.15g s",
                          (double)every / 1000, (double)window / 1000);
    j->replay.window = (uint32_t)(window / 1000);
    j->replay.every = (uint32_t)(every / 1000);
    j->replay.pace = config_float(c, "replay.pace");
    if (!zone_fits(&j->data.zone, j->replay.window) || !zone_fits(&j->data.zone, j->replay.every))
        return job_refuse(c, key, e,
                          ": in data.zone windows and days are of whole days, or parts of one");
    j->replay.checkpoint = config_bool(c, "replay.checkpoint");
    int rc = bound_take(c, "replay.from", &j->data.zone, &j->replay.range.from, e);
    if (rc == 0)
        rc = bound_take(c, "replay.to", &j->data.zone, &j->replay.range.to, e);
    if (rc == 0 && j->replay.range.to != 0 && j->replay.range.to <= j->replay.range.from)
        rc = job_refuse(c, "replay.to", e, ": it is not after replay.from");
    if (rc == 0)
        rc = outs_take(c, j, e);
    if (rc != 0)
        return rc;
    return others_check(c, j, e);
}
