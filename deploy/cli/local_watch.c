/* local_watch.c: the children of `shoal local` while they run: submits the job, restarts children
 * that die, shows progress, and stops the children.
 *
 * 1. Every wait ends: a child that dies again and again, a silent coordinator, or a job without
 *    workers ends the run with a sentence that says so.
 *    [test: what_will_not_come_back_ends_the_run,
 *    a_worker_that_fails_every_time_is_left_where_it_lies]
 * 2. A signal handler only sets a number; every loop here checks it.
 *    [test: what_will_not_come_back_ends_the_run] */
#include "deploy/cli/local_inner.h"
#include "deploy/cli/run.h"
#include "proto/base/file.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { QUICK_DEATHS_MAX = 5, SHORT_LEASES = 60, SUBMIT_MS = 2000 };
#define SUBMIT_SILENT_NS UINT64_C(60000000000)
#define ALONE_NS UINT64_C(15000000000) /* without any worker for this long the run ends */
/* A coordinator that another command has started is asked at this interval. It is regarded as gone
 * after so long without an answer, because it may be restarted meanwhile; but not if its run has a
 * report by then. */
#define OTHER_ASK_NS UINT64_C(1000000000)
#define OTHER_GONE_NS UINT64_C(20000000000)
#define OTHER_ENDED_NS UINT64_C(3000000000)
#define QUIET_NS UINT64_C(5000000000) /* before the first example, nothing is shown for this long */

static volatile sig_atomic_t interrupted;

static void interrupt(int signo)
{
    interrupted = signo;
}

