/* server_main.c: shoal-server: the daemon around the shards.
 *
 * Threads: each shard has its own, with its own loop (net), engine and core; it opens, runs and
 * closes them there. The main thread starts them, waits until all answer readers (shard.h), says
 * READY=1, and then waits for SIGTERM or SIGINT, which all other threads block. ZeroMQ has its I/O
 * threads, libuv its pool for the engine's slow work.
 *
 * SIGTERM is a clean stop: every dirty tablet is written, so that the next start replays nothing. A
 * broken disk is not: the process leaves at once with status 74 and recovery does the rest. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/base/machine.h"
#include "proto/base/time.h"
#include "proto/job/config.h"
#include "proto/job/keys.h"
#include "proto/job/option.h"
#include "proto/net/net.h"
#include "proto/net/notify.h"
#include "server/server_config.h"
#include "server/shard/server_dir.h"
#include "server/shard/shard.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct server;

struct member {            /* one shard and its thread */
    struct server *server; /* borrowed */
    uint32_t index;
    pthread_t thread;
    struct net *net; /* of the thread; net_interrupt from main */
    bool opened;
    _Atomic uint64_t pulses; /* of the thread: it gets on */
    uint64_t seen;           /* of them, by the main thread when it last pinged the watchdog */
    struct env_timer pulse;
    int status; /* 0 or SHOAL_E_* */
    struct err error;
};

struct server {
    struct server_config config;
    char name[LIMIT_NAME];
    struct budget budget;
    pthread_mutex_t mutex; /* opened, status and stopping */
    pthread_cond_t changed;
    bool stopping;
    struct member *member; /* owned, (config.shards) */
};

/* ---- figures of the process ---- */

static void process_figures(void *context, uint64_t *rss, uint64_t *rss_peak)
{
    (void)context;
    struct rusage usage;
    uint64_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f != NULL) {
        if (fscanf(f, "%*u %" SCNu64, &pages) != 1)
            pages = 0;
        fclose(f);
    }
    *rss = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    *rss_peak = getrusage(RUSAGE_SELF, &usage) ? 0 : (uint64_t)usage.ru_maxrss * 1024;
}

/* ---- a shard's thread ---- */

static void fatal_cb(void *context, const struct err *e)
{
    (void)context;
    /* then it will be next time, too */
    bool damaged =
        e->code == SHOAL_E_CORRUPT || e->code == SHOAL_E_CHECKSUM || e->code == SHOAL_E_SCHEMA;
    int status = err_exit_status(SHOAL_E_IO);
    log_error("%s; leaving with status %d%s", e->text, status,
              damaged ? "" : ", the next start recovers");
    _exit(status);
}

/* A shard gets on: its loop turns, or long work in it moves. */
static void pulse_cb(void *context)
{
    struct member *m = context;
    m->pulses++;
}

static void pulse_timer_cb(struct env_timer *t)
{
    struct member *m = container_of(t, struct member, pulse);
    pulse_cb(m);
    file_reserve_fill();
    env_timer_start(net_env(m->net), t, UINT64_C(1000000000));
}

static void report_opened(struct member *m, int status)
{
    pthread_mutex_lock(&m->server->mutex);
    SHOAL_ASSERT(!m->opened && !m->server->stopping);
    m->opened = true;
    m->status = status;
    pthread_cond_broadcast(&m->server->changed);
    pthread_mutex_unlock(&m->server->mutex);
}

/* A quarter of the files that there may be, for all shards: the rest is the store's and the
 * journal's. */
static uint32_t connections_most(uint32_t shards)
{
    uint64_t part = machine_files() / 4 / shards;
    return part < 16 ? 16 : part > LIMIT_PEERS ? LIMIT_PEERS : (uint32_t)part;
}

