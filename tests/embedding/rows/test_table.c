/* test_table.c: pulls and pushes of whole batches against a plain table. */
#include "embedding/rows/init.h"
#include "embedding/rows/optimizer/optimizer.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/isa.h"
#include "proto/base/key.h"
#include "proto/job/packed.h"
#include "tests/lib/crafted.h"
#include "tests/lib/embedding_pull.h"
#include "tests/lib/embedding_rows.h"

#include <math.h>

static void batch(uint64_t *keys, size_t count, uint64_t space, uint64_t seed)
{
    struct rng r = rng_of(seed, 0, 0);
    for (size_t i = 0; i < count; i++)
        keys[i] = rows_key(rng_below(&r, space));
}

START_TEST(pull_of_absent_keys_gives_initial_values_and_makes_no_row)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 10, 3);
    struct rows r = rows_open(&s);
    uint64_t keys[300];
    float rows[3000], expected[10];
    batch(keys, 300, 1000, 1);
    table_pull(r.table, keys, 300, rows);
    for (int i = 0; i < 300; i++) {
        init_weights(&s, keys[i], expected);
        ck_assert_mem_eq(rows + 10 * i, expected, sizeof expected);
    }
    ck_assert_uint_eq(table_rows(r.table), 0);
    ck_assert_uint_eq(arena_bytes(r.arena), 0);
    ck_assert_ptr_null(table_row(r.table, keys[0]));
    rows_close(&r);
}
END_TEST

/* _i: dense. A reader gets zeros for absent keys, but the initial values for absent blocks of a
 * network. */
START_TEST(who_scores_gets_zeros_for_absent_keys)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 10, 3);
    s.dense = (uint32_t)_i;
    struct rows r = rows_open(&s);
    uint64_t keys[300];
    float rows[3000], plain[3000], g[3000];
    batch(keys, 300, 1000, 1);
    rows_gradients(g, 1500, 1);
    rows_push(&r, keys, g, 150, 1);
    table_pull(r.table, keys, 300, plain);
    for (int i = 0; i < 300; i++)
        if (_i == 0 && table_row(r.table, keys[i]) == NULL)
            for (int k = 0; k < 10; k++)
                plain[10 * i + k] = -0.0f;
    pull_reader(r.table, keys, 300, rows);
    ck_assert_mem_eq(rows, plain, sizeof rows);
    rows_close(&r);
}
END_TEST

/* The plain table: rows in an array by key number, updated one by one in order. */
START_TEST(push_and_pull_equal_a_plain_table)
{
    static const uint32_t widths[] = {1, 8, 10, 16, 17, 32, 64, 300};
    static const enum optimizer_kind kinds[] = {OPT_ADAGRAD,     OPT_SGD,  OPT_ADAM, OPT_ADAGRAD,
                                                OPT_ROW_ADAGRAD, OPT_FTRL, OPT_SGD,  OPT_ADAM};
    enum { SPACE = 2000 };
    struct table_schema s = rows_schema(kinds[_i], widths[_i], _i % 5 * 2);
    struct rows r = rows_open(&s);
    uint32_t floats = s.width + schema_state_floats(&s), width = s.width;
    struct optimizer o = optimizer_of(&s, ISA_BASE);
    float *plain = calloc(SPACE * (size_t)floats, sizeof *plain), *g = calloc(1000 * width, 4),
          *out = calloc(1000 * width, 4);
    bool there[SPACE] = {false};
    uint64_t keys[1000];
    static const size_t counts[] = {0, 1, 2, 31, 32, 33, 63, 64, 65, 1000};
    for (uint64_t i = 0; i < SPACE; i++) {
        init_weights(&s, rows_key(i), plain + i * floats);
        o.start(plain + i * floats, &s);
    }
    for (uint64_t round = 0; round < 30; round++) {
        size_t count = counts[round % 10];
        struct push_args args = {.lr_scale = 0.5f, .undo_clock = 0};
        struct opt_step step;
        struct rng random = rng_of(round, 4, 4);
        uint64_t number[1000];
        for (size_t i = 0; i < count; i++) {
            number[i] = rng_below(&random, SPACE);
            keys[i] = rows_key(number[i]);
        }
        rows_gradients(g, count * width, round);
        ck_assert_int_eq(table_push(r.table, keys, g, count, &args), 0);
        optimizer_step(&s, 0.5f, &step);
        for (size_t i = 0; i < count; i++) {
            o.update(plain + number[i] * floats, g + i * width, &step);
            there[number[i]] = true;
        }
        table_pull(r.table, keys, count, out);
        for (size_t i = 0; i < count; i++)
            ck_assert_mem_eq(out + i * width, plain + number[i] * floats, width * sizeof(float));
    }
    uint64_t rows = 0;
    for (uint64_t i = 0; i < SPACE; i++) {
        const char *row = table_row(r.table, rows_key(i));
        ck_assert((row != NULL) == there[i]);
        if (row == NULL)
            continue;
        rows++;
        uint64_t key = rows_key(i);
        ck_assert_mem_eq(row, &key, sizeof key);
        ck_assert_mem_eq(row + 8, plain + i * floats, floats * sizeof(float));
    }
    ck_assert_uint_eq(table_rows(r.table), rows);
    ck_assert_uint_eq(table_row_bytes(r.table), (8 + 4 * floats + 7) / 8 * 8);
    free(plain);
    free(g);
    free(out);
    rows_close(&r);
}
END_TEST

