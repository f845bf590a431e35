/* test_hand.c: batches pass from lanes to the caller's threads and back, in order, whatever stops
 * them. */
#include "proto/base/err.h"
#include "tests/lib/suite.h"
#include "worker/lib/hand.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { FOREVER = -1, LANES = 6, ROUNDS = 200 };

static struct hand *hand;
static const struct outside *outside;
static const char *told;

static void job_take(void *context, const char *text, size_t bytes)
{
    ck_assert(context == &told && bytes == 3);
    told = text;
}

static void setup(void)
{
    ck_assert_int_eq(hand_new(job_take, &told, &hand), 0);
    outside = hand_outside(hand);
}

static void teardown(void)
{
    hand_free(hand);
}

/* A lane's thread in `run`. */
struct lane {
    pthread_t thread;
    struct outside_batch batch;
    atomic_int result; /* 1: it has not returned */
};

static void *lane_run(void *context)
{
    struct lane *l = context;
    atomic_store(&l->result, outside->run(outside->context, &l->batch));
    return NULL;
}

static void lane_begin(struct lane *l, uint64_t number)
{
    l->batch = (struct outside_batch){.number = number};
    atomic_store(&l->result, 1);
    ck_assert_int_eq(pthread_create(&l->thread, NULL, lane_run, l), 0);
}

static int lane_end(struct lane *l)
{
    pthread_join(l->thread, NULL);
    return atomic_load(&l->result);
}

static struct hand_batch *take(void)
{
    struct hand_batch *b = NULL;
    ck_assert_int_eq(hand_take(hand, 5000, &b), 0);
    ck_assert_ptr_nonnull(b);
    return b;
}

START_TEST(a_batch_comes_back_with_its_result)
{
    struct lane l;
    for (int status = 0; status > -3; status--) {
        lane_begin(&l, 7);
        struct hand_batch *b = take();
        ck_assert(b->outside == &l.batch && b->data == NULL && hand_out(hand) == 1);
        ck_assert_int_eq(atomic_load(&l.result), 1); /* the lane waits */
        hand_give(hand, b, status);
        ck_assert_int_eq(lane_end(&l), status);
        ck_assert_uint_eq(hand_out(hand), 0);
    }
}
END_TEST

START_TEST(a_taker_waits_no_longer_than_it_says)
{
    struct hand_batch *b;
    ck_assert_int_eq(hand_take(hand, 0, &b), SHOAL_E_AGAIN);
    ck_assert_int_eq(hand_take(hand, 30, &b), SHOAL_E_AGAIN);
}
END_TEST

/* A stop drops offered batches at once, and a taken one when the caller is done with its arrays. */
START_TEST(a_stop_drops_what_is_here)
{
    struct lane taken, offered, later;
    struct hand_batch *none;
    lane_begin(&taken, 1);
    struct hand_batch *b = take();
    lane_begin(&offered, 2);
    usleep(20000);
    outside->stop(outside->context);
    ck_assert_int_eq(lane_end(&offered), SHOAL_E_STOPPED);
    ck_assert_int_eq(hand_take(hand, 0, &none), SHOAL_E_AGAIN);
    ck_assert_int_eq(atomic_load(&taken.result), 1);
    hand_give(hand, b, 0);
    ck_assert_int_eq(lane_end(&taken), SHOAL_E_STOPPED);

    lane_begin(&later, 3); /* later calls are not concerned */
    b = take();
    ck_assert_uint_eq(b->outside->number, 3);
    hand_give(hand, b, 0);
    ck_assert_int_eq(lane_end(&later), 0);
}
END_TEST

static void *taker_run(void *result)
{
    struct hand_batch *b;
    *(int *)result = hand_take(hand, (uint32_t)FOREVER, &b);
    return NULL;
}

START_TEST(a_close_ends_all_waiting)
{
    int result[3];
    pthread_t taker[3];
    struct lane l;
    struct hand_batch *b;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&taker[i], NULL, taker_run, &result[i]), 0);
    usleep(20000);
    hand_close(hand);
    for (int i = 0; i < 3; i++) {
        pthread_join(taker[i], NULL);
        ck_assert_int_eq(result[i], SHOAL_E_END);
    }
    lane_begin(&l, 1); /* no taker will come */
    ck_assert_int_eq(lane_end(&l), SHOAL_E_STOPPED);
    ck_assert_int_eq(hand_take(hand, 0, &b), SHOAL_E_END);
}
END_TEST

START_TEST(the_jobs_text_is_passed_on)
{
    static const char text[] = "abc";
    outside->job(outside->context, text, 3);
    ck_assert_ptr_eq(told, text);
}
END_TEST

/* ---- many ------------------------------------------------------------------------------------ */

static atomic_uint taken_by, given;

static void *lane_work(void *context)
{
    struct lane *l = context;
    for (uint64_t n = 1; n <= ROUNDS; n++) {
        l->batch.number = n;
        int rc = outside->run(outside->context, &l->batch);
        if (rc != (int)-(n % 2)) /* what the taker gave */
            atomic_fetch_add(&given, 1u << 20);
        atomic_fetch_add(&given, 1);
    }
    return NULL;
}

static void *taker_work(void *unused)
{
    struct hand_batch *b;
    while (hand_take(hand, (uint32_t)FOREVER, &b) == 0) {
        atomic_fetch_add(&taken_by, 1);
        hand_give(hand, b, (int)-(b->outside->number % 2));
    }
    return unused;
}

/* Each of the lanes' batches is taken by one thread, once, and its own result comes back. */
START_TEST(many_lanes_and_takers_mix_nothing_up)
{
    static struct lane lane[LANES];
    pthread_t taker[3];
    atomic_store(&taken_by, 0);
    atomic_store(&given, 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&taker[i], NULL, taker_work, NULL), 0);
    for (int i = 0; i < LANES; i++)
        ck_assert_int_eq(pthread_create(&lane[i].thread, NULL, lane_work, &lane[i]), 0);
    for (int i = 0; i < LANES; i++)
        pthread_join(lane[i].thread, NULL);
    hand_close(hand);
    for (int i = 0; i < 3; i++)
        pthread_join(taker[i], NULL);
    ck_assert_uint_eq(atomic_load(&taken_by), LANES * ROUNDS);
    ck_assert_uint_eq(atomic_load(&given), LANES * ROUNDS);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hand");
    TCase *c = suite_case(s, "hand", 60, setup, teardown);
    tcase_add_test(c, a_batch_comes_back_with_its_result);
    tcase_add_test(c, a_taker_waits_no_longer_than_it_says);
    tcase_add_test(c, a_stop_drops_what_is_here);
    tcase_add_test(c, a_close_ends_all_waiting);
    tcase_add_test(c, the_jobs_text_is_passed_on);
    tcase_add_test(c, many_lanes_and_takers_mix_nothing_up);
    return suite_main(s);
}
