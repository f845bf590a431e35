/* test_ring_rest.c: the states of a rest. */
#include "server/coord/work/ring_rest.h"
#include "tests/lib/suite.h"

#include <check.h>

static struct coord_rest rest;

static void setup(void)
{
    rest = (struct coord_rest){.state = REST_NONE};
}

START_TEST(rest_is_at_the_newest_step_begun)
{
    coord_rest_begin(&rest, 7, 3, 4);
    ck_assert(!coord_rest_begun(&rest, 7, 0, 5));
    ck_assert(!coord_rest_begun(&rest, 7, 2, 9));
    ck_assert(!coord_rest_begun(&rest, 7, 2, 9));  /* again */
    ck_assert(!coord_rest_begun(&rest, 6, 1, 20)); /* of another rest */
    ck_assert_uint_eq(rest.at, 0);
    ck_assert(coord_rest_begun(&rest, 7, 1, 8));
    ck_assert_uint_eq(rest.at, 9);
    ck_assert_int_eq(rest.state, REST_KNOWN);
    ck_assert(!coord_rest_begun(&rest, 7, 1, 30)); /* it is known */
    ck_assert_uint_eq(rest.at, 9);
}
END_TEST

/* All members go on to a step that all lanes have done already. */
START_TEST(rest_is_not_below_what_is_done)
{
    coord_rest_begin(&rest, 1, 2, 12);
    ck_assert(!coord_rest_begun(&rest, 1, 0, 11));
    ck_assert(coord_rest_begun(&rest, 1, 1, 3));
    ck_assert_uint_eq(rest.at, 12);
}
END_TEST

START_TEST(rest_stands_when_published)
{
    coord_rest_begin(&rest, 1, 2, 0);
    ck_assert(!coord_rest_settled(&rest, 1, 0));
    (void)coord_rest_begun(&rest, 1, 0, 5);
    (void)coord_rest_begun(&rest, 1, 1, 5);
    ck_assert(!coord_rest_published(&rest, 5)); /* pushes are under way */
    ck_assert(!coord_rest_settled(&rest, 1, 1));
    ck_assert(!coord_rest_settled(&rest, 2, 0));
    ck_assert(coord_rest_settled(&rest, 1, 0));
    ck_assert(!coord_rest_published(&rest, 4));
    ck_assert_int_eq(rest.state, REST_SETTLED);
    ck_assert(coord_rest_published(&rest, 5));
    ck_assert_int_eq(rest.state, REST_STANDS);
    coord_rest_end(&rest);
    ck_assert(rest.state == REST_NONE && rest.number == 0 && rest.at == 0);
    coord_rest_end(&rest);
}
END_TEST

/* Nothing is begun: the tables have the initial values. */
START_TEST(rest_stands_before_the_first_step)
{
    coord_rest_begin(&rest, 1, 64, 0);
    for (uint32_t i = 0; i < 63; i++)
        ck_assert(!coord_rest_begun(&rest, 1, i, 0));
    ck_assert(coord_rest_begun(&rest, 1, 63, 0));
    ck_assert_int_eq(rest.state, REST_STANDS);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ring_rest");
    TCase *t = suite_case(s, "rest", 20, setup, NULL);
    tcase_add_test(t, rest_is_at_the_newest_step_begun);
    tcase_add_test(t, rest_is_not_below_what_is_done);
    tcase_add_test(t, rest_stands_when_published);
    tcase_add_test(t, rest_stands_before_the_first_step);
    return suite_main(s);
}
