/* step.h: shared by the parts of gpu_step: the options, and an artificial job and batch for each
 * kind of model. */
#ifndef TESTS_GPU_STEP_H
#define TESTS_GPU_STEP_H

#include "dense/model/run.h"

enum { STEP_FIELDS = 26, STEP_NUMERICS = 13 };

struct step_options {
    const char *module, *precision, *mode;
    uint32_t batch, rows, steps, lanes;
    double seconds;     /* to warm up, and to measure */
    bool deterministic; /* train.deterministic */
    bool rows_left_out; /* --leave-out rows */
};
extern struct step_options step_options;

_Noreturn void step_fail(const char *text);

/* The arrays of a lane's batch, in memory of backend_host_alloc. */
struct step_arrays {
    struct backend *backend;
    void *owned[16]; /* pinned */
    uint32_t count;
};

/* step_model.c. The shapes of deploy/jobs/criteo-*.yaml: 26 fields of dim 16, 13 numbers,
 * 400-400-400 (dlrm: 512-256-16 and 512-256); din's field 0 is a sequence of 1 to 50 values weighed
 * against field 1. */
void step_job_make(const char *kind, struct job *job);
void step_shape_make(const struct job *job, struct model_shape *shape);
void step_batch_make(const struct model *m, uint32_t lane, struct step_arrays *a,
                     struct model_input *in, struct model_output *out);
void step_batch_free(struct step_arrays *a);

#endif
