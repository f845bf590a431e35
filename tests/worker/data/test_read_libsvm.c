/* test_read_libsvm.c: the entries of a libsvm line become one value a field, weighted values of one
 * field, or weighted values of a field for each index. */
#include "proto/base/key.h"
#include "tests/lib/worker_files.h"
#include "tests/lib/worker_reader.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static struct job job;
static struct features f;
static struct read_line r;
static struct err e;

static int make(const char *head)
{
    features_free(&f);
    f = (struct features){0};
    return features_make(&job, "a.libsvm", head, strlen(head), &f, &e);
}

static void made(const char *head)
{
    ck_assert_msg(make(head) == 0, "%s", e.text);
}

static void setup(void)
{
    f = (struct features){0};
    worker_job(&job, DATA_LIBSVM, NULL);
    made("1 3:1 957:1 5039:1");
}

static void teardown(void)
{
    features_free(&f);
    job_free(&job);
}

static int read_text(const char *line)
{
    return read_line_text(&r, format_libsvm.line, &f, line);
}

static void check_bad(const char *line, const char *reason)
{
    ck_assert_int_eq(read_text(line), SHOAL_E_DATA);
    ck_assert_msg(strstr(r.reason, reason) != NULL, "\"%s\" does not say \"%s\"", r.reason, reason);
}

/* Checks value i of the line. */
static void check_value(uint32_t i, uint32_t field, const char *index, float weight)
{
    ck_assert_uint_lt(i, r.example.keys);
    ck_assert_uint_eq(r.key[i], key_of_value(field, index, strlen(index)));
    ck_assert_msg(r.value_weight[i] == weight, "%g is not %g", (double)r.value_weight[i],
                  (double)weight);
}

/* ---- by place -------------------------------------------------------------------------------- */

START_TEST(libsvm_of_one_length_and_ones_has_its_places_as_fields)
{
    made("1 3:1 957:1 5039:1\n\n0 4:1 800:1.0 5001:1 # row 1\r\n1 qid:7 9 10 11\n");
    ck_assert_int_eq(f.entries, ENTRIES_PLACES);
    ck_assert_uint_eq(f.shape.fields, 3);
    ck_assert_uint_eq(f.shape.numerics, 0);
    ck_assert_uint_eq(f.columns, 4);
    ck_assert(!f.multi && !f.weighted);
}
END_TEST

START_TEST(libsvm_entry_is_a_key_of_its_place)
{
    ck_assert_int_eq(read_text("-1 7:1  7:1.0\t12:1. "), 0);
    ck_assert(r.label[0] == 0.0f);
    ck_assert_uint_eq(r.example.keys, 3);
    ck_assert_uint_eq(r.key[0], key_of_value(0, "7", 1));
    ck_assert_uint_eq(r.key[1], key_of_value(1, "7", 1));
    ck_assert_uint_eq(r.key[2], key_of_value(2, "12", 2));
}
END_TEST

START_TEST(libsvm_label_may_be_signed_or_a_fraction)
{
    ck_assert_int_eq(read_text("+1 1:1 2:1 3:1"), 0);
    ck_assert(r.label[0] == 1.0f);
    ck_assert_int_eq(read_text("0.0 1:1 2:1 3:1"), 0);
    ck_assert(r.label[0] == 0.0f);
}
END_TEST

START_TEST(libsvm_comments_qid_and_entries_without_a_value_are_read)
{
    static const char *const lines[] = {"1 7:1 8:1 9:1 # row 7", "1 qid:3 7:1 8:1 9:1", "1 7 8 9",
                                        "1\tqid:3\t7\t8:1\t9 #"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        ck_assert_msg(read_text(lines[i]) == 0, "%s: %s", lines[i], r.reason);
        ck_assert_uint_eq(r.key[0], key_of_value(0, "7", 1));
        ck_assert_uint_eq(r.key[2], key_of_value(2, "9", 1));
    }
}
END_TEST

