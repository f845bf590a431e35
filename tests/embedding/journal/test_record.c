/* test_record.c: records of the journal as bytes. */
#include "embedding/journal/record.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define PUSH_SEAL 0x4df89fb5a7ec7af7ull
#define FENCE_SEAL 0x685347bfaf60c1eeull
#define PUSH_SEAL_0_2_0 0x4b9102b0a24957c5ull
#define FENCE_SEAL_0_2_0 0xb27bafef53fe3a88ull
#define SEGMENT_SEAL 0x34966be426b885baull

static struct push_record push_of(uint64_t *keys, float *gradients)
{
    return (struct push_record){.run = 5,
                                .generation = 2,
                                .from = 6,
                                .to = 7,
                                .lane = 1,
                                .table = 3,
                                .tablet_first = 4,
                                .tablet_count = 8,
                                .lr_scale = 0.5f,
                                .key_count = 3,
                                .keys = keys,
                                .gradients = gradients};
}

/* Lays a sealed push record out as in a segment; returns its bytes. */
static size_t lay_out(char *out, uint64_t segment)
{
    uint64_t keys[3] = {10, 20, 30};
    float gradients[6] = {1, 2, 3, 4, 5, 6};
    struct push_record r = push_of(keys, gradients);
    struct record_header h;
    struct record_payload payload;
    record_of_push(&r, 8, 0, &h, &payload);
    h.sequence = 9;
    h.segment = segment;
    record_seal(&h, &payload);
    memcpy(out, &h, sizeof h);
    memcpy(out + sizeof h, keys, sizeof keys);
    memcpy(out + sizeof h + sizeof keys, gradients, sizeof gradients);
    return sizeof h + sizeof keys + sizeof gradients;
}

/* Makes it a record of release 0.2.0, whose head is shorter; returns its bytes. */
static size_t of_0_2_0(char *record, size_t count)
{
    const uint32_t magic = RECORD_MAGIC_0_2_0;
    const size_t head = offsetof(struct record_header, clock), more = sizeof(struct record_header);
    memcpy(record, &magic, sizeof magic);
    memmove(record + head, record + more, count - more);
    record_reseal(record);
    return count - (more - head);
}

/* Records of runs have the payload of every release, and another kind where a table has a number
 * that older releases cannot have. */
START_TEST(records_of_runs_come_back_in_both_forms)
{
    struct table_set near = table_set_word(UINT64_MAX), far = table_set_one(LIMIT_TABLES - 1);
    struct record_run_open open = {.run = 7, .tables = near, .lanes = 2, .mode = 1}, payload, back;
    struct record_restore restore = {
        .cut = 5, .run = 8, .existing = table_set_word(6), .tables = near, .lanes = 3, .mode = 2};
    struct record_restore restored, again;
    size_t bytes;
    ck_assert_int_eq(record_of_run_open(&open, &payload, &bytes), RECORD_RUN_OPEN);
    ck_assert_uint_eq(bytes, RECORD_RUN_OPEN_BYTES);
    record_to_run_open(RECORD_RUN_OPEN, &payload, &back);
    ck_assert_mem_eq(&back, &open, sizeof open);
    open.tables = table_set_or(near, far);
    ck_assert_int_eq(record_of_run_open(&open, &payload, &bytes), RECORD_RUN_OPEN_FAR);
    ck_assert_uint_eq(bytes, sizeof open);
    record_to_run_open(RECORD_RUN_OPEN_FAR, &payload, &back);
    ck_assert_mem_eq(&back, &open, sizeof open);
    ck_assert_int_eq(record_of_restore(&restore, &restored, &bytes), RECORD_RESTORE);
    ck_assert_uint_eq(bytes, RECORD_RESTORE_BYTES);
    record_to_restore(RECORD_RESTORE, &restored, &again);
    ck_assert_mem_eq(&again, &restore, sizeof restore);
    for (int i = 0; i < 2; i++) { /* either set alone */
        restore.existing = i == 0 ? far : near;
        restore.tables = i == 0 ? near : far;
        ck_assert_int_eq(record_of_restore(&restore, &restored, &bytes), RECORD_RESTORE_FAR);
        ck_assert_uint_eq(bytes, sizeof restore);
        record_to_restore(RECORD_RESTORE_FAR, &restored, &again);
        ck_assert_mem_eq(&again, &restore, sizeof restore);
    }
}
END_TEST

