/* test_wire.c: messages are encoded and decoded; what does not fit is refused. */
#include "proto/base/rng.h"
#include "proto/wire/wire.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct msg *push_message(uint32_t keys, uint32_t width)
{
    struct wire w = {.type = WIRE_TYPE_PUSH, .id = 77};
    w.u.PUSH = (struct wire_PUSH){.run = 1ull << 60,
                                  .table = 2,
                                  .lane = 3,
                                  .generation = 4,
                                  .from = 5,
                                  .to = 6,
                                  .tablet_first = 0,
                                  .tablet_count = 1024,
                                  .lr_scale = 0.1f,
                                  .key_count = keys,
                                  .map_epoch = 9};
    struct msg *m = wire_encode(&w);
    memset(msg_add(m, 8ull * keys), 1, 8ull * keys);
    memset(msg_add(m, 4ull * keys * width), 0, 4ull * keys * width);
    (void)msg_add(m, 0);
    return m;
}

START_TEST(wire_push_comes_back_as_it_went)
{
    struct wire got;
    struct err e = {0};
    struct msg *m = push_message(10, 16);
    ck_assert_int_eq(wire_decode(m, &got, &e), 0);
    ck_assert_int_eq(got.type, WIRE_TYPE_PUSH);
    ck_assert_uint_eq(got.id, 77);
    ck_assert(!got.reply);
    ck_assert_uint_eq(got.u.PUSH.run, 1ull << 60);
    ck_assert_uint_eq(got.u.PUSH.to, 6);
    ck_assert(got.u.PUSH.lr_scale == 0.1f);
    msg_free(m);
}
END_TEST

static int chunk_decoded(struct wire_RING_CHUNK chunk, size_t bytes)
{
    struct wire w = {.type = WIRE_TYPE_RING_CHUNK, .u.RING_CHUNK = chunk}, got;
    struct err e = {0};
    struct msg *m = wire_encode(&w);
    ck_assert_ptr_nonnull(msg_add(m, bytes));
    int rc = wire_decode(m, &got, &e);
    ck_assert(rc == 0 || e.text[0] != '\0');
    msg_free(m);
    return rc;
}

START_TEST(wire_chunk_of_a_ring_has_what_its_header_says)
{
    const struct wire_RING_CHUNK good = {.weight = 1, .floats = 100};
    struct wire_RING_CHUNK c = good;
    ck_assert_int_eq(chunk_decoded(good, 400), 0);
    ck_assert_int_eq(chunk_decoded(good, 396), SHOAL_E_MALFORMED);
    c.values = VALUES_BF16;
    ck_assert_int_eq(chunk_decoded(c, 200), 0);
    ck_assert_int_eq(chunk_decoded(c, 400), SHOAL_E_MALFORMED);
    c.values = VALUES_FP16;
    ck_assert_int_eq(chunk_decoded(c, 200), SHOAL_E_MALFORMED);
    c.values = 77;
    ck_assert_int_eq(chunk_decoded(c, 200), SHOAL_E_MALFORMED);
    c = good;
    c.weight = 0; /* without examples it has no floats */
    ck_assert_int_eq(chunk_decoded(c, 400), SHOAL_E_MALFORMED);
    c.floats = 0;
    ck_assert_int_eq(chunk_decoded(c, 0), 0);
    c = good;
    c.floats = WIRE_RING_FLOATS + 1;
    ck_assert_int_eq(chunk_decoded(c, 4 * (WIRE_RING_FLOATS + 1)), SHOAL_E_TOO_BIG);
    c = good;
    c.chunk = WIRE_RING_CHUNKS;
    ck_assert_int_eq(chunk_decoded(c, 400), SHOAL_E_TOO_BIG);
}
END_TEST

static int rows_decoded(struct wire_ASSIGN assign, size_t bytes)
{
    struct wire w = {.type = WIRE_TYPE_ASSIGN, .u.ASSIGN = assign}, got;
    struct err e = {0};
    struct msg *m = wire_encode(&w);
    ck_assert_ptr_nonnull(msg_add(m, bytes));
    int rc = wire_decode(m, &got, &e);
    ck_assert(rc == 0 || e.text[0] != '\0');
    msg_free(m);
    return rc;
}

