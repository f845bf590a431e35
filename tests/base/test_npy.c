/* test_npy.c: the head of an npy file is what numpy writes. */
#include "proto/base/npy.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <string.h>

static void is_head(const char *type, const uint64_t *shape, uint32_t dims, const char *text)
{
    static const char magic[10] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, NPY_HEAD - 10, 0};
    char head[NPY_HEAD];
    memset(head, 'x', sizeof head);
    npy_head(type, shape, dims, head);
    ck_assert_mem_eq(head, magic, sizeof magic);
    ck_assert_mem_eq(head + 10, text, strlen(text));
    for (size_t i = 10 + strlen(text); i < NPY_HEAD - 1; i++)
        ck_assert_int_eq(head[i], ' ');
    ck_assert_int_eq(head[NPY_HEAD - 1], '\n');
}

START_TEST(heads_are_those_of_numpy)
{
    const uint64_t shape[] = {10000000, 16, 3};
    is_head("<u8", shape, 1, "{'descr': '<u8', 'fortran_order': False, 'shape': (10000000,), }");
    is_head("<f4", shape, 2, "{'descr': '<f4', 'fortran_order': False, 'shape': (10000000, 16), }");
    is_head("<f2", shape, 3,
            "{'descr': '<f2', 'fortran_order': False, 'shape': (10000000, 16, 3), }");
}
END_TEST

START_TEST(every_shape_fits)
{
    const uint64_t most = UINT64_C(9999999999999);
    const uint64_t shape[] = {most, most, most, most}, none[] = {0};
    is_head("<f4", shape, NPY_DIMS,
            "{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999, 9999999999999, "
            "9999999999999, 9999999999999), }");
    is_head("<u8", none, 1, "{'descr': '<u8', 'fortran_order': False, 'shape': (0,), }");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("npy");
    TCase *tc = suite_case(suite, "npy", 10, NULL, NULL);
    tcase_add_test(tc, heads_are_those_of_numpy);
    tcase_add_test(tc, every_shape_fits);
    return suite_main(suite);
}
