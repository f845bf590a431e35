/* local.c: `shoal local`: a whole cluster on this machine, for one job, to its end.
 *
 * It writes the daemons' configuration into the run folder, starts coordinator, servers and workers, submits the job, shows how it
 * goes, starts again whatever dies, prints the report and stops everything. The daemons are the ones a fleet runs. */
#include "deploy/cli/child.h"
#include "deploy/cli/cli.h"
#include "deploy/cli/warm.h"
#include "deploy/cli/report_page.h"
#include "proto/base/log.h"
#include "proto/base/time.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SERVERS_MAX = 16, WORKERS_MAX = 64, QUICK_DEATHS_MAX = 5, SERVER_SETS_MAX = 8 };
#define ALONE_NS 15000000000ull /* without any worker for so long the job goes nowhere */

struct local {
    const char *job_path;
    struct string_list set, server_set; /* keys of the job file, of each server.yaml */
    struct job job;
    char dir[512], programs[512];
    int servers, workers, ports[1 + SERVERS_MAX];
    char coordinator[64];
    struct child child[1 + SERVERS_MAX + WORKERS_MAX];
    int children;
    struct ask *ask;
    char from[LIMIT_PATH];   /* a checkpoint to go on from; empty: none */
    const char *tensorboard; /* folder for event files; NULL: none */
    bool restart; /* --no-restart: tests of what happens then */
    uint64_t last_line_ns;
    bool line_open;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int signo)
{
    interrupted = signo;
}

static const char help[] =
    "usage: shoal local JOB.yaml [options]\n\n"
    "Runs the job with a coordinator, servers and workers on this machine and leaves DIR/report.json.\n\n"
    "  --servers N      server processes (default 1)\n"
    "  --workers N      worker processes (default 1)\n"
    "  --run-dir DIR    where everything of this run is kept (default runs/JOB-DATE-TIME; must be new or empty)\n"
    "  --set KEY=VALUE  change a key of the job file, such as --set train.batch=8192; may be repeated\n"
    "  --server-set KEY=VALUE  change a key of each server's file, such as --server-set memory=4GiB; may be repeated\n"
    "  --tensorboard DIR  write event files for TensorBoard into DIR/JOB-NUMBER\n"
    "  --no-restart     do not start a dead server or worker again\n"
    "  --warm-start DIR begin with the tables of the ended run in DIR; as `warm_start` of the job file\n"
    "  --from FOLDER    go on from a checkpoint at the very batch; with any number of servers and workers\n"
    "  --help           this text\n\n"
    "Exit status: 0 done, 64 wrong usage, 65 bad data, 66 input missing, 69 service unreachable, 70 internal error,\n"
    "73 cannot create output, 74 I/O error, 78 bad configuration.\n";

/* ---- setting up ------------------------------------------------------------------------------------------- */

static int folder_make(const char *path, struct err *e)
{
    char part[LIMIT_PATH];

    (void)snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1;; p++) {
        if (*p != '/' && *p != 0)
            continue;
        char keep = *p;
        *p = 0;
        if (mkdir(part, 0755) != 0 && errno != EEXIST)
            return err_set(e, SHOAL_E_CANTCREATE, "cannot make the folder %s: %s", part, strerror(errno));
        *p = keep;
        if (keep == 0)
            return 0;
    }
}

static int run_dir_make(struct local *l, const char *wish, struct err *e)
{
    char path[LIMIT_PATH], absolute[4096];
    time_t now = (time_t)(time_wall_ns() / 1000000000u);
    struct tm t;

    localtime_r(&now, &t);
    if (wish != NULL)
        (void)snprintf(path, sizeof path, "%s", wish);
    else
        (void)snprintf(path, sizeof path, "runs/%s-%04d%02d%02d-%02d%02d%02d", l->job.name, t.tm_year + 1900, t.tm_mon + 1, t.tm_mday,
                       t.tm_hour, t.tm_min, t.tm_sec);
    int status = folder_make(path, e);
    if (status != 0)
        return status;
    if (realpath(path, absolute) == NULL || strlen(absolute) >= sizeof l->dir)
        return err_set(e, SHOAL_E_CANTCREATE, "the folder %s cannot be used: its full path is too long or not readable", path);
    memcpy(l->dir, absolute, strlen(absolute) + 1);
    (void)snprintf(path, sizeof path, "%s/report.json", l->dir);
    if (access(path, F_OK) == 0)
        return err_set(e, SHOAL_E_EXISTS, "%s holds an earlier run; name another --run-dir or remove it", l->dir);
    (void)snprintf(path, sizeof path, "%s/log", l->dir);
    return folder_make(path, e);
}

