/* test_broken.c: breaks the invariants of job files on purpose: each breach must be caught by its
 * own assert. */
#include "proto/job/config_inner.h"
#include "proto/job/legend.h"
#include "tests/lib/broken.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <string.h>

static const struct config_key keys[] = {
    {"whole", CONFIG_INT, 1, 9, NULL, .fallback = "3"},
    {"given", CONFIG_INT, 1, 9, NULL, .fallback = NULL},
    {NULL, CONFIG_ANY, 0, 0, NULL, .fallback = NULL},
};

static struct config *parsed(void)
{
    static const char text[] = "whole: 5\n";
    struct string_list none = {0};
    struct config *c;
    ck_assert_int_eq(config_parse(text, strlen(text), "job.yaml", &none, keys, &c, NULL), 0);
    ck_assert_int_eq(config_int(c, "whole"), 5);
    return c;
}

static void a_value_changes_after_its_check(void)
{
    struct config *c = parsed();
    memcpy(c->entry[0].value, "x", 2);
    config_int(c, "whole");
}

static void a_key_without_a_default_is_absent(void)
{
    config_int(parsed(), "given");
}

static void two_names_have_one_number(void)
{
    struct legend was = {.input = NULL}, is = {.input = NULL};
    const char *const names[] = {"user", "item"};
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(legend_add(&is, LEGEND_FIELDS, names[i], "emb", "category", NULL), 0);
        is.name[LEGEND_FIELDS][i].number = 4;
    }
    (void)legend_match(&was, &is, NULL, 0, false, NULL);
}

static const struct broken list[] = {
    {"proto/job/legend_match.c", 1, two_names_have_one_number, "is->name[list][i].number !="},
    {"proto/job/config_get.c", 1, a_value_changes_after_its_check, "whole"},
    {"proto/job/config_get.c", 2, a_key_without_a_default_is_absent, "value != NULL"},
};

START_TEST(each_broken_invariant_ends_the_process_by_its_own_assert)
{
    broken_check(list, sizeof list / sizeof list[0]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("broken");
    tcase_add_test(suite_case(suite, "broken", 60, NULL, NULL),
                   each_broken_invariant_ends_the_process_by_its_own_assert);
    return suite_main(suite);
}
