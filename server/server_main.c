/* server_main.c: shoal-server: the daemon around the shards.
 *
 * Threads: each shard has its own, with its own loop (net), engine and core; the thread opens, runs
 * and closes them. The main thread starts the shards, waits until all are open and the coordinator
 * has taken them or does not answer (wait_taken), says READY=1, and then waits for SIGTERM or
 * SIGINT. A shard that reaches its next state wakes the main thread by SIGUSR1. All threads block
 * these signals. ZeroMQ has its I/O threads, libuv its pool for the engines' slow work
 * (UV_THREADPOOL_SIZE overrides its size).
 *
 * SIGTERM is a clean stop: every dirty tablet is written, so that the next start replays nothing. A
 * second SIGTERM ends the process at once, and so does one during recovery. Recovery may be killed
 * at any step (e2e/test_kill_points.py) and has answered no client yet, so its steps need no check
 * for a stop. A broken disk, too, ends the process at once, with status 74, and the next start
 * recovers. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
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
#include "proto/wire/coordinators.h"
#include "server/server_config.h"
#include "server/server_hang.h"
#include "server/server_keys.h"
#include "server/server_status.h"
#include "server/server_word.h"
#include "server/shard/server_dir.h"
#include "server/shard/shard.h"

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

/* While shards make progress, systemd is asked to wait this much longer. */
#define MORE_TIME_US UINT64_C(30000000)
#define NOT_TAKEN                                                                                  \
    "the coordinator does not take this server: its log says why, and so does shoal doctor "       \
    "--cluster"
/* A server is READY after this time without an answer from the coordinator. */
#define UNANSWERED_NS UINT64_C(10000000000)

struct server;

/* A member passes through the states in this order. A member whose opening failed is OPENED with a
 * status, and then CLOSED. */
enum member_state { MEMBER_OPENS, MEMBER_OPENED, MEMBER_LEAVES, MEMBER_CLOSED };

struct member {            /* one shard and its thread */
    struct server *server; /* borrowed */
    uint32_t index;
    char dir[LIMIT_PATH]; /* the shard's; it may open its engine again */
    pthread_t thread;
    _Atomic int state;       /* set by the thread, as are the members below it up to pulses */
    struct net *net;         /* net_interrupt from main, once opened */
    struct shard *shard;     /* used by its thread alone */
    int status;              /* 0 or SHOAL_E_*, once opened */
    struct err error;        /* the message for status */
    _Atomic uint64_t pulses; /* counted up by the thread while it makes progress */
    uint64_t seen;           /* the value of pulses when the main thread last told systemd */
    uint64_t stands;         /* the value of pulses when it last changed, as the main thread saw */
    uint64_t stands_ns;      /* and when that was; 0: not yet */
    struct env_timer pulse;
    struct server_list list; /* the allow-list of a server without a coordinator */
};

struct server {
    struct server_config config;
    char name[LIMIT_NAME];
    struct keyfile *keys; /* owned; NULL: none */
    bool insecure;        /* it listens on tcp without keys */
    struct budget budget;
    sigset_t signals;                 /* blocked in every thread; main takes them */
    struct member *member;            /* owned, (config.shards) */
    struct server_progress *progress; /* owned, (config.shards) */
    struct server_told told;
    struct server_hang hang;
    struct server_word word;
    struct live live;
    struct board *board; /* owned; NULL: no metrics */
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
    *rss_peak = 0;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        *rss_peak = (uint64_t)usage.ru_maxrss * 1024;
}

/* ---- a shard's thread ---- */

static void fatal_cb(void *context, const struct err *e)
{
    const struct member *m = context;
    /* damaged data is damaged at the next start, too */
    const char *next = ", the next start recovers";
    if (e->code == SHOAL_E_CORRUPT || e->code == SHOAL_E_CHECKSUM || e->code == SHOAL_E_SCHEMA)
        next = "";
    int status = err_exit_status(SHOAL_E_IO);
    log_event(DISK_FAILED, m->server->name, "%s; leaving with status %d%s", e->text, status, next);
    starts_cause(e->text);
    _exit(status);
}

