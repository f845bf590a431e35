/* test_values.c: tables whose weights are stored in 16 bits: a pull returns the stored values; a
 * push computes in fp32 and rounds at random, the same at every level; rules, undo and images see
 * the same rows. */
#include "embedding/census.h"
#include "embedding/row_json.h"
#include "embedding/rows/half_row.h"
#include "embedding/rows/image.h"
#include "embedding/rows/init.h"
#include "embedding/rows/optimizer/optimizer.h"
#include "embedding/rows/translate.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_pull.h"
#include "tests/lib/embedding_stats.h"

#include <math.h>

static const uint64_t nothing[LIMIT_FIELDS / 64]; /* no field is left out */

static const enum value_kind kinds[2] = {VALUES_FP16, VALUES_BF16};

static struct table_schema values_schema(enum value_kind kind, enum optimizer_kind optimizer,
                                         uint32_t width, uint32_t tablet_bits)
{
    struct table_schema s = rows_schema(optimizer, width, tablet_bits);
    s.values = kind;
    return s;
}

static struct push_args args_of(const struct table_schema *s, uint32_t lane, uint64_t batch)
{
    return stats_args(s, (struct stats_batch){.lane = lane, .batch = batch});
}

START_TEST(row_has_half_the_bytes_of_weights)
{
    struct table_schema s = values_schema(kinds[_i], OPT_ADAGRAD, 16, 5);
    struct rows r = rows_open(&s);
    enum { ROWS = 320000 };
    static uint64_t keys[8000];
    static float g[8000 * 16];
    ck_assert_uint_eq(table_row_bytes(r.table), 8 + 32 + 64);
    for (uint64_t at = 0; at < ROWS; at += 8000) {
        for (uint64_t i = 0; i < 8000; i++)
            keys[i] = rows_key(at + i);
        rows_push(&r, keys, g, 8000, 0);
    }
    ck_assert_uint_le(arena_bytes(r.arena), ROWS * (8 + 32 + 64) * 5 / 4);
    rows_close(&r);
    s.width = 3; /* padded to 4 bytes */
    r = rows_open(&s);
    ck_assert_uint_eq(table_row_bytes(r.table), 8 + 8 + 12 + 4);
    rows_close(&r);
}
END_TEST

/* An absent key has the weights that its row will begin with. */
START_TEST(initial_weights_are_those_that_can_be_stored)
{
    struct table_schema s = values_schema(kinds[_i], OPT_SGD, 11, 3);
    struct rows r = rows_open(&s);
    float zero[11] = {0}, before[11], after[11], expected[11];
    for (uint64_t i = 0; i < 300; i++) {
        uint64_t key = rows_key(i);
        init_weights(&s, key, expected);
        half_nearest(kinds[_i], expected, 11);
        table_pull(r.table, &key, 1, before);
        ck_assert_mem_eq(before, expected, sizeof before);
        rows_push(&r, &key, zero, 1, 0);
        table_pull(r.table, &key, 1, after);
        ck_assert_mem_eq(after, before, sizeof after);
    }
    ck_assert_uint_eq(table_rows(r.table), 300);
    rows_close(&r);
}
END_TEST