START_TEST(libsvm_malformed_lines_are_refused_with_a_reason)
{
    check_bad("1 1:1 2:1", "2 entries, not 3");
    check_bad("1 1:1 2:1", "data.libsvm: one");
    check_bad("1 1:1 2:1 3:1 4:1", "4 entries, not 3");
    check_bad("1", "0 entries");
    check_bad("", "0 entries");
    check_bad("1 1:1 2:0.5 3:1", "entry 2 has a value other than 1");
    check_bad("1 1:1 2:0.5 3:1", "data.libsvm: one");
    check_bad("1 1:1 2: 3:1", "entry 2 has no number as value");
    check_bad("1 1:1 2:x 3:1", "entry 2 has no number as value");
    check_bad("1 0:1:1 1:2:1 2:3:1", "entry 1 is field:index:value, which is data.format: libffm");
    check_bad("1 1:1 a:1 3:1", "entry 2 is not index:value");
    check_bad("1 1:1 :1 3:1", "entry 2 is not index:value");
    check_bad("1 1:1 2x 3:1", "entry 2 is not index:value");
    check_bad("one 1:1 2:1 3:1", "label");
    check_bad("nan 1:1 2:1 3:1", "label");
    check_bad("0x1 1:1 2:1 3:1", "label");
    check_bad("1:1 2:1 3:1", "label");
}
END_TEST

/* Columns have the format's types; they may be used, shared and read as ids by name. */
START_TEST(libsvm_columns_may_be_ids_or_skipped)
{
    worker_job_column(&job, "3", COLUMN_CATEGORY);
    worker_job_column(&job, "2", COLUMN_SKIP);
    job.data.column[0].id = true;
    made("1 3:1 957:1 5039:1");
    ck_assert_uint_eq(f.shape.fields, 2);
    ck_assert_int_eq(read_text("1 7:1 x8:1 9:1"), SHOAL_E_DATA);
    ck_assert_int_eq(read_text("1 7:1 8:1 4711:1"), 0);
    ck_assert_uint_eq(r.key[0], key_of_value(0, "7", 1));
    ck_assert_uint_eq(r.key[1], (1ULL << 48) + 4711);
    check_bad("1 7:1 8:1 09:1", "no id");
    job.data.column[1].type = COLUMN_MULTI;
    ck_assert_int_eq(make("1 3:1 957:1 5039:1"), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "column \"2\" another type, in libsvm it is a category"));
    snprintf(job.data.column[1].name, LIMIT_NAME, "%s", "C9");
    ck_assert_int_eq(make("1 3:1 957:1 5039:1"), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "data.columns names column \"C9\""));
}
END_TEST

/* ---- one field ------------------------------------------------------------------------------- */

START_TEST(libsvm_of_any_length_or_values_is_one_field_with_weights)
{
    static const char *const heads[] = {"1 3:1 957:1\n0 4:1\n", "1 3:1 957:0.5\n0 4:1 900:1\n",
                                        "1\n0\n", "0\n1 121:1 242:1\n"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        made(heads[i]);
        ck_assert_int_eq(f.entries, ENTRIES_ONE);
        ck_assert_uint_eq(f.shape.fields, 1);
        ck_assert(f.multi && f.weighted);
        ck_assert_uint_eq(f.columns, 3);
    }
}
END_TEST

START_TEST(libsvm_values_are_weights)
{
    made("1 3:0.5\n");
    ck_assert_msg(read_text("-1 qid:4 7:0.25 9\t300:-12.5 5:0 6:1e-3 8:123456789012345678 # x") ==
                      0,
                  "%s", r.reason);
    ck_assert_uint_eq(r.example.keys, 6);
    check_value(0, 0, "7", 0.25f);
    check_value(1, 0, "9", 1.0f);
    check_value(2, 0, "300", -12.5f);
    check_value(3, 0, "5", 0.0f);
    check_value(4, 0, "6", 1e-3f);
    check_value(5, 0, "8", 123456789012345678.0f);
    ck_assert_int_eq(read_text("1"), 0);
    ck_assert_uint_eq(r.example.keys, 0);
    ck_assert_int_eq(read_text("1 # nothing"), 0);
    ck_assert_uint_eq(r.example.keys, 0);
}
END_TEST

START_TEST(libsvm_entries_without_a_number_are_refused)
{
    made("1 3:0.5\n");
    check_bad("1 7:", "no entry of the form index:value: column \"1\" has \"7:\"");
    check_bad("1 7:0.5x 9:1", "has \"7:0.5x\"");
    check_bad("1 7:nan", "has \"7:nan\"");
    check_bad("1 7:1e99", "has \"7:1e99\"");
    check_bad("1 a:1", "has \"a:1\"");
    check_bad("1 :1", "has \":1\"");
    check_bad("1 0:35:1", "field:index:value is data.format: libffm");
    check_bad("7:1 9:1", "label");
}
END_TEST

