/* local_setup.c: prepares `shoal local` before it starts anything: the run folder, the folder of
 * the sockets, the daemons' configuration and command lines, the job with this run's additions. */
#include "deploy/cli/hold.h"
#include "deploy/cli/local_inner.h"
#include "deploy/cli/run.h"
#include "deploy/cli/scratch.h"
#include "proto/base/assert.h"
#include "proto/base/device_list.h"
#include "proto/base/file.h"
#include "proto/base/machine.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/job/config.h"
#include "proto/job/given.h"
#include "proto/job/keys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SERVER_SETS_MAX = 8 };

/* ---- folders --------------------------------------------------------------------------------- */

static int folder_make(const char *path, struct err *e)
{
    char part[LIMIT_PATH];
    if (file_make_folders(path, 0700, part) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot make the folder %s: %s", part,
                       strerror(errno));
    return 0;
}

int local_folder_new(const char *parent, const char *job, char path[LIMIT_PATH], struct err *e)
{
    time_t now = (time_t)(time_wall_ns() / 1000000000u);
    struct tm t;
    int rc = folder_make(parent, e);
    if (rc != 0)
        return rc;
    localtime_r(&now, &t);
    int n = snprintf(path, LIMIT_PATH, "%s/%s-%04d%02d%02d-%02d%02d%02d", parent, job,
                     t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec);
    for (int i = 2; (rc = file_mkdir(path, 0700)) != 0 && errno == EEXIST && i < 100; i++)
        (void)snprintf(path + n, LIMIT_PATH - (size_t)n, "-%d", i);
    if (rc != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot make the folder %s: %s", path,
                       strerror(errno));
    return 0;
}

/* Sets l->ended when the folder's job has ended. Refuses a folder that also has the page, which is
 * made last: that run is complete. */
static int run_dir_look(struct local *l, struct err *e)
{
    l->ended = run_has(l->dir, "report.json");
    if (!l->ended || !run_has(l->dir, "report.html"))
        return 0;
    return err_set(e, SHOAL_E_EXISTS,
                   "%s holds an earlier run, which has ended; name another --run-dir or "
                   "remove it",
                   l->dir);
}

static int run_dir_make(struct local *l, const char *wish, struct err *e)
{
    char path[LIMIT_PATH], absolute[4096];
    if (wish != NULL)
        text_copy(path, sizeof path, wish);
    int rc;
    if (wish != NULL)
        rc = folder_make(path, e);
    else
        rc = local_folder_new("runs", l->job.name, path, e);
    if (rc != 0)
        return rc;
    if (realpath(path, absolute) == NULL || strlen(absolute) >= sizeof l->dir)
        return err_set(e, SHOAL_E_CANTCREATE,
                       "the folder %s cannot be used: its full path is too long or not readable",
                       path);
    memcpy(l->dir, absolute, strlen(absolute) + 1);
    rc = run_dir_look(l, e);
    if (rc == 0)
        rc = hold_take(l->dir, HOLD_WAIT_MS, NULL, e);
    if (rc == 0)
        rc = run_dir_look(l, e); /* the run may have ended meanwhile */
    if (rc != 0)
        return rc;
    l->had_failed = run_has(l->dir, LOCAL_FAILED_FILE);
    (void)snprintf(path, sizeof path, "%s/log", l->dir);
    return folder_make(path, e);
}

/* The daemons talk over sockets in a folder that only this user may enter. Its path is short,
 * however deep the run folder lies: the path of a socket has at most 107 bytes. */
int local_sockets_make(struct local *l, struct err *e)
{
    const char *own = getenv("XDG_RUNTIME_DIR");
    bool fits = own != NULL && own[0] == '/' && strlen(own) <= sizeof l->sockets - 32;
    (void)snprintf(l->sockets, sizeof l->sockets, "%s/shoal-XXXXXX", fits ? own : "/tmp");
    if (scratch_make(l->sockets) == 0)
        return 0;
    (void)snprintf(l->sockets, sizeof l->sockets, "/tmp/shoal-XXXXXX");
    if (scratch_make(l->sockets) == 0)
        return 0;
    l->sockets[0] = 0;
    return err_set(e, SHOAL_E_CANTCREATE, "cannot make a folder for sockets in /tmp: %s",
                   strerror(errno));
}

