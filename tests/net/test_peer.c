/* test_peer.c: the table of peers, without a network: names, silence, room. */
#include "proto/net/peer.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct sock *const ROUTER = (struct sock *)(uintptr_t)0x1000; /* never looked into here */

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
    /* never used again, though its place is */
    ck_assert_uint_ne(heard(ps, 7, &evicted)->name, name);
    ck_assert_ptr_null(peers_find(ps, name));
    ck_assert_ptr_null(peers_find(ps, 0));
    ck_assert_ptr_null(peers_find(ps, UINT64_MAX));
    peers_free(ps);
}
END_TEST

/* Whoever takes up another's routing id is not taken for him. */
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
    heard(ps, 0, &evicted); /* speaks again: now 1 is the longest silent */
    struct peer *out = peers_add(ps, ROUTER);
    ck_assert_ptr_nonnull(out); /* connections out have room of their own */
    heard(ps, LIMIT_PEERS, &evicted);
    ck_assert_uint_eq(evicted, second);
    ck_assert_ptr_null(peers_find(ps, second));
    ck_assert_ptr_nonnull(peers_find(ps, first));
    for (uint32_t i = 0; i < 3 * LIMIT_PEERS; i++) { /* a flood of strangers */
        heard(ps, 100000 + i, &evicted);
        ck_assert_uint_ne(evicted, 0);
    }
    ck_assert_ptr_null(peers_find(ps, first));
    ck_assert_ptr_eq(peers_find(ps, out->name), out);
    peers_free(ps);
}
END_TEST

/* A flood of names leaves who has spoken lawfully where they are. */
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

int main(void)
{
    Suite *suite = suite_create("peer");
    TCase *t = tcase_create("peer");
    tcase_add_test(t, peers_keep_their_name_while_they_live);
    tcase_add_test(t, peers_with_another_key_are_others);
    tcase_add_test(t, peers_longest_silent_makes_room);
    tcase_add_test(t, peers_strangers_make_room_first);
    tcase_add_test(t, peers_connections_out_are_bounded);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
