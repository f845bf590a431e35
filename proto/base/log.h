/* log.h: one line an event, to stderr: "<level> <time> <program>: text". Where stderr is the
 * journal's the line goes there with fields (log_journald.h): priority, place in the code, and of
 * an event that an operator may look up (log_events.h) its id and what it is about. Threads may log
 * at any time. */
#ifndef PROTO_BASE_LOG_H
#define PROTO_BASE_LOG_H

#include "proto/base/log_events.h"

#include <stdatomic.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* program is kept by pointer. Call once in main, before any thread. SHOAL_LOG=error|warn|info|debug
 * sets the level. */
void log_init(const char *program);
void log_set_level(enum log_level level);
/* SHOAL_LOG's, else info. */
enum log_level log_level_default(void);

/* A place that logs. Whoever makes it speak, peers too, gets LOG_BURST lines at once and LOG_RATE a
 * second from then on; the next line after that says how many were left out. Debug has no limit. */
#define LOG_BURST 200u
#define LOG_RATE 50u
struct log_place {
    const char *file, *function;
    int line;
    atomic_uint_least64_t next_ns; /* lines are this far ahead of their rate */
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
/* about: the value of the event's field. */
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
 * Who came, who was turned away, who gave an order: a line each, of fixed fields, numbered in its
 * process (a gap in the numbers: lines that a rate left out). The level of the log does not count
 * here.
 *
 *     audit 7 key=rq:rM>}U?@ role=worker name=w1 peer=10.0.0.7 op=SUBMIT object="" result=denied
 *
 * key: the first ten characters, which are found in the list; "-" where there is none. No ids,
 * values or secrets. */
struct log_deed {
    const char *key, *role, *name, *peer;    /* NULL: "-" */
    const char *operation, *object, *result; /* object NULL: "" */
};
/* place: NULL: always written. */
void log_audit_line(struct log_place *place, const struct log_deed *deed);

/* An order, by a peer that may give it: written at every level, and never left out. */
#define log_audit(...) log_audit_line(NULL, &(struct log_deed){__VA_ARGS__})
/* A refusal, or a connection: any stranger can cause as many as it likes, so each such place has
 * the rate of log_line, apart from that of orders. */
#define log_audit_bounded(...)                                                                     \
    do {                                                                                           \
        static struct log_place log_place_;                                                        \
        log_audit_line(&log_place_, &(struct log_deed){__VA_ARGS__});                              \
    } while (0)

#endif
