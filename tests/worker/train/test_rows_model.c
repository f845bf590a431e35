/* test_rows_model.c: a batch over several tables: the places of each table's keys, rows and
 * gradients, with statistics. */
#include "dense/model.h"
#include "proto/base/key.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/worker_files.h"
#include "worker/data/batch_inner.h"
#include "worker/train/rows.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TABLES = 3, EXAMPLES = 40 };

static struct job job;
static struct backend *backend;
static struct model *model;
static struct table_schema schema[MODEL_TABLES_MAX];
static struct features features;
static struct rows *rows;
static struct err e;

/* Fields a, c in table x (width 4), b, e in y (3), d in z (6); d is a list. stats: the tables with
 * statistics, such as "010". */
static void open_rows(const char *stats)
{
    static const char head[] = "label,a,b,c,d,e";
    char text[1024];
    uint32_t count;
    snprintf(text, sizeof text,
             "data: {format: csv, train: [none.csv], label: label, columns: [{name: label, type: "
             "label}, {name: a}, {name: b}, "
             "{name: c}, {name: d, type: multi}, {name: e}]}\n"
             "tables:\n  - {name: x, dim: 3, tablets: 16, fields: [a, c], stats: %s}\n"
             "  - {name: y, dim: 2, tablets: 16, stats: %s}\n  - {name: z, dim: 5, tablets: 16, "
             "fields: [d], stats: %s}\n"
             "model: {kind: wide_deep, hidden: [4]}\n",
             stats[0] == '1' ? "true" : "false", stats[1] == '1' ? "true" : "false",
             stats[2] == '1' ? "true" : "false");
    ck_assert_msg(job_parse(text, strlen(text), "test", NULL, &job, &e) == 0, "%s", e.text);
    ck_assert_msg(features_make(&job, "none.csv", head, sizeof head - 1, &features, &e) == 0, "%s",
                  e.text);
    ck_assert_msg(model_schemas(&job, &features.shape, schema, &count, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(count, TABLES + 1);
    backend = dense_backend();
    ck_assert_int_eq(model_new(&job, &features.shape, backend, &model, &e), 0);
    ck_assert_int_eq(rows_new(model, backend, schema, count, EXAMPLES, 1, &rows, &e), 0);
    ck_assert_uint_eq(rows->sparse, TABLES);
}

static void teardown(void)
{
    rows_release(rows);
    model_free(model);
    features_free(&features);
    job_free(&job);
}

/* Example i: a has 7 values, b 5, c 20, d none to two of 3, e one. */
static void read_batch(uint32_t examples)
{
    char text[128], list[16];
    ck_assert_int_eq(batch_begin(&rows->batch, &features, examples, false, &e), 0);
    for (uint32_t i = 0; i < examples; i++) {
        snprintf(list, sizeof list, i % 3 == 0 ? "" : i % 3 == 1 ? "v%u" : "v%u|w", i % 2);
        snprintf(text, sizeof text, "%u,a%u,b%u,c%u,%s,e", i % 4 == 0, i % 7, i % 5, i % 20, list);
        struct line line = {.text = text, .bytes = (uint32_t)strlen(text), .number = 2};
        ck_assert_int_eq(batch_add(&rows->batch, &features, &line, "none.csv",
                                   &(struct draw){.epoch = 0}, 0, &e),
                         0);
    }
    ck_assert_uint_eq(rows->batch.bad_lines, 0);
    ck_assert_int_eq(batch_end(&rows->batch, &e), 0);
    ck_assert_int_eq(rows_reserve(rows, &e), 0);
}

/* Returns the table of a key's field. */
static uint32_t table_of(uint64_t key)
{
    static const uint32_t of[] = {0, 1, 0, 2, 1};
    return of[key_field(key)];
}

static const uint32_t keys_of[TABLES] = {27, 6, 3}, width_of[TABLES] = {4, 3, 6};

START_TEST(rows_keys_lie_table_by_table_and_by_tablet_in_each)
{
    open_rows("000");
    read_batch(EXAMPLES);
    ck_assert_uint_eq(rows->batch.key_count, 36);
    for (uint32_t t = 0; t < TABLES; t++) {
        const struct rows_table *table = &rows->table[t];
        ck_assert_uint_eq(table->key_count, keys_of[t]);
        ck_assert_uint_eq(table->pull_count, keys_of[t]);
        for (uint32_t i = 0; i < table->key_count; i++) {
            ck_assert_uint_eq(table_of(table->keys[i]), t);
            ck_assert(i == 0 || key_mix(table->keys[i - 1]) < key_mix(table->keys[i]));
        }
    }
    /* every value finds its key */
    for (uint32_t i = 0; i < EXAMPLES; i++) {
        char text[8];
        int bytes = snprintf(text, sizeof text, "c%u", i % 20);
        uint32_t at = rows->batch.index[rows->batch.offset[i * 5 + 2]];
        ck_assert_uint_eq(rows->batch.keys[at], key_of_value(2, text, (size_t)bytes));
    }
}
END_TEST

START_TEST(rows_of_the_model_are_those_of_all_tables)
{
    struct model_input in;
    struct model_output out;
    open_rows("000");
    read_batch(EXAMPLES);
    rows_input(rows, &in);
    rows_output(rows, &out);
    ck_assert_uint_eq(in.row_count, 36);
    const float *pulled = in.rows, *gradients = out.row_gradients;
    for (uint32_t t = 0; t < TABLES; t++) {
        ck_assert_uint_eq(in.table_rows[t], keys_of[t]);
        ck_assert_ptr_eq(rows->table[t].pulled, pulled);
        ck_assert_ptr_eq(rows->table[t].gradients, gradients);
        pulled += keys_of[t] * width_of[t];
        gradients += keys_of[t] * width_of[t];
    }
    ck_assert_ptr_eq(in.dense, rows->table[TABLES].pulled);
    ck_assert_ptr_null(in.stats);
}
END_TEST

static float gradient(uint32_t table, uint32_t key, uint32_t place)
{
    return (float)(1000 * table + 10 * key + place);
}

/* Writes gradients as a model does. */
static void gradients_fill(void)
{
    struct model_output out;
    rows_output(rows, &out);
    for (uint32_t t = 0; t < TABLES; t++)
        for (uint32_t i = 0; i < keys_of[t]; i++)
            for (uint32_t j = 0; j < width_of[t]; j++)
                *out.row_gradients++ = gradient(t, i, j);
}

/* Counts by hand the examples with this key, and the positive ones among them. */
static void shown(uint64_t key, float *shows, float *clicks)
{
    const struct batch *b = &rows->batch;
    *shows = *clicks = 0;
    for (uint32_t i = 0; i < b->examples; i++) {
        bool has = false;
        for (uint32_t v = b->offset[i * 5]; v < b->offset[i * 5 + 5]; v++)
            has |= b->keys[b->index[v]] == key;
        *shows += has ? 1.0f : 0.0f;
        *clicks += has ? b->label[i] : 0.0f;
    }
}

START_TEST(rows_shows_and_clicks_go_to_the_tables_that_keep_them)
{
    static const char *const which[] = {"000", "100", "010", "001", "111", "101"};
    open_rows(which[_i]);
    for (uint32_t round = 0; round < 2; round++) { /* the second on the same memory */
        read_batch(EXAMPLES);
        gradients_fill();
        rows_gather(rows);
        for (uint32_t t = 0; t < TABLES; t++) {
            const struct rows_table *table = &rows->table[t];
            uint32_t floats = width_of[t] + (which[_i][t] == '1' ? 2 : 0);
            ck_assert_uint_eq(schema_push_floats(table->schema), floats);
            for (uint32_t i = 0; i < table->key_count; i++) {
                const float *at = table->gradients + i * floats;
                float shows, clicks;
                for (uint32_t j = 0; j < width_of[t]; j++)
                    ck_assert_float_eq(at[j], gradient(t, i, j));
                shown(table->keys[i], &shows, &clicks);
                if (which[_i][t] == '1')
                    ck_assert(at[width_of[t]] == shows && at[width_of[t] + 1] == clicks &&
                              shows > 0);
            }
        }
    }
}
END_TEST

START_TEST(rows_arrays_move_between_batches)
{
    struct rows *other;
    open_rows("010");
    read_batch(EXAMPLES);
    float *pulled = rows->floats.pulled;
    ck_assert_int_eq(rows_new(model, backend, schema, TABLES + 1, EXAMPLES, 1, &other, &e), 0);
    ck_assert(!rows_has_floats(other));
    rows_floats_swap(rows, other);
    ck_assert(rows_has_floats(other) && !rows_has_floats(rows));
    ck_assert_ptr_eq(other->floats.pulled, pulled);
    rows_release(other);
    read_batch(EXAMPLES); /* it has arrays of its own again */
    gradients_fill();
    rows_gather(rows);
}
END_TEST

/* In a batch without examples, as bsp pads a lane with, no key is pulled or pushed. */
START_TEST(rows_of_an_empty_batch_are_none)
{
    open_rows("000");
    read_batch(EXAMPLES); /* its keys are still there */
    ck_assert_uint_gt(rows->table[TABLES].key_count, 0);
    read_batch(0);
    for (uint32_t t = 0; t < rows->table_count; t++) {
        ck_assert_uint_eq(rows->table[t].key_count, 0);
        ck_assert_uint_eq(rows->table[t].pull_count, 0);
    }
}
END_TEST

/* A gradient that servers refuse is found in every table, in the first row and the last. */
START_TEST(rows_with_a_bad_gradient_are_poisoned)
{
    open_rows("010");
    read_batch(EXAMPLES);
    for (uint32_t t = 0; t < rows->table_count; t++)
        memset(rows->table[t].gradients, 0,
               rows->table[t].key_count * schema_push_floats(rows->table[t].schema) *
                   sizeof(float));
    rows_check(rows);
    ck_assert(!rows->poisoned);
    for (uint32_t t = 0; t < rows->table_count; t++) {
        const struct rows_table *table = &rows->table[t];
        const size_t last = (table->key_count - 1) * (size_t)schema_push_floats(table->schema);
        const size_t at[2] = {0, last + table->schema->width - 1};
        for (int i = 0; i < 2; i++) {
            table->gradients[at[i]] = NAN;
            rows_check(rows);
            ck_assert_msg(rows->poisoned, "table %u, %d", t, i);
            table->gradients[at[i]] = 0;
        }
    }
    rows_check(rows);
    ck_assert(!rows->poisoned);
}
END_TEST

/* No value of field a has a row, nor has "w" of d. A row of zeros counts as one. */
START_TEST(rows_without_a_row_are_counted_by_field)
{
    static struct unseen u;
    uint64_t w = key_of_value(3, "w", 1);
    open_rows("000");
    read_batch(EXAMPLES);
    for (uint32_t t = 0; t < TABLES; t++)
        for (uint32_t k = 0; k < rows->table[t].key_count; k++) {
            uint64_t key = rows->table[t].keys[k];
            bool absent = key_field(key) == 0 || key == w;
            for (uint32_t i = 0; i < schema[t].width; i++)
                rows->table[t].pulled[k * schema[t].width + i] = absent ? -0.0f : 0.0f;
        }
    u.fields = 0;
    rows_unseen(rows, &u);
    rows_unseen(rows, &u);
    static const uint64_t absent[] = {40, 0, 0, 13, 0}, values[] = {40, 40, 40, 39, 40};
    ck_assert_uint_eq(u.fields, 5);
    for (uint32_t f = 0; f < 5; f++) {
        ck_assert_uint_eq(u.of[f].field, f);
        ck_assert_uint_eq(u.of[f].values, 2 * values[f]);
        ck_assert_uint_eq(u.of[f].absent, 2 * absent[f]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rows_model");
    TCase *t = tcase_create("rows_model");
    tcase_add_checked_fixture(t, NULL, teardown);
    tcase_add_test(t, rows_keys_lie_table_by_table_and_by_tablet_in_each);
    tcase_add_test(t, rows_of_the_model_are_those_of_all_tables);
    tcase_add_loop_test(t, rows_shows_and_clicks_go_to_the_tables_that_keep_them, 0, 6);
    tcase_add_test(t, rows_arrays_move_between_batches);
    tcase_add_test(t, rows_of_an_empty_batch_are_none);
    tcase_add_test(t, rows_with_a_bad_gradient_are_poisoned);
    tcase_add_test(t, rows_without_a_row_are_counted_by_field);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