/* A shard makes progress: its loop turns, or long work in it advances. */
static void pulse_cb(void *context, uint64_t done, uint64_t of)
{
    struct member *m = context;
    struct server_progress *p = &m->server->progress[m->index];
    p->done = done;
    p->of = of;
    m->pulses++;
    board_pulse(m->server->board, m->index, time_monotonic_ns());
}

static void figures_note(struct member *m)
{
    struct server_progress *p = &m->server->progress[m->index];
    struct shard_figures f;
    shard_figures(m->shard, &f);
    p->rows = f.rows;
    p->away = f.tablets_away;
    p->tablets = f.tablets_awaited;
    p->pulled = f.keys_pulled;
    p->pushed = f.keys_pushed;
    p->place = (int)f.place;
}

/* Publishes the shard's figures for Prometheus. It is ready when its rows are back and the
 * coordinator has taken it. */
static void figures_publish(struct member *m)
{
    struct board *b = m->server->board;
    struct shard_figures f;
    char why[BOARD_WHY] = "";
    if (!board_wants(b, m->index, time_monotonic_ns()))
        return;
    shard_figures(m->shard, &f);
    if (f.tablets_away > 0)
        (void)snprintf(why, sizeof why, "%u of %u tablets are not back yet", f.tablets_away,
                       f.tablets_awaited);
    else if (f.place == SHARD_REFUSED)
        (void)snprintf(why, sizeof why, "%s", NOT_TAKEN);
    else if (f.place == SHARD_UNANSWERED)
        (void)snprintf(why, sizeof why, "the coordinator has not answered yet");
    meter_clear(board_sheet(b, m->index));
    gauges_put(m->shard, board_sheet(b, m->index));
    board_publish(b, m->index, why[0] == 0, why);
}

/* ---- the allow-list ---- */

static void list_told(const char *of, int rc, const struct err *e)
{
    const char *result = "ok";
    if (rc != 0) {
        log_error("another allow-list is not taken, the former one stays: %s", e->text);
        result = "refused";
    }
    log_audit(.operation = "KEYLIST", .object = of, .result = result);
}

/* shard_options.allow. */
static int allow_cb(void *context, const char *text, size_t bytes, struct err *e)
{
    struct member *m = context;
    struct keylist *list;
    int rc = keylist_parse(text, bytes, "the coordinator's list", &list, e);
    if (rc == 0)
        net_allow(m->net, list);
    list_told("the coordinator's", rc, e);
    return rc;
}

/* Reads the allow-list of a server without a coordinator from the server's own file. */
static int list_take(struct member *m, struct err *e)
{
    struct keylist *list;
    char *text;
    size_t bytes;
    int rc = server_keys_list_read(&m->list, &list, &text, &bytes, e);
    if (rc != 0)
        return rc;
    free(text);
    net_allow(m->net, list);
    return 0;
}

static void list_look(struct member *m)
{
    struct err e = {0};
    if (m->list.path != NULL && server_keys_list_changed(&m->list))
        list_told(m->list.path, list_take(m, &e), &e);
}

static void pulse_timer_cb(struct env_timer *t)
{
    struct member *m = container_of(t, struct member, pulse);
    pulse_cb(m, 0, 0);
    figures_note(m);
    figures_publish(m);
    list_look(m);
    file_reserve_fill();
    env_timer_start(net_env(m->net), t, UINT64_C(1000000000));
}

/* Enters a state and wakes the main thread. */
static void reach(struct member *m, enum member_state state)
{
    SHOAL_ASSERT((int)state == m->state + 1);
    m->state = (int)state;
    m->pulses++;
    kill(getpid(), SIGUSR1);
}

/* All shards together get a quarter of the files that the process may open; the rest is for the
 * store and the journal. */
static uint32_t connections_most(uint32_t shards)
{
    uint64_t part = machine_files() / 4 / shards;
    return (uint32_t)MIN(MAX(part, 16), LIMIT_PEERS);
}

/* Finds the address that stands for "all addresses of this machine" when workers are told where
 * this shard is: the address from which the coordinator is reached. While the coordinator's name
 * has no address yet the function waits: without the coordinator this server has no work. */
