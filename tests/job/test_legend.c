/* test_legend.c: fields and tensors keep their numbers by name; differences are reported by
 * name. */
#include "proto/job/job.h"
#include "proto/job/legend.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "user" or "w:3x4"; fields are categories of table emb */
static void add(struct legend *n, enum legend_list list, const char *word)
{
    struct err e = {0};
    const char *colon = strchr(word, ':');
    size_t bytes = colon != NULL ? (size_t)(colon - word) : strlen(word);
    char name[LEGEND_NAME];
    legend_write(word, bytes, 1, name);
    ck_assert_int_eq(legend_add(n, list, name, list == LEGEND_FIELDS ? "emb" : "",
                                colon != NULL ? colon + 1 : "category", &e),
                     0);
}

static struct legend made(const char *const *fields, const char *const *tensors, const char *input)
{
    struct legend n = {.input = strdup(input), .labels = strdup("click")};
    for (; *fields != NULL; fields++)
        add(&n, LEGEND_FIELDS, *fields);
    for (; *tensors != NULL; tensors++)
        add(&n, LEGEND_TENSORS, *tensors);
    return n;
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct legend numbered(struct legend n)
{
    struct legend nothing = {0};
    struct err e = {0};
    ck_assert_int_eq(legend_match(&nothing, &n, NULL, 0, false, &e), 0);
    return n;
}

static uint32_t number(const struct legend *n, enum legend_list list, const char *name)
{
    uint32_t at = legend_find(n, list, name);
    return at == LEGEND_NONE ? LEGEND_NONE : n->name[list][at].number;
}

START_TEST(legend_keep_their_numbers)
{
    struct err e = {0};
    struct legend was = numbered(made(LIST("user", "item", "hour"), LIST("bias:1"), "a"));
    struct legend is = made(LIST("city", "hour", "user"), LIST("bias:1"), "a");
    ck_assert_msg(legend_match(&was, &is, NULL, 0, false, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(number(&is, LEGEND_FIELDS, "user"), 0);
    ck_assert_uint_eq(number(&is, LEGEND_FIELDS, "hour"), 2);
    ck_assert_uint_eq(number(&is, LEGEND_FIELDS, "city"), 3);
    ck_assert_uint_eq(number(&is, LEGEND_FIELDS, "item"), 1); /* gone, but not its rows */
    ck_assert(!is.name[LEGEND_FIELDS][legend_find(&is, LEGEND_FIELDS, "item")].here);

    struct legend next = made(LIST("brand", "item"), LIST("bias:1"), "a"); /* it comes back */
    ck_assert_int_eq(legend_match(&is, &next, NULL, 0, false, &e), 0);
    ck_assert_uint_eq(number(&next, LEGEND_FIELDS, "brand"), 4);
    ck_assert_uint_eq(number(&next, LEGEND_FIELDS, "item"), 1);
    legend_free(&was);
    legend_free(&is);
    legend_free(&next);
}
END_TEST

START_TEST(legend_come_back_as_they_were)
{
    static const char text[] = "job: a\n# names: not this\ndata: {train: x}";
    struct err e = {0};
    struct legend was = numbered(made(LIST("user", "pr\xc3\xa9nom", "a\"b\\c", "x y"),
                                      LIST("hidden.0.weight:3x4 input"), "user 8, x"));
    char *one, *two;
    size_t bytes, at, line, more;
    was.learnt = true;
    ck_assert_int_eq(legend_put(text, strlen(text), &was, &one, &bytes, &e), 0);
    ck_assert_uint_eq(bytes, strlen(one));
    ck_assert(legend_line(one, bytes, &at, &line));
    ck_assert_int_eq(strncmp(one, text, strlen(text)), 0);
    struct legend again;
    ck_assert_msg(legend_parse(one + at, line, &again, &e) == 0, "%s", e.text);
    for (int i = 0; i < 4; i++)
        ck_assert_str_eq(again.name[LEGEND_FIELDS][i].name, was.name[LEGEND_FIELDS][i].name);
    ck_assert_str_eq(again.name[LEGEND_FIELDS][1].name, "pr\xc3\xa9nom");
    ck_assert_str_eq(again.name[LEGEND_FIELDS][0].table, "emb");
    ck_assert_str_eq(again.name[LEGEND_TENSORS][0].what, "3x4 input");
    ck_assert_str_eq(again.input, "user 8, x");
    ck_assert(again.learnt);

    ck_assert_int_eq(legend_put(one, bytes, &again, &two, &more, &e), 0); /* in its place */
    ck_assert_str_eq(one, two);
    free(two);
    ck_assert_int_eq(legend_put(one, bytes, NULL, &two, &more, &e), 0);
    ck_assert(!legend_line(two, more, &at, &line));
    free(two);
    /* a text that was written by hand may have several such lines: they go, too */
    static const char twice[] = "names: {}\njob: two\nnames: {\"input\": \"a 8\"}";
    ck_assert_int_eq(legend_put(twice, sizeof twice - 1, &again, &two, &more, &e), 0);
    ck_assert_int_eq(strncmp(two, "job: two\nnames: ", 16), 0);
    ck_assert(legend_line(two, more, &at, &line) && at + line + 1 == more);
    free(one);
    free(two);
    legend_free(&was);
    legend_free(&again);
}
END_TEST

START_TEST(legend_that_cannot_be_written_are_told_apart)
{
    char longer[200], out[6][LEGEND_NAME];
    memset(longer, 'x', sizeof longer);
    legend_write(longer, 199, 1, out[0]);
    legend_write(longer, 200, 1, out[1]);
    legend_write("caf\xe9", 4, 1, out[2]);
    legend_write("caf\xe8", 4, 1, out[3]);
    legend_write("a", 1, 1, out[4]);
    legend_write("a", 1, 2, out[5]);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(out[i], out[k]);
    ck_assert_str_eq(out[4], "a");
    ck_assert_str_eq(out[5], "a#2");
    ck_assert_int_eq(strncmp(out[2], "caf?~", 5), 0);
}
END_TEST

static struct err refused(const struct legend *was, struct legend is, char *const *fresh,
                          size_t count, bool same)
{
    struct err e = {0};
    ck_assert_int_eq(legend_match(was, &is, fresh, count, same, &e), SHOAL_E_CONFIG);
    legend_free(&is);
    return e;
}

START_TEST(legend_of_a_changed_network_are_refused_and_the_advice_holds)
{
    struct err e;
    struct legend was = numbered(
        made(LIST("user", "item"), LIST("hidden.0.weight:3x16 input", "hidden.0.bias:3", "old:1"),
             "user 8, item 8"));
    const char *const tensors[] = {"hidden.0.weight:4x16 input", "hidden.0.bias:3", "more:2", NULL};
    e = refused(&was, made(LIST("user", "item"), tensors, "user 8, item 8"), NULL, 0, false);
    ck_assert(strstr(e.text, "hidden.0.weight is 4x16 input, it was 3x16 input") != NULL);
    ck_assert(strstr(e.text, "more is new; old is left over") != NULL);
    ck_assert(strstr(e.text, "fresh: [hidden.0.weight, more, old]") != NULL);

    char *fresh[] = {"hidden.0.weight", "more", "old"}, *dense[] = {"dense"}, *odd[] = {"hiden"};
    struct legend is = made(LIST("user", "item"), tensors, "user 8, item 8");
    ck_assert_msg(legend_match(&was, &is, fresh, 3, false, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(number(&is, LEGEND_TENSORS, "hidden.0.weight"), 0);
    ck_assert_uint_eq(number(&is, LEGEND_TENSORS, "more"), 3);
    ck_assert(!is.name[LEGEND_TENSORS][legend_find(&is, LEGEND_TENSORS, "old")].here);
    legend_free(&is);
    is = made(LIST("user", "item"), tensors, "user 8, item 8");
    ck_assert_msg(legend_match(&was, &is, dense, 1, false, &e) == 0, "%s", e.text);
    legend_free(&is);
    e = refused(&was, made(LIST("user", "item"), tensors, "user 8, item 8"), odd, 1, false);
    ck_assert(strstr(e.text, "fresh names hiden") != NULL);
    legend_free(&was);
}
END_TEST

START_TEST(legend_of_another_kind_of_model_are_refused_whatever_its_tensors)
{
    char *dense[] = {"dense"};
    struct err e = {0};
    struct legend was = numbered(made(LIST("user"), LIST("head:1x3"), "user 8")),
                  is = made(LIST("user"), LIST("head:1x3"), "user 8");
    (void)snprintf(was.model, sizeof was.model, "deepfm");
    (void)snprintf(is.model, sizeof is.model, "wide_deep");
    ck_assert_int_eq(legend_match(&was, &is, NULL, 0, false, &e), SHOAL_E_CONFIG);
    ck_assert(strstr(e.text, "model.kind is wide_deep, it was deepfm") != NULL);
    ck_assert(strstr(e.text, "fresh: [dense]") != NULL);
    ck_assert_int_eq(legend_match(&was, &is, dense, 1, true, &e), SHOAL_E_CONFIG);
    ck_assert_msg(legend_match(&was, &is, dense, 1, false, &e) == 0, "%s", e.text);
    legend_free(&is);
    legend_free(&was);
}
END_TEST

/* More names than a refusal has room for: it names the whole table then, which is enough. */
START_TEST(legend_of_many_fields_in_another_table_begin_anew_by_their_table)
{
    char *whole[] = {"emb:*"}, *other[] = {"other:*"};
    struct err e = {0};
    struct legend was = made(LIST("user"), LIST("head:1x3"), "user 8"),
                  is = made(LIST("user"), LIST("head:1x3"), "user 8");
    for (int i = 0; i < 60; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "a-field-of-number-%d", i);
        ck_assert_int_eq(legend_add(&was, LEGEND_FIELDS, name, "emb", "category", &e), 0);
        ck_assert_int_eq(legend_add(&is, LEGEND_FIELDS, name, "more", "category", &e), 0);
    }
    was = numbered(was);
    ck_assert_int_eq(legend_match(&was, &is, NULL, 0, false, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "fresh: [\"emb:*\"]") != NULL, "%s", e.text);
    ck_assert_int_eq(legend_match(&was, &is, other, 1, false, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "fresh names other:*") != NULL, "%s", e.text);
    ck_assert_msg(legend_match(&was, &is, whole, 1, false, &e) == 0, "%s", e.text);
    legend_free(&is);
    legend_free(&was);
}
END_TEST

START_TEST(legend_of_a_tensor_that_reads_other_columns_are_refused)
{
    const char *const tensors[] = {"hidden.0.weight:3x16 input", "hidden.1.weight:3x3", NULL};
    struct legend was = numbered(made(LIST("user", "item"), tensors, "user 8, item 8"));
    struct err e =
        refused(&was, made(LIST("user", "hour"), tensors, "user 8, hour 8"), NULL, 0, false);
    ck_assert(strstr(e.text, "hidden.0.weight is 3x16 input of other columns") != NULL);
    ck_assert(strstr(e.text, "hidden.1") == NULL);
    legend_free(&was);
}
END_TEST

static struct legend with_numbers(const char *const *fields, const char *const *numbers,
                                  const char *input)
{
    struct legend n = made(fields, LIST("bottom.0.weight:3x2 numbers", "head:1x3"), input);
    for (; *numbers != NULL; numbers++)
        add(&n, LEGEND_NUMBERS, *numbers);
    return n;
}

/* An additional field changes none of the numbers. */
START_TEST(legend_of_a_tensor_that_reads_numbers_stand_by_those_alone)
{
    struct err e = {0};
    struct legend was = numbered(with_numbers(LIST("user"), LIST("age:number", "rate:number log1p"),
                                              "user 8, age, rate log1p"));
    struct legend is = with_numbers(LIST("user", "city"), LIST("age:number", "rate:number log1p"),
                                    "user 8, city 8, age, rate log1p");
    ck_assert_msg(legend_match(&was, &is, NULL, 0, false, &e) == 0, "%s", e.text);
    legend_free(&is);
    e = refused(&was,
                with_numbers(LIST("user"), LIST("age:number", "rate:number"), "user 8, age, rate"),
                NULL, 0, false);
    ck_assert(strstr(e.text, "bottom.0.weight is 3x2 numbers of other columns") != NULL);
    e = refused(&was,
                with_numbers(LIST("user"), LIST("age:number", "rank:number"), "user 8, age, rank"),
                NULL, 0, false);
    ck_assert(strstr(e.text, "fresh: [bottom.0.weight]") != NULL);
    legend_free(&was);
}
END_TEST

START_TEST(legend_of_what_has_no_rows_begin_nothing_anew)
{
    char *age[] = {"age"}, *seen[] = {"seen"}, *user[] = {"user"};
    struct err e;
    const char *const fields[] = {"user", "seen:multi, rows of ~12345678", NULL};
    struct legend was = numbered(with_numbers(fields, LIST("age:number"), "user 8, age"));
    e = refused(&was, with_numbers(fields, LIST("age:number"), "user 8, age"), age, 1, false);
    ck_assert(strstr(e.text, "fresh names age, a number, which has no rows: name the tensors that "
                             "read it, such as bottom.0.weight") != NULL);
    e = refused(&was, with_numbers(fields, LIST("age:number"), "user 8, age"), seen, 1, false);
    ck_assert(strstr(e.text, "fresh names seen, whose rows are another column's") != NULL);
    struct legend is = with_numbers(fields, LIST("age:number"), "user 8, age");
    ck_assert_int_eq(legend_match(&was, &is, user, 1, false, &e), 0);
    legend_free(&is);
    is = with_numbers(LIST("user", "seen:multi"), LIST("age:number"), "user 8, age");
    ck_assert_int_eq(legend_match(&was, &is, seen, 1, false, &e), 0); /* as the refusal advises */
    legend_free(&is);
    is = with_numbers(LIST("seen:multi, rows of ~12345678"), LIST("age:number", "user:number"), "");
    is.name[LEGEND_TENSORS][0].what[0] = '1';
    char *both[] = {"user", "dense"}; /* a field that became a number had rows */
    ck_assert_msg(legend_match(&was, &is, both, 2, false, &e) == 0, "%s", e.text);
    legend_free(&is);
    legend_free(&was);
}
END_TEST

/* In columns without names, "2" is another column if the label has moved. */
START_TEST(legend_of_columns_by_place_know_where_the_label_was)
{
    struct err e = {0};
    struct legend first = made(LIST("1", "2"), LIST("bias:1"), "");
    (void)snprintf(first.place, sizeof first.place, "0");
    first.columns = 3;
    struct legend was = numbered(first), is = made(LIST("0", "2"), LIST("bias:1"), "");
    (void)snprintf(is.place, sizeof is.place, "1");
    ck_assert_int_eq(legend_match(&was, &is, NULL, 0, false, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "the label is in place 1, it was in 0") != NULL, "%s", e.text);
    (void)snprintf(is.place, sizeof is.place, "0");
    ck_assert_int_eq(legend_match(&was, &is, NULL, 0, false, &e), 0);
    legend_free(&is);
    is = made(LIST("1", "2"), LIST("bias:1"), ""); /* by the names of a header */
    ck_assert_int_eq(legend_match(&was, &is, NULL, 0, false, &e), 0);
    char *text;
    size_t bytes;
    struct legend again;
    ck_assert_int_eq(legend_put("", 0, &was, &text, &bytes, &e), 0);
    ck_assert_int_eq(legend_parse(text, bytes, &again, &e), 0);
    ck_assert_str_eq(again.place, "0");
    ck_assert_uint_eq(again.columns, 3);
    legend_free(&again);
    free(text);
    legend_free(&is);
    legend_free(&was);
}
END_TEST

/* A number that was released is used again only after all others; until then it is kept. */
START_TEST(legend_full_of_numbers_say_so_and_take_those_given_back)
{
    struct err e = {0};
    static const char *const none[] = {NULL};
    char name[16];
    struct legend all = {.input = strdup(""), .labels = strdup("")};
    for (uint32_t i = 0; i < LIMIT_FIELDS - 1; i++) {
        (void)snprintf(name, sizeof name, "f%u", i);
        add(&all, LEGEND_FIELDS, name);
    }
    struct legend was = numbered(all), is = made(LIST("a", "b"), none, "");
    ck_assert_int_eq(legend_match(&was, &is, NULL, 0, false, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "513") != NULL && strstr(e.text, "shoal drop") != NULL, "%s",
                  e.text);
    legend_free(&is);
    was.count[LEGEND_FIELDS]--;
    was.name[LEGEND_FIELDS][3] = was.name[LEGEND_FIELDS][was.count[LEGEND_FIELDS]];
    is = made(LIST("a", "b"), none, "");
    ck_assert_msg(legend_match(&was, &is, NULL, 0, false, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(number(&is, LEGEND_FIELDS, "a"), LIMIT_FIELDS - 1);
    ck_assert_uint_eq(number(&is, LEGEND_FIELDS, "b"), 3);
    legend_free(&is);
    legend_free(&was);
}
END_TEST

START_TEST(legend_of_a_job_that_goes_on_are_the_same)
{
    struct legend was = numbered(made(LIST("user", "item"), LIST("bias:1"), "a"));
    struct err e = refused(&was, made(LIST("user"), LIST("bias:1"), "a"), NULL, 0, true);
    ck_assert(strstr(e.text, "field item is left over") != NULL);
    e = refused(&was, made(LIST("user", "item", "hour"), LIST("bias:1"), "a"), NULL, 0, true);
    ck_assert(strstr(e.text, "field hour is new") != NULL);
    struct legend is = made(LIST("item", "user"), LIST("bias:1"), "a");
    ck_assert_int_eq(legend_match(&was, &is, NULL, 0, true, &e), 0);
    ck_assert_uint_eq(number(&is, LEGEND_FIELDS, "item"), 1);
    legend_free(&was);
    legend_free(&is);
}
END_TEST

START_TEST(legend_of_a_field_that_became_another_are_refused)
{
    struct legend was = numbered(made(LIST("user", "age:bucket"), LIST("bias:1"), "a"));
    struct err e = refused(&was, made(LIST("user", "age"), LIST("bias:1"), "a"), NULL, 0, false);
    ck_assert(strstr(e.text, "field age is category, it was bucket") != NULL);
    char *fresh[] = {"age"};
    struct legend is = made(LIST("user", "age"), LIST("bias:1"), "a");
    ck_assert_int_eq(legend_match(&was, &is, fresh, 1, false, &e), 0);
    legend_free(&was);
    legend_free(&is);
}
END_TEST

START_TEST(legend_that_are_not_ours_are_refused)
{
    static const char *const bad[] = {
        "names: {",
        "names: {\"fields\": {\"a\": [0]}, \"input\": \"\"}",
        "names: {\"fields\": {\"a\": [600, \"emb\", \"category\"]}, \"input\": \"\"}",
        "names: {\"fields\": {\"a\": [0, \"emb\", \"x\"], \"b\": [0, \"emb\", \"x\"]}, \"input\": "
        "\"\"}",
        "names: {\"tensors\": {\"a\": [-1, \"3\"]}, \"input\": \"\"}",
        "names: {}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct legend n;
        struct err e = {0};
        ck_assert_int_eq(legend_parse(bad[i], strlen(bad[i]), &n, &e), SHOAL_E_CONFIG);
    }
}
END_TEST

START_TEST(legend_stand_in_a_jobs_text)
{
    static const char text[] =
        "job: a\ndata: {train: x}\n"
        "names: {\"fields\": {\"user\": [7, \"emb\", \"category\"]}, \"input\": \"\"}\n"
        "train: {epoch: 3}\n";
    struct job j;
    struct err e = {0};
    ck_assert_int_eq(job_parse(text, strlen(text), "job.yaml", NULL, &j, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "job.yaml:4:") != NULL, "%s", e.text);
    ck_assert_msg(job_parse(text, strlen(text) - strlen("train: {epoch: 3}\n"), "job.yaml", NULL,
                            &j, &e) == 0,
                  "%s", e.text);
    ck_assert_uint_eq(number(&j.legend, LEGEND_FIELDS, "user"), 7);
    job_free(&j);
}
END_TEST

static struct legend figured(const char *what, const char *figures)
{
    struct err e = {0};
    struct legend n = made(LIST("user"), LIST("w:3x4 numbers"), "a");
    ck_assert_int_eq(legend_add(&n, LEGEND_NUMBERS, "age", "", what, &e), 0);
    if (figures != NULL)
        ck_assert_int_eq(legend_figures_put(&n, "age", figures, &e), 0);
    return n;
}

START_TEST(legend_figures_stay_and_come_back)
{
    struct err e = {0};
    size_t bytes, more;
    char *text, *again_text;
    struct legend was = numbered(figured("number standard", "standard 38.2 12.1")), again;
    struct legend is = figured("number standard", "standard 38.2 12.1");
    ck_assert_msg(legend_match(&was, &is, NULL, 0, true, &e) == 0, "%s", e.text);
    ck_assert_int_eq(legend_put("", 0, &is, &text, &bytes, &e), 0);
    ck_assert_ptr_nonnull(strstr(text, "\"figures\": {\"age\": \"standard 38.2 12.1\"}"));
    ck_assert_msg(legend_parse(text, bytes - 1, &again, &e) == 0, "%s", e.text);
    ck_assert_str_eq(legend_figures_of(&again, "age"), "standard 38.2 12.1");
    ck_assert_int_eq(legend_put("", 0, &again, &again_text, &more, &e), 0);
    ck_assert_str_eq(text, again_text);
    /* a column that is gone has its figures when it comes back */
    struct legend without = made(LIST("user"), LIST("w:3x4"), "b");
    const char *const dense[] = {"dense"};
    char *fresh[] = {(char *)(uintptr_t)dense[0]};
    ck_assert_msg(legend_match(&again, &without, fresh, 1, false, &e) == 0, "%s", e.text);
    ck_assert_str_eq(legend_figures_of(&without, "age"), "standard 38.2 12.1");
    legend_remove(&without, LEGEND_NUMBERS, "age");
    ck_assert_ptr_null(legend_figures_of(&without, "age"));
    free(text);
    free(again_text);
    legend_free(&was);
    legend_free(&is);
    legend_free(&again);
    legend_free(&without);
}
END_TEST

START_TEST(legend_of_other_figures_are_refused)
{
    struct err e = {0};
    struct legend was = numbered(figured("number standard", "standard 38.2 12.1"));
    struct legend is = figured("number standard", "standard 38.3 12.1");
    ck_assert_int_eq(legend_match(&was, &is, NULL, 0, false, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "column age is read as \"standard 38.3 12.1\" here") != NULL, "%s",
                  e.text);
    legend_free(&is);
    is = figured("number log1p", NULL); /* the network reads something else */
    ck_assert_int_eq(legend_match(&was, &is, NULL, 0, false, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "w is 3x4 numbers of other columns") != NULL, "%s", e.text);
    legend_free(&is);
    legend_free(&was);
}
END_TEST

static struct legend read_by(const char *missing, const char *positive, const char *whole)
{
    struct err e = {0};
    struct legend n = made(LIST("user", "item"), LIST("w:3x4 input"), "user 8, item 8");
    ck_assert_int_eq(legend_reading_begin(&n, &e), 0);
    if (missing != NULL)
        ck_assert_int_eq(legend_reading_add(&n, LEGEND_MISSING, missing, &e), 0);
    if (positive != NULL)
        ck_assert_int_eq(legend_reading_add(&n, LEGEND_POSITIVE, positive, &e), 0);
    if (whole != NULL)
        ck_assert_int_eq(legend_reading_add(&n, LEGEND_WHOLE, whole, &e), 0);
    return n;
}

/* Matches `is`, which it frees, with `was`; `says` NULL: they fit. */
static void check_reading(const struct legend *was, struct legend is, const char *fresh, bool same,
                          const char *says)
{
    struct err e = {0};
    char *names[] = {(char *)(uintptr_t)fresh};
    int rc = legend_match(was, &is, names, fresh != NULL, same, &e);
    if (says == NULL)
        ck_assert_msg(rc == 0, "%s", e.text);
    else
        ck_assert_msg(rc == SHOAL_E_CONFIG && strstr(e.text, says) != NULL, "%s", e.text);
    legend_free(&is);
}

/* Cells that mean something else would be learnt into rows of other values. */
START_TEST(legend_of_cells_that_mean_something_else_are_refused)
{
    struct legend was = numbered(read_by("NA", "yes", "user"));
    check_reading(&was, read_by("NA", "yes", "user"), NULL, false, NULL);
    check_reading(&was, read_by("NA", "yes", NULL), NULL, false,
                  "field user has no whole: true, it had: set it back, or begin these anew: add to "
                  "fresh: [user]");
    check_reading(&was, read_by("NA", "yes", NULL), "user", false, NULL);
    check_reading(&was, read_by("NA", "yes", NULL), NULL, true, "field user has no whole: true");
    check_reading(&was, read_by("\\N", "yes", "user"), NULL, false,
                  "data.missing is [\"\\N\"], it was [\"NA\"]");
    check_reading(&was, read_by(NULL, "yes", "user"), NULL, false, "add to fresh: [data.missing]");
    check_reading(&was, read_by(NULL, "yes", "user"), "data.missing", false, NULL);
    check_reading(&was, read_by(NULL, "yes", "user"), "emb:*", false, NULL);
    check_reading(&was, read_by(NULL, "yes", "user"), NULL, true, "data.missing is []");
    check_reading(&was, read_by("NA", "ja", "user"), NULL, false,
                  "data.label_positive is [\"ja\"], it was [\"yes\"]");
    check_reading(&was, read_by("NA", "ja", "user"), "data.label_positive", false, NULL);
    check_reading(&was, read_by("NA", NULL, "user"), NULL, true, NULL); /* predictions have none */
    legend_free(&was);
}
END_TEST

/* Tables of an older release, and event files, tell nothing of cells. */
START_TEST(legend_of_cells_that_are_not_known_are_taken)
{
    struct err e = {0};
    struct legend was = numbered(made(LIST("user", "item"), LIST("w:3x4 input"), "user 8, item 8"));
    struct legend now = read_by("NA", "yes", "user"), again;
    ck_assert_msg(legend_match(&was, &now, NULL, 0, false, &e) == 0, "%s", e.text);
    ck_assert(legend_reading_has(&now, LEGEND_WHOLE, "user"));
    ck_assert(!legend_reading_has(&now, LEGEND_WHOLE, "use"));
    char *text;
    size_t bytes;
    ck_assert_int_eq(legend_put("", 0, &now, &text, &bytes, &e), 0);
    ck_assert_msg(legend_parse(text, bytes - 1, &again, &e) == 0, "%s", e.text);
    free(text);
    check_reading(&again, read_by(NULL, "yes", "user"), NULL, false, "data.missing");
    /* over event files the tables' words stay */
    struct legend events = made(LIST("user", "item"), LIST("w:3x4 input"), "user 8, item 8");
    ck_assert_msg(legend_match(&again, &events, NULL, 0, false, &e) == 0, "%s", e.text);
    check_reading(&events, read_by(NULL, "yes", "user"), NULL, false, "data.missing");
    legend_free(&was);
    legend_free(&now);
    legend_free(&again);
    legend_free(&events);
}
END_TEST

/* The order of the words means nothing. */
START_TEST(legend_of_cells_have_words_in_any_order)
{
    struct err e = {0};
    struct legend was = read_by("NULL", "yes", NULL), is = read_by("NA", "ja", NULL);
    ck_assert_int_eq(legend_reading_add(&was, LEGEND_MISSING, "NA", &e), 0);
    ck_assert_int_eq(legend_reading_add(&was, LEGEND_POSITIVE, "ja", &e), 0);
    was = numbered(was);
    ck_assert_int_eq(legend_reading_add(&is, LEGEND_MISSING, "NULL", &e), 0);
    ck_assert_int_eq(legend_reading_add(&is, LEGEND_POSITIVE, "yes", &e), 0);
    check_reading(&was, is, NULL, false, NULL);
    check_reading(&was, read_by("NULL", "yes", NULL), "data.label_positive", false,
                  "data.missing is [\"NULL\"], it was [\"NULL\", \"NA\"]");
    is = read_by("NA", "ja", NULL);
    ck_assert_int_eq(legend_reading_add(&is, LEGEND_MISSING, "NUL", &e), 0);
    check_reading(&was, is, "data.label_positive", false, "data.missing is");
    legend_free(&was);
}
END_TEST

static struct legend losing(const char *labels, uint32_t real)
{
    struct legend n = made(LIST("user", "item"), LIST("w:3x4 input"), "user 8, item 8");
    free(n.labels);
    n.labels = strdup(labels);
    n.real = real;
    return n;
}

/* A number is no logit: rows and network of the one are none of the other. Tables without such a
 * record have labels of 0 and 1. */
START_TEST(legend_of_labels_that_became_numbers_are_refused)
{
    struct legend clicks = numbered(losing("click", 0)), number = numbered(losing("click", 1)),
                  both = numbered(losing("click, seconds", 2)), again;
    check_reading(&clicks, losing("click", 1), NULL, false,
                  "model.loss makes label 1 a number, it was 0 or 1: fresh with this key goes on");
    check_reading(&clicks, losing("click", 1), NULL, false, "add to fresh: [model.loss]");
    check_reading(&clicks, losing("click", 1), "model.loss", false, NULL);
    check_reading(&clicks, losing("click", 1), NULL, true, "model.loss makes label 1 a number");
    check_reading(&clicks, losing("click", 1), "emb:*", false, "model.loss");
    check_reading(&clicks, losing("click", 1), "dense", false, "model.loss");
    check_reading(&number, losing("seconds", 0), NULL, false,
                  "model.loss makes label 1 0 or 1, it was a number");
    check_reading(&number, losing("seconds", 1), NULL, false, NULL);
    check_reading(&clicks, losing("click, seconds", 2), NULL, false, NULL); /* it is new */
    check_reading(&both, losing("click, seconds", 0), NULL, false, "makes label 2 0 or 1");
    struct err e = {0};
    char *text;
    size_t bytes;
    ck_assert_int_eq(legend_put("", 0, &both, &text, &bytes, &e), 0);
    ck_assert_msg(legend_parse(text, bytes - 1, &again, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(again.real, 2);
    free(text);
    legend_free(&again);
    legend_free(&clicks);
    legend_free(&number);
    legend_free(&both);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("legend");
    TCase *cases = tcase_create("legend");
    tcase_add_test(cases, legend_keep_their_numbers);
    tcase_add_test(cases, legend_come_back_as_they_were);
    tcase_add_test(cases, legend_that_cannot_be_written_are_told_apart);
    tcase_add_test(cases, legend_of_a_changed_network_are_refused_and_the_advice_holds);
    tcase_add_test(cases, legend_of_another_kind_of_model_are_refused_whatever_its_tensors);
    tcase_add_test(cases, legend_of_many_fields_in_another_table_begin_anew_by_their_table);
    tcase_add_test(cases, legend_of_a_tensor_that_reads_other_columns_are_refused);
    tcase_add_test(cases, legend_of_a_tensor_that_reads_numbers_stand_by_those_alone);
    tcase_add_test(cases, legend_of_what_has_no_rows_begin_nothing_anew);
    tcase_add_test(cases, legend_of_columns_by_place_know_where_the_label_was);
    tcase_add_test(cases, legend_full_of_numbers_say_so_and_take_those_given_back);
    tcase_add_test(cases, legend_of_a_job_that_goes_on_are_the_same);
    tcase_add_test(cases, legend_of_a_field_that_became_another_are_refused);
    tcase_add_test(cases, legend_that_are_not_ours_are_refused);
    tcase_add_test(cases, legend_stand_in_a_jobs_text);
    tcase_add_test(cases, legend_figures_stay_and_come_back);
    tcase_add_test(cases, legend_of_other_figures_are_refused);
    tcase_add_test(cases, legend_of_cells_that_mean_something_else_are_refused);
    tcase_add_test(cases, legend_of_cells_that_are_not_known_are_taken);
    tcase_add_test(cases, legend_of_cells_have_words_in_any_order);
    tcase_add_test(cases, legend_of_labels_that_became_numbers_are_refused);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
