/* model_probe.c: counts examples instead of learning, so that a test can tell that each was applied
 * exactly once.
 *
 * The gradient of a row is -1 for each example of the batch that has the key; with SGD and lr 1 the
 * row is the number of examples. An example that names a key twice counts once. */
#include "dense/model/models.h"

#include "dense/layer/pool.h"

static void probe_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    (void)l;
    p->k->bias_forward(p->s, count, p->tasks, NULL,
                       pass_at(p, (struct view){TENSOR_LOGIT, 0, p->tasks}, first));
}

static void probe_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct pool_args a = pool_args_of(p, first, count);
    (void)l;
    p->k->probe_backward(p->s, &a, p->out->row_gradients);
}

static const struct layer_ops probe_layer = {
    .name = "probe", .forward = probe_forward, .backward = probe_backward, .by_values = true};

void model_probe_plan(struct plan *p)
{
    plan_layer(p, &probe_layer, VIEW_NONE, VIEW_NONE);
}
