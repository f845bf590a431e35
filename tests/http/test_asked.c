/* test_asked.c: a text is made only while it is asked for, and a loop that hangs delays one reader
 * alone. */
#include "proto/base/time.h"
#include "proto/http/asked.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static struct asked *a;

static void setup(void)
{
    struct err e;
    ck_assert_int_eq(asked_open(&a, &e), 0);
}

static void teardown(void)
{
    asked_close(a);
}

static void read_is(const char *text, double least_s, double most_s)
{
    double age_s;
    char *is = asked_read(a, &age_s);
    ck_assert_pstr_eq(is, text);
    ck_assert_double_ge(age_s, least_s);
    ck_assert_double_le(age_s, most_s);
    free(is);
}

START_TEST(a_text_is_wanted_for_a_minute_after_a_reader)
{
    uint64_t now = time_monotonic_ns();
    ck_assert(!asked_wants(a, now));
    asked_put(a, strdup("one"), now);
    ck_assert(!asked_wants(a, now));
    read_is("one", 0, 1);
    ck_assert(asked_wants(a, time_monotonic_ns()));
    ck_assert(asked_wants(a, now + ASKED_NS - SECOND));
    ck_assert(!asked_wants(a, now + ASKED_NS + 10 * SECOND));
    asked_put(a, NULL, now); /* there was no memory */
    read_is("one", 0, 1);
    asked_put(a, strdup("two"), now);
    read_is("two", 0, 1);
}
END_TEST

static void *loop(void *context)
{
    (void)context;
    for (uint32_t i = 0; i < 50; i++, usleep(20000)) {
        if (!asked_wants(a, time_monotonic_ns()))
            continue;
        asked_put(a, strdup("fresh"), time_monotonic_ns());
        return NULL;
    }
    return NULL;
}

START_TEST(the_first_reader_after_a_while_gets_a_fresh_text)
{
    pthread_t thread;
    asked_put(a, strdup("old"), time_monotonic_ns() - 300 * SECOND);
    ck_assert_int_eq(pthread_create(&thread, NULL, loop, NULL), 0);
    read_is("fresh", 0, 0.5);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

START_TEST(a_loop_that_hangs_delays_one_reader)
{
    uint64_t began = time_monotonic_ns();
    asked_put(a, strdup("old"), began - 10 * SECOND);
    read_is("old", 10, 15);
    uint64_t first = time_monotonic_ns() - began;
    ck_assert_uint_ge(first, ASKED_WAIT_NS);
    began = time_monotonic_ns();
    for (uint32_t i = 0; i < 100; i++)
        read_is("old", 11, 20);
    ck_assert_uint_lt(time_monotonic_ns() - began, ASKED_WAIT_NS);
    asked_put(a, strdup("new"), time_monotonic_ns());
    read_is("new", 0, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("asked");
    TCase *t = suite_case(s, "asked", 30, setup, teardown);
    tcase_add_test(t, a_text_is_wanted_for_a_minute_after_a_reader);
    tcase_add_test(t, the_first_reader_after_a_while_gets_a_fresh_text);
    tcase_add_test(t, a_loop_that_hangs_delays_one_reader);
    return suite_main(s);
}
