/* test_dataset_features.c: the columns of each split, from its head or from the tables. */
#include "proto/base/key.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_files.h"
#include "tests/lib/worker_split.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

START_TEST(dataset_columns_are_found_by_name_in_each_split)
{
    config_list_add(&split.job.data.train, worker_text("t.csv", "label,user,item\n1,u,i\n"));
    config_list_add(&split.job.data.valid, worker_text("v.csv", "item,user,label\r\ni,u,1\r\n"));
    strcpy(split.job.data.label[0], "label");
    split_open(WIRE_VALID);
    split_read(1, 0, 1);
    ck_assert_uint_eq(split.batch.bad_lines, 0);
    ck_assert_uint_eq(split_key(0), key_of_value(0, "u", 1));
    ck_assert_uint_eq(split_key(1), key_of_value(1, "i", 1));
}
END_TEST

START_TEST(dataset_files_of_a_split_need_one_header)
{
    worker_text("t1.csv", "label,user\n1,u\n");
    worker_text("t2.csv", "");
    worker_text("t3.csv", "label,usr\n1,u\n");
    config_list_add(&split.job.data.train, worker_path("t*.csv"));
    ck_assert_int_eq(dataset_open(&split.job, WIRE_TRAIN, &split.data, &split.error),
                     SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(split.error.text, "t3.csv:1"));
}
END_TEST

START_TEST(dataset_shape_needs_no_more_than_the_first_line)
{
    struct model_shape shape;
    config_list_add(&split.job.data.train, worker_text("t.csv", "label,user,n\n"));
    worker_job_column(&split.job, "label", COLUMN_LABEL);
    worker_job_column(&split.job, "user", COLUMN_CATEGORY);
    worker_job_column(&split.job, "n", COLUMN_NUMBER);
    ck_assert_int_eq(dataset_shape(&split.job, &shape, &split.error), 0);
    ck_assert_uint_eq(shape.fields, 1);
    ck_assert_uint_eq(shape.numerics, 1);
    split.job.data.format = DATA_CRITEO;
    split.job.data.column_count = 0;
    config_list_free(&split.job.data.train);
    ck_assert_int_eq(dataset_shape(&split.job, &shape, &split.error),
                     0); /* known without reading */
    ck_assert_uint_eq(shape.fields, 26);
    split.job.data.format = DATA_LIBSVM;
    ck_assert_int_eq(dataset_shape(&split.job, &shape, &split.error), SHOAL_E_NOINPUT);
}
END_TEST

static void known(enum legend_list list, const char *name, uint32_t number, bool here)
{
    struct legend *n = &split.job.legend;
    ck_assert_int_eq(legend_add(n, list, name, "emb", "category", &split.error), 0);
    n->name[list][n->count[list] - 1].number = number;
    n->name[list][n->count[list] - 1].here = here;
}

/* The tables know the columns by name, even if the input that made them is gone. */
START_TEST(dataset_columns_are_those_that_the_tables_know)
{
    char head[256], long_name[80];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    char as_kept[LEGEND_NAME];
    legend_write(long_name, strlen(long_name), 1, as_kept);
    split.job.legend.input = strdup("");
    split.job.legend.labels = strdup("");
    known(LEGEND_FIELDS, "item", 4, true);
    known(LEGEND_FIELDS, "gone", 2, false);
    known(LEGEND_FIELDS, "user", 1, true);
    known(LEGEND_FIELDS, as_kept, 7, true);
    strcpy(split.job.data.label[0], "label");
    split.job.predict.on = true;
    config_list_add(&split.job.data.train, "/nonexistent/log.csv");
    snprintf(head, sizeof head, "more,item,%s,user\nm,i,x,u\n", long_name);
    config_list_add(&split.job.data.test, worker_text("new.csv", head));
    split_open(WIRE_TEST);
    split_read(0, 0, 1);
    ck_assert_uint_eq(split.batch.values, 3);
    ck_assert_uint_eq(split_key(0), key_of_value(1, "u", 1));
    ck_assert_uint_eq(split_key(1), key_of_value(4, "i", 1));
    ck_assert_uint_eq(split_key(2), key_of_value(7, "x", 1));
    strcpy(split.job.data.label[0], "0"); /* a position in a header that no longer exists */
    dataset_close(split.data);
    split.data = NULL;
    ck_assert_int_eq(dataset_open(&split.job, WIRE_TEST, &split.data, &split.error),
                     SHOAL_E_NOINPUT);
    ck_assert_ptr_nonnull(strstr(split.error.text, "/nonexistent/log.csv"));
}
END_TEST

