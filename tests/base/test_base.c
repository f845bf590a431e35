/* test_base.c: errors, keys, messages, and checksums. */
#include "proto/base/array.h"
#include "proto/base/err.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/base/log.h"
#include "proto/base/msg.h"
#include "proto/base/rng.h"
#include "proto/base/salt.h"
#include "proto/base/text.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

START_TEST(err_every_code_has_text_and_status)
{
    ck_assert_str_eq(err_text(SHOAL_E_CONFIG), "bad configuration");
    ck_assert_str_eq(err_text(0), "ok");
    ck_assert_int_eq(err_exit_status(SHOAL_E_CONFIG), 78);
    ck_assert_int_eq(err_exit_status(SHOAL_E_DATA), 65);
    ck_assert_int_eq(err_exit_status(-9999), 70);
    ck_assert_str_eq(err_text(-9999), "unknown error");
    ck_assert_str_eq(err_text(1), "unknown error");
}
END_TEST

START_TEST(err_wrap_puts_the_place_before_the_sentence)
{
    struct err e;
    err_set(&e, SHOAL_E_IO, "LOCK held");
    ck_assert_int_eq(err_wrap(&e, SHOAL_E_INTERNAL, "recover %s", "rows"), SHOAL_E_IO);
    ck_assert_str_eq(e.text, "recover rows: LOCK held");
}
END_TEST

START_TEST(err_wrap_never_overflows)
{
    struct err e;
    err_set(&e, SHOAL_E_IO, "x");
    for (int i = 0; i < 100; i++)
        err_wrap(&e, SHOAL_E_IO, "a rather long place that repeats");
    ck_assert_uint_lt(strlen(e.text), ERR_TEXT_MAX);
}
END_TEST

START_TEST(key_mix_is_a_bijection)
{
    struct rng r = {1};
    for (int i = 0; i < 100000; i++) {
        uint64_t k = rng_next(&r);
        ck_assert_uint_eq(key_unmix(key_mix(k)), k);
    }
}
END_TEST

/* Each salt spreads keys that were made to collide like any other keys; two salts spread them
 * differently. */
START_TEST(salts_keep_crafted_keys_apart)
{
    enum { KEYS = 4096, PLACES = 4096 };
    uint64_t first = salt_draw(), second = salt_draw();
    uint32_t same = 0;
    ck_assert(first != 0 && second != 0 && first != second);
    for (unsigned shift = 0; shift <= 52; shift += 4) {
        uint8_t held[PLACES] = {0};
        uint32_t taken = 0;
        for (uint64_t i = 0; i < KEYS; i++) {
            uint64_t place = salt_mix(first, i << shift) % PLACES;
            taken += held[place] == 0;
            held[place] = 1;
            same += place == salt_mix(second, i << shift) % PLACES;
        }
        /* 1 - 1/e of them, with five deviations to either side */
        ck_assert_uint_ge(taken, 2589 - 160);
        ck_assert_uint_le(taken, 2589 + 160);
    }
    ck_assert_uint_le(same, 60); /* 14 are expected */
    ck_assert_uint_eq(salt_mix(0, 77), 77);
}
END_TEST

START_TEST(key_holds_its_field)
{
    uint64_t k = key_of_value(511, "68fd1e64", 8);
    ck_assert_uint_eq(key_field(k), 511);
    ck_assert_uint_ne(key_of_value(1, "a", 1), key_of_value(1, "b", 1));
}
END_TEST

START_TEST(key_of_an_id_is_the_number_itself)
{
    uint64_t k = 0;
    ck_assert(key_of_id(3, "4711", 4, &k) && k == (3ULL << 48 | 4711));
    ck_assert(key_of_id(0, "0", 1, &k) && k == 0);
    ck_assert(key_of_id(511, "281474976710655", 15, &k) && k == (511ULL << 48 | KEY_ID_MAX));
    ck_assert(!key_of_id(0, "281474976710656", 15, &k));
    ck_assert(!key_of_id(0, "00", 2, &k) && !key_of_id(0, "", 0, &k));
    for (uint32_t f = 0; f < LIMIT_FIELDS; f++) /* an empty value has no id of a counter */
        ck_assert_uint_gt(key_of_value(f, "", 0) & KEY_ID_MAX, 1ULL << 39);
}
END_TEST