void local_signals_take(void)
{
    struct sigaction action = {.sa_handler = interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int local_interrupted(void)
{
    return interrupted;
}

/* ---- children -------------------------------------------------------------------------------- */

static void line_show(struct local *l, const char *said, bool passing)
{
    char text[2048];
    bool terminal = isatty(STDOUT_FILENO) != 0;
    if (l->quiet)
        return;
    text_copy(text, sizeof text, said);
    text_clean(text);
    if (terminal) {
        printf("\r\033[K%s", text);
        if (!passing)
            putchar('\n');
    } else if (!passing || time_monotonic_ns() - l->last_line_ns > 5000000000u) {
        printf("%s\n", text);
        l->last_line_ns = time_monotonic_ns();
    }
    l->line_open = terminal && passing;
    fflush(stdout);
}

/* Ends the run when a disk stays full; it can be continued once there is room. */
static int disk_missed(struct local *l, const struct json *s, struct err *e)
{
    const struct json *servers = json_get(s, "servers");
    uint64_t now = time_monotonic_ns(), limit_ms = SHORT_LEASES * l->job.coordinator.lease_ms;
    const char *name = NULL;
    for (size_t i = 0; i < json_count(servers) && name == NULL; i++)
        if (json_get_bool(json_array_at(servers, i), "disk_short", false))
            name = json_get_string(json_array_at(servers, i), "name", "?");
    if (name == NULL)
        l->short_ns = 0;
    else if (l->short_ns == 0)
        l->short_ns = now;
    if (name == NULL || now - l->short_ns < limit_ms * 1000000u)
        return 0;
    return err_set(e, SHOAL_E_NO_SPACE,
                   "%s has taken no pushes for %" PRIu64
                   " s, for too little is free on the disk of "
                   "%s: free some, or lower what must be (--server-set disk_free=1G); the same "
                   "command with --run-dir %s goes on from here",
                   name, limit_ms / 1000, l->dir, l->dir);
}

/* Shows the input's first warning, once. */
static void warning_show(struct local *l, const struct json *s)
{
    char line[ERR_TEXT_MAX + 16];
    const char *warning = json_get_string(s, "warning", NULL);
    if (warning == NULL || l->warned)
        return;
    (void)snprintf(line, sizeof line, "warning: %.*s", ERR_TEXT_MAX, warning);
    line_show(l, line, false);
    l->warned = true;
}

/* Shows the input's fields once, before training begins. */
static void input_show(struct local *l, const struct json *s)
{
    const struct json *input = json_get(s, "input");
    char line[2048];
    for (size_t i = 0;
         input != NULL && !l->input_shown && cli_input_line(input, i, line, sizeof line); i++)
        line_show(l, line, false);
    l->input_shown = l->input_shown || input != NULL;
}

void local_days_show(struct local *l, const struct json *days, size_t before)
{
    char line[256];
    for (size_t i = 0; i < json_count(days); i++)
        if (before + i >= l->days_shown) {
            cli_day_text(json_array_at(days, i), line);
            line_show(l, line, false);
            l->days_shown = before + i + 1;
        }
}

/* Shows the days that have ended since the last status; when the status leaves some out, the last
 * ones. */
static void days_show(struct local *l, const struct json *days)
{
    const struct json *last = json_get(days, "last");
    size_t count = (size_t)json_get_int(days, "count", 0), told = json_count(last);
    local_days_show(l, last, SAT_SUB(count, told));
}

/* True when there is progress to show: a line of 0 examples tells nothing unless it stays so. */
static bool has_begun(struct local *l, const struct json *s)
{
    uint64_t now = time_monotonic_ns();
    if (l->follow_ns == 0)
        l->follow_ns = now;
    return json_get_number(s, "examples", 0) > 0 || json_get(s, "waiting") != NULL ||
           now - l->follow_ns > QUIET_NS;
}

static void progress_show(struct local *l, const struct json *s)
{
    char line[256];
    warning_show(l, s);
    input_show(l, s);
    days_show(l, json_get(s, "days"));
    if (!has_begun(l, s))
        return;
    cli_progress_text(s, line);
    line_show(l, line, true);
}

static bool is_worker(const struct child *c)
{
    return strncmp(c->name, "worker", 6) == 0;
}

/* True when a worker that cannot run by its own fault is not started again: a device that fails
 * each time, say, or a device other than the job's, or input that is gone. Another worker must
 * still be there, or have ended well, since then the job is over. */
static bool worker_spared(const struct local *l, const struct child *c)
{
    for (int i = 0; i < l->children && is_worker(c); i++) {
        const struct child *other = &l->child[i];
        if (other != c && is_worker(other) && (!other->done || other->exit_status == 0))
            return c->exit_status != 64;
    }
    return false;
}

/* True for a failure that a restart would repeat: of the input, a right, or the job's text. */
static bool worker_stuck(const struct child *c)
{
    return c->exit_status == 65 || c->exit_status == 66 || c->exit_status == 77 ||
           c->exit_status == 78;
}

/* True when a daemon cannot have its folder: it has waited for it already. A worker reports to the
 * coordinator what it cannot make; then the job ends, or other workers go on. */
static bool folder_failed(const struct child *c)
{
    return c->exit_status == 73 && c->quick_deaths != 0 && !is_worker(c);
}

/* "signal 9" or "exit status 1". */
static const char *end_text(const struct child *c, char out[32])
{
    if (c->exit_status > 128)
        (void)snprintf(out, 32, "signal %d", c->exit_status - 128);
    else
        (void)snprintf(out, 32, "exit status %d", c->exit_status);
    return out;
}

/* The error of a program that cannot run. */
static int code_of(int exit_status)
{
    switch (exit_status) {
    case 65:
        return SHOAL_E_DATA;
    case 66:
        return SHOAL_E_NOINPUT;
    case 73:
        return SHOAL_E_CANTCREATE;
    case 78:
        return SHOAL_E_CONFIG;
    default:
        return SHOAL_E_UNAVAILABLE;
    }
}

/* Restarts children that died. A program that dies at once, again and again, ends the run with its
 * last line. */
int local_children_watch(struct local *l, struct err *e)
{
    char line[ERR_TEXT_MAX + 128], words[ERR_TEXT_MAX], end[32];
    for (int i = 0; i < l->children; i++) {
        struct child *c = &l->child[i];
        if (!child_ended(c) || c->done)
            continue;
        child_last_words(c, words);
        if (c->exit_status == 0 && is_worker(c)) {
            c->done = true;
            continue;
        }
        if (!l->restart) {
            (void)snprintf(line, sizeof line, "%s ended (%s)", c->name, end_text(c, end));
            line_show(l, line, false);
            c->done = true;
            continue;
        }
        if (worker_stuck(c) && worker_spared(l, c)) {
            (void)snprintf(line, sizeof line,
                           "%s cannot work for this job (exit status %d: %s); going on without it",
                           c->name, c->exit_status, words);
            line_show(l, line, false);
            c->done = true;
            continue;
        }
        if (c->quick_deaths >= QUICK_DEATHS_MAX && worker_spared(l, c)) {
            (void)snprintf(
                line, sizeof line,
                "%s ended %u times soon after its start (exit status %d: %s); going on without it",
                c->name, c->quick_deaths, c->exit_status, words);
            line_show(l, line, false);
            c->done = true;
            continue;
        }
        if (c->quick_deaths >= QUICK_DEATHS_MAX || c->exit_status == 78 || c->exit_status == 77 ||
            c->exit_status == 64 || folder_failed(c))
            return err_set(e, code_of(c->exit_status), "%s cannot run (exit status %d): %s; see %s",
                           c->name, c->exit_status, words, c->log);
        c->restarts++;
        (void)snprintf(line, sizeof line, "%s ended (%s), starting it again", c->name,
                       end_text(c, end));
        line_show(l, line, false);
        int rc = child_start(c, e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* An error when a daemon is gone for good: one that --no-restart leaves dead, or one that had
 * loaded a checkpoint for a question. */
static int daemon_missed(const struct local *l, struct err *e)
{
    const char *then = " and --no-restart leaves it so";
    if (l->quiet)
        then = ", and what it had loaded is gone with it: the same line loads it again";
    for (int i = 0; i < l->children; i++)
        if (l->child[i].done && !is_worker(&l->child[i]))
            return err_set(e, SHOAL_E_UNAVAILABLE, "%s has ended%s; see %s", l->child[i].name, then,
                           l->child[i].log);
    return 0;
}

static int missed_error(const struct local *l, struct err *e)
{
    if (l->worker == NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "no worker is left and the job is not over; see %s/log", l->dir);
    return err_set(e, SHOAL_E_UNAVAILABLE,
                   "every program of --worker has ended and the job is not over: each must take "
                   "batches until there are no more, as `for batch in work` does; see "
                   "%s/log/worker-0.log",
                   l->dir);
}

/* An error when all workers are gone. */
static int workers_missed(const struct local *l, uint64_t *alone_ns, struct err *e)
{
    uint64_t now = time_monotonic_ns();
    bool any = false;
    for (int i = 0; i < l->children; i++)
        any |= is_worker(&l->child[i]) && !l->child[i].done;
    if (any || *alone_ns == 0)
        *alone_ns = now;
    if (now - *alone_ns > ALONE_NS)
        return missed_error(l, e);
    return 0;
}

/* ---- the job --------------------------------------------------------------------------------- */

int local_start(struct local *l, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < l->children && rc == 0; i++)
        if (!is_worker(&l->child[i]))
            rc = child_start(&l->child[i], e);
    return rc;
}

static int workers_start(struct local *l, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < l->children && rc == 0; i++)
        if (is_worker(&l->child[i]))
            rc = child_start(&l->child[i], e);
    return rc;
}

/* A silent coordinator is given up after SUBMIT_SILENT_NS. One that answers while it still learns
 * the state of its servers is waited for. */
int local_submit(struct local *l, const char *text, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_SUBMIT}, reply;
    struct frame f = {(void *)(uintptr_t)text, strlen(text), NULL, NULL};
    const struct timespec pause = {0, 20000000};
    uint64_t asked = time_monotonic_ns(), heard = asked;
    l->text = text;
    w.u.SUBMIT.workers = (uint32_t)l->workers;
    memcpy(w.u.SUBMIT.from, l->begin.path, sizeof l->begin.path);
    w.u.SUBMIT.start = l->begin.start;
    while (interrupted == 0 && asked - heard < SUBMIT_SILENT_NS) {
        int rc = cli_ask(l->ask, &w, &f, SUBMIT_MS, &reply, NULL, e);
        if (rc == 0)
            return workers_start(l, e);
        if (rc != SHOAL_E_UNAVAILABLE)
            return rc;
        if (time_monotonic_ns() - asked < SUBMIT_MS * UINT64_C(1000000)) {
            heard = time_monotonic_ns();
            char *advice = strchr(e->text, ':'); /* the advice after the colon is followed here */
            if (advice != NULL)
                *advice = 0;
            line_show(l, e->text, true);
        }
        if ((rc = local_children_watch(l, e)) != 0 || (rc = daemon_missed(l, e)) != 0)
            return rc;
        nanosleep(&pause, NULL);
        asked = time_monotonic_ns();
    }
    if (interrupted != 0)
        return err_set(e, SHOAL_E_STOPPED, "stopped by signal %d", (int)interrupted);
    return SHOAL_E_UNAVAILABLE;
}

/* Once the tables are made, their names of the job's fields and tensors go into the run's job.yaml:
 * a command that looks for rows by a field's name needs them. */
static int names_keep(struct local *l, uint32_t state, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_JOB_TEXT}, reply;
    char path[LIMIT_PATH];
    struct msg *m;
    bool made = state == WIRE_JOB_TRAIN || state == WIRE_JOB_EVAL || state == WIRE_JOB_DONE;
    if (l->named || !made || cli_ask(l->ask, &w, NULL, 3000, &reply, &m, e) != 0)
        return 0; /* asked again with the next status */
    (void)snprintf(path, sizeof path, "%s/job.yaml", l->dir);
    char *text = strndup(m->frame[1].data, m->frame[1].bytes);
    int rc = local_file_replace(path, text, e);
    free(text);
    msg_free(m);
    l->named = rc == 0;
    return rc;
}

/* A job that waits for its workers is told the number without those that are not started again, or
 * that ended before it began. */
static void lying_tell(struct local *l)
{
    struct wire w = {.type = WIRE_TYPE_SUBMIT}, reply;
    struct frame f = {(void *)(uintptr_t)l->text, strlen(l->text), NULL, NULL};
    struct err silent;
    int lying = 0;
    for (int i = 0; i < l->children; i++)
        lying += is_worker(&l->child[i]) && l->child[i].done;
    if (lying == l->lying || lying >= l->workers)
        return;
    w.u.SUBMIT.workers = (uint32_t)(l->workers - lying);
    memcpy(w.u.SUBMIT.from, l->begin.path, sizeof l->begin.path);
    w.u.SUBMIT.start = l->begin.start;
    if (cli_ask(l->ask, &w, &f, SUBMIT_MS, &reply, NULL, &silent) == 0)
        l->lying = lying;
}

/* A signal asks a job without an end to end; a second signal ends it at once. */
static void end_ask(struct local *l, bool *asked)
{
    struct wire w = {.type = WIRE_TYPE_STOP}, reply;
    struct err silent;
    if (interrupted == 0 || *asked || l->job.data.objects.grow_ms == 0)
        return;
    *asked = true;
    w.u.STOP.job_only = true;
    if (cli_ask(l->ask, &w, NULL, 3000, &reply, NULL, &silent) != 0 || !reply.u.STOP_reply.ends)
        return;
    fputs("\nthe job ends behind the batches that are given out, with its report; another signal "
          "ends it at once\n",
          stderr);
    interrupted = 0;
}

int local_follow(struct local *l, int *job_status, struct err *e)
{
    bool asked = false;
    struct wire w = {.type = WIRE_TYPE_STATUS}, reply;
    struct err silent;
    struct msg *m;
    uint64_t heard = time_monotonic_ns(), alone = 0;
    while (end_ask(l, &asked), interrupted == 0) {
        struct timespec pause = {0, 200000000};
        nanosleep(&pause, NULL);
        int rc = local_children_watch(l, e);
        if (rc == 0)
            rc = daemon_missed(l, e);
        if (rc == 0)
            rc = workers_missed(l, &alone, e);
        if (rc != 0)
            return rc;
        if (cli_ask(l->ask, &w, NULL, 3000, &reply, &m, &silent) != 0) {
            if (time_monotonic_ns() - heard > 60000000000u)
                return err_set(
                    e, SHOAL_E_UNAVAILABLE,
                    "the coordinator has been silent for 60 s; see %s/log/coordinator.log", l->dir);
            continue;
        }
        heard = time_monotonic_ns();
        if (reply.u.STATUS_reply.state == WIRE_JOB_WAITING)
            lying_tell(l);
        struct json *s = NULL;
        if (json_parse(m->frame[1].data, m->frame[1].bytes, &s, NULL) == 0)
            progress_show(l, s);
        rc = disk_missed(l, s, e);
        if (rc == 0)
            rc = names_keep(l, reply.u.STATUS_reply.state, e);
        json_free(s);
        msg_free(m);
        if (rc != 0)
            return rc;
        if ((reply.u.STATUS_reply.state == WIRE_JOB_DONE && l->named) ||
            reply.u.STATUS_reply.state == WIRE_JOB_FAILED) {
            *job_status = reply.u.STATUS_reply.job_status;
            l->done = reply.u.STATUS_reply.state == WIRE_JOB_DONE;
            return 0;
        }
    }
    return err_set(e, SHOAL_E_STOPPED, "stopped by signal %d", (int)interrupted);
}

static bool other_answers(struct local *l)
{
    struct wire w = {.type = WIRE_TYPE_STATUS}, reply;
    struct err silent;
    if (l->ask == NULL && cli_ask_open(l->other, NULL, &l->ask, &silent) != 0)
        return false;
    return cli_ask(l->ask, &w, NULL, 500, &reply, NULL, &silent) == 0;
}

/* Ends the wait when the other coordinator is gone; its workers alone would ask its servers for
 * ever. */
static int other_missed(struct local *l, struct err *e)
{
    uint64_t now = time_monotonic_ns();
    if (l->other == NULL || now - l->other_ns < OTHER_ASK_NS)
        return 0;
    l->other_ns = now;
    if (l->other_said_ns == 0 || other_answers(l))
        l->other_said_ns = now;
    now = time_monotonic_ns() - l->other_said_ns;
    if (l->other_run != NULL) {
        if (now > OTHER_ENDED_NS && run_has(l->other_run, "report.json")) {
            if (run_kept(l->other_run, e) == 0)
                return err_set(e, SHOAL_E_UNAVAILABLE,
                               "the run in %s has ended meanwhile: the same line now reads what "
                               "it left",
                               l->other_run);
            return err_wrap(e, SHOAL_E_CONFIG, "the run has ended meanwhile");
        }
    }
    if (now <= OTHER_GONE_NS)
        return 0;
    if (l->other_run != NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "the coordinator of the run in %s does not answer any more: the run was "
                       "stopped",
                       l->other_run);
    return err_set(e, SHOAL_E_UNAVAILABLE,
                   "the coordinator at %s does not answer: is it running%s?", l->other,
                   cli_doubt(l->other));
}

int local_wait(struct local *l, int first, struct err *e)
{
    const struct timespec pause = {0, 5000000};
    while (interrupted == 0) {
        int going = 0, all = l->children, rc = 0;
        for (int i = first; i < all && rc == 0; i++) {
            struct child *c = &l->child[i];
            if (!c->done && child_ended(c)) {
                c->done = true;
                if (c->exit_status != 0)
                    rc = child_error(c, e);
            }
            going += !c->done;
        }
        l->children = first; /* the children from `first` on are not restarted */
        if (rc == 0)
            rc = local_children_watch(l, e);
        l->children = all;
        for (int i = 0; i < first && rc == 0; i++)
            if (l->child[i].done && !is_worker(&l->child[i]))
                rc = err_set(e, SHOAL_E_UNAVAILABLE, "%s has ended; see %s", l->child[i].name,
                             l->child[i].log);
        if (rc == 0 && going > 0)
            rc = other_missed(l, e);
        if (rc != 0 || going == 0)
            return rc;
        nanosleep(&pause, NULL);
    }
    return err_set(e, SHOAL_E_STOPPED, "stopped by signal %d", (int)interrupted);
}

/* ---- stopping -------------------------------------------------------------------------------- */

void local_stop(struct local *l)
{
    static const char *const order[] = {"worker", "server", "coordinator"};
    for (int step = 0; step < 3; step++) {
        uint64_t begin = time_monotonic_ns();
        bool running = true, told = false;
        while (running) {
            uint64_t waited = time_monotonic_ns() - begin;
            running = false;
            for (int i = 0; i < l->children; i++) {
                struct child *c = &l->child[i];
                if (strncmp(c->name, order[step], strlen(order[step])) != 0)
                    continue;
                (void)child_ended(c);
                if (c->process.pid != 0 && waited > 30000000000u)
                    child_signal(c, SIGKILL);
                else if (c->process.pid != 0 && !told &&
                         (step > 0 || waited > 1000000000u || interrupted != 0))
                    child_signal(c, SIGTERM);
                running |= c->process.pid != 0;
            }
            told |= step > 0 || waited > 1000000000u || interrupted != 0;
            struct timespec pause = {0, 5000000};
            if (running)
                nanosleep(&pause, NULL);
        }
    }
}