/* Free loopback ports, found by binding all of them at once; another process could take one before the daemon does: it then says so. */
static int ports_find(struct local *l, struct err *e)
{
    int fd[1 + SERVERS_MAX], count = 1 + l->servers, status = 0;

    for (int i = 0; i < count; i++)
        fd[i] = -1;
    for (int i = 0; i < count && status == 0; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t bytes = sizeof a;
        fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd[i] < 0 || bind(fd[i], (struct sockaddr *)&a, sizeof a) != 0 || getsockname(fd[i], (struct sockaddr *)&a, &bytes) != 0)
            status = err_set(e, SHOAL_E_UNAVAILABLE, "no free loopback port: %s", strerror(errno));
        l->ports[i] = ntohs(a.sin_port);
    }
    for (int i = 0; i < count; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    return status;
}

static int file_write(const char *path, const char *text, struct err *e)
{
    FILE *f = fopen(path, "w");

    if (f == NULL)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", path, strerror(errno));
    fputs(text, f);
    if (fclose(f) != 0)
        return err_set(e, SHOAL_E_IO, "cannot write %s: %s", path, strerror(errno));
    return 0;
}

static struct child *child_add(struct local *l, const char *program, const char *name)
{
    struct child *c = &l->child[l->children++];

    (void)snprintf(c->name, sizeof c->name, "%s", name);
    (void)snprintf(c->log, sizeof c->log, "%s/log/%s.log", l->dir, name);
    (void)snprintf(c->arg[c->args++], sizeof c->arg[0], "%.200s/%s", l->programs, program);
    return c;
}

static void child_arg(struct child *c, const char *format, const char *value)
{
    (void)snprintf(c->arg[c->args++], sizeof c->arg[0], "%s", format);
    if (value != NULL)
        (void)snprintf(c->arg[c->args++], sizeof c->arg[0], "%.255s", value);
}

static int coordinator_prepare(struct local *l, struct err *e)
{
    char text[4096], path[LIMIT_PATH];

    (void)snprintf(l->coordinator, sizeof l->coordinator, "tcp://127.0.0.1:%d", l->ports[0]);
    (void)snprintf(text, sizeof text,
                   "# written by `shoal local`\nlisten: \"%s\"\ndata_dir: \"%s/coordinator\"\nshards: %d\nlease: %u ms\nreport: \"%s/report.json\"\npublish: true\n",
                   l->coordinator, l->dir, l->servers, l->job.coordinator.lease_ms, l->dir);
    (void)snprintf(path, sizeof path, "%s/coordinator.yaml", l->dir);
    struct child *c = child_add(l, "shoal-coordinator", "coordinator");
    child_arg(c, "--config", path);
    if (l->tensorboard != NULL && strlen(l->tensorboard) >= sizeof c->arg[0])
        return err_set(e, SHOAL_E_USAGE, "--tensorboard: a path has at most %zu bytes", sizeof c->arg[0] - 1);
    if (l->tensorboard != NULL)
        child_arg(c, "--tensorboard", l->tensorboard);
    return file_write(path, text, e);
}

static int server_prepare(struct local *l, int i, struct err *e)
{
    static const char *const durability[] = {"memory", "journal", "fsync"};
    char text[4096], path[LIMIT_PATH], name[32], journal[128] = "";

    (void)snprintf(name, sizeof name, "server-%d", i);
    if (l->job.journal.max > 0 || l->job.journal.keep > 0) /* max 0: the server's own choice */
        (void)snprintf(journal, sizeof journal, "journal: {max: %llu, keep: %llu}\n", (unsigned long long)l->job.journal.max,
                       (unsigned long long)l->job.journal.keep);
    (void)snprintf(text, sizeof text,
                   "# written by `shoal local`\nname: %s\nlisten: \"tcp://127.0.0.1:%d\"\ndata_dir: \"%s/%s\"\nshards: 1\n"
                   "coordinator: \"%s\"\ndurability: %s\nnet: {drop: %g}\n%s",
                   name, l->ports[1 + i], l->dir, name, l->coordinator, durability[l->job.durability], l->job.net.drop, journal);
    (void)snprintf(path, sizeof path, "%s/%s.yaml", l->dir, name);
    struct child *c = child_add(l, "shoal-server", name);
    child_arg(c, "--config", path);
    if (l->server_set.count > SERVER_SETS_MAX)
        return err_set(e, SHOAL_E_USAGE, "--server-set may be given %d times at most", SERVER_SETS_MAX);
    for (size_t k = 0; k < l->server_set.count; k++) {
        if (strlen(l->server_set.item[k]) >= sizeof c->arg[0])
            return err_set(e, SHOAL_E_USAGE, "--server-set %.40s...: at most %zu bytes", l->server_set.item[k], sizeof c->arg[0] - 1);
        child_arg(c, "--set", l->server_set.item[k]);
    }
    return file_write(path, text, e);
}