/* Arguments of a push that counts for `step` batches in every tablet of the table. */
static struct push_args step_of(const struct table_schema *s, uint64_t step)
{
    return (struct push_args){.lr_scale = 1.0f, .step = step, .tablet_count = 1u << s->tablet_bits};
}

/* SGD with l2 and rate 0.5: for each batch of any lane since its last push, its own included, a row
 * loses rate * l2 of itself; a new row loses nothing. Lanes that are far apart count like any
 * others. */
START_TEST(l2_makes_up_for_batches_that_did_not_touch_the_row)
{
    static const struct {
        uint64_t others, step; /* batches of other lanes since; of this lane in this push */
        double batches;        /* the ones that count */
    } push[] = {{0, 1, 0}, {0, 1, 1},       {3, 1, 4}, {0, 5000, 1024},
                {1, 2, 3}, {5000, 1, 1024}, {0, 1, 1}};
    struct table_schema s = rows_schema(OPT_SGD, 3, 0);
    s.optimizer.lr = 0.5f;
    s.optimizer.l2 = 0.0001f;
    struct rows r = rows_open(&s);
    uint64_t key = rows_key(1);
    const float g[3] = {0.01f, -0.01f, 0};
    float found[3];
    double w[3];
    table_pull(r.table, &key, 1, found);
    for (int i = 0; i < 3; i++)
        w[i] = (double)found[i];
    for (size_t p = 0; p < sizeof push / sizeof push[0]; p++) {
        struct push_args tick = step_of(&s, push[p].others), args = step_of(&s, push[p].step);
        ck_assert_int_eq(table_push(r.table, NULL, NULL, 0, &tick), 0);
        ck_assert_int_eq(table_push(r.table, &key, g, 1, &args), 0);
        table_pull(r.table, &key, 1, found);
        for (int i = 0; i < 3; i++) {
            w[i] -= 0.5 * ((double)g[i] + 0.0001 * push[p].batches * w[i]);
            ck_assert_float_eq_tol(found[i], (float)w[i], 1e-6f);
        }
    }
    rows_close(&r);
}
END_TEST

/* If rate * l2 * batches is above 1, a step of SGD takes the weights to 0 and not further, again
 * and again. */
START_TEST(l2_of_a_row_that_comes_back_after_long_does_not_swing)
{
    struct table_schema s = rows_schema(OPT_SGD, 2, 0);
    s.optimizer.lr = 0.05f;
    s.optimizer.l2 = 0.05f;
    struct rows r = rows_open(&s);
    uint64_t key = rows_key(1);
    const float g[2] = {0, 0};
    float before[2], found[2];
    table_pull(r.table, &key, 1, before);
    for (int p = 0; p < 8; p++) {
        struct push_args args = step_of(&s, 600);
        ck_assert_int_eq(table_push(r.table, &key, g, 1, &args), 0);
        table_pull(r.table, &key, 1, found);
        for (int i = 0; i < 2; i++)
            ck_assert_float_le(fabsf(found[i]), fabsf(before[i]));
    }
    ck_assert_float_eq(found[0], 0);
    rows_close(&r);
}
END_TEST

