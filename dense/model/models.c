/* models.c: the table of all models, and probe, which counts examples instead of learning. */
#include "dense/model/models.h"
#include "proto/base/assert.h"

#include <stdio.h>
#include <string.h>

/* ---- probe ----------------------------------------------------------------------------------- */

/* A model for tests, which prove with it that each example was applied exactly once.
 *
 * The gradient of a row is -1 for each example of the batch that has the key, so with SGD at lr 1
 * the row is the number of its examples. An example that has a key twice counts once. */
static void probe_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    (void)l;
    p->k->bias_forward(p->s, count, p->tasks, NULL,
                       pass_at(p, (struct view){TENSOR_LOGIT, 0, p->tasks}, first));
}

static void probe_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct pool_args a = layer_pool_args(p, first, count);
    (void)l;
    p->k->probe_backward(p->s, &a, p->out->row_gradients);
}

static const struct layer_ops probe_layer = {
    .name = "probe", .forward = probe_forward, .backward = probe_backward, .by_values = true};

static void probe_plan(struct plan *p)
{
    plan_layer(p, &probe_layer, VIEW_NONE, VIEW_NONE);
}

/* ---- external -------------------------------------------------------------------------------- */

/* The network of another program: rows by table, and the tensors that the job names. The layer is
 * never run (worker/train/outside.h). */
static void external_run(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    (void)l;
    (void)p;
    (void)first;
    (void)count;
    SHOAL_ASSERT(false); /* a model of another program is computed there */
}

static const struct layer_ops external_layer = {
    .name = "external", .forward = external_run, .backward = external_run, .by_values = true};

static void external_plan(struct plan *p)
{
    for (uint32_t i = 0; i < p->job->model.tensors; i++) {
        const struct job_tensor *t = &p->job->model.tensor[i];
        char shape[40];
        size_t floats = 1, at = 0;
        for (uint32_t d = 0; d < t->rank; d++) {
            floats *= t->shape[d];
            at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%u", d > 0 ? "x" : "",
                                   t->shape[d]);
        }
        (void)block_add(&p->dense, t->name, shape, floats, t->init, false);
    }
    plan_layer(p, &external_layer, VIEW_NONE, VIEW_NONE);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct plan_kind kinds[] = {
    [MODEL_LR] = {"lr", model_lr_plan, .first_order = true},
    [MODEL_FM] = {"fm", model_fm_plan, .vectors = true, .first_order = true},
    [MODEL_WIDE_DEEP] = {"wide_deep", model_wide_deep_plan, .vectors = true, .first_order = true,
                         .network = true, .mixed = true},
    [MODEL_DEEPFM] = {"deepfm", model_deepfm_plan, .vectors = true, .first_order = true,
                      .network = true},
    [MODEL_PROBE] = {"probe", probe_plan, .first_order = true},
    [MODEL_FWFM] = {"fwfm", model_fwfm_plan, .vectors = true, .first_order = true,
                    .check = model_pairs_check},
    [MODEL_IPNN] = {"ipnn", model_ipnn_plan, .vectors = true, .network = true,
                    .check = model_pairs_check},
    [MODEL_DCNV2] = {"dcnv2", model_dcnv2_plan, .vectors = true, .network = true, .mixed = true,
                     .check = model_dcnv2_check},
    [MODEL_DLRM] = {"dlrm", model_dlrm_plan, .vectors = true, .network = true, .mixed = true,
                    .check = model_dlrm_check},
    [MODEL_XDEEPFM] = {"xdeepfm", model_xdeepfm_plan, .vectors = true, .first_order = true,
                       .network = true, .check = model_xdeepfm_check},
    [MODEL_AUTOINT] = {"autoint", model_autoint_plan, .vectors = true, .network = true,
                       .check = model_autoint_check},
    [MODEL_FINALMLP] = {"finalmlp", model_finalmlp_plan, .vectors = true, .network = true,
                        .mixed = true, .check = model_finalmlp_check},
    [MODEL_DIN] = {"din", model_din_plan, .vectors = true, .network = true,
                   .check = model_din_check},
    [MODEL_MMOE] = {"mmoe", model_mmoe_plan, .vectors = true, .network = true, .multi = true,
                    .mixed = true, .check = model_mmoe_check},
    [MODEL_PLE] = {"ple", model_ple_plan, .vectors = true, .network = true, .multi = true,
                   .mixed = true, .check = model_ple_check},
    [MODEL_EXTERNAL] = {"external", external_plan, .vectors = true, .multi = true, .mixed = true},
};
/* with model.first_order */
static const struct plan_kind external_first = {"external",          external_plan, .vectors = true,
                                                .first_order = true, .multi = true, .mixed = true};
#define KINDS (sizeof kinds / sizeof kinds[0])

int models_plan(const struct job *job, const struct model_shape *shape, struct plan *out,
                struct err *e)
{
    const struct plan_kind *kind = NULL;
    if ((size_t)job->model.kind < KINDS)
        kind = &kinds[job->model.kind];
    if (job->model.kind == MODEL_EXTERNAL && job->model.first_order)
        kind = &external_first;
    if (kind == NULL || kind->build == NULL)
        return err_set(e, SHOAL_E_CONFIG, "model.kind: number %d is not built into this version",
                       (int)job->model.kind);
    /* the table's index is the model's number */
    SHOAL_ASSERT(strcmp(kind->name, job_model_name(job->model.kind)) == 0);
    return plan_build_kind(job, shape, kind, out, e);
}
