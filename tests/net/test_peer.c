/* test_peer.c: the table of peers, without a network: names, silence, room. */
#include "proto/net/peer.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct sock *const ROUTER = (struct sock *)(uintptr_t)0x1000; /* never dereferenced here */

static struct sock_id id_of(uint32_t number)
{
    struct sock_id id = {.bytes = 5};
    memcpy(id.data + 1, &number, sizeof(number));
    return id;
}

static struct peer *heard(struct peers *ps, uint32_t number, peer_t *evicted)
{
    struct sock_id id = id_of(number);
    struct peer *p = peers_heard(ps, ROUTER, &id, evicted);
    ck_assert_ptr_nonnull(p);
    return p;
}

START_TEST(peers_keep_their_name_while_they_live)
{
    struct peers *ps = peers_new(1, 0);
    peer_t evicted = 0;
    peer_t name = heard(ps, 7, &evicted)->name;
    ck_assert_uint_ne(name, 0);
    ck_assert_uint_eq(heard(ps, 7, &evicted)->name, name);
    ck_assert_uint_ne(heard(ps, 8, &evicted)->name, name);
    struct sock_id longer = id_of(7);
    longer.bytes = 6;
    ck_assert_uint_ne(peers_heard(ps, ROUTER, &longer, &evicted)->name, name);
    ck_assert_ptr_eq(peers_find(ps, name), heard(ps, 7, &evicted));
    peers_remove(ps, peers_find(ps, name));
    ck_assert_ptr_null(peers_find(ps, name));
    /* a name is never used again, although its place is */
    ck_assert_uint_ne(heard(ps, 7, &evicted)->name, name);
    ck_assert_ptr_null(peers_find(ps, name));
    ck_assert_ptr_null(peers_find(ps, 0));
    ck_assert_ptr_null(peers_find(ps, UINT64_MAX));
    peers_free(ps);
}
END_TEST

/* A routing id that begins like another one belongs to another peer, even in the same bucket: of
 * that many pairs some must share one. */
START_TEST(peers_with_a_longer_id_are_others)
{
    struct peers *ps = peers_new(1, 0);
    peer_t evicted = 0;
    for (uint32_t i = 0; i < 16 * 2 * LIMIT_PEERS; i++) {
        struct sock_id longer = id_of(i);
        longer.bytes = 6;
        struct peer *first = peers_heard(ps, ROUTER, &longer, &evicted),
                    *second = heard(ps, i, &evicted);
        ck_assert_ptr_ne(first, second);
        peers_remove(ps, first);
        peers_remove(ps, second);
    }
    peers_free(ps);
}
END_TEST

/* The connection that a peer's messages are counted for. */
START_TEST(peers_that_connect_again_are_on_the_new_connection)
{
    struct peers *ps = peers_new(1, 0);
    peer_t evicted = 0;
    struct sock_id id = id_of(7);
    for (int connection = 1; connection < 4; connection++) {
        id.connection = connection;
        ck_assert_int_eq(peers_heard(ps, ROUTER, &id, &evicted)->id.connection, connection);
    }
    peers_free(ps);
}
END_TEST

/* A peer with another peer's routing id and another key is a different peer. */
START_TEST(peers_with_another_key_are_others)
{
    struct peers *ps = peers_new(1, 0);
    peer_t evicted = 0;
    struct sock_id id = id_of(7);
    memcpy(id.key, "one", 4);
    peer_t name = peers_heard(ps, ROUTER, &id, &evicted)->name;
    ck_assert_uint_eq(peers_heard(ps, ROUTER, &id, &evicted)->name, name);
    ck_assert_uint_eq(evicted, 0);
    memcpy(id.key, "two", 4);
    struct peer *other = peers_heard(ps, ROUTER, &id, &evicted);
    ck_assert_uint_ne(other->name, name);
    ck_assert_uint_eq(evicted, name);
    ck_assert_ptr_null(peers_find(ps, name));
    ck_assert_str_eq(other->who.key, "two");
    peers_free(ps);
}
END_TEST

