/* log.h: one line an event, to stderr: "<level> <time> <program>: text". Under systemd
 * (JOURNAL_STREAM set) the line begins with the sd-daemon priority instead of level and time.
 * Threads may log at any time. */
#ifndef PROTO_BASE_LOG_H
#define PROTO_BASE_LOG_H

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* program is kept by pointer. Call once in main, before any thread. SHOAL_LOG=error|warn|info|debug
 * sets the level. */
void log_init(const char *program);
void log_set_level(enum log_level level);
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