static void shown_find(struct member *m, const char *bound, char shown[64])
{
    const struct server_config *c = &m->server->config;
    struct err e;
    shown[0] = 0;
    if (c->advertise[0] != 0 || c->coordinator[0] == 0 || !name_any(bound))
        return;
    if (!coordinators_tcp(c->coordinator)) { /* workers run on the coordinator's machine */
        (void)snprintf(shown, 64, "%s", strchr(bound, '[') != NULL ? "[::1]" : "127.0.0.1");
        return;
    }
    for (bool said = false; coordinators_toward(c->coordinator, name_toward, shown, &e) != 0;
         said = true) {
        if (!said)
            log_warn("listen: %s is every address of this machine, and by which one the "
                     "coordinator at %s is reached is not known: %s; asked again each second, or "
                     "set `advertise`",
                     bound, c->coordinator, e.text);
        pulse_cb(m, 0, 0); /* waiting here is progress */
        (void)nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
    log_info("workers are told %s for %s: the address by which the coordinator is reached; "
             "`advertise` gives another",
             shown, bound);
}

static int open_member(struct member *m, struct shard **shard)
{
    struct server *sv = m->server;
    const struct server_config *c = &sv->config;
    char endpoint[256], bound[256], shown[64], advertised[256];
    struct net_options no = {.io_threads = c->net.io_threads,
                             .queue_bytes = sv->budget.replies,
                             .drop_sends = c->net.drop,
                             .connections_max = connections_most(c->shards),
                             .keys = sv->keys,
                             .insecure_plaintext = c->insecure_plaintext};
    int rc = net_new(&no, &m->net, &m->error);
    if (rc)
        return rc;
    server_dir_shard(c->data_dir, m->index, m->dir);
    struct shard_options o = {
        .server = sv->name,
        .zone = sv->config.zone,
        .shard_index = m->index,
        .shard_count = c->shards,
        .coordinator = c->coordinator[0] ? c->coordinator : NULL,
        .engine = {.dir = m->dir,
                   .wall_ns = time_wall_ns,
                   .durability = c->durability,
                   .checkpoint_root = c->checkpoint_root,
                   .checkpoint_signers = c->checkpoint_signers,
                   .journal_max = c->journal.max / c->shards,
                   .journal_keep = c->journal.keep / c->shards,
                   .segment_bytes = (uint32_t)c->journal.segment,
                   .disk = sv->budget.disk,
                   .disk_watermark = c->disk_free,
                   .memory = sv->budget.engine},
        .waiting_max = sv->budget.waiting,
        .copy_rate = c->net.copy_rate / c->shards,
        .process = process_figures,
        .pulse = pulse_cb,
        .allow = sv->keys != NULL ? allow_cb : NULL,
        .insecure = sv->insecure,
        .boot = machine_boot(""),
        .on_fatal = fatal_cb,
        .context = m,
    };
    if ((rc = shard_open(&o, net_env(m->net), shard, &m->error)))
        return rc;
    net_set_handler(m->net, &shard_handler, *shard);
    if ((rc = server_config_endpoint(c, m->index, endpoint, &m->error)) ||
        (rc = net_listen(m->net, endpoint, bound, &m->error)))
        return rc;
    if (c->allow[0] != 0) {
        m->list.path = c->allow;
        if ((rc = list_take(m, &m->error)))
            return rc;
    }
    shown_find(m, bound, shown);
    name_advertised(c->advertise, bound, shown, advertised);
    log_info("shard %s/%u: %s, data in %s", sv->name, m->index, bound, m->dir);
    return shard_start(*shard, advertised, &m->error);
}

static void *member_thread(void *argument)
{
    struct member *m = argument;
    struct server *sv = m->server;
    struct shard *shard = NULL;
    char name[16]; /* the name in `top -H` and in a debugger */
    (void)snprintf(name, sizeof name, "shard-%u", m->index);
    (void)pthread_setname_np(pthread_self(), name);
    crash_thread();
    int rc = m->status = open_member(m, &shard);
    m->shard = shard;
    if (!rc) {
        m->pulse.fire = pulse_timer_cb;
        pulse_timer_cb(&m->pulse);
    }
    reach(m, MEMBER_OPENED);
    if (!rc)
        net_run(m->net);
    reach(m, MEMBER_LEAVES);
    if (shard != NULL && shard_close(shard, rc == 0) && !rc)
        log_error("shard %s/%u: a tablet could not be written at the end; the next start replays "
                  "the journal",
                  sv->name, m->index);
    reach(m, MEMBER_CLOSED);
    return NULL;
}

/* ---- the main thread ---- */

static int start_members(struct server *sv, struct err *e)
{
    SHOAL_ASSERT(sv->config.shards > 0);
    sv->member = calloc(sv->config.shards, sizeof *sv->member);
    sv->progress = calloc(sv->config.shards, sizeof *sv->progress);
    if (sv->progress == NULL) {
        free(sv->member);
        sv->member = NULL;
    }
    if (sv->member == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u shards", sv->config.shards);
    for (uint32_t i = 0; i < sv->config.shards; i++) {
        struct member *m = &sv->member[i];
        m->server = sv;
        m->index = i;
        if (pthread_create(&m->thread, NULL, member_thread, m)) {
            sv->config.shards = i; /* stop_members joins the threads that run */
            return err_set(e, SHOAL_E_NOMEM, "cannot start the thread of shard %u", i);
        }
    }
    return 0;
}

/* The number of members that have reached this state. */
static uint32_t reached(const struct server *sv, enum member_state state)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sv->config.shards; i++)
        count += sv->member[i].state >= (int)state;
    return count;
}

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
    if (signo == SIGHUP && reached(sv, MEMBER_OPENED) == sv->config.shards)
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

