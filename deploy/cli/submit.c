/* submit.c: `shoal submit` and `shoal stop`: hand a job to a running coordinator, follow it, end it
 * early. */
#include "deploy/cli/cli.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/job/job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { QUESTION_MS = 10000, SILENCE_MAX_MS = 60000 };
#define LEARNS_NS UINT64_C(15000000000)

/* said: what the coordinator has to say of the job that it took; "": nothing. */
static int job_submit(struct ask *a, const char *text, int64_t workers, const struct begin *begin,
                      uint64_t *run, char said[ERR_TEXT_MAX], struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_SUBMIT}, reply;
    struct frame f = {(void *)(uintptr_t)text, strlen(text), NULL, NULL};
    w.u.SUBMIT.workers = (uint32_t)workers;
    memcpy(w.u.SUBMIT.from, begin->path, sizeof begin->path);
    w.u.SUBMIT.start = begin->start;
    const struct timespec pause = {0, 200000000};
    uint64_t begun = time_monotonic_ns(), asked = begun;
    int rc = cli_ask(a, &w, &f, QUESTION_MS, &reply, NULL, e);
    /* It answers, but still learns the state of the servers; that comes with their next beats. */
    while (rc == SHOAL_E_UNAVAILABLE && time_monotonic_ns() - asked < QUESTION_MS * 1000000ull &&
           time_monotonic_ns() - begun < LEARNS_NS) {
        nanosleep(&pause, NULL);
        asked = time_monotonic_ns();
        rc = cli_ask(a, &w, &f, QUESTION_MS, &reply, NULL, e);
    }
    said[0] = 0;
    if (rc != 0)
        return rc;
    *run = reply.u.SUBMIT_reply.run;
    memcpy(said, reply.u.SUBMIT_reply.said, ERR_TEXT_MAX);
    return 0;
}

/* Shows the input's fields once, before training begins. */
static void input_show(const struct json *s, bool *shown)
{
    const struct json *input = json_get(s, "input");
    char line[2048];
    if (*shown || input == NULL)
        return;
    if (isatty(STDOUT_FILENO))
        fputs("\r\033[K", stdout);
    for (size_t i = 0; cli_input_line(input, i, line, sizeof line); i++)
        puts(line);
    *shown = true;
}

/* Prints a line at each change on a terminal, and one every five seconds elsewhere. */
static void progress_show(const struct json *s, unsigned round)
{
    char line[256];
    cli_progress_text(s, line);
    text_clean(line);
    if (isatty(STDOUT_FILENO))
        printf("\r\033[K%s", line);
    else if (round % 10 == 0)
        puts(line);
    fflush(stdout);
}

/* A coordinator of an older release tells of the job that it took last, maybe another one. */
static int own_check(const struct json *s, uint64_t run, struct err *e)
{
    uint64_t shown = (uint64_t)json_get_int(s, "run", 0);
    if (shown == 0 || shown == run)
        return 0;
    return err_set(e, SHOAL_E_UNAVAILABLE,
                   "run %" PRIu64 " is over, and run %" PRIu64 " of job %s has followed it before "
                   "its end was seen here; the coordinator's log says how it ended",
                   run, shown, json_get_string(s, "job", "?"));
}

/* Looks for the job in the list. *over: it has ended, with *job_status; else it waits for its turn.
 * An error: it is not in the list. */
static int listed_check(struct ask *a, uint64_t run, bool *over, int *job_status, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_JOBS}, reply;
    struct json *list = NULL;
    struct msg *m;
    int rc = cli_ask(a, &w, NULL, QUESTION_MS, &reply, &m, e);
    if (rc != 0)
        return rc;
    rc = json_parse(m->frame[1].data, m->frame[1].bytes, &list, e);
    msg_free(m);
    const char *state = "";
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *line = json_array_at(list, i);
        if ((uint64_t)json_get_int(line, "number", 0) != run)
            continue;
        state = json_get_string(line, "state", "");
        *job_status = (int)json_get_int(line, "status", 0);
    }
    *over = strcmp(state, "submitted") != 0 && strcmp(state, "running") != 0;
    if (rc == 0 && state[0] == 0)
        rc = SHOAL_E_NOT_FOUND;
    json_free(list);
    return rc;
}