/* Tablets that a push skips, or that had other marks, count the batches that it stood for in
 * them. */
START_TEST(l2_counts_by_tablet)
{
    struct table_schema s = rows_schema(OPT_SGD, 1, 0);
    s.optimizer.lr = 1.0f;
    s.optimizer.l2 = 0.01f;
    struct rows r = rows_open(&s);
    uint32_t tablets = 1u << s.tablet_bits, *steps = calloc(tablets, sizeof *steps);
    uint64_t key = rows_key(1);
    uint32_t own = key_tablet(key_mix(key), s.tablet_bits);
    const float g = 0;
    float w[2];
    struct push_args first = step_of(&s, 1), other = step_of(&s, 0), last = step_of(&s, 0);
    ck_assert_int_eq(table_push(r.table, &key, &g, 1, &first), 0);
    table_pull(r.table, &key, 1, &w[0]);
    for (uint32_t i = 0; i < tablets; i++)
        steps[i] = i == own ? 5 : 900;
    other.steps = steps;
    ck_assert_int_eq(table_push(r.table, NULL, NULL, 0, &other), 0);
    ck_assert_int_eq(table_push(r.table, &key, &g, 1, &last), 0);
    table_pull(r.table, &key, 1, &w[1]);
    ck_assert_float_eq_tol(w[1], w[0] * 0.95f, 1e-6f);
    free(steps);
    rows_close(&r);
}
END_TEST

/* The count of batches is part of row and tablet: an image contains it, and the next push continues
 * from it. */
START_TEST(l2_goes_on_from_an_image)
{
    struct table_schema s = rows_schema(OPT_ADAM, 10, 1);
    s.optimizer.l2 = 0.05f;
    struct rows a = rows_open(&s), b = rows_open(&s);
    uint64_t keys[100], digest[2];
    float g[1000];
    for (uint64_t i = 0; i < 100; i++)
        keys[i] = rows_key(i);
    rows_gradients(g, 1000, 3);
    struct push_args first = step_of(&s, 7), second = step_of(&s, 63);
    ck_assert_int_eq(table_push(a.table, keys, g, 100, &first), 0);
    for (uint32_t i = 0; i < 1u << s.tablet_bits; i++) {
        size_t bytes = table_image_bytes(a.table, i);
        void *image = malloc(bytes);
        struct err e;
        table_image_write(a.table, i, image);
        ck_assert_int_eq(table_image_read(b.table, i, image, bytes, &e), 0);
        free(image);
    }
    ck_assert_int_eq(table_push(a.table, keys, g, 100, &second), 0);
    ck_assert_int_eq(table_push(b.table, keys, g, 100, &second), 0);
    for (uint32_t i = 0; i < 1u << s.tablet_bits; i++) {
        ck_assert_int_eq(table_digest(a.table, i, &digest[0]), 0);
        ck_assert_int_eq(table_digest(b.table, i, &digest[1]), 0);
        ck_assert_uint_eq(digest[0], digest[1]);
    }
    rows_close(&a);
    rows_close(&b);
}
END_TEST

/* Digest, pulls, and pulls from before the last clock, of the table and of a table read from its
 * images. */
struct seen {
    uint64_t digest[2], image_bytes;
    float *now, *before; /* owned; (2, count, width) */
};

