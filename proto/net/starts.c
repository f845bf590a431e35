/* starts.c: the file `starts`, "COUNT SINCE WAITED PID CAUSE". PID 0: COUNT starts have failed, the
 * last one by CAUSE. Else the last of them is that process, and CAUSE is of the one before. */
#include "proto/net/starts.h"
#include "proto/base/file.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/net/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)
#define WAIT_S 29 /* RestartSec=1 makes it 30 */
#define UNTOLD "it ended without a word: by a signal, or for lack of memory"

/* The state of this process. */
static struct {
    bool counting;
    pid_t pid;            /* while this start goes on; else 0 */
    struct starts failed; /* includes this start */
} now;

static bool path_of(const char *folder, const char *name, char path[LIMIT_PATH])
{
    return folder != NULL && folder[0] == '/' && strchr(folder, ':') == NULL &&
           snprintf(path, LIMIT_PATH, "%s/%s", folder, name) < (int)LIMIT_PATH;
}

static bool goes_on(pid_t pid)
{
    return kill(pid, 0) == 0 || errno == EPERM; /* another user's */
}

bool starts_read(const char *folder, struct starts *s)
{
    char path[LIMIT_PATH], *text;
    size_t bytes;
    int waited, pid, at = 0;
    if (!path_of(folder, "starts", path) ||
        file_read_whole(path, 128 + sizeof s->cause, &text, &bytes) != 0)
        return false;
    bool good = sscanf(text, "%" SCNu32 " %" SCNu64 " %d %d %n", &s->count, &s->since_ns, &waited,
                       &pid, &at) == 4 &&
                at > 0 && s->count > 0;
    if (good) {
        s->waited = waited != 0;
        text_copy(s->cause, sizeof s->cause, text + at);
        s->cause[strcspn(s->cause, "\r\n")] = '\0';
        text_clean(s->cause); /* another user may have written it */
        if (pid > 0 && goes_on(pid))
            good = --s->count > 0;
        else if (pid > 0)
            text_copy(s->cause, sizeof s->cause, UNTOLD);
    }
    free(text);
    return good;
}

/* A failure to write is ignored: systemd then retries each second. */
static void store(void)
{
    char path[LIMIT_PATH], temporary[LIMIT_PATH], text[128 + sizeof now.failed.cause];
    const struct starts *s = &now.failed;
    const char *folder = getenv("RUNTIME_DIRECTORY");
    int bytes = snprintf(text, sizeof text, "%" PRIu32 " %" PRIu64 " %d %d %s", s->count,
                         s->since_ns, s->waited, (int)now.pid, s->cause);
    if (path_of(folder, "starts", path) && path_of(folder, "starts.part", temporary))
        (void)file_write_whole(path, temporary, text, (size_t)bytes, 0640, FILE_LASTS_PROCESS);
}

static void tell(const char *how)
{
    const struct starts *s = &now.failed;
    notify_status("has failed to start %" PRIu32 " times in %" PRIu64 " s%s: %s", s->count,
                  (time_monotonic_ns() - s->since_ns) / SECOND_NS, how, s->cause);
}

static bool patient(void)
{
    return time_monotonic_ns() - now.failed.since_ns > STARTS_PATIENCE_NS;
}

/* Waits. SIGTERM and SIGINT end the process meanwhile, as they would without a handler. */
static void wait_told(void)
{
    const struct timespec wait = {.tv_sec = WAIT_S};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    now.failed.waited = true;
    store();
    tell(", tries every 30 s");
    notify_extend_timeout((WAIT_S + 10) * UINT64_C(1000000));
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    (void)sigprocmask(SIG_UNBLOCK, &ends, NULL);
    (void)nanosleep(&wait, NULL);
}

void starts_begin(void)
{
    notify_begin();
    now.counting = getenv("NOTIFY_SOCKET") != NULL && getenv("RUNTIME_DIRECTORY") != NULL;
    if (!now.counting)
        return;
    if (!starts_read(getenv("RUNTIME_DIRECTORY"), &now.failed))
        now.failed = (struct starts){.since_ns = time_monotonic_ns()};
    else if (patient() && !now.failed.waited)
        wait_told();
    now.failed.count++;
    now.failed.waited = false;
    now.pid = getpid();
    store();
}

void starts_over(void)
{
    char path[LIMIT_PATH];
    if (now.counting && path_of(getenv("RUNTIME_DIRECTORY"), "starts", path))
        (void)file_unlink(path);
    now.counting = false;
}

void starts_cause(const char *sentence)
{
    if (!now.counting)
        return;
    text_copy(now.failed.cause, sizeof now.failed.cause, sentence);
    now.pid = 0;
    store();
    tell("");
}

/* RestartPreventExitStatus= of the units: systemd does not try again. */
static bool is_final(int status)
{
    return status == 64 || status == 65 || status == 77 || status == 78;
}

int starts_end(int rc, const struct err *e)
{
    const char *sentence = text_unless_empty(e->text, err_text(rc));
    if (rc >= 0)
        return 0;
    if (rc == SHOAL_E_STOPPED) { /* asked to end before it was ready: no failure */
        log_info("%s", sentence);
        starts_over();
        return 0;
    }
    log_error("%s", sentence);
    now.failed.waited = true; /* the wait for the next start is here, or not needed */
    starts_cause(sentence);
    if (now.counting && patient() && !is_final(err_exit_status(rc)))
        wait_told();
    return err_exit_status(rc);
}
