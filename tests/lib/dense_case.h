/* dense_case.h: small models on one batch, for the tests of dense. Everything is drawn from fixed
 * seeds.
 *
 * All tests of dense run on a backend by name: "cpu", "cudahost" (the CUDA kernels compiled for the
 * host: in builds that have libshoal_cudahost.so) or "cuda". The environment's SHOAL_DENSE_BACKEND
 * chooses it for a whole test program; cpu without. A test that compares backends loads both by
 * name. */
#ifndef TESTS_LIB_DENSE_CASE_H
#define TESTS_LIB_DENSE_CASE_H

#include "dense/layer/plan.h"
#include "proto/base/rng.h"

/* Defaults of training in tests. */
#define DENSE_SEED 2026u
#define DENSE_LANE 3u
#define DENSE_TABLES_MAX 4u
#define DENSE_BATCH 16u /* a batch whose gradients are measured (model.h: dense_norm) */

/* Returns the backend of that name, loaded once; NULL, with a line on standard error, when its
 * module or device is missing. */
struct backend *dense_backend_named(const char *name);
/* Returns the backend that the environment names; ends the test program when it does not load. */
struct backend *dense_backend(void);
/* True when the backend is a GPU, which contracts a * b + c to one rounding, and has another exp
 * and tanh. */
bool dense_backend_fuses(void);
/* False: the backend is missing, and the program should end with DENSE_SKIP (dense_check.h does).
 * Checks in a child process, because a device must not be opened before libcheck forks. */
bool dense_backend_present(void);
#define DENSE_SKIP 77

/* The kernels of the CPU module at vector width `width`, 0 to 2; NULL: this processor lacks such
 * vectors. Only the members that body_fill sets are there: no matrix product, no stream. Pass s =
 * NULL. */
const struct backend_ops *dense_width(int width);
#define DENSE_WIDTHS 3
extern const char *const dense_width_name[DENSE_WIDTHS];

/* Uniform in (-1, 1). */
void dense_fill(struct rng *r, float *x, size_t count);

/* Arrays in the memory of the backend, for tests that call kernels themselves. */
struct dense_device {
    const struct backend_ops *k;
    struct stream *s;
    void *owned[64];
    uint32_t count;
};
void dense_device_open(struct dense_device *d);
/* Returns device memory with a copy of `bytes` from `from`, or with zeros for NULL. */
void *dense_up(struct dense_device *d, const void *from, size_t bytes);
/* Waits for the stream; fails the test when the device does. */
void dense_down(struct dense_device *d, const void *from, void *to, size_t bytes);
void dense_device_close(struct dense_device *d);

/* A job, a model and one batch. A test may change members between dense_case_job and
 * dense_case_batch. */
struct dense_case {
    struct job job;
    struct job_table table;                     /* the table of a case with one */
    struct job_table several[DENSE_TABLES_MAX]; /* tables of dense_case_tables */
    uint32_t table_rows[DENSE_TABLES_MAX];      /* rows of the batch in these tables */
    struct model_shape shape;
    const struct plan_kind *kind; /* a plan made by hand; NULL: the plan of job.model.kind */
    struct backend *backend;      /* NULL: dense_backend() */
    /* examples that go through the layers together, if the backend works by ranges; 0: the backend
     * decides */
    uint32_t range;
    bool weighted; /* examples have weights, some of them 0 */
    bool factored; /* values have factors, some of them 0 or negative */
    /* most values of a field with many; a smaller shape.most takes precedence */
    uint32_t values_most;
    struct model_input in;
    struct model_output out;
    struct model *model;
    struct model_run *run;
    struct backend_ops ops; /* the backend's, with `range` */
    struct plan plan;
    float *label, *numeric, *weight, *rows, *dense, *stats;
    uint32_t *index, *offset;
    float *factor;
    uint32_t values;
};
/* Makes a job: the model `kind` with 3 fields (the last one averaged), 2 numerics, one task, dim 3,
 * hidden 5 and 4, tanh, no dropout, norm or L2, up to 3 values a field. Parts of single models have
 * small shapes, too: see the source. */
void dense_case_job(struct dense_case *c, enum model_kind kind);
/* After dense_case_job: uses tables of these dims instead of one table; fields alternate between
 * them. */
void dense_case_tables(struct dense_case *c, const uint32_t *dim, uint32_t tables);
/* Makes the model and draws a batch. many: fields have 0 to values_most values, else one each. */
void dense_case_batch(struct dense_case *c, uint32_t examples, uint32_t row_count, bool many);
void dense_case_free(struct dense_case *c);
/* Returns the index of the first float of row `row` of the batch, or with row_count the number of
 * floats. *width: the row's width, unless NULL. */
size_t dense_case_row(const struct dense_case *c, uint32_t row, uint32_t *width);

/* Trains the batch with (DENSE_SEED, DENSE_LANE, batch); fails the test when that fails. */
void dense_case_train(struct dense_case *c, uint64_t batch);
/* Runs `steps` steps of plain gradient descent on the same batch; loss[i] is the mean loss before
 * step i. The running statistics change as the servers would change them. */
void dense_case_curve(struct dense_case *c, uint32_t steps, float rate, double *loss);
/* Returns the largest difference between the curves of two cases of the same model over `steps`
 * steps, relative to the loss. */
double dense_case_apart(struct dense_case *a, struct dense_case *b, uint32_t steps, float rate);
/* Copies a tensor (examples, width) after the last pass. The batch must have gone through as one
 * range. */
void dense_case_tensor(const struct dense_case *c, uint32_t tensor, float *out);

#endif