START_TEST(wire_rows_by_key_have_what_their_header_says)
{
    const struct wire_ASSIGN good = {.tablet_count = 1, .key_count = 10};
    struct wire_ASSIGN a = good;
    ck_assert_int_eq(rows_decoded(good, 10 * (8 + 4 * 3)), 0);
    ck_assert_int_eq(rows_decoded(good, 10 * (8 + 4 * 3) - 4), SHOAL_E_MALFORMED);
    ck_assert_int_eq(rows_decoded(good, 10 * 8), SHOAL_E_MALFORMED);
    ck_assert_int_eq(rows_decoded(good, 7), SHOAL_E_MALFORMED);
    a.parts = WIRE_ASSIGN_PARTS;
    ck_assert_int_eq(rows_decoded(a, 120), 0);
    a.parts++;
    ck_assert_int_eq(rows_decoded(a, 120), SHOAL_E_VERSION);
    a = good;
    a.key_count = LIMIT_KEYS + 1;
    ck_assert_int_eq(rows_decoded(a, 12ull * (LIMIT_KEYS + 1)), SHOAL_E_TOO_BIG);
    a = good;
    a.key_count = 0;
    ck_assert_int_eq(rows_decoded(a, 120), SHOAL_E_MALFORMED);
    for (int i = 0; i < 5; i++) { /* rows are of no run */
        a = good;
        a.run = i == 0;
        a.lane = i == 1;
        a.generation = i == 2;
        a.from = i == 3;
        a.to = i == 4;
        ck_assert_int_eq(rows_decoded(a, 120), SHOAL_E_MALFORMED);
    }
    ck_assert_int_eq(rows_decoded((struct wire_ASSIGN){.run = 7, .to = 3}, 120), 0); /* an image */
}
END_TEST