START_TEST(peers_longest_silent_makes_room)
{
    struct peers *ps = peers_new(2, 0);
    peer_t evicted = 0;
    peer_t first = heard(ps, 0, &evicted)->name, second = heard(ps, 1, &evicted)->name;
    for (uint32_t i = 2; i < LIMIT_PEERS; i++) {
        heard(ps, i, &evicted);
        ck_assert_uint_eq(evicted, 0);
    }
    heard(ps, 0, &evicted); /* it sends again: now 1 is the longest silent */
    struct peer *out = peers_add(ps, ROUTER);
    ck_assert_ptr_nonnull(out); /* outgoing connections have places of their own */
    heard(ps, LIMIT_PEERS, &evicted);
    ck_assert_uint_eq(evicted, second);
    ck_assert_ptr_null(peers_find(ps, second));
    ck_assert_ptr_nonnull(peers_find(ps, first));
    for (uint32_t i = 0; i < 3 * LIMIT_PEERS; i++) { /* a flood of unknown peers */
        heard(ps, 100000 + i, &evicted);
        ck_assert_uint_ne(evicted, 0);
    }
    ck_assert_ptr_null(peers_find(ps, first));
    ck_assert_ptr_eq(peers_find(ps, out->name), out);
    peers_free(ps);
}
END_TEST

/* In a flood of names, peers that have sent valid messages keep their places. */
START_TEST(peers_strangers_make_room_first)
{
    struct peers *ps = peers_new(4, 0);
    peer_t evicted = 0, worker[16];
    for (uint32_t i = 0; i < 16; i++) {
        struct peer *p = heard(ps, i, &evicted);
        peers_known(ps, p);
        worker[i] = p->name;
    }
    for (uint32_t i = 0; i < 3 * LIMIT_PEERS; i++)
        heard(ps, 100000 + i, &evicted);
    for (uint32_t i = 0; i < 16; i++)
        ck_assert_ptr_nonnull(peers_find(ps, worker[i]));
    for (uint32_t i = 0; i < LIMIT_PEERS; i++) /* all are known now: the longest silent goes */
        peers_known(ps, heard(ps, 200000 + i, &evicted));
    ck_assert_ptr_null(peers_find(ps, worker[0]));
    peers_free(ps);
}
END_TEST

START_TEST(peers_connections_out_are_bounded)
{
    struct peers *ps = peers_new(3, 0);
    struct peer *last = NULL;
    for (uint32_t i = 0; i < LIMIT_PEERS; i++) {
        last = peers_add(ps, ROUTER);
        ck_assert_ptr_nonnull(last);
    }
    ck_assert_ptr_null(peers_add(ps, ROUTER));
    peers_remove(ps, last);
    ck_assert_ptr_nonnull(peers_add(ps, ROUTER));
    peers_free(ps);
}
END_TEST

/* A peer in a place that another one left is as unknown as any new one. */
START_TEST(peers_know_nobody_by_the_place_he_has)
{
    struct peers *ps = peers_new(5, 0);
    peer_t evicted = 0;
    struct peer *p = heard(ps, 1, &evicted);
    p->who.role = ROLE_ADMIN;
    p->who_version = 3;
    peers_known(ps, p);
    peers_remove(ps, p);
    struct peer *next = heard(ps, 2, &evicted);
    ck_assert_ptr_eq(next, p);
    ck_assert(!next->known);
    ck_assert_int_eq(next->who.role, ROLE_NOBODY);
    ck_assert_uint_eq(next->who_version, UINT64_MAX);
    peers_free(ps);
}
END_TEST

/* ---- queues ---------------------------------------------------------------------------------- */

/* The number of messages that a socket accepts. */
static uint32_t takes, sent, asked;
static struct sock *broken; /* its peer has left */
int __wrap_sock_send(struct sock *s, const struct sock_id *to, struct msg *m);
bool __wrap_sock_readable(struct sock *s);