/* Against an array of fp32 rows that are updated and rounded one by one, in the order of pushes. */
START_TEST(push_and_pull_equal_a_plain_table)
{
    static const uint32_t widths[] = {16, 1, 8, 11, 17, 64};
    enum { SPACE = 500, COUNT = 700 };
    const enum optimizer_kind optimizer = (enum optimizer_kind)(_i / 2);
    const enum value_kind kind = kinds[_i % 2];
    struct table_schema s = values_schema(kind, optimizer, widths[_i / 2], 3);
    struct rows r = rows_open(&s);
    const uint32_t width = s.width, state = schema_state_floats(&s), floats = schema_row_floats(&s);
    struct optimizer o = optimizer_of(&s, ISA_BASE);
    struct half half = half_row_of(kind, ISA_BASE, width);
    static float plain[SPACE][64 * 4], g[COUNT * 64], out[COUNT * 64];
    float wide[64 * 4];
    uint64_t keys[COUNT], number[COUNT];
    for (uint64_t i = 0; i < SPACE; i++) {
        init_weights(&s, rows_key(i), wide);
        half_nearest(kind, wide, width);
        o.start(wide, &s);
        half_row_close_nearest(kind, plain[i], wide, width, state);
    }
    for (uint64_t batch = 1; batch < 20; batch++) {
        struct push_args args = args_of(&s, (uint32_t)(batch % 3), batch);
        struct rng random = rng_of(batch, 4, 4);
        struct opt_step step;
        for (size_t i = 0; i < COUNT; i++) {
            number[i] = rng_below(&random, SPACE);
            keys[i] = rows_key(number[i]);
        }
        rows_gradients(g, COUNT * width, batch);
        ck_assert_int_eq(table_push(r.table, keys, g, COUNT, &args), 0);
        optimizer_step(&s, 1, &step);
        for (size_t i = 0; i < COUNT; i++) {
            half.open(plain[number[i]], wide, width, state);
            o.update(wide, g + i * width, &step);
            half.close(plain[number[i]], wide, width, state,
                       half_draw(half_draws(s.seed, args.lane, batch), key_mix(keys[i])));
        }
        table_pull(r.table, keys, COUNT, out);
        for (size_t i = 0; i < COUNT; i++) {
            half_widen(kind, plain[number[i]], wide, width);
            ck_assert_mem_eq(out + i * width, wide, width * sizeof(float));
        }
    }
    for (uint64_t i = 0; i < SPACE; i++) {
        const char *row = table_row(r.table, rows_key(i));
        ck_assert_mem_eq(row + 8, plain[i], floats * sizeof(float));
        table_row_weights(&s, row, wide);
        half_widen(kind, plain[i], out, width);
        ck_assert_mem_eq(wide, out, width * sizeof(float));
        ck_assert_mem_eq(table_row_state(&s, row), plain[i] + (floats - state),
                         state * sizeof(float));
    }
    rows_close(&r);
}
END_TEST

/* All rules at once: statistics, stages, clipping, clamp, l2, ageing, admission. */
static struct table_schema ruled_schema(enum value_kind kind, enum optimizer_kind optimizer,
                                        uint32_t width)
{
    struct table_schema s = values_schema(kind, optimizer, width, 3);
    s.zero_first = 1;
    s.optimizer.l2 = optimizer == OPT_FTRL ? 0.02f : 1e-3f;
    s.rules = (struct row_rules){.stats = 1,
                                 .score_show = 0.1f,
                                 .score_click = 1,
                                 .admit_kind = ADMIT_PROBABILITY,
                                 .admit_threshold = 0.5f,
                                 .age_every = DAY,
                                 .age_decay = 0.9f,
                                 .age_ttl = 3 * DAY,
                                 .age_capacity = 100,
                                 .vector_score = 1,
                                 .weight_max = 0.1f,
                                 .by_shows = 1,
                                 .norm_max = 2};
    return s;
}

static void ruled_push(struct rows *r, uint64_t batch, uint64_t undo_clock)
{
    enum { COUNT = 600 };
    const struct table_schema *s = table_schema_of(r->table);
    static uint64_t keys[COUNT];
    static float g[COUNT * 32];
    const uint32_t floats = schema_push_floats(s);
    struct rng random = rng_of(batch, 4, 4);
    struct push_args args =
        stats_args(s, (struct stats_batch){.lane = (uint32_t)batch % 2,
                                           .batch = batch,
                                           .undo_clock = undo_clock,
                                           .time = FIRST_DAY + (uint32_t)batch * (DAY / 4)});
    for (size_t i = 0; i < COUNT; i++)
        keys[i] = rows_key(rng_below(&random, 2000));
    qsort(keys, COUNT, sizeof *keys, key_by_mixed);
    rows_gradients(g, COUNT * floats, batch);
    for (size_t i = 0; i < COUNT; i++) {
        g[i * floats + s->width] = (float)(1 + i % 4);
        g[i * floats + s->width + 1] = (float)(i % 2);
    }
    ck_assert_int_eq(table_push(r->table, keys, g, COUNT, &args), 0);
}

