/* model_attention.c: autoint and din: attention between fields, and from a target to a sequence. */
#include "dense/model/models.h"

#include <inttypes.h>

/* ---- autoint --------------------------------------------------------------------------------- */

/* AutoInt+ (Song et al. 2019): self-attention over the field vectors, and a
 * network beside it:
 *     z = bias + w . (fields after attention_layers layers) + head(network(vectors, numbers)).
 * There is no first-order part. As in FuxiCTR, whose settings gave the published figures, the
 * scores are divided by sqrt(width of a head), and the residual is mapped only where the widths
 * differ. */
/* Floats that an example may need for the queries, keys, values and shares of one layer: 1 MiB. */
#define AUTOINT_FLOATS_MAX (1u << 18)

void model_autoint_plan(struct plan *p)
{
    const struct job *job = p->job;
    struct view input = plan_input(p, true, 0);
    plan_head(p, plan_network(p, input, &job->model.hidden), 0);
    plan_scope(p, "attention");
    plan_head(p,
              plan_attention(p, plan_vectors(p, input), p->shape.fields,
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

/* ---- din ------------------------------------------------------------------------------------- */

/* DIN, the deep interest network (Zhou et al. 2018): a network over the field vectors,
 * where a behaviour sequence, a field with pooling attention, is summed with weights that depend on
 * the target that it attends to (dense/layer/attention.c):
 *     z = bias + head(network(vectors, sequences, numbers)).
 * It takes the job's activation and norm instead of the paper's Dice. */
void model_din_plan(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    plan_sequences(p, input, &p->job->model.attention_hidden);
    plan_head(p, plan_network(p, input, &p->job->model.hidden), 0);
}

int model_din_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    const struct widths *hidden = &job->model.attention_hidden;
    uint32_t sequences = 0;
    for (uint32_t f = 0; f < shape->fields; f++) {
        if (shape->pooling[f] != POOL_ATTENTION)
            continue;
        sequences++;
        if (shape->attend[f] >= shape->fields || shape->pooling[shape->attend[f]] == POOL_ATTENTION)
            return err_set(e, SHOAL_E_CONFIG,
                           "data.columns: field %u has pooling attention and attends to field %u, "
                           "which must be a field with one "
                           "value",
                           f, shape->attend[f]);
    }
    if (sequences == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.kind din needs a behaviour sequence: a column of type multi with "
                       "pooling: attention and attend: the "
                       "target's column");
    int rc = plan_widths_check(hidden, "model.attention_hidden", e);
    if (rc == 0 && hidden->count > SEQUENCE_HIDDEN_MAX)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "model.attention_hidden names %u layers; din takes 1 to %u, as in [80, 40]",
                     hidden->count, SEQUENCE_HIDDEN_MAX);
    return rc;
}
