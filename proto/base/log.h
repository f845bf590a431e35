/* log.h: one line an event, to stderr: "<level> <time> <program>: text", or a JSON object. Where
 * stderr goes to the systemd journal, the line is sent with fields instead (log_journald.h):
 * priority and place in the code. An event that an operator may look up (log_events.h) adds its id
 * and its subject. Threads may log at any time.
 *
 *     log_line -> log_level_shown -> log_flood_may: once more in this minute?
 *              -> log_ring_put: kept for a crash report -> stderr or the journal */
#ifndef PROTO_BASE_LOG_H
#define PROTO_BASE_LOG_H

#include "proto/base/log_events.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* program is borrowed. Call once in main, before any thread starts. SHOAL_LOG sets the levels, in
 * the form of log_levels_set. */
void log_init(const char *program);
/* The level of every room. */
void log_set_level(enum log_level level);
/* Levels by room: "LEVEL,ROOM=LEVEL,..", such as "info,shard=debug"; the first word may be absent
 * (info). A room is a folder of the sources (log_level.c lists them) and counts for the folders in
 * it; of several the innermost counts. levels NULL: what SHOAL_LOG says, else info. Any thread, at
 * any time. Returns NULL, or the first word that is neither a level nor ROOM=LEVEL; then no level
 * has changed. */
const char *log_levels_set(const char *levels);
/* As log_levels_set checks it, without a change. */
const char *log_levels_wrong(const char *levels);
/* The form of the lines: a JSON object each, to stderr, also under systemd. Its members: time
 * (UTC), level, program, room, text, and fields (event, its subject, file, line, function). */
void log_json_set(bool json);

/* A place in the code that logs. Peers may trigger it as often as they like, so in each minute it
 * says at most LOG_MOST lines, and at most LOG_SAME of the same text in a row. The lines beyond are
 * counted, and told as one line at the minute's end: "... 1,234 more of these in the last 60 s:
 * TEXT", with the last text that was left out. Debug lines have no bound. */
#define LOG_MOST 200u
#define LOG_SAME 5u
#define LOG_MINUTE_NS UINT64_C(60000000000)
struct log_place {
    const char *file, *function;
    int line;
    /* the state of log_flood.c, under its lock: begin of the minute, hash of the last text */
    uint64_t begun_ns, last;
    uint32_t said, same, left_out;
};

/* Tells the counts of minutes that have ended. Each line that is logged does so; a daemon calls
 * this every few seconds, so that a count is told when no more lines come. Any thread. */
void log_flush(void);
/* Lines left out since the start. */
uint64_t log_dropped(void);
/* Replaces the monotonic clock of the bounds, in tests; NULL: time_monotonic_ns. */
void log_clock_set(uint64_t (*now_ns)(void));

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
 * process (a gap in the numbers: lines were left out and counted). The log level does not matter
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
 * bound of log_line, and orders have none. */
#define log_audit_bounded(...)                                                                     \
    do {                                                                                           \
        static struct log_place log_place_;                                                        \
        log_audit_line(&log_place_, &(struct log_deed){__VA_ARGS__});                              \
    } while (0)

#endif