/* Without and with rules, growth and undo included. */
START_TEST(table_has_the_same_bits_at_every_level)
{
    const enum optimizer_kind optimizer = (enum optimizer_kind)(_i / 4);
    uint64_t digest[ISA_COUNT][2] = {{0}}, best = isa_best();
    for (uint64_t level = 0; level <= best; level++) {
        isa_limit((enum isa)level);
        struct table_schema s = ruled_schema(kinds[_i % 2], optimizer, _i / 2 % 2 ? 16 : 11), p = s;
        p.rules = (struct row_rules){0};
        struct rows ruled = rows_open(&s), plain = rows_open(&p);
        static uint64_t keys[3000];
        static float g[3000 * 16];
        for (uint64_t batch = 1; batch < 15; batch++) {
            ruled_push(&ruled, batch, batch / 2);
            struct rng random = rng_of(batch, 4, 4);
            struct push_args args = args_of(&p, 0, batch);
            for (size_t i = 0; i < 3000; i++)
                keys[i] = rows_key(rng_below(&random, 20000));
            qsort(keys, 3000, sizeof *keys, key_by_mixed);
            rows_gradients(g, 3000 * p.width, batch);
            ck_assert_int_eq(table_push(plain.table, keys, g, 3000, &args), 0);
        }
        ck_assert_uint_gt(table_rows(ruled.table), 100);
        digest[level][0] = rows_digest(plain.table);
        digest[level][1] = rows_digest(ruled.table);
        rows_close(&ruled);
        rows_close(&plain);
    }
    isa_limit(ISA_AVX512);
    for (uint64_t level = 1; level <= best; level++)
        ck_assert_mem_eq(digest[0], digest[level], sizeof digest[0]);
}
END_TEST

struct seen {
    const struct table_schema *schema;
    float most;
    uint64_t rows, whole; /* rows with a vector */
};

static void see(void *context, const void *row)
{
    struct seen *v = context;
    float weights[64];
    table_row_weights(v->schema, row, weights);
    const struct row_stats stats =
        stats_read(table_row_state(v->schema, row) + schema_state_floats(v->schema) - 5);
    v->rows++;
    v->whole += stats.flags & ROW_HAS_VECTOR;
    for (uint32_t i = 0; i < v->schema->width; i++)
        v->most = fabsf(weights[i]) > v->most ? fabsf(weights[i]) : v->most;
}

/* 0.1 is in neither format: the bound is the value below it, and rounding does not pass it. */
START_TEST(rules_hold_on_what_is_stored)
{
    struct table_schema s = ruled_schema(kinds[_i], OPT_ADAGRAD, 11);
    struct rows r = rows_open(&s);
    struct seen v = {.schema = &s};
    for (uint64_t batch = 1; batch < 15; batch++)
        ruled_push(&r, batch, 0);
    for (uint32_t t = 0; t < 8; t++)
        table_visit(r.table, t, see, &v);
    ck_assert_uint_eq(v.rows, table_rows(r.table));
    ck_assert(v.whole > 0 && v.whole < v.rows);
    ck_assert(v.most == half_bound(kinds[_i], 0.1f) && v.most < 0.1f);
    rows_close(&r);
}
END_TEST

