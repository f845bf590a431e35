/* log.h: one line an event, to stderr: "<level> <time> <program>: text". Under systemd
 * (JOURNAL_STREAM set) the line begins with the sd-daemon priority instead of level and time.
 * Threads may log at any time. */
#ifndef PROTO_BASE_LOG_H
#define PROTO_BASE_LOG_H

#include <stdatomic.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* program is kept by pointer. Call once in main, before any thread. SHOAL_LOG=error|warn|info|debug
 * sets the level. */
void log_init(const char *program);
void log_set_level(enum log_level level);

/* A place that logs. Whoever makes it speak, peers too, gets LOG_BURST lines at once and LOG_RATE a
 * second from then on; the next line after that says how many were left out. Debug has no limit. */
#define LOG_BURST 200u
#define LOG_RATE 50u
struct log_place {
    atomic_uint_least64_t next_ns; /* lines are this far ahead of their rate */
    atomic_uint left_out;
};

/* Control characters in the text become '?' (text.h). */
void log_line(struct log_place *place, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define LOG_AT(level, ...)                                                                         \
    do {                                                                                           \
        static struct log_place log_place_;                                                        \
        log_line(&log_place_, level, __VA_ARGS__);                                                 \
    } while (0)
#define log_error(...) LOG_AT(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) LOG_AT(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) LOG_AT(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) LOG_AT(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* ---- the audit log ----
 *
 * Who came, who was turned away, who gave an order: a line each, of fixed fields, numbered in its
 * process:
 *
 *     audit 7 key=rq:rM>}U?@ role=worker name=w1 peer=10.0.0.7 op=SUBMIT object="" result=denied
 *
 * key: the first ten characters, which are found in the list; "-" where there is none. No ids,
 * values or secrets. */
struct log_deed {
    const char *key, *role, *name, *peer;    /* NULL: "-" */
    const char *operation, *object, *result; /* object NULL: "" */
};
void log_audit_line(struct log_place *place, const struct log_deed *deed);

/* Places have their rates, as with log_line: a flood of strangers does not fill the log. */
#define log_audit(...)                                                                             \
    do {                                                                                           \
        static struct log_place log_place_;                                                        \
        log_audit_line(&log_place_, &(struct log_deed){__VA_ARGS__});                              \
    } while (0)

#endif
