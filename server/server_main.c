/* server_main.c: shoal-server: the daemon around the shards.
 *
 * Threads: each shard has its own (server_shards.h). The main thread starts the shards, waits until
 * all are open and the coordinator has taken them or does not answer (wait_taken), says READY=1,
 * and then waits for SIGTERM or SIGINT. All threads block its signals. ZeroMQ has its I/O threads,
 * libuv its pool for the engines' slow work (UV_THREADPOOL_SIZE overrides its size).
 *
 * SIGTERM is a clean stop: every dirty tablet is written, so that the next start replays nothing. A
 * second SIGTERM ends the process at once, and so does one during recovery. Recovery may be killed
 * at any step (e2e/test_kill_points.py) and has answered no client yet, so its steps need no check
 * for a stop. A broken disk, too, ends the process at once, with status 74, and the next start
 * recovers. */
#include "proto/base/crash.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/json.h"
#include "proto/base/lockfile.h"
#include "proto/base/log.h"
#include "proto/base/machine.h"
#include "proto/base/minmax.h"
#include "proto/base/time.h"
#include "proto/base/version.h"
#include "proto/http/board.h"
#include "proto/job/config.h"
#include "proto/job/instance.h"
#include "proto/job/keys.h"
#include "proto/job/live.h"
#include "proto/job/option.h"
#include "proto/net/name.h"
#include "proto/net/net.h"
#include "proto/net/notify.h"
#include "proto/net/starts.h"
#include "server/server_config.h"
#include "server/server_hang.h"
#include "server/server_keys.h"
#include "server/server_memory.h"
#include "server/server_shards.h"
#include "server/server_status.h"
#include "server/server_word.h"
#include "server/shard/server_dir.h"
#include "server/shard/shard.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* While shards make progress, systemd is asked to wait this much longer. */
#define MORE_TIME_US UINT64_C(30000000)
/* A server is READY after this time without an answer from the coordinator. */
#define UNANSWERED_NS UINT64_C(10000000000)

struct server {
    struct server_config config;
    char name[LIMIT_NAME];
    struct keyfile *keys; /* owned; NULL: none */
    sigset_t signals;     /* blocked in every thread; main takes them */
    struct server_shards shards;
    struct server_told told;
    struct server_hang hang;
    struct server_word word;
    struct live live;
    struct board *board; /* owned; NULL: no metrics */
};

static void reload(struct server *sv)
{
    struct err e;
    notify_reloading();
    (void)live_read(&sv->live, &e); /* live_read logs what is wrong */
    notify_ready("serving");
}

/* Waits a second, or until a shard reaches its next state. True when a signal asks the server to
 * stop. */
static bool asked_to_stop(struct server *sv)
{
    struct timespec second = {.tv_sec = 1};
    int signo = sigtimedwait(&sv->signals, NULL, &second);
    log_flush();
    if (signo == SIGHUP && server_shards_all(&sv->shards, THREAD_OPENED))
        reload(sv);
    return signo == SIGTERM || signo == SIGINT;
}

/* Ends the process at once, as a kill would. */
static _Noreturn void leave_now(const struct server *sv, const char *where)
{
    notify_stopping();
    log_warn("server %s leaves at once, in %s; the next start recovers", sv->name, where);
    _exit(0);
}

/* A start or a stop may take any time while it makes progress: systemd's timeout is extended when
 * any shard has made progress since the last call. A hanging start is not extended. */
static void more_time(struct server *sv)
{
    if (server_shards_any_moved(&sv->shards))
        notify_extend_timeout(MORE_TIME_US);
}

static void work_tell(const struct server *sv, const char *what, const char *of)
{
    char text[128];
    server_status_work(sv->shards.progress, sv->shards.count, what, of, text, sizeof text);
    notify_status("%s", text);
}

/* Whole seconds of a hang; 0: it is none yet. */
static uint32_t hang_s(uint64_t ns)
{
    if (ns < SERVER_HANG_NS)
        return 0;
    return (uint32_t)(ns / UINT64_C(1000000000));
}

static void serving_tell(struct server *sv)
{
    char text[160];
    uint32_t shard;
    uint64_t now_ns = time_monotonic_ns();
    uint32_t disk_s = hang_s(server_hang_tell(&sv->hang, sv->name, sv->config.data_dir, now_ns));
    uint32_t loop_s = hang_s(server_shards_stand_ns(&sv->shards, now_ns, &shard));
    server_word_hang(&sv->word, disk_s, shard, loop_s);
    if (now_ns - sv->told.ns < UINT64_C(2000000000))
        return;
    server_status_serving(sv->shards.progress, sv->shards.count, now_ns, &sv->told, text,
                          sizeof text);
    if (disk_s > 0)
        (void)snprintf(text, sizeof text, "the disk of data_dir has not answered for %u s", disk_s);
    else if (loop_s > 0)
        (void)snprintf(text, sizeof text, "the loop of shard-%u has made no progress for %u s",
                       shard, loop_s);
    notify_status("%s",
                  server_shards_placed(&sv->shards, SHARD_REFUSED) > 0 ? SERVER_NOT_TAKEN : text);
}

