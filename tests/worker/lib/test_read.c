/* test_read.c: batches of a job's files by libshoal, without a fleet, and each error of opening. */
#include "proto/base/key.h"
#include "tests/lib/suite.h"
#include "worker/lib/shoal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 70, BATCH = 32 };

static char folder[64], job[128];
static struct shoal_error e;
static shoal_read *reader;

static void file_write(const char *name, const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

/* A job of this folder; data: further lines below `data:`. */
static void job_write(const char *data)
{
    char text[1024];
    snprintf(text, sizeof text,
             "job: read\ndata:\n  format: csv\n  label: y\n%s"
             "tables: [{name: emb, dim: 4}]\nmodel: {kind: external, first_order: true}\n"
             "train: {batch: %d}\n",
             data, BATCH);
    file_write("job.yaml", text);
}

static void setup(void)
{
    static char text[ROWS * 40];
    size_t at = (size_t)snprintf(text, sizeof text, "y,user,tags\n");
    snprintf(folder, sizeof folder, "/tmp/shoal-read-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    snprintf(job, sizeof job, "%s/job.yaml", folder);
    for (int i = 0; i < ROWS; i++) /* 0, 1 or 2 tags */
        at += (size_t)snprintf(text + at, sizeof text - at, "%d,u%d,%s\n", i % 2, i % 9,
                               i % 3 == 0   ? ""
                               : i % 3 == 1 ? "t1"
                                            : "t1 t2");
    file_write("a.csv", text);
    job_write("  train: [a.csv]\n  columns: [{name: tags, type: multi, separator: \" \"}]\n");
}

static void teardown(void)
{
    char path[160];
    static const char *const names[] = {"a.csv", "job.yaml"};
    shoal_read_close(reader);
    reader = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static int open_as(struct shoal_read_options o)
{
    o.size = sizeof o;
    if (o.job == NULL)
        o.job = job;
    return shoal_read_open(&o, &reader, &e);
}

static void refused(int rc, int code, const char *words)
{
    ck_assert_msg(rc == code && e.code == code && strstr(e.text, words) != NULL, "%s: %s",
                  shoal_code_text(rc), e.text);
}

START_TEST(what_cannot_be_opened_is_refused)
{
    refused(shoal_read_open(NULL, &reader, &e), SHOAL_ERROR_USAGE, "options are missing");
    refused(shoal_read_open(&(struct shoal_read_options){.size = sizeof(struct shoal_read_options)},
                            &reader, &e),
            SHOAL_ERROR_USAGE, "options.job");
    refused(open_as((struct shoal_read_options){.split = "tune"}), SHOAL_ERROR_USAGE, "tune");
    refused(open_as((struct shoal_read_options){.job = "/nowhere/job.yaml"}), SHOAL_ERROR_NOT_FOUND,
            "/nowhere/job.yaml");
    refused(open_as((struct shoal_read_options){.split = "valid"}), SHOAL_ERROR_NO_INPUT,
            "names no input");
    job_write("  train: [b.csv]\n");
    refused(open_as((struct shoal_read_options){0}), SHOAL_ERROR_NOT_FOUND, "b.csv");
    job_write("  train: [a.csv]\n  lable: y\n");
    refused(open_as((struct shoal_read_options){0}), SHOAL_ERROR_CONFIG, "lable");
    job_write("  train: {cmd: cat a.csv}\n  columns: [{name: y}, {name: user}]\n");
    refused(open_as((struct shoal_read_options){0}), SHOAL_ERROR_DENIED, "command");
    const char *const set[] = {"train.batch=0"};
    job_write("  train: [a.csv]\n");
    refused(open_as((struct shoal_read_options){.set = set, .set_count = 1}), SHOAL_ERROR_CONFIG,
            "train.batch");
    ck_assert_ptr_null(reader);
}
END_TEST

/* In the order of the file, each with its keys, as a worker has them. */
START_TEST(rows_come_as_they_stand)
{
    struct shoal_batch *b;
    uint32_t row = 0, batches = 0;
    ck_assert_msg(open_as((struct shoal_read_options){0}) == SHOAL_OK, "%s", e.text);
    while (shoal_read_next(reader, &b, &e) == SHOAL_OK) {
        ck_assert(b->kind == SHOAL_TRAIN && b->fields == 2 && b->tables == 1 && b->tasks == 1);
        ck_assert(b->table->width == 5 && b->table->first == 1 && b->table->dim == 4);
        ck_assert(b->table->rows == NULL && b->table->gradients == NULL && b->scores == NULL);
        ck_assert_str_eq(b->field[0].name, "user");
        ck_assert_uint_eq(b->number, ++batches);
        for (uint32_t i = 0; i < b->examples; i++, row++) {
            char user[8];
            const uint32_t *at = b->offset + (size_t)i * 2;
            const int n = snprintf(user, sizeof user, "u%u", row % 9);
            ck_assert_uint_eq(at[1] - at[0], 1);
            ck_assert_uint_eq(b->table->keys[b->index[at[0]]], key_of_value(0, user, (size_t)n));
            ck_assert_uint_eq(at[2] - at[1], row % 3);
            ck_assert(b->label[i] == (float)(row % 2));
        }
        ck_assert_uint_eq(b->offset[b->examples * 2], b->values);
    }
    ck_assert_int_eq(e.code, SHOAL_END);
    ck_assert(row == ROWS && batches == 3);
    ck_assert_int_eq(shoal_read_next(reader, &b, &e), SHOAL_END);
}
END_TEST

static void labels_read(uint32_t epoch, float *out)
{
    struct shoal_batch *b;
    uint32_t row = 0;
    ck_assert_int_eq(open_as((struct shoal_read_options){.epoch = epoch}), SHOAL_OK);
    while (shoal_read_next(reader, &b, &e) == SHOAL_OK)
        for (uint32_t i = 0; i < b->examples; i++)
            out[row++] = b->label[i];
    ck_assert_uint_eq(row, ROWS);
    shoal_read_close(reader);
    reader = NULL;
}

/* From epoch 1 on in a drawn order, the same each time, and another in each epoch. */
START_TEST(an_epoch_has_an_order_of_its_own)
{
    float stored[ROWS], one[ROWS], again[ROWS], two[ROWS];
    labels_read(0, stored);
    labels_read(1, one);
    labels_read(1, again);
    labels_read(2, two);
    ck_assert_mem_eq(one, again, sizeof one);
    ck_assert_mem_ne(one, stored, sizeof one);
    ck_assert_mem_ne(one, two, sizeof one);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("read");
    TCase *c = suite_case(s, "read", 60, setup, teardown);
    tcase_add_test(c, what_cannot_be_opened_is_refused);
    tcase_add_test(c, rows_come_as_they_stand);
    tcase_add_test(c, an_epoch_has_an_order_of_its_own);
    return suite_main(s);
}
