/* test_feature.c: columns become fields and numbers as the job says. */
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/job/config.h"
#include "tests/lib/worker_files.h"
#include "tests/lib/worker_reader.h"

#include <check.h>
#include <math.h>
#include <stdio.h>

static struct job job;
static struct features f;
static struct read_line r;
static struct err e;

static void setup(void)
{
    worker_job(&job, DATA_CSV, NULL);
    f = (struct features){0};
    e = (struct err){0};
}

static void teardown(void)
{
    features_free(&f);
    job_free(&job);
}

static int make(const char *head)
{
    features_free(&f);
    return features_make(&job, "a.csv", head, strlen(head), &f, &e);
}

static void check_made(const char *head, uint32_t fields, uint32_t numerics)
{
    ck_assert_msg(make(head) == 0, "%s", e.text);
    ck_assert_uint_eq(f.shape.fields, fields);
    ck_assert_uint_eq(f.shape.numerics, numerics);
}

static void check_refused(const char *head, int code, const char *text)
{
    ck_assert_int_eq(make(head), code);
    ck_assert_msg(strstr(e.text, text) != NULL, "\"%s\" does not say \"%s\"", e.text, text);
}

static void check_key(uint32_t i, uint32_t field, const char *value)
{
    ck_assert_uint_eq(r.key[i], key_of_value(field, value, strlen(value)));
}

START_TEST(feature_all_but_the_label_are_categories_by_default)
{
    check_made("user,label,item", 2, 0);
    ck_assert_uint_eq(f.label[0], 0); /* data.label is 0 by default */
    strcpy(job.data.label[0], "label");
    check_made("user,label,item", 2, 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "7,1,9"), 0);
    ck_assert(r.label[0] == 1.0f);
    check_key(0, 0, "7");
    check_key(1, 1, "9");
    strcpy(job.data.label[0], "2");
    check_made("user,label,item", 2, 0);
    ck_assert_uint_eq(f.label[0], 2);
}
END_TEST

START_TEST(feature_columns_have_types)
{
    worker_job_column(&job, "click", COLUMN_LABEL);
    worker_job_column(&job, "genre", COLUMN_MULTI);
    worker_job_column(&job, "age", COLUMN_NUMBER);
    worker_job_column(&job, "user", COLUMN_CATEGORY);
    worker_job_column(&job, "id", COLUMN_SKIP);
    job.data.column[1].pooling = POOL_MEAN;
    check_made("id,user,age,genre,click", 2, 1);
    ck_assert_uint_eq(f.shape.pooling[0], POOL_SUM);
    ck_assert_uint_eq(f.shape.pooling[1], POOL_MEAN);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "x,u1,-2.5e1,Action||Drama|,1"), 0);
    ck_assert(r.numeric[0] == -25.0f);
    ck_assert_uint_eq(r.example.keys, 3);
    ck_assert_uint_eq(r.count[0], 1);
    ck_assert_uint_eq(r.count[1], 2);
    check_key(0, 0, "u1");
    check_key(1, 1, "Action");
    check_key(2, 1, "Drama");
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "x,u1,3,,0"), 0);
    ck_assert_uint_eq(r.count[1], 0);
    ck_assert_uint_eq(r.example.keys, 1);
}
END_TEST

/* At any place, and not counted among the last `max` values; as a single value padding stays a
 * value. */
START_TEST(feature_padding_is_no_value)
{
    worker_job_column(&job, "click", COLUMN_LABEL);
    worker_job_column(&job, "item", COLUMN_CATEGORY);
    worker_job_column(&job, "history", COLUMN_MULTI);
    strcpy(job.data.column[2].padding, "0");
    check_made("click,item,history", 2, 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,0,0|8|0|54|00|0"), 0);
    ck_assert_uint_eq(r.count[0], 1);
    ck_assert_uint_eq(r.count[1], 3);
    check_key(0, 0, "0");
    check_key(1, 1, "8");
    check_key(2, 1, "54");
    check_key(3, 1, "00");
    job.data.column[2].max = 2;
    check_made("click,item,history", 2, 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,7,3|8|54|0|0"), 0);
    ck_assert_uint_eq(r.count[1], 2);
    check_key(1, 1, "8");
    check_key(2, 1, "54");
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,7,0|0|0"), 0);
    ck_assert_uint_eq(r.count[1], 0);
}
END_TEST

/* pandas writes its index like this. */
START_TEST(feature_column_without_a_name_is_refused)
{
    strcpy(job.data.label[0], "click");
    check_refused(",click,user", SHOAL_E_CONFIG, "column 0 has no name");
    ck_assert_ptr_nonnull(strstr(e.text, "data.columns: [{name: \"0\", type: skip}]"));
    check_refused("click,user,", SHOAL_E_CONFIG, "column 2 has no name");
    worker_job_column(&job, "0", COLUMN_SKIP);
    check_made(",click,user", 1, 0);
    job.data.column[0].type = COLUMN_CATEGORY;
    check_made(",click,user", 2, 0);
    job.data.column_count = 0;
    job.features.fields_auto = false;
    config_list_add(&job.features.fields, "user");
    check_made(",click,user", 1, 0);
}
END_TEST

/* As without data.columns: a column that is not mentioned does not vanish. */
START_TEST(feature_columns_not_named_are_categories)
{
    strcpy(job.data.label[0], "click");
    worker_job_column(&job, "id", COLUMN_SKIP);
    worker_job_column(&job, "age", COLUMN_NUMBER);
    check_made("id,click,age,user,site", 2, 1);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "7,1,30,u,s"), 0);
    check_key(0, 0, "u");
    check_key(1, 1, "s");
    job.features.fields_auto = false;
    config_list_add(&job.features.fields, "site");
    check_made("id,click,age,user,site", 1, 0);
}
END_TEST

