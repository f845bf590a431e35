/* crash.h: the report that a process leaves when a signal ends it (SIGSEGV, SIGBUS, SIGFPE, SIGILL,
 * SIGABRT): signal, address, thread, backtrace, the last lines of the log, build id, version, time.
 * It goes to a file in the folder that the process has named, and without the log's lines to
 * standard error. Then the signal takes its default action, so a core dump and systemd see it.
 *
 *     crash_begin(program) -> crash_folder(data_dir) -> in each thread: crash_thread()
 *
 * A handler only makes calls that are async-signal-safe, besides backtrace and
 * backtrace_symbols_fd, which are loaded at the start and allocate nothing. In a build with a
 * sanitizer all functions do nothing: the sanitizer reports by itself. */
#ifndef PROTO_BASE_CRASH_H
#define PROTO_BASE_CRASH_H

#include <signal.h>
#include <stdbool.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define CRASH_OFF 1
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CRASH_OFF 1
#endif
#endif
#ifndef CRASH_OFF
#define CRASH_OFF 0
#endif

#define CRASH_KEPT 5u /* reports in a folder; the oldest are removed */

/* Sets the handlers. program is borrowed. Call once in main, before any thread starts. */
void crash_begin(const char *program);
/* Reports are written to this folder from now on: crash-SECONDS-PROGRAM-PID.txt, where SECONDS are
 * those since 1970. Removes the oldest reports, so that with one more there are CRASH_KEPT. */
void crash_folder(const char *folder);
/* Gives the calling thread a stack for the handler, so that the overflow of its own stack is
 * reported, too. crash_begin does it for the main thread. Costs nothing when called again. */
void crash_thread(void);
/* Takes the signals above out of a set that a thread will block: the kernel ends a process whose
 * fault is blocked without any report. */
void crash_unblock(sigset_t *set);

/* "0.2.0 3f2a9c41d07e": the program's version, and the beginning of its build id, in which two
 * builds of one version differ; "0.2.0 unknown" before crash_begin. Never changes after it. */
#define CRASH_BUILD 64u
const char *crash_build(void);

/* True for the name of a report. */
bool crash_is_report(const char *name);

#endif
