/* test_tail.c: the newest records in memory, and the terms of a journal. */
#include "embedding/journal/tail.h"

#include "embedding/journal/term.h"
#include "proto/base/msg.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static void add(struct tail *t, uint64_t sequence, size_t bytes)
{
    static char payload[20000];
    struct record_header h = {.kind = RECORD_TABLE, .sequence = sequence};
    struct record_payload p = {{payload, NULL}, {bytes, 0}};
    memset(payload, (int)sequence, bytes);
    record_seal(&h, &p);
    tail_add(t, &h, &p);
}

/* Checks records from after + 1 on. Returns the last sequence. */
static uint64_t check(const struct tail *t, uint64_t after, uint64_t until, size_t most)
{
    const void *records;
    size_t bytes;
    uint64_t last;
    ck_assert(tail_read(t, after, until, most, &records, &bytes, &last));
    ck_assert_uint_le(last, until);
    const char *at = records, *end = at + bytes;
    for (uint64_t i = after + 1; i <= last; i++) {
        struct record_header h;
        const void *payload;
        ck_assert_int_eq(record_read(at, (size_t)(end - at), 0, &h, &payload), 0);
        ck_assert_uint_eq(h.sequence, i);
        ck_assert(h.payload_bytes == 0 || *(const char *)payload == (char)i);
        at += record_length(&h);
        ck_assert(at == end || bytes <= most || i < last);
    }
    ck_assert_ptr_eq(at, end);
    return last;
}

START_TEST(a_read_returns_whole_records_in_order)
{
    struct tail *t = tail_new(1 << 20, 5);
    ck_assert_uint_eq(tail_first(t), 5);
    for (uint64_t i = 5; i < 200; i++)
        add(t, i, (i * 37) % 5000);
    for (uint64_t after = 4; after < 190; after = check(t, after, 190, 9000))
        ;
    for (uint64_t after = 4; after < 199; after++)
        ck_assert_uint_eq(check(t, after, 199, 1), after + 1);
    const void *records;
    size_t bytes;
    uint64_t last;
    ck_assert(!tail_read(t, 3, 199, 9000, &records, &bytes, &last));
    ck_assert(!tail_read(t, 190, 190, 9000, &records, &bytes, &last));
    ck_assert(!tail_read(t, 199, 300, 9000, &records, &bytes, &last));
    tail_free(t);
}
END_TEST

START_TEST(the_oldest_records_go)
{
    struct tail *t = tail_new(100000, 1);
    for (uint64_t i = 1; i < 100; i++) {
        add(t, i, 3000);
        ck_assert_uint_le(tail_bytes(t), 100000 + 20000);
    }
    ck_assert_uint_gt(tail_first(t), 50);
    ck_assert_uint_lt(tail_first(t), 90);
    check(t, tail_first(t) - 1, 99, 9000);
    tail_limit(t, 1);
    ck_assert_uint_eq(check(t, 98, 99, 9000), 99); /* the newest chunk stays */
    add(t, 100, 20000);                            /* larger than all */
    ck_assert_uint_eq(check(t, 99, 100, 9000), 100);
    ck_assert_uint_eq(tail_first(t), 100);
    tail_free(t);
}
END_TEST

START_TEST(a_gap_begins_the_tail_anew)
{
    struct tail *t = tail_new(100000, 1);
    add(t, 1, 10);
    add(t, 2, 10);
    add(t, 4, 10);
    ck_assert_uint_eq(tail_first(t), 4);
    ck_assert_uint_eq(check(t, 3, 4, 9000), 4);
    tail_free(t);
}
END_TEST

