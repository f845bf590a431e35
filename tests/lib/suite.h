/* suite.h: the end of every test program: cases in a suite, and running it. */
#ifndef TESTS_LIB_SUITE_H
#define TESTS_LIB_SUITE_H

#include <check.h>

/* Adds a case to a suite; setup and teardown (both may be NULL) run around each of its tests. */
TCase *suite_case(Suite *suite, const char *name, double timeout_s, void (*setup)(void),
                  void (*teardown)(void));
/* Runs and frees the suite. Returns the result of main. */
int suite_main(Suite *suite);

#endif
