/* optimizer.h: the kinds of optimizers as facts, a row each: all that a job file, a schema and a
 * table must know of one. Its arithmetic is a file in embedding/rows/optimizer, found by the row's
 * name; embedding/rows/optimizer/README.md tells how to add one.
 *
 * A row: its number, which is stored and sent and never given again; its constant; its name in a
 * job file; ANY, or TABLES for one that is not for the network; then those members of struct
 * optimizer_facts that are not 0. */
#ifndef PROTO_JOB_OPTIMIZER_H
#define PROTO_JOB_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef OPTIMIZER_KINDS_OWN /* rows of a program's own, beside these */
#define OPTIMIZER_KINDS_OWN(X)
#endif
#define OPTIMIZER_KINDS(X)                                                                         \
    /* w -= lr g */                                                                                \
    X(0, SGD, sgd, ANY, .plain = true, .lr = 0.05, .eps = 1e-8)                                    \
    /* element-wise: G += g^2; w -= lr g / (sqrt(G) + eps) */                                      \
    X(1, ADAGRAD, adagrad, ANY, .per_element = 1, .decays = true, .lr = 0.05, .eps = 1e-8)         \
    /* one G a row: G += mean(g^2) */                                                              \
    X(2, ROW_ADAGRAD, row_adagrad, ANY, .per_row = 1, .decays = true, .by_mean = true, .lr = 0.05, \
      .eps = 1e-8)                                                                                 \
    /* Kingma, Ba 2015; powers of beta are running products kept in the row */                     \
    X(3, ADAM, adam, ANY, .per_element = 2, .per_row = 2, .lr = 0.001, .beta1 = 0.9,               \
      .beta2 = 0.999, .eps = 1e-8)                                                                 \
    /* McMahan 2013, FTRL-proximal, learning-rate power -1/2 */                                    \
    X(4, FTRL, ftrl, ANY, .per_element = 2, .l2_own = true, .weights_of_state = true, .lr = 0.05,  \
      .eps = 1e-8, .beta = 1)                                                                      \
    /* Paddle's SparseAdaGradSGDRule: one G for the first-order weight, one for the vector: */     \
    /* w -= lr g sqrt(G0 / (G0 + G)); then G += mean(g^2). G0 is `initial` */                      \
    X(5, CTR_ADAGRAD, ctr_adagrad, TABLES, .per_row = 2, .by_part = true, .by_initial = true,      \
      .lr = 0.05, .eps = 1e-8, .initial = 3)                                                       \
    OPTIMIZER_KINDS_OWN(X)

#define OPTIMIZER_NUMBER(number, KIND, name, where, ...) OPT_##KIND = number,
enum optimizer_kind { OPTIMIZER_KINDS(OPTIMIZER_NUMBER) };
#undef OPTIMIZER_NUMBER

/* For a job's keys: "|sgd|adagrad..", of all, and of those that the network may have. */
#define OPTIMIZER_CHOICE_OF(where, name) OPTIMIZER_CHOICE_##where(name)
#define OPTIMIZER_CHOICE_ANY(name) "|" #name
#define OPTIMIZER_CHOICE_TABLES(name) ""
#define OPTIMIZER_CHOICE(number, KIND, name, where, ...) "|" #name
#define OPTIMIZER_CHOICE_DENSE(number, KIND, name, where, ...) OPTIMIZER_CHOICE_OF(where, name)
#define OPTIMIZER_CHOICES (&(OPTIMIZER_KINDS(OPTIMIZER_CHOICE))[1])
#define OPTIMIZER_CHOICES_DENSE (&(OPTIMIZER_KINDS(OPTIMIZER_CHOICE_DENSE))[1])

struct optimizer_facts {
    const char *name;
    /* Floats of state: so many a weight, in blocks of the row's width, then so many a row. */
    uint32_t per_element, per_row;
    bool by_part; /* of the two per row one is the first-order weights', one the vector's */
    bool plain;   /* a step is lr x gradient: l2 pulls a weight to 0 and not past it */
    bool decays;  /* has sums that `decay` multiplies */
    bool l2_own;  /* l2 enters its formula; else it is added to the gradient */
    bool weights_of_state; /* weights are worked out from the state with lr, beta, l1 and l2 */
    bool by_initial;       /* divides by `initial`: it must be above 0 */
    bool by_mean;          /* steps by a mean over the row: not for a network's padded blocks */
    double lr, beta1, beta2, eps, initial, beta; /* where a job does not say */
};

/* NULL for a number that no row has. */
const struct optimizer_facts *optimizer_facts(uint32_t kind);
/* Of a name that a row has. */
enum optimizer_kind optimizer_named(const char *name);
/* For people: names of those that have sums that decay, "adagrad and row_adagrad". Returns text. */
const char *optimizer_decaying(char *text, size_t capacity);

#endif
