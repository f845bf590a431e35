/* worker_log.c: writes a log with every kind of column, and compares batches. */
#include "tests/lib/worker_log.h"

#include "proto/job/config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void log_write(uint32_t rows, bool multi, bool weighted)
{
    char *text = malloc(128 + 200 * (size_t)rows);
    ck_assert_ptr_nonnull(text);
    size_t at = (size_t)sprintf(text, "click,w,ts,a,b,cat,item%s\n", multi ? ",tags" : "");
    for (uint32_t i = 0; i < rows; i++) {
        if (i % 17 == 5) {
            at += (size_t)sprintf(text + at, "what,%u\n", i);
            continue;
        }
        at += (size_t)sprintf(text + at, "%u,%u.5,%u,%u,%u.25,c%u,%u", (i * 7 + i / 9) % 3 == 0,
                              i % 4, 1700000000 + i * 3, i % 2000, i, i % 37, i * 11 % 5000);
        if (multi)
            at += (size_t)sprintf(text + at, ",");
        for (uint32_t k = 0; multi && k < i % 5; k++)
            at += (size_t)sprintf(text + at, weighted ? "t%u:%d.25|" : "t%u|", (i + k * k) % 101,
                                  (int)(i % 7) - 3);
        at += (size_t)sprintf(text + at, "\n");
    }
    worker_write("log.csv", text, at);
    free(text);
}

void worker_log_job(struct job *j, uint32_t rows, bool multi)
{
    log_write(rows, multi, false);
    worker_job(j, DATA_CSV, worker_path("log.csv"));
    strcpy(j->data.label[0], "click");
    j->data.label_count = 1;
    strcpy(j->data.weight, "w");
    strcpy(j->data.time, "ts");
    worker_job_column(j, "a", COLUMN_NUMBER);
    worker_job_column(j, "b", COLUMN_NUMBER);
    worker_job_column(j, "item", COLUMN_CATEGORY);
    j->data.column[2].id = true;
    if (multi) {
        worker_job_column(j, "tags", COLUMN_MULTI);
        j->data.column[3].max = 3;
    }
    j->features.number = NUMBER_LOG1P;
    strcpy(j->evaluate.group, "cat");
    ck_assert_int_eq(config_list_add(&j->evaluate.by, "cat"), 0);
}

void worker_log_job_weighted(struct job *j, uint32_t rows)
{
    worker_log_job(j, rows, true);
    log_write(rows, true, true);
    j->data.column[3].weighted = true;
}

static void same(const void *a, const void *b, size_t bytes, const char *what)
{
    ck_assert_msg((a == NULL) == (b == NULL), "%s is there once", what);
    if (a != NULL)
        ck_assert_msg(memcmp(a, b, bytes) == 0, "%s differs", what);
}

static void batch_same(const struct dataset *a, const struct dataset *b, uint32_t epoch,
                       uint64_t at, uint32_t rows, struct batch *x, struct batch *y)
{
    struct err e = {0};
    ck_assert_msg(batch_read(a, 7, epoch, at, rows, x, &e) == 0, "%s", e.text);
    ck_assert_msg(batch_read(b, 7, epoch, at, rows, y, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(x->examples, y->examples);
    ck_assert_uint_eq(x->values, y->values);
    ck_assert_uint_eq(x->key_count, y->key_count);
    ck_assert_uint_eq(x->bad_lines, y->bad_lines);
    ck_assert_uint_eq(x->drawn, y->drawn);
    ck_assert_uint_eq(x->dropped, y->dropped);
    ck_assert_uint_eq(x->event_time, y->event_time);
    ck_assert_str_eq(x->bad_where, y->bad_where);
    size_t n = x->examples;
    ck_assert_uint_eq(x->tasks, y->tasks);
    same(x->label, y->label, n * x->tasks * 4, "label");
    same(x->weight, y->weight, n * 4, "weight");
    same(x->numeric, y->numeric, n * 2 * 4, "numeric");
    same(x->index, y->index, x->values * 4ul, "index");
    same(x->factor, y->factor, x->values * 4ul, "factor");
    same(x->offset, y->offset, (n * x->fields + 1) * 4, "offset");
    same(x->keys, y->keys, x->key_count * 8ul, "keys");
    same(x->group, y->group, n * 8, "group");
    same(x->by, y->by, n * 8, "by");
}

void worker_log_same(const struct dataset *a, const struct dataset *b, uint32_t rows)
{
    struct batch x, y;
    batch_init(&x);
    batch_init(&y);
    ck_assert_uint_eq(dataset_rows(a), dataset_rows(b));
    for (uint32_t epoch = 0; epoch < 3; epoch++)
        for (uint64_t at = 0; at < dataset_rows(a); at += rows) {
            uint64_t left = dataset_rows(a) - at;
            batch_same(a, b, epoch, at, left < rows ? (uint32_t)left : rows, &x, &y);
        }
    batch_free(&x);
    batch_free(&y);
}
