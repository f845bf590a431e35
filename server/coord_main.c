/* coord_main.c: shoal-coordinator: the daemon around the core. One thread runs the loop; ZeroMQ has
 * its I/O thread. The process may be killed at any time: the store holds all that was promised, and
 * the next start continues from it.
 *
 * With a store of several coordinators the daemon stands by until it leads (coord_stand.h). Once it
 * leads no longer, all of its state may be old: it is freed, and the process begins anew, in place:
 * so it needs no supervisor that starts it again. */
#include "proto/base/container_of.h"
#include "proto/base/crash.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/json.h"
#include "proto/base/lockfile.h"
#include "proto/base/log.h"
#include "proto/base/machine.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/base/version.h"
#include "proto/http/asked.h"
#include "proto/http/board.h"
#include "proto/job/config.h"
#include "proto/job/keys.h"
#include "proto/job/live.h"
#include "proto/job/option.h"
#include "proto/net/name.h"
#include "proto/net/net.h"
#include "proto/net/notify.h"
#include "proto/net/starts.h"
#include "server/coord/coord.h"
#include "server/coord/figures/tensorboard.h"
#include "server/coord/fleet/folder.h"
#include "server/coord/gauges.h"
#include "server/coord/page/page.h"
#include "server/coord_stand.h"
#include "server/server_config.h"
#include "server/server_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void version(void)
{
    unsigned protocol;
    const char *library[] = {net_libraries(),
                             coord_library(&protocol),
                             json_library(),
                             config_library(),
                             hash_library(),
                             http_library(),
                             NULL};
    version_print("shoal-coordinator", protocol, library);
}

struct daemon {
    const struct coord_config *config;
    struct live *live;
    struct keyfile *keys;      /* owned; NULL: none */
    struct net *net;           /* owned */
    struct coord_store *store; /* owned; NULL, like coord: it stands by */
    struct coord *coord;       /* owned */
    struct coord_options options;
    struct coord_stand stand;
    int rc; /* why it could not lead */
    struct err e;
    bool ends; /* a signal asked for it */
    struct env *env;
    struct env_timer status;
    struct board *board; /* borrowed; NULL: no metrics */
    struct asked *page;  /* borrowed: the figures of the status page */
    uint64_t losses;     /* how often the process has begun anew */
    struct env_timer figures;
    struct server_list list;
    char last[LIMIT_PATH + 16];      /* path of the copy of the last accepted list, in data_dir */
    char trouble[ERR_TEXT_MAX + 64]; /* the list's error, while an older list counts; empty: none */
    struct env_timer look;           /* checks the list for changes */
    char place[LIMIT_PATH + 256];    /* HOST:FOLDER of its reports */
    struct coord_tensorboard tensorboard;
    struct coord_hook hook[COORD_JOBS];
};

static int hook_start(void *context, uint32_t slot, const struct string_list *words,
                      const char *folder, struct err *e)
{
    return coord_hook_start(&((struct daemon *)context)->hook[slot], words, folder, e);
}

static bool hook_poll(void *context, uint32_t slot, int *exit_status)
{
    return coord_hook_poll(&((struct daemon *)context)->hook[slot], exit_status);
}

static void hook_stop(void *context, uint32_t slot, bool kill)
{
    coord_hook_stop(&((struct daemon *)context)->hook[slot], kill);
}

static int scalars_write(void *context, const char *run, uint64_t step,
                         const struct coord_scalar *scalar, uint32_t count, struct err *e)
{
    return coord_tensorboard_write(&((struct daemon *)context)->tensorboard, run, step, scalar,
                                   count, e);
}

static void place_find(struct daemon *d)
{
    const char *report = d->config->report, *slash = strrchr(report, '/');
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    (void)snprintf(d->place, sizeof d->place, "%s:%.*s", host,
                   slash != NULL ? (int)(slash - report) : 0, report);
}

/* Writes the report whole or not at all: a reader never sees half a report. */
static int report_write(void *context, const char *text, struct err *e)
{
    const struct coord_config *config = ((const struct daemon *)context)->config;
    char path[LIMIT_PATH + 8];
    (void)snprintf(path, sizeof path, "%s.new", config->report);
    int fd = file_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0)
        return err_set(e, SHOAL_E_CANTCREATE, "report %s: %s", path, strerror(errno));
    bool good = file_write_all(fd, text, strlen(text)) == 0 && file_write_all(fd, "\n", 1) == 0 &&
                file_sync(fd) == 0;
    int saved = errno;
    if (close(fd) != 0 && good) {
        good = false;
        saved = errno;
    }
    if (good && file_rename(path, config->report) != 0) {
        good = false;
        saved = errno;
    }
    return good ? 0 : err_set(e, SHOAL_E_IO, "report %s: %s", config->report, strerror(saved));
}