START_TEST(pull_before_sees_what_was_stored)
{
    enum { KEYS = 400 };
    struct table_schema s = values_schema(kinds[_i], OPT_ADAM, 11, 3);
    struct rows r = rows_open(&s);
    static uint64_t keys[KEYS];
    static float g[KEYS * 11], before[KEYS * 11], out[KEYS * 11];
    for (uint64_t i = 0; i < KEYS; i++)
        keys[i] = rows_key(i);
    for (uint64_t clock = 1; clock < 6; clock++) {
        table_pull(r.table, keys, KEYS, before);
        for (uint32_t lane = 0; lane < 2; lane++) {
            struct push_args args = args_of(&s, lane, clock);
            args.undo_clock = clock;
            rows_gradients(g, KEYS * 11, clock * 2 + lane);
            ck_assert_int_eq(table_push(r.table, keys + 100 * lane, g, KEYS - 100, &args), 0);
        }
        pull_before(r.table, keys, KEYS, clock, out);
        ck_assert_mem_eq(out, before, sizeof out);
        table_pull(r.table, keys, KEYS, out);
        ck_assert_mem_ne(out, before, sizeof out);
    }
    rows_close(&r);
}
END_TEST

/* The rows of a pull in each of the values that the table may give, at each level of vectors, next
 * to the fp32 rows of the same pull: those of an absent key, of a reader, and of before a clock. */
static void pulls_agree(const struct rows *r, const struct pull_args *args, const uint64_t *keys,
                        uint32_t count)
{
    static float wide[800 * 67];
    static uint16_t narrow[800 * 67 + 1], nearest[800 * 67];
    const uint32_t width = table_schema_of(r->table)->width;
    struct pull_args plain = *args;
    plain.values = VALUES_FP32;
    table_pull_as(r->table, &plain, keys, count, wide);
    narrow[count * width] = 0x1234;
    table_pull_as(r->table, args, keys, count, narrow);
    ck_assert_uint_eq(narrow[count * width], 0x1234);
    half_narrow(args->values, wide, nearest, count * width);
    ck_assert_mem_eq(narrow, nearest, count * width * sizeof *narrow);
    if (table_schema_of(r->table)->values == VALUES_FP32)
        return;
    static float back[800 * 67];
    half_widen(args->values, narrow, back, count * width); /* nothing is lost */
    ck_assert_mem_eq(back, wide, count * width * sizeof *wide);
}

START_TEST(pulled_rows_travel_as_they_are_stored_or_as_the_nearest)
{
    static const uint32_t widths[] = {16, 8, 1, 67};
    const enum value_kind stored = (enum value_kind)(_i % 3), *kind;
    const struct table_schema s = values_schema(stored, OPT_ADAGRAD, widths[_i / 3 % 4], 3);
    enum { KEYS = 800, ROWS = 600 };
    static uint64_t keys[KEYS];
    static float g[KEYS * 67];
    isa_limit((enum isa)(_i / 12));
    struct rows r = rows_open(&s);
    for (uint64_t i = 0; i < KEYS; i++)
        keys[i] = rows_key(i);
    for (uint64_t clock = 1; clock < 4; clock++) {
        struct push_args args = args_of(&s, 0, clock);
        args.undo_clock = clock;
        rows_gradients(g, (uint32_t)(KEYS * s.width), clock);
        ck_assert_int_eq(table_push(r.table, keys, g, clock < 3 ? ROWS : ROWS / 2, &args), 0);
    }
    for (kind = kinds; kind < kinds + 2; kind++) {
        if (stored != VALUES_FP32 && stored != *kind)
            continue;
        pulls_agree(&r, &(struct pull_args){.values = *kind}, keys, KEYS);
        pulls_agree(&r, &(struct pull_args){.values = *kind, .reader = true}, keys, KEYS);
        pulls_agree(&r, &(struct pull_args){.values = *kind, .before = 3}, keys, KEYS);
    }
    rows_close(&r);
    isa_limit(ISA_AVX512);
}
END_TEST

START_TEST(image_gives_back_rows_and_undo)
{
    struct table_schema s = ruled_schema(kinds[_i], OPT_ADAGRAD, 11);
    struct rows r = rows_open(&s);
    for (uint64_t batch = 1; batch < 10; batch++)
        ruled_push(&r, batch, batch / 2);
    struct rows copy = stats_through_images(&r);
    ck_assert_uint_eq(rows_digest(r.table), rows_digest(copy.table));
    ruled_push(&r, 10, 5);
    ruled_push(&copy, 10, 5);
    ck_assert_uint_eq(rows_digest(r.table), rows_digest(copy.table));
    rows_close(&copy);
    rows_close(&r);
}
END_TEST

