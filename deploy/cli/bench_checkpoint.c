/* bench_checkpoint.c: recovery after kill -9, and loading a checkpoint into an empty server.
 *
 * The load is four pushes in flight with one pull beside them. Recovery is timed from the start of
 * the process until a pull has been answered. A checkpoint takes the steps that the coordinator
 * takes for one shard: HOLD, GO, and the export of the part into a folder, until the part has its
 * name. */
#include "deploy/cli/bench.h"

#include "proto/base/file.h"
#include "proto/base/minmax.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    SETS = 64,
    LOADS = 6, /* the load before the checkpoint lasts this many times `seconds` */
    FEW = 64,
    TOUCHED = 500 /* bytes a restore takes for each row: rows, pages of their files, writes */
};

static const char data[] = "server-checkpoint";

/* Touches this much memory, at most half of the free memory, before the measured work does. A page
 * that a virtual machine has not touched for long costs its host a fault (2.6 s of processor a
 * GiB). */
static void touch(uint64_t bytes)
{
    uint64_t most = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    bytes = MIN(bytes, most);
    void *p = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p != MAP_FAILED)
        munmap(p, bytes + 1);
}

/* Ends the server by a signal and starts it again on the data it left, leading its tablets. *began:
 * when it was started; *opened: seconds until it listened. */
static int start_again(struct bench_load *l, int signo, uint64_t *began, double *opened,
                       struct err *e)
{
    bench_load_end(l, signo);
    *began = time_monotonic_ns();
    int rc = bench_server_start(&l->server, data, "journal", false, e);
    *opened = bench_since(*began);
    if (rc != 0)
        return rc;
    return bench_server_lead(&l->server, e);
}

static int rows_back(struct bench_load *l, struct err *e)
{
    double away = 1;
    int rc;
    while ((rc = bench_server_number(&l->server, "tablets_away", &away, e)) == 0 && away > 0)
        usleep(5000);
    return rc;
}

static int recovery_measure(struct bench_load *l, struct bench_out *out, double seconds,
                            struct err *e)
{
    uint64_t began;
    double opened, rows, journal;
    int rc = bench_load_run(l, 4, 1, seconds, e);
    if (rc != 0 || (rc = bench_server_number(&l->server, "row_bytes", &rows, e)) != 0 ||
        (rc = bench_server_number(&l->server, "journal_bytes", &journal, e)) != 0 ||
        (rc = start_again(l, SIGKILL, &began, &opened, e)) != 0 || (rc = rows_back(l, e)) != 0)
        return rc;
    double back = bench_since(began);
    if ((rc = bench_load_connect(l, e)) != 0 ||
        (rc = bench_load_run(l, 0, 1, 0, e)) != 0 || /* one pull is sent */
        (rc = bench_load_rest(l, e)) != 0)
        return rc;
    double pulled = bench_since(began);
    bench_figure(out, "recovery_open_s", opened, 3, "s until it listened");
    bench_figure(out, "recovery_s", back, 3, "s until all rows were back");
    bench_figure(out, "recovery_pull_s", pulled, 3, "s until 8,192 keys from all over were pulled");
    bench_figure(out, "recovery_row_mb", rows / 1e6, 0, "MB of rows");
    bench_figure(out, "recovery_journal_mb", journal / 1e6, 0, "MB of journal");
    bench_figure(out, "recovery_allowed_s", 3 + rows / 1e9 + journal / 200e6, 3,
                 "s: 3 + rows / 1 GB/s + journal / 200 MB/s");
    return 0;
}

/* The server is stopped with all rows written, then killed at rest. After its start it is asked for
 * a few tablets that come last in its order of recovery. */
static int restart_measure(struct bench_load *l, struct bench_out *out, struct err *e)
{
    struct wire w = bench_load_pull(FEW), reply;
    uint64_t began;
    double opened;
    int rc = start_again(l, SIGTERM, &began, &opened, e);
    if (rc != 0 || (rc = start_again(l, SIGKILL, &began, &opened, e)) != 0 ||
        (rc = bench_server_ask(&l->server, &w, l->keys + BENCH_KEYS - FEW, FEW * sizeof *l->keys,
                               &reply, NULL, e)) != 0)
        return rc;
    double pulled = bench_since(began);
    if ((rc = rows_back(l, e)) != 0)
        return rc;
    bench_figure(out, "restart_pull_s", pulled, 3, "s until 64 keys of a few tablets were pulled");
    bench_figure(out, "restart_s", bench_since(began), 3, "s until all rows were back");
    return 0;
}

