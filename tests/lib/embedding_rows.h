/* embedding_rows.h: schemas, keys and gradients for the tests of the in-memory half of
 * embedding. */
#ifndef TESTS_LIB_EMBEDDING_ROWS_H
#define TESTS_LIB_EMBEDDING_ROWS_H

#include "embedding/table.h"
#include "proto/base/hash.h"
#include "proto/base/rng.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static inline struct table_schema rows_schema(enum optimizer_kind kind, uint32_t width,
                                              uint32_t tablet_bits)
{
    struct table_schema s;
    memset(&s, 0, sizeof s);
    strcpy(s.name, "rows");
    s.width = width;
    s.tablet_bits = tablet_bits;
    s.seed = 7;
    s.init = (struct init_spec){INIT_UNIFORM, 0.1f};
    s.optimizer = (struct optimizer_spec){.kind = kind,
                                          .lr = 0.05f,
                                          .beta1 = 0.9f,
                                          .beta2 = 0.999f,
                                          .eps = 1e-8f,
                                          .initial = 0.1f,
                                          .l1 = 0.01f,
                                          .l2 = kind == OPT_FTRL ? 0.02f : 0.0f,
                                          .beta = 1.0f};
    return s;
}

struct rows {
    struct arena *arena;
    struct table *table;
};

static inline struct rows rows_open(const struct table_schema *s)
{
    struct rows r;
    struct err e = {0};
    ck_assert_int_eq(arena_new(&r.arena), 0);
    ck_assert_msg(table_new(s, r.arena, &r.table, &e) == 0, "%s", e.text);
    return r;
}

static inline void rows_close(struct rows *r)
{
    table_free(r->table);
    arena_free(r->arena);
}

/* Key i of a fixed sequence without repeats; neighbours have nothing in common. */
static inline uint64_t rows_key(uint64_t i)
{
    return rng_mix(i + 1);
}

static inline void rows_gradients(float *g, size_t count, uint64_t seed)
{
    struct rng r = rng_of(seed, 1, 2);
    for (size_t i = 0; i < count; i++)
        g[i] = rng_float(&r) * 2 - 1;
}

static inline void rows_push(struct rows *r, const uint64_t *keys, const float *gradients,
                             size_t count, uint64_t undo_clock)
{
    struct push_args args = {.lr_scale = 1.0f, .batch = 1, .undo_clock = undo_clock};
    ck_assert_int_eq(table_push(r->table, keys, gradients, count, &args), 0);
}

/* Pushes one key with every gradient g. */
static inline void rows_push_one(struct rows *r, uint64_t key, float g, uint64_t undo_clock)
{
    float gradients[LIMIT_WIDTH];
    for (uint32_t i = 0; i < table_schema_of(r->table)->width; i++)
        gradients[i] = g;
    rows_push(r, &key, gradients, 1, undo_clock);
}

static inline uint64_t rows_digest(const struct table *t)
{
    uint64_t sum = 0, one;
    for (uint32_t i = 0; i < 1u << table_schema_of(t)->tablet_bits; i++) {
        ck_assert_int_eq(table_digest(t, i, &one), 0);
        sum = rng_mix(sum ^ one) + i;
    }
    return sum;
}

static inline int rows_main(Suite *suite)
{
    return suite_main(suite);
}

#endif