/* Cores that a worker's parsing may keep busy: all workers share this machine. */
static int cores_each(const struct local *l)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;

    return cores > l->workers ? cores / l->workers : 1;
}

/* Worker i works on GPU i, as far as there are so many. */
static void worker_prepare(struct local *l, int i)
{
    char name[32], lanes[16], device[16], cores[16], path[LIMIT_PATH];

    (void)snprintf(name, sizeof name, "worker-%d", i);
    (void)snprintf(lanes, sizeof lanes, "%u", job_lanes(&l->job));
    (void)snprintf(device, sizeof device, "%d", i);
    (void)snprintf(cores, sizeof cores, "%d", cores_each(l));
    (void)snprintf(path, sizeof path, "%s/job.yaml", l->dir);
    struct child *c = child_add(l, "shoal-worker", name);
    child_arg(c, "train", NULL);
    child_arg(c, "--config", path);
    child_arg(c, "--coordinator", l->coordinator);
    child_arg(c, "--name", name);
    child_arg(c, "--lanes", lanes);
    child_arg(c, "--device", device);
    child_arg(c, "--cores", cores);
}

static int programs_find(struct local *l, struct err *e)
{
    char probe[LIMIT_PATH];
    ssize_t n = readlink("/proc/self/exe", l->programs, sizeof l->programs - 1);

    if (n <= 0)
        return err_set(e, SHOAL_E_INTERNAL, "cannot find where this program lies");
    l->programs[n] = 0;
    *strrchr(l->programs, '/') = 0;
    (void)snprintf(probe, sizeof probe, "%s/shoal-server", l->programs);
    if (access(probe, X_OK) != 0)
        return err_set(e, SHOAL_E_UNAVAILABLE, "%s is not there: install or build all of Shoal's programs into one folder", probe);
    return 0;
}

/* ---- watching --------------------------------------------------------------------------------------------- */

static void line_show(struct local *l, const char *text, bool passing)
{
    bool terminal = isatty(STDOUT_FILENO) != 0;

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

static void progress_show(struct local *l, const struct json *s)
{
    char line[256];

    progress_text(s, line);
    line_show(l, line, true);
}

static bool is_worker(const struct child *c)
{
    return strncmp(c->name, "worker", 6) == 0;
}

/* A worker that cannot run, by its own fault (a device that fails each time, say), is left where it lies as long as another is there. */
static bool worker_spared(const struct local *l, const struct child *c)
{
    for (int i = 0; i < l->children && is_worker(c); i++)
        if (&l->child[i] != c && is_worker(&l->child[i]) && !l->child[i].done)
            return (c->exit_status == 69 || c->exit_status == 70);
    return false;
}

/* Starts again what died; a program that dies at once, again and again, ends the run with its last words. */
static int children_watch(struct local *l, struct err *e)
{
    char line[512], words[256];

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
            c->done = true;
            continue;
        }
        if (c->quick_deaths >= QUICK_DEATHS_MAX && worker_spared(l, c)) {
            (void)snprintf(line, sizeof line, "%s ended %u times soon after its start (exit status %d: %s); going on without it", c->name,
                           c->quick_deaths, c->exit_status, words);
            line_show(l, line, false);
            c->done = true;
            continue;
        }
        if (c->quick_deaths >= QUICK_DEATHS_MAX || c->exit_status == 78 || c->exit_status == 77 || c->exit_status == 64)
            return err_set(e, c->exit_status == 78 ? SHOAL_E_CONFIG : SHOAL_E_UNAVAILABLE, "%s cannot run (exit status %d): %s; see %s",
                           c->name, c->exit_status, words, c->log);
        c->restarts++;
        (void)snprintf(line, sizeof line, "%s ended (%s %d), starting it again", c->name, c->exit_status > 128 ? "signal" : "exit status",
                       c->exit_status > 128 ? c->exit_status - 128 : c->exit_status);
        line_show(l, line, false);
        int status = child_start(c, e);
        if (status != 0)
            return status;
    }
    return 0;
}

