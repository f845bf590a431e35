/* dense_double.h: computes the forward pass of any plan in double, as plainly as possible. Tests
 * compare gradients with it.
 *
 * It walks the plan's layers in order over the whole batch. Each kind of layer has one plain
 * function here, written from its formula and not from its kernels. This does not find a wrong
 * plan: the models' own tests compare some plans with formulas written by hand. */
#ifndef TESTS_LIB_DENSE_DOUBLE_H
#define TESTS_LIB_DENSE_DOUBLE_H

#include "dense/model.h"
#include "tests/lib/dense_case.h"

struct double_pass {
    const struct dense_case *c;
    const struct plan *plan;
    const double *rows, *dense; /* (row_count, row width), flat */
    /* (examples, width) of each tensor; states that are not by example: (width) */
    double *data[PLAN_TENSORS_MAX];
    bool train;
    uint64_t seed, batch;
    uint32_t lane;
    double balance; /* the balancing losses of all gates, without their factor */
};

/* A layer over the whole batch: reads x and z, writes (or adds to the logit) y. */
typedef void (*double_forward)(const struct layer *l, struct double_pass *p);

struct double_layer {
    const struct layer_ops *ops;
    double_forward forward;
};

/* Tables by group, each ended by {NULL, NULL}. */
extern const struct double_layer double_layers_core[];      /* dense_double.c */
extern const struct double_layer double_layers_interact[];  /* dense_double_interact.c */
extern const struct double_layer double_layers_attention[]; /* dense_double_attention.c */
extern const struct double_layer double_layers_mix[];       /* dense_double_mix.c */

/* Adds layers that a test program has made for itself. It is called once, before the check; the
 * table is not copied. */
void dense_double_add(const struct double_layer *table);

/* Return row `example` of a view, and the floats from one row to the next. */
double *double_at(const struct double_pass *p, struct view v, uint32_t example);
uint32_t double_ld(const struct double_pass *p, struct view v);
/* Returns the factor of dropout for value `value` of a layer in this pass: 0 where it drops it. */
double double_dropout(const struct double_pass *p, const struct layer *l, uint32_t value);
/* True when a mask with this key and threshold keeps a value: a second version of the rule. */
bool double_kept(const uint32_t key[2], uint32_t threshold, uint32_t value);
double double_act(enum activation act, double x);
/* Gives the values of an example's field: [*begin, *end) in index. */
void double_values(const struct double_pass *p, uint32_t example, uint32_t field, uint32_t *begin,
                   uint32_t *end);

/* Returns the loss whose gradients the model computes: sum over tasks of task weight * sum of
 * example weight * logloss / sum of example weights, plus l2 / 2 |rows|^2 and l2_dense / 2
 * |decaying tensors|^2, plus model.balance * the gates' balancing losses, with the settings of the
 * case's job. train: statistics of the batch and
 * dropout of (seed, lane, batch); else the running statistics, no dropout, and scores corrected for
 * the negatives that training leaves out. scores (examples, tasks) or NULL. */
double dense_double_loss(const struct dense_case *c, const double *rows, const double *dense,
                         bool train, uint64_t seed, uint32_t lane, uint64_t batch, double *scores);

/* Trains the case's batch on its backend with DENSE_SEED, DENSE_LANE, DENSE_BATCH. Compares the
 * losses and scores with dense_double_loss, and every row gradient and dense gradient with its
 * central differences. Returns the largest difference, relative if the expected value is beyond 1.
 * where: its place, "dense tensor 3 [17]: 0.125, expected 0.25". The job must not clip. */
double dense_double_worst(struct dense_case *c, char where[128]);
/* Fails the running test if that difference is more than tolerance; 2e-6 to 2e-5 is usual. */
void dense_double_check(struct dense_case *c, double tolerance);
/* The same for model_predict: losses and scores. */
void dense_double_check_predict(struct dense_case *c, double tolerance);

#endif
