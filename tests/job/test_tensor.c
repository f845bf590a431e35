/* test_tensor.c: heads of npy and safetensors files: good ones are read, malformed ones refused. */
#include "proto/job/tensor.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- npy ---- */

struct file {
    unsigned char bytes[1 << 12];
    size_t count;
};

/* A file of this version with this head, and so many bytes of data: 0, 1, 2 .. */
static struct file npy(unsigned version, const char *head, size_t data)
{
    struct file f = {.count = 0};
    const size_t length = strlen(head), width = version == 1 ? 2 : 4;
    memcpy(f.bytes, "\x93NUMPY", 6);
    f.bytes[6] = (unsigned char)version;
    for (size_t i = 0; i < width; i++)
        f.bytes[8 + i] = (unsigned char)(length >> 8 * i);
    memcpy(f.bytes + 8 + width, head, length);
    f.count = 8 + width + length;
    for (size_t i = 0; i < data; i++)
        f.bytes[f.count++] = (unsigned char)i;
    return f;
}

/* Reads an exact copy on the heap, so that a read past the end is detected. */
static int npy_read(const struct file *f, size_t count, struct tensor *t, struct err *e)
{
    void *copy = malloc(count + 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, f->bytes, count);
    int rc = tensor_npy(copy, count, t, e);
    free(copy);
    return rc;
}

#define HEAD "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"

START_TEST(npy_of_every_version_is_read)
{
    for (unsigned version = 1; version <= 3; version++) {
        struct file f = npy(version, HEAD "          \n", 48);
        struct tensor t;
        struct err e = {0};
        ck_assert_msg(npy_read(&f, f.count, &t, &e) == 0, "%s", e.text);
        ck_assert(t.type == TENSOR_F32 && t.rank == 2 && t.shape[0] == 3 && t.shape[1] == 4);
        ck_assert(t.elements == 12 && t.at == f.count - 48);
    }
}
END_TEST

static const struct {
    const char *head;
    size_t data;
    enum tensor_type type;
    uint32_t rank;
} good[] = {{"{'descr':'<u8','fortran_order':False,'shape':(2,)}\n", 16, TENSOR_U64, 1},
            {"{'shape': (2, 1), 'fortran_order': False, 'descr': '<f2'}", 4, TENSOR_F16, 2},
            {"{\"descr\": \"<i8\", \"fortran_order\": False, \"shape\": (0,), }", 0, TENSOR_I64, 1},
            {"{'descr': '<i4', 'fortran_order': False, 'shape': (2L,), }", 8, TENSOR_I32, 1},
            {"{'descr': '<f8', 'fortran_order': False, 'shape': (), }", 8, TENSOR_F64, 0},
            {"{'descr': '<u4', 'fortran_order': False, 'shape': (1,1,3), }", 12, TENSOR_U32, 3}};

START_TEST(npy_heads_of_any_form_are_read)
{
    struct file f = npy(1, good[_i].head, good[_i].data);
    struct tensor t;
    struct err e = {0};
    ck_assert_msg(npy_read(&f, f.count, &t, &e) == 0, "%s", e.text);
    ck_assert(t.type == good[_i].type && t.rank == good[_i].rank);
    for (size_t cut = 0; cut < f.count; cut++) /* a cut file is none */
        ck_assert_int_eq(npy_read(&f, cut, &t, &e), SHOAL_E_DATA);
}
END_TEST

static const struct {
    unsigned version;
    const char *head;
    size_t data;
    const char *words;
} bad[] = {
    {4, HEAD, 48, "format 4.0"},
    {0, HEAD, 48, "format 0.0"},
    {1, HEAD, 47, "cut short"},
    {1, HEAD, 52, "more than one array"},
    {1, "{'descr': '>f4', 'fortran_order': False, 'shape': (3, 4), }", 48, "big-endian"},
    {1, "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }", 48, "Fortran"},
    {1, "{'descr': '|S4', 'fortran_order': False, 'shape': (3, 4), }", 48, "elements are |S4"},
    {1, "{'descr': '<c8', 'fortran_order': False, 'shape': (3, 4), }", 96, "elements are <c8"},
    {1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", 12, "plain array"},
    {1, "{'descr': '<f4', 'fortran_order': False}", 48, "plain array"},
    {1, "{'descr': '<f4', 'shape': (3, 4)}", 48, "plain array"},
    {1, "{'fortran_order': False, 'shape': (3, 4)}", 48, "plain array"},
    {1, "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}", 48, "plain"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'more': 1}", 48, "plain array"},
    {1, HEAD "x", 48, "plain array"},
    {1, "", 48, "plain array"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-3, 4), }", 48, "plain array"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4), }", 48, "plain array"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", 4, "plain"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 4, "plain"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 0,
     "more elements"},
    {1, "{'descr': '<f4\\'', 'fortran_order': False, 'shape': (3, 4), }", 48, "plain array"},
};