/* Returns when the job is over; its status is in *job_status. */
static int job_follow(struct ask *a, uint64_t run, int *job_status, struct err *e)
{
    const struct timespec pause = {0, 500000000};
    uint32_t silent_ms = 0;
    bool input_shown = false;
    struct err silent;
    for (unsigned round = 0;; round++) {
        struct wire w = {.type = WIRE_TYPE_STATUS, .u.STATUS.run = run}, reply;
        struct json *s = NULL;
        struct msg *m = NULL;
        nanosleep(&pause, NULL);
        int rc = cli_ask(a, &w, NULL, QUESTION_MS, &reply, &m, e);
        if (rc == SHOAL_E_UNAVAILABLE && (silent_ms += QUESTION_MS) < SILENCE_MAX_MS)
            continue; /* a coordinator that was killed is restarted and goes on */
        if (rc == SHOAL_E_UNAVAILABLE)
            err_wrap(e, rc,
                     "run %" PRIu64 " was taken and does not need this command, which has "
                     "waited for the coordinator for %d s",
                     run, SILENCE_MAX_MS / 1000);
        bool over = false, other = rc == SHOAL_E_NOT_FOUND; /* it waits, or has ended */
        if (rc != 0 && !other)
            return rc;
        silent_ms = 0;
        if (!other && json_parse(m->frame[1].data, m->frame[1].bytes, &s, NULL) == 0)
            other = own_check(s, run, e) != 0;
        if (s != NULL && !other) {
            input_show(s, &input_shown);
            progress_show(s, round);
        }
        json_free(s);
        msg_free(m);
        if (other && listed_check(a, run, &over, job_status, &silent) != 0)
            return e->code;
        if (over)
            return 0;
        if (other) /* it waits for its turn */
            continue;
        *job_status = reply.u.STATUS_reply.job_status;
        if (reply.u.STATUS_reply.state == WIRE_JOB_DONE ||
            reply.u.STATUS_reply.state == WIRE_JOB_FAILED)
            return 0;
    }
}

/* The coordinator has no report of the job any more because many jobs have ended since. */
static int outcome_bare(uint64_t run, int job_status, struct err *e)
{
    if (job_status != 0)
        return err_set(e, job_status, "%s; the coordinator's log says more", err_text(job_status));
    printf("run %" PRIu64 " is done; its report is not kept there any more\n", run);
    return 0;
}

/* The report of a job that is done, or the sentence of one that failed. */
static int job_outcome(struct ask *a, uint64_t run, int job_status, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_REPORT, .u.REPORT.run = run}, reply;
    struct json *report = NULL;
    struct msg *m;
    int rc = cli_ask(a, &w, NULL, QUESTION_MS, &reply, &m, e);
    if (rc == SHOAL_E_NOT_FOUND)
        return outcome_bare(run, job_status, e);
    if (rc != 0)
        return rc;
    if (reply.u.REPORT_reply.state == WIRE_JOB_DONE)
        rc = json_parse(m->frame[1].data, m->frame[1].bytes, &report, e);
    if (report != NULL)
        cli_report_print(report, NULL, NULL);
    if (rc == 0 && job_status != 0)
        rc = err_set(e, job_status, "%s",
                     text_unless_empty(reply.u.REPORT_reply.job_text, err_text(job_status)));
    json_free(report);
    msg_free(m);
    return rc;
}

/* A note for a job that trains and makes no checkpoint by itself. */
static void keeps_none_say(const struct job *j, const char *path)
{
    if (j->train.skip || j->checkpoint.at_end || j->checkpoint.every_batches > 0 ||
        j->checkpoint.every_minutes > 0 || (j->replay.on && j->replay.checkpoint))
        return;
    fprintf(stderr,
            "warning: %s makes no checkpoint, and when the disk of a server is lost, so are all "
            "rows of all servers that no checkpoint has: set checkpoint.every_minutes, and "
            "checkpoint.dir to a folder that coordinator and servers share\n",
            path);
}