static struct seen see(const struct rows *r, const struct table_schema *s, const uint64_t *keys,
                       size_t count, uint64_t clock)
{
    const size_t floats = count * s->width;
    struct rows copy = rows_open(s);
    struct seen seen = {.now = calloc(2 * floats, sizeof(float)),
                        .before = calloc(2 * floats, sizeof(float))};
    for (uint32_t i = 0; i < 1u << s->tablet_bits; i++) {
        size_t bytes = table_image_bytes(r->table, i);
        void *image = malloc(bytes);
        struct err e;
        table_image_write(r->table, i, image);
        ck_assert_int_eq(table_image_read(copy.table, i, image, bytes, &e), 0);
        seen.image_bytes += bytes;
        free(image);
    }
    const struct table *of[2] = {r->table, copy.table};
    for (int k = 0; k < 2; k++) {
        seen.digest[k] = rows_digest(of[k]);
        table_pull(of[k], keys, count, seen.now + (size_t)k * floats);
        pull_before(of[k], keys, count, clock, seen.before + (size_t)k * floats);
    }
    rows_close(&copy);
    return seen;
}

/* One table's tablets have a salt from the start; the other's draw one when there are enough
 * crafted keys: 20,000 are enough, 300 are not. */
START_TEST(results_do_not_hang_on_salts)
{
    static const size_t crafted[] = {300, 20000};
    enum { OTHERS = 2000, WIDTH = 4 };
    const size_t count = crafted[_i] + OTHERS;
    struct table_schema s = rows_schema(OPT_ADAGRAD, WIDTH, 2);
    struct rows r[2] = {rows_open(&s), rows_open(&s)};
    struct seen seen[2];
    uint64_t *keys = calloc(count, sizeof *keys);
    float *g = calloc(count * WIDTH, sizeof *g);
    for (size_t i = 0; i < count; i++)
        keys[i] = i < crafted[_i] ? crafted_key(i) : rows_key(i);
    rows_gradients(g, count * WIDTH, 5);
    for (uint32_t i = 0; i < 1u << s.tablet_bits; i++)
        r[1].table->tablets[i].salt = 1 + i;
    for (int k = 0; k < 2; k++) {
        for (uint64_t clock = 1; clock <= 3; clock++)
            rows_push(&r[k], keys, g, count, clock);
        seen[k] = see(&r[k], &s, keys, count, 3);
        ck_assert_uint_eq(seen[k].digest[0], seen[k].digest[1]);
        ck_assert_mem_ne(seen[k].now, seen[k].before, count * WIDTH * sizeof(float));
    }
    ck_assert_int_eq(r[0].table->tablets[0].salt != 0, _i == 1);
    ck_assert(r[0].table->tablets[1].salt == 0 && r[1].table->tablets[1].salt != 0);
    ck_assert_uint_eq(seen[0].digest[0], seen[1].digest[0]);
    ck_assert_uint_eq(seen[0].image_bytes, seen[1].image_bytes);
    ck_assert_mem_eq(seen[0].now, seen[1].now, 2 * count * WIDTH * sizeof(float));
    ck_assert_mem_eq(seen[0].before, seen[1].before, 2 * count * WIDTH * sizeof(float));
    for (int k = 0; k < 2; k++) {
        free(seen[k].now);
        free(seen[k].before);
        rows_close(&r[k]);
    }
    free(keys);
    free(g);
}
END_TEST

START_TEST(push_takes_a_repeated_key_in_order)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 16, 0);
    struct rows together = rows_open(&s), apart = rows_open(&s);
    uint64_t keys[100];
    float g[1600], a[1600], b[1600];
    for (uint64_t i = 0; i < 100; i++)
        keys[i] = rows_key(i % 3);
    rows_gradients(g, 1600, 2);
    rows_push(&together, keys, g, 100, 0);
    for (int i = 0; i < 100; i++)
        rows_push(&apart, keys + i, g + 16 * i, 1, 0);
    table_pull(together.table, keys, 100, a);
    table_pull(apart.table, keys, 100, b);
    ck_assert_mem_eq(a, b, sizeof a);
    rows_close(&together);
    rows_close(&apart);
}
END_TEST