/* True when every shard has made progress since this function last returned true. */
static bool all_move(struct server *sv)
{
    bool all = true;
    for (uint32_t i = 0; i < sv->config.shards; i++)
        all &= sv->member[i].pulses != sv->member[i].seen;
    for (uint32_t i = 0; all && i < sv->config.shards; i++)
        sv->member[i].seen = sv->member[i].pulses;
    return all;
}

/* A start or a stop may take any time while it makes progress: systemd's timeout is extended when
 * any shard has made progress since the last call. A hanging start is not extended. */
static void more_time(struct server *sv)
{
    bool any = false;
    for (uint32_t i = 0; i < sv->config.shards; i++) {
        struct member *m = &sv->member[i];
        uint64_t pulses = m->pulses;
        any |= pulses != m->seen;
        m->seen = pulses;
    }
    if (any)
        notify_extend_timeout(MORE_TIME_US);
}

static void work_tell(const struct server *sv, const char *what, const char *of)
{
    char text[128];
    server_status_work(sv->progress, sv->config.shards, what, of, text, sizeof text);
    notify_status("%s", text);
}

static uint32_t placed(const struct server *sv, enum shard_place place)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sv->config.shards; i++)
        count += sv->progress[i].place == (int)place;
    return count;
}

/* Returns for how long the loop has made no progress that has stood still for longest, and which
 * shard's that is. */
static uint64_t loops_look(struct server *sv, uint64_t now_ns, uint32_t *shard)
{
    uint64_t longest = 0;
    *shard = 0;
    for (uint32_t i = 0; i < sv->config.shards; i++) {
        struct member *m = &sv->member[i];
        uint64_t pulses = m->pulses;
        if (m->stands_ns == 0 || pulses != m->stands) {
            m->stands = pulses;
            m->stands_ns = now_ns;
        }
        if (now_ns - m->stands_ns <= longest)
            continue;
        longest = now_ns - m->stands_ns;
        *shard = i;
    }
    return longest;
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
    uint32_t loop_s = hang_s(loops_look(sv, now_ns, &shard));
    server_word_hang(&sv->word, disk_s, shard, loop_s);
    if (now_ns - sv->told.ns < UINT64_C(2000000000))
        return;
    server_status_serving(sv->progress, sv->config.shards, now_ns, &sv->told, text, sizeof text);
    if (disk_s > 0)
        (void)snprintf(text, sizeof text, "the disk of data_dir has not answered for %u s", disk_s);
    else if (loop_s > 0)
        (void)snprintf(text, sizeof text, "the loop of shard-%u has made no progress for %u s",
                       shard, loop_s);
    notify_status("%s", placed(sv, SHARD_REFUSED) > 0 ? NOT_TAKEN : text);
}

/* Waits until all members have opened; returns the status of the first that failed. */
static int wait_opened(struct server *sv, struct err *e)
{
    while (reached(sv, MEMBER_OPENED) < sv->config.shards) {
        if (asked_to_stop(sv))
            leave_now(sv, "its recovery");
        more_time(sv);
        work_tell(sv, "recovers", "the journal is read");
    }
    for (uint32_t i = 0; i < sv->config.shards; i++)
        if (sv->member[i].status) {
            *e = sv->member[i].error;
            return sv->member[i].status;
        }
    return 0;
}

