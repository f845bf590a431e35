/* test_event.c: event records come back unchanged, and one changed bit is noticed. */
#include "proto/wire/event.h"
#include "tests/lib/event_reader.h"

#include <check.h>
#include <string.h>

static unsigned char record[EVENT_BYTES_MAX];

START_TEST(event_record_is_framed_as_published)
{
    /* Event{wall_time: 0, file_version: "brain.Event:2"}: 24 bytes of payload; checksums computed
     * by hand from CRC-32C. */
    static const unsigned char head[] = {24, 0, 0, 0, 0, 0, 0, 0};
    static const unsigned char payload[] = {0x09, 0,    0,   0,   0,   0,   0,   0,
                                            0,    0x1a, 13,  'b', 'r', 'a', 'i', 'n',
                                            '.',  'E',  'v', 'e', 'n', 't', ':', '2'};

    ck_assert_uint_eq(event_version(0, record), 12 + sizeof payload + 4);
    ck_assert_mem_eq(record, head, sizeof head);
    ck_assert_mem_eq(record + 12, payload, sizeof payload);
    uint32_t c = hash_crc32c(payload, sizeof payload), sum = ((c >> 15) | (c << 17)) + 0xa282ead8u;
    ck_assert_uint_eq(reader_number(record + 12 + sizeof payload, 4), sum);
    /* A well-known value: every event file of the last decade begins with 24 and these four
     * bytes. */
    static const unsigned char known[] = {0xa3, 0x7f, 0x4b, 0x22};
    ck_assert_mem_eq(record + 8, known, 4);
}
END_TEST

static size_t scalars_make(uint32_t count)
{
    struct event_scalar s[EVENT_SCALARS_MAX];
    for (uint32_t i = 0; i < count; i++)
        s[i] = (struct event_scalar){i % 2 == 0 ? "train/logloss" : "valid/auc", 0.25 + i};
    return event_scalars(1.7e9, 123456789012, s, count, record);
}

START_TEST(event_scalars_come_back)
{
    struct event_read got;
    static const uint32_t counts[] = {0, 1, 2, EVENT_SCALARS_MAX};
    size_t bytes = scalars_make(counts[_i]);
    const unsigned char *p = record;
    ck_assert(event_read(&p, record + bytes, &got));
    ck_assert_ptr_eq(p, record + bytes);
    ck_assert_uint_eq(got.count, counts[_i]);
    ck_assert_double_eq(got.wall_s, 1.7e9);
    ck_assert_int_eq(got.step, 123456789012);
    for (uint32_t i = 0; i < got.count; i++) {
        ck_assert_str_eq(got.tag[i], i % 2 == 0 ? "train/logloss" : "valid/auc");
        ck_assert_double_eq((double)got.value[i], 0.25 + i);
    }
}
END_TEST

START_TEST(event_damage_is_noticed)
{
    struct event_read got;
    size_t bytes = scalars_make(3);
    for (size_t i = 0; i < bytes; i++)
        for (int bit = 0; bit < 8; bit++) {
            const unsigned char *p = record;
            record[i] ^= (unsigned char)(1 << bit);
            ck_assert_msg(!event_read(&p, record + bytes, &got), "bit %d of byte %zu", bit, i);
            record[i] ^= (unsigned char)(1 << bit);
        }
    for (size_t cut = 0; cut < bytes; cut++) {
        const unsigned char *p = record;
        ck_assert(!event_read(&p, record + cut, &got));
    }
    const unsigned char *p = record;
    ck_assert(event_read(&p, record + bytes, &got));
}
END_TEST

START_TEST(event_tags_are_plain_and_fit)
{
    char name[400];
    struct event_read got;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    memcpy(name, "a\xff\n\xc3\xa9\x7f~", 7);
    struct event_scalar s = {name, 1};
    size_t bytes = event_scalars(0, 0, &s, 1, record);
    const unsigned char *p = record;
    ck_assert(event_read(&p, record + bytes, &got));
    ck_assert_uint_eq(strlen(got.tag[0]), EVENT_TAG_MAX - 1);
    ck_assert_mem_eq(got.tag[0], "a_____~x", 8);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("event");
    TCase *t = tcase_create("event");
    tcase_add_test(t, event_record_is_framed_as_published);
    tcase_add_loop_test(t, event_scalars_come_back, 0, 4);
    tcase_add_test(t, event_damage_is_noticed);
    tcase_add_test(t, event_tags_are_plain_and_fit);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