START_TEST(feature_list_restricts_and_orders)
{
    job.features.fields_auto = false;
    config_list_add(&job.features.fields, "item");
    config_list_add(&job.features.fields, "1");
    check_made("label,user,item,city", 2, 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,u,i,c"), 0);
    check_key(0, 0, "i");
    check_key(1, 1, "u");
}
END_TEST

START_TEST(feature_without_header_columns_are_named_by_place)
{
    job.data.header = false;
    strcpy(job.data.label[0], "1");
    check_made("a,1,b", 2, 0);
    worker_job_column(&job, "user", COLUMN_CATEGORY);
    worker_job_column(&job, "click", COLUMN_LABEL);
    worker_job_column(&job, "n", COLUMN_NUMBER);
    check_made("a,1,5", 1, 1);
    check_refused("a,1", SHOAL_E_CONFIG, "data.columns names 3");
}
END_TEST

START_TEST(feature_wrong_names_are_refused_with_the_nearest)
{
    worker_job_column(&job, "usr", COLUMN_CATEGORY);
    check_refused("label,user,item", SHOAL_E_CONFIG, "did you mean \"user\"?");
    ck_assert_ptr_nonnull(strstr(e.text, "a.csv:1"));
    ck_assert_ptr_nonnull(strstr(e.text, "data.columns"));
    job.data.column_count = 0;
    strcpy(job.data.label[0], "clik");
    check_refused("user,click", SHOAL_E_CONFIG, "did you mean \"click\"?");
    strcpy(job.data.label[0], "click");
    job.features.fields_auto = false;
    config_list_add(&job.features.fields, "item_id");
    check_refused("click,item-id,user", SHOAL_E_CONFIG, "did you mean \"item-id\"?");
}
END_TEST

START_TEST(feature_columns_that_contradict_are_refused)
{
    worker_job_column(&job, "label", COLUMN_CATEGORY);
    worker_job_column(&job, "user", COLUMN_CATEGORY);
    check_refused("label,user", SHOAL_E_CONFIG, "is the label");
    job.data.column[0].type = COLUMN_LABEL;
    job.data.column[1].type = COLUMN_LABEL;
    check_refused("label,user", SHOAL_E_CONFIG, "two columns of type label");
    job.data.column[1].type = COLUMN_SKIP;
    check_refused("label,user", SHOAL_E_CONFIG, "no column is left");
    worker_job_column(&job, "user", COLUMN_CATEGORY);
    check_refused("label,user", SHOAL_E_CONFIG, "twice");
    job.data.column_count = 0;
    job.features.fields_auto = false;
    config_list_add(&job.features.fields, "label");
    check_refused("label,user", SHOAL_E_CONFIG, "the label");
    config_list_free(&job.features.fields);
    config_list_add(&job.features.fields, "user");
    config_list_add(&job.features.fields, "user");
    check_refused("label,user", SHOAL_E_CONFIG, "twice");
}
END_TEST

START_TEST(feature_too_many_fields_are_refused)
{
    char head[4096] = "label";
    for (int i = 0; i < 513; i++)
        strcat(head, ",x");
    check_refused(head, SHOAL_E_CONFIG, "more than 512 fields");
}
END_TEST

START_TEST(feature_label_is_compared_with_label_above)
{
    job.data.label_above = 3;
    check_made("rating,user", 1, 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "3,u"), 0);
    ck_assert(r.label[0] == 0.0f);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "3.5,u"), 0);
    ck_assert(r.label[0] == 1.0f);
}
END_TEST

START_TEST(feature_byte_order_mark_is_no_part_of_a_name)
{
    strcpy(job.data.label[0], "label");
    check_made("\xef\xbb\xbflabel,user", 1, 0);
}
END_TEST

START_TEST(feature_bind_finds_columns_of_another_header)
{
    strcpy(job.data.label[0], "label");
    check_made("label,user,item", 2, 0);
    ck_assert_int_eq(features_bind(&f, "b.csv", "item,extra,label,user", 21, &e), 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "i,x,1,u"), 0);
    check_key(0, 0, "u");
    check_key(1, 1, "i");
    ck_assert_int_eq(features_bind(&f, "c.csv", "label,itm,user", 14, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "did you mean \"itm\"?"));
}
END_TEST

START_TEST(feature_bind_finds_each_column_of_one_name)
{
    strcpy(job.data.label[0], "label");
    worker_job_column(&job, "3", COLUMN_CATEGORY); /* these have no name */
    worker_job_column(&job, "5", COLUMN_CATEGORY);
    check_made("label,a,a,,b,", 5, 0);
    ck_assert_int_eq(features_bind(&f, "b.csv", "b,,a,a,,label", 13, &e), 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "bb,e1,a1,a2,e2,1"), 0);
    check_key(0, 0, "a1");
    check_key(1, 1, "a2");
    check_key(2, 2, "e1");
    check_key(3, 3, "bb");
    check_key(4, 4, "e2");
    ck_assert_int_eq(features_bind(&f, "c.csv", "label,a,b,,", 11, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "names column \"a#2\"") != NULL, "%s", e.text);
    job.data.column_count = 0;
    strcpy(job.data.label[0], "3");
    check_made("a,b,c,a", 3, 0);
    ck_assert_int_eq(features_bind(&f, "d.csv", "c,a,a,b", 7, &e), 0);
    ck_assert_uint_eq(f.label[0], 2);
}
END_TEST

START_TEST(feature_log1p_is_that_of_libm)
{
    for (double x = 0; x < 1e15; x = x * 1.37 + 0.001) {
        ck_assert_float_eq_tol(feature_log1p(x), (float)log1p(x),
                               (float)(1e-6 * log1p(x)) + 1e-12f);
        ck_assert(feature_log1p(-x) == -feature_log1p(x));
    }
    ck_assert(feature_log1p(0) == 0.0f);
    ck_assert_float_eq_tol(feature_log1p(1e-9), 1e-9f, 1e-15f);
    ck_assert_float_eq_tol(feature_log1p(1e300), 690.77553f, 1e-3f);
}
END_TEST

START_TEST(feature_bucket_is_floor_of_log2)
{
    static const struct {
        double x;
        const char *text;
    } cases[] = {{0, "0"},  {1, "+0"},      {-1, "-0"},   {2, "+1"},      {3.99, "+1"},
                 {4, "+2"}, {-1025, "-10"}, {0.5, "+-1"}, {1e300, "+996"}};
    char out[8];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t n = feature_bucket(cases[i].x, out);
        ck_assert_uint_eq(n, strlen(cases[i].text));
        ck_assert_int_eq(memcmp(out, cases[i].text, n), 0);
    }
}
END_TEST