START_TEST(image_of_other_values_is_refused)
{
    struct table_schema s[3] = {rows_schema(OPT_ADAGRAD, 4, 0),
                                values_schema(VALUES_FP16, OPT_ADAGRAD, 4, 0),
                                values_schema(VALUES_BF16, OPT_ADAGRAD, 4, 0)};
    for (int from = 0; from < 3; from++) {
        struct rows a = rows_open(&s[from]);
        rows_push_one(&a, rows_key(1), 1, 0);
        size_t bytes = table_image_bytes(a.table, 0);
        void *image = malloc(bytes);
        table_image_write(a.table, 0, image);
        for (int to = 0; to < 3; to++) {
            struct rows b = rows_open(&s[to]);
            struct err e = {0};
            ck_assert_int_eq(table_image_read(b.table, 0, image, bytes, &e) == 0, from == to);
            ck_assert_uint_eq(table_rows(b.table), from == to);
            rows_close(&b);
        }
        free(image);
        rows_close(&a);
    }
}
END_TEST

/* From one kind to another: to fp32 exactly, otherwise to the nearest value; the state is
 * unchanged. */
START_TEST(rows_go_into_a_table_of_other_values)
{
    static const enum value_kind all_kinds[3] = {VALUES_FP32, VALUES_FP16, VALUES_BF16};
    static const uint8_t wanted[2] = {1, 1};
    enum { KEYS = 200 };
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            struct table_schema s = values_schema(all_kinds[a], OPT_ADAM, 11, 1), t = s;
            t.values = all_kinds[b];
            s.optimizer.l2 = t.optimizer.l2 = 0.01f;
            s.rules.stats = t.rules.stats = 1;
            struct rows from = rows_open(&s), to = rows_open(&t);
            for (uint64_t i = 0; i < KEYS; i++)
                stats_push(&from, rows_key(i), 0.37f, 2, 1, (struct stats_batch){.batch = i + 1});
            for (uint32_t tablet = 0; tablet < 2; tablet++)
                ck_assert_int_eq(translate_rows(from.table, tablet, to.table, wanted, nothing), 0);
            ck_assert_uint_eq(table_rows(to.table), KEYS);
            for (uint64_t i = 0; i < KEYS; i++) {
                float was[11], is[11];
                const void *x = table_row(from.table, rows_key(i)),
                           *y = table_row(to.table, rows_key(i));
                table_row_weights(&s, x, was);
                table_row_weights(&t, y, is);
                half_nearest(all_kinds[b], was, 11);
                ck_assert_mem_eq(was, is, sizeof was);
                ck_assert_mem_eq(table_row_state(&s, x), table_row_state(&t, y),
                                 schema_state_floats(&s) * sizeof(float));
            }
            rows_close(&from);
            rows_close(&to);
        }
}
END_TEST

/* Users see the weights as floats, and the number of bytes of the row. */
START_TEST(people_are_shown_weights_as_numbers)
{
    struct table_schema s = values_schema(kinds[_i], OPT_ADAGRAD, 3, 0);
    const uint64_t key = rows_key(1);
    struct census *c;
    bool found;
    s.init = (struct init_spec){INIT_CONSTANT, 2};
    s.rules.stats = 1;
    struct rows r = rows_open(&s);
    stats_push(&r, key, 0, 5, 1, (struct stats_batch){.batch = 1});
    struct json *j = row_json(r.table, r.table, key, "s/0", false, &found);
    ck_assert(found);
    ck_assert_str_eq(json_as_string(json_get(j, "values"), ""), schema_values_name(&s));
    ck_assert_uint_eq(json_count(json_get(j, "weights")), 3);
    ck_assert_uint_eq(json_count(json_get(j, "state")), 3);
    ck_assert(json_as_number(json_get(j, "weights.2"), 0) == 2);
    ck_assert(json_as_number(json_get(j, "state.0"), 0) == (double)0.1f);
    ck_assert(json_as_number(json_get(j, "stats.show"), 0) == 5);
    json_free(j);
    ck_assert_int_eq(census_new(&s, &(struct census_ask){0}, &c, NULL), 0);
    ck_assert_int_eq(census_add_tablet(c, r.table, 0, r.table), 0);
    j = census_json(c);
    ck_assert_int_eq(json_as_int(json_get(j, "row_bytes"), 0), 8 + 8 + 12 + 20);
    ck_assert_int_eq(json_as_int(json_get(j, "norms.cells.0.0"), 0), 1); /* 2 sqrt(3) */
    ck_assert(json_as_number(json_get(j, "fields.0.shows"), 0) == 5);
    json_free(j);
    census_free(c);
    rows_close(&r);
}
END_TEST

