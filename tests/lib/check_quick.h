/* check_quick.h: Check's assertions without a write for each one that holds.
 *
 * Check sends the place of every assertion that holds through a pipe, which is two thirds of the
 * time of tests that assert a million times. Here only START_TEST and mark_point() send theirs; one
 * that fails tells its own as ever. Put in front of every test by tests/CMakeLists.txt. */
#ifndef TESTS_LIB_CHECK_QUICK_H
#define TESTS_LIB_CHECK_QUICK_H

#include <check.h>

#undef fail /* of old: a name that anybody may want */
#undef ck_assert_msg
#define ck_assert_msg(expr, ...)                                                                   \
    ((expr)                                                                                        \
         ? (void)0                                                                                 \
         : _ck_assert_failed(__FILE__, __LINE__, "Assertion '" #expr "' failed", ##__VA_ARGS__))

#endif