/* A follower is sent the tail's own bytes: other threads read them while records come and go. */
START_TEST(records_that_are_held_stay)
{
    struct tail *t = tail_new(50000, 1);
    const void *records;
    size_t bytes;
    uint64_t last;
    for (uint64_t i = 1; i < 4; i++)
        add(t, i, 4000);
    ck_assert(tail_read(t, 1, 3, 1, &records, &bytes, &last));
    void *hold = tail_hold(t, records), *again = tail_hold(t, records);
    ck_assert_ptr_nonnull(hold);
    char *before = malloc(bytes);
    memcpy(before, records, bytes);
    tail_trim(t, 3);
    for (uint64_t i = 4; i < 100; i++)
        add(t, i, 4000);
    ck_assert_ptr_null(tail_hold(t, records)); /* its chunk has left the tail */
    ck_assert_mem_eq(records, before, bytes);
    tail_release(again);
    tail_free(t);
    ck_assert_mem_eq(records, before, bytes);
    tail_release(hold);
    free(before);
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

START_TEST(trimmed_records_go_and_leave_their_memory)
{
    struct tail *t = tail_new(1 << 20, 1);
    const void *first, *records;
    size_t bytes;
    uint64_t last;
    add(t, 1, 15000);
    ck_assert(tail_read(t, 0, 1, 1, &first, &bytes, &last));
    tail_trim(t, 0);
    check(t, 0, 1, 1); /* it is still needed */
    void *hold = tail_hold(t, first);
    tail_trim(t, 1);
    check(t, 0, 1, 1); /* held: its memory is not for others yet */
    tail_release(hold);
    for (uint64_t i = 2; i < 20; i++) {
        tail_trim(t, i - 1);
        ck_assert_uint_eq(tail_first(t), i);
        add(t, i, 15000);
        ck_assert(!tail_read(t, i - 2, i, 1, &records, &bytes, &last));
        ck_assert(tail_read(t, i - 1, i, 1, &records, &bytes, &last));
        ck_assert_ptr_eq(records, first);
    }
    for (uint64_t i = 20; i < 60; i++)
        add(t, i, 15000);
    tail_trim(t, 40);
    ck_assert_uint_gt(tail_first(t), 30);
    ck_assert_uint_le(tail_first(t), 41);
    for (uint64_t after = 40; after < 59; after++)
        check(t, after, 59, 1);
    tail_free(t);
}
END_TEST

START_TEST(the_newest_common_record)
{
    struct terms t = {0};
    uint64_t common;
    ck_assert_uint_eq(term_last(&t), 0);
    ck_assert_int_eq(term_common(&t, 50, 0, 60, &common), 0);
    ck_assert_uint_eq(common, 50);
    ck_assert_int_eq(term_common(&t, 50, 1, 60, &common), SHOAL_E_NOT_FOUND);
    term_add(&t, 1, 10);
    term_add(&t, 4, 40);
    static const struct {
        uint64_t term, sequence, common;
    } is[] = {{4, 45, 45}, {4, 60, 50}, {1, 30, 30}, {1, 39, 39},
              {1, 60, 39}, {0, 5, 5},   {0, 60, 9}};
    for (size_t i = 0; i < sizeof is / sizeof is[0]; i++) {
        ck_assert_int_eq(term_common(&t, 50, is[i].term, is[i].sequence, &common), 0);
        ck_assert_uint_eq(common, is[i].common);
    }
    /* terms that this copy never saw may have begun anywhere */
    ck_assert_int_eq(term_common(&t, 50, 2, 45, &common), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(term_common(&t, 50, 5, 45, &common), SHOAL_E_NOT_FOUND);
    for (uint64_t i = 5; i < 5 + TERMS_KEPT; i++)
        term_add(&t, i, i * 10);
    ck_assert_uint_eq(t.count, TERMS_KEPT);
    ck_assert_uint_eq(t.dropped, 4);
    ck_assert_int_eq(term_common(&t, 500, 0, 5, &common), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(term_common(&t, 500, 4, 45, &common), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(term_common(&t, 500, 5, 200, &common), 0);
    ck_assert_uint_eq(common, 59);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tail");
    TCase *c = tcase_create("tail");
    tcase_add_test(c, a_read_returns_whole_records_in_order);
    tcase_add_test(c, the_oldest_records_go);
    tcase_add_test(c, a_gap_begins_the_tail_anew);
    tcase_add_test(c, records_that_are_held_stay);
    tcase_add_test(c, trimmed_records_go_and_leave_their_memory);
    tcase_add_test(c, the_newest_common_record);
    suite_add_tcase(suite, c);
    return suite_main(suite);
}