/* ---- the allow-list -------------------------------------------------------------------------- */

#define LOOK_NS UINT64_C(250000000) /* a key that is removed is refused within a second */

/* The list counts here at once, and is sent to the shards. Takes list and text over. */
static int list_set(struct daemon *d, struct keylist *list, char *text, size_t bytes, struct err *e)
{
    int rc = 0;
    net_allow(d->net, list);
    if (d->coord != NULL)
        rc = coord_keys_set(d->coord, text, bytes, e);
    free(text);
    return rc;
}

static int list_take(struct daemon *d, struct err *e)
{
    struct keylist *list;
    char *text;
    size_t bytes;
    int rc = server_keys_list_read(&d->list, &list, &text, &bytes, e);
    if (rc != 0)
        return rc;
    log_info("%u keys are allowed by %s", list->count, d->list.path);
    server_keys_list_keep(&d->list, text, bytes);
    d->trouble[0] = 0;
    return list_set(d, list, text, bytes, e);
}

static void list_again(struct daemon *d)
{
    struct err e = {0};
    int rc = list_take(d, &e);
    if (rc != 0) {
        (void)snprintf(d->trouble, sizeof d->trouble,
                       "another allow-list is not taken, the former one stays: %s", e.text);
        log_error("%s", d->trouble);
    }
    log_audit(.operation = "KEYLIST", .object = d->list.path, .result = rc == 0 ? "ok" : "refused");
}

static void look_fire(struct env_timer *t)
{
    struct daemon *d = container_of(t, struct daemon, look);
    if (server_keys_list_changed(&d->list))
        list_again(d);
    env_timer_start(d->env, t, LOOK_NS);
}

static int list_begin(struct daemon *d, struct err *e)
{
    if (d->config->allow[0] == 0)
        return 0;
    struct keylist *list;
    char *text;
    size_t bytes;
    (void)snprintf(d->last, sizeof d->last, "%s/allow.last", d->config->data_dir);
    d->list = (struct server_list){.path = d->config->allow, .last = d->last};
    int rc = list_take(d, e);
    if (rc != 0) {
        rc = server_keys_list_last(&d->list, rc, &list, &text, &bytes, e);
        if (rc != 0)
            return rc;
        log_error("%s", e->text);
        (void)snprintf(d->trouble, sizeof d->trouble, "%s", e->text);
        rc = list_set(d, list, text, bytes, e);
    }
    if (rc != 0)
        return rc;
    d->look.fire = look_fire;
    env_timer_start(d->env, &d->look, LOOK_NS);
    return 0;
}

/* coord_options.problems. */
static void problems(void *context, struct json *list)
{
    const struct daemon *d = context;
    struct net_refused refused[NET_REFUSED_MOST];
    char text[256];
    uint64_t now_ns = env_now_ns(d->env);
    uint32_t count = net_refused(d->net, refused);
    if (d->trouble[0] != 0)
        json_append_string(list, d->trouble);
    for (uint32_t i = 0; i < count; i++) {
        const struct net_refused *r = &refused[i];
        (void)snprintf(text, sizeof text,
                       "the key %.10s.. is refused, shown from %s for %" PRIu64 " s, %" PRIu64
                       " times: the allow-list has no such key; give it a line, or stop the daemon "
                       "or command that shows it",
                       r->key, r->address, (now_ns - r->first_ns) / UINT64_C(1000000000), r->count);
        json_append_string(list, text);
    }
}

/* ---- signals and the status ------------------------------------------------------------------ */

/* The weights of the file that was read again. */
static void memory_again(struct daemon *d)
{
    struct coord_weights memory;
    struct err e;
    if (server_config_memory(d->live->now, text_or(d->live->path, "settings"), &memory, &e) != 0) {
        log_error("%s; the weights that were read before stay", e.text);
        return;
    }
    d->options.memory = memory;
    if (d->coord != NULL)
        coord_memory_set(d->coord, &memory);
}

/* Handles SIGHUP. */
static void reload(struct daemon *d)
{
    struct err e;
    notify_reloading();
    /* it logs what is wrong */
    if (live_read(d->live, &e) == 0 && d->live->now != NULL)
        memory_again(d);
    if (d->list.path != NULL)
        list_again(d);
    notify_ready("serving");
}