const char *local_quote(const char *folder, const char *name, char out[LOCAL_QUOTED])
{
    char path[LIMIT_PATH + 64];
    (void)snprintf(path, sizeof path, "%s%s%s", folder, text_if(name != NULL, "/"),
                   text_or(name, ""));
    config_quote(path, out);
    return out;
}

int local_set_path(struct string_list *set, const char *key, const char *folder, const char *name,
                   struct err *e)
{
    char quoted[LOCAL_QUOTED], text[LOCAL_QUOTED + 64];
    (void)snprintf(text, sizeof text, "%s=%s", key, local_quote(folder, name, quoted));
    if (config_list_add(set, text) == 0)
        return 0;
    return err_set(e, SHOAL_E_NOMEM, "out of memory");
}

static int text_write(const char *path, const char *text, struct err *e)
{
    FILE *f = file_stream(path, false);
    if (f == NULL)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", path, strerror(errno));
    bool good = fputs(text, f) >= 0;
    if (fclose(f) != 0 || !good)
        return err_set(e, SHOAL_E_IO, "cannot write %s: %s", path, strerror(errno));
    return 0;
}

int local_file_replace(const char *path, const char *text, struct err *e)
{
    char temporary[LIMIT_PATH];
    if (text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (snprintf(temporary, sizeof temporary, "%s.tmp", path) >= (int)sizeof temporary)
        return err_set(e, SHOAL_E_CANTCREATE, "%s: the path is too long", path);
    int rc = text_write(temporary, text, e);
    if (rc == 0 && file_rename(temporary, path) != 0)
        rc = err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", path, strerror(errno));
    if (rc != 0)
        (void)file_unlink(temporary);
    return rc;
}

/* ---- daemons --------------------------------------------------------------------------------- */

struct child *local_child(struct local *l, const char *program, const char *name)
{
    SHOAL_ASSERT(l->children < (int)(sizeof l->child / sizeof l->child[0]));
    struct child *c = &l->child[l->children++];
    text_copy(c->name, sizeof c->name, name);
    (void)snprintf(c->log, sizeof c->log, "%s/log/%s.log", l->dir, name);
    (void)snprintf(c->arg[c->args++], sizeof c->arg[0], "%s/%s", l->programs, program);
    return c;
}

void local_child_arg(struct child *c, const char *option, const char *value)
{
    text_copy(c->arg[c->args++], sizeof c->arg[0], option);
    if (value != NULL)
        text_copy(c->arg[c->args++], sizeof c->arg[0], value);
}

static int coordinator_prepare(struct local *l, struct err *e)
{
    char text[3 * LOCAL_QUOTED + 256], path[LIMIT_PATH], listen[LOCAL_QUOTED], data[LOCAL_QUOTED],
        report[LOCAL_QUOTED];
    (void)snprintf(l->coordinator, sizeof l->coordinator, "ipc://%s/coordinator", l->sockets);
    (void)snprintf(
        text, sizeof text,
        "# written by `shoal local`\nlisten: %s\ndata_dir: %s\nshards: %d\nlease: %u ms\n"
        "report: %s\npublish: true\n",
        local_quote(l->coordinator, NULL, listen), local_quote(l->dir, "coordinator", data),
        l->servers * l->shards, l->job.coordinator.lease_ms,
        local_quote(l->dir, "report.json", report));
    (void)snprintf(path, sizeof path, "%s/coordinator.yaml", l->dir);
    struct child *c = local_child(l, "shoal-coordinator", "coordinator");
    local_child_arg(c, "--config", path);
    if (l->tensorboard != NULL && strlen(l->tensorboard) >= sizeof c->arg[0])
        return err_set(e, SHOAL_E_USAGE, "--tensorboard: a path has at most %zu bytes",
                       sizeof c->arg[0] - 1);
    if (l->tensorboard != NULL && ((file_mkdir(l->tensorboard, 0777) != 0 && errno != EEXIST) ||
                                   access(l->tensorboard, W_OK | X_OK) != 0))
        return err_set(e, SHOAL_E_CANTCREATE, "--tensorboard: cannot write in %s: %s",
                       l->tensorboard, strerror(errno));
    if (l->tensorboard != NULL)
        local_child_arg(c, "--tensorboard", l->tensorboard);
    return local_file_replace(path, text, e);
}

static int server_prepare(struct local *l, int i, struct err *e)
{
    static const char *const durability[] = {"memory", "journal", "fsync"};
    char text[3 * LOCAL_QUOTED + 512], path[LIMIT_PATH], name[32],
        journal[128] = "", memory[48] = "", at[LIMIT_PATH], listen[LOCAL_QUOTED],
        data[LOCAL_QUOTED], coordinator[LOCAL_QUOTED];
    (void)snprintf(name, sizeof name, "server-%d", i);
    if (l->job.journal.max > 0 || l->job.journal.keep > 0) /* max 0: the server decides */
        (void)snprintf(journal, sizeof journal, "journal: {max: %" PRIu64 ", keep: %" PRIu64 "}\n",
                       l->job.journal.max, l->job.journal.keep);
    if (l->servers > 1) /* a single server by default takes its part of the whole machine */
        (void)snprintf(memory, sizeof memory, "memory: %" PRIu64 "\n",
                       machine_memory("") / 10 * 7 / (uint64_t)l->servers);
    (void)snprintf(at, sizeof at, "ipc://%s", l->sockets);
    (void)snprintf(text, sizeof text,
                   "# written by `shoal local`\nname: %s\nlisten: %s\ndata_dir: %s\nshards: %d\n"
                   "coordinator: %s\ndurability: %s\nnet: {drop: %g}\n%s%s",
                   name, local_quote(at, name, listen), local_quote(l->dir, name, data), l->shards,
                   local_quote(l->coordinator, NULL, coordinator), durability[l->job.durability],
                   l->job.net.drop, journal, memory);
    (void)snprintf(path, sizeof path, "%s/%s.yaml", l->dir, name);
    struct child *c = local_child(l, "shoal-server", name);
    local_child_arg(c, "--config", path);
    if (l->server_set->count > SERVER_SETS_MAX)
        return err_set(e, SHOAL_E_USAGE, "--server-set may be given %d times at most",
                       SERVER_SETS_MAX);
    for (size_t k = 0; k < l->server_set->count; k++) {
        if (strlen(l->server_set->item[k]) >= sizeof c->arg[0])
            return err_set(e, SHOAL_E_USAGE, "--server-set %.40s...: at most %zu bytes",
                           l->server_set->item[k], sizeof c->arg[0] - 1);
        local_child_arg(c, "--set", l->server_set->item[k]);
    }
    return local_file_replace(path, text, e);
}

/* The number of cores that a worker's parsing may keep busy: all workers share this machine. */
int local_cores_each(const struct local *l)
{
    int cores = (int)machine_cores("");
    if (cores > l->workers)
        return cores / l->workers;
    return 1;
}

/* Each worker has GPUs of its own, as many as the job's network is cut over, while there are that
 * many. */
static void devices_write(const struct local *l, int worker, char out[DEVICE_LIST_TEXT])
{
    uint32_t sites = MIN(job_sites(&l->job), LIMIT_DEVICES);
    size_t at = 0;
    for (uint32_t i = 0; i < sites && at < DEVICE_LIST_TEXT; i++)
        at += (size_t)snprintf(out + at, DEVICE_LIST_TEXT - at, "%s%u", text_if(i > 0, ","),
                               (uint32_t)worker * sites + i);
}

int local_worker_check(const struct job *job, const char *path, const char *worker, struct err *e)
{
    bool external = job->model.kind == MODEL_EXTERNAL;
    if (external && (worker == NULL || worker[strspn(worker, " \t\n")] == 0))
        return err_set(e, SHOAL_E_USAGE,
                       "%s has model.kind: external: its network is a program's, which --worker "
                       "names, as in --worker 'python3 train.py'",
                       path);
    if (!external && worker != NULL)
        return err_set(e, SHOAL_E_USAGE,
                       "--worker names a program with a network of its own, and %s has model.kind: "
                       "%s, which shoal-worker trains: take --worker away, or set model.kind: "
                       "external",
                       path, job_model_name(job->model.kind));
    if (worker != NULL && strlen(worker) >= LIMIT_PATH)
        return err_set(e, SHOAL_E_USAGE,
                       "--worker: a command of at most %u bytes; put a longer one "
                       "into a script",
                       LIMIT_PATH - 1);
    return 0;
}

/* The shell around a command ($1). SIGTERM reaches the whole group, and this shell and the one of
 * the command outlive the programs that the command has started, which leave in order. SIGUSR1 is
 * the death signal of this shell alone: it hands SIGTERM to the group. */
static const char program_shell[] =
    "trap : TERM; trap 'kill -TERM 0' USR1\n"
    "/bin/sh -c \"trap 'exit 143' TERM\n$1\" <&0 & command=$!\n"
    "while :; do wait $command; status=$?; kill -0 $command 2>/dev/null || exit $status; done";

/* A program's worker: the command under a shell, with what it needs to join in its environment. */
static void program_prepare(struct local *l, int i)
{
    char name[32], text[LIMIT_PATH];
    const struct {
        const char *variable, *value;
    } told[] = {{"SHOAL_COORDINATOR", l->coordinator}, {"SHOAL_SPACE", l->job.space}};
    (void)snprintf(name, sizeof name, "worker-%d", i);
    struct child *c = local_child(l, "shoal-worker", name);
    c->args = 0;
    c->group = c->program = true;
    local_child_arg(c, "/usr/bin/env", NULL);
    for (size_t k = 0; k < sizeof told / sizeof told[0]; k++) {
        (void)snprintf(text, sizeof text, "%s=%s", told[k].variable, told[k].value);
        local_child_arg(c, text, NULL);
    }
    (void)snprintf(text, sizeof text, "SHOAL_JOB=%s/job.yaml", l->dir);
    local_child_arg(c, text, NULL);
    (void)snprintf(text, sizeof text, "SHOAL_WORKER=%d", i);
    local_child_arg(c, text, NULL);
    (void)snprintf(text, sizeof text, "SHOAL_WORKERS=%d", l->workers);
    local_child_arg(c, text, NULL);
    local_child_arg(c, "/bin/sh", "-c");
    local_child_arg(c, program_shell, "sh");
    local_child_arg(c, l->worker, NULL);
}

static void worker_prepare(struct local *l, int i)
{
    char name[32], lanes[16], devices[DEVICE_LIST_TEXT], cores[16], io_threads[16];
    char path[LIMIT_PATH];
    (void)snprintf(name, sizeof name, "worker-%d", i);
    (void)snprintf(lanes, sizeof lanes, "%u", job_lanes(&l->job));
    devices_write(l, i, devices);
    (void)snprintf(cores, sizeof cores, "%d", local_cores_each(l));
    (void)snprintf(io_threads, sizeof io_threads, "%d", l->io_threads);
    (void)snprintf(path, sizeof path, "%s/job.yaml", l->dir);
    struct child *c = local_child(l, "shoal-worker", name);
    local_child_arg(c, "train", NULL);
    local_child_arg(c, "--config", path);
    local_child_arg(c, "--coordinator", l->coordinator);
    local_child_arg(c, "--name", name);
    local_child_arg(c, "--lanes", lanes);
    local_child_arg(c, "--devices", devices);
    local_child_arg(c, "--cores", cores);
    local_child_arg(c, "--io-threads", io_threads);
    if (job_command(&l->job) != NULL) /* the user's own; those of other jobs stay forbidden */
        local_child_arg(c, "--allow-commands", NULL);
}

int local_programs_find(struct local *l, struct err *e)
{
    char probe[LIMIT_PATH];
    ssize_t n = readlink("/proc/self/exe", l->programs, sizeof l->programs - 1);
    if (n <= 0)
        return err_set(e, SHOAL_E_INTERNAL, "cannot find where this program lies");
    l->programs[n] = 0;
    *strrchr(l->programs, '/') = 0;
    (void)snprintf(probe, sizeof probe, "%s/shoal-server", l->programs);
    if (access(probe, X_OK) != 0)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "%s is not there: install or build all of Shoal's programs into one folder",
                       probe);
    return 0;
}