static int number(const char *text, double *out)
{
    return feature_number(&(struct cell){text, (uint32_t)strlen(text)}, out);
}

START_TEST(feature_number_takes_decimals_and_nothing_else)
{
    static const char *bad[] = {"",    " ",     "1 2", "nan", "inf", "-inf", "0x10", "1e999",
                                "--1", "1.2.3", "1e",  "-",   "+",   ".",    "1,5",  "1_0"};
    double x;
    ck_assert(number("-12", &x) && x == -12);
    ck_assert(number("+12", &x) && x == 12);
    ck_assert(number("1.25", &x) && x == 1.25);
    ck_assert(number(".5", &x) && x == 0.5);
    ck_assert(number("1e3", &x) && x == 1000);
    ck_assert(number("123456789012345678901", &x) && x == 123456789012345678901.0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!number(bad[i], &x), "\"%s\" was taken for a number", bad[i]);
    ck_assert(!feature_number(&(struct cell){"1\0"
                                             "2",
                                             3},
                              &x));
}
END_TEST

START_TEST(feature_blanks_around_a_number_are_no_part_of_it)
{
    double x;
    ck_assert(number(" 67 ", &x) && x == 67);
    ck_assert(number("\t-1.5", &x) && x == -1.5);
    ck_assert(!number("- 1", &x));
}
END_TEST

static bool label_is(const char *text, double *out)
{
    return feature_label(&(struct cell){text, (uint32_t)strlen(text)}, out);
}

START_TEST(feature_label_may_be_true_or_false)
{
    double x;
    ck_assert(label_is("True", &x) && x == 1);
    ck_assert(label_is("false", &x) && x == 0);
    ck_assert(label_is(" FALSE ", &x) && x == 0);
    ck_assert(label_is("2", &x) && x == 2);
    ck_assert(!label_is("yes", &x) && !label_is("t", &x) && !label_is("", &x));
}
END_TEST

START_TEST(feature_number_too_large_for_a_float_is_malformed)
{
    worker_job_column(&job, "n", COLUMN_NUMBER);
    check_made("label,n", 0, 1);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,1e39"), SHOAL_E_DATA);
    job.features.number = NUMBER_LOG1P;
    check_made("label,n", 0, 1);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,1e39"), 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,"), 0);
    ck_assert(r.numeric[0] == 0.0f);
}
END_TEST

static struct column *column_add(const char *name, enum column_type type)
{
    worker_job_column(&job, name, type);
    return &job.data.column[job.data.column_count - 1];
}

static void set(char to[LIMIT_NAME], const char *name)
{
    snprintf(to, LIMIT_NAME, "%s", name);
}

static void name_labels(const char *first, const char *second)
{
    set(job.data.label[0], first);
    set(job.data.label[1], second);
    job.data.label_count = 2;
}

static void check_bad_line(const char *line, const char *reason)
{
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, line), SHOAL_E_DATA);
    ck_assert_msg(strstr(r.reason, reason) != NULL, "\"%s\" does not say \"%s\"", r.reason, reason);
}

START_TEST(feature_several_labels_keep_the_order_of_the_job)
{
    name_labels("buy", "click");
    job.data.label_above = 2;
    check_made("user,click,item,buy", 2, 0);
    ck_assert_uint_eq(f.shape.tasks, 2);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "u,3,i,2"), 0);
    ck_assert(r.label[0] == 0.0f && r.label[1] == 1.0f);
    check_key(0, 0, "u");
    check_key(1, 1, "i");
    ck_assert_int_eq(features_bind(&f, "b.csv", "buy,item,click,user", 19, &e), 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "3,i,0,u"), 0);
    ck_assert(r.label[0] == 1.0f && r.label[1] == 0.0f);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "3,i,,u"), 0);
    ck_assert(r.label[0] == 1.0f && isnan(r.label[1]));
    check_bad_line(",i,,u", "no label: column \"buy\" has \"\"; and the others are empty too");
    job.data.label_count = 0; /* a job made by hand: one label */
    check_made("user,click,item,buy", 3, 0);
    ck_assert_uint_eq(f.shape.tasks, 1);
}
END_TEST

START_TEST(feature_labels_that_contradict_are_refused)
{
    name_labels("click", "bye");
    check_refused("user,click,buy", SHOAL_E_CONFIG, "data.label names column \"bye\"");
    ck_assert_ptr_nonnull(strstr(e.text, "did you mean \"buy\"?"));
    name_labels("click", "click");
    check_refused("user,click,buy", SHOAL_E_CONFIG, "data.label names column \"click\" twice");
    name_labels("click", "buy");
    column_add("user", COLUMN_CATEGORY);
    column_add("click", COLUMN_LABEL);
    check_made("user,click,buy,view", 2, 0); /* in data.label, so it needs no type */
    column_add("view", COLUMN_LABEL);
    check_refused("user,click,buy,view", SHOAL_E_CONFIG,
                  "\"view\" has type label in data.columns and is not in");
    job.data.column[2] = job.data.column[0];
    set(job.data.column[2].name, "buy");
    check_refused("user,click,buy,view", SHOAL_E_CONFIG, "\"buy\" is the label");
    job.data.format = DATA_LIBSVM;
    ck_assert_int_eq(features_make(&job, "a", "1 2:1", 5, &f, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "data.label names 2 labels; a line of libsvm has one"));
}
END_TEST

/* The second column would be learnt from, and may be the label's copy. Columns that the job does
 * not name may share a name. */
START_TEST(feature_header_has_a_name_of_the_job_once)
{
    set(job.data.label[0], "click");
    job.data.label_count = 1;
    check_refused("click,user,click", SHOAL_E_DATA,
                  "columns 0 and 2 both have the name \"click\", which the job names");
}
END_TEST

START_TEST(feature_weight_is_a_number_and_no_feature)
{
    set(job.data.weight, "w");
    check_made("label,user,w,item", 2, 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,u,2.5,i"), 0);
    ck_assert(r.weight == 2.5f);
    check_key(1, 1, "i");
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,u,0,i"), 0);
    ck_assert(r.weight == 0.0f);
    check_bad_line("1,u,-0.5,i", "a negative weight: column \"w\" has \"-0.5\"");
    check_bad_line("1,u,,i", "no finite number as weight: column \"w\" has \"\"");
    check_bad_line("1,u,nan,i", "no finite number as weight");
    check_bad_line("1,u,1e39,i", "no finite number as weight");
    column_add("w", COLUMN_NUMBER);
    column_add("user", COLUMN_CATEGORY);
    check_made("label,user,w", 1, 0);
    ck_assert_int_eq(features_bind(&f, "b.csv", "w,user,label", 12, &e), 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "7,u,1"), 0);
    ck_assert(r.weight == 7.0f);
}
END_TEST