static void on_signal(void *context, int signo)
{
    struct daemon *d = context;
    if (signo == SIGHUP) {
        reload(d);
        return;
    }
    d->ends = true;
    board_stops(d->board);
    log_info("stops on signal %d; its state stays in %s", signo,
             text_unless_empty(d->config->store, "data_dir"));
    notify_stopping();
    net_interrupt(d->net);
}

static void status_fire(struct env_timer *timer)
{
    struct daemon *d = container_of(timer, struct daemon, status);
    char text[240];
    log_flush();
    if (d->coord != NULL)
        coord_describe(d->coord, text, sizeof text);
    else
        coord_stand_describe(&d->stand, text, sizeof text);
    notify_status("%s", text);
    env_timer_start(d->env, timer, UINT64_C(2000000000));
}

/* The route of the status page, on the thread of HTTP. */
static void page_serve(void *context, const struct http_ask *ask, struct http_reply *reply)
{
    struct page_figures f = {.bytes = 0};
    char *text = asked_read(context, &f.age_s);
    (void)ask;
    f.text = text;
    f.bytes = text == NULL ? 0 : strlen(text);
    reply->type = "text/html; charset=utf-8";
    page_write(&f, reply->body);
    free(text);
}

/* The figures of the status page; page.h has their form. */
static char *page_text(struct daemon *d)
{
    if (d->coord != NULL)
        return coord_page(d->coord);
    struct json *stands_by = json_new_object();
    json_set_string(stands_by, "stands_by", d->stand.leader);
    json_set_string(stands_by, "why", d->stand.told);
    char *text = json_text(stands_by, 0);
    json_free(stands_by);
    return text;
}

/* Publishes the figures for Prometheus, and those of the status page if it is read. It is ready
 * when it leads, or stands by. */
static void figures_fire(struct env_timer *timer)
{
    struct daemon *d = container_of(timer, struct daemon, figures);
    bool ready = d->coord != NULL || d->stand.leader[0] != 0;
    char why[BOARD_WHY];
    uint64_t now_ns = time_monotonic_ns();
    if (asked_wants(d->page, now_ns))
        asked_put(d->page, page_text(d), now_ns);
    if (board_wants(d->board, 0, now_ns)) {
        struct meter_sheet *sheet = board_sheet(d->board, 0);
        meter_clear(sheet);
        meter_put(sheet, LEADS, d->coord != NULL, NULL);
        meter_put(sheet, COORD_STORE_LOSSES, (double)d->losses, NULL);
        if (d->coord != NULL)
            coord_gauges_put(d->coord, sheet);
        struct net_refused refused[NET_REFUSED_MOST];
        meter_put(sheet, REFUSED_KEYS, net_refused(d->net, refused), NULL);
        (void)snprintf(why, sizeof why,
                       "it does not lead, and does not know which coordinator does%s%.180s",
                       text_if(d->stand.told[0] != 0, "; "), d->stand.told);
        board_publish(d->board, 0, ready, text_if(!ready, why));
    }
    env_timer_start(d->env, timer, BOARD_PERIOD_NS);
}

/* Connections of workers, shards and tools: half of the files that the process may open. */
static uint32_t connections_most(void)
{
    uint64_t half = machine_files() / 2;
    return half > 2 * LIMIT_WORKERS ? 2 * LIMIT_WORKERS : (uint32_t)half;
}

static struct server_keys_ask ask_of(const struct coord_config *c)
{
    return (struct server_keys_ask){.listen = c->listen,
                                    .keys = c->keys,
                                    .allow = c->allow,
                                    .coordinator = "",
                                    .insecure = c->insecure_plaintext,
                                    .signers = c->checkpoint_signers};
}

/* ---- leading --------------------------------------------------------------------------------- */

static int lead(struct daemon *d, struct err *e)
{
    int rc = coord_new(&d->options, d->env, d->store, &d->coord, e);
    if (rc == 0)
        net_set_handler(d->net, &coord_handler, d->coord);
    return rc;
}

/* After standing by. The list is read again, since the shards get it from the coordinator. */
static void on_lead(void *context, struct coord_store *store)
{
    struct daemon *d = context;
    d->store = store;
    d->rc = lead(d, &d->e);
    if (d->rc == 0)
        d->rc = list_begin(d, &d->e);
    if (d->rc != 0)
        env_stop(d->env);
    else
        log_info("this coordinator leads");
}

