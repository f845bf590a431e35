/* test_turns.c: works wait for their turn before the pool, which is played here: its works end when
 * the test says so. */
#include "worker/train/turns.h"

#include "proto/base/container_of.h"
#include "tests/lib/suite.h"

#include <check.h>

enum { WORKS = 12, MOST = 3 };

static struct env_work *pool[WORKS];
static uint32_t pooled, ran, ended;
static struct turn work[WORKS];
static struct turns turns;
static struct turn *order[2 * WORKS];
static bool again;

static void op_work(struct env *env, struct env_work *w)
{
    (void)env;
    ck_assert_uint_lt(pooled, WORKS);
    pool[pooled++] = w;
}

static const struct env_ops ops = {.work = op_work};
static struct env env = {.ops = &ops};

static void run(struct turn *t)
{
    ran++;
    order[ended] = t;
}

static void done(struct turn *t)
{
    ck_assert_ptr_eq(order[ended], t);
    ck_assert_uint_eq(t->ran_ns, 7);
    ended++;
    if (again && ended <= WORKS)
        turns_start(&turns, t);
}

/* The work at this place of the pool ends. */
static void end(uint32_t at)
{
    struct env_work *w = pool[at];
    ck_assert_uint_lt(at, pooled);
    for (uint32_t i = at; i + 1 < pooled; i++)
        pool[i] = pool[i + 1];
    pooled--;
    w->run(w);
    w->ran_ns = 7;
    w->done(w);
}

static void start_all(void)
{
    turns_init(&turns, &env, MOST);
    pooled = ran = ended = 0;
    for (uint32_t i = 0; i < WORKS; i++) {
        work[i] = (struct turn){.run = run, .done = done};
        turns_start(&turns, &work[i]);
        ck_assert_uint_eq(pooled, i < MOST ? i + 1 : MOST);
    }
}

START_TEST(turns_come_in_order_and_no_more_than_told_at_a_time)
{
    again = false;
    start_all();
    for (uint32_t i = 0; i < WORKS; i++) {
        ck_assert_uint_eq(pooled, i < WORKS - MOST ? MOST : WORKS - i);
        end(0);
        ck_assert_ptr_eq(order[i], &work[i]);
    }
    ck_assert_uint_eq(pooled, 0);
    ck_assert_uint_eq(ran, WORKS);
}
END_TEST

/* A work that ends may be started again at once: it comes behind those that wait. */
START_TEST(turns_that_come_again_are_behind_the_others)
{
    again = true;
    start_all();
    for (uint32_t i = 0; i < 2 * WORKS; i++) {
        end(0);
        ck_assert_uint_le(pooled, MOST);
        ck_assert_ptr_eq(order[i], &work[i % WORKS]);
    }
    ck_assert_uint_eq(pooled, 0);
    ck_assert_uint_eq(ended, 2 * WORKS);
}
END_TEST

/* Whichever ends first. */
START_TEST(turns_take_the_place_of_any_that_ends)
{
    again = false;
    start_all();
    for (uint32_t i = 0; i < WORKS; i++)
        end(pooled - 1);
    ck_assert_uint_eq(pooled, 0);
    ck_assert_uint_eq(ran, WORKS);
    ck_assert_uint_eq(turns.running, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("turns");
    TCase *c = suite_case(s, "turns", 10, NULL, NULL);
    tcase_add_test(c, turns_come_in_order_and_no_more_than_told_at_a_time);
    tcase_add_test(c, turns_that_come_again_are_behind_the_others);
    tcase_add_test(c, turns_take_the_place_of_any_that_ends);
    return suite_main(s);
}