START_TEST(msg_frames_come_back_to_the_pool)
{
    for (int round = 0; round < 2000; round++) {
        if (round == 100) {
            struct msg *m = msg_new();
            msg_free(m);
        }
        struct msg *m = msg_new();
        ck_assert_ptr_nonnull(msg_add(m, 64));
        ck_assert_ptr_nonnull(msg_add(m, 512 << 10));
        ck_assert_ptr_nonnull(msg_add(m, 0));
        ck_assert_ptr_nonnull(msg_add(m, 0));
        ck_assert_ptr_null(msg_add(m, 1)); /* no fifth frame */
        ck_assert_uint_eq(msg_bytes(m), 64 + (512 << 10));
        struct msg *second = msg_new();
        ck_assert_ptr_nonnull(msg_add(second, 512 << 10));
        msg_free(m);
        msg_free(second);
    }
    ck_assert_uint_eq(msg_frames_live(), 0);
    ck_assert_uint_lt(msg_allocations(), 20);
}
END_TEST

START_TEST(msg_pool_keeps_no_more_than_it_is_told)
{
    msg_keep(3 << 20);
    for (int round = 0; round < 2; round++) {
        struct msg *m[8];
        uint64_t before = msg_allocations();
        for (int i = 0; i < 8; i++) {
            m[i] = msg_new();
            ck_assert_ptr_nonnull(msg_add(m[i], 1 << 20));
        }
        if (round == 1) /* two of the eight frames were kept, besides the messages themselves */
            ck_assert_uint_eq(msg_allocations() - before, 6);
        for (int i = 0; i < 8; i++)
            msg_free(m[i]);
    }
    msg_keep(UINT64_MAX);
}
END_TEST

START_TEST(msg_refuses_frames_over_the_limit)
{
    struct msg *m = msg_new();
    ck_assert_ptr_null(msg_add(m, (size_t)LIMIT_FRAME_BYTES + 1));
    ck_assert_ptr_nonnull(msg_add(m, LIMIT_FRAME_BYTES));
    ck_assert_uint_eq(msg_bytes(m), LIMIT_FRAME_BYTES);
    msg_free(m);
}
END_TEST

/* These hashes are on disks and in keys: XXH3, and the finalizers of Murmur3 and splitmix64 as
 * published. */
START_TEST(hashes_are_those_of_every_release)
{
    const char *text = "shoal of fish";
    char bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    ck_assert_uint_eq(hash_bytes("", 0, 0), 0x2d06800538d394c2);
    ck_assert_uint_eq(hash_bytes(text, strlen(text), 0), 0xb53b38ef3f401a99);
    ck_assert_uint_eq(hash_bytes(text, strlen(text), 5), 0x6fdba13bc145c8b8);
    ck_assert_uint_eq(hash_bytes(bytes, sizeof bytes, 1), 0xaa835a6ff549c24f);
    ck_assert_uint_eq(key_of_value(3, "a", 1), 0x00031fe818d91b9c);
    ck_assert_uint_eq(key_of_value(3, "4711", 4), 0x00038b6909e470e7);
    ck_assert_uint_eq(key_of_value(7, text, strlen(text)), 0x00072ea6e1d9d4fa);
    ck_assert_uint_eq(key_mix(1), 0xb456bcfc34c2cb2c);
    ck_assert_uint_eq(rng_mix(1), 0x5692161d100b05e5);
    ck_assert_uint_eq(hash_crc32c(bytes, sizeof bytes), 0xd8ab6f7a);
    struct hash_stream *h = hash_stream_new();
    ck_assert_ptr_nonnull(h);
    hash_stream_add(h, bytes, 100);
    hash_stream_add(h, bytes + 100, 200);
    ck_assert_uint_eq(hash_stream_value(h), hash_bytes(bytes, sizeof bytes, 0));
    hash_stream_reset(h, 5);
    hash_stream_add(h, bytes, sizeof bytes);
    ck_assert_uint_eq(hash_stream_value(h), hash_bytes(bytes, sizeof bytes, 5));
    hash_stream_free(h);
}
END_TEST

START_TEST(crc32c_of_the_known_words)
{
    static const unsigned char zeros[32];
    ck_assert_uint_eq(hash_crc32c("123456789", 9), 0xe3069283u);
    ck_assert_uint_eq(hash_crc32c(zeros, 32), 0x8a9136aau); /* RFC 3720, B.4 */
    ck_assert_uint_eq(hash_crc32c("", 0), 0);
    ck_assert_uint_ne(hash_crc32c("123456788", 9), 0xe3069283u);
    ck_assert_uint_eq(hash_crc32c_by_table(0, "123456789", 9), 0xe3069283u);
}
END_TEST

START_TEST(crc32c_is_the_same_by_instruction_and_by_table)
{
    static unsigned char bytes[8000];
    for (uint32_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 24);
    for (size_t count = 0; count < sizeof bytes - 8; count += count < 600 ? 1 : 37)
        ck_assert_uint_eq(hash_crc32c_extend(5, bytes + count % 8, count),
                          hash_crc32c_by_table(5, bytes + count % 8, count));
}
END_TEST