START_TEST(push_leaves_tablets_that_do_not_take_it)
{
    struct table_schema s = rows_schema(OPT_SGD, 16, 3);
    struct rows r = rows_open(&s);
    uint64_t keys[1000];
    float g[16000];
    uint8_t take[8] = {0, 1, 0, 0, 1, 0, 0, 1};
    struct push_args args = {.lr_scale = 1, .undo_clock = 0, .take = take};
    batch(keys, 1000, 100000, 3);
    qsort(keys, 1000, sizeof *keys, key_by_mixed);
    rows_gradients(g, 16000, 2);
    ck_assert_int_eq(table_push(r.table, keys, g, 1000, &args), 0);
    for (uint32_t t = 0; t < 8; t++)
        ck_assert((table_tablet_rows(r.table, t) > 0) == (take[t] != 0));
    for (int i = 0; i < 1000; i++)
        ck_assert((table_row(r.table, keys[i]) != NULL) ==
                  (take[key_tablet(key_mix(keys[i]), 3)] != 0));
    rows_close(&r);
}
END_TEST

/* The whole path, with growth, at every vector level. */
START_TEST(table_has_the_same_bits_at_every_level)
{
    uint64_t digest[ISA_COUNT] = {0};
    int best = (int)isa_best();
    for (int level = 0; level <= best; level++) {
        isa_limit((enum isa)level);
        struct table_schema s = rows_schema((enum optimizer_kind)_i, _i % 2 == 0 ? 16 : 11, 4);
        struct rows r = rows_open(&s);
        static uint64_t keys[3000];
        static float g[3000 * 16];
        for (uint64_t round = 0; round < 20; round++) {
            batch(keys, 3000, 20000, round);
            qsort(keys, 3000, sizeof *keys, key_by_mixed);
            rows_gradients(g, 3000 * s.width, round);
            rows_push(&r, keys, g, 3000, 0);
        }
        digest[level] = rows_digest(r.table);
        rows_close(&r);
    }
    isa_limit(ISA_AVX512);
    for (int level = 1; level <= best; level++)
        ck_assert_uint_eq(digest[0], digest[level]);
}
END_TEST

/* The same in every release: reports are compared by it. */
#define ROWS_DIGEST UINT64_C(4746562988317742959)

START_TEST(digest_depends_on_rows_alone)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 16, 2);
    struct rows a = rows_open(&s), b = rows_open(&s);
    uint64_t none, digest;
    ck_assert_int_eq(table_digest(a.table, 0, &none), 0);
    ck_assert_uint_eq(none, 0);
    for (uint64_t i = 0; i < 500; i++) {
        rows_push_one(&a, rows_key(i), 1, 0);
        rows_push_one(&b, rows_key(499 - i), 1, i + 1); /* another order, and undo */
    }
    ck_assert_uint_eq(rows_digest(a.table), rows_digest(b.table));
    digest = rows_digest(a.table);
    ck_assert_uint_eq(digest, ROWS_DIGEST);
    rows_push_one(&b, rows_key(7), 1e-3f, 0);
    ck_assert_uint_ne(digest, rows_digest(b.table));
    rows_close(&a);
    rows_close(&b);
}
END_TEST

struct visited {
    uint64_t rows, keys;
    const struct table *table;
};

static void visit(void *context, const void *row)
{
    struct visited *v = context;
    uint64_t key;
    memcpy(&key, row, sizeof key);
    v->rows++;
    v->keys ^= key;
}

START_TEST(visit_sees_each_row_once_and_clear_leaves_none)
{
    struct table_schema s = rows_schema(OPT_ROW_ADAGRAD, 3, 2);
    struct rows r = rows_open(&s);
    struct visited v = {0};
    uint64_t expected = 0;
    for (uint64_t i = 0; i < 700; i++) {
        rows_push_one(&r, rows_key(i), 1, 0);
        expected ^= rows_key(i);
    }
    for (uint32_t t = 0; t < 4; t++)
        table_visit(r.table, t, visit, &v);
    ck_assert_uint_eq(v.rows, 700);
    ck_assert_uint_eq(v.keys, expected);
    uint64_t first = table_tablet_rows(r.table, 0);
    table_clear(r.table, 0);
    ck_assert_uint_eq(table_tablet_rows(r.table, 0), 0);
    ck_assert_uint_eq(table_rows(r.table), 700 - first);
    rows_close(&r);
}
END_TEST