START_TEST(feature_weight_of_criteo_is_one_of_its_columns)
{
    job.data.format = DATA_CRITEO;
    set(job.data.weight, "I13");
    ck_assert_int_eq(features_make(&job, "log", NULL, 0, &f, &e), 0);
    ck_assert_uint_eq(f.shape.numerics, 12);
    ck_assert_uint_eq(f.weight, 13);
}
END_TEST

START_TEST(feature_weights_that_are_none_are_refused)
{
    set(job.data.weight, "wait");
    check_refused("label,user,weight", SHOAL_E_CONFIG, "data.weight names column \"wait\"");
    ck_assert_ptr_nonnull(strstr(e.text, "did you mean \"weight\"?"));
    set(job.data.weight, "label");
    check_refused("label,user,weight", SHOAL_E_CONFIG, "is a label");
    set(job.data.weight, "weight");
    job.features.fields_auto = false;
    config_list_add(&job.features.fields, "weight");
    check_refused("label,user,weight", SHOAL_E_CONFIG, "which is the weight");
    column_add("weight", COLUMN_CATEGORY);
    check_refused("label,user,weight", SHOAL_E_CONFIG, "a category in data.columns");
}
END_TEST

START_TEST(feature_shared_columns_have_the_same_keys)
{
    column_add("user", COLUMN_CATEGORY);
    set(column_add("history", COLUMN_MULTI)->share, "item");
    column_add("item", COLUMN_CATEGORY);
    check_made("label,user,history,item", 3, 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,a,a|b,b"), 0);
    check_key(0, 0, "a");
    check_key(1, 2, "a");
    check_key(2, 2, "b");
    check_key(3, 2, "b");
    ck_assert_uint_eq(r.key[2], r.key[3]);
}
END_TEST

START_TEST(feature_ids_are_keys_as_they_are)
{
    struct column *user = column_add("user", COLUMN_CATEGORY);
    user->id = true;
    user = column_add("seen", COLUMN_MULTI);
    user->id = true;
    user->max = 3;
    column_add("city", COLUMN_CATEGORY);
    check_made("label,user,seen,city", 3, 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,281474976710655,no|17|0||4711|,7"),
                     0);
    ck_assert_uint_eq(r.key[0], (1ULL << 48) - 1);
    ck_assert_uint_eq(r.count[1], 3); /* values that do not count are not read */
    ck_assert_uint_eq(r.key[1], (1ULL << 48) + 17);
    ck_assert_uint_eq(r.key[2], 1ULL << 48);
    ck_assert_uint_eq(r.key[3], (1ULL << 48) + 4711);
    check_key(4, 2, "7");
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,,,"), 0);
    check_key(0, 0, ""); /* like an empty category */
    ck_assert_uint_eq(r.count[1], 0);
    check_key(1, 2, "");
}
END_TEST

START_TEST(feature_ids_that_are_none_are_malformed)
{
    static const char *const bad[] = {"u7",           "-1",
                                      "+1",           " 1",
                                      "1 ",           "1.0",
                                      "1e5",          "007",
                                      "0x1",          "281474976710656",
                                      "00",           "1_0",
                                      "\xef\xbc\x91", "18446744073709551617"};
    char line[64], said[160];
    column_add("user", COLUMN_CATEGORY)->id = true;
    column_add("seen", COLUMN_MULTI)->id = true;
    check_made("label,user,seen", 2, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(line, sizeof line, "1,%s,1", bad[i]);
        snprintf(said, sizeof said,
                 "no id, a whole number from 0 to 281474976710655: column "
                 "\"user\" has \"%s\"",
                 bad[i][0] == '\xef' ? "???" : bad[i]);
        check_bad_line(line, said);
        snprintf(line, sizeof line, "1,1,3|%s|4", bad[i]);
        check_bad_line(line, "column \"seen\" has");
    }
    ck_assert_int_eq(read_line_bytes(&r, format_csv.line, &f, "1,1\0,1", 7), SHOAL_E_DATA);
}
END_TEST

START_TEST(feature_ids_are_found_by_their_values)
{
    struct legend n = {0};
    uint64_t key = 0;
    column_add("city", COLUMN_CATEGORY);
    column_add("seen", COLUMN_MULTI)->id = true;
    set(column_add("item", COLUMN_CATEGORY)->share, "seen");
    job.data.column[2].id = true;
    check_made("label,city,seen,item", 3, 0);
    ck_assert_int_eq(feature_field_key(&f, 2, "4711", &key, &e), 0);
    ck_assert_uint_eq(key, (1ULL << 48) + 4711);
    ck_assert_int_eq(feature_field_key(&f, 1, "i4711", &key, &e), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "i4711 is no id of field seen"));
    struct json *list = feature_fields_json(&f, &n);
    ck_assert_str_eq(json_as_string(json_get(list, "1.kind"), ""), "multi id");
    ck_assert_str_eq(json_as_string(json_get(list, "2.kind"), ""), "id");
    json_free(list);
    legend_add(&n, LEGEND_FIELDS, "old", "emb", "id", NULL);
    n.name[LEGEND_FIELDS][0].number = 7;
    n.name[LEGEND_FIELDS][0].here = false;
    ck_assert_int_eq(feature_gone_key(&n, "old", "12", &key, &e), 0);
    ck_assert_uint_eq(key, (7ULL << 48) + 12);
    ck_assert_int_eq(feature_gone_key(&n, "old", "012", &key, &e), SHOAL_E_DATA);
    ck_assert_int_eq(feature_gone_key(&n, "older", "12", &key, &e), SHOAL_E_NOT_FOUND);
    legend_free(&n);
}
END_TEST