/* SGD from 1, in steps of a thirtieth of a bf16 step down: the mean of many weights moves like
 * fp32. The control case: rounded to the nearest, none moves at all. */
START_TEST(updates_below_half_a_step_are_not_lost)
{
    enum { WIDTH = 64, KEYS = 30, TIMES = 600 };
    struct table_schema s = values_schema(kinds[_i], OPT_SGD, WIDTH, 2);
    /* distance of values below 1 */
    const float step = kinds[_i] == VALUES_BF16 ? 0x1p-8f / 30 : 0x1p-11f / 30;
    static uint64_t keys[KEYS];
    static float g[KEYS * WIDTH], out[KEYS * WIDTH];
    float nearest = 1;
    s.init = (struct init_spec){INIT_CONSTANT, 1};
    struct rows r = rows_open(&s);
    for (uint64_t i = 0; i < KEYS; i++)
        keys[i] = rows_key(i);
    for (uint32_t i = 0; i < KEYS * WIDTH; i++)
        g[i] = step / s.optimizer.lr;
    for (uint64_t batch = 1; batch <= TIMES; batch++) {
        struct push_args args = args_of(&s, 0, batch);
        ck_assert_int_eq(table_push(r.table, keys, g, KEYS, &args), 0);
        nearest -= step;
        half_nearest(kinds[_i], &nearest, 1);
    }
    table_pull(r.table, keys, KEYS, out);
    double sum = 0, moved = (double)step * TIMES, far = (double)step * 30;
    for (uint32_t i = 0; i < KEYS * WIDTH; i++)
        sum += 1 - (double)out[i];
    /* Five deviations: of TIMES roundings with sqrt(1/30 * 29/30) steps each, over KEYS * WIDTH
     * weights. */
    ck_assert(fabs(sum / (KEYS * WIDTH) - moved) <=
              5 * 0.18 * far * sqrt((double)TIMES / (KEYS * WIDTH)));
    ck_assert(nearest == 1.0f);
    rows_close(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("values");
    TCase *c = tcase_create("values");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, row_has_half_the_bytes_of_weights, 0, 2);
    tcase_add_loop_test(c, initial_weights_are_those_that_can_be_stored, 0, 2);
    tcase_add_loop_test(c, push_and_pull_equal_a_plain_table, 0, 12);
    tcase_add_loop_test(c, table_has_the_same_bits_at_every_level, 0, 24);
    tcase_add_loop_test(c, rules_hold_on_what_is_stored, 0, 2);
    tcase_add_loop_test(c, pull_before_sees_what_was_stored, 0, 2);
    tcase_add_loop_test(c, pulled_rows_travel_as_they_are_stored_or_as_the_nearest, 0, 36);
    tcase_add_loop_test(c, image_gives_back_rows_and_undo, 0, 2);
    tcase_add_test(c, image_of_other_values_is_refused);
    tcase_add_test(c, rows_go_into_a_table_of_other_values);
    tcase_add_loop_test(c, people_are_shown_weights_as_numbers, 0, 2);
    tcase_add_loop_test(c, updates_below_half_a_step_are_not_lost, 0, 2);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