/* Finds missing files and columns that do not fit before anything runs; a worker does the check. */
static int input_check(const struct local *l, struct err *e)
{
    size_t count = l->set->count, bytes, n = 0;
    const char **argv = calloc(2 * count + 5, sizeof *argv);
    char *text = NULL;
    if (argv == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    argv[n++] = "shoal-worker";
    argv[n++] = "check";
    argv[n++] = "--config";
    argv[n++] = l->job_path;
    for (size_t i = 0; i < count; i++) {
        argv[n++] = "--set";
        argv[n++] = l->set->item[i];
    }
    int rc = child_output(argv, &text, &bytes, e);
    free(text);
    free(argv);
    return rc;
}

/* ---- the whole ------------------------------------------------------------------------------- */

int local_run_is(const char *path, const char *text, struct err *e)
{
    char *was, *plain = NULL;
    size_t bytes, plain_bytes = 0;
    if (file_read_whole(path, LIMIT_CONFIG_BYTES + LEGEND_BYTES_MAX, &was, &bytes) != 0)
        return err_set(e, SHOAL_E_NOINPUT, "cannot read %s: %s", path, strerror(errno));
    int rc = given_strip(was, bytes, &plain, &plain_bytes, e);
    bool same = rc == 0 && plain_bytes == strlen(text) && memcmp(plain, text, plain_bytes) == 0;
    free(was);
    free(plain);
    if (rc != 0)
        return rc;
    if (same)
        return 0;
    return err_set(e, SHOAL_E_EXISTS,
                   "%s is of a run with another job file or other --set: give the same ones "
                   "and it goes on, or name another --run-dir",
                   path);
}

/* Sets the folder of checkpoints to its absolute path: the run's job file is read in other working
 * folders too, by --start-from for one. */
static int checkpoints_add(struct local *l, struct err *e)
{
    char here[LIMIT_PATH];
    const char *dir = l->job.checkpoint.dir;
    if (dir[0] == '/')
        return 0;
    if (dir[0] == 0)
        return local_set_path(l->set, "checkpoint.dir", l->dir, "checkpoints", e);
    if (getcwd(here, sizeof here) == NULL)
        return err_set(e, SHOAL_E_USAGE, "checkpoint.dir: the path of this folder is unknown: %s",
                       strerror(errno));
    if (strlen(here) + strlen(dir) >= LIMIT_PATH)
        return err_set(e, SHOAL_E_USAGE, "checkpoint.dir: %s/%s has more than %u bytes", here, dir,
                       LIMIT_PATH - 2);
    return local_set_path(l->set, "checkpoint.dir", here, dir, e);
}

/* Adds to the job's keys the folders for decoded input and checkpoints, unless the job names them.
 * A folder of the run's own keeps no parsed rows, because the job did not ask for that. */
static int folders_add(struct local *l, struct err *e)
{
    bool own = l->job.data.cache[0] == 0;
    int rc = 0;
    if (own)
        rc = local_set_path(l->set, "data.cache", l->dir, "cache", e);
    if (rc == 0 && own && config_list_add(l->set, "data.cache_max=0") != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (rc != 0)
        return rc;
    return checkpoints_add(l, e);
}

/* A key of the file with which a daemon of the run was started; 0: there is no such file yet. */
static int file_int(const struct local *l, const char *name, const struct config_key *keys,
                    const char *key)
{
    char path[LIMIT_PATH];
    struct config *c = NULL;
    struct err silent;
    (void)snprintf(path, sizeof path, "%s/%s", l->dir, name);
    if (config_load(path, NULL, keys, &c, &silent) != 0)
        return 0;
    int value = (int)config_int(c, key);
    config_free(c);
    return value;
}

/* Checks that the number of servers and shards is unchanged: the run's rows lie in one folder for
 * each. */
static int servers_same(const struct local *l, struct err *e)
{
    int all = file_int(l, "coordinator.yaml", keys_coordinator, "shards"),
        each = file_int(l, "server-0.yaml", keys_server, "shards");
    if (all == 0 || each == 0 || (all == l->servers * l->shards && each == l->shards))
        return 0;
    return err_set(e, SHOAL_E_EXISTS,
                   "the run in %s was begun with --servers %d --shards %d: say so and it goes on, "
                   "or name another --run-dir",
                   l->dir, all / each, each);
}

int local_begin_keep(const struct local *l, struct err *e)
{
    char path[LIMIT_PATH];
    (void)snprintf(path, sizeof path, "%s/" BEGIN_FILE, l->dir);
    char *text = begin_text(&l->begin);
    int rc = local_file_replace(path, text, e);
    free(text);
    return rc;
}

static int begin_same(const struct local *l, struct err *e)
{
    struct begin was;
    if (l->had_failed || !begin_of_run(l->dir, &was) ||
        (was.start == l->begin.start && strcmp(was.path, l->begin.path) == 0))
        return 0;
    if (was.path[0] == 0)
        return err_set(e, SHOAL_E_EXISTS,
                       "the run in %s was begun with no checkpoint: take --resume and "
                       "--start-from away and it goes on, or name another --run-dir",
                       l->dir);
    return err_set(e, SHOAL_E_EXISTS,
                   "the run in %s was begun with --%s %s: give the same and it goes on, or "
                   "name another --run-dir",
                   l->dir, was.start ? "start-from" : "resume", was.word);
}

/* A new folder gets its job's file. An interrupted run in the folder goes on only with the same
 * job. */
static int run_file_take(struct local *l, const char *path, const char *text, struct err *e)
{
    char former[LIMIT_PATH];
    int rc = local_run_is(path, text, e);
    if (rc == SHOAL_E_EXISTS && run_moved(l->dir, former))
        return err_set(e, SHOAL_E_EXISTS,
                       "%s lay in %s while it ran, and goes on there alone: move it back, or name "
                       "another --run-dir",
                       l->dir, former);
    l->goes_on = rc == 0;
    if (rc == 0)
        rc = servers_same(l, e);
    else if (rc == SHOAL_E_NOINPUT)
        return local_file_replace(path, text, e);
    if (rc != 0)
        return rc;
    return begin_same(l, e);
}

int local_prepare(struct local *l, const char *run_dir, char **text, struct err *e)
{
    char path[LIMIT_PATH];
    int rc = job_load(l->job_path, l->set, &l->job, e);
    if (rc == 0)
        rc = local_worker_check(&l->job, l->job_path, l->worker, e);
    if (rc == 0)
        rc = local_programs_find(l, e);
    if (rc == 0)
        rc = input_check(l, e);
    if (rc == 0)
        rc = run_dir_make(l, run_dir, e);
    if (rc != 0)
        return rc;
    rc = folders_add(l, e);
    if (rc == 0)
        rc = job_text(l->job_path, l->set, text, e);
    (void)snprintf(path, sizeof path, "%s/job.yaml", l->dir);
    if (rc == 0)
        rc = run_file_take(l, path, *text, e);
    if (rc != 0 || l->ended)
        return rc;
    rc = local_sockets_make(l, e);
    if (rc == 0)
        rc = coordinator_prepare(l, e);
    for (int i = 0; i < l->servers && rc == 0; i++)
        rc = server_prepare(l, i, e);
    for (int i = 0; i < l->workers && rc == 0; i++)
        if (l->worker != NULL)
            program_prepare(l, i);
        else
            worker_prepare(l, i);
    return rc;
}