/* What will not come back must not be waited for: all workers gone, or a daemon that --no-restart leaves dead. */
static int children_missed(struct local *l, uint64_t *alone_ns, struct err *e)
{
    uint64_t now = time_monotonic_ns();
    bool any = false;

    for (int i = 0; i < l->children; i++) {
        struct child *c = &l->child[i];
        bool worker = is_worker(c);
        any |= worker && !c->done;
        if (c->done && !worker && l->job.durability != DURABLE_MEMORY)
            return err_set(e, SHOAL_E_UNAVAILABLE, "%s has ended and --no-restart leaves it so; see %s", c->name, c->log);
    }
    if (any || *alone_ns == 0)
        *alone_ns = now;
    if (now - *alone_ns > ALONE_NS)
        return err_set(e, SHOAL_E_UNAVAILABLE, "no worker is left and the job is not over; see %s/log", l->dir);
    return 0;
}

static int job_submit(struct local *l, const char *text, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_SUBMIT}, reply;
    struct frame f = {(void *)(uintptr_t)text, strlen(text), NULL, NULL};
    int status = SHOAL_E_UNAVAILABLE;

    w.u.SUBMIT.workers = (uint32_t)l->workers;
    memcpy(w.u.SUBMIT.from, l->from, sizeof l->from);
    for (int tries = 0; tries < 30 && status != 0 && interrupted == 0; tries++) {
        status = ask(l->ask, &w, &f, 2000, &reply, NULL, e);
        if (status != 0 && status != SHOAL_E_UNAVAILABLE)
            return status;
        int watched = children_watch(l, e);
        if (watched != 0)
            return watched;
    }
    return status;
}

/* Until the job is over: 0 and its outcome in *job_status, or what broke. */
static int job_follow(struct local *l, int *job_status, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_STATUS}, reply;
    struct err silent;
    struct msg *m;
    uint64_t heard = time_monotonic_ns(), alone = 0;

    while (interrupted == 0) {
        struct timespec pause = {0, 200000000};
        nanosleep(&pause, NULL);
        int status = children_watch(l, e);
        if (status == 0)
            status = children_missed(l, &alone, e);
        if (status != 0)
            return status;
        if (ask(l->ask, &w, NULL, 3000, &reply, &m, &silent) != 0) {
            if (time_monotonic_ns() - heard > 60000000000u)
                return err_set(e, SHOAL_E_UNAVAILABLE, "the coordinator has been silent for 60 s; see %s/log/coordinator.log", l->dir);
            continue;
        }
        heard = time_monotonic_ns();
        struct json *s = NULL;
        if (json_parse(m->frame[1].data, m->frame[1].bytes, &s, NULL) == 0)
            progress_show(l, s);
        json_free(s);
        msg_free(m);
        if (reply.u.STATUS_reply.state == WIRE_JOB_DONE || reply.u.STATUS_reply.state == WIRE_JOB_FAILED) {
            *job_status = reply.u.STATUS_reply.job_status;
            return 0;
        }
    }
    return err_set(e, SHOAL_E_STOPPED, "stopped by signal %d", (int)interrupted);
}

/* ---- ending ----------------------------------------------------------------------------------------------- */

/* Workers leave by themselves when the job is over; then servers, then the coordinator; what does not go is killed. */
static void children_stop(struct local *l)
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
                if (c->pid != 0 && waited > 30000000000u)
                    child_signal(c, SIGKILL);
                else if (c->pid != 0 && !told && (step > 0 || waited > 1000000000u || interrupted != 0))
                    child_signal(c, SIGTERM);
                running |= c->pid != 0;
            }
            told |= step > 0 || waited > 1000000000u || interrupted != 0;
            struct timespec pause = {0, 5000000};
            if (running)
                nanosleep(&pause, NULL);
        }
    }
}

/* The teacher's AUC that the job's is measured by: of its label, or of several the mean, as the report has it. NaN where
 * the file lacks one of them. The first label of a file has plain names too, which count where there is no other. */
