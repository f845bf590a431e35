/* model_cross.c: dcnv2, xdeepfm, finalmlp: products of higher degree, or of two streams, and
 * networks. */
#include "dense/model/models.h"
#include "proto/base/text.h"

/* ---- dcnv2 ----------------------------------------------------------------------------------- */

/* DCN-V2 (Wang et al. 2021), parallel: cross layers of full rank and a network side by side over
 * the field vectors and the numbers, with one head over the outputs of both. */
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
    plan_scope(p, "cross");
    plan_cross(p, input, p->job->model.cross_layers, plan_columns(both, 0, input.width));
    plan_scope(p, "both");
    plan_head(p, both, 0);
}

/* ---- xdeepfm --------------------------------------------------------------------------------- */

/* XDeepFM (Lian et al. 2018): logistic regression, the compressed interaction network over the
 * field vectors, and a network over vectors and numbers. */
int model_xdeepfm_check(const struct job *job, const struct model_shape *shape, struct err *e)
{
    const struct widths *maps = &job->model.cin;
    int rc = plan_widths_check(maps, "model.cin", e);
    if (rc != 0)
        return rc;
    if (shape->fields == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "features: model.kind xdeepfm needs at least one categorical field");
    double floats = 0, below = shape->fields;
    for (uint32_t i = 0; i < maps->count; i++) {
        floats += below * shape->fields * maps->at[i];
        below = maps->at[i];
    }
    if (floats > (double)BLOCK_TABLE_FLOATS_MAX)
        return err_set(
            e, SHOAL_E_CONFIG,
            "model.cin makes %.0f weights, over the limit of %zu; make the layers narrower", floats,
            BLOCK_TABLE_FLOATS_MAX);
    return 0;
}

void model_xdeepfm_plan(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    plan_scope(p, "cin");
    plan_head(p, plan_cin(p, plan_vectors(p, input), &p->job->model.cin), 0);
    plan_scope(p, "hidden");
    plan_head(p, plan_network(p, input, &p->job->model.hidden), 0);
}

/* ---- finalmlp -------------------------------------------------------------------------------- */

/* FinalMLP (Mao et al. 2023): two networks over the same input, fused by their
 * products:
 *     z = bias + w1 . o1 + w2 . o2 + sum over heads h of o1_h' W_h o2_h,
 * where o1 is the last hidden layer of network 1 (model.hidden) and o2 that of network 2
 * (model.hidden2), both cut into equal shares for the heads. With gate_hidden each network reads
 * the input through a gate with its own context: the vector of its field in gate_fields, or a
 * learned vector. */
static struct view context_of(struct plan *p, struct view input, uint32_t stream)
{
    if (p->shape.gate_fields == 0)
        return plan_context(p, p->dim);
    return plan_field(p, input, p->shape.gate_field[stream]);
}

static struct view stream(struct plan *p, struct view input, uint32_t number,
                          const struct widths *hidden)
{
    const struct widths *gate = &p->job->model.gate_hidden;
    if (p->shape.gate_fields == 0)
        plan_scope(p, "gate%u", number + 1);
    else
        plan_scope(p, "gate%u.%u", number + 1, p->shape.number[p->shape.gate_field[number]]);
    if (gate->count > 0)
        input = plan_gate(p, input, context_of(p, input, number), gate);
    plan_scope(p, "hidden%s", text_if(number > 0, "2"));
    return plan_network(p, input, hidden);
}

void model_finalmlp_plan(struct plan *p)
{
    struct view input = plan_input(p, true, 0);
    struct view one = stream(p, input, 0, &p->job->model.hidden),
                two = stream(p, input, 1, &p->job->model.hidden2);
    plan_scope(p, "hidden");
    plan_head(p, one, 0);
    plan_scope(p, "hidden2");
    plan_head(p, two, 0);
    plan_scope(p, "products");
    plan_bilinear(p, one, two, p->job->model.heads, 0);
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
