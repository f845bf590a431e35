/* model_din.c: DIN, the deep interest network (Zhou et al. 2018): a network over the field vectors,
 * where a behaviour sequence, a field with pooling attention, is summed with weights that depend on
 * the target that it attends to (sequence.h):
 *     z = bias + head(network(vectors, sequences, numbers)).
 * With the job's activation and norm, not the paper's Dice. */
#include "dense/layer/sequence.h"
#include "dense/model/models.h"

void model_din_plan(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    sequence_plan(p, input, &p->job->model.attention_hidden);
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