static double teacher_auc(const struct json *t, const struct job *job)
{
    char key[LIMIT_NAME + 8];
    double sum = 0;
    uint32_t labels = job->data.label_count;

    for (uint32_t i = 0; i < labels; i++) {
        (void)snprintf(key, sizeof key, "%s_auc", job->data.label[i]);
        double auc = json_as_number(json_get(t, key), (double)NAN);
        sum += isnan(auc) && labels == 1 ? json_as_number(json_get(t, "auc"), (double)NAN) : auc;
    }
    return labels == 0 ? (double)NAN : sum / labels;
}

/* The best possible AUC, where the log came from `shoal synth`: FILE.teacher.json beside the file that was evaluated. */
static void teacher_fill(struct local *l, struct json *report)
{
    char path[LIMIT_PATH];
    bool test = l->job.data.test.count > 0;
    const struct string_list *files = test ? &l->job.data.test : &l->job.data.valid;

    if (files->count != 1)
        return;
    (void)snprintf(path, sizeof path, "%s.teacher.json", files->item[0]);
    struct json *t;
    if (json_file(path, &t, NULL) != 0)
        return;
    double auc = teacher_auc(t, &l->job);
    if (!isnan(auc)) {
        (void)json_set_number(report, "teacher_auc", auc);
        (void)json_set_string(report, "teacher_split", test ? "test" : "valid");
    }
    json_free(t);
}

static int report_finish(struct local *l, struct err *e)
{
    char path[LIMIT_PATH], temporary[LIMIT_PATH];
    int restarts = 0;

    (void)snprintf(path, sizeof path, "%s/report.json", l->dir);
    (void)snprintf(temporary, sizeof temporary, "%s/report.json.tmp", l->dir);
    struct json *report;
    if (json_file(path, &report, NULL) != 0)
        return err_set(e, SHOAL_E_INTERNAL, "the coordinator left no %s; see %s/log/coordinator.log", path, l->dir);
    for (int i = 0; i < l->children; i++)
        restarts += (int)l->child[i].restarts;
    teacher_fill(l, report);
    (void)json_set_int(report, "restarts", restarts);
    char *text = json_text(report, 2);
    int status = text == NULL ? err_set(e, SHOAL_E_NOMEM, "out of memory") : file_write(temporary, text, e);
    free(text);
    if (status == 0 && rename(temporary, path) != 0)
        status = err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", path, strerror(errno));
    if (status != 0)
        (void)unlink(temporary);
    (void)snprintf(path, sizeof path, "%s/report.html", l->dir);
    if (status == 0)
        status = report_html(report, path, e);
    if (status == 0)
        report_print(report, l->dir, l->job_path);
    json_free(report);
    return status;
}

/* The job's own failure, in the coordinator's words. */
static int job_failure(struct local *l, int job_status, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_REPORT}, reply;
    struct err silent;
    bool other_tables = job_status == SHOAL_E_SCHEMA && l->job.warm_start[0] != 0;

    if (ask(l->ask, &w, NULL, 3000, &reply, NULL, &silent) == 0 && reply.u.REPORT_reply.job_text[0] != 0)
        return err_set(e, job_status, "%s%s%s", reply.u.REPORT_reply.job_text, other_tables ? "; a warm start needs the very tables of " : "",
                       other_tables ? l->job.warm_start : "");
    return err_set(e, job_status, "the job failed: %s; see %s/log", err_text(job_status), l->dir);
}

/* ---- the whole -------------------------------------------------------------------------------------------- */