START_TEST(feature_ids_are_another_kind_of_field)
{
    static struct job_table table = {.name = "emb", .dim = 4};
    job.table = &table;
    job.table_count = 1;
    for (int id = 0; id < 2; id++) {
        struct legend n = {0};
        column_add(id ? "b" : "a", COLUMN_CATEGORY)->id = id;
        column_add(id ? "d" : "c", COLUMN_MULTI)->id = id;
        check_made("label,a,c,b,d", 4, 0);
        ck_assert_int_eq(feature_legend(&f, &job, &n, &e), 0);
        ck_assert_str_eq(n.name[LEGEND_FIELDS][id ? 2 : 0].what, id ? "id" : "category");
        ck_assert_str_eq(n.name[LEGEND_FIELDS][id ? 3 : 1].what, id ? "multi id" : "multi");
        legend_free(&n);
    }
    job.table = NULL;
    job.table_count = 0;
}
END_TEST

START_TEST(feature_names_by_place_tell_where_the_label_is)
{
    static struct job_table table = {.name = "emb", .dim = 4};
    struct legend n = {0};
    job.table = &table;
    job.table_count = 1;
    job.data.header = false;
    strcpy(job.data.label[0], "2");
    check_made("a,b,1,c", 3, 0);
    ck_assert_int_eq(feature_legend(&f, &job, &n, &e), 0);
    ck_assert_str_eq(n.place, "2");
    ck_assert_uint_eq(n.columns, 4);
    legend_free(&n);
    for (int i = 0; i < 4; i++)
        worker_job_column(&job, (const char *[]){"a", "b", "y", "n"}[i],
                          i == 3 ? COLUMN_NUMBER : COLUMN_CATEGORY);
    strcpy(job.data.label[0], "y");
    job.data.column[2].type = COLUMN_LABEL;
    job.features.number = NUMBER_LOG1P;
    check_made("a,b,1,c", 2, 1);
    ck_assert_int_eq(feature_legend(&f, &job, &n, &e), 0);
    ck_assert_str_eq(n.place, ""); /* they have names */
    ck_assert_str_eq(n.name[LEGEND_NUMBERS][0].what, "number log1p");
    ck_assert_uint_eq(n.real, 0);
    legend_free(&n);
    job.model.loss[0] = LOSS_MSE;
    ck_assert_int_eq(feature_legend(&f, &job, &n, &e), 0);
    ck_assert_uint_eq(n.real, 1);
    legend_free(&n);
    job.model.loss[0] = LOSS_LOGLOSS;
    job.table = NULL;
    job.table_count = 0;
}
END_TEST

START_TEST(feature_shares_that_lead_nowhere_are_refused)
{
    struct column *history = column_add("history", COLUMN_MULTI);
    set(history->share, "itm");
    column_add("item", COLUMN_CATEGORY);
    history = &job.data.column[0];
    check_refused("label,history,item", SHOAL_E_CONFIG,
                  "share of column \"history\" names column \"itm\"");
    ck_assert_ptr_nonnull(strstr(e.text, "did you mean \"item\"?"));
    set(history->share, "history");
    check_refused("label,history,item", SHOAL_E_CONFIG, "names the column itself");
    set(history->share, "label");
    check_refused("label,history,item", SHOAL_E_CONFIG, "names \"label\", which is no field");
    set(history->share, "item");
    set(job.data.column[1].share, "history");
    check_refused("label,history,item", SHOAL_E_CONFIG, "which shares with");
    job.data.column[1].share[0] = '\0';
    job.features.fields_auto = false;
    config_list_add(&job.features.fields, "history");
    /* not in features.fields */
    check_refused("label,history,item", SHOAL_E_CONFIG, "no field");
}
END_TEST

START_TEST(feature_max_takes_the_last_values)
{
    static const struct {
        const char *cell, *values[3];
        uint32_t count;
    } cases[] = {{"", {0}, 0},
                 {"|||||", {0}, 0},
                 {"a", {"a"}, 1},
                 {"a|b|c", {"a", "b", "c"}, 3},
                 {"a|b|c|d", {"b", "c", "d"}, 3},
                 {"a||b||c||d||", {"b", "c", "d"}, 3},
                 {"|a|b|c", {"a", "b", "c"}, 3},
                 {"||||||||a", {"a"}, 1},
                 {"long value|longer value|the longest value|x",
                  {"longer value", "the longest value", "x"},
                  3}};
    char line[128];
    column_add("tags", COLUMN_MULTI)->max = 3;
    check_made("label,tags", 1, 0);
    ck_assert_uint_eq(f.shape.most[0], 3);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(line, sizeof line, "1,%s", cases[i].cell);
        ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, line), 0);
        ck_assert_msg(r.count[0] == cases[i].count, "\"%s\" has %u values", cases[i].cell,
                      r.count[0]);
        for (uint32_t j = 0; j < cases[i].count; j++)
            check_key(j, 0, cases[i].values[j]);
    }
}
END_TEST

START_TEST(feature_attention_names_its_target)
{
    struct column *history = column_add("history", COLUMN_MULTI);
    history->pooling = POOL_ATTENTION;
    set(history->attend, "item");
    set(history->share, "item");
    column_add("user", COLUMN_CATEGORY);
    column_add("item", COLUMN_CATEGORY);
    check_made("label,item,user,history", 3, 0);
    ck_assert_uint_eq(f.shape.pooling[2], POOL_ATTENTION);
    ck_assert_uint_eq(f.shape.attend[2], 0);
    ck_assert_uint_eq(f.shape.most[2], 0);
    ck_assert_uint_eq(f.field[2].last, FEATURE_SEQUENCE_MAX);
    job.data.column[0].max = 20;
    check_made("label,item,user,history", 3, 0);
    ck_assert_uint_eq(f.shape.most[2], 20);
}
END_TEST

START_TEST(feature_gates_are_found_by_name)
{
    check_made("label,item,user,tag", 3, 0);
    ck_assert_uint_eq(f.shape.gate_fields, 0);
    set(job.model.gate_field[0], "user");
    set(job.model.gate_field[1], "item");
    check_made("label,item,user,tag", 3, 0);
    ck_assert_uint_eq(f.shape.gate_fields, 2);
    ck_assert_uint_eq(f.shape.gate_field[0], 1);
    ck_assert_uint_eq(f.shape.gate_field[1], 0);
    set(job.model.gate_field[1], "itme");
    check_refused("label,item,user,tag", SHOAL_E_CONFIG, "model.gate_fields names column \"itme\"");
    set(job.model.gate_field[1], "label");
    check_refused("label,item,user,tag", SHOAL_E_CONFIG, "no field");
}
END_TEST