void cli_lanes_say(const struct job *j, const char *path, int64_t workers)
{
    int64_t lanes = job_lanes(j);
    if (j->train.skip || j->train.lanes == 0 || workers <= lanes)
        return;
    fprintf(stderr,
            "warning: %s has %" PRId64 " lanes for %" PRId64 " workers, so %" PRId64
            " of them train nothing: set train.lanes to %" PRId64
            " or more, or to 0 for as many as the workers have places for\n",
            path, lanes, workers, workers - lanes, workers);
}

int cli_submit_job(const struct submit_order *o, struct err *e)
{
    struct ask *a = NULL;
    struct job job = {0};
    char *text = NULL, said[ERR_TEXT_MAX] = "";
    uint64_t run = 0;
    int job_status = 0, rc = job_text(o->path, o->set, &text, e);
    if (rc == 0)
        rc = job_load(o->path, o->set, &job, e);
    if (rc == 0)
        rc = cli_ask_open(o->coordinator, NULL, &a, e);
    if (rc == 0) {
        rc = job_submit(a, text, o->workers, &o->begin, &run, said, e);
        if (rc != 0)
            err_wrap(e, rc, "coordinator %s", o->coordinator);
    }
    if (rc == 0) {
        printf("%s is run %" PRIu64 "; `shoal status --job %" PRIu64
               " --coordinator %s` shows it, `shoal stop %" PRIu64 " --coordinator %s` ends it\n",
               o->path, run, run, o->coordinator, run, o->coordinator);
        if (said[0] != 0)
            puts(text_clean(said));
        fflush(stdout);
        keeps_none_say(&job, o->path);
        cli_lanes_say(&job, o->path, o->workers);
    }
    if (rc == 0 && o->wait) {
        rc = job_follow(a, run, &job_status, e);
        if (isatty(STDOUT_FILENO))
            putchar('\n');
        if (rc == 0)
            rc = job_outcome(a, run, job_status, e);
    }
    free(text);
    job_free(&job);
    cli_ask_close(a);
    return rc;
}

int cli_submit(struct option_line *o, struct err *e)
{
    struct begin begin = {.start = false};
    const char *coordinator = NULL;
    if (o->words != 1)
        return err_set(e, SHOAL_E_USAGE, "name one job file; see `shoal submit --help`");
    int rc = cli_coordinator(o, &coordinator, e);
    if (rc == 0)
        rc = begin_take(o, o->word[0], option_list(o, "set"), NULL, &begin, e);
    if (rc == 0)
        rc = cli_submit_job(&(struct submit_order){.path = o->word[0],
                                                   .set = option_list(o, "set"),
                                                   .coordinator = coordinator,
                                                   .begin = begin,
                                                   .workers = option_int(o, "workers"),
                                                   .wait = !option_given(o, "no-wait")},
                            e);
    return rc;
}

int cli_stop(struct option_line *o, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_STOP, .u.STOP.job_only = true}, reply;
    char *end = NULL;
    if (o->words == 1)
        w.u.STOP.run = strtoull(o->word[0], &end, 10);
    if (o->words == 1 && (*end != 0 || w.u.STOP.run == 0))
        return err_set(e, SHOAL_E_USAGE, "%s is no number of a job: shoal jobs lists them",
                       o->word[0]);
    int rc = cli_coordinator_ask(o, &w, QUESTION_MS, 0, &reply, NULL, e);
    if (rc != 0)
        return rc;
    if (reply.u.STOP_reply.said[0] != 0) {
        puts(text_clean(reply.u.STOP_reply.said));
        return 0;
    }
    puts(reply.u.STOP_reply.ends
             ? "the job ends soon: one that grows behind the batches that are given out, any "
               "other behind its last checkpoint; asked again it ends at once"
         : w.u.STOP.run != 0 ? "that job runs there no more"
                             : "no job runs there any more");
    return 0;
}