static int local_prepare(struct local *l, const char *run_dir, char **text, struct err *e)
{
    char cache[LIMIT_PATH + 32], path[LIMIT_PATH];
    int status = job_load(l->job_path, &l->set, &l->job, e);

    if (status == 0)
        status = programs_find(l, e);
    if (status == 0)
        status = run_dir_make(l, run_dir, e);
    if (status != 0)
        return status;
    if (l->job.data.cache[0] == 0) {
        (void)snprintf(cache, sizeof cache, "data.cache=%s/cache", l->dir);
        if (string_list_add(&l->set, cache) != 0)
            return err_set(e, SHOAL_E_NOMEM, "out of memory");
    }
    if (l->job.checkpoint.dir[0] == 0) {
        (void)snprintf(cache, sizeof cache, "checkpoint.dir=%s/checkpoints", l->dir);
        if (string_list_add(&l->set, cache) != 0)
            return err_set(e, SHOAL_E_NOMEM, "out of memory");
    }
    status = job_text(l->job_path, &l->set, text, e);
    (void)snprintf(path, sizeof path, "%s/job.yaml", l->dir);
    if (status == 0)
        status = file_write(path, *text, e);
    if (status == 0 && l->job.warm_start[0] != 0)
        status = warm_copy(l->job.warm_start, l->dir, l->servers, e);
    if (status == 0)
        status = ports_find(l, e);
    if (status == 0)
        status = coordinator_prepare(l, e);
    for (int i = 0; i < l->servers && status == 0; i++)
        status = server_prepare(l, i, e);
    for (int i = 0; i < l->workers && status == 0; i++)
        worker_prepare(l, i);
    return status;
}

static int local_run(struct local *l, const char *run_dir, struct err *e)
{
    char *text = NULL;
    int job_status = 0, status = local_prepare(l, run_dir, &text, e);

    for (int i = 0; i < l->children && status == 0; i++)
        status = child_start(&l->child[i], e);
    if (status == 0)
        status = ask_open(l->coordinator, &l->ask, e);
    if (status == 0) {
        printf("%s: %d server%s, %d worker%s; everything of this run is in %s\n", l->job.name, l->servers, l->servers == 1 ? "" : "s",
               l->workers, l->workers == 1 ? "" : "s", l->dir);
        status = job_submit(l, text, e);
    }
    free(text);
    if (status == 0)
        status = job_follow(l, &job_status, e);
    if (l->line_open)
        putchar('\n');
    if (status == 0 && job_status != 0)
        status = job_failure(l, job_status, e);
    children_stop(l);
    if (status == 0)
        status = report_finish(l, e);
    ask_close(l->ask);
    return status;
}

/* The option is the job's key. */
static int warm_start_set(struct local *l, const char *from, struct err *e)
{
    char key[LIMIT_PATH + 32];

    if (from == NULL)
        return 0;
    (void)snprintf(key, sizeof key, "warm_start=\"%.*s\"", (int)LIMIT_PATH, from);
    return string_list_add(&l->set, key) == 0 ? 0 : err_set(e, SHOAL_E_NOMEM, "out of memory");
}

int local_main(int argc, char **argv)
{
    static struct local l;
    struct err e = {0};
    const char *words[1];
    int word_count;
    int64_t servers = 0, workers = 0;
    struct cli_option options[] = {{"--servers", false, "1", NULL},  {"--workers", false, "1", NULL}, {"--run-dir", false, NULL, NULL},
                                   {"--set", false, NULL, &l.set},   {"--no-restart", true, NULL, NULL}, {"--help", true, NULL, NULL},
                                   {"--tensorboard", false, NULL, NULL}, {"--warm-start", false, NULL, NULL}, {"--from", false, NULL, NULL},
                                   {"--server-set", false, NULL, &l.server_set}, {NULL, false, NULL, NULL}};

    int status = cli_parse(argc, argv, options, words, 1, &word_count, &e);
    if (status == 0 && options[5].value != NULL) {
        fputs(help, stdout);
        return 0;
    }
    if (status == 0 && word_count != 1)
        status = err_set(&e, SHOAL_E_USAGE, "name one job file: shoal local JOB.yaml; those that ship are in deploy/jobs");
    if (status == 0)
        status = cli_number(&options[0], 1, SERVERS_MAX, &servers, &e);
    if (status == 0)
        status = cli_number(&options[1], 1, WORKERS_MAX, &workers, &e);
    if (status == 0) {
        struct sigaction action = {.sa_handler = on_signal};
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        signal(SIGPIPE, SIG_IGN);
        l.job_path = words[0];
        l.servers = (int)servers;
        l.workers = (int)workers;
        l.restart = options[4].value == NULL;
        l.tensorboard = options[6].value;
        status = warm_start_set(&l, options[7].value, &e);
    }
    if (status == 0 && options[8].value != NULL)
        status = submit_from(options[8].value, l.from, &e);
    if (status == 0)
        status = local_run(&l, options[2].value, &e);
    string_list_free(&l.set);
    string_list_free(&l.server_set);
    job_free(&l.job);
    return status == 0 ? 0 : cli_fail("local", &e);
}