/* A weight is the number that strtod reads, rounded to a float. */
START_TEST(libsvm_weights_are_those_of_strtod)
{
    static const char *const numbers[] = {
        "0",    "-0",  "1",       "1.",     ".5",     "-.5",     "0.1",         "0.30000001",
        "3.14", "1e5", "1.25E-2", "999999", "0.3651", "-7.0001", "0.000000001", "123456789.123456",
        "+2"};
    made("1 3:0.5\n");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "1 7:%s 8:1", numbers[i]);
        ck_assert_msg(read_text(line) == 0, "%s", r.reason);
        check_value(0, 0, "7", (float)strtod(numbers[i], NULL));
    }
}
END_TEST

START_TEST(libsvm_one_field_may_keep_its_last_values_and_have_ids)
{
    worker_job_column(&job, "1", COLUMN_MULTI);
    job.data.column[0].max = 2;
    job.data.column[0].pooling = POOL_MEAN;
    made("1 3:0.5\n");
    ck_assert_int_eq(read_text("1 7:0.5 8:2 9:3"), 0);
    ck_assert_uint_eq(r.example.keys, 2);
    check_value(0, 0, "8", 2.0f);
    check_value(1, 0, "9", 3.0f);
    job.data.column[0].id = true;
    made("1 3:0.5\n");
    ck_assert_int_eq(read_text("1 7:0.5"), 0);
    ck_assert_uint_eq(r.key[0], 7);
    job.data.column[0].pooling = POOL_ATTENTION;
    ck_assert_int_eq(make("1 3:0.5\n"), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "pooling attention"));
}
END_TEST

/* ---- what the job says ----------------------------------------------------------------------- */

START_TEST(libsvm_is_read_as_the_job_says)
{
    job.data.libsvm = LIBSVM_ONE;
    made("1 3:1 957:1 5039:1\n");
    ck_assert_int_eq(f.entries, ENTRIES_ONE);
    job.data.libsvm = LIBSVM_PLACES;
    made("1 3:1 957:0.5\n1 3:1\n");
    ck_assert_int_eq(f.entries, ENTRIES_PLACES);
    ck_assert_uint_eq(f.columns, 3);
    ck_assert_int_eq(make("1\n1 3:1\n"), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "the first line has 0 entries"));
    job.data.libsvm = LIBSVM_INDEXES;
    made("1 3:1 9:0.5\n1 5:1\n");
    ck_assert_int_eq(f.entries, ENTRIES_INDEXES);
    ck_assert_uint_eq(f.shape.fields, 3);
    ck_assert_int_eq(make("1 3:1 5039:0.5\n"), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "index 5039 is above 4095"));
    ck_assert_ptr_nonnull(strstr(e.text, "data.libsvm: one"));
}
END_TEST

START_TEST(libsvm_by_index_has_a_field_for_each)
{
    job.data.libsvm = LIBSVM_INDEXES;
    worker_job_column(&job, "12", COLUMN_MULTI);
    made("1 3:1 9:0.5\n1 5:1\n");
    ck_assert_uint_eq(f.shape.fields, 4);
    ck_assert_msg(read_text("1 12:7 3:0.5 9:2 3:-1") == 0, "%s", r.reason);
    ck_assert_uint_eq(r.example.keys, 4);
    ck_assert_uint_eq(r.count[0], 2);
    ck_assert_uint_eq(r.count[1], 0);
    check_value(0, 0, "3", 0.5f);
    check_value(1, 0, "3", -1.0f);
    check_value(2, 2, "9", 2.0f);
    check_value(3, 3, "12", 7.0f);
    check_bad("1 4:1", "entry 1 has index 4, which none of the first lines has");
    check_bad("1 4:1", "[{name: \"4\", type: multi}], or say data.libsvm: one");
}
END_TEST

static void known(const char *name, const char *what)
{
    ck_assert_int_eq(legend_add(&job.legend, LEGEND_FIELDS, name, "emb", what, &e), 0);
    job.legend.name[LEGEND_FIELDS][job.legend.count[LEGEND_FIELDS] - 1].here = true;
    job.legend.name[LEGEND_FIELDS][job.legend.count[LEGEND_FIELDS] - 1].number =
        job.legend.count[LEGEND_FIELDS] - 1;
}

