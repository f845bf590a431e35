/* test_rows.c: a batch as the model reads and writes it, and the allocation of its arrays. Parts
 * and frames are tested with the lane (test_lane.c). */
#include "dense/model.h"
#include "proto/base/key.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/worker_files.h"
#include "worker/data/batch_inner.h"
#include "worker/train/rows.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct job job;
static struct backend *backend;
static struct model *model;
static struct model_shape shape;
static struct table_schema schema[MODEL_TABLES_MAX];
static uint32_t table_count;
static struct rows *rows;
static struct features features;
static struct err e;

/* Makes rows for the lines of a csv file with this header, and with these keys of `data`. */
static void open_rows(const char *data, const char *head, uint32_t examples_max)
{
    char text[512];
    snprintf(text, sizeof text,
             "job: rows\ndata: {format: csv, train: [none.csv], %s}\n"
             "tables:\n  - {name: emb, dim: 2, tablets: 64, optimizer: {kind: sgd, lr: 1}}\nmodel: "
             "{kind: probe}\n",
             data);
    ck_assert_msg(job_parse(text, strlen(text), "test", NULL, &job, &e) == 0, "%s", e.text);
    ck_assert_msg(features_make(&job, "none.csv", head, strlen(head), &features, &e) == 0, "%s",
                  e.text);
    shape = features.shape;
    shape.tasks = 1; /* the probe has one */
    ck_assert_int_eq(model_schemas(&job, &shape, schema, &table_count, &e), 0);
    backend = dense_backend();
    ck_assert_int_eq(model_new(&job, &shape, backend, &model, &e), 0);
    ck_assert_int_eq(rows_new(model, backend, schema, table_count, examples_max,
                              features.shape.tasks, &rows, &e),
                     0);
}

static void add(const char *text)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%s", text);
    struct line line = {.text = copy, .bytes = (uint32_t)strlen(text), .number = 2};
    ck_assert_int_eq(
        batch_add(&rows->batch, &features, &line, "none.csv", &(struct draw){.epoch = 0}, 0, &e),
        0);
}

static void teardown(void)
{
    rows_release(rows);
    model_free(model);
    features_free(&features);
    job_free(&job);
}

static void check_aligned(const void *array)
{
    ck_assert_ptr_nonnull(array);
    ck_assert_uint_eq((uintptr_t)array % 64, 0);
}

START_TEST(rows_input_is_the_batch)
{
    struct model_input in;
    open_rows("weight: w, columns: [{name: label, type: label}, {name: n, type: number}, {name: "
              "tags, type: multi}]",
              "label,w,n,tags", 4);
    ck_assert_int_eq(batch_begin(&rows->batch, &features, 4, false, &e), 0);
    add("1,0.5,7,a|b");
    add("0,2,8,a");
    ck_assert_int_eq(batch_end(&rows->batch, &e), 0);
    ck_assert_int_eq(rows_reserve(rows, &e), 0);
    rows_input(rows, &in);
    ck_assert_uint_eq(in.examples, 2);
    ck_assert(in.label[0] == 1.0f && in.label[1] == 0.0f);
    ck_assert(in.weight[0] == 0.5f && in.weight[1] == 2.0f);
    ck_assert(in.numeric[0] == 7.0f && in.numeric[1] == 8.0f);
    ck_assert_uint_eq(in.offset[1], 2);
    ck_assert_uint_eq(in.index[0], in.index[2]);
    ck_assert_uint_eq(in.row_count, 2);
    ck_assert_ptr_eq(in.rows, rows->table[0].pulled);
}
END_TEST

START_TEST(rows_without_weights_have_none)
{
    struct model_input in;
    open_rows("label: label", "label,user", 4);
    ck_assert_int_eq(batch_begin(&rows->batch, &features, 4, false, &e), 0);
    add("1,a");
    ck_assert_int_eq(batch_end(&rows->batch, &e), 0);
    rows_input(rows, &in);
    ck_assert_ptr_null(in.weight);
    ck_assert_ptr_null(in.offset);
}
END_TEST

/* All scores are written: a sanitizer would report an overrun. */
START_TEST(rows_have_room_for_the_scores_of_every_task)
{
    struct model_output out;
    struct job many;
    const char *text =
        "data: {format: csv, train: [none.csv], label: [a, b, c]}\nmodel: {kind: mmoe}\n";
    ck_assert_msg(job_parse(text, strlen(text), "test", NULL, &many, &e) == 0, "%s", e.text);
    open_rows("label: a", "a,b,c,user", 1000);
    rows_release(rows);
    features_free(&features);
    ck_assert_int_eq(features_make(&many, "none.csv", "a,b,c,user", 10, &features, &e), 0);
    ck_assert_int_eq(
        rows_new(model, backend, schema, table_count, 1000, features.shape.tasks, &rows, &e), 0);
    rows_output(rows, &out);
    check_aligned(out.scores);
    memset(out.scores, 0, 3 * 1000 * sizeof(float));
    job_free(&many);
}
END_TEST