/* The daemon requires an absolute path. */
static void path_set(char path[LIMIT_PATH], const char *folder)
{
    char here[LIMIT_PATH / 2];
    if (getcwd(here, sizeof here) != NULL)
        (void)snprintf(path, LIMIT_PATH, "%s/%s", here, folder);
}

/* Exports cut `cut` into a folder. */
static int checkpoint_make(struct bench_server *s, uint64_t cut, const char *folder, struct err *e)
{
    struct wire hold = {.type = WIRE_TYPE_HOLD}, go = {.type = WIRE_TYPE_GO}, reply;
    struct wire export = {.type = WIRE_TYPE_CUT_EXPORT}, drop = {.type = WIRE_TYPE_CUT_DROP};
    if (file_remove_tree(folder) != 0 || file_mkdir(folder, 0755) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot make %s: %s", folder, strerror(errno));
    hold.u.HOLD = (struct wire_HOLD){.cut = cut, .run = 1};
    go.u.GO.cut = cut;
    export.u.CUT_EXPORT = (struct wire_CUT_EXPORT){.cut = cut, .part = 0, .parts = 1};
    path_set(export.u.CUT_EXPORT.path, folder);
    drop.u.CUT_DROP.cut = cut;
    struct wire *const step[] = {&hold, &go, &export, &drop};
    int rc = 0;
    for (size_t i = 0; i < sizeof step / sizeof *step && rc == 0; i++)
        rc = bench_server_ask(s, step[i], NULL, 0, &reply, NULL, e);
    return rc;
}

/* Loads the checkpoint in `folder` into an empty server. */
static int restore_measure(struct bench_load *l, struct bench_out *out, const char *folder,
                           const char *what, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_LOAD}, reply;
    char name[64];
    bench_load_end(l, SIGKILL);
    touch(l->rows * TOUCHED);
    int rc = bench_server_start(&l->server, "server-restored", "journal", true, e);
    if (rc != 0 || (rc = bench_server_arrange(&l->server, e)) != 0)
        return rc;
    w.u.LOAD.run = 2;
    path_set(w.u.LOAD.path, folder);
    double cpu = bench_server_cpu(&l->server);
    uint64_t began = time_monotonic_ns();
    if ((rc = bench_server_ask(&l->server, &w, NULL, 0, &reply, NULL, e)) != 0)
        return rc;
    double took = bench_since(began), rows = (double)l->rows;
    cpu = bench_server_cpu(&l->server) - cpu;
    if (reply.u.LOAD_reply.rows != l->rows)
        return err_set(e, SHOAL_E_INTERNAL, "%" PRIu64 " rows were restored of %" PRIu64,
                       reply.u.LOAD_reply.rows, l->rows);
    (void)snprintf(name, sizeof name, "restore_%s_rows", what);
    bench_figure(out, name, rows / took, 0, "rows/s");
    (void)snprintf(name, sizeof name, "restore_%s_rows_core", what);
    bench_figure(out, name, rows / MAX(cpu, 0.01), 0, "rows a second of processor");
    return 0;
}

/* Measures two checkpoints: `busy` with the journal of a load, `still` after all rows are
 * written. */
int bench_checkpoint(struct bench_out *out, uint64_t rows, double seconds, struct err *e)
{
    struct bench_load l = {.rows = 0};
    static const char busy[] = "checkpoint", still[] = "checkpoint-still";
    int rc = bench_load_prepare(&l, rows, SETS, BENCH_KEYS, e);
    if (rc != 0 || (rc = bench_load_fill(&l, data, "journal", e)) != 0 ||
        (rc = bench_load_run(&l, 4, 1, LOADS * seconds, e)) != 0 ||
        (rc = bench_load_rest(&l, e)) != 0 || (rc = checkpoint_make(&l.server, 1, busy, e)) != 0 ||
        (rc = recovery_measure(&l, out, seconds, e)) != 0 ||
        (rc = restart_measure(&l, out, e)) != 0 ||
        (rc = checkpoint_make(&l.server, 2, still, e)) != 0 ||
        (rc = restore_measure(&l, out, busy, "busy", e)) != 0)
        goto out;
    rc = restore_measure(&l, out, still, "still", e);
out:
    bench_load_release(&l);
    return rc;
}
