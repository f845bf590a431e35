/* part_checkpoint.c: checkpoints under load.
 *
 * One server process; this one is its coordinator and two workers: one connection keeps four pushes
 * of 8,192 random keys in flight, the other one pull, timed from its sending to its answer. A
 * checkpoint is made as a coordinator makes it for one shard: HOLD, GO, and the part written to a
 * folder, until the part has its name. Pulls that were in flight at any moment of it count as
 * pulled during it; of those before, only whole seconds of the same load count. */
#include "proto/base/file.h"
#include "proto/base/time.h"
#include "tests/bench/part_load.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECKPOINTS = 3 };

static int times_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double quantile_ms(struct times *t, double q)
{
    qsort(t->ns, t->count, sizeof *t->ns, times_compare);
    return t->count == 0 ? 0 : (double)t->ns[(size_t)(q * (double)(t->count - 1))] / 1e6;
}

static int tell_times(struct part_out *out, const char *what, struct times *t)
{
    static const struct {
        const char *name;
        double q;
    } f[] = {{"p50", 0.5}, {"p99", 0.99}, {"max", 1}};
    char name[64];
    int rc = 0;

    for (size_t i = 0; i < 3 && rc == 0; i++) {
        (void)snprintf(name, sizeof name, "pull_%s_%s_ms", what, f[i].name);
        rc = part_figure(out, name, quantile_ms(t, f[i].q), 3, "ms");
    }
    return rc;
}

/* ---- the measurements ------------------------------------------------------------------------ */

static int folder_make(const char *folder, struct err *e)
{
    if (file_remove_tree(folder) != 0 || file_mkdir(folder, 0755) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot make %s: %s", folder, strerror(errno));
    return 0;
}

/* Makes cut `cut` into dir/checkpoint, under load. */
static int checkpoint_make(struct load *l, const char *folder, uint64_t cut, struct times *during,
                           double *seconds, double *held_ms, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_HOLD};
    l->pulled = during;
    uint64_t began = time_monotonic_ns();
    w.u.HOLD = (struct wire_HOLD){.cut = cut, .run = 1};
    int rc = part_load_ask(l, &w, e);
    *held_ms = (double)(time_monotonic_ns() - began) / 1e6;
    w = (struct wire){.type = WIRE_TYPE_GO};
    w.u.GO.cut = cut;
    if (rc == 0)
        rc = part_load_ask(l, &w, e);
    w = (struct wire){.type = WIRE_TYPE_CUT_EXPORT};
    w.u.CUT_EXPORT = (struct wire_CUT_EXPORT){.cut = cut, .part = 0, .parts = 1};
    (void)snprintf(w.u.CUT_EXPORT.path, sizeof w.u.CUT_EXPORT.path, "%.1000s", folder);
    if (rc == 0)
        rc = part_load_ask(l, &w, e);
    *seconds = (double)(time_monotonic_ns() - began) / 1e9;
    l->pulled = NULL;
    w = (struct wire){.type = WIRE_TYPE_CUT_DROP};
    w.u.CUT_DROP.cut = cut;
    return rc != 0 ? rc : part_load_ask(l, &w, e);
}

static int checkpoints_measure(struct load *l, struct part_out *out, const char *folder,
                               double seconds, struct times *before, struct times *during,
                               struct err *e)
{
    double worst = 0, held = 0, took = 0, held_ms = 0;
    int rc = part_load_rest(l, e);
    for (uint64_t cut = 1; cut <= CHECKPOINTS && rc == 0; cut++) {
        /* removing the last one is not measured: it has gigabytes */
        rc = folder_make(folder, e);
        l->pushing = l->pulling = true;
        if (rc == 0)
            rc = part_load_run(l, seconds, NULL, e);
        if (rc == 0)
            rc = part_load_run(l, seconds, before, e);
        if (rc == 0)
            rc = checkpoint_make(l, folder, cut, during, &took, &held_ms, e);
        worst = rc == 0 && took > worst ? took : worst;
        held = rc == 0 && held_ms > held ? held_ms : held;
        if (rc == 0)
            rc = part_load_rest(l, e);
    }
    if (rc != 0)
        return rc;
    double calm = quantile_ms(before, 0.99), busy = quantile_ms(during, 0.99);
    rc = part_figure(out, "checkpoint_s", worst, 3, "s, the longest of three");
    if (rc == 0)
        rc = part_figure(out, "checkpoint_hold_ms", held, 3, "ms until pushes were held");
    if (rc == 0)
        rc = tell_times(out, "before", before);
    if (rc == 0)
        rc = tell_times(out, "checkpoint", during);
    if (rc == 0)
        rc = part_figure(out, "pull_checkpoint_ratio", busy / calm, 2, "of p99 before");
    return rc;
}

static int measure_all(struct load *l, struct part_out *out, const char *dir, double seconds,
                       struct times t[3], struct err *e)
{
    char folder[4200];
    (void)snprintf(folder, sizeof folder, "%s/checkpoint", dir);
    int rc = part_server_start(&l->server, dir, "server-checkpoint", "journal", true, e);
    if (rc == 0)
        rc = part_server_arrange(&l->server, e);
    if (rc == 0)
        rc = part_load_connect(l, e);
    uint64_t began = time_monotonic_ns();
    if (rc == 0)
        rc = part_load_fill(l, &t[0], e);
    if (rc == 0)
        rc = part_figure(out, "checkpoint_fill",
                         (double)l->rows / ((double)(time_monotonic_ns() - began) / 1e9), 0,
                         "new rows/s");
    if (rc == 0)
        rc = tell_times(out, "fill", &t[0]);
    if (rc == 0)
        rc = checkpoints_measure(l, out, folder, seconds, &t[1], &t[2], e);
    part_load_disconnect(l);
    part_server_end(&l->server, SIGKILL);
    return rc;
}

int part_checkpoint(struct part_out *out, const char *dir, uint64_t rows, double seconds,
                    struct err *e)
{
    struct load *l = calloc(1, sizeof *l);
    struct times t[3] = {{malloc(LOAD_TIMES * sizeof(uint64_t)), 0},
                         {malloc(LOAD_TIMES * sizeof(uint64_t)), 0},
                         {malloc(LOAD_TIMES * sizeof(uint64_t)), 0}};
    int rc = l == NULL || t[0].ns == NULL || t[1].ns == NULL || t[2].ns == NULL ||
                     part_load_prepare(l, rows) != 0
                 ? err_set(e, SHOAL_E_NOMEM, "out of memory")
                 : measure_all(l, out, dir, seconds, t, e);
    for (int i = 0; i < 3; i++)
        free(t[i].ns);
    if (l != NULL)
        part_load_release(l);
    free(l);
    return rc;
}
