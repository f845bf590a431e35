/* dense_check.h: what every test program of dense ends with, and comparing with tolerance. */
#ifndef TESTS_LIB_DENSE_CHECK_H
#define TESTS_LIB_DENSE_CHECK_H

#include "tests/lib/dense_case.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

/* The exit status of the program: DENSE_SKIP when the backend that the environment names is not
 * there. */
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

/* Largest |found - expected|; values that are not numbers are infinitely far. */
static inline double dense_check_worst(const float *found, const double *expected, size_t count)
{
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        double off = fabs((double)found[i] - expected[i]);
        worst = off <= worst ? worst : isfinite(off) ? off : INFINITY;
    }
    return worst;
}

/* Central difference of f(context) by *at. */
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
