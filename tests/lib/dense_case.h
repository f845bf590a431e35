/* dense_case.h: small models and hand-made passes for the tests of dense. Everything is drawn from fixed seeds. */
#ifndef TESTS_LIB_DENSE_CASE_H
#define TESTS_LIB_DENSE_CASE_H

#include "dense/layer.h"
#include "dense/plan.h"
#include "proto/base/rng.h"

/* The CPU backend, loaded once; ends the test program when it does not load. */
struct backend *dense_backend(void);

/* Uniform in (-1, 1). */
void dense_fill(struct rng *r, float *x, size_t count);

/* A pass with tensors made by hand, all of the whole batch. */
struct dense_pass {
    struct pass pass;
    struct model_shape shape;
    struct model_input in;
    struct model_output out;
    struct tensor tensor[16];
    float *data[16];
    uint32_t count;
};
void dense_pass_init(struct dense_pass *d, uint32_t examples);
/* A zeroed tensor of `width` floats an example (state: in all); returns its number. */
uint32_t dense_pass_tensor(struct dense_pass *d, uint32_t width, bool state);
void dense_pass_free(struct dense_pass *d);

/* A job, a model and one batch. */
struct dense_case {
    struct job job;
    struct job_table table;
    struct model_shape shape;
    struct model_input in;
    struct model_output out;
    struct model *model;
    struct model_run *run;
    struct plan plan;
    float *label, *numeric, *rows, *dense, *stats;
    uint32_t *index, *offset;
    uint32_t values;
};
/* kind with 3 fields (the last one averaged), 2 numerics, dim 3, hidden 5 and 4, no dropout, norm or L2. */
void dense_case_job(struct dense_case *c, enum model_kind kind);
/* Makes the model and draws a batch; many: fields with none to 3 values, else one each. */
void dense_case_batch(struct dense_case *c, uint32_t examples, uint32_t row_count, bool many);
void dense_case_free(struct dense_case *c);

#endif