START_TEST(sort_u32_puts_numbers_in_order)
{
    static uint32_t value[5000], scratch[5000];
    static const uint32_t mask[] = {0xffffffffu, 0xff, 0xff00ff00u, 0};
    struct rng g = rng_of(1, 2, 3);
    for (size_t count = 0; count < 5000; count = count * 3 / 2 + 1)
        for (int m = 0; m < 4; m++) {
            uint64_t sum = 0;
            for (size_t i = 0; i < count; i++)
                sum += value[i] = (uint32_t)rng_next(&g) & mask[m];
            array_sort(value, scratch, count);
            for (size_t i = 0; i < count; i++) {
                ck_assert(i == 0 || value[i - 1] <= value[i]);
                sum -= value[i];
            }
            ck_assert_uint_eq(sum, 0);
        }
}
END_TEST

START_TEST(text_that_does_not_fit_is_cut)
{
    char out[8] = "--------";
    text_copy(out, 4, "abc");
    ck_assert_mem_eq(out, "abc\0----", 8);
    text_copy(out, 4, "abcd");
    ck_assert_mem_eq(out, "abc\0----", 8);
    text_copy(out, 1, "x");
    ck_assert_mem_eq(out, "\0bc\0----", 8);
}
END_TEST

static const char *cleaned(const char *text)
{
    static char out[64];
    text_copy(out, sizeof out, text);
    text_clean(out);
    return out;
}

START_TEST(text_that_would_speak_to_a_terminal_is_cleaned)
{
    ck_assert_str_eq(cleaned("plain, \xc3\xa9\xe2\x82\xac too"), "plain, \xc3\xa9\xe2\x82\xac too");
    ck_assert_str_eq(cleaned("a\n<0>b\x1b[2J\x7f\r\tz"), "a?<0>b?[2J???z");
    ck_assert_str_eq(cleaned("\x9b"
                             "2J \xc2\x9b"
                             "2J \xc2\xa0"),
                     "?2J ??2J \xc2\xa0");
    ck_assert_str_eq(cleaned("\xb0 \xff \xe2\x82 \xc3"), "? ? ?? ?"); /* no UTF-8 */
    ck_assert_str_eq(cleaned("\xc0\x9b \xe0\x82\x9b \xed\xa0\x80"), "?? ??? ???");
    ck_assert_str_eq(cleaned("\xf0\x9f\x98\x80 \xf4\x90\x80\x80"), "\xf0\x9f\x98\x80 ????");
    ck_assert_str_eq(cleaned(""), "");
}
END_TEST

START_TEST(text_passwords_of_urls_are_hidden)
{
    static const char *const of[][2] = {
        {"s3://me:pw@host/a", "s3://*****@host/a"},
        {"\"zookeeper://u:p@ss@h1,h2/x\"", "\"zookeeper://******@h1,h2/x\""},
        {"a://u:p@h b://v:q@i", "a://***@h b://***@i"},
        {"https://h/a@b me@h ://", "https://h/a@b me@h ://"},
        {"tcp://h:7000 x@y", "tcp://h:7000 x@y"},
        {"://@", "://@"},
        {"", ""}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%s", of[i][0]);
        text_passwords_hide(text, strlen(text));
        ck_assert_str_eq(text, of[i][1]);
    }
    char part[] = "a://u:p@h";
    text_passwords_hide(part, 7); /* the end of the bytes is an end */
    ck_assert_str_eq(part, "a://u:p@h");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base");
    TCase *t = tcase_create("base");
    tcase_add_test(t, err_every_code_has_text_and_status);
    tcase_add_test(t, err_wrap_puts_the_place_before_the_sentence);
    tcase_add_test(t, err_wrap_never_overflows);
    tcase_add_test(t, key_mix_is_a_bijection);
    tcase_add_test(t, salts_keep_crafted_keys_apart);
    tcase_add_test(t, key_holds_its_field);
    tcase_add_test(t, key_of_an_id_is_the_number_itself);
    tcase_add_test(t, msg_frames_come_back_to_the_pool);
    tcase_add_test(t, msg_pool_keeps_no_more_than_it_is_told);
    tcase_add_test(t, msg_refuses_frames_over_the_limit);
    tcase_add_test(t, hashes_are_those_of_every_release);
    tcase_add_test(t, crc32c_of_the_known_words);
    tcase_add_test(t, crc32c_is_the_same_by_instruction_and_by_table);
    tcase_add_test(t, sort_u32_puts_numbers_in_order);
    tcase_add_test(t, text_that_does_not_fit_is_cut);
    tcase_add_test(t, text_that_would_speak_to_a_terminal_is_cleaned);
    tcase_add_test(t, text_passwords_of_urls_are_hidden);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