/* More keys than are opened at a time, some of them new, at every vector level. */
START_TEST(a_packed_push_changes_rows_as_its_opened_gradients_do)
{
    enum { COUNT = 1300, WIDTH = 17 };
    static const enum packed_width widths[] = {PACKED_INT8, PACKED_BF16};
    static float packed[COUNT * (WIDTH + 2)], opened[COUNT * (WIDTH + 2)];
    static uint64_t keys[COUNT];
    struct table_schema s = rows_schema(OPT_ADAGRAD, WIDTH, 3);
    const bool stats = _i % 4 >= 2;
    s.rules.stats = stats;
    isa_limit((enum isa)(_i / 4));
    const uint32_t floats = schema_push_floats(&s);
    struct rows a = rows_open(&s), b = rows_open(&s);
    for (uint64_t batch = 1; batch < 4; batch++) {
        struct push_args args = {
            .lr_scale = 1, .batch = batch, .step = 1, .tablet_count = 8, .event_time = 1};
        rows_gradients(packed, COUNT * floats, batch);
        for (uint32_t i = 0; i < COUNT; i++) {
            keys[i] = rows_key(batch * COUNT / 2 + i);
            if (stats)
                packed[i * floats + WIDTH] = packed[i * floats + WIDTH + 1] = (float)(i % 3);
        }
        packed_close(&s, widths[_i % 2], 0, batch, keys, packed, COUNT);
        packed_open(&s, widths[_i % 2], packed, opened, COUNT);
        ck_assert(table_stats_ok(&s, widths[_i % 2], packed, COUNT));
        ck_assert_int_eq(table_push(a.table, keys, opened, COUNT, &args), 0);
        args.width = widths[_i % 2];
        ck_assert_int_eq(table_push(b.table, keys, packed, COUNT, &args), 0);
    }
    for (uint32_t tablet = 0; tablet < 8; tablet++) {
        uint64_t of_a, of_b;
        ck_assert_int_eq(table_digest(a.table, tablet, &of_a), 0);
        ck_assert_int_eq(table_digest(b.table, tablet, &of_b), 0);
        ck_assert_uint_eq(of_a, of_b);
    }
    ck_assert_uint_eq(table_rows(b.table), COUNT * 2);
    rows_close(&a);
    rows_close(&b);
    isa_limit(ISA_AVX512);
}
END_TEST

START_TEST(table_new_refuses_a_bad_schema)
{
    struct table_schema s = rows_schema(OPT_SGD, 0, 2);
    struct arena *arena;
    struct table *t = NULL;
    struct err e = {0};
    ck_assert_int_eq(arena_new(&arena), 0);
    ck_assert_int_eq(table_new(&s, arena, &t, &e), SHOAL_E_SCHEMA);
    ck_assert_ptr_null(t);
    ck_assert_int_ne(e.text[0], 0);
    arena_free(arena);
}
END_TEST

/* Memory of chunks that nothing uses any more is the system's, and is counted so; it comes back
 * with the next use. */
START_TEST(table_memory_that_is_free_goes_back)
{
    struct arena *a;
    uint32_t unit[3];
    ck_assert_int_eq(arena_new(&a), 0);
    for (int i = 0; i < 3; i++) {
        unit[i] = arena_take(a, ARENA_CHUNK_UNITS);
        ck_assert_uint_ne(unit[i], ARENA_NONE);
        memset(arena_address(a, unit[i]), 1, ARENA_CHUNK_BYTES);
    }
    arena_give(a, unit[1], ARENA_CHUNK_UNITS);
    arena_give(a, unit[2], ARENA_CHUNK_UNITS - 1); /* a unit of it is still used */
    uint64_t used = arena_used(a);
    ck_assert_uint_eq(arena_bytes(a), 3 * ARENA_CHUNK_BYTES);
    for (int again = 0; again < 2; again++) {
        arena_trim(a);
        ck_assert_uint_eq(arena_bytes(a), 2 * ARENA_CHUNK_BYTES);
        ck_assert_uint_eq(arena_used(a), used);
    }
    ck_assert_uint_eq(((char *)arena_address(a, unit[0]))[77], 1);
    ck_assert_uint_eq(arena_take(a, 3), unit[1] + ARENA_CHUNK_UNITS - 3);
    ck_assert_uint_eq(arena_bytes(a), 3 * ARENA_CHUNK_BYTES);
    ck_assert_uint_eq(arena_used(a), used + 3 * ARENA_UNIT_BYTES);
    arena_free(a);
}
END_TEST