static int open_member(struct member *m, struct shard **shard)
{
    struct server *sv = m->server;
    const struct server_config *c = &sv->config;
    char dir[LIMIT_PATH], endpoint[256], bound[256], advertised[256];
    struct net_options no = {.io_threads = c->net.io_threads,
                             .queue_bytes = sv->budget.replies,
                             .drop_sends = c->net.drop,
                             .connections_max = connections_most(c->shards),
                             .insecure_plaintext = c->insecure_plaintext};
    int rc = net_new(&no, &m->net, &m->error);
    if (rc)
        return rc;
    server_dir_shard(c->data_dir, m->index, dir);
    struct shard_options o = {
        .server = sv->name,
        .shard_index = m->index,
        .shard_count = c->shards,
        .coordinator = c->coordinator[0] ? c->coordinator : NULL,
        .engine = {.dir = dir,
                   .wall_ns = time_wall_ns,
                   .durability = c->durability,
                   .checkpoint_root = c->checkpoint_root,
                   .journal_max = c->journal.max / c->shards,
                   .journal_keep = c->journal.keep / c->shards,
                   .segment_bytes = (uint32_t)c->journal.segment,
                   .disk = sv->budget.disk,
                   .disk_watermark = c->disk_free,
                   .memory = sv->budget.engine},
        .waiting_max = sv->budget.waiting,
        .process = process_figures,
        .pulse = pulse_cb,
        .on_fatal = fatal_cb,
        .context = m,
    };
    if ((rc = shard_open(&o, net_env(m->net), shard, &m->error)))
        return rc;
    net_set_handler(m->net, &shard_handler, *shard);
    if ((rc = server_config_endpoint(c, m->index, endpoint, &m->error)) ||
        (rc = net_listen(m->net, endpoint, bound, &m->error)))
        return rc;
    server_config_advertised(c, bound, advertised);
    (*shard)->options.engine.dir = NULL; /* the engine keeps its own copy */
    log_info("shard %s/%u: %s, data in %s", sv->name, m->index, bound, dir);
    return shard_start(*shard, advertised, &m->error);
}

static void *member_thread(void *argument)
{
    struct member *m = argument;
    struct server *sv = m->server;
    struct shard *shard = NULL;
    char name[16]; /* what `top -H` and a debugger call it */
    (void)snprintf(name, sizeof name, "shard-%u", m->index);
    (void)pthread_setname_np(pthread_self(), name);
    int rc = open_member(m, &shard);
    if (!rc) {
        m->pulse.fire = pulse_timer_cb;
        pulse_timer_cb(&m->pulse);
    }
    report_opened(m, rc);
    if (!rc) {
        net_run(m->net);
        pthread_mutex_lock(&sv->mutex);
        bool asked = sv->stopping;
        pthread_mutex_unlock(&sv->mutex);
        if (!asked)
            kill(getpid(), SIGTERM); /* STOP came by message: the whole server goes */
    }
    if (shard != NULL && shard_close(shard, rc == 0) && !rc)
        log_error("shard %s/%u: a tablet could not be written at the end; the next start replays "
                  "the journal",
                  sv->name, m->index);
    return NULL;
}

/* ---- the main thread ---- */