START_TEST(malformed_npy_is_refused)
{
    struct file f = npy(bad[_i].version, bad[_i].head, bad[_i].data);
    struct tensor t;
    struct err e = {0};
    ck_assert_int_eq(npy_read(&f, f.count, &t, &e), SHOAL_E_DATA);
    ck_assert_msg(strstr(e.text, bad[_i].words) != NULL, "%s", e.text);
}
END_TEST

START_TEST(an_npy_head_beyond_the_limit_is_refused)
{
    struct file f = npy(2, HEAD, 48);
    struct tensor t;
    struct err e = {0};
    f.bytes[10] = 0x10; /* a head of a megabyte */
    ck_assert_int_eq(npy_read(&f, f.count, &t, &e), SHOAL_E_DATA);
    ck_assert_msg(strstr(e.text, "head has") != NULL, "%s", e.text);
    f = npy(1, HEAD, 48);
    f.bytes[0] = 'P';
    ck_assert_int_eq(npy_read(&f, f.count, &t, &e), SHOAL_E_DATA);
}
END_TEST

/* ---- safetensors ---- */

static struct file safe(const char *head, size_t data)
{
    struct file f = {.count = 8};
    const size_t length = strlen(head);
    for (size_t i = 0; i < 8; i++)
        f.bytes[i] = (unsigned char)((uint64_t)length >> 8 * i);
    memcpy(f.bytes + 8, head, length);
    f.count += length;
    for (size_t i = 0; i < data; i++)
        f.bytes[f.count++] = (unsigned char)i;
    return f;
}

static int safe_read(const struct file *f, size_t count, struct tensor_list *l, struct err *e)
{
    void *copy = malloc(count + 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, f->bytes, count);
    int rc = tensor_safe(copy, count, l, e);
    free(copy);
    return rc;
}

#define TWO                                                                                        \
    "{\"__metadata__\":{\"shoal_export\":\"1\",\"a\":\"b\"},"                                      \
    "\"emb.vectors\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[16,40]},"                \
    "\"emb.keys\":{\"dtype\":\"U64\",\"shape\":[2],\"data_offsets\":[0,16]}}  "

START_TEST(safetensors_are_read)
{
    struct file f = safe(TWO, 40);
    struct tensor_list l;
    struct err e = {0};
    ck_assert_msg(safe_read(&f, f.count, &l, &e) == 0, "%s", e.text);
    ck_assert(l.count == 2 && l.shoal);
    const struct tensor *t = tensor_find(&l, "emb.vectors");
    ck_assert_ptr_nonnull(t);
    ck_assert(t->type == TENSOR_F32 && t->rank == 2 && t->shape[1] == 3 && t->elements == 6);
    ck_assert_uint_eq(t->at, f.count - 24);
    ck_assert_ptr_null(tensor_find(&l, "emb"));
    bool negative;
    ck_assert_uint_eq(tensor_integer(tensor_find(&l, "emb.keys"), f.bytes, 1, &negative),
                      UINT64_C(0x0f0e0d0c0b0a0908));
    tensor_list_free(&l);
    for (size_t cut = 0; cut < f.count; cut++) {
        ck_assert_int_ne(safe_read(&f, cut, &l, &e), 0);
        ck_assert(l.item == NULL && l.count == 0);
    }
}
END_TEST

