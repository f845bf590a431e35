/* dense_double.h: any plan once more, forward, in double and as plain as can be: what the tests hold gradients against.
 *
 * The plan's layers are walked in order over the whole batch; each kind of layer has one plain function here, written
 * from its formula and not from its kernels. What one cannot see this way is a wrong plan: the models' own tests hold
 * some plans against formulas written out by hand. */
#ifndef TESTS_LIB_DENSE_DOUBLE_H
#define TESTS_LIB_DENSE_DOUBLE_H

#include "tests/lib/dense_case.h"

struct double_pass {
    const struct dense_case *c;
    const struct plan *plan;
    const double *rows, *dense; /* (row_count, row width), flat */
    double *data[PLAN_TENSORS_MAX]; /* (examples, width) of each tensor; states that are not by example: (width) */
    bool train;
    uint64_t seed, batch;
    uint32_t lane;
};

/* A layer over the whole batch: reads x and z, writes (or adds to the logit) y. */
typedef void (*double_forward)(const struct layer *l, struct double_pass *p);

struct double_layer {
    const struct layer_ops *ops;
    double_forward forward;
};

/* By group, each ended by {NULL, NULL}. */
extern const struct double_layer double_layers_core[];      /* dense_double.c */
extern const struct double_layer double_layers_interact[];  /* dense_double_interact.c */
extern const struct double_layer double_layers_attention[]; /* dense_double_attention.c */
extern const struct double_layer double_layers_mix[];       /* dense_double_mix.c */

/* Row `example` of a view, and the floats from a row to the next. */
double *double_at(const struct double_pass *p, struct view v, uint32_t example);
uint32_t double_ld(const struct double_pass *p, struct view v);
/* Whether dropout keeps value `value` of a layer in this pass, and what it is multiplied by. */
double double_dropout(const struct double_pass *p, const struct layer *l, uint32_t value);
double double_act(enum activation act, double x);

/* Loss as the model's gradients are of: sum over tasks of task weight * sum of example weight * logloss / sum of example
 * weights, plus l2 / 2 |rows|^2 and l2_dense / 2 |decaying tensors|^2. train: statistics of the batch and dropout of
 * (seed, lane, batch). scores (examples, tasks) or NULL. */
double dense_double_loss(const struct dense_case *c, const double *rows, const double *dense, bool train, uint64_t seed,
                         uint32_t lane, uint64_t batch, double *scores);

/* Trains the case's batch on its backend and holds every row gradient, every dense gradient and the scores against
 * central differences of dense_double_loss. Fails the running test (libcheck) with the worst place. tolerance: absolute,
 * for gradients of a mean loss: 2e-5 is usual. */
void dense_double_check(const struct dense_case *c, double tolerance);

#endif
