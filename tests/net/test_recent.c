/* test_recent.c: which messages are logged again, and when. */
#include "proto/net/recent.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct recent r;
static uint64_t before;

START_TEST(recent_is_told_once_in_a_while_and_counts)
{
    memset(&r, 0, sizeof r);
    for (uint64_t i = 0; i < 60; i++)
        ck_assert_int_eq(recent_tell(&r, "k", "10.0.0.7", "ok", 1 + i * (RECENT_NS / 60), &before),
                         i == 0);
    ck_assert(recent_tell(&r, "k", "10.0.0.7", "ok", 1 + RECENT_NS, &before));
    ck_assert_uint_eq(before, 59);
    ck_assert(!recent_tell(&r, "k", "10.0.0.7", "ok", 2 + RECENT_NS, &before));
}
END_TEST

START_TEST(recent_tells_each_key_address_and_result)
{
    memset(&r, 0, sizeof r);
    ck_assert(recent_tell(&r, "k", "a", "ok", 1, &before));
    ck_assert(recent_tell(&r, "l", "a", "ok", 2, &before));
    ck_assert(recent_tell(&r, "k", "b", "ok", 3, &before));
    ck_assert(recent_tell(&r, "k", "a", "not-listed", 4, &before));
    ck_assert(!recent_tell(&r, "k", "a", "ok", 5, &before));
}
END_TEST

/* A flood of unknown peers hides no new message, and replaces the oldest. */
START_TEST(recent_forgets_the_oldest)
{
    char key[32];
    memset(&r, 0, sizeof r);
    for (uint64_t i = 0; i < 4 * RECENT_PLACES; i++) {
        (void)snprintf(key, sizeof key, "k%u", (unsigned)i);
        ck_assert(recent_tell(&r, key, "a", "ok", 1 + i, &before));
    }
    ck_assert(!recent_tell(&r, key, "a", "ok", 9999, &before));
    ck_assert(recent_tell(&r, "k0", "a", "ok", 9999, &before));
    ck_assert_uint_eq(before, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("recent");
    TCase *t = tcase_create("recent");
    tcase_add_test(t, recent_is_told_once_in_a_while_and_counts);
    tcase_add_test(t, recent_tells_each_key_address_and_result);
    tcase_add_test(t, recent_forgets_the_oldest);
    suite_add_tcase(s, t);
    return suite_main(s);
}
