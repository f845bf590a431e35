/* optimizer.h: the facts about each kind of optimizer, in one row: everything that a job file, a
 * schema and a table must know of it. Its arithmetic is a file in embedding/rows/optimizer, found
 * by the row's name; embedding/rows/optimizer/README.md says how to add one.
 *
 * The members of a row are: its number, which is stored and sent and never given again; its
 * constant; its name in a job file; ANY, or TABLES for a kind that the network cannot use; then the
 * members of struct optimizer_facts that are not 0. */
#ifndef PROTO_JOB_OPTIMIZER_H
#define PROTO_JOB_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef OPTIMIZER_KINDS_OWN /* a program may add rows of its own */
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

/* The choices of a job's keys, "|sgd|adagrad..": of all kinds, and of those that the network may
 * use. */
#define OPTIMIZER_CHOICE_OF(where, name) OPTIMIZER_CHOICE_##where(name)
#define OPTIMIZER_CHOICE_ANY(name) "|" #name
#define OPTIMIZER_CHOICE_TABLES(name) ""
#define OPTIMIZER_CHOICE(number, KIND, name, where, ...) "|" #name
#define OPTIMIZER_CHOICE_DENSE(number, KIND, name, where, ...) OPTIMIZER_CHOICE_OF(where, name)
#define OPTIMIZER_CHOICES (&(OPTIMIZER_KINDS(OPTIMIZER_CHOICE))[1])
#define OPTIMIZER_CHOICES_DENSE (&(OPTIMIZER_KINDS(OPTIMIZER_CHOICE_DENSE))[1])

struct optimizer_facts {
    const char *name;
    /* Floats of state: per_element for each weight, in blocks of the row's width, then per_row for
     * each row. */
    uint32_t per_element, per_row;
    /* one of the two floats per row is for the first-order weights, the other for the vector */
    bool by_part;
    bool plain;            /* a step is lr x gradient: l2 pulls a weight to 0 and not past it */
    bool decays;           /* it has sums that `decay` multiplies */
    bool l2_own;           /* l2 is part of its formula; else l2 is added to the gradient */
    bool weights_of_state; /* weights are computed from the state with lr, beta, l1 and l2 */
    bool by_initial;       /* it divides by `initial`, which must be above 0 */
    bool by_mean; /* its step uses a mean over the row: not for a network's padded blocks */
    double lr, beta1, beta2, eps, initial, beta; /* the values where a job sets none */
};

/* NULL for a number that no row has. */
const struct optimizer_facts *optimizer_facts(uint32_t kind);
/* The kind with this name; a row must have it. */
enum optimizer_kind optimizer_named(const char *name);
/* For people: the names of the kinds whose sums decay, "adagrad and row_adagrad". Returns text. */
const char *optimizer_decaying(char *text, size_t capacity);

#endif