/* Waits until all shards are open; returns the status of the first that failed. */
static int wait_opened(struct server *sv, struct err *e)
{
    while (!server_shards_all(&sv->shards, THREAD_OPENED)) {
        if (asked_to_stop(sv))
            leave_now(sv, "its recovery");
        more_time(sv);
        work_tell(sv, "recovers", "the journal is read");
    }
    return server_shards_failed(&sv->shards, e);
}

/* READY=1 means that the server has work: the coordinator has taken all its shards. A coordinator
 * that does not answer must not block the start of this unit, for systemd may start it later.
 * Returns false when the server is asked to stop or a shard leaves. */
static bool wait_taken(struct server *sv)
{
    uint64_t begun_ns = time_monotonic_ns();
    for (;;) {
        uint32_t taken = server_shards_placed(&sv->shards, SHARD_TAKEN),
                 refused = server_shards_placed(&sv->shards, SHARD_REFUSED);
        if (taken == sv->shards.count ||
            (refused == 0 && time_monotonic_ns() - begun_ns > UNANSWERED_NS))
            return true;
        notify_status("%s", refused > 0 ? SERVER_NOT_TAKEN : "waits for the coordinator");
        more_time(sv);
        if (server_shards_any(&sv->shards, THREAD_LEAVES) || asked_to_stop(sv))
            return false;
    }
}

/* `advertise` may be a name that only workers can resolve; mostly an unknown name is a mistake. */
static void advertise_look(const struct server_config *c)
{
    char endpoint[256], advertised[256], numeric[256];
    struct err e;
    if (c->advertise[0] == 0 || server_config_endpoint(c, 0, endpoint, &e) != 0)
        return;
    name_advertised(c->advertise, endpoint, "", advertised);
    if (name_resolve(advertised, numeric, &e) != 0)
        log_warn("advertise: %s; workers for which it has none either cannot reach this server",
                 e.text);
}

/* Serves until a signal asks to stop, or a message stops one shard, which stops the whole server.
 * systemd's watchdog is pinged while all shards make progress: a shard that hangs is not kept alive
 * by the others. */
static void serve_until(struct server *sv)
{
    uint64_t every_ns = notify_watchdog_ns(), pinged = time_monotonic_ns();
    while (!server_shards_any(&sv->shards, THREAD_LEAVES) && !asked_to_stop(sv)) {
        serving_tell(sv);
        if (every_ns != 0 && time_monotonic_ns() - pinged >= every_ns &&
            server_shards_all_moved(&sv->shards)) {
            notify_watchdog_ping();
            pinged = time_monotonic_ns();
        }
    }
}

static void stop_shards(struct server *sv)
{
    server_shards_interrupt(&sv->shards);
    while (!server_shards_all(&sv->shards, THREAD_CLOSED)) {
        if (asked_to_stop(sv))
            leave_now(sv, "its last writes");
        more_time(sv);
        work_tell(sv, "stops", "what changed is written");
    }
    server_shards_end(&sv->shards);
}

/* The settings of the file that concern keys. */
static struct server_keys_ask ask_of(const struct server_config *c)
{
    return (struct server_keys_ask){.listen = c->listen,
                                    .keys = c->keys,
                                    .allow = c->allow,
                                    .coordinator = c->coordinator,
                                    .insecure = c->insecure_plaintext,
                                    .signers = c->checkpoint_signers};
}

/* The settings of the file that concern metrics. */
static struct board_options board_of(const struct server_config *c)
{
    return (struct board_options){.program = "shoal-server",
                                  .version = SHOAL_VERSION,
                                  .listen = c->metrics,
                                  .token = c->metrics_token,
                                  .loop = "shard",
                                  .loops = c->shards};
}

/* Runs before there is another thread. All shards make cuts and export them at the same time, which
 * keeps one thread each busy for minutes, and pushes and pulls still need threads: so there are
 * four for each shard, for its syncs, flushes, fetches and one long task. */
static void pool_size(uint32_t shards)
{
    char text[24];
    uint32_t threads = 4 * shards;
    snprintf(text, sizeof text, "%u", MIN(threads, 1024)); /* libuv's limit */
    setenv("UV_THREADPOOL_SIZE", text, 0);
}

/* Without `name` in its file, a server that is an instance of a systemd unit takes its name from
 * the instance, so that a status names the unit to look for. A folder that has a name keeps it. */
static void name_default(struct server *sv, const char *instance)
{
    char path[LIMIT_PATH + 8], name[LIMIT_NAME];
    (void)snprintf(path, sizeof path, "%s/name", sv->config.data_dir);
    if (instance == NULL || sv->config.name[0] != 0 || access(path, F_OK) == 0)
        return;
    instance_name(instance, name);
    (void)snprintf(sv->config.name, sizeof sv->config.name, "%.*s",
                   (int)sizeof sv->config.name - 15, name);
}

