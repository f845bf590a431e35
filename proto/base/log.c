/* log.c: lines to stderr, written with one write each so that threads and processes never mix
 * within a line. */
#include "proto/base/log.h"

#include "proto/base/assert.h"
#include "proto/base/log_journald.h"
#include "proto/base/minmax.h"
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
static bool under_journald;
static atomic_int level_max = LOG_LEVEL_INFO;
static const char *const level_name[] = {"error", "warn", "info", "debug"};
static const int level_priority[] = {3, 4, 6, 7};

void log_init(const char *program)
{
    program_name = program;
    under_journald = log_journald_listens();
    log_set_level(log_level_default());
}

enum log_level log_level_default(void)
{
    const char *wish = getenv("SHOAL_LOG");
    for (int i = 0; wish != NULL && i < 4; i++)
        if (strcmp(wish, level_name[i]) == 0)
            return (enum log_level)i;
    return LOG_LEVEL_INFO;
}

void log_set_level(enum log_level level)
{
    atomic_store(&level_max, (int)level);
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

static int line_prefix(char *out, size_t size, enum log_level level)
{
    uint64_t now = time_wall_ns();
    time_t seconds = (time_t)(now / 1000000000u);
    struct tm utc;
    if (under_journald)
        return 0;
    gmtime_r(&seconds, &utc);
    return snprintf(out, size, "%-5s %04d-%02d-%02dT%02d:%02d:%02d.%03uZ %s: ", level_name[level],
                    utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                    utc.tm_sec, (unsigned)(now / 1000000u % 1000u), program_name);
}

/* True when the place may log one more line now. Each line takes a step of time, and the place may
 * be a burst of steps ahead of the clock. */
static bool place_may(struct log_place *p)
{
    const uint64_t step = 1000000000u / LOG_RATE;
    uint64_t now = time_monotonic_ns(), next = atomic_load(&p->next_ns), from;
    do {
        from = MAX(next, now);
        if (from - now >= LOG_BURST * step) {
            atomic_fetch_add(&p->left_out, 1);
            return false;
        }
    } while (!atomic_compare_exchange_weak(&p->next_ns, &next, from + step));
    return true;
}

/* A line that the journal refuses goes to its stream, with the priority in front (sd-daemon(3)). */
static void line_put(const struct log_place *place, enum log_level level, enum log_event event,
                     const char *about, char *line)
{
    const struct log_event_text *t = &log_events[event];
    const struct log_record r = {.program = program_name,
                                 .text = line,
                                 .priority = level_priority[level],
                                 .file = place->file,
                                 .function = place->function,
                                 .line = place->line,
                                 .message_id = t->id,
                                 .field = t->field,
                                 .about = about};
    char prefix[64] = "";
    if (under_journald && log_journald_send(&r))
        return;
    if (under_journald)
        (void)snprintf(prefix, sizeof prefix, "<%d>%s: ", level_priority[level], program_name);
    size_t length = strlen(line);
    line[length++] = '\n';
    const struct iovec parts[] = {{prefix, strlen(prefix)}, {line, length}};
    if (writev(STDERR_FILENO, parts, 2) < 0)
        return; /* there is no other place to report it */
}

static void line_write(struct log_place *, enum log_level, enum log_event, const char *about,
                       const char *format, va_list) __attribute__((format(printf, 5, 0)));
static void line_say(struct log_place *, enum log_level, enum log_event, const char *about,
                     const char *format, va_list) __attribute__((format(printf, 5, 0)));

/* Ignores the level and the rate. */
static void line_write(struct log_place *place, enum log_level level, enum log_event event,
                       const char *about, const char *format, va_list arguments)
{
    char line[2048];
    int used = line_prefix(line, sizeof line, level);
    unsigned left_out = atomic_exchange(&place->left_out, 0);
    if (left_out > 0)
        used += snprintf(line + used, sizeof line - (size_t)used,
                         "(%u lines like this one were left out) ", left_out);
    int body = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
    if (body < 0)
        return;
    text_clean(line + used);
    line_put(place, level, event, about, line);
}

static void line_say(struct log_place *place, enum log_level level, enum log_event event,
                     const char *about, const char *format, va_list arguments)
{
    if ((int)level <= atomic_load_explicit(&level_max, memory_order_relaxed) &&
        (level == LOG_LEVEL_DEBUG || place_may(place)))
        line_write(place, level, event, about, format, arguments);
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
    (void)snprintf(clean, sizeof clean, "%s", about);
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
    (void)snprintf(out, size, "%s", text_or(object, ""));
    for (char *c = out; *c != 0; c++)
        if (*c == '"')
            *c = '\'';
}

static void audit_write(struct log_place *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void audit_write(struct log_place *place, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    line_write(place, LOG_LEVEL_INFO, LOG_EVENT_NONE, NULL, format, arguments);
    va_end(arguments);
}

void log_audit_line(struct log_place *place, const struct log_deed *deed)
{
    static atomic_uint_least64_t numbers;
    struct log_place none = {.file = NULL};
    char object[512];
    uint64_t number = atomic_fetch_add(&numbers, 1) + 1;
    if (place != NULL && !place_may(place))
        return;
    object_clean(object, sizeof object, deed->object);
    if (place == NULL)
        place = &none;
    audit_write(place,
                "audit %" PRIu64 " key=%.10s role=%s name=%s peer=%s op=%s object=\"%s\" result=%s",
                number, told(deed->key), told(deed->role), told(deed->name), told(deed->peer),
                deed->operation, object, told(deed->result));
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
