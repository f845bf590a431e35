/* bench_rows.c: pulls and pushes of a table in memory, without server and journal: what the values
 * of rows cost.
 *
 *     bench_rows [ROWS [VALUES...]]
 *     bench_rows crafted [KEYS]
 *
 * ROWS: 1000000 by default. VALUES: fp32, fp16, bf16; all by default. Rows of dim 16 with AdaGrad,
 * batches of 8,192 keys that are drawn uniformly and sorted as a worker sorts them. Said are
 * nanoseconds a key of the pushes that made the rows, and bytes of memory a row; then, by what rows
 * and gradients travel as, of pulls, of packing as a worker does it, and of pushes, the best of
 * nine rounds of 40 batches by the time the thread was on a core.
 *
 * crafted: KEYS (65,000 by default) that were made for one bucket of one tablet, and as many drawn
 * at random: the milliseconds of the push that makes their rows and of a pull of all of them, the
 * best of five. No test: run by hand. */
#include "embedding/table.h"
#include "proto/base/key.h"
#include "proto/base/rng.h"
#include "proto/job/packed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WIDTH = 16, BATCH = 8192, BATCHES = 40, ROUNDS = 9 };

static double core_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void push(struct table *t, const uint64_t *keys, const void *gradients, size_t count,
                 enum packed_width width, uint64_t batch)
{
    struct push_args args = {.lr_scale = 1,
                             .batch = batch,
                             .step = 1,
                             .width = width,
                             .tablet_count = 1u << table_schema_of(t)->tablet_bits};
    if (table_push(t, keys, gradients, count, &args) != 0)
        abort();
}

static struct table *table_make(const char *values, struct arena *arena)
{
    struct table_schema s = {
        .name = "bench",
        .width = WIDTH,
        .tablet_bits = 6,
        .seed = 1,
        .init = {INIT_UNIFORM, 0.01f},
        .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.01f, .eps = 1e-8f, .initial = 0.1f}};
#ifndef BENCH_ROWS_FP32_ONLY
    s.values = strcmp(values, "fp16") == 0   ? VALUES_FP16
               : strcmp(values, "bf16") == 0 ? VALUES_BF16
                                             : VALUES_FP32;
#endif
    struct table *t;
    struct err e = {0};
    if (table_new(&s, arena, &t, &e) != 0) {
        fprintf(stderr, "bench_rows: %s\n", e.text);
        exit(1);
    }
    return t;
}

static void keys_draw(uint64_t *keys, uint64_t rows)
{
    struct rng r = rng_of(1, 2, 3);
    for (size_t i = 0; i < (size_t)BATCHES * BATCH; i++)
        keys[i] = rng_mix(rng_below(&r, rows));
    for (size_t b = 0; b < BATCHES; b++)
        qsort(keys + b * BATCH, BATCH, sizeof *keys, key_by_mixed);
}

static const struct travel {
    enum value_kind values;
    enum packed_width width;
} travels[] = {{VALUES_FP32, PACKED_NOT}, {VALUES_FP16, PACKED_BF16}, {VALUES_BF16, PACKED_INT8}};
enum { TRAVELS = sizeof travels / sizeof *travels, STEPS = 3 };

static void least(double *best, double seconds)
{
    *best = seconds < *best ? seconds : *best;
}

/* A round: all batches are pulled, then packed and pushed. best: seconds of each of the three. */
static void round_measure(struct table *t, const struct travel *of, const uint64_t *keys,
                          const float *gradients, float *room, uint64_t batch, double best[STEPS])
{
    const struct table_schema *s = table_schema_of(t);
    const struct pull_args args = {.values = of->values};
    double pack = 0, pushed = 0, a = core_now();
    for (size_t b = 0; b < BATCHES; b++)
        table_pull_as(t, &args, keys + b * BATCH, BATCH, room);
    least(&best[0], core_now() - a);
    for (size_t b = 0; b < BATCHES; b++) {
        memcpy(room, gradients, (size_t)BATCH * WIDTH * sizeof *room);
        a = core_now();
        packed_close(s, of->width, 0, batch + b, keys + b * BATCH, room, BATCH);
        double c = core_now();
        push(t, keys + b * BATCH, room, BATCH, of->width, batch + b);
        pack += c - a;
        pushed += core_now() - c;
    }
    least(&best[1], pack);
    least(&best[2], pushed);
}

