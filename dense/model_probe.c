/* model_probe.c: counts examples instead of learning, so that a test can tell that each was applied exactly once.
 *
 * The gradient of a row is -1 for each example of the batch that has the key; with SGD and lr 1 the row is the number
 * of examples. */
#include "dense/plan.h"

#include <math.h>

/* An example that names a key twice counts once. A key belongs to one field, so only values of one field can be the
 * same: the first sight of a row takes one half off, which marks it, and a second walk over the field takes the other
 * half. Halves of numbers below 2^23 are exact. */
static void probe_field(const uint32_t *index, uint32_t begin, uint32_t end, float *count)
{
    for (uint32_t v = begin; v < end; v++)
        if (count[index[v]] == floorf(count[index[v]]))
            count[index[v]] -= 0.5f;
    for (uint32_t v = begin; v < end; v++)
        if (count[index[v]] != floorf(count[index[v]]))
            count[index[v]] -= 0.5f;
}

static void probe_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    (void)l;
    float *logit = pass_at(p, TENSOR_LOGIT, first, 1);
    for (uint32_t i = 0; i < count; i++)
        logit[i] = 0.0f;
}

static void probe_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    (void)l;
    const uint32_t *offset = p->in->offset;
    uint32_t fields = p->shape->fields;
    for (uint32_t slot = first * fields; slot < (first + count) * fields; slot++)
        probe_field(p->in->index, offset ? offset[slot] : slot, offset ? offset[slot + 1] : slot + 1,
                    p->out->row_gradients);
}

static const struct layer_ops probe_layer = {.name = "probe", .forward = probe_forward, .backward = probe_backward};

void model_probe_plan(struct plan *p)
{
    plan_layer(p, (struct layer){.ops = &probe_layer});
}
