/* model_dcnv2.c: DCN-V2 (Wang et al. 2021), parallel: cross layers of full rank and a network side
 * by side over the field vectors and the numbers, one head over what both give. */
#include "dense/model/models.h"

#include "dense/layer/cross.h"

int model_dcnv2_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    double width = plan_vectors_width(job, shape) + shape->numerics;
    double floats = width * width * job->model.cross_layers;
    if (job->model.cross_layers == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.cross_layers is 0; model.kind dcnv2 needs 1 to 16");
    if (floats > (double)BLOCK_TABLE_FLOATS_MAX)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.cross_layers: %u layers over %.0f inputs make %.0f weights, over the "
                       "limit of %zu; "
                       "make the dims of tables smaller or use fewer fields",
                       job->model.cross_layers, width, floats, BLOCK_TABLE_FLOATS_MAX);
    return 0;
}

/* The network, with its last layer written to y. */
static void network_into(struct plan *p, struct view x, struct view y)
{
    const struct job *job = p->job;
    struct widths lower = job->model.hidden;
    lower.count--;
    x = plan_network(p, x, &lower);
    plan_linear(p, x, y.width, job->model.activation, job->model.dropout, job->model.norm, y);
}

void model_dcnv2_plan(struct plan *p)
{
    const struct widths *hidden = &p->job->model.hidden;
    struct view input = plan_input(p, true, 0);
    uint32_t last = hidden->at[hidden->count - 1];
    struct view both = plan_tensor(p, input.width + last);
    network_into(p, input, plan_columns(both, input.width, last));
    cross_plan(p, input, p->job->model.cross_layers, plan_columns(both, 0, input.width));
    plan_head(p, both, 0);
}
