/* server_thread.c: a shard's thread: its socket, its engine, its loop, the figures that it
 * publishes and the allow-list that it looks at. */
#include "server/server_thread.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/crash.h"
#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/base/machine.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/http/board.h"
#include "proto/net/name.h"
#include "proto/net/starts.h"
#include "proto/wire/coordinators.h"
#include "server/server_memory.h"
#include "server/shard/server_dir.h"
#include "server/shard/shard.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void fatal_cb(void *context, const struct err *e)
{
    const struct server_thread *m = context;
    /* damaged data is damaged at the next start, too */
    const char *next = ", the next start recovers";
    if (e->code == SHOAL_E_CORRUPT || e->code == SHOAL_E_CHECKSUM || e->code == SHOAL_E_SCHEMA)
        next = "";
    int status = err_exit_status(SHOAL_E_IO);
    log_event(DISK_FAILED, m->of->name, "%s; leaving with status %d%s", e->text, status, next);
    starts_cause(e->text);
    _exit(status);
}

/* A shard makes progress: its loop turns, or long work in it advances. */
static void pulse_cb(void *context, uint64_t done, uint64_t of)
{
    struct server_thread *m = context;
    struct server_progress *p = &m->of->progress[m->index];
    p->done = done;
    p->of = of;
    m->pulses++;
    board_pulse(m->of->board, m->index, time_monotonic_ns());
}

static void figures_note(struct server_thread *m)
{
    struct server_progress *p = &m->of->progress[m->index];
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
static void figures_publish(struct server_thread *m)
{
    struct board *b = m->of->board;
    struct shard_figures f;
    char why[BOARD_WHY] = "";
    if (!board_wants(b, m->index, time_monotonic_ns()))
        return;
    shard_figures(m->shard, &f);
    if (f.tablets_away > 0)
        (void)snprintf(why, sizeof why, "%u of %u tablets are not back yet", f.tablets_away,
                       f.tablets_awaited);
    else if (f.place == SHARD_REFUSED)
        text_copy(why, sizeof why, SERVER_NOT_TAKEN);
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
    struct server_thread *m = context;
    struct keylist *list;
    int rc = keylist_parse(text, bytes, "the coordinator's list", &list, e);
    if (rc == 0)
        net_allow(m->net, list);
    list_told("the coordinator's", rc, e);
    return rc;
}

/* Reads the allow-list of a server without a coordinator from the server's own file. */
static int list_take(struct server_thread *m, struct err *e)
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

static void list_look(struct server_thread *m)
{
    struct err e = {0};
    if (m->list.path != NULL && server_keys_list_changed(&m->list))
        list_told(m->list.path, list_take(m, &e), &e);
}

static void pulse_timer_cb(struct env_timer *t)
{
    struct server_thread *m = container_of(t, struct server_thread, pulse);
    pulse_cb(m, 0, 0);
    figures_note(m);
    figures_publish(m);
    list_look(m);
    file_reserve_fill();
    env_timer_start(net_env(m->net), t, UINT64_C(1000000000));
}

/* Enters a state and wakes the main thread. */
static void reach(struct server_thread *m, enum server_thread_state state)
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
static void shown_find(struct server_thread *m, const char *bound, char shown[64])
{
    const struct server_config *c = m->of->config;
    struct err e;
    shown[0] = 0;
    if (c->advertise[0] != 0 || c->coordinator[0] == 0 || !name_any(bound))
        return;
    if (!coordinators_tcp(c->coordinator)) { /* workers run on the coordinator's machine */
        text_copy(shown, 64, strchr(bound, '[') != NULL ? "[::1]" : "127.0.0.1");
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

static int shard_begin(struct server_thread *m, struct shard **shard)
{
    const struct server_shards *sv = m->of;
    const struct server_config *c = sv->config;
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
        .zone = c->zone,
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
        .process = server_memory_figures,
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

static void *run(void *argument)
{
    struct server_thread *m = argument;
    struct shard *shard = NULL;
    char name[16]; /* the name in `top -H` and in a debugger */
    (void)snprintf(name, sizeof name, "shard-%u", m->index);
    (void)pthread_setname_np(pthread_self(), name);
    crash_thread();
    int rc = m->status = shard_begin(m, &shard);
    m->shard = shard;
    if (!rc) {
        m->pulse.fire = pulse_timer_cb;
        pulse_timer_cb(&m->pulse);
    }
    reach(m, THREAD_OPENED);
    if (!rc)
        net_run(m->net);
    reach(m, THREAD_LEAVES);
    if (shard != NULL && shard_close(shard, rc == 0) && !rc)
        log_error("shard %s/%u: a tablet could not be written at the end; the next start replays "
                  "the journal",
                  m->of->name, m->index);
    reach(m, THREAD_CLOSED);
    return NULL;
}

int server_thread_start(struct server_thread *m, struct err *e)
{
    if (pthread_create(&m->thread, NULL, run, m) != 0)
        return err_set(e, SHOAL_E_NOMEM, "cannot start the thread of shard %u", m->index);
    return 0;
}

void server_thread_end(struct server_thread *m)
{
    SHOAL_ASSERT(m->state == THREAD_CLOSED);
    pthread_join(m->thread, NULL);
}
