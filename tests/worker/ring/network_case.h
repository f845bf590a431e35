/* network_case.h: a small network of two dense tables, and sums for its steps. */
#ifndef TESTS_WORKER_RING_NETWORK_CASE_H
#define TESTS_WORKER_RING_NETWORK_CASE_H

#include "tests/lib/embedding_rows.h"
#include "worker/ring/network.h"

#include <stdio.h>

enum { CASE_BITS = 3, CASE_DENSE = 37, CASE_STATS = 5, CASE_WIDTH = 32 };
enum { CASE_FLOATS = (CASE_DENSE + CASE_STATS) * CASE_WIDTH };

/* Blocks with their keys, sorted as the model gives them. */
struct case_blocks {
    struct table_schema schema;
    uint64_t keys[CASE_DENSE];
    uint32_t block[CASE_DENSE];
    size_t count;
};

static inline int case_by_mix(const void *a, const void *b)
{
    uint64_t one = key_mix(*(const uint64_t *)a), other = key_mix(*(const uint64_t *)b);
    return one < other ? -1 : one > other;
}

static inline void case_blocks_make(struct case_blocks *b, const char *name,
                                    enum optimizer_kind kind, size_t count)
{
    b->schema = rows_schema(kind, CASE_WIDTH, CASE_BITS);
    b->schema.dense = 1;
    (void)snprintf(b->schema.name, sizeof b->schema.name, "%s", name);
    b->count = count;
    for (size_t i = 0; i < count; i++)
        b->keys[i] = key_make((uint32_t)i / 8, i % 8);
    qsort(b->keys, count, sizeof *b->keys, case_by_mix);
    for (size_t i = 0; i < count; i++)
        b->block[i] = (uint32_t)(key_field(b->keys[i]) * 8 + (b->keys[i] & 7));
}

static inline struct network *case_network_of(struct case_blocks *dense, struct case_blocks *stats,
                                              enum optimizer_kind kind, float l2, bool sharded)
{
    struct network *n = NULL;
    struct err e = {0};
    case_blocks_make(dense, "dense", kind, CASE_DENSE);
    case_blocks_make(stats, "dense_stats", OPT_SGD, CASE_STATS);
    dense->schema.optimizer.l2 = l2;
    stats->schema.optimizer.lr = 1;
    stats->schema.optimizer.fixed_lr = 1;
    const struct network_options o = {
        .part = {{&dense->schema, dense->keys, dense->block, CASE_DENSE},
                 {&stats->schema, stats->keys, stats->block, CASE_STATS}},
        .sharded = sharded};
    ck_assert_msg(network_new(&o, &n, &e) == 0, "%s", e.text);
    return n;
}

static inline struct network *case_network(struct case_blocks *dense, struct case_blocks *stats,
                                           enum optimizer_kind kind, float l2)
{
    return case_network_of(dense, stats, kind, l2, false);
}

/* The sum of a step over all lanes. */
static inline void case_step_sum(uint64_t step, float sum[CASE_FLOATS])
{
    struct rng r = rng_of(1, step, 2);
    for (size_t i = 0; i < CASE_FLOATS; i++)
        sum[i] = (rng_float(&r) - 0.5f) * 300;
}

static inline void case_steps(struct network *n, uint64_t last)
{
    static float sum[CASE_FLOATS];
    while (network_at(n) < last) {
        case_step_sum(network_at(n) + 1, sum);
        ck_assert_int_eq(network_step(n, sum, 10, 1, network_at(n) + 1, NULL), 0);
    }
}

#endif