START_TEST(feature_attention_without_a_single_target_is_refused)
{
    struct column *history = column_add("history", COLUMN_MULTI);
    history->pooling = POOL_ATTENTION;
    column_add("tags", COLUMN_MULTI);
    column_add("item", COLUMN_CATEGORY);
    history = &job.data.column[0];
    set(history->attend, "itme");
    check_refused("label,item,tags,history", SHOAL_E_CONFIG,
                  "attend of column \"history\" names column \"itme\"");
    ck_assert_ptr_nonnull(strstr(e.text, "did you mean \"item\"?"));
    set(history->attend, "tags");
    check_refused("label,item,tags,history", SHOAL_E_CONFIG, "has several values");
    set(history->attend, "label");
    check_refused("label,item,tags,history", SHOAL_E_CONFIG, "no field");
    set(history->attend, "item");
    history->type = COLUMN_CATEGORY;
    check_refused("label,item,tags,history", SHOAL_E_CONFIG, "not of type multi");
}
END_TEST

START_TEST(feature_groups_are_hashes_of_any_column)
{
    uint64_t group = 0, by[2] = {0};
    set(job.evaluate.group, "user");
    config_list_add(&job.evaluate.by, "id");
    config_list_add(&job.evaluate.by, "label");
    column_add("user", COLUMN_CATEGORY);
    column_add("id", COLUMN_SKIP);
    check_made("label,id,user", 1, 0);
    ck_assert_uint_eq(f.by_count, 2);
    ck_assert_int_eq(features_bind(&f, "v.csv", "user,label,id", 13, &e), 0);
    r.group = &group;
    r.by = by;
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "u7,1,x"), 0);
    r.group = r.by = NULL;
    ck_assert_uint_eq(group, hash_bytes("u7", 2, 0));
    ck_assert_uint_eq(by[0], hash_bytes("x", 1, 0));
    ck_assert_uint_eq(by[1], hash_bytes("1", 1, 0));
}
END_TEST

START_TEST(feature_groups_that_are_no_column_are_refused)
{
    set(job.evaluate.group, "usr");
    check_refused("label,user", SHOAL_E_CONFIG, "evaluate.group names column \"usr\"");
    ck_assert_ptr_nonnull(strstr(e.text, "did you mean \"user\"?"));
    job.evaluate.group[0] = '\0';
    config_list_add(&job.evaluate.by, "usr");
    check_refused("label,user", SHOAL_E_CONFIG, "evaluate.by names column \"usr\"");
    config_list_free(&job.evaluate.by);
    for (uint32_t i = 0; i <= LIMIT_BY; i++)
        config_list_add(&job.evaluate.by, "user");
    check_refused("label,user", SHOAL_E_CONFIG, "evaluate.by names 33 columns");
}
END_TEST

START_TEST(feature_examples_without_a_positive_label_may_be_dropped)
{
    name_labels("click", "buy");
    set(job.data.weight, "w");
    check_made("click,buy,w,user", 1, 0);
    r.positives_only = true;
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "0,0,1,u"), 0);
    ck_assert(r.example.dropped && r.example.keys == 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "0,1,1,u"), 0);
    ck_assert(!r.example.dropped && r.example.keys == 1);
    check_bad_line("0,x,1,u", "no number as label");
    r.positives_only = false;
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "0,0,1,u"), 0);
    ck_assert(!r.example.dropped && r.example.keys == 1);
}
END_TEST

static bool time_of(const char *text, enum time_unit unit, uint32_t *out)
{
    struct cell cell = {text, (uint32_t)strlen(text)};
    return feature_time(&cell, &(struct time_form){.unit = unit}, &ZONE_UTC, out);
}

START_TEST(feature_time_takes_numbers_and_dates)
{
    static const struct {
        const char *text;
        enum time_unit unit;
        uint32_t seconds;
    } good[] = {{"1700000000", TIME_SECONDS, 1700000000},
                {"1700000000.9", TIME_SECONDS, 1700000000},
                {"1700000000123", TIME_MILLISECONDS, 1700000000},
                {"1700000000123456", TIME_MICROSECONDS, 1700000000},
                {"4294967295", TIME_SECONDS, UINT32_MAX},
                {"2023-11-14 22:13:20", TIME_SECONDS, 1700000000},
                {"2023-11-14T22:13:20Z", TIME_MILLISECONDS, 1700000000},
                {"2023-11-14 22:13:20.999", TIME_MICROSECONDS, 1700000000},
                {"1970-01-02", TIME_SECONDS, 86400},
                {"2023-11-14 22:13", TIME_SECONDS, 1700000000 - 20},
                {"2023-11-14T22:13+01:00", TIME_SECONDS, 1700000000 - 20 - 3600},
                {"2019-11-24 00:01:03.979311+00:00", TIME_SECONDS, 1574553663}, /* pandas */
                {"2023-11-14T22:13:20.5+01:00", TIME_SECONDS, 1700000000 - 3600},
                {"2023-11-14 22:13:20-0530", TIME_SECONDS, 1700000000 + 19800},
                {"2023-11-14 22:13:20+01", TIME_SECONDS, 1700000000 - 3600}, /* PostgreSQL */
                {"2023-11-14 22:13:20.123456 +0530", TIME_SECONDS, 1700000000 - 19800},
                {"2023-11-14 22:13:20 UTC", TIME_SECONDS, 1700000000}, /* BigQuery */
                {"2000-02-29 23:59:59", TIME_SECONDS, 951868799},
                {"2100-03-01", TIME_SECONDS, 4107542400u}};
    static const char *const bad[] = {"",
                                      "0",
                                      "-5",
                                      "soon",
                                      "4294967296",
                                      "2023-02-29",
                                      "2100-02-29",
                                      "2023-13-01",
                                      "2023-00-01",
                                      "2023-01-00",
                                      "2023-04-31",
                                      "1969-12-31 23:59:59",
                                      "2023-11-14 24:00:00",
                                      "2023-11-14 22:1",
                                      "2023-11-14 22:13.5",
                                      "2023-11-14 22:13:20+",
                                      "2023-11-14 22:13:20+1",
                                      "2023-11-14 22:13:20+01:",
                                      "2023-11-14 22:13:20+01:0",
                                      "2023-11-14 22:13:20+010",
                                      "2023-11-14 22:13:20+24:00",
                                      "2023-11-14 22:13:20+01:60",
                                      "2023-11-14 22:13:20 CET",
                                      "2023-11-14 22:13:20Z+01",
                                      "1970-01-01 00:30:00+01:00",
                                      "2023-11-14_22:13:20",
                                      "23-11-14 22:13:20",
                                      "1e19",
                                      "9999999999999999999"};
    uint32_t got;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(time_of(good[i].text, good[i].unit, &got), "%s", good[i].text);
        ck_assert_msg(got == good[i].seconds, "%s: %u", good[i].text, got);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!time_of(bad[i], TIME_SECONDS, &got), "%s", bad[i]);
}
END_TEST

