/* model_finalmlp.c: FinalMLP (Mao et al. 2023): two networks over the same input, fused by their
 * products:
 *     z = bias + w1 . o1 + w2 . o2 + sum over heads h of o1_h' W_h o2_h,
 * o1 the last hidden layer of network 1 (model.hidden), o2 of network 2 (model.hidden2), in equal
 * shares for the heads. With gate_hidden each network sees the input through a gate of its own,
 * over a context of its own (gate.h): the vector of its field of gate_fields, else a learned
 * one. */
#include "dense/layer/bilinear.h"
#include "dense/layer/gate.h"
#include "dense/model/models.h"

static struct view context_of(struct plan *p, struct view input, uint32_t stream)
{
    if (p->shape.gate_fields == 0)
        return gate_context_plan(p, p->dim);
    return plan_field(p, input, p->shape.gate_field[stream]);
}

static struct view stream(struct plan *p, struct view input, uint32_t number,
                          const struct widths *hidden)
{
    const struct widths *gate = &p->job->model.gate_hidden;
    if (gate->count > 0)
        input = gate_plan(p, input, context_of(p, input, number), gate);
    return plan_network(p, input, hidden);
}

void model_finalmlp_plan(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    struct view one = stream(p, input, 0, &p->job->model.hidden),
                two = stream(p, input, 1, &p->job->model.hidden2);
    plan_head(p, one, 0);
    plan_head(p, two, 0);
    bilinear_plan(p, one, two, p->job->model.heads, 0);
}

static uint32_t last_width(const struct widths *w)
{
    return w->at[w->count - 1];
}

int model_finalmlp_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    uint32_t heads = job->model.heads;
    int rc = plan_widths_check(&job->model.hidden2, "model.hidden2", e);
    if (rc == 0 && job->model.gate_hidden.count > 0)
        rc = plan_widths_check(&job->model.gate_hidden, "model.gate_hidden", e);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < shape->gate_fields; i++)
        if (shape->gate_fields != 2 || shape->gate_field[i] >= shape->fields)
            return err_set(
                e, SHOAL_E_CONFIG,
                "model.gate_fields: %u fields, the last one number %u; there must be two, below %u",
                shape->gate_fields, shape->gate_field[i], shape->fields);
    uint32_t one = last_width(&job->model.hidden), two = last_width(&job->model.hidden2);
    if (heads == 0 || one % heads != 0 || two % heads != 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.heads is %u; the last layers of model.hidden and model.hidden2, %u "
                       "and %u, must be multiples of it",
                       heads, one, two);
    return 0;
}
