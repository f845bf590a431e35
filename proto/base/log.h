/* log.h: one line an event, to stderr: "<level> <time> <program>: text". Where stderr goes to the
 * systemd journal, the line is sent with fields instead (log_journald.h): priority and place in the
 * code. An event that an operator may look up (log_events.h) adds its id and its subject. Threads
 * may log at any time. */
#ifndef PROTO_BASE_LOG_H
#define PROTO_BASE_LOG_H

#include "proto/base/log_events.h"

#include <stdatomic.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* program is borrowed. Call once in main, before any thread starts. SHOAL_LOG=error|warn|info|debug
 * sets the level. */
void log_init(const char *program);
void log_set_level(enum log_level level);
/* The level that SHOAL_LOG names, else info. */
enum log_level log_level_default(void);

/* A place in the code that logs. Peers may trigger it as often as they like, so it has a rate
 * limit: LOG_BURST lines at once, then LOG_RATE a second. The first line after a gap says how many
 * were left out. Debug has no limit. */
#define LOG_BURST 200u
#define LOG_RATE 50u
struct log_place {
    const char *file, *function;
    int line;
    atomic_uint_least64_t next_ns; /* runs ahead of the clock by one step for each line */
    atomic_uint left_out;
};

/* Control characters in the text become '?' (text.h). */
void log_line(struct log_place *place, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

enum log_event {
    LOG_EVENT_NONE,
#define X(name, id, level, field, subject, meaning, advice) LOG_EVENT_##name,
    LOG_EVENTS(X)
#undef X
        LOG_EVENT_COUNT
};
struct log_event_text {
    const char *name, *id, *field, *subject, *meaning, *advice;
    enum log_level level;
};
extern const struct log_event_text log_events[LOG_EVENT_COUNT]; /* [LOG_EVENT_NONE] is empty */
/* about: the value of the field that the event names. */
void log_event_line(struct log_place *place, enum log_event event, const char *about,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

#define LOG_WITH(call, ...)                                                                        \
    do {                                                                                           \
        static struct log_place log_place_ = {                                                     \
            .file = __FILE__, .function = __func__, .line = __LINE__};                             \
        call(&log_place_, __VA_ARGS__);                                                            \
    } while (0)
#define LOG_AT(level, ...) LOG_WITH(log_line, level, __VA_ARGS__)
/* log_event(JOB_DONE, name, "job %s is done", name) */
#define log_event(name, about, ...) LOG_WITH(log_event_line, LOG_EVENT_##name, about, __VA_ARGS__)
#define log_error(...) LOG_AT(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) LOG_AT(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) LOG_AT(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) LOG_AT(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* ---- the audit log ----
 *
 * A line for each connection, each refusal and each order, of fixed fields and numbered in its
 * process (a gap in the numbers: the rate limit left out lines). The log level does not matter
 * here.
 *
 *     audit 7 key=rq:rM>}U?@ role=worker name=w1 peer=10.0.0.7 op=SUBMIT object="" result=denied
 *
 * key: the first ten characters, enough to find it in the list; "-" where there is none. The line
 * has no ids, values or secrets. */
struct log_deed {
    const char *key, *role, *name, *peer;    /* NULL: "-" */
    const char *operation, *object, *result; /* object NULL: "" */
};
/* place NULL: the line is always written. */
void log_audit_line(struct log_place *place, const struct log_deed *deed);

/* An order by a peer that may give it: written at every level, and never left out. */
#define log_audit(...) log_audit_line(NULL, &(struct log_deed){__VA_ARGS__})
/* A refusal or a connection: a stranger can cause any number of them. So each such place has the
 * rate limit of log_line, and orders have none. */
#define log_audit_bounded(...)                                                                     \
    do {                                                                                           \
        static struct log_place log_place_;                                                        \
        log_audit_line(&log_place_, &(struct log_deed){__VA_ARGS__});                              \
    } while (0)

#endif