/* _i 1: of release 0.2.0. */
START_TEST(push_comes_back_as_it_was)
{
    _Alignas(8) char bytes[512];
    size_t count = lay_out(bytes, 1);
    if (_i == 1)
        count = of_0_2_0(bytes, count);
    struct record_header h;
    const void *payload;
    struct push_record r;
    ck_assert_int_eq(record_read(bytes, sizeof bytes, 1, &h, &payload), 0);
    ck_assert_uint_eq(record_length(&h), count);
    ck_assert(_i == 1 || record_bytes(h.payload_bytes) == count);
    ck_assert(h.clock == 0 && h.age == 0 && h.width == 0);
    ck_assert_int_eq(record_to_push(&h, payload, 8, &r), 0);
    ck_assert_uint_eq(r.run, 5);
    ck_assert_uint_eq(r.generation, 2);
    ck_assert_uint_eq(r.from, 6);
    ck_assert_uint_eq(r.to, 7);
    ck_assert_uint_eq(r.lane, 1);
    ck_assert_uint_eq(r.table, 3);
    ck_assert_uint_eq(r.tablet_first, 4);
    ck_assert_uint_eq(r.tablet_count, 8);
    ck_assert_float_eq(r.lr_scale, 0.5f);
    ck_assert_uint_eq(r.keys[2], 30);
    ck_assert_float_eq(((const float *)r.gradients)[5], 6);
    ck_assert_int_eq(record_to_push(&h, payload, 12, &r), SHOAL_E_MALFORMED);
}
END_TEST