static int start_members(struct server *sv, struct err *e)
{
    SHOAL_ASSERT(sv->config.shards > 0);
    sv->member = calloc(sv->config.shards, sizeof *sv->member);
    if (sv->member == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u shards", sv->config.shards);
    for (uint32_t i = 0; i < sv->config.shards; i++) {
        struct member *m = &sv->member[i];
        m->server = sv;
        m->index = i;
        if (pthread_create(&m->thread, NULL, member_thread, m)) {
            sv->config.shards = i; /* those that run are stopped */
            return err_set(e, SHOAL_E_NOMEM, "cannot start the thread of shard %u", i);
        }
    }
    return 0;
}

/* All have opened, or one has failed. A long recovery keeps systemd waiting. */
static int wait_opened(struct server *sv, struct err *e)
{
    int rc = 0;
    pthread_mutex_lock(&sv->mutex);
    for (uint32_t i = 0; i < sv->config.shards; i++) {
        struct member *m = &sv->member[i];
        while (!m->opened) {
            struct timespec until; /* by a clock that nobody sets */
            clock_gettime(CLOCK_MONOTONIC, &until);
            until.tv_sec += 5;
            if (pthread_cond_timedwait(&sv->changed, &sv->mutex, &until) == ETIMEDOUT)
                notify_extend_timeout(30000000);
        }
        if (m->status && !rc) {
            rc = m->status;
            *e = m->error;
        }
    }
    pthread_mutex_unlock(&sv->mutex);
    return rc;
}

static void stop_members(struct server *sv)
{
    pthread_mutex_lock(&sv->mutex);
    SHOAL_ASSERT(!sv->stopping);
    sv->stopping = true;
    for (uint32_t i = 0; i < sv->config.shards; i++)
        SHOAL_ASSERT(sv->member[i].opened); /* its net is there, or will never be */
    pthread_mutex_unlock(&sv->mutex);
    for (uint32_t i = 0; i < sv->config.shards; i++)
        if (sv->member[i].net != NULL)
            net_interrupt(sv->member[i].net);
    for (uint32_t i = 0; i < sv->config.shards; i++)
        pthread_join(sv->member[i].thread, NULL);
    for (uint32_t i = 0; i < sv->config.shards; i++)
        net_free(sv->member[i].net);
    free(sv->member);
}

/* The rest is for messages, RocksDB's own and the kernel's. */
static uint64_t memory_default(void)
{
    return machine_memory("") / 10 * 7;
}

/* Sockets keep heaps large (sock.c). Where memory is short, what was once a large buffer goes back
 * to the kernel, for a page fault each 4 KiB. */
static void heap_bound(uint64_t memory, uint32_t heaps)
{
    SHOAL_ASSERT(memory > 0 && heaps > 0);
    /* each heap keeps so much: a thirty-second of all */
    uint64_t large = memory / 256, spare = memory / 32 / heaps;
    large = large < 512u << 10 ? 512u << 10 : large > 32u << 20 ? 32u << 20 : large;
    spare = spare < 1u << 20 ? 1u << 20 : spare > 64u << 20 ? 64u << 20 : spare;
    mallopt(M_MMAP_THRESHOLD, (int)large);
    mallopt(M_TRIM_THRESHOLD, (int)spare);
}

/* Whether each shard has got on since the last time that all had. */
static bool all_move(struct server *sv)
{
    bool all = true;
    for (uint32_t i = 0; i < sv->config.shards; i++)
        all &= sv->member[i].pulses != sv->member[i].seen;
    for (uint32_t i = 0; all && i < sv->config.shards; i++)
        sv->member[i].seen = sv->member[i].pulses;
    return all;
}

/* Until SIGTERM or SIGINT. systemd's watchdog is pinged while all shards get on: one that hangs is
 * not kept alive by the others. */
static void serve_until(struct server *sv, const sigset_t *signals)
{
    uint64_t every_ns = notify_watchdog_ns();
    struct timespec second = {.tv_sec = 1};
    uint64_t pinged = time_monotonic_ns();
    while (sigtimedwait(signals, NULL, &second) < 0)
        if (every_ns != 0 && time_monotonic_ns() - pinged >= every_ns && all_move(sv)) {
            notify_watchdog_ping();
            pinged = time_monotonic_ns();
        }
}

static int serve(struct server *sv, struct err *e)
{
    sigset_t signals;
    int lock_fd, rc;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* inherited by every thread */
    signal(SIGPIPE, SIG_IGN);
    rc = server_dir_open(sv->config.data_dir, sv->config.name, sv->config.shards, sv->name,
                         &lock_fd, e);
    if (rc)
        return rc;
    server_config_divide(sv->config.memory ? sv->config.memory : memory_default(), sv->config.disk,
                         sv->config.shards, &sv->budget);
    msg_keep(sv->budget.kept);
    /* Else each of some ten threads (libuv's, RocksDB's) keeps a heap of its own, 40 MiB and more
     * that no budget knows of. With fewer than this the fetches and a compaction wait for each
     * other (measured with one shard): RocksDB takes a block's bytes from the heap for each row. */
    uint32_t heaps = sv->config.shards + 3;
    mallopt(M_ARENA_MAX, (int)heaps);
    rc = start_members(sv, e);
    if (sv->member != NULL) {
        struct err why;
        /* also after a failure: those that run must be stopped */
        int opened = wait_opened(sv, &why);
        if (!rc && (rc = opened))
            *e = why;
    }
    if (sv->config.memory)
        heap_bound(sv->config.memory, heaps);
    if (!rc) {
        log_info("server %s: %u shards ready", sv->name, sv->config.shards);
        notify_ready("serving");
        serve_until(sv, &signals);
        log_info("server %s stops: every changed tablet is written first", sv->name);
        notify_stopping();
    }
    if (sv->member != NULL)
        stop_members(sv);
    close(lock_fd);
    return rc;
}

static void help(const struct option_command *c)
{
    option_help(c, stdout);
    puts("\nKeys, what they hold and (by default):");
    keys_print(keys_server, stdout);
}

static int finish(int rc, const struct err *e)
{
    if (rc)
        log_error("%s", e->text);
    return rc ? err_exit_status(rc) : 0;
}

int main(int argc, char **argv)
{
    static struct server sv = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_condattr_t monotonic;
    struct option_line o;
    struct err e = {0};
    log_init("shoal-server");
    umask(077); /* rows, logs and jobs are nobody else's */
    (void)machine_files();
    file_reserve_fill();
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&sv.changed, &monotonic);
    int rc = option_parse("shoal-server", argc, argv, &o, &e);
    if (rc == 0 && option_given(&o, "help"))
        help(o.command);
    else if (rc == 0 && option_given(&o, "version"))
        puts("shoal-server " SHOAL_VERSION);
    else if (rc == 0 && o.words > 0)
        rc = err_set(&e, SHOAL_E_USAGE, "'%s' is not an option; see --help", o.word[0]);
    if (rc != 0 || option_given(&o, "help") || option_given(&o, "version")) {
        option_free(&o);
        return finish(rc, &e);
    }
    rc = server_config_load(option_text(&o, "config"), option_list(&o, "set"), &sv.config, &e);
    option_free(&o);
    if (!rc)
        rc = serve(&sv, &e);
    return finish(rc, &e);
}
