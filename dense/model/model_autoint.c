/* model_autoint.c: AutoInt+ (Song et al. 2019): self-attention over the field vectors, and a
 * network beside it:
 *     z = bias + w . (fields after attention_layers layers) + head(network(vectors, numbers)).
 * Without a first-order part. The scores are divided by sqrt(width of a head), and the residual is
 * mapped only where widths differ, as in FuxiCTR, whose settings the published figures are of. */
#include "dense/layer/attention.h"
#include "dense/model/models.h"

#include <inttypes.h>

/* Floats that an example may need for the queries, keys, values and shares of one layer: 1 MiB. */
#define AUTOINT_FLOATS_MAX (1u << 18)

void model_autoint_plan(struct plan *p)
{
    const struct job *job = p->job;
    struct view input = plan_input(p, true, 0);
    plan_head(p, plan_network(p, input, &job->model.hidden), 0);
    plan_head(p,
              attention_plan(p, plan_vectors(p, input), p->shape.fields,
                             job->model.attention_layers, job->model.heads,
                             job->model.attention_dim),
              0);
}

int model_autoint_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    uint32_t heads = job->model.heads, width = job->model.attention_dim;
    if (shape->fields == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "features: model.kind autoint needs fields; there are none");
    if (job->model.attention_layers == 0 || heads == 0 || width == 0 || width % heads != 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.attention_dim is %u; it must be a multiple of model.heads, %u", width,
                       heads);
    uint64_t floats = (uint64_t)shape->fields * 4 * width +
                      (uint64_t)heads * shape->fields * attend_lanes(shape->fields);
    if (floats > AUTOINT_FLOATS_MAX)
        return err_set(
            e, SHOAL_E_CONFIG,
            "model.kind autoint: %u fields with attention_dim %u and %u heads take %" PRIu64 " "
            "floats an example and layer, "
            "over the limit of %u; choose fields in features.fields, or make "
            "attention_dim or heads smaller",
            shape->fields, width, heads, floats, AUTOINT_FLOATS_MAX);
    return 0;
}
