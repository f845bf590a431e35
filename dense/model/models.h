/* models.h: the models by model.kind. A new model needs its file, its prototypes here, its row in
 * models.c and its name in proto/job/job.h (dense/README.md). */
#ifndef DENSE_MODEL_MODELS_H
#define DENSE_MODEL_MODELS_H

#include "dense/layer/plan.h"
#include "dense/model.h"

/* CONFIG: tables of several dims where the model needs one, a network without a layer, a model that
 * does not fit the input, or more parameters than a dense table holds. */
int models_plan(const struct job *job, const struct model_shape *shape, struct plan *out,
                struct err *e);

/* As model_new, with the caller's kind; NULL: the job's. */
int model_new_kind(const struct job *job, const struct model_shape *shape,
                   const struct plan_kind *kind, struct backend *backend, struct model **out,
                   struct err *e);

void model_lr_plan(struct plan *p);
void model_fm_plan(struct plan *p);
void model_fwfm_plan(struct plan *p);
void model_wide_deep_plan(struct plan *p);
void model_deepfm_plan(struct plan *p);
void model_ipnn_plan(struct plan *p);
int model_pairs_check(const struct job *job, const struct model_shape *shape, struct err *e);
void model_dlrm_plan(struct plan *p);
int model_dlrm_check(const struct job *job, const struct model_shape *shape, struct err *e);
void model_dcnv2_plan(struct plan *p);
int model_dcnv2_check(const struct job *job, const struct model_shape *shape, struct err *e);
void model_xdeepfm_plan(struct plan *p);
int model_xdeepfm_check(const struct job *job, const struct model_shape *shape, struct err *e);
void model_finalmlp_plan(struct plan *p);
int model_finalmlp_check(const struct job *job, const struct model_shape *shape, struct err *e);
void model_autoint_plan(struct plan *p);
int model_autoint_check(const struct job *job, const struct model_shape *shape, struct err *e);
void model_din_plan(struct plan *p);
int model_din_check(const struct job *job, const struct model_shape *shape, struct err *e);
void model_mmoe_plan(struct plan *p);
int model_mmoe_check(const struct job *job, const struct model_shape *shape, struct err *e);
void model_ple_plan(struct plan *p);
int model_ple_check(const struct job *job, const struct model_shape *shape, struct err *e);

#endif