/* bound: the endpoint at which the process listens. */
static int stand_by(struct daemon *d, const char *bound, struct err *e)
{
    char host[256] = "", failed[LIMIT_PATH];
    struct coord_stand *s = &d->stand;
    if (file_make_folders(d->config->data_dir, 0777, failed) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "data_dir %s: %s", failed, strerror(errno));
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    s->config = d->config;
    s->env = d->env;
    s->on_lead = on_lead;
    s->context = d;
    name_advertised(d->config->advertise, bound, host, s->endpoint);
    net_set_handler(d->net, &coord_stand_handler, s);
    return coord_stand_begin(s, e);
}

/* Returns how serving ended: 0, or an error. FENCED: to be begun anew. */
static int ended(const struct daemon *d, struct err *e)
{
    int rc = d->coord == NULL ? 0 : coord_fatal(d->coord);
    const char *store = text_unless_empty(d->config->store, d->config->data_dir);
    bool anew = rc == SHOAL_E_FENCED || rc == SHOAL_E_IO || rc == SHOAL_E_UNAVAILABLE;
    if (d->stand.fatal != 0)
        return err_set(e, d->stand.fatal, "%s", d->stand.e.text);
    if (d->rc != 0)
        return err_set(e, d->rc, "%s", d->e.text);
    if (rc != 0 && anew && d->config->store[0] != 0)
        return d->ends ? 0 : SHOAL_E_FENCED;
    if (rc != 0)
        return err_set(e, rc, "the store in %s failed", store);
    return 0;
}

static void options_fill(struct daemon *d, const struct server_keys_ask *ask)
{
    const struct coord_config *config = d->config;
    d->options =
        (struct coord_options){.store = text_unless_empty(config->store, config->data_dir),
                               .shards = config->shards,
                               .replicas = config->replicas,
                               .min_in_sync = config->min_in_sync,
                               .shard_lease_ms = config->shard_lease_ms,
                               .replace_after_ms = config->replace_after_ms,
                               .lease_ms = config->lease_ms,
                               .jobs = config->jobs,
                               .resend_ms = config->resend_ms,
                               .version = SHOAL_VERSION,
                               .place = d->place,
                               .write_report = config->report[0] != 0 ? report_write : NULL,
                               .report_path = config->report,
                               .write_scalars = config->tensorboard[0] != 0 ? scalars_write : NULL,
                               .scalars_path = config->tensorboard,
                               .folder = &coord_folder_disk,
                               .checkpoint_root = config->checkpoint_root,
                               .checkpoint_signers = config->checkpoint_signers,
                               .hook_start = config->publish ? hook_start : NULL,
                               .hook_poll = hook_poll,
                               .hook_stop = hook_stop,
                               .memory = config->memory,
                               .insecure = server_keys_insecure(ask, d->keys),
                               .problems = problems,
                               .context = d};
}

/* Until a handler is set, the kernel drops these signals for process 1; a blocked one stays
 * pending. */
static void signals_hold(int how)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(how, &ends, NULL);
}

static int serve_begin(struct daemon *d, struct err *e)
{
    const struct coord_config *config = d->config;
    const bool alone = config->store[0] == 0;
    struct net_options no = {.drop_sends = config->drop,
                             .connections_max = connections_most(),
                             .keys = d->keys,
                             .insecure_plaintext = config->insecure_plaintext};
    char bound[256];
    int rc = 0;
    if (alone)
        rc = coord_store_open(config->data_dir, LOCKFILE_WAIT_MS, &d->store, e);
    if (rc == 0)
        rc = net_new(&no, &d->net, e);
    if (rc != 0)
        return rc;
    d->env = net_env(d->net);
    if (alone)
        rc = lead(d, e);
    if (rc == 0)
        rc = net_signals(d->net, on_signal, d);
    if (rc != 0)
        return rc;
    signals_hold(SIG_UNBLOCK);
    rc = net_listen(d->net, config->listen, bound, e);
    if (rc == 0 && !alone)
        rc = stand_by(d, bound, e);
    if (rc == 0)
        rc = list_begin(d, e);
    if (rc == 0)
        crash_folder(config->data_dir);
    if (rc == 0)
        log_info("listens at %s for %u shards, state in %s", bound, config->shards,
                 text_unless_empty(config->store, config->data_dir));
    return rc;
}

/* The thread of HTTP reads it; it outlives a daemon that begins anew. */
struct shown {
    struct board *board; /* NULL: the file asks for none */
    struct asked *page;
    uint64_t losses; /* times that the store was lost, since the process started */
};

