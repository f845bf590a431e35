/* test_ring_unable.c: workers that give up their place in a ring again and again. */
#include "server/coord/work/ring_unable.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static struct coord_unable unable;
static char text[ERR_TEXT_MAX];

static uint32_t sentences(uint64_t now_ns)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < COORD_UNABLE_MOST; i++)
        count += coord_unable_text(&unable, i, now_ns, text, sizeof text);
    return count;
}

static void setup(void)
{
    unable = (struct coord_unable){0};
}

START_TEST(unable_is_told_after_some_tries)
{
    for (uint32_t i = 1; i <= 4; i++) {
        coord_unable_note(&unable, "w", "no memory", i * SECOND);
        ck_assert_uint_eq(sentences(i * SECOND), i >= COORD_UNABLE_TRIES);
    }
    ck_assert_ptr_nonnull(strstr(text, "worker w has given up its place in the ring 4 times"));
    ck_assert_ptr_nonnull(strstr(text, "no memory"));
    coord_unable_over(&unable, "another");
    ck_assert_uint_eq(sentences(5 * SECOND), 1);
    coord_unable_over(&unable, "w");
    ck_assert_uint_eq(sentences(5 * SECOND), 0);
}
END_TEST

/* The longest pause of a worker is half a minute; after three of them it is another story. */
START_TEST(unable_is_over_when_the_worker_stays_away)
{
    for (uint32_t i = 0; i < 3; i++)
        coord_unable_note(&unable, "w", "no memory", SECOND + i * 31 * SECOND);
    ck_assert_uint_eq(sentences(70 * SECOND), 1);
    ck_assert_uint_eq(sentences(70 * SECOND + COORD_UNABLE_NS), 0);
    coord_unable_note(&unable, "w", "no memory", 1000 * SECOND);
    ck_assert_uint_eq(sentences(1000 * SECOND), 0);
}
END_TEST

START_TEST(unable_of_many_workers_keeps_the_newest)
{
    char name[16];
    for (uint32_t i = 0; i < 40; i++) {
        (void)snprintf(name, sizeof name, "w%u", i);
        for (uint32_t k = 0; k < 3; k++)
            coord_unable_note(&unable, name, "no memory", (1 + i) * SECOND + k);
    }
    ck_assert_uint_eq(sentences(42 * SECOND), COORD_UNABLE_MOST);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ring_unable");
    TCase *t = suite_case(s, "ring_unable", 30, setup, NULL);
    tcase_add_test(t, unable_is_told_after_some_tries);
    tcase_add_test(t, unable_is_over_when_the_worker_stays_away);
    tcase_add_test(t, unable_of_many_workers_keeps_the_newest);
    return suite_main(s);
}
