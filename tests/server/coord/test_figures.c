/* test_figures.c: the figures that the report comments on. */
#include "server/coord/figures/figures.h"

#include <check.h>
#include <math.h>
#include <string.h>

static struct json *list, *profile;
static uint32_t passes;

static void setup(void)
{
    list = json_new_array();
    profile = json_new_object();
    passes = 3;
}

static void teardown(void)
{
    json_free(list);
    json_free(profile);
}

/* says: a part of the expected note; NULL: no note. A note never contains "nan". */
static void check(struct metric m, const struct json *of, const char *says)
{
    json_free(list);
    list = json_new_array();
    m.examples = 1000;
    coord_figures_note(&m, "data.valid", passes, of, list);
    const char *text = json_as_string(json_array_at(list, 0), "");
    ck_assert_uint_eq(json_count(list), says != NULL);
    ck_assert_msg(says == NULL || (strstr(text, says) != NULL && strstr(text, "nan") == NULL &&
                                   strncmp(text, "data.valid: ", 12) == 0),
                  "%s", text);
}

START_TEST(figures_that_are_too_good)
{
    struct metric m = {.auc = 0.9999, .logloss = 0.01, .ne = 0.02};
    check(m, NULL, "an AUC of 0.9999 is hardly ever true");
    check(m, profile, "no column alone tells it in the rows looked at");
    json_set_string(profile, "tells", "clicked");
    check(m, profile, "column \"clicked\" alone tells the label");
    m.auc = 0.99;
    check(m, profile, NULL);
}
END_TEST

START_TEST(figures_of_what_learnt_nothing)
{
    check((struct metric){.auc = 0.4743, .logloss = 0.03, .ne = 1.016}, NULL,
          "(NE 1.0160 and an AUC of 0.4743)");
    check((struct metric){.auc = 0.5004, .logloss = 0.6931, .ne = 1}, NULL,
          "an AUC of 0.5004 says that nothing was learnt");
    check((struct metric){.auc = 0.5, .logloss = 19.5, .ne = 24}, NULL,
          "with a logloss of 19.5 and an AUC of 0.5000 training has diverged");
    check((struct metric){.auc = (double)NAN, .logloss = 12, .ne = (double)NAN}, NULL,
          "with a logloss of 12 training has diverged");
}
END_TEST

/* A job of one epoch cannot be told to train for fewer. */
START_TEST(figures_of_one_pass_do_not_ask_for_fewer)
{
    struct metric m = {.auc = 0.62, .logloss = 0.7, .ne = 1.2};
    check(m, NULL, "train for fewer epochs, or scale large numbers");
    for (passes = 0; passes < 2; passes++) {
        check(m, NULL, "as many positive ones, train on more rows, or scale large numbers");
        ck_assert_ptr_null(strstr(json_as_string(json_array_at(list, 0), ""), "epochs"));
    }
}
END_TEST

START_TEST(figures_of_an_ordinary_model_say_nothing)
{
    check((struct metric){.auc = 0.7709, .logloss = 0.55, .ne = 0.87}, profile, NULL);
    check((struct metric){.auc = 0.51, .logloss = 0.69, .ne = 0.9995}, profile, NULL);
    check((struct metric){.auc = 0.985, .logloss = 0.1, .ne = 0.2}, profile, NULL);
    check((struct metric){.auc = (double)NAN, .logloss = 0.1, .ne = (double)NAN}, profile, NULL);
}
END_TEST

static void check_number(double square, double label, double label_square, const char *says)
{
    const struct metric_real real = {.square = square,
                                     .absolute = 1,
                                     .predicted = 1,
                                     .label = label,
                                     .label_square = label_square,
                                     .examples = 10};
    struct metric m;
    metric_real_figures(&real, &m);
    check(m, profile, says);
}

/* The label is a number, and the errors are above its variance. */
START_TEST(figures_of_a_number)
{
    check_number(200, 0, 100,
                 "worse than the mean label for every row would be (R2 -1.0000, RMSE "
                 "4.472)");
    check_number(99, 0, 100, NULL);
    check_number(1, 10, 10, NULL); /* all labels are equal */
    char text[COORD_FIGURES_TEXT];
    const struct metric m = {.auc = 0.75, .logloss = 0.5, .gauc_share = 1};
    ck_assert_str_eq(coord_figures_text(&m, text), "auc 0.750000, logloss 0.500000");
}
END_TEST

START_TEST(figures_of_training)
{
    coord_figures_diverged(0.69, list);
    coord_figures_diverged((double)NAN, list);
    coord_figures_negatives(0, 0, 0.1, list);
    coord_figures_negatives(5, 900, 1, list);
    coord_figures_negatives(100, 900, 0.1, list);
    ck_assert_uint_eq(json_count(list), 0);
    coord_figures_diverged(13.8, list);
    coord_figures_negatives(1, 7000, 1e-4, list);
    ck_assert_ptr_nonnull(
        strstr(json_as_string(json_array_at(list, 0), ""), "a logloss of 13.8: it has diverged"));
    ck_assert_ptr_nonnull(strstr(json_as_string(json_array_at(list, 1), ""),
                                 "data.negatives: 0.0001 left 1 negative examples beside 7000"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_figures");
    TCase *t = tcase_create("coord_figures");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, figures_that_are_too_good);
    tcase_add_test(t, figures_of_what_learnt_nothing);
    tcase_add_test(t, figures_of_one_pass_do_not_ask_for_fewer);
    tcase_add_test(t, figures_of_an_ordinary_model_say_nothing);
    tcase_add_test(t, figures_of_a_number);
    tcase_add_test(t, figures_of_training);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
