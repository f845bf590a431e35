/* bench_page.c: what the status page costs a coordinator of many shards, in the simulator: one
 * shard in the middle is dead, a job trains on the others' map, and the load of each tablet is made
 * up.
 *
 *     bench_page [SHARDS [FILE]]
 *
 * SHARDS: 1000, at most LIMIT_SHARDS. FILE: where the page is left, for a browser (tests/page).
 * Said are the bytes of figures and page, and the processor time of each, the median and the most
 * of ROUNDS: `loop` is the coordinator's loop, which makes the figures once a second while a page
 * is read, `page` the thread of HTTP, once for each reader every two seconds. */
#include "proto/base/log.h"
#include "server/coord/coord.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"
#include "server/coord/page/page.h"
#include "tests/lib/server_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 41 };
#define SECOND UINT64_C(1000000000)

static struct coord *coord;
static struct fake_shard *shard[LIMIT_SHARDS];
static struct fake_worker worker[2];
static struct fake_client client;

static double processor_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void said(const char *what, size_t bytes, double ms[ROUNDS])
{
    qsort(ms, ROUNDS, sizeof *ms, by_size);
    printf("%-5s %8zu bytes  %7.2f ms of processor time  (most %.2f)\n", what, bytes,
           ms[ROUNDS / 2], ms[ROUNDS - 1]);
}

static bool trains(void *context)
{
    (void)context;
    return coord->slot[0].at.phase == PHASE_TRAIN && coord->slot[0].trace->curve.count > 100;
}

static void cluster_start(struct sim *sim, struct coord_store *store, uint32_t shards)
{
    static const char yaml[] =
        "job: bench\ndata: {format: libsvm, train: [a], max_bad: 0.01}\n"
        "tables: [{name: emb, dim: 4}]\nmodel: {kind: probe}\n"
        "train: {batch: 10, task_batches: 4, epochs: 1000, consistency: ssp, lanes: 2}\n";
    struct coord_options o = {
        .shards = shards, .lease_ms = 2000, .resend_ms = 200, .version = "bench"};
    struct err e = {0};
    struct sim_node *node = sim_node_new(sim, "coordinator", &coord_handler, NULL);
    char name[LIMIT_NAME];
    if (coord_new(&o, sim_node_env(node), store, &coord, &e) != 0) {
        fprintf(stderr, "bench_page: %s\n", e.text);
        exit(1);
    }
    sim_node_set_handler(node, &coord_handler, coord);
    sim_listen(node, "sim://coordinator");
    for (uint32_t s = 0; s < shards; s++) {
        (void)snprintf(name, sizeof name, "parameters-%04u.rack-7", s);
        shard[s] = calloc(1, sizeof *shard[s]);
        if (shard[s] == NULL)
            exit(1);
        fake_shard_start(shard[s], sim, name, 0, 1);
    }
    for (uint32_t w = 0; w < 2; w++) {
        worker[w].rows[0] = 1005;
        worker[w].batch = 10;
        worker[w].seats = 2;
        worker[w].tablet_bits = 14; /* 16 a shard, the fewest that a table may have */
        worker[w].step_ns = SECOND / 100;
        worker[w].resend_ns = SECOND / 2;
        (void)snprintf(name, sizeof name, "worker-%u", w);
        fake_worker_start(&worker[w], sim, name, shard, shards);
    }
    fake_client_start(&client, sim, yaml, 2);
}

/* What fake shards do not tell: figures of usual lengths, and a load whose tail is long. */
static void figures_fill(struct coord_fleet *f, uint32_t shards)
{
    struct coord_picture *p = &coord->picture;
    for (uint32_t s = 0; s < shards; s++) {
        struct wire_SHARD_BEAT *b = &f->members.shard[s].figures;
        b->rows = 10234567 + 997 * s;
        b->rss_bytes = UINT64_C(7654321000) + 1234567 * s;
        b->memory_max = UINT64_C(16000000000);
        b->disk_bytes = UINT64_C(65432100000) + 12345678 * s;
        b->journal_bytes = 987654321 + 54321 * s;
    }
    free(p->load);
    p->load = calloc(f->cluster.tablets, sizeof *p->load);
    if (p->load == NULL)
        exit(1);
    p->tablets = f->cluster.tablets;
    for (uint32_t i = 0; i < p->tablets; i++)
        p->load[i] = UINT64_C(1000000000) / (1 + i * 7919 % p->tablets);
}

int main(int argc, char **argv)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    uint32_t shards = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000;
    double loop[ROUNDS], page[ROUNDS];
    char *figures = NULL, *html = NULL;
    size_t bytes = 0;
    if (shards == 0 || shards > LIMIT_SHARDS) {
        fprintf(stderr, "usage: bench_page [SHARDS [FILE]], SHARDS at most %u\n", LIMIT_SHARDS);
        return 64;
    }
    log_set_level(LOG_LEVEL_ERROR);
    struct sim *sim = sim_new(&calm);
    cluster_start(sim, coord_store_memory(), shards);
    if (!sim_run(sim, 120 * SECOND, trains, NULL)) {
        fprintf(stderr, "bench_page: no job trains\n");
        return 1;
    }
    fake_shard_die(shard[shards / 2]);
    (void)sim_run(sim, sim_now_ns(sim) + 8 * SECOND, NULL, NULL);
    figures_fill(&coord->fleet, shards);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        free(figures);
        free(html);
        double begun = processor_ms();
        figures = coord_page(coord);
        loop[i] = processor_ms() - begun;
        const struct page_figures f = {.text = figures, .bytes = strlen(figures)};
        begun = processor_ms();
        FILE *out = open_memstream(&html, &bytes);
        page_write(&f, out);
        fclose(out);
        page[i] = processor_ms() - begun;
    }
    printf("%u shards, %u tablets\n", shards, coord->fleet.cluster.tablets);
    said("loop", strlen(figures), loop);
    said("page", bytes, page);
    FILE *file = argc > 2 ? fopen(argv[2], "w") : NULL;
    if (argc > 2 && (file == NULL || fwrite(html, 1, bytes, file) != bytes || fclose(file) != 0)) {
        perror(argv[2]);
        return 1;
    }
    return 0;
}
