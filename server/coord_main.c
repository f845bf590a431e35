/* coord_main.c: shoal-coordinator: the daemon around the core. One thread runs the loop; ZeroMQ has
 * its I/O thread. A kill at any time is fine: the store has what was promised, and the next start
 * goes on. */
#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/job/config.h"
#include "proto/job/keys.h"
#include "proto/net/net.h"
#include "proto/net/notify.h"
#include "server/coord/coord.h"
#include "server/coord/folder.h"
#include "server/coord/tensorboard.h"
#include "server/server_config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: shoal-coordinator [--config FILE] [--set KEY=VALUE]...\n"
    "Knows servers and workers, deals tablets, lanes and tasks, keeps the best epoch, writes the "
    "report.\n"
    "  --config FILE     coordinator.yaml; without it defaults and --set alone\n"
    "  --set KEY=VALUE   overrides a key of the file: --set shards=4\n"
    "  --tensorboard DIR writes event files for TensorBoard into DIR/JOB-NUMBER (key: "
    "tensorboard)\n"
    "  --help, --version\n";

static void help(void)
{
    printf("%s\nKeys, what they hold and (by default):\n", usage);
    keys_print(keys_coordinator, stdout);
}

struct daemon {
    const struct coord_config *config;
    struct coord_tensorboard tensorboard;
    struct coord_hook hook;
};

static int hook_start(void *context, const struct string_list *words, const char *folder,
                      struct err *e)
{
    return coord_hook_start(&((struct daemon *)context)->hook, words, folder, e);
}

static bool hook_poll(void *context, int *exit_status)
{
    return coord_hook_poll(&((struct daemon *)context)->hook, exit_status);
}

static void hook_stop(void *context, bool kill)
{
    coord_hook_stop(&((struct daemon *)context)->hook, kill);
}

static int scalars_write(void *context, const char *run, uint64_t step,
                         const struct coord_scalar *scalar, uint32_t count, struct err *e)
{
    return coord_tensorboard_write(&((struct daemon *)context)->tensorboard, run, step, scalar,
                                   count, e);
}

/* Whole or not at all: a reader never sees half a report. */
static int report_write(void *context, const char *text, struct err *e)
{
    const struct coord_config *config = ((const struct daemon *)context)->config;
    char path[LIMIT_PATH + 8];
    if (config->report[0] == 0)
        return 0;
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

static void on_signal(void *context, int signo)
{
    struct net *net = context;
    log_info("stops on signal %d; its state stays in data_dir", signo);
    notify_stopping();
    net_interrupt(net);
}

static int serve(const struct coord_config *config, struct err *e)
{
    struct daemon daemon = {.config = config};
    struct net_options no = {.drop_sends = config->drop,
                             .insecure_plaintext = config->insecure_plaintext};
    struct coord_options co = {.shards = config->shards,
                               .lease_ms = config->lease_ms,
                               .resend_ms = config->resend_ms,
                               .version = SHOAL_VERSION,
                               .write_report = report_write,
                               .write_scalars = config->tensorboard[0] != 0 ? scalars_write : NULL,
                               .folder = &coord_folder_disk,
                               .hook_start = config->publish ? hook_start : NULL,
                               .hook_poll = hook_poll,
                               .hook_stop = hook_stop,
                               .context = &daemon};
    struct coord_store *store = NULL;
    struct coord *coord = NULL;
    struct net *net = NULL;
    char bound[256];
    signal(SIGPIPE, SIG_IGN);
    coord_tensorboard_open(&daemon.tensorboard, config->tensorboard);
    int rc = coord_store_open(config->data_dir, &store, e);
    if (rc == 0)
        rc = net_new(&no, &net, e);
    if (rc == 0)
        rc = coord_new(&co, net_env(net), store, &coord, e);
    if (rc == 0) {
        net_set_handler(net, &coord_handler, coord);
        rc = net_signals(net, on_signal, net);
    }
    if (rc == 0)
        rc = net_listen(net, config->listen, bound, e);
    if (rc == 0) {
        log_info("listens at %s for %u shards, state in %s", bound, config->shards,
                 config->data_dir);
        notify_watchdog_start(net_env(net));
        notify_ready("serving");
        net_run(net);
        if (coord_fatal(coord) != 0)
            rc = err_set(e, coord_fatal(coord), "the store in %s failed", config->data_dir);
    }
    coord_free(coord);
    if (net != NULL)
        net_free(net);
    coord_store_close(store);
    coord_tensorboard_close(&daemon.tensorboard);
    return rc;
}

static int finish(int status, const struct err *e)
{
    if (status != 0)
        log_error("%s", e->text);
    return status != 0 ? err_exit_status(status) : 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},      {"set", required_argument, NULL, 's'},
        {"tensorboard", required_argument, NULL, 't'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},           {NULL, 0, NULL, 0}};
    static struct coord_config config;
    const char *path = NULL, *tensorboard = NULL;
    struct string_list set = {0};
    struct err e = {0};
    int c, rc = 0;
    log_init("shoal-coordinator");
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'h' || c == 'v') {
            if (c == 'h')
                help();
            else
                puts("shoal-coordinator " SHOAL_VERSION);
            return 0;
        }
        if (c == 'c')
            path = optarg;
        else if (c == 't')
            tensorboard = optarg;
        else if (c != 's')
            return err_exit_status(SHOAL_E_USAGE);
        else if ((rc = config_list_add(&set, optarg)) != 0)
            return err_exit_status(rc);
    }
    if (optind < argc)
        return finish(err_set(&e, SHOAL_E_USAGE, "'%s' is not an option; see --help", argv[optind]),
                      &e);
    rc = server_config_coordinator(path, &set, &config, &e);
    config_list_free(&set);
    if (rc == 0 && tensorboard != NULL && strlen(tensorboard) >= sizeof config.tensorboard)
        rc = err_set(&e, SHOAL_E_USAGE, "--tensorboard: a path has at most %zu bytes",
                     sizeof config.tensorboard - 1);
    if (rc == 0 && tensorboard != NULL)
        (void)snprintf(config.tensorboard, sizeof config.tensorboard, "%s", tensorboard);
    if (rc == 0)
        rc = serve(&config, &e);
    return finish(rc, &e);
}