START_TEST(feature_time_without_a_zone_is_of_the_jobs)
{
    struct zone berlin = ZONE_UTC;
    static const struct {
        const char *text;
        uint32_t seconds;
    } cases[] = {{"2026-03-29 01:59:59", 1774745999},  {"2026-03-29 03:00:00", 1774746000},
                 {"2026-03-29T02:30:00", 1774747800}, /* none: by the clocks before */
                 {"2026-10-25 02:30:00", 1792888200}, /* the first of two */
                 {"2026-10-25", 1792879200},           {"2026-10-25 02:30:00+01:00", 1792891800},
                 {"2026-03-29 01:00:00Z", 1774746000}, {"1774746000", 1774746000}};
    uint32_t got;
    ck_assert_int_eq(zone_parse("0+3600 1774746000+7200 1792890000+3600", &berlin), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cell cell = {cases[i].text, (uint32_t)strlen(cases[i].text)};
        ck_assert(feature_time(&cell, &(struct time_form){.unit = TIME_SECONDS}, &berlin, &got));
        ck_assert_msg(got == cases[i].seconds, "%s: %u", cases[i].text, got);
    }
}
END_TEST

/* A number that is not a time since 1970 is refused, with advice that fits the number. */
START_TEST(feature_time_that_looks_like_another_is_refused)
{
    static const struct {
        const char *text;
        enum time_unit unit;
        const char *remedy;
    } cases[] = {{"14102100", TIME_SECONDS, "data.time_format: yymmddhh"},
                 {"20261101", TIME_SECONDS, "data.time_format: yyyymmdd"},
                 {"2024030405", TIME_SECONDS, "data.time_format: yyyymmddhh"},
                 {"202403040506", TIME_SECONDS, "data.time_format: '%Y%m%d%H%M'"},
                 {"1625126761999", TIME_SECONDS, "data.time_unit: ms"},
                 {"1625126761999000", TIME_SECONDS, "data.time_unit: us"},
                 {"1625126761", TIME_MILLISECONDS, "data.time_unit: s"},
                 {"86400", TIME_SECONDS, "before 1995: where that is meant, say data.time_unit: s"},
                 {"03/04/2024", TIME_SECONDS, "'%d/%m/%Y'"}};
    uint32_t got;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cell cell = {cases[i].text, (uint32_t)strlen(cases[i].text)};
        struct time_form form = {.unit = cases[i].unit};
        ck_assert_msg(!feature_time(&cell, &form, &ZONE_UTC, &got), "%s", cases[i].text);
        const char *remedy = feature_time_remedy(&cell, &form);
        ck_assert_msg(strstr(remedy, cases[i].remedy) != NULL, "%s: %s", cases[i].text, remedy);
    }
    struct cell early = {"86400", 5};
    ck_assert(feature_time(&early, &(struct time_form){.any = true}, &ZONE_UTC, &got));
    ck_assert_uint_eq(got, 86400);
}
END_TEST

/* Local time, unless the format has a zone; the whole text must match. */
START_TEST(feature_time_goes_by_a_format)
{
    struct zone berlin = ZONE_UTC;
    static const struct {
        const char *format;
        uint32_t bytes;
        const char *text;
        uint32_t seconds; /* 0: not a time */
    } cases[] = {{"%y%m%d%H", 8, "14102100", 1413849600 - 7200 + 3600},
                 {"%y%m%d%H", 8, "1410210", 0},
                 {"%y%m%d%H", 8, "14102124", 0},
                 {"%Y%m%d", 8, "20260329", 1774738800},
                 {"%Y%m%d", 8, "20260229", 0},
                 {"%d/%m/%Y %H:%M", 0, "29/03/2026 03:00", 1774746000},
                 {"%d/%m/%Y %H:%M", 0, "29/3/2026 1:59", 1774745940},
                 {"%d/%m/%Y %H:%M", 0, "25/10/2026 02:30", 1792888200}, /* the first of two */
                 {"%d/%m/%Y %H:%M", 0, "29/03/2026 03:00 or so", 0},
                 {"%d/%m/%Y %H:%M", 0, "29/03/1969 03:00", 0},
                 {"%d/%b/%Y:%H:%M:%S %z", 0, "29/Mar/2026:03:00:00 +0000", 1774753200}};
    uint32_t got;
    ck_assert_int_eq(zone_parse("0+3600 1774746000+7200 1792890000+3600", &berlin), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cell cell = {cases[i].text, (uint32_t)strlen(cases[i].text)};
        struct time_form form = {.bytes = cases[i].bytes};
        set(form.format, cases[i].format);
        bool good = feature_time(&cell, &form, &berlin, &got);
        ck_assert_msg(good == (cases[i].seconds != 0), "%s", cases[i].text);
        ck_assert_msg(!good || got == cases[i].seconds, "%s: %u", cases[i].text, got);
    }
}
END_TEST

