/* part_copies.c: servers and shards in turn; a shard without and with a follower; a follower that
 * begins anew. */
#include "proto/base/time.h"
#include "tests/bench/part_cluster.h"

#include <stdio.h>

/* Journals of `anew` are so short that the records do not suffice for a new follower. */
#define JOURNAL_MAX (UINT64_C(256) << 20)

static const char *const durability[] = {"memory", "journal"};

/* ---- servers, and shards --------------------------------------------------------------------- */

static uint32_t count_of(const struct form *f, bool shards)
{
    return shards ? f->shards : f->servers;
}

/* Medians of three clusters, and the last one's over the first one's. */
static int rates_figures(struct cluster_bench *b, struct part_out *out, const char *kept,
                         bool shards)
{
    static const char *const what[] = {"pull", "push"}, *const unit[] = {"servers", "shards"};
    char name[64];
    int rc = 0;
    for (int push = 0; push < 2 && rc == 0; push++) {
        double one = 0, all = 0;
        for (uint32_t i = 0; i < b->clusters && rc == 0; i++) {
            struct cluster *c = &b->cluster[i];
            all = cluster_median(c->rate[push]);
            one = i == 0 ? all : one;
            (void)snprintf(name, sizeof name, "%s_%s_%s%u", what[push], kept, unit[shards],
                           count_of(&c->form, shards));
            rc = part_figure(out, name, all, 0, "keys/s");
        }
        (void)snprintf(name, sizeof name, "%s_%s_%s%u_of_1", what[push], kept, unit[shards],
                       count_of(&b->cluster[b->clusters - 1].form, shards));
        if (rc == 0)
            rc = part_figure(out, name, one > 0 ? all / one : 0, 3, "of one's");
    }
    return rc;
}

static int rates_run(struct part_out *out, const char *dir, uint64_t rows, double seconds,
                     const struct form form[CLUSTERS], bool shards, struct err *e)
{
    struct cluster_bench *b = cluster_bench_new(rows, form, CLUSTERS);
    int rc = 0;
    if (b == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (int d = 0; d < 2 && rc == 0; d++) {
        rc = cluster_bench_begin(b, dir, durability[d], e);
        if (rc == 0)
            rc = cluster_rounds(b, true, seconds, e);
        if (rc == 0)
            rc = rates_figures(b, out, durability[d], shards);
        cluster_bench_end(b);
    }
    cluster_bench_free(b);
    return rc;
}

int part_servers(struct part_out *out, const char *dir, uint64_t rows, double seconds,
                 struct err *e)
{
    static const struct form form[] = {{1, 1, 1}, {2, 2, 1}, {3, 3, 1}};
    return rates_run(out, dir, rows, seconds, form, false, e);
}

int part_shards(struct part_out *out, const char *dir, uint64_t rows, double seconds, struct err *e)
{
    static const struct form form[] = {{1, 1, 1}, {1, 2, 1}, {1, 4, 1}};
    return rates_run(out, dir, rows, seconds, form, true, e);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* The leader's processor time a pushed key over that of a shard alone, round by round. */
static int copies_figures(struct cluster_bench *b, struct part_out *out, const char *kept)
{
    struct cluster *alone = &b->cluster[0], *two = &b->cluster[1];
    double ratio[ROUNDS];
    char name[64];
    int rc = 0;
    for (int i = 0; i < ROUNDS; i++)
        ratio[i] = two->cpu[1][i] / alone->cpu[1][i];
    for (uint32_t i = 0; i < 2 && rc == 0; i++) {
        (void)snprintf(name, sizeof name, "push_%s_copies%u", kept, i + 1);
        rc = part_figure(out, name, cluster_median(b->cluster[i].rate[1]), 0, "keys/s");
        (void)snprintf(name, sizeof name, "push_%s_copies%u_cpu_ns", kept, i + 1);
        if (rc == 0)
            rc = part_figure(out, name, cluster_median(b->cluster[i].cpu[1]), 1, "ns a key");
    }
    (void)snprintf(name, sizeof name, "push_%s_copies2_cpu_of_1", kept);
    if (rc == 0)
        rc = part_figure(out, name, cluster_median(ratio), 3, "of one copy's");
    return rc;
}

int part_copies(struct part_out *out, const char *dir, uint64_t rows, double seconds, struct err *e)
{
    static const struct form form[] = {{1, 1, 1}, {2, 1, 2}};
    struct cluster_bench *b = cluster_bench_new(rows, form, 2);
    int rc = 0;
    if (b == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (int d = 0; d < 2 && rc == 0; d++) {
        rc = cluster_bench_begin(b, dir, durability[d], e);
        if (rc == 0)
            rc = cluster_rounds(b, false, seconds, e);
        if (rc == 0)
            rc = copies_figures(b, out, durability[d]);
        cluster_bench_end(b);
    }
    cluster_bench_free(b);
    return rc;
}

/* A follower with an empty folder joins the leader, which has all rows. */
static int anew_run(struct cluster_bench *b, const char *dir, const char *kept, double *seconds,
                    double *cpu, struct err *e)
{
    struct cluster *c = &b->cluster[0];
    int rc = cluster_bench_begin(b, dir, kept, e);
    c->server[0].journal_max = JOURNAL_MAX; /* so that the records do not suffice */
    if (rc == 0)
        rc = cluster_begin(b, c, 1, e);
    uint64_t begin = time_monotonic_ns();
    *cpu = part_server_cpu(&c->server[0]);
    if (rc == 0)
        rc = cluster_server_begin(b, c, 1, e);
    if (rc == 0)
        rc = cluster_wait(b, c, 2, true, e);
    *seconds = (double)(time_monotonic_ns() - begin) / 1e9;
    *cpu = part_server_cpu(&c->server[0]) + part_server_cpu(&c->server[1]) - *cpu;
    return rc;
}

int part_anew(struct part_out *out, const char *dir, uint64_t rows, struct err *e)
{
    static const struct form form = {2, 1, 2};
    struct cluster_bench *b = cluster_bench_new(rows, &form, 1);
    double seconds, cpu;
    char name[64];
    int rc = 0;
    if (b == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (int d = 0; d < 2 && rc == 0; d++) {
        rc = anew_run(b, dir, durability[d], &seconds, &cpu, e);
        const struct cluster *c = &b->cluster[0];
        const uint64_t ms = c->copy_ms - c->copy_ms_first;
        (void)snprintf(name, sizeof name, "anew_%s_copy_mb_s", durability[d]);
        if (rc == 0 && ms > 0) /* the copy was slow enough to be seen */
            rc = part_figure(out, name, (double)(c->copied - c->copied_first) / 1e3 / (double)ms, 0,
                             "MB/s");
        (void)snprintf(name, sizeof name, "anew_%s_s", durability[d]);
        if (rc == 0)
            rc = part_figure(out, name, seconds, 2, "s");
        (void)snprintf(name, sizeof name, "anew_%s_cpu_s", durability[d]);
        if (rc == 0)
            rc = part_figure(out, name, cpu, 2, "s");
        cluster_bench_end(b);
    }
    cluster_bench_free(b);
    return rc;
}