START_TEST(rows_arrays_that_a_device_reads_are_aligned)
{
    open_rows("weight: w, columns: [{name: label, type: label}, {name: n, type: number}, {name: "
              "tags, type: multi}]",
              "label,w,n,tags", 300);
    for (uint32_t examples = 1; examples <= 300; examples *= 7) { /* they grow */
        struct batch *b = &rows->batch;
        ck_assert_int_eq(batch_begin(b, &features, examples, false, &e), 0);
        for (uint32_t i = 0; i < examples; i++)
            add("1,0.5,7,a|b");
        ck_assert_int_eq(batch_end(b, &e), 0);
        ck_assert_int_eq(rows_reserve(rows, &e), 0);
        check_aligned(b->label);
        check_aligned(b->weight);
        check_aligned(b->numeric);
        check_aligned(b->index);
        check_aligned(b->offset);
        check_aligned(rows->table[0].pulled);
        check_aligned(rows->table[0].gradients);
        ck_assert(b->label[examples - 1] == 1.0f && b->weight[examples - 1] == 0.5f);
    }
}
END_TEST

/* Writes gradients as a model does: 10 x key + place. */
static void gradients_fill(uint32_t width)
{
    struct rows_table *t = &rows->table[0];
    for (uint32_t i = 0; i < t->key_count; i++)
        for (uint32_t j = 0; j < width; j++)
            t->gradients[i * width + j] = (float)(10 * i + j);
}

/* Checks the key of this value: an unchanged gradient, then shows and clicks. */
static void check_key(uint32_t field, const char *value, float shows, float clicks)
{
    const struct rows_table *t = &rows->table[0];
    uint64_t key = key_of_value(field, value, strlen(value));
    for (uint32_t i = 0; i < t->key_count; i++) {
        const float *at = t->gradients + i * 5;
        if (t->keys[i] != key)
            continue;
        for (uint32_t j = 0; j < 3; j++)
            ck_assert_float_eq(at[j], (float)(10 * i + j));
        ck_assert_msg(at[3] == shows && at[4] == clicks, "%s: %g shows, %g clicks", value,
                      (double)at[3], (double)at[4]);
        return;
    }
    ck_assert_msg(false, "%s is no key of the batch", value);
}

/* Each key counts the examples that have it, each example once: twice in a cell, or in two fields
 * with the same rows, counts once. */
START_TEST(rows_count_shows_and_clicks_by_example)
{
    static const char *const data[] = {
        "columns: [{name: click, type: label}, {name: buy, type: label}, {name: item}, "
        "{name: tags, type: multi, share: item}], label: [click, buy]",
        "label: click"};
    open_rows(data[1], "click,item,user", 8);
    struct job many;
    char text[512];
    snprintf(text, sizeof text, "data: {format: csv, train: [none.csv], %s}\nmodel: {kind: mmoe}\n",
             data[0]);
    if (_i == 0) {
        ck_assert_msg(job_parse(text, strlen(text), "test", NULL, &many, &e) == 0, "%s", e.text);
        features_free(&features);
        ck_assert_int_eq(features_make(&many, "none.csv", "click,buy,item,tags", 19, &features, &e),
                         0);
        job_free(&many);
    }
    schema[0].width = 3;
    schema[0].rules.stats = 1;
    rows->counts = true;
    for (uint32_t round = 0; round < 2; round++) { /* the second on the same memory */
        ck_assert_int_eq(batch_begin(&rows->batch, &features, 4, false, &e), 0);
        add(_i == 0 ? "1,0,a,a|b|a" : "1,a,u");
        add(_i == 0 ? "0,1,b,b" : "0,b,u");
        add(_i == 0 ? "1,1,c," : "1,c,v");
        add(_i == 0 ? "0,0,b,c|c" : "0,b,u");
        ck_assert_int_eq(batch_end(&rows->batch, &e), 0);
        ck_assert_int_eq(rows_reserve(rows, &e), 0);
        gradients_fill(3);
        rows_gather(rows);
        check_key(0, "a", 1, 1);
        check_key(0, "b", _i == 0 ? 3 : 2, _i == 0 ? 1 : 0); /* only label 0 is the click */
        check_key(0, "c", _i == 0 ? 2 : 1, 1);
        if (_i == 1)
            check_key(1, "u", 3, 1);
    }
}
END_TEST

/* Without statistics gradients stay as the model wrote them. */
START_TEST(rows_without_statistics_have_gradients_alone)
{
    open_rows("label: label", "label,user", 4);
    ck_assert_int_eq(batch_begin(&rows->batch, &features, 4, false, &e), 0);
    add("1,a");
    add("1,b");
    ck_assert_int_eq(batch_end(&rows->batch, &e), 0);
    ck_assert_int_eq(rows_reserve(rows, &e), 0);
    gradients_fill(1);
    rows_gather(rows);
    ck_assert_float_eq(rows->table[0].gradients[0], 0);
    ck_assert_float_eq(rows->table[0].gradients[1], 10);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rows");
    TCase *t = tcase_create("rows");
    tcase_add_checked_fixture(t, NULL, teardown);
    tcase_add_test(t, rows_input_is_the_batch);
    tcase_add_test(t, rows_without_weights_have_none);
    tcase_add_test(t, rows_have_room_for_the_scores_of_every_task);
    tcase_add_test(t, rows_arrays_that_a_device_reads_are_aligned);
    tcase_add_loop_test(t, rows_count_shows_and_clicks_by_example, 0, 2);
    tcase_add_test(t, rows_without_statistics_have_gradients_alone);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