/* Tables decide how a log of the same job is read, whatever its first lines show. */
START_TEST(libsvm_is_read_as_the_tables_have_it)
{
    job.legend.input = strdup("1 4, 2 4");
    known("1", "category");
    known("2", "category");
    made("1 3:1 957:1\n0 4:1\n");
    ck_assert_int_eq(f.entries, ENTRIES_PLACES);
    legend_free(&job.legend);
    job.legend.input = strdup("1 4");
    known("1", "multi weighted");
    made("1 3:1 957:1\n0 4:1 8:1\n");
    ck_assert_int_eq(f.entries, ENTRIES_ONE);
    legend_free(&job.legend);
    job.legend.input = strdup("3 4, 8 4");
    known("3", "multi weighted");
    known("8", "multi weighted");
    made("1 3:1 9:1\n0 4:1 8:1\n");
    ck_assert_int_eq(f.entries, ENTRIES_INDEXES);
    ck_assert_uint_eq(f.shape.fields, 4);
    features_free(&f);
    f = (struct features){0};
    ck_assert(feature_names_known(&job));
    ck_assert_msg(features_make(&job, "the tables", NULL, 0, &f, &e) == 0, "%s", e.text);
    ck_assert_int_eq(f.entries, ENTRIES_INDEXES);
    ck_assert_uint_eq(f.shape.fields, 2);
}
END_TEST

/* A field by the one index 1 is called as the field of all entries; the tables know which it is. */
START_TEST(libsvm_by_the_index_1_alone_goes_on_by_index)
{
    struct legend names = {0};
    job.table = calloc(1, sizeof *job.table);
    job.table_count = 1;
    strcpy(job.table[0].name, "emb");
    job.data.libsvm = LIBSVM_INDEXES;
    made("1 1:0.5\n0 1:2\n");
    ck_assert_int_eq(feature_legend(&f, &job, &names, &e), 0);
    ck_assert_int_eq(feature_reading(&f, &job, &names, &e), 0);
    names.name[LEGEND_FIELDS][0].number = 0;
    job.legend = names;
    made("1 1:0.5 2:1\n0 1:2\n");
    ck_assert_int_eq(f.entries, ENTRIES_INDEXES);
    ck_assert_uint_eq(f.shape.fields, 2);
    job.data.libsvm = LIBSVM_AUTO; /* the tables decide */
    made("1 1:0.5\n0 1:2\n");
    ck_assert_int_eq(f.entries, ENTRIES_INDEXES);
    legend_free(&job.legend);
    /* tables of one field */
    job.data.libsvm = LIBSVM_ONE;
    made("1 1:0.5\n0 1:2\n");
    ck_assert_int_eq(feature_legend(&f, &job, &job.legend, &e), 0);
    ck_assert_int_eq(feature_reading(&f, &job, &job.legend, &e), 0);
    job.legend.name[LEGEND_FIELDS][0].number = 0;
    job.data.libsvm = LIBSVM_INDEXES;
    ck_assert_int_eq(make("1 1:0.5\n0 1:2\n"), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "have all entries in one field"));
}
END_TEST

START_TEST(libsvm_first_lines_that_are_none_are_refused)
{
    static const char *const heads[] = {"label,user,item", "1 0:1:1 1:2:1\n0 0:2:1 1:3:1\n",
                                        "a b\nc d\n", "1,0,5\n"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        ck_assert_int_eq(make(heads[i]), SHOAL_E_DATA);
        ck_assert_ptr_nonnull(strstr(e.text, "a.libsvm:1: "));
    }
    ck_assert_int_eq(make("# a comment\n\na b\n"), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "a.libsvm:3: "));
    ck_assert_int_eq(make("# a comment\n"), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "there is no line but comments"));
    ck_assert_int_eq(make(heads[1]), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "data.format: libffm"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("read_libsvm");
    TCase *t = tcase_create("read_libsvm");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, libsvm_of_one_length_and_ones_has_its_places_as_fields);
    tcase_add_test(t, libsvm_entry_is_a_key_of_its_place);
    tcase_add_test(t, libsvm_label_may_be_signed_or_a_fraction);
    tcase_add_test(t, libsvm_comments_qid_and_entries_without_a_value_are_read);
    tcase_add_test(t, libsvm_malformed_lines_are_refused_with_a_reason);
    tcase_add_test(t, libsvm_columns_may_be_ids_or_skipped);
    tcase_add_test(t, libsvm_of_any_length_or_values_is_one_field_with_weights);
    tcase_add_test(t, libsvm_values_are_weights);
    tcase_add_test(t, libsvm_entries_without_a_number_are_refused);
    tcase_add_test(t, libsvm_weights_are_those_of_strtod);
    tcase_add_test(t, libsvm_one_field_may_keep_its_last_values_and_have_ids);
    tcase_add_test(t, libsvm_is_read_as_the_job_says);
    tcase_add_test(t, libsvm_by_index_has_a_field_for_each);
    tcase_add_test(t, libsvm_is_read_as_the_tables_have_it);
    tcase_add_test(t, libsvm_by_the_index_1_alone_goes_on_by_index);
    tcase_add_test(t, libsvm_first_lines_that_are_none_are_refused);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