/* A job without training does not run a command, or list a log, for the first line. */
START_TEST(dataset_that_trains_nothing_asks_no_stream)
{
    struct model_shape shape;
    char text[LIMIT_PATH];
    split.job.legend.input = strdup("");
    split.job.legend.labels = strdup("");
    known(LEGEND_FIELDS, "user", 1, true);
    strcpy(split.job.data.label[0], "label");
    split.job.data.label_count = 1;
    split.job.train.skip = true;
    snprintf(text, sizeof text, "cmd:touch %s; echo label,user,item", worker_path("ran"));
    config_list_add(&split.job.data.train, text);
    ck_assert_msg(dataset_shape(&split.job, &shape, &split.error) == 0, "%s", split.error.text);
    ck_assert_uint_eq(shape.fields, 1);
    ck_assert_int_ne(access(worker_path("ran"), F_OK), 0);
    split.job.data.objects.of[WIRE_TRAIN].on = true;
    config_list_free(&split.job.data.train);
    config_list_add(&split.job.data.train, worker_text("log.csv", "label,user,item\n1,a,b\n"));
    ck_assert_msg(dataset_shape(&split.job, &shape, &split.error) == 0, "%s", split.error.text);
    ck_assert_uint_eq(shape.fields, 1);
    ck_assert(dataset_goes_by_names(&split.job));
    split.job.data.format = DATA_EVENTS; /* their columns are read from a file */
    ck_assert(!dataset_goes_by_names(&split.job));
    split.job.data.format = DATA_CSV;
    strcpy(split.job.data.label[0], "0"); /* a position: only the header knows it */
    ck_assert_msg(dataset_shape(&split.job, &shape, &split.error) == 0, "%s", split.error.text);
    ck_assert_uint_eq(shape.fields, 2);
}
END_TEST

START_TEST(dataset_sample_column_is_needed_for_training_alone)
{
    split.job.data.sample = 0.5;
    strcpy(split.job.data.sample_by, "user");
    config_list_add(&split.job.data.train, worker_text("a.csv", "label,user,row\n1,u,r\n"));
    config_list_add(&split.job.data.valid, worker_text("v.csv", "label,row\n1,r\n"));
    config_list_add(&split.job.features.fields, "row");
    split.job.features.fields_auto = false;
    split_open(WIRE_VALID);
    split_read(0, 0, 1);
    ck_assert_uint_eq(split.batch.examples, 1);
    strcpy(split.job.data.sample_by, "label");
    ck_assert_int_eq(dataset_open(&split.job, WIRE_TRAIN, &split.data, &split.error),
                     SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(split.error.text, "which is a label"));
    strcpy(split.job.data.sample_by, "session");
    ck_assert_int_eq(dataset_open(&split.job, WIRE_TRAIN, &split.data, &split.error),
                     SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(split.error.text, "data.sample_by"));
    split.data = NULL;
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dataset_features");
    TCase *t = suite_case(s, "dataset_features", 120, split_setup, split_teardown);
    tcase_add_test(t, dataset_columns_are_found_by_name_in_each_split);
    tcase_add_test(t, dataset_files_of_a_split_need_one_header);
    tcase_add_test(t, dataset_shape_needs_no_more_than_the_first_line);
    tcase_add_test(t, dataset_columns_are_those_that_the_tables_know);
    tcase_add_test(t, dataset_that_trains_nothing_asks_no_stream);
    tcase_add_test(t, dataset_sample_column_is_needed_for_training_alone);
    return suite_main(s);
}
