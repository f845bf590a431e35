/* bench_restore.c: how much processor time a checkpoint takes to go into an empty engine: no
 * server, no socket, one part.
 *
 *     bench_restore DIR [ROWS [ROUNDS]]
 *
 * DIR: an empty folder on the disk to be measured; it is left with the checkpoint and what was
 * loaded. ROWS: 2000000 of dim 16 with AdaGrad by default, in images, no journal. ROUNDS: 3 loads,
 * each into an engine of its own. Said of each are the seconds, those of processor time (user,
 * system; RocksDB's threads among them), and rows a second of processor time. No test: run by
 * hand. */
#include "embedding/engine.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

enum { WIDTH = 16, BATCH = 8192, BITS = 10 };

static struct embedding_env env;

static void check(int rc, const struct err *e)
{
    if (rc == 0)
        return;
    fprintf(stderr, "bench_restore: %s\n", e->text);
    exit(1);
}

static double wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static struct engine *engine_make(const char *dir, enum durability durability)
{
    static const uint16_t shard_of[1u << BITS];
    struct engine_options o = {.dir = dir, .durability = durability};
    struct table_schema schema = {
        .name = "bench",
        .width = WIDTH,
        .tablet_bits = BITS,
        .seed = 1,
        .init = {INIT_UNIFORM, 0.01f},
        .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.01f, .eps = 1e-8f, .initial = 0.1f}};
    struct engine *g = NULL;
    struct err e = {0};
    (void)mkdir(dir, 0755);
    check(engine_open(&o, &env.env, &g, &e), &e);
    check(engine_table_create(g, &schema, &e), &e);
    check(engine_lead(g, shard_of, 1u << BITS, 0), &e);
    return g;
}

static void fill(struct engine *g, uint64_t rows)
{
    static uint64_t keys[BATCH];
    static float gradients[BATCH * WIDTH];
    const struct push_args args = {.lr_scale = 1, .step = 1, .tablet_count = 1u << BITS};
    for (uint64_t at = 0; at < rows; at += BATCH) {
        size_t count = rows - at < BATCH ? (size_t)(rows - at) : BATCH;
        for (size_t i = 0; i < count; i++)
            keys[i] = key_make(1, at + i);
        for (size_t i = 0; i < count * WIDTH; i++)
            gradients[i] = 1e-3f * (float)(at % 97 + i % 89);
        qsort(keys, count, sizeof *keys, key_by_mixed);
        if (table_push(engine_table(g, 0), keys, gradients, count, &args) != 0)
            exit(1);
    }
}

static void cut_done(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)rows, (void)bytes;
    *(int *)context = status;
}

static void export_done(void *context, int status, const char *text, uint64_t rows, uint64_t bytes)
{
    (void)text;
    cut_done(context, status, rows, bytes);
}

static void load_done(void *context, int status, const char *text, uint64_t rows)
{
    if (status != 0)
        fprintf(stderr, "bench_restore: %s\n", text);
    *(uint64_t *)context = rows;
}

static void save(const char *dir, const char *path, uint64_t rows)
{
    struct engine *g = engine_make(dir, DURABLE_MEMORY);
    struct err e = {0};
    uint64_t sequence;
    int rc = 1;
    check(engine_run_open(g, 1, 1, 1, &e), &e);
    fill(g, rows);
    check(engine_hold(g, 1, engine_newest_run(g), &sequence), &e);
    check(engine_go(g, 1, cut_done, &rc), &e);
    embedding_env_run(&env);
    (void)mkdir(path, 0755);
    if (rc == 0)
        check(engine_cut_export(g, 1, path, 0, 1, export_done, &rc, &e), &e);
    embedding_env_run(&env);
    if (rc != 0)
        exit(1);
    engine_close(g, false);
}

static void load(const char *dir, const char *path, uint64_t rows)
{
    struct engine *g = engine_make(dir, DURABLE_JOURNAL);
    struct engine_load_options o = {.path = path, .run = 7};
    struct rusage before, after;
    struct err e = {0};
    uint64_t loaded = 0;
    getrusage(RUSAGE_SELF, &before);
    double began = wall();
    check(engine_load(g, &o, load_done, &loaded, &e), &e);
    embedding_env_run(&env);
    double took = wall() - began;
    getrusage(RUSAGE_SELF, &after);
    if (loaded != rows)
        exit(1);
    double user = seconds(after.ru_utime) - seconds(before.ru_utime),
           kernel = seconds(after.ru_stime) - seconds(before.ru_stime);
    printf("%.3f s, %.3f s of processor (%.3f user, %.3f system): %.0f rows/s a core\n", took,
           user + kernel, user, kernel, (double)rows / (user + kernel));
    fflush(stdout);
    engine_close(g, false);
}

int main(int argc, char **argv)
{
    char dir[3][4096];
    uint64_t rows = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000000;
    int rounds = argc > 3 ? atoi(argv[3]) : 3;
    if (argc < 2 || argv[1][0] != '/') {
        fprintf(stderr, "usage: bench_restore /EMPTY/FOLDER [ROWS [ROUNDS]]\n");
        return 64;
    }
    embedding_env_init(&env);
    snprintf(dir[0], sizeof dir[0], "%.4000s/saved", argv[1]);
    snprintf(dir[1], sizeof dir[1], "%.4000s/checkpoint", argv[1]);
    save(dir[0], dir[1], rows);
    for (int i = 0; i < rounds; i++) {
        snprintf(dir[2], sizeof dir[2], "%.4000s/loaded-%d", argv[1], i);
        load(dir[2], dir[1], rows);
    }
    return 0;
}