START_TEST(wire_every_type_encodes_and_decodes)
{
    struct wire w, got;
    struct err e;
#define X(name, number, request_frames, reply_frames)                                              \
    for (int reply = 0; reply < 2; reply++) {                                                      \
        memset(&w, 0, sizeof w);                                                                   \
        w.type = WIRE_TYPE_##name;                                                                 \
        w.reply = reply != 0;                                                                      \
        struct msg *m = wire_encode(&w);                                                           \
        for (int f = 0; f < (reply ? reply_frames : request_frames); f++)                          \
            ck_assert_ptr_nonnull(                                                                 \
                msg_add(m, WIRE_TYPE_##name == WIRE_TYPE_TASK_DONE && f == 0 ? 512 : 0));          \
        e.text[0] = 0;                                                                             \
        ck_assert_msg(wire_decode(m, &got, &e) == 0, "%s: %s", #name, e.text);                     \
        ck_assert_int_eq(got.type, w.type);                                                        \
        msg_free(m);                                                                               \
    }
    WIRE_MAP(X)
#undef X
}
END_TEST

/* Each message, request and reply, with one raw frame less than it has, and with one more if there
 * is room. */
START_TEST(wire_wrong_frame_count_is_refused)
{
    struct wire got;
#define X(name, number, request_frames, reply_frames)                                              \
    for (int i = 0; i < 4; i++) {                                                                  \
        struct wire w = {.type = WIRE_TYPE_##name, .reply = i % 2 == 1};                           \
        int frames = (w.reply ? reply_frames : request_frames) + (i < 2 ? 1 : -1);                 \
        struct msg *m = wire_encode(&w);                                                           \
        for (int f = 0; f < frames && m->frame_count < LIMIT_FRAMES; f++)                          \
            ck_assert_ptr_nonnull(msg_add(m, 0));                                                  \
        if ((int)m->frame_count == 1 + frames)                                                     \
            ck_assert_msg(wire_decode(m, &got, NULL) == SHOAL_E_MALFORMED,                         \
                          "%s, reply %d, %d frames", #name, w.reply, frames);                      \
        msg_free(m);                                                                               \
    }
    WIRE_MAP(X)
#undef X
}
END_TEST

START_TEST(wire_count_that_does_not_fit_its_frame_is_refused)
{
    struct wire got;
    struct msg *m = push_message(10, 16);
    m->frame[1].bytes -= 8;
    ck_assert_int_eq(wire_decode(m, &got, NULL), SHOAL_E_MALFORMED);
    m->frame[1].bytes += 8;
    m->frame[2].bytes -= 4;
    ck_assert_int_eq(wire_decode(m, &got, NULL), SHOAL_E_MALFORMED);
    msg_free(m);
}
END_TEST

START_TEST(wire_too_many_keys_are_refused)
{
    struct wire got;
    struct wire w = {.type = WIRE_TYPE_PULL};
    w.u.PULL.key_count = LIMIT_KEYS + 1;
    struct msg *m = wire_encode(&w);
    msg_add(m, 8ull * (LIMIT_KEYS + 1));
    ck_assert_int_eq(wire_decode(m, &got, NULL), SHOAL_E_TOO_BIG);
    msg_free(m);
}
END_TEST

/* Predictions of 3 examples with 2 labels, a group, 2 fields and figures of 4 others; then each
 * number is lowered by one. */
START_TEST(wire_predictions_must_fit_their_frames)
{
    struct wire w = {.type = WIRE_TYPE_EVAL_DONE}, got;
    struct err e = {0};
    for (int i = 0; i < 9; i++) {
        w.u.EVAL_DONE = (struct wire_EVAL_DONE){.examples = 3 + (i == 1),
                                                .tasks = 2 + (i == 2),
                                                .grouped = i != 3,
                                                .by_count = 2 + (i == 4),
                                                .fields = 4 + (i == 5)};
        if (i == 6)
            w.u.EVAL_DONE.tasks = LIMIT_TASKS + 1;
        if (i == 7)
            w.u.EVAL_DONE.by_count = LIMIT_BY + 1;
        if (i == 8)
            w.u.EVAL_DONE.fields = LIMIT_FIELDS + 1;
        struct msg *m = wire_encode(&w);
        memset(msg_add(m, 3 * 2 * 8), 0, 3 * 2 * 8);
        memset(msg_add(m, 3 * 3 * 8 + 4 * 24), 0, 3 * 3 * 8 + 4 * 24);
        ck_assert_int_eq(wire_decode(m, &got, &e), i == 0  ? 0
                                                   : i < 6 ? SHOAL_E_MALFORMED
                                                           : SHOAL_E_TOO_BIG);
        msg_free(m);
    }
}
END_TEST

START_TEST(wire_losses_must_fit_their_labels)
{
    struct wire w = {.type = WIRE_TYPE_TASK_DONE}, got;
    struct err e = {0};
    for (uint32_t i = 0; i < 9; i++) {
        uint32_t tasks = 1 + i / 3, cells = i % 3;
        w.u.TASK_DONE.tasks = tasks;
        w.u.TASK_DONE.cells = cells;
        struct msg *m = wire_encode(&w);
        memset(msg_add(m, 512), 0, 512);
        memset(msg_add(m, 2 * 24 + 24), 0, 2 * 24 + 24); /* two labels, or the same length */
        ck_assert_int_eq(wire_decode(m, &got, &e), tasks + cells == 3 ? 0 : SHOAL_E_MALFORMED);
        msg_free(m);
    }
    w.u.TASK_DONE = (struct wire_TASK_DONE){
        .tasks = 2, .cells = 1, .by_count = 3, .values = 2, .value_cells = 5, .experts = 7};
    for (uint32_t i = 0; i < 4; i++) {
        size_t bytes = 2 * 24 + 24 + 3 * 16 + 2 * (32 + 2 * 24) + 5 * 16 + 7 * 8 + i % 2;
        w.u.TASK_DONE.more = i >= 2;
        if (i >= 2)
            bytes += 2ul * 2 * 16;
        struct msg *m = wire_encode(&w);
        (void)msg_add(m, 512);
        (void)msg_add(m, bytes);
        ck_assert_int_eq(wire_decode(m, &got, &e), i % 2 == 0 ? 0 : SHOAL_E_MALFORMED);
        msg_free(m);
    }
    w.u.TASK_DONE.cells = WIRE_TALLY_CELLS + 1;
    struct msg *m = wire_encode(&w);
    (void)msg_add(m, 512);
    (void)msg_add(m, 0);
    ck_assert_int_eq(wire_decode(m, &got, &e), SHOAL_E_TOO_BIG);
    msg_free(m);
}
END_TEST

/* Each number at its limit, and one more: that is too big, whatever the frames contain. */
START_TEST(wire_figures_of_a_task_are_bounded)
{
    static const uint32_t most[] = {LIMIT_TASKS,    WIRE_TALLY_CELLS, LIMIT_BY,
                                    WIRE_BY_VALUES, WIRE_BY_CELLS,    LIMIT_EXPERTS};
    for (uint32_t more = 0; more < 2; more++) {
        struct wire w = {.type = WIRE_TYPE_TASK_DONE}, got;
        uint32_t *const number[] = {&w.u.TASK_DONE.tasks,       &w.u.TASK_DONE.cells,
                                    &w.u.TASK_DONE.by_count,    &w.u.TASK_DONE.values,
                                    &w.u.TASK_DONE.value_cells, &w.u.TASK_DONE.experts};
        *number[_i] = most[_i] + more;
        struct msg *m = wire_encode(&w);
        (void)msg_add(m, 512);
        (void)msg_add(m, 1);
        ck_assert_int_eq(wire_decode(m, &got, NULL), more ? SHOAL_E_TOO_BIG : SHOAL_E_MALFORMED);
        msg_free(m);
    }
}
END_TEST

START_TEST(wire_gradients_of_no_key_are_refused)
{
    struct wire got;
    for (uint32_t bytes = 0; bytes <= 4; bytes += 4) {
        struct msg *m = wire_encode(&(struct wire){.type = WIRE_TYPE_PUSH});
        (void)msg_add(m, 0);
        (void)msg_add(m, bytes);
        (void)msg_add(m, 0);
        ck_assert_int_eq(wire_decode(m, &got, NULL), bytes == 0 ? 0 : SHOAL_E_MALFORMED);
        msg_free(m);
    }
}
END_TEST

/* The bitmap of a push has a bit for each key, and as many of them set as the header says. */
START_TEST(wire_echo_must_fit_its_keys)
{
    static const struct {
        uint32_t keys, echo;
        size_t bytes;
        unsigned char bits[3];
        int status;
    } push[] = {
        {10, 0, 0, {0}, 0},
        {10, 3, 2, {0x81, 0x02}, 0},
        {10, 10, 2, {0xff, 0x03}, 0},
        {8, 8, 1, {0xff}, 0},
        {16, 1, 2, {0, 0x80}, 0},
        {10, 0, 2, {0, 0}, SHOAL_E_MALFORMED},        /* nothing is asked for: no bitmap */
        {10, 1, 0, {0}, SHOAL_E_MALFORMED},           /* no bitmap */
        {10, 2, 2, {0x81, 0x02}, SHOAL_E_MALFORMED},  /* one bit more than the count */
        {10, 4, 2, {0x81, 0x02}, SHOAL_E_MALFORMED},  /* one less */
        {10, 1, 1, {0x01}, SHOAL_E_MALFORMED},        /* a byte is missing */
        {10, 1, 3, {0x01}, SHOAL_E_MALFORMED},        /* one too many */
        {10, 1, 2, {0, 0x04}, SHOAL_E_MALFORMED},     /* the bit of no key */
        {10, 11, 2, {0xff, 0x07}, SHOAL_E_MALFORMED}, /* more rows than keys */
        {0, 1, 0, {0}, SHOAL_E_MALFORMED},            /* a tick has no keys */
        {10, UINT32_MAX, 2, {0xff, 0x03}, SHOAL_E_MALFORMED},
    };
    struct wire got;
    for (size_t i = 0; i < sizeof push / sizeof push[0]; i++) {
        struct wire w = {.type = WIRE_TYPE_PUSH};
        w.u.PUSH.key_count = push[i].keys;
        w.u.PUSH.echo = push[i].echo;
        struct msg *m = wire_encode(&w);
        memset(msg_add(m, 8ull * push[i].keys), 1, 8ull * push[i].keys);
        memset(msg_add(m, 8ull * push[i].keys), 0, 8ull * push[i].keys);
        memcpy(msg_add(m, push[i].bytes), push[i].bits, push[i].bytes);
        ck_assert_msg(wire_decode(m, &got, NULL) == push[i].status, "case %zu", i);
        msg_free(m);
    }
}
END_TEST

/* A reply's frames must have the size that its counts give; a refusal has no frame. */
START_TEST(wire_replies_must_fit_their_frames)
{
    static const struct {
        uint32_t keys, width;
        size_t bytes;
        int status;
        uint32_t values;
    } rows[] = {
        {3, 2, 24, 0, 0},
        {3, 2, 20, SHOAL_E_MALFORMED, 0},
        {3, 2, 28, SHOAL_E_MALFORMED, 0},
        {0, 2, 4, SHOAL_E_MALFORMED, 0},
        {1, LIMIT_WIDTH, 4ul * LIMIT_WIDTH, 0, 0},
        {1, 4 * LIMIT_WIDTH + 1, 16ul * LIMIT_WIDTH + 4, SHOAL_E_TOO_BIG, 0},
        {3, 2, 12, 0, VALUES_BF16},
        {3, 2, 24, SHOAL_E_MALFORMED, VALUES_FP16},
        {3, 2, 12, SHOAL_E_MALFORMED, VALUES_BF16 + 1},
    };
    struct wire got;
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        const struct wire pull = {.type = WIRE_TYPE_PULL,
                                  .reply = true,
                                  .u.PULL_reply = {.key_count = rows[i / 2].keys,
                                                   .width = rows[i / 2].width,
                                                   .values = rows[i / 2].values}},
                          push = {.type = WIRE_TYPE_PUSH,
                                  .reply = true,
                                  .u.PUSH_reply = {.key_count = rows[i / 2].keys,
                                                   .width = rows[i / 2].width,
                                                   .values = rows[i / 2].values}};
        struct msg *m = wire_encode(i % 2 == 0 ? &pull : &push);
        (void)msg_add(m, rows[i / 2].bytes);
        ck_assert_int_eq(wire_decode(m, &got, NULL), rows[i / 2].status);
        msg_free(m);
    }
    /* a pulled row may have its optimizer's state behind it, an echoed one has not */
    for (int echo = 0; echo < 2; echo++) {
        struct wire w = {.type = WIRE_TYPE_PULL,
                         .reply = true,
                         .u.PULL_reply = {.key_count = 1, .width = LIMIT_WIDTH + 1}};
        if (echo)
            w = (struct wire){.type = WIRE_TYPE_PUSH,
                              .reply = true,
                              .u.PUSH_reply = {.key_count = 1, .width = LIMIT_WIDTH + 1}};
        struct msg *m = wire_encode(&w);
        (void)msg_add(m, 4ul * LIMIT_WIDTH + 4);
        ck_assert_int_eq(wire_decode(m, &got, NULL), echo ? SHOAL_E_TOO_BIG : 0);
        msg_free(m);
    }
    for (uint32_t tablets = 3; tablets < 6; tablets++) {
        struct wire w = {.type = WIRE_TYPE_MAP_GET, .reply = true};
        w.u.MAP_GET_reply.tablet_count = tablets;
        struct msg *m = wire_encode(&w);
        (void)msg_add(m, 8);
        (void)msg_add(m, 0);
        ck_assert_int_eq(wire_decode(m, &got, NULL), tablets == 4 ? 0 : SHOAL_E_MALFORMED);
        msg_free(m);
    }
}
END_TEST

/* A text of the allowed length is accepted; one that would break a line of a log is not. */
START_TEST(wire_texts_fit_and_are_one_line)
{
    struct wire w = {.type = WIRE_TYPE_HELLO}, got;
    memset(w.u.HELLO.role, 'r', sizeof w.u.HELLO.role - 1);
    w.u.HELLO.role[1] = '\n';
    w.u.HELLO.role[2] = 27;
    struct msg *m = wire_encode(&w);
    ck_assert_int_eq(wire_decode(m, &got, NULL), 0);
    ck_assert_uint_eq(strlen(got.u.HELLO.role), sizeof got.u.HELLO.role - 1);
    ck_assert(strpbrk(got.u.HELLO.role, "\n\033") == NULL);
    msg_free(m);
}
END_TEST

/* A header of that many bytes: an error text that is cut to fit, as a field that no release
 * knows. */
static int header_of(size_t bytes)
{
    struct wire got;
    struct msg *m = wire_encode(&(struct wire){.type = WIRE_TYPE_HELLO}), *long_one = msg_new();
    size_t head = m->frame[0].bytes, rest = bytes - head;
    unsigned char *to = msg_add(long_one, bytes);
    memcpy(to, m->frame[0].data, head);
    memset(to + head, 'x', rest);
    to[head] = 0xfa, to[head + 1] = 0x01; /* field 31, bytes; their number in three */
    for (uint32_t i = 0; i < 3; i++)
        to[head + 2 + i] = (unsigned char)(((rest - 5) >> 7 * i & 127) | (i < 2 ? 128 : 0));
    int rc = wire_decode(long_one, &got, NULL);
    msg_free(m);
    msg_free(long_one);
    return rc;
}

START_TEST(wire_headers_are_bounded)
{
    ck_assert_int_eq(header_of(LIMIT_HEADER_BYTES), 0);
    ck_assert_int_eq(header_of(LIMIT_HEADER_BYTES + 1), SHOAL_E_TOO_BIG);
}
END_TEST

START_TEST(wire_refusal_carries_status_sentence_and_fields)
{
    struct wire request = {.type = WIRE_TYPE_PUSH, .id = 5}, reply, got;
    wire_reply_to(&request, SHOAL_E_GAP, &reply);
    strcpy(reply.error, "batch 3 is missing here");
    reply.u.PUSH_reply.mark = 2;
    struct msg *m = wire_encode(&reply);
    ck_assert_int_eq(wire_decode(m, &got, NULL), 0);
    ck_assert_int_eq(got.status, SHOAL_E_GAP);
    ck_assert_str_eq(got.error, "batch 3 is missing here");
    ck_assert_uint_eq(got.u.PUSH_reply.mark, 2);
    msg_free(m);
    m = wire_refusal(&request, SHOAL_E_BUSY, "%d waiting", 9);
    ck_assert_int_eq(wire_decode(m, &got, NULL), 0);
    ck_assert_str_eq(got.error, "9 waiting");
    msg_free(m);
    request.type = WIRE_TYPE_PULL; /* a good reply has rows behind it, a refusal has none */
    m = wire_refusal(&request, SHOAL_E_BUSY, "%d waiting", 9);
    ck_assert_int_eq(wire_decode(m, &got, NULL), 0);
    ck_assert_int_eq(got.status, SHOAL_E_BUSY);
    msg_free(m);
}
END_TEST

START_TEST(wire_unknown_type_of_another_version_is_no_type)
{
    /* version 99, type 99, reply 0, id 1, status 0, error "", body "": as protobuf. */
    static const unsigned char header[] = {8, 99, 16, 99, 24, 0, 32, 1, 40, 0, 50, 0, 58, 0};
    struct wire got;
    struct msg *m = msg_new();

    memcpy(msg_add(m, sizeof header), header, sizeof header);
    ck_assert_int_eq(wire_decode(m, &got, NULL), SHOAL_E_VERSION);
    ck_assert_int_eq(got.type, WIRE_TYPE_NONE);
    ck_assert_uint_eq(got.id, 1);
    msg_free(m);
}
END_TEST

#define CORPUS "tests/fuzz/corpus/fuzz_wire"

/* Bytes of the frames of some requests with content; the frames of the others are empty. */
static size_t corpus_frame(enum wire_type type, bool reply, int frame)
{
    if (reply)
        return 0;
    if (type == WIRE_TYPE_TASK_DONE)
        return frame == 0 ? 512 : 48;
    if (type == WIRE_TYPE_PUSH && frame == 2)
        return 1;
    return type == WIRE_TYPE_PULL || type == WIRE_TYPE_PUSH || type == WIRE_TYPE_EVAL_DONE ? 16 : 0;
}

/* A message with as many frames as its type has, for the corpus. */
static struct msg *corpus_message(enum wire_type type, bool reply, int frames)
{
    struct wire w = {.type = type, .reply = reply, .id = 3};
    if (type == WIRE_TYPE_PULL && !reply)
        w.u.PULL.key_count = 2;
    if (type == WIRE_TYPE_PUSH && !reply)
        w.u.PUSH = (struct wire_PUSH){.key_count = 2, .echo = 1};
    if (type == WIRE_TYPE_TASK_DONE && !reply)
        w.u.TASK_DONE.tasks = w.u.TASK_DONE.cells = 1;
    if (type == WIRE_TYPE_EVAL_DONE && !reply)
        w.u.EVAL_DONE = (struct wire_EVAL_DONE){.examples = 2, .tasks = 1, .grouped = true};
    if (type == WIRE_TYPE_WORKER_JOIN && !reply) {
        strcpy(w.u.WORKER_JOIN.name, "worker-0");
        strcpy(w.u.WORKER_JOIN.kernel, "cublasLt 130002 sm_90 132 SMs NVIDIA H100 80GB HBM3");
        strcpy(w.u.WORKER_JOIN.backend, "cuda");
        strcpy(w.u.WORKER_JOIN.device, "NVIDIA H100 80GB HBM3 (device 0)");
        strcpy(w.u.WORKER_JOIN.why, "auto: there is a device");
    }
    struct msg *m = wire_encode(&w);
    for (int f = 0; f < frames; f++) {
        size_t bytes = corpus_frame(type, reply, f);
        void *data = msg_add(m, bytes);
        if (bytes > 0)
            memset(data, type == WIRE_TYPE_PUSH && f == 2, bytes); /* the first key's row */
    }
    return m;
}

/* In the form that fuzz_wire.c reads: two length bytes a frame, then the frame. */
static size_t corpus_bytes(const struct msg *m, unsigned char out[4096])
{
    size_t at = 0;
    for (uint32_t f = 0; f < m->frame_count; f++) {
        size_t bytes = m->frame[f].bytes;
        ck_assert_uint_lt(at + 2 + bytes, 4096);
        out[at++] = (unsigned char)bytes;
        out[at++] = (unsigned char)(bytes >> 8);
        if (bytes > 0)
            memcpy(out + at, m->frame[f].data, bytes);
        at += bytes;
    }
    return at;
}

static void corpus_check(const char *name, enum wire_type type, bool reply, int frames)
{
    char path[128];
    unsigned char want[4096], have[4096];
    struct wire got;
    struct err e = {0};
    struct msg *m = corpus_message(type, reply, frames);
    size_t bytes = corpus_bytes(m, want);
    snprintf(path, sizeof path, CORPUS "/%s%s", name, reply ? "_reply" : "");
    FILE *file = fopen(path, getenv("SHOAL_WRITE_CORPUS") != NULL ? "wb" : "rb");
    ck_assert_msg(file != NULL, "%s is missing: SHOAL_WRITE_CORPUS=1 writes the corpus anew", path);
    if (getenv("SHOAL_WRITE_CORPUS") != NULL)
        ck_assert_uint_eq(fwrite(want, 1, bytes, file), bytes);
    else
        ck_assert_msg(fread(have, 1, sizeof have, file) == bytes && memcmp(have, want, bytes) == 0,
                      "%s is not of this protocol: SHOAL_WRITE_CORPUS=1 writes the corpus anew",
                      path);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(wire_decode(m, &got, &e), 0);
    msg_free(m);
}

/* The fuzzer's seeds must be messages of this protocol: one of another version is refused at its
 * first field. */
START_TEST(wire_corpus_is_of_this_protocol)
{
#define X(name, number, request_frames, reply_frames)                                              \
    corpus_check(#name, WIRE_TYPE_##name, false, request_frames);                                  \
    corpus_check(#name, WIRE_TYPE_##name, true, reply_frames);
    WIRE_MAP(X)
#undef X
}
END_TEST

START_TEST(wire_garbage_never_harms)
{
    struct rng r = {42};
    struct wire got;
    for (int i = 0; i < 20000; i++) {
        struct msg *m = push_message(4, 2);
        unsigned char *p = m->frame[0].data;
        if (i % 2 == 0)
            for (size_t b = 0; b < m->frame[0].bytes; b++)
                p[b] = (unsigned char)rng_next(&r);
        else
            p[rng_below(&r, m->frame[0].bytes)] ^= (unsigned char)(1 + rng_below(&r, 255));
        (void)wire_decode(m, &got, NULL);
        msg_free(m);
    }
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

START_TEST(wire_decoding_allocates_nothing)
{
    struct wire got;
    struct msg *m = push_message(100, 16);
    for (int i = 0; i < 100; i++)
        msg_free(push_message(100, 16));
    uint64_t before = msg_allocations();
    for (int i = 0; i < 10000; i++) {
        ck_assert_int_eq(wire_decode(m, &got, NULL), 0);
        msg_free(push_message(100, 16));
    }
    ck_assert_uint_eq(msg_allocations(), before);
    msg_free(m);
}
END_TEST

START_TEST(wire_schema_goes_and_comes_back)
{
    struct table_schema s = {
        .name = "emb",
        .table = 1,
        .width = 17,
        .values = VALUES_BF16,
        .zero_first = 1,
        .tablet_bits = 10,
        .tablet_first = 64,
        .seed = 9,
        .init = {INIT_UNIFORM, 0.01f},
        .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.05f},
        .field_rule_count = 1,
        .field_rule = {{.field = 3, .has = FIELD_HAS_INIT, .kind = INIT_CONSTANT, .scale = 1.0f}},
        .rules = {.stats = 1,
                  .score_show = 0.1f,
                  .score_click = 1,
                  .admit_kind = ADMIT_COUNT,
                  .admit_threshold = 3,
                  .age_every = 86400,
                  .age_decay = 0.98f,
                  .age_ttl = 77,
                  .weight_max = 10}};
    struct table_schema got;
    struct wire_TABLE_CREATE w;
    struct frame f = {s.field_rule, sizeof s.field_rule[0], NULL, NULL};
    wire_schema_to(&s, &w);
    ck_assert_int_eq(wire_schema_from(&w, &f, &got, NULL), 0);
    ck_assert(schema_equal(&s, &got));
    s.optimizer = (struct optimizer_spec){.kind = OPT_ADAGRAD,
                                          .lr = 0.25f,
                                          .beta1 = 0.5f,
                                          .beta2 = 0.75f,
                                          .eps = 0.125f,
                                          .initial = 2,
                                          .l1 = 3,
                                          .l2 = 4,
                                          .beta = 5,
                                          .decay = 0.0625f,
                                          .fixed_lr = 1};
    struct optimizer_spec back;
    wire_schema_to(&s, &w);
    (void)wire_schema_from(&w, &f, &got, NULL); /* also if it is refused */
    back = got.optimizer;
    ck_assert_mem_eq(&back, &s.optimizer, sizeof back);
    w.width = 0;
    ck_assert_int_eq(wire_schema_from(&w, &f, &got, NULL), SHOAL_E_SCHEMA);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("wire");
    TCase *t = tcase_create("wire");
    tcase_add_test(t, wire_push_comes_back_as_it_went);
    tcase_add_test(t, wire_chunk_of_a_ring_has_what_its_header_says);
    tcase_add_test(t, wire_rows_by_key_have_what_their_header_says);
    tcase_add_test(t, wire_every_type_encodes_and_decodes);
    tcase_add_test(t, wire_wrong_frame_count_is_refused);
    tcase_add_test(t, wire_count_that_does_not_fit_its_frame_is_refused);
    tcase_add_test(t, wire_too_many_keys_are_refused);
    tcase_add_test(t, wire_predictions_must_fit_their_frames);
    tcase_add_test(t, wire_losses_must_fit_their_labels);
    tcase_add_loop_test(t, wire_figures_of_a_task_are_bounded, 0, 6);
    tcase_add_test(t, wire_gradients_of_no_key_are_refused);
    tcase_add_test(t, wire_echo_must_fit_its_keys);
    tcase_add_test(t, wire_replies_must_fit_their_frames);
    tcase_add_test(t, wire_texts_fit_and_are_one_line);
    tcase_add_test(t, wire_headers_are_bounded);
    tcase_add_test(t, wire_refusal_carries_status_sentence_and_fields);
    tcase_add_test(t, wire_unknown_type_of_another_version_is_no_type);
    tcase_add_test(t, wire_corpus_is_of_this_protocol);
    tcase_add_test(t, wire_garbage_never_harms);
    tcase_add_test(t, wire_decoding_allocates_nothing);
    tcase_add_test(t, wire_schema_goes_and_comes_back);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