int __wrap_sock_send(struct sock *s, const struct sock_id *to, struct msg *m)
{
    (void)to;
    if (s == broken && s != NULL)
        return SHOAL_E_UNAVAILABLE;
    if (takes == 0)
        return SHOAL_E_AGAIN;
    takes--;
    sent++;
    msg_free(m);
    return 0;
}

bool __wrap_sock_readable(struct sock *s)
{
    (void)s;
    asked++;
    return false;
}

static int offer(struct peers *ps, struct peer *p, size_t bytes, uint64_t now_ns)
{
    struct msg *m = msg_new();
    ck_assert_ptr_nonnull(msg_add(m, bytes));
    return peers_send(ps, p, m, now_ns);
}

static uint32_t left;
static peer_t left_last;

static void leaves(void *context, struct peer *p)
{
    (void)context;
    left++;
    left_last = p->name;
}

#define KIB ((size_t)1 << 10)

/* Only there does ZeroMQ notice that a pipe has room again. */
START_TEST(peers_that_wait_are_asked_before_each_try)
{
    struct peers *ps = peers_new(6, 0);
    takes = sent = left = asked = 0;
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(offer(ps, peers_add(ps, ROUTER), 1, 1), 0);
    for (uint32_t again = 1; again < 4; again++) {
        peers_flush(ps, 2, leaves, NULL);
        ck_assert_uint_eq(asked, 3 * again);
    }
    peers_free(ps);
}
END_TEST

/* One peer may use a quarter of the 4 MiB for all, or one message of any size. Sent messages no
 * longer count. */
START_TEST(peers_queues_are_bounded_each_and_together)
{
    struct peers *ps = peers_new(6, 4096 * KIB);
    struct peer *p[3];
    peer_t evicted = 0;
    takes = sent = left = 0;
    for (uint32_t i = 0; i < 3; i++)
        p[i] = heard(ps, i, &evicted);
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(offer(ps, p[0], 2048 * KIB, 1), 0);
        ck_assert_int_eq(offer(ps, p[0], 1, 1), SHOAL_E_BUSY);
        ck_assert_int_eq(offer(ps, p[1], 512 * KIB, 1), 0);
        ck_assert_int_eq(offer(ps, p[1], 512 * KIB, 1), 0); /* its quarter */
        ck_assert_int_eq(offer(ps, p[1], 1, 1), SHOAL_E_BUSY);
        ck_assert_int_eq(offer(ps, p[2], 1024 * KIB + 1, 1), SHOAL_E_BUSY);
        ck_assert_int_eq(offer(ps, p[2], 1024 * KIB, 1), 0); /* the whole rest */
        takes = UINT32_MAX;
        peers_flush(ps, 2, leaves, NULL);
        ck_assert_ptr_null(peers_waiting(ps));
        ck_assert_uint_eq(sent, 4u + 4u * (uint32_t)again);
        takes = 0;
    }
    for (uint32_t i = 0; i < LIMIT_PEER_QUEUE; i++)
        ck_assert_int_eq(offer(ps, p[0], 1, 1), 0);
    ck_assert_int_eq(offer(ps, p[0], 1, 1), SHOAL_E_BUSY);
    ck_assert_uint_eq(left, 0);
    peers_free(ps);
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

/* The time counts from the last sent message, or from the begin of the queue; an older queue does
 * not count. */
