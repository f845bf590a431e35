/* test_onnx.c: files of ONNX have the fields that onnx.proto3 publishes; what no reader takes is
 * refused before the first byte. */
#include "proto/wire/onnx.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <string.h>

static unsigned char file[4096];
static size_t bytes;

static void take(void *context, const void *data, size_t count)
{
    (void)context;
    ck_assert_uint_le(bytes + count, sizeof file);
    memcpy(file + bytes, data, count);
    bytes += count;
}

/* y = Relu(x w'), x (batch, 1). */
static void small(struct graph *g)
{
    const float w[] = {1.0f};
    uint32_t x = graph_input(g, "x", NULL, (int64_t[]){GRAPH_BATCH, 1}, 2);
    uint32_t y = graph_linear(g, x, graph_weight(g, "w", (int64_t[]){1, 1}, 2, w), GRAPH_NONE);
    (void)graph_weight(g, "unread", (int64_t[]){1}, 1, w);
    graph_output(g, graph_unary(g, "Relu", y), "y");
    graph_note(g, "k", "t");
    bytes = 0;
}

/* The bytes follow from onnx.proto3 and protobuf's encoding, by hand. */
START_TEST(the_fields_are_those_that_onnx_publishes)
{
    static const unsigned char weight[] = {0x2a, 15,  0x08, 1, 0x08, 1, 0x10, 1,   0x42,
                                           1,    'w', 0x4a, 4, 0,    0, 0x80, 0x3f};
    static const unsigned char attribute[] = {0x2a, 13,  0x0a, 6, 't',  'r', 'a', 'n',
                                              's',  'B', 0x18, 1, 0xa0, 1,   2};
    static const unsigned char input[] = {0x5a, 24,  0x0a, 1,   'x',  0x12, 19,   0x0a, 17,
                                          0x08, 1,   0x12, 13,  0x0a, 7,    0x12, 5,    'b',
                                          'a',  't', 'c',  'h', 0x0a, 2,    0x08, 1};
    static const unsigned char end[] = {0x42, 4,    0x0a, 0,   0x10, 13, 0x72,
                                        6,    0x0a, 1,    'k', 0x12, 1,  't'};
    struct graph g = {.values = 0};
    small(&g);
    ck_assert_int_eq(onnx_write(&g, "name", take, NULL, NULL), 0);
    ck_assert_uint_eq(file[0], 0x08); /* ir_version */
    ck_assert_uint_eq(file[1], 7);
    ck_assert_ptr_nonnull(memmem(file, bytes, weight, sizeof weight));
    ck_assert_ptr_nonnull(memmem(file, bytes, attribute, sizeof attribute));
    ck_assert_ptr_nonnull(memmem(file, bytes, input, sizeof input));
    ck_assert_ptr_null(memmem(file, bytes, "unread", 6));
    ck_assert_mem_eq(file + bytes - sizeof end, end, sizeof end);
    graph_free(&g);
}
END_TEST

START_TEST(more_than_a_message_may_have_is_refused)
{
    struct graph g = {.values = 0};
    struct err e;
    small(&g);
    uint32_t w = graph_find(&g, "w");
    g.value[w].bytes = ONNX_BYTES_MAX; /* counted, and not read */
    ck_assert_int_eq(onnx_write(&g, "name", take, NULL, &e), SHOAL_E_TOO_BIG);
    ck_assert_ptr_nonnull(strstr(e.text, "at most 2147483647"));
    ck_assert_uint_eq(bytes, 0);
    g.value[w].bytes = sizeof(float);
    graph_free(&g);
}
END_TEST

START_TEST(one_name_for_two_values_is_refused)
{
    struct graph g = {.values = 0};
    struct err e;
    small(&g);
    (void)graph_input(&g, "y", NULL, (int64_t[]){GRAPH_BATCH, 1}, 2);
    ck_assert_int_eq(onnx_write(&g, "name", take, NULL, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "called y"));
    ck_assert_uint_eq(bytes, 0);
    graph_free(&g);
}
END_TEST

START_TEST(a_graph_that_is_not_whole_is_refused)
{
    struct graph g = {.failed = true};
    bytes = 0;
    ck_assert_int_eq(onnx_write(&g, "name", take, NULL, NULL), SHOAL_E_NOMEM);
    ck_assert_uint_eq(bytes, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("onnx");
    TCase *tc = suite_case(suite, "onnx", 10, NULL, NULL);
    tcase_add_test(tc, the_fields_are_those_that_onnx_publishes);
    tcase_add_test(tc, more_than_a_message_may_have_is_refused);
    tcase_add_test(tc, one_name_for_two_values_is_refused);
    tcase_add_test(tc, a_graph_that_is_not_whole_is_refused);
    return suite_main(suite);
}