/* READY=1 means that the server has work: the coordinator has taken all its shards. A coordinator
 * that does not answer must not block the start of this unit, for systemd may start it later.
 * Returns false when the server is asked to stop or a shard leaves. */
static bool wait_taken(struct server *sv)
{
    uint64_t begun_ns = time_monotonic_ns();
    for (;;) {
        uint32_t taken = placed(sv, SHARD_TAKEN), refused = placed(sv, SHARD_REFUSED);
        if (taken == sv->config.shards ||
            (refused == 0 && time_monotonic_ns() - begun_ns > UNANSWERED_NS))
            return true;
        notify_status("%s", refused > 0 ? NOT_TAKEN : "waits for the coordinator");
        more_time(sv);
        if (reached(sv, MEMBER_LEAVES) > 0 || asked_to_stop(sv))
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
    while (reached(sv, MEMBER_LEAVES) == 0 && !asked_to_stop(sv)) {
        serving_tell(sv);
        if (every_ns != 0 && time_monotonic_ns() - pinged >= every_ns && all_move(sv)) {
            notify_watchdog_ping();
            pinged = time_monotonic_ns();
        }
    }
}

static void stop_members(struct server *sv)
{
    /* every member has its net by now */
    SHOAL_ASSERT(reached(sv, MEMBER_OPENED) == sv->config.shards);
    for (uint32_t i = 0; i < sv->config.shards; i++)
        if (sv->member[i].net != NULL)
            net_interrupt(sv->member[i].net);
    while (reached(sv, MEMBER_CLOSED) < sv->config.shards) {
        if (asked_to_stop(sv))
            leave_now(sv, "its last writes");
        more_time(sv);
        work_tell(sv, "stops", "what changed is written");
    }
    for (uint32_t i = 0; i < sv->config.shards; i++)
        pthread_join(sv->member[i].thread, NULL);
    for (uint32_t i = 0; i < sv->config.shards; i++)
        net_free(sv->member[i].net);
    free(sv->member);
    free(sv->progress);
}

/* The other 30 % are for messages, RocksDB's own memory and the kernel. */
static uint64_t memory_default(void)
{
    return machine_memory("") / 10 * 7;
}

/* sock.c sets malloc's thresholds high, so that freed memory stays in the heaps. This function
 * lowers them where memory is short: a freed large buffer then goes back to the kernel, and its
 * next use costs a page fault for each 4 KiB. */
static void heap_bound(uint64_t memory, uint32_t heaps)
{
    SHOAL_ASSERT(memory > 0 && heaps > 0);
    /* spare: the bytes that each heap keeps; a thirty-second of all memory together */
    uint64_t large = memory / 256, spare = memory / 32 / heaps;
    large = MIN(MAX(large, 512u << 10), 32u << 20);
    spare = MIN(MAX(spare, 1u << 20), 64u << 20);
    mallopt(M_MMAP_THRESHOLD, (int)large);
    mallopt(M_TRIM_THRESHOLD, (int)spare);
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
    sv->insecure = server_keys_insecure(&ask, sv->keys);
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
        memory = memory_default();
    server_config_divide(memory, sv->config.disk, sv->config.shards, &sv->budget);
    msg_keep(sv->budget.kept);
    /* Without this bound each of some ten threads (libuv's, RocksDB's) keeps a heap of its own, 40
     * MiB and more that no budget counts. With fewer heaps than this, fetches and a compaction wait
     * for each other (measured with one shard): RocksDB allocates a block's bytes from the heap for
     * each row. */
    uint32_t heaps = sv->config.shards + 3;
    mallopt(M_ARENA_MAX, (int)heaps);
    rc = start_members(sv, e);
    if (sv->member != NULL) {
        struct err why;
        /* also after a failure: the threads that run must be stopped */
        int opened = wait_opened(sv, &why);
        if (!rc && (rc = opened))
            *e = why;
    }
    heap_bound(memory, heaps);
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
    if (sv->member != NULL)
        stop_members(sv);
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