START_TEST(peers_that_take_nothing_for_long_are_dropped)
{
    const uint64_t second = UINT64_C(1000000000), stall = PEER_STALL_NS;
    struct peers *ps = peers_new(7, 0);
    peer_t evicted = 0;
    struct peer *p = heard(ps, 1, &evicted);
    uint64_t now = 100 * second;
    takes = sent = left = 0;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(offer(ps, p, 1, now), 0);
    peers_flush(ps, now + stall, leaves, NULL);
    takes = 1;
    now += stall;
    peers_flush(ps, now, leaves, NULL);
    peers_flush(ps, now + stall, leaves, NULL);
    ck_assert_uint_eq(left, 0);
    ck_assert_uint_eq(sent, 1);
    takes = 2;
    peers_flush(ps, now + stall, leaves, NULL);
    ck_assert_uint_eq(sent, 3);
    ck_assert_ptr_null(peers_waiting(ps));
    now += 10 * stall;
    ck_assert_int_eq(offer(ps, p, 1, now), 0);
    peers_flush(ps, now + stall, leaves, NULL);
    ck_assert_uint_eq(left, 0);
    peers_flush(ps, now + stall + 1, leaves, NULL);
    ck_assert_uint_eq(left, 1);
    ck_assert_ptr_null(peers_waiting(ps));
    peers_free(ps);
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

/* One of three waiting peers leaves, at any place of their list: only that one is reported, once,
 * and its messages are dropped; the others keep waiting. */
START_TEST(peers_that_left_are_told)
{
    struct peers *ps = peers_new(8, 4096 * KIB);
    struct peer *p[3];
    takes = sent = left = 0;
    for (uint32_t i = 0; i < 3; i++) {
        p[i] = peers_add(ps, (struct sock *)((uintptr_t)ROUTER + i));
        for (uint32_t n = 0; n <= i; n++)
            ck_assert_int_eq(offer(ps, p[i], 1024 * KIB / (i + 1), 1), 0);
    }
    broken = p[_i]->sock;
    for (int again = 0; again < 2; again++) {
        peers_flush(ps, 2, leaves, NULL);
        ck_assert_uint_eq(left, 1);
        ck_assert_uint_eq(left_last, p[_i]->name);
        ck_assert_uint_eq(p[_i]->waiting, 0);
        ck_assert_uint_eq(p[_i]->waiting_bytes, 0);
    }
    ck_assert_int_eq(offer(ps, p[_i], 1, 2), SHOAL_E_UNAVAILABLE);
    peers_remove(ps, p[_i]);
    broken = NULL;
    takes = UINT32_MAX;
    peers_flush(ps, 3, leaves, NULL);
    ck_assert_uint_eq(sent, 6 - (1 + (uint32_t)_i));
    ck_assert_uint_eq(left, 1);
    ck_assert_ptr_null(peers_waiting(ps));
    peers_free(ps);
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

/* Removing a peer with waiting messages keeps the others in the list. */
START_TEST(peers_removed_take_their_queue_along)
{
    struct peers *ps = peers_new(9, 0);
    struct peer *p[3];
    takes = sent = left = 0;
    for (uint32_t i = 0; i < 3; i++) {
        p[i] = peers_add(ps, ROUTER);
        ck_assert_int_eq(offer(ps, p[i], 1, 1), 0);
    }
    peers_remove(ps, p[_i]);
    ck_assert_uint_eq(msg_frames_live(), 2);
    takes = UINT32_MAX;
    peers_flush(ps, 2, leaves, NULL);
    ck_assert_uint_eq(sent, 2);
    ck_assert_uint_eq(left, 0);
    peers_free(ps);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peer");
    TCase *t = tcase_create("peer");
    tcase_add_test(t, peers_keep_their_name_while_they_live);
    tcase_add_test(t, peers_with_a_longer_id_are_others);
    tcase_add_test(t, peers_that_connect_again_are_on_the_new_connection);
    tcase_add_test(t, peers_with_another_key_are_others);
    tcase_add_test(t, peers_longest_silent_makes_room);
    tcase_add_test(t, peers_strangers_make_room_first);
    tcase_add_test(t, peers_connections_out_are_bounded);
    tcase_add_test(t, peers_know_nobody_by_the_place_he_has);
    tcase_add_test(t, peers_that_wait_are_asked_before_each_try);
    tcase_add_test(t, peers_queues_are_bounded_each_and_together);
    tcase_add_test(t, peers_that_take_nothing_for_long_are_dropped);
    tcase_add_loop_test(t, peers_that_left_are_told, 0, 3);
    tcase_add_loop_test(t, peers_removed_take_their_queue_along, 0, 3);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