/* A tablet that is assigned: the head of a push, and an image in the place of keys. */
START_TEST(assignment_comes_back_as_it_was)
{
    _Alignas(8) char bytes[512];
    static const char image[21] = "rows, all in an image";
    struct push_record r = push_of(NULL, NULL);
    struct record_header h;
    struct record_payload pieces;
    const void *payload;
    r.key_count = 0;
    r.tablet_count = 1;
    r.image = image;
    r.image_bytes = sizeof image;
    record_of_push(&r, 8, RECORD_FLAG_BSP, &h, &pieces);
    ck_assert(record_pushes(h.kind) && h.kind != RECORD_PUSH);
    h.sequence = 9;
    h.segment = 1;
    record_seal(&h, &pieces);
    memcpy(bytes, &h, sizeof h);
    memcpy(bytes + sizeof h, image, sizeof image);
    ck_assert_uint_eq(record_length(&h), record_bytes(sizeof image));
    ck_assert_int_eq(record_read(bytes, sizeof bytes, 1, &h, &payload), 0);
    memset(&r, 0, sizeof r);
    ck_assert_int_eq(record_to_push(&h, payload, 8, &r), 0);
    ck_assert(r.run == 5 && r.generation == 2 && r.from == 6 && r.to == 7);
    ck_assert(r.lane == 1 && r.table == 3 && r.tablet_first == 4 && r.tablet_count == 1);
    ck_assert(r.key_count == 0 && r.keys == NULL && r.image_bytes == sizeof image);
    ck_assert_mem_eq(r.image, image, sizeof image);
    for (size_t bit = 0; bit < 8 * (sizeof h + sizeof image); bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        ck_assert_int_ne(record_read(bytes, sizeof bytes, 1, &h, &payload), 0);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    ck_assert_int_eq(record_read(bytes, sizeof bytes, 1, &h, &payload), 0);
    h.tablet_count = 2;
    ck_assert_int_eq(record_to_push(&h, payload, 8, &r), SHOAL_E_MALFORMED);
    h.tablet_count = 1;
    h.key_count = 1;
    ck_assert_int_eq(record_to_push(&h, payload, 8, &r), SHOAL_E_MALFORMED);
    h.key_count = 0;
    h.payload_bytes = 0;
    ck_assert_int_eq(record_to_push(&h, payload, 8, &r), SHOAL_E_MALFORMED);
    h.age = 1; /* a later release's */
    ck_assert(!record_known(&h));
}
END_TEST

/* Rows by key: keys, and the rows behind them; of no run, and with flags that say their parts. */
START_TEST(rows_come_back_as_they_were)
{
    static struct {
        uint64_t keys[3];
        float rows[3 * 5];
    } m = {{7, 8, 9}, {1, 2, 3}};
    _Alignas(8) char bytes[512];
    struct push_record r = {.table = 3,
                            .tablet_first = 4,
                            .tablet_count = 2,
                            .key_count = 3,
                            .keys = m.keys,
                            .rows = m.rows,
                            .row_floats = 5,
                            .parts = 10};
    struct record_header h;
    struct record_payload pieces;
    const void *payload;
    record_of_push(&r, 8, 0, &h, &pieces);
    ck_assert(record_pushes(h.kind) && record_has_keys(h.kind) && h.kind != RECORD_PUSH);
    ck_assert_uint_eq(pieces.bytes[0], sizeof m - 4); /* m ends with padding */
    h.sequence = 9;
    h.segment = 1;
    record_seal(&h, &pieces);
    memcpy(bytes, &h, sizeof h);
    memcpy(bytes + sizeof h, &m, pieces.bytes[0]);
    ck_assert_int_eq(record_read(bytes, sizeof bytes, 1, &h, &payload), 0);
    memset(&r, 0, sizeof r);
    ck_assert_int_eq(record_to_push(&h, payload, 8, &r), 0);
    ck_assert(r.table == 3 && r.tablet_first == 4 && r.tablet_count == 2 && r.run == 0);
    ck_assert(r.key_count == 3 && r.row_floats == 5 && r.parts == 10 && r.image == NULL);
    ck_assert_mem_eq(r.keys, m.keys, sizeof m.keys);
    ck_assert_mem_eq(r.rows, m.rows, sizeof m.rows);
    for (size_t bit = 0; bit < 8 * (sizeof h + pieces.bytes[0]); bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        ck_assert_int_ne(record_read(bytes, sizeof bytes, 1, &h, &payload), 0);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    ck_assert_int_eq(record_read(bytes, sizeof bytes, 1, &h, &payload), 0);
    const struct record_header good = h;
    for (int k = 0; k < 5; k++) {
        h = good;
        h.key_count += k == 0;
        h.key_count -= k == 1 ? 3 : 0;
        h.flags |= k == 2; /* of bsp */
        h.run = k == 3;
        h.payload_bytes -= k == 4 ? 4 : 0;
        ck_assert_int_eq(record_to_push(&h, payload, 8, &r), SHOAL_E_MALFORMED);
    }
    h = good;
    h.age = 1; /* a later release's */
    ck_assert(!record_known(&h));
}
END_TEST

/* A push keeps the width of its gradients, its clock and its age; one of a width that this release
 * does not know is a later one's, and a control record has none of them. */
START_TEST(values_of_a_push_are_known_or_refused)
{
    static const struct {
        uint32_t width, age;
        uint64_t clock;
        uint16_t kind;
        int status;
    } cases[] = {{0, 0, 0, RECORD_PUSH, 0},
                 {8, 0, 0, RECORD_PUSH, 0},
                 {16, UINT32_MAX, UINT64_MAX, RECORD_PUSH, 0},
                 {0, 3, 7, RECORD_PUSH, 0},
                 {4, 0, 0, RECORD_PUSH, SHOAL_E_VERSION},
                 {16, 0, 0, RECORD_FENCE, SHOAL_E_VERSION},
                 {0, 1, 0, RECORD_FENCE, SHOAL_E_VERSION},
                 {0, 0, 1, RECORD_FENCE, SHOAL_E_VERSION}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        _Alignas(8) char bytes[512];
        struct record_header h;
        const void *payload;
        struct push_record r;
        (void)lay_out(bytes, 1);
        memcpy(&h, bytes, sizeof h);
        h.width = cases[i].width;
        h.clock = cases[i].clock;
        h.age = cases[i].age;
        h.kind = cases[i].kind;
        memcpy(bytes, &h, sizeof h);
        record_reseal(bytes);
        ck_assert_int_eq(record_read(bytes, sizeof bytes, 1, &h, &payload), cases[i].status);
        if (cases[i].status != 0)
            continue;
        ck_assert_int_eq(record_to_push(&h, payload, 8, &r), 0);
        ck_assert_uint_eq(r.width, cases[i].width);
        ck_assert_uint_eq(r.clock, cases[i].clock);
        ck_assert_uint_eq(r.age, cases[i].age);
        struct record_payload pieces;
        struct record_header same;
        record_of_push(&r, 8, h.flags, &same, &pieces);
        ck_assert_uint_eq(same.clock, h.clock);
        ck_assert_uint_eq(same.age, h.age);
    }
}
END_TEST

/* The same for a record that is no push. */
static size_t lay_out_fence(char *out)
{
    struct record_fence f = {.run = 5, .generation = 2, .lane = 1, .live = 1};
    struct record_header h = {.kind = RECORD_FENCE, .sequence = 9, .segment = 1, .synced = 7};
    record_seal(&h, &(struct record_payload){{&f, NULL}, {sizeof f, 0}});
    memcpy(out, &h, sizeof h);
    memcpy(out + sizeof h, &f, sizeof f);
    return sizeof h + sizeof f;
}

/* _i, bit 0: a fence; bit 1: of release 0.2.0. */
START_TEST(every_flipped_bit_is_found)
{
    _Alignas(8) char bytes[512];
    size_t count = (_i & 1) == 0 ? lay_out(bytes, 1) : lay_out_fence(bytes);
    if ((_i & 2) != 0)
        count = of_0_2_0(bytes, count);
    struct record_header h;
    const void *payload;
    for (size_t i = 0; i < 8 * count; i++) {
        bytes[i / 8] ^= (char)(1 << i % 8);
        ck_assert_msg(record_read(bytes, sizeof bytes, 1, &h, &payload) == SHOAL_E_END, "bit %zu",
                      i);
        bytes[i / 8] ^= (char)(1 << i % 8);
    }
    ck_assert_int_eq(record_read(bytes, sizeof bytes, 1, &h, &payload), 0);
}
END_TEST

/* A lane's batch without a key for this shard still moves its marks. */
START_TEST(a_push_of_no_keys_comes_back)
{
    _Alignas(8) char bytes[512] = {0};
    struct push_record r = push_of(NULL, NULL);
    struct record_header h;
    struct record_payload pieces;
    const void *payload;
    r.key_count = 0;
    record_of_push(&r, 8, 0, &h, &pieces);
    h.sequence = 9;
    h.segment = 1;
    record_seal(&h, &pieces);
    memcpy(bytes, &h, sizeof h);
    ck_assert_int_eq(record_read(bytes, sizeof bytes, 1, &h, &payload), 0);
    ck_assert_int_eq(record_to_push(&h, payload, 8, &r), 0);
    ck_assert(r.to == 7 && r.key_count == 0);
}
END_TEST

/* The seals are fixed: a release with other seals would find every journal torn at its first
 * record. */
START_TEST(seals_are_those_of_every_release)
{
    _Alignas(8) char bytes[512];
    struct segment_header s = {
        .magic = SEGMENT_MAGIC, .generation = 3, .first = 10, .previous = 9, .bytes = 65536};
    struct record_header h;
    size_t count = lay_out(bytes, 1);
    memcpy(&h, bytes, sizeof h);
    ck_assert_uint_eq(h.checksum, PUSH_SEAL);
    of_0_2_0(bytes, count);
    memcpy(&h, bytes, sizeof h);
    ck_assert_uint_eq(h.checksum, PUSH_SEAL_0_2_0);
    count = lay_out_fence(bytes);
    memcpy(&h, bytes, sizeof h);
    ck_assert_uint_eq(h.checksum, FENCE_SEAL);
    of_0_2_0(bytes, count);
    memcpy(&h, bytes, sizeof h);
    ck_assert_uint_eq(h.checksum, FENCE_SEAL_0_2_0);
    ck_assert_uint_eq(record_segment_checksum(&s), SEGMENT_SEAL);
}
END_TEST

/* _i 1: of release 0.2.0. */
START_TEST(a_torn_record_is_none)
{
    _Alignas(8) char bytes[512];
    size_t count = lay_out(bytes, 1);
    if (_i == 1)
        count = of_0_2_0(bytes, count);
    struct record_header h;
    const void *payload;
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(record_read(bytes, i, 1, &h, &payload), SHOAL_E_END);
    ck_assert_int_eq(record_read(bytes, count, 1, &h, &payload), 0);
}
END_TEST

/* A segment's first record comes after the record that its head names as the previous one. */
START_TEST(a_segment_begins_behind_the_one_before)
{
    for (uint64_t first = 8; first <= 11; first++) {
        struct segment_header h = {
            .magic = SEGMENT_MAGIC, .generation = 3, .first = first, .previous = 9};
        h.checksum = record_segment_checksum(&h);
        ck_assert_int_eq(record_segment_good(&h, 3), first > 9);
        ck_assert_int_eq(record_segment_good(&h, 0), first > 9);
        ck_assert(!record_segment_good(&h, 4));
    }
}
END_TEST

START_TEST(another_generation_is_none)
{
    _Alignas(8) char bytes[512];
    lay_out(bytes, 1);
    struct record_header h;
    const void *payload;
    ck_assert_int_eq(record_read(bytes, sizeof bytes, 2, &h, &payload), SHOAL_E_END);
    /* Setting the field does not help: the checksum covers it. */
    ((struct record_header *)(void *)bytes)->segment = 2;
    ck_assert_int_eq(record_read(bytes, sizeof bytes, 2, &h, &payload), SHOAL_E_END);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("record");
    TCase *t = tcase_create("record");
    tcase_add_test(t, values_of_a_push_are_known_or_refused);
    tcase_add_loop_test(t, push_comes_back_as_it_was, 0, 2);
    tcase_add_test(t, assignment_comes_back_as_it_was);
    tcase_add_test(t, rows_come_back_as_they_were);
    tcase_add_loop_test(t, every_flipped_bit_is_found, 0, 4);
    tcase_add_test(t, a_push_of_no_keys_comes_back);
    tcase_add_test(t, seals_are_those_of_every_release);
    tcase_add_test(t, records_of_runs_come_back_in_both_forms);
    tcase_add_loop_test(t, a_torn_record_is_none, 0, 2);
    tcase_add_test(t, a_segment_begins_behind_the_one_before);
    tcase_add_test(t, another_generation_is_none);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
