/* suite.h: what every program of tests ends with: cases in a suite, the suite run. */
#ifndef TESTS_LIB_SUITE_H
#define TESTS_LIB_SUITE_H

#include <check.h>

/* A new case of a suite; setup and teardown (both may be NULL) around each of its tests. */
TCase *suite_case(Suite *suite, const char *name, double timeout_s, void (*setup)(void),
                  void (*teardown)(void));
/* Runs and frees it; what main returns. */
int suite_main(Suite *suite);

#endif
