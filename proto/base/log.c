/* log.c: lines to stderr, written with one write each so that threads and processes never mix
 * within a line. */
#include "proto/base/log.h"

#include "proto/base/assert.h"
#include "proto/base/log_inner.h"
#include "proto/base/log_journald.h"
#include "proto/base/sm.h"
#include "proto/base/text.h"
#include "proto/base/time.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const char *program_name = "shoal";
static bool under_journald, as_json;
static const char *const level_name[] = {"error", "warn", "info", "debug"};
static const int level_priority[] = {3, 4, 6, 7};

void log_init(const char *program)
{
    program_name = program;
    under_journald = log_journald_listens();
    const char *wrong = log_levels_set(NULL);
    if (wrong != NULL)
        log_warn("SHOAL_LOG: %s is neither a level (error, warn, info, debug) nor ROOM=LEVEL; "
                 "info counts",
                 wrong);
}

void log_json_set(bool json)
{
    as_json = json;
}

const struct log_event_text log_events[LOG_EVENT_COUNT] = {
#define X(NAME, ID, LEVEL, FIELD, SUBJECT, MEANING, ADVICE)                                        \
    [LOG_EVENT_##NAME] = {.name = #NAME,                                                           \
                          .id = ID,                                                                \
                          .field = FIELD,                                                          \
                          .subject = SUBJECT,                                                      \
                          .meaning = MEANING,                                                      \
                          .advice = ADVICE,                                                        \
                          .level = LOG_LEVEL_##LEVEL},
    LOG_EVENTS(X)
#undef X
};

/* "2026-11-30T01:02:03.456Z" */
static void time_text(char out[40])
{
    uint64_t now = time_wall_ns();
    time_t seconds = (time_t)(now / 1000000000u);
    char to_second[24] = "";
    struct tm utc;
    gmtime_r(&seconds, &utc);
    (void)strftime(to_second, sizeof to_second, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(out, 40, "%s.%03uZ", to_second, (unsigned)(now / 1000000u % 1000u));
}

static void put(const char *prefix, const char *text)
{
    const struct iovec parts[] = {
        {(char *)prefix, strlen(prefix)}, {(char *)text, strlen(text)}, {(char *)"\n", 1}};
    if (writev(STDERR_FILENO, parts, 3) < 0)
        return; /* there is no other place to report it */
}

static bool json_put(const struct log_record *r, const char *time, enum log_level level,
                     enum log_event event)
{
    char *line = log_json_line(r, time, level_name[level], text_or(log_events[event].name, ""));
    if (line == NULL)
        return false;
    bool good = write(STDERR_FILENO, line, strlen(line)) >= 0;
    free(line);
    return good;
}

/* Writes a line, whatever its level. A line that the journal refuses goes to its stream, with the
 * priority in front (sd-daemon(3)). */
static void line_put(const struct log_place *place, enum log_level level, enum log_event event,
                     const char *about, const char *text)
{
    const struct log_event_text *t = &log_events[event];
    const struct log_record r = {.program = program_name,
                                 .text = text,
                                 .priority = level_priority[level],
                                 .file = place->file,
                                 .function = place->function,
                                 .line = place->line,
                                 .message_id = t->id,
                                 .field = t->field,
                                 .about = about};
    char time[40], prefix[96];
    time_text(time);
    (void)snprintf(prefix, sizeof prefix, "%-5s %s %s: ", level_name[level], time, program_name);
    log_ring_put(prefix, text);
    if ((as_json && json_put(&r, time, level, event)) ||
        (!as_json && under_journald && log_journald_send(&r)))
        return;
    if (under_journald)
        (void)snprintf(prefix, sizeof prefix, "<%d>%s: ", level_priority[level], program_name);
    put(prefix, text);
}

void log_flush(void)
{
    struct log_flood f;
    char count[32], text[LOG_FLOOD_TEXT + 96];
    while (log_flood_take(&f)) {
        struct log_place place = {.file = f.file, .function = f.function, .line = f.line};
        (void)snprintf(text, sizeof text, "... %s more of these in the last 60 s: %s",
                       text_count(f.left_out, count), text_clean(f.text));
        line_put(&place, f.level, LOG_EVENT_NONE, NULL, text);
    }
}

static void line_say(struct log_place *, enum log_level, enum log_event, const char *about,
                     const char *format, va_list) __attribute__((format(printf, 5, 0)));

static void line_say(struct log_place *place, enum log_level level, enum log_event event,
                     const char *about, const char *format, va_list arguments)
{
    char text[2048];
    if (!log_level_shown(place->file, level))
        return;
    if (vsnprintf(text, sizeof text, format, arguments) < 0)
        return;
    text_clean(text);
    log_flush();
    if (level == LOG_LEVEL_DEBUG || log_flood_may(place, level, text))
        line_put(place, level, event, about, text);
}

void log_line(struct log_place *place, enum log_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    line_say(place, level, LOG_EVENT_NONE, NULL, format, arguments);
    va_end(arguments);
}

void log_event_line(struct log_place *place, enum log_event event, const char *about,
                    const char *format, ...)
{
    va_list arguments;
    char clean[256];
    text_copy(clean, sizeof clean, about);
    text_clean(clean); /* it may be the name of a peer */
    va_start(arguments, format);
    line_say(place, log_events[event].level, event, clean, format, arguments);
    va_end(arguments);
}

/* ---- the audit log --------------------------------------------------------------------------- */

static const char *told(const char *text)
{
    if (text != NULL && text[0] != 0)
        return text;
    return "-";
}

/* A quote would end the field. */
static void object_clean(char *out, size_t size, const char *object)
{
    text_copy(out, size, text_or(object, ""));
    for (char *c = out; *c != 0; c++)
        if (*c == '"')
            *c = '\'';
}

void log_audit_line(struct log_place *place, const struct log_deed *deed)
{
    static atomic_uint_least64_t numbers;
    const struct log_place none = {.file = NULL};
    char object[512], text[2048];
    uint64_t number = atomic_fetch_add(&numbers, 1) + 1;
    object_clean(object, sizeof object, deed->object);
    (void)snprintf(text, sizeof text,
                   "audit %" PRIu64
                   " key=%.10s role=%s name=%s peer=%s op=%s object=\"%s\" result=%s",
                   number, told(deed->key), told(deed->role), told(deed->name), told(deed->peer),
                   deed->operation, object, told(deed->result));
    text_clean(text);
    log_flush();
    if (place == NULL || log_flood_may(place, LOG_LEVEL_INFO, text))
        line_put(&none, LOG_LEVEL_INFO, LOG_EVENT_NONE, NULL, text);
}

/* ---- a broken assumption of our own: one line, then abort ------------------------------------ */

void assert_fail(const char *file, int line, const char *expression)
{
    log_error("%s:%d: assertion failed: %s; this is a bug in Shoal, please report it", file, line,
              expression);
    abort();
}

static const char *name_of(const struct sm *m, uint32_t state)
{
    if (state < m->count)
        return m->name[state];
    return "no state";
}

void sm_refuse(const struct sm *m, uint32_t from, uint32_t to, const char *file, int line)
{
    char text[256];
    snprintf(text, sizeof text, "%s: %s (%u) must not become %s (%u)", m->what, name_of(m, from),
             from, name_of(m, to), to);
    assert_fail(file, line, text);
}