START_TEST(feature_time_is_a_column_and_no_feature)
{
    set(job.data.time, "at");
    check_made("label,at,user", 1, 0);
    ck_assert_int_eq(features_bind(&f, "v.csv", "user,label,at", 13, &e), 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "u,1,2023-11-14 22:13:20"), 0);
    ck_assert_uint_eq(r.time, 1700000000);
    check_bad_line("u,1,2023-11-14 22:13:20.979311+00:00 or so",
                   "no event time: column \"at\" has \"2023-11-14 22:13:20.979311+00:00 or so\"");
    ck_assert_ptr_null(strstr(r.reason, ".."));
    job.data.time_form.unit = TIME_MILLISECONDS;
    check_made("label,at,user", 1, 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,1700000000123,u"), 0);
    ck_assert_uint_eq(r.time, 1700000000);
}
END_TEST

START_TEST(feature_times_that_are_none_are_refused)
{
    set(job.data.time, "att");
    check_refused("label,at,user", SHOAL_E_CONFIG, "did you mean \"at\"?");
    set(job.data.time, "label");
    check_refused("label,at,user", SHOAL_E_CONFIG, "is a label");
    set(job.data.time, "at");
    set(job.data.weight, "at");
    check_refused("label,at,user", SHOAL_E_CONFIG, "is the weight");
    job.data.weight[0] = '\0';
    config_list_add(&job.features.fields, "at");
    job.features.fields_auto = false;
    check_refused("label,at,user", SHOAL_E_CONFIG,
                  "which is the time; take it out or change data.time");
    config_list_free(&job.features.fields);
    column_add("at", COLUMN_CATEGORY);
    check_refused("label,at,user", SHOAL_E_CONFIG, "give it type: skip");
}
END_TEST

/* Rules by field name their fields; inside they use the fields' numbers. */
START_TEST(feature_rules_by_field_find_their_numbers)
{
    struct job_field_rule rule[2] = {{.field = "item"}, {.field = "user"}};
    struct job_table table = {.name = "emb", .rule = rule, .rule_count = 2};
    column_add("user", COLUMN_CATEGORY);
    column_add("item", COLUMN_CATEGORY);
    struct column *history = column_add("history", COLUMN_MULTI);
    set(history->share, "item");
    job.table = &table;
    job.table_count = 1;
    check_made("label,history,user,item", 3, 0);
    ck_assert_uint_eq(f.shape.rule_field[0], 2); /* fields in the order of the header */
    ck_assert_uint_eq(f.shape.rule_field[1], 1);
    set(rule[0].field, "itm");
    check_refused("label,history,user,item", SHOAL_E_CONFIG,
                  "tables[0].rules names column \"itm\"");
    set(rule[0].field, "label");
    check_refused("label,history,user,item", SHOAL_E_CONFIG, "which is no field");
    set(rule[0].field, "history");
    check_refused("label,history,user,item", SHOAL_E_CONFIG, "shares the rows of another column");
    job.table = NULL;
    job.table_count = 0;
}
END_TEST

int main(void)
{
    Suite *s = suite_create("feature");
    TCase *t = tcase_create("feature");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, feature_all_but_the_label_are_categories_by_default);
    tcase_add_test(t, feature_columns_have_types);
    tcase_add_test(t, feature_padding_is_no_value);
    tcase_add_test(t, feature_column_without_a_name_is_refused);
    tcase_add_test(t, feature_columns_not_named_are_categories);
    tcase_add_test(t, feature_list_restricts_and_orders);
    tcase_add_test(t, feature_without_header_columns_are_named_by_place);
    tcase_add_test(t, feature_wrong_names_are_refused_with_the_nearest);
    tcase_add_test(t, feature_columns_that_contradict_are_refused);
    tcase_add_test(t, feature_too_many_fields_are_refused);
    tcase_add_test(t, feature_label_is_compared_with_label_above);
    tcase_add_test(t, feature_byte_order_mark_is_no_part_of_a_name);
    tcase_add_test(t, feature_bind_finds_columns_of_another_header);
    tcase_add_test(t, feature_bind_finds_each_column_of_one_name);
    tcase_add_test(t, feature_log1p_is_that_of_libm);
    tcase_add_test(t, feature_bucket_is_floor_of_log2);
    tcase_add_test(t, feature_number_takes_decimals_and_nothing_else);
    tcase_add_test(t, feature_blanks_around_a_number_are_no_part_of_it);
    tcase_add_test(t, feature_label_may_be_true_or_false);
    tcase_add_test(t, feature_number_too_large_for_a_float_is_malformed);
    tcase_add_test(t, feature_several_labels_keep_the_order_of_the_job);
    tcase_add_test(t, feature_labels_that_contradict_are_refused);
    tcase_add_test(t, feature_weight_is_a_number_and_no_feature);
    tcase_add_test(t, feature_weight_of_criteo_is_one_of_its_columns);
    tcase_add_test(t, feature_weights_that_are_none_are_refused);
    tcase_add_test(t, feature_shared_columns_have_the_same_keys);
    tcase_add_test(t, feature_ids_are_keys_as_they_are);
    tcase_add_test(t, feature_ids_that_are_none_are_malformed);
    tcase_add_test(t, feature_ids_are_found_by_their_values);
    tcase_add_test(t, feature_ids_are_another_kind_of_field);
    tcase_add_test(t, feature_names_by_place_tell_where_the_label_is);
    tcase_add_test(t, feature_shares_that_lead_nowhere_are_refused);
    tcase_add_test(t, feature_max_takes_the_last_values);
    tcase_add_test(t, feature_attention_names_its_target);
    tcase_add_test(t, feature_gates_are_found_by_name);
    tcase_add_test(t, feature_attention_without_a_single_target_is_refused);
    tcase_add_test(t, feature_groups_are_hashes_of_any_column);
    tcase_add_test(t, feature_groups_that_are_no_column_are_refused);
    tcase_add_test(t, feature_examples_without_a_positive_label_may_be_dropped);
    tcase_add_test(t, feature_time_takes_numbers_and_dates);
    tcase_add_test(t, feature_time_without_a_zone_is_of_the_jobs);
    tcase_add_test(t, feature_time_that_looks_like_another_is_refused);
    tcase_add_test(t, feature_time_goes_by_a_format);
    tcase_add_test(t, feature_time_is_a_column_and_no_feature);
    tcase_add_test(t, feature_times_that_are_none_are_refused);
    tcase_add_test(t, feature_header_has_a_name_of_the_job_once);
    tcase_add_test(t, feature_rules_by_field_find_their_numbers);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