static int serve(const struct coord_config *config, struct live *live, const struct shown *shown,
                 struct err *e)
{
    struct daemon daemon = {.config = config,
                            .live = live,
                            .board = shown->board,
                            .page = shown->page,
                            .losses = shown->losses};
    const struct server_keys_ask ask = ask_of(config);
    char text[ERR_TEXT_MAX];
    int rc = server_keys_open(&ask, &daemon.keys, e);
    if (rc != 0)
        return rc;
    place_find(&daemon);
    options_fill(&daemon, &ask);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN); /* until the handler is set: the end of a terminal is no stop */
    coord_tensorboard_open(&daemon.tensorboard, config->tensorboard);
    signals_hold(SIG_BLOCK);
    rc = serve_begin(&daemon, e);
    if (rc == 0) {
        notify_watchdog_start(daemon.env);
        daemon.status.fire = status_fire;
        daemon.figures.fire = figures_fire;
        notify_ready("serving");
        status_fire(&daemon.status);
        if (shown->board != NULL)
            figures_fire(&daemon.figures);
        net_run(daemon.net);
        env_timer_stop(daemon.env, &daemon.status);
        env_timer_stop(daemon.env, &daemon.figures);
        rc = ended(&daemon, e);
    }
    if (daemon.coord != NULL && coord_hangs(daemon.coord, text, sizeof text)) {
        log_warn("%s: this coordinator ends without what it had begun there", text);
        if (rc != 0)
            log_error("%s", e->text);
        _exit(rc != 0 ? err_exit_status(rc) : 0);
    }
    if (daemon.net != NULL)
        net_free(daemon.net); /* first: it waits for work that has begun */
    coord_free(daemon.coord);
    keyfile_free(daemon.keys);
    coord_stand_end(&daemon.stand);
    coord_store_close(daemon.store);
    coord_tensorboard_close(&daemon.tensorboard);
    return rc;
}

/* The settings of the file that concern metrics. */
static struct board_options board_of(const struct coord_config *c)
{
    return (struct board_options){.program = "shoal-coordinator",
                                  .version = SHOAL_VERSION,
                                  .listen = c->metrics,
                                  .token = c->metrics_token,
                                  .loop = "coordinator",
                                  .loops = 1};
}

/* Serves until the end, as often as it begins anew. */
static int run(const struct coord_config *config, struct live *live, struct err *e)
{
    struct shown shown = {.board = NULL};
    struct board_options bo = board_of(config);
    int rc = asked_open(&shown.page, e);
    if (rc != 0)
        return rc;
    const struct http_route page = {"/", page_serve, shown.page, false, NULL};
    bo.route = &page;
    bo.routes = 1;
    rc = board_open(&bo, &shown.board, e);
    if (rc == 0)
        rc = serve(config, live, &shown, e);
    for (; rc == SHOAL_E_FENCED; rc = serve(config, live, &shown, e))
        shown.losses++;
    board_close(shown.board);
    asked_close(shown.page);
    return rc;
}

int main(int argc, char **argv)
{
    static struct coord_config config;
    struct option_line o;
    struct err e = {0};
    log_init("shoal-coordinator");
    crash_begin("shoal-coordinator");
    /* No access for other users. The group has what the inherited umask allows: checkpoints need it
     * (fleet.md). */
    umask(umask(077) | 007);
    (void)machine_files();
    int rc = option_program("shoal-coordinator", keys_coordinator, version, argc, argv, &o, &e);
    if (rc != 0) {
        option_free(&o);
        return starts_end(rc, &e);
    }
    if (!option_given(&o, "check")) /* --check is part of a reload, not a start */
        starts_begin();
    const char *tensorboard = option_text(&o, "tensorboard");
    rc = server_config_coordinator(option_text(&o, "config"), option_list(&o, "set"), &config, &e);
    static const char *const may[] = {"memory", NULL};
    struct live live = {.path = option_text(&o, "config"),
                        .set = option_list(&o, "set"),
                        .keys = keys_coordinator,
                        .may = may};
    if (rc == 0)
        rc = live_open(&live, &e);
    if (rc == 0 && tensorboard != NULL && strlen(tensorboard) >= sizeof config.tensorboard)
        rc = err_set(&e, SHOAL_E_USAGE, "--tensorboard: a path has at most %zu bytes",
                     sizeof config.tensorboard - 1);
    if (rc == 0 && tensorboard != NULL)
        (void)snprintf(config.tensorboard, sizeof config.tensorboard, "%s", tensorboard);
    const struct server_keys_ask ask = ask_of(&config);
    const struct board_options bo = board_of(&config);
    if (rc == 0)
        rc = board_check(&bo, &e);
    if (rc == 0)
        rc = option_given(&o, "check") ? server_keys_check(&ask, &e) : run(&config, &live, &e);
    live_close(&live);
    option_free(&o);
    return starts_end(rc, &e);
}