static size_t asked; /* calls of malloc and its like, which the linker redirects here */

void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void *__wrap_malloc(size_t);
void *__wrap_calloc(size_t, size_t);
void *__wrap_realloc(void *, size_t);

void *__wrap_malloc(size_t bytes)
{
    asked++;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    asked++;
    return __real_calloc(n, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    asked++;
    return __real_realloc(old, bytes);
}

/* Once its rows exist a table takes no memory from the system or from malloc. */
START_TEST(pull_and_push_of_known_rows_allocate_nothing)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 16, 4);
    struct rows r = rows_open(&s);
    static uint64_t keys[5000];
    static float g[80000], out[80000];
    for (uint64_t i = 0; i < 5000; i++)
        keys[i] = rows_key(i);
    rows_gradients(g, 80000, 1);
    for (uint64_t clock = 1; clock < 3; clock++)
        rows_push(&r, keys, g, 5000, clock);
    uint64_t bytes = arena_bytes(r.arena);
    ck_assert_uint_gt(asked, 0); /* the table itself was counted */
    asked = 0;                   /* no ck_assert from here to the count: it allocates */
    int failed = 0;
    for (uint64_t clock = 3; clock < 100; clock++) {
        struct push_args args = {.lr_scale = 1.0f, .batch = 1, .undo_clock = clock};
        table_pull(r.table, keys, 5000, out);
        failed += table_push(r.table, keys, g, 5000, &args) != 0;
    }
    size_t counted = asked;
    ck_assert_uint_eq(counted, 0);
    ck_assert_int_eq(failed, 0);
    ck_assert_uint_eq(arena_bytes(r.arena), bytes);
    rows_close(&r);
}
END_TEST

/* The aim is 1.25 times the payload of 136 bytes at dim 16 with AdaGrad. */
START_TEST(table_takes_little_more_than_its_rows)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 16, 5);
    struct rows r = rows_open(&s);
    enum { ROWS = 320000 };
    static uint64_t keys[8000];
    static float g[8000 * 16];
    for (uint64_t at = 0; at < ROWS; at += 8000) {
        for (uint64_t i = 0; i < 8000; i++)
            keys[i] = rows_key(at + i);
        rows_push(&r, keys, g, 8000, 0);
    }
    ck_assert_uint_eq(table_rows(r.table), ROWS);
    ck_assert_uint_le(arena_bytes(r.arena), ROWS * 136 * 5 / 4);
    rows_close(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("table");
    TCase *c = tcase_create("table");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, table_memory_that_is_free_goes_back);
    tcase_add_test(c, pull_of_absent_keys_gives_initial_values_and_makes_no_row);
    tcase_add_loop_test(c, who_scores_gets_zeros_for_absent_keys, 0, 2);
    tcase_add_loop_test(c, push_and_pull_equal_a_plain_table, 0, 8);
    tcase_add_loop_test(c, results_do_not_hang_on_salts, 0, 2);
    tcase_add_test(c, push_takes_a_repeated_key_in_order);
    tcase_add_test(c, l2_makes_up_for_batches_that_did_not_touch_the_row);
    tcase_add_test(c, l2_of_a_row_that_comes_back_after_long_does_not_swing);
    tcase_add_test(c, l2_counts_by_tablet);
    tcase_add_test(c, l2_goes_on_from_an_image);
    tcase_add_test(c, push_leaves_tablets_that_do_not_take_it);
    tcase_add_loop_test(c, table_has_the_same_bits_at_every_level, 0, 5);
    tcase_add_test(c, digest_depends_on_rows_alone);
    tcase_add_test(c, visit_sees_each_row_once_and_clear_leaves_none);
    tcase_add_loop_test(c, a_packed_push_changes_rows_as_its_opened_gradients_do, 0, 12);
    tcase_add_test(c, table_new_refuses_a_bad_schema);
    tcase_add_test(c, pull_and_push_of_known_rows_allocate_nothing);
    tcase_add_test(c, table_takes_little_more_than_its_rows);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
