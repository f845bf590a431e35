/* dense_reference.h: the models once more, in double and as plain as can be: what the tests hold dense against. */
#ifndef TESTS_LIB_DENSE_REFERENCE_H
#define TESTS_LIB_DENSE_REFERENCE_H

#include "tests/lib/dense_case.h"

/* Mean loss of the batch plus l2 / 2 |rows|^2 and l2_dense / 2 |matrices|^2, as a function of rows and dense
 * parameters. train: statistics of the batch and dropout of (seed, lane, batch), else running statistics. scores
 * (examples) or NULL. */
double dense_reference_loss(const struct dense_case *c, const double *rows, const double *dense, bool train,
                            uint64_t seed, uint32_t lane, uint64_t batch, double *scores);

/* Whether value `value` of a layer is kept: the mask's rule, written down a second time. */
bool dense_reference_kept(const struct dropout_mask *mask, uint32_t value);

double dense_reference_act(enum activation act, double x);

#endif