static void measure_travels(struct table *t, const uint64_t *keys, const float *gradients,
                            float *room)
{
    static const char *const rows[] = {"fp32", "fp16", "bf16"};
    const uint32_t stored = table_schema_of(t)->values;
    const double batches = (double)BATCHES * BATCH / 1e9;
    uint64_t batch = 2;
    for (int i = 0; i < TRAVELS; i++) {
        double best[STEPS] = {1e9, 1e9, 1e9};
        struct travel of = travels[i];
        if (stored != VALUES_FP32 && of.values != VALUES_FP32)
            of.values = (enum value_kind)stored; /* a 16-bit table's rows travel so, or widened */
        for (int round = 0; round < ROUNDS; round++, batch += BATCHES)
            round_measure(t, &of, keys, gradients, room, batch, best);
        printf("    rows %s: pull %.1f; gradients of %2d bits: pack %.1f, push %.1f ns a key\n",
               rows[of.values], best[0] / batches, of.width == PACKED_NOT ? 32 : (int)of.width,
               best[1] / batches, best[2] / batches);
    }
}

static void measure(const char *values, uint64_t rows)
{
    struct arena *arena;
    if (arena_new(&arena) != 0)
        abort();
    struct table *t = table_make(values, arena);
    uint64_t *keys = malloc((size_t)BATCHES * BATCH * sizeof *keys);
    float *gradients = malloc((size_t)BATCH * WIDTH * sizeof *gradients),
          *room = malloc((size_t)BATCH * WIDTH * sizeof *room);
    struct rng r = rng_of(4, 5, 6);
    double made = 0;
    if (keys == NULL || gradients == NULL || room == NULL)
        abort();
    for (size_t i = 0; i < (size_t)BATCH * WIDTH; i++)
        gradients[i] = rng_float(&r) - 0.5f;
    for (uint64_t from = 0; from < rows; from += BATCH) {
        for (uint32_t i = 0; i < BATCH; i++)
            keys[i] = rng_mix(from + i < rows ? from + i : from);
        double before = core_now();
        push(t, keys, gradients, BATCH, PACKED_NOT, 1);
        made += core_now() - before;
    }
    keys_draw(keys, rows);
    printf("%s: new %.1f ns a key, %.1f bytes a row\n", values,
           made * 1e9 / (double)((rows + BATCH - 1) / BATCH * BATCH),
           (double)arena_bytes(arena) / (double)table_rows(t));
    measure_travels(t, keys, gradients, room);
    free(keys);
    free(gradients);
    free(room);
    table_free(t);
    arena_free(arena);
}

/* Puts all keys into the rows of a new table, five times. */
static void measure_keys(const char *name, const uint64_t *keys, size_t count)
{
    double best[2] = {1e9, 1e9};
    float *floats = calloc(count * WIDTH, sizeof *floats);
    for (int round = 0; round < 5; round++) {
        struct arena *arena;
        if (floats == NULL || arena_new(&arena) != 0)
            abort();
        struct table *t = table_make("fp32", arena);
        double a = core_now();
        push(t, keys, floats, count, PACKED_NOT, 1);
        double c = core_now();
        table_pull(t, keys, count, floats);
        double d = core_now();
        memset(floats, 0, count * WIDTH * sizeof *floats);
        best[0] = c - a < best[0] ? c - a : best[0];
        best[1] = d - c < best[1] ? d - c : best[1];
        table_free(t);
        arena_free(arena);
    }
    printf("%zu %s keys: new %.2f ms, pull %.2f ms\n", count, name, best[0] * 1e3, best[1] * 1e3);
    free(floats);
}

static void measure_crafted(size_t count)
{
    uint64_t *keys = malloc(count * sizeof *keys);
    if (keys == NULL)
        abort();
    for (size_t i = 0; i < count; i++)
        keys[i] = rng_mix(i);
    qsort(keys, count, sizeof *keys, key_by_mixed);
    measure_keys("random", keys, count);
    for (size_t i = 0; i < count; i++)
        keys[i] = key_unmix(i + 1);
    measure_keys("crafted", keys, count);
    free(keys);
}

int main(int argc, char **argv)
{
    static const char *const all[] = {"fp32", "fp16", "bf16"};
    if (argc > 1 && strcmp(argv[1], "crafted") == 0) {
        measure_crafted(argc > 2 ? strtoull(argv[2], NULL, 10) : 65000);
        return 0;
    }
    uint64_t rows = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    if (rows == 0) {
        fprintf(stderr, "bench_rows: usage: bench_rows [ROWS [fp32|fp16|bf16]...]\n");
        return 64;
    }
    for (int i = 0; i < 3 && argc <= 2; i++)
        measure(all[i], rows);
    for (int i = 2; i < argc; i++)
        measure(argv[i], rows);
    return 0;
}