static int serve(struct server *sv, struct err *e)
{
    int lock_fd, rc;
    sigemptyset(&sv->signals);
    sigaddset(&sv->signals, SIGTERM);
    sigaddset(&sv->signals, SIGINT);
    sigaddset(&sv->signals, SIGUSR1);
    sigaddset(&sv->signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &sv->signals, NULL); /* inherited by every thread */
    signal(SIGPIPE, SIG_IGN);
    pool_size(sv->config.shards);
    const struct server_keys_ask ask = ask_of(&sv->config);
    rc = server_keys_open(&ask, &sv->keys, e);
    if (rc)
        return rc;
    rc = server_dir_open(sv->config.data_dir, sv->config.name, sv->config.shards, LOCKFILE_WAIT_MS,
                         sv->name, &lock_fd, e);
    if (rc)
        return rc;
    crash_folder(sv->config.data_dir);
    const struct board_options bo = board_of(&sv->config);
    rc = board_open(&bo, &sv->board, e);
    if (rc) {
        close(lock_fd);
        return rc;
    }
    uint64_t memory = sv->config.memory;
    if (memory == 0)
        memory = server_memory_default();
    sv->shards = (struct server_shards){.config = &sv->config,
                                        .name = sv->name,
                                        .keys = sv->keys,
                                        .insecure = server_keys_insecure(&ask, sv->keys),
                                        .board = sv->board};
    server_config_divide(memory, sv->config.disk, sv->config.shards, &sv->shards.budget);
    msg_keep(sv->shards.budget.kept);
    server_memory_heaps(sv->config.shards);
    rc = server_shards_start(&sv->shards, e);
    struct err why;
    int opened = wait_opened(sv, &why); /* also after a failure: the threads that run are stopped */
    if (!rc && (rc = opened))
        *e = why;
    server_memory_bound(memory, sv->config.shards);
    if (!rc) {
        advertise_look(&sv->config);
        log_event(SERVER_READY, sv->name, "server %s: %u shards ready", sv->name,
                  sv->config.shards);
        if (wait_taken(sv)) {
            sv->word =
                (struct server_word){.coordinator = sv->config.coordinator, .keys = sv->keys};
            (void)snprintf(sv->word.hang.server, sizeof sv->word.hang.server, "%s", sv->name);
            notify_ready("serving");
            serve_until(sv);
            server_word_hang(&sv->word, 0, 0, 0);
        }
        board_stops(sv->board);
        log_event(SERVER_STOPS, sv->name, "server %s stops: every changed tablet is written first",
                  sv->name);
        notify_stopping();
    }
    stop_shards(sv);
    board_close(sv->board);
    keyfile_free(sv->keys);
    close(lock_fd);
    return rc;
}

static void version(void)
{
    unsigned protocol;
    const char *library[] = {net_libraries(),
                             shard_libraries(&protocol),
                             json_library(),
                             config_library(),
                             hash_library(),
                             http_library(),
                             NULL};
    version_print("shoal-server", protocol, library);
    printf("store checksums: %s\n", shard_checksums());
}

int main(int argc, char **argv)
{
    static struct server sv;
    struct option_line o;
    struct err e = {0};
    log_init("shoal-server");
    crash_begin("shoal-server");
    /* No access for other users. The group has what the inherited umask allows: checkpoints need it
     * (fleet.md). */
    umask(umask(077) | 007);
    (void)machine_files();
    file_reserve_fill();
    int rc = option_program("shoal-server", keys_server, version, argc, argv, &o, &e);
    if (rc != 0) {
        option_free(&o);
        return starts_end(rc, &e);
    }
    char path[LIMIT_PATH];
    if (!option_given(&o, "check")) /* --check is part of a reload, not a start */
        starts_begin();
    rc = instance_file(option_text(&o, "config"), option_text(&o, "instance"), "server", path, &e);
    const char *file = path[0] != 0 ? path : NULL;
    if (!rc)
        rc = server_config_load(file, option_list(&o, "set"), &sv.config, &e);
    if (!rc)
        name_default(&sv, option_text(&o, "instance"));
    sv.live = (struct live){.path = file, .set = option_list(&o, "set"), .keys = keys_server};
    if (!rc)
        rc = live_open(&sv.live, &e);
    const struct server_keys_ask ask = ask_of(&sv.config);
    const struct board_options bo = board_of(&sv.config);
    if (!rc)
        rc = board_check(&bo, &e);
    if (!rc && option_given(&o, "check"))
        rc = server_keys_check(&ask, &e);
    else if (!rc)
        rc = serve(&sv, &e);
    live_close(&sv.live);
    option_free(&o);
    return starts_end(rc, &e);
}