static const struct {
    const char *head;
    size_t data;
    const char *words;
} unsafe[] = {
    {"[]", 0, "no safetensors"},
    {"{", 8, "no safetensors"},
    {"{\"a\":", 8, "JSON"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, "JSON"},
    {"{\"a\":{\"dtype\":\"BOOL\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "of type BOOL"},
    {"{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "of type"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "differ"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
     "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
     "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "hole"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8, "follow the head"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4, "overlaps"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "metadata"},
    {"{\"a\":7}", 0, "of type"},
};

START_TEST(malformed_safetensors_are_refused)
{
    struct file f = safe(unsafe[_i].head, unsafe[_i].data);
    struct tensor_list l;
    struct err e = {0};
    ck_assert_int_eq(safe_read(&f, f.count, &l, &e), SHOAL_E_DATA);
    ck_assert_msg(strstr(e.text, unsafe[_i].words) != NULL, "%s", e.text);
    ck_assert(l.item == NULL && l.count == 0);
}
END_TEST

START_TEST(a_safetensors_head_beyond_the_limit_is_refused)
{
    const uint64_t length = TENSOR_SAFE_HEAD + 1;
    unsigned char *f = calloc(1, length + 8);
    struct tensor_list l;
    struct err e = {0};
    ck_assert_ptr_nonnull(f);
    memcpy(f, &length, sizeof length);
    f[8] = '{';
    ck_assert_int_eq(tensor_safe(f, length + 8, &l, &e), SHOAL_E_TOO_BIG);
    f[7] = 0xff; /* more than the file has */
    ck_assert_int_eq(tensor_safe(f, length + 8, &l, &e), SHOAL_E_DATA);
    free(f);
}
END_TEST

/* ---- elements ---- */

START_TEST(elements_of_every_type_are_read)
{
    static const unsigned char f16[] = {0x00, 0x3c, 0x00, 0xc0}, bf16[] = {0x80, 0x3f, 0x00, 0xc0};
    static const double f64[] = {1, -2};
    static const int64_t i64[] = {1, -2};
    static const int32_t i32[] = {1, -2};
    struct tensor t = {.type = TENSOR_F16, .rank = 1, .shape = {2}, .elements = 2};
    float out[2];
    bool negative;
    tensor_floats(&t, f16, 0, 2, out);
    ck_assert(out[0] == 1 && out[1] == -2);
    t.type = TENSOR_BF16;
    tensor_floats(&t, bf16, 1, 1, out);
    ck_assert(out[0] == -2);
    t.type = TENSOR_F64;
    tensor_floats(&t, f64, 0, 2, out);
    ck_assert(out[0] == 1 && out[1] == -2);
    t.type = TENSOR_I64;
    ck_assert(tensor_integer(&t, i64, 0, &negative) == 1 && !negative);
    ck_assert(tensor_integer(&t, i64, 1, &negative) == UINT64_MAX - 1 && negative);
    t.type = TENSOR_I32;
    ck_assert(tensor_integer(&t, i32, 1, &negative) == UINT64_MAX - 1 && negative);
    t.type = TENSOR_U32;
    ck_assert(tensor_integer(&t, i32, 1, &negative) == UINT32_MAX - 1 && !negative);
    t.type = TENSOR_U64;
    ck_assert(tensor_integer(&t, i64, 1, &negative) == UINT64_MAX - 1 && !negative);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tensor");
    TCase *c = suite_case(s, "npy", 20, NULL, NULL);
    tcase_add_test(c, npy_of_every_version_is_read);
    tcase_add_loop_test(c, npy_heads_of_any_form_are_read, 0, sizeof good / sizeof good[0]);
    tcase_add_loop_test(c, malformed_npy_is_refused, 0, sizeof bad / sizeof bad[0]);
    tcase_add_test(c, an_npy_head_beyond_the_limit_is_refused);
    c = suite_case(s, "safetensors", 20, NULL, NULL);
    tcase_add_test(c, safetensors_are_read);
    tcase_add_loop_test(c, malformed_safetensors_are_refused, 0, sizeof unsafe / sizeof unsafe[0]);
    tcase_add_test(c, a_safetensors_head_beyond_the_limit_is_refused);
    c = suite_case(s, "elements", 20, NULL, NULL);
    tcase_add_test(c, elements_of_every_type_are_read);
    return suite_main(s);
}
