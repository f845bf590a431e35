/* dense_check.h: the end of every test program of dense, and comparisons with tolerance. */
#ifndef TESTS_LIB_DENSE_CHECK_H
#define TESTS_LIB_DENSE_CHECK_H

#include "tests/lib/dense_case.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

/* Returns the exit status of the program: DENSE_SKIP when the backend that the environment names is
 * missing. */
static inline int dense_check_run(Suite *s)
{
    SRunner *r = srunner_create(s);
    if (!dense_backend_present()) {
        srunner_free(r);
        return DENSE_SKIP;
    }
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Returns the largest |found - expected|; a value that is not a number counts as infinity. */
static inline double dense_check_worst(const float *found, const double *expected, size_t count)
{
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        double off = fabs((double)found[i] - expected[i]);
        worst = off <= worst ? worst : isfinite(off) ? off : INFINITY;
    }
    return worst;
}

/* Returns the central difference of f(context) by *at. */
static inline double dense_check_slope(double (*f)(void *context), void *context, double *at)
{
    double was = *at, h = 1e-6;
    *at = was + h;
    double up = f(context);
    *at = was - h;
    double down = f(context);
    *at = was;
    return (up - down) / (2 * h);
}

#endif
