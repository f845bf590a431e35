/* test_request.c: the pool of pulls and pushes, and which request gets a place when others have
 * all. */
#include "server/shard/request.h"
#include "tests/lib/suite.h"

#include <stdlib.h>

static struct request_pool pool;
static struct request *taken[3 * LIMIT_WAITING];
static uint32_t count;

static void setup(void)
{
    count = 0;
    ck_assert_int_eq(request_pool_init(&pool, 1 << 24), 0);
}

static void teardown(void)
{
    while (count > 0)
        request_give(&pool, taken[--count]);
    ck_assert_uint_eq(request_pool_used(&pool), 0);
    ck_assert_uint_eq(request_pool_bytes(&pool), 0);
    request_pool_close(&pool);
}

/* Takes a request without keys, from a peer of its own; false: refused. */
static bool take(enum wire_type type, bool at_once)
{
    const struct request_from from = {.peer = count + 1};
    struct wire w = {.type = type};
    struct msg *m = wire_encode(&w);
    ck_assert_ptr_nonnull(m);
    (void)msg_add(m, 0);
    for (int i = 0; type == WIRE_TYPE_PUSH && i < 2; i++)
        (void)msg_add(m, 0);
    struct request *q = request_take(&pool, &from, &w, m, at_once, 0);
    if (q == NULL)
        msg_free(m);
    else
        taken[count++] = q;
    return q != NULL;
}

/* Pushes that wait for a clock have every place, and the push that they wait for is the next to
 * come: in bsp that of the lane whose turn it is. */
START_TEST(push_that_will_not_wait_has_a_place_when_those_that_wait_have_all)
{
    while (take(WIRE_TYPE_PUSH, false))
        ;
    ck_assert_uint_eq(count, LIMIT_WAITING);
    uint32_t more = 0;
    while (take(WIRE_TYPE_PUSH, true))
        more++;
    ck_assert_uint_eq(more, LIMIT_WAITING / 16);
    ck_assert(!take(WIRE_TYPE_PUSH, false));
    request_give(&pool, taken[--count]);
    ck_assert(!take(WIRE_TYPE_PUSH, false));
    ck_assert(take(WIRE_TYPE_PUSH, true));
    while (take(WIRE_TYPE_PULL, false)) /* pulls have places of their own */
        ;
    ck_assert_uint_eq(count, 2 * LIMIT_WAITING + LIMIT_WAITING / 16);
}
END_TEST

/* A reply takes the place of a push's message, and counts as it did: only what fits is kept. */
START_TEST(reply_counts_in_place_of_the_message)
{
    const struct request_from from = {.peer = 1};
    struct wire w = {.type = WIRE_TYPE_PUSH};
    struct msg *m = wire_encode(&w), *reply;
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_nonnull(msg_add(m, i == 1 ? 100 : 0)); /* gradients */
    struct request *q = request_take(&pool, &from, &w, m, false, 0);
    ck_assert_ptr_nonnull(q);
    const uint64_t most = pool.share[REQUEST_PUSH].bytes_max;
    ck_assert(request_reply_fits(&pool, q, most));
    ck_assert(!request_reply_fits(&pool, q, most + 1));
    ck_assert(take(WIRE_TYPE_PUSH, false)); /* another one takes some bytes */
    const uint64_t other = request_pool_bytes(&pool) - q->bytes;
    ck_assert(request_reply_fits(&pool, q, most - other));
    ck_assert(!request_reply_fits(&pool, q, most - other + 1));
    request_drop_message(&pool, q);
    ck_assert_uint_eq(request_pool_bytes(&pool), other);
    reply = msg_new();
    ck_assert_ptr_nonnull(msg_add(reply, 1000));
    request_keep_reply(&pool, q, reply);
    ck_assert_uint_eq(request_pool_bytes(&pool), other + 1000);
    ck_assert_ptr_eq(request_take_reply(&pool, q), reply);
    ck_assert_uint_eq(request_pool_bytes(&pool), other);
    request_keep_reply(&pool, q, reply);
    request_give(&pool, q); /* with the reply, which is freed */
    ck_assert_uint_eq(request_pool_bytes(&pool), other);
}
END_TEST

/* An assignment goes the way of a push: it has a place among them, is not traced, and asks for no
 * rows, whatever the place had before. */
START_TEST(assignment_is_a_push_of_one_tablet)
{
    const struct request_from from = {.peer = 1};
    struct wire w = {.type = WIRE_TYPE_ASSIGN,
                     .u.ASSIGN = {.run = 7,
                                  .table = 2,
                                  .lane = 3,
                                  .generation = 4,
                                  .from = 5,
                                  .to = 6,
                                  .tablet = 9,
                                  .worker = 11}};
    ck_assert(take(WIRE_TYPE_PUSH, false));
    taken[--count]->push.echo = 5;
    request_give(&pool, taken[count]);
    struct msg *m = wire_encode(&w);
    memset(msg_add(m, 100), 1, 100);
    struct request *q = request_take(&pool, &from, &w, m, false, 0);
    ck_assert_ptr_nonnull(q);
    const struct push_record *r = &q->push.r;
    ck_assert(request_pushes(q) && q->type == WIRE_TYPE_ASSIGN && !q->span.traced);
    ck_assert(r->run == 7 && r->table == 2 && r->lane == 3 && r->generation == 4);
    ck_assert(r->from == 5 && r->to == 6 && r->tablet_first == 9 && r->tablet_count == 1);
    ck_assert(r->key_count == 0 && r->worker == 11 && r->clock == 0 && q->push.echo == 0);
    ck_assert_ptr_eq(r->image, m->frame[1].data);
    ck_assert_uint_eq(r->image_bytes, 100);
    ck_assert_uint_eq(pool.share[REQUEST_PUSH].used, 1);
    ck_assert_uint_eq(pool.share[REQUEST_PULL].used, 0);
    request_give(&pool, q);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("request");
    TCase *t = tcase_create("pool");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, push_that_will_not_wait_has_a_place_when_those_that_wait_have_all);
    tcase_add_test(t, reply_counts_in_place_of_the_message);
    tcase_add_test(t, assignment_is_a_push_of_one_tablet);
    suite_add_tcase(s, t);
    return suite_main(s);
}
