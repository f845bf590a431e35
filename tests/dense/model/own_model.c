/* own_model.c: Deep Crossing (Shan et al. 2016), the example of dense/README.md: residual units
 * over the field vectors and the numbers, y = relu(x + W2 relu(W1 x + b1) + b2), and a head. */
#include "dense/layer/lower.h"
#include "dense/layer/plan.h"

/* y = x + z. A layer fetches rows of its views and calls kernels of the backend. The backend has
 * all the kernels that this layer needs. */
static void sum_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    float *y = pass_at(p, l->y, first);
    uint32_t width = l->y.width, ldy = pass_ld(p, l->y);
    p->k->zero(p->s, y, (size_t)count * ldy * sizeof *y); /* y is the only view of its tensor */
    p->k->add(p->s, count, width, pass_at(p, l->x, first), pass_ld(p, l->x), y, ldy);
    p->k->add(p->s, count, width, pass_at(p, l->z, first), pass_ld(p, l->z), y, ldy);
}

/* Passes the gradient of y to one of the inputs. add: another layer has written there before. */
static void hand_on(const struct layer *l, struct pass *p, struct view to, bool add, uint32_t first,
                    uint32_t count)
{
    float *gradient = pass_gradient_at(p, to, first);
    /* the numbers of the input need no gradient */
    uint32_t wanted = pass_wanted(p, to), ld = pass_gradient_ld(p, to);

    if (!add)
        p->k->zero(p->s, gradient, (size_t)count * ld * sizeof *gradient);
    p->k->add(p->s, count, wanted, pass_gradient_at(p, l->y, first), pass_gradient_ld(p, l->y),
              gradient, ld);
}

static void sum_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    hand_on(l, p, l->z, l->add_z, first, count); /* z before x, as layer.h requires */
    hand_on(l, p, l->x, l->add, first, count);
}

/* The layer as an operator of ONNX. */
static void sum_lower(const struct layer *l, struct lower *w)
{
    uint32_t x = lower_read(w, l->x), z = lower_read(w, l->z);
    lower_write(w, l->y, graph_binary(lower_graph(w), "Add", x, z));
}

static const struct layer_ops sum_layer = {
    .name = "sum", .forward = sum_forward, .backward = sum_backward, .lower = sum_lower};

void model_deep_crossing_plan(struct plan *p)
{
    const struct job *job = p->job;
    struct view x = plan_input(p, true, 0);
    for (uint32_t i = 0; i < job->model.hidden.count; i++) {
        struct view inner = plan_linear(p, x, job->model.hidden.at[i], ACT_RELU, job->model.dropout,
                                        job->model.norm, VIEW_NONE);
        struct view outer = plan_linear(p, inner, x.width, ACT_NONE, 0.0, NORM_NONE, VIEW_NONE);
        struct view y = plan_tensor(p, x.width);
        plan_layer(p, &sum_layer, x, y)->z = outer;
        plan_layer(p, &layer_act, y, y)->act = ACT_RELU;
        x = y;
    }
    plan_head(p, x, 0);
}
