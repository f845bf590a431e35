/* pass.c: a batch through the layers, forward and back.
 *
 * Without batch norm a range of examples goes through all layers and back before the next one
 * begins, so that its activations never leave the core's cache. With batch norm all ranges go up to
 * the next norm layer, whose sums are then settled, and so on:
 *
 *     ranges: layers .. up to norm, norm gathers  ->  norm settles
 *       ->  ranges: norm, layers .. up to the next norm, ..
 *
 * and the same on the way back. From the last norm on a range goes to the loss and back at once,
 * for it only looks back at itself. Prediction needs no sums: ranges go straight through.
 *
 * A device takes the whole batch as one range, and what lies behind the layers that look at values
 * is one section, which it may record and play again. Batches come in many sizes (bad lines,
 * data.negatives, ends of files), and each size would be a recording and a choice of matrix
 * products of its own. So the section runs at one of few sizes: the batch is filled up with copies
 * of its first example. What fills it up contributes nothing: its dlogit is 0, and so are all
 * gradients that come of it, for they are products of dlogit with the first example's own numbers
 * (dropout drops the same of both); and batch norm, which alone looks at the batch as a whole,
 * leaves it out by the true count (struct step). */
#include "dense/layer/plan.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"

static uint32_t range_count(const struct pass *p, uint32_t range, uint32_t first)
{
    uint32_t left = p->in->examples - first;
    return left < range ? left : range;
}

/* Layers [from, to) over a range. */
static void range_forward(const struct plan *plan, struct pass *p, uint32_t from, uint32_t to,
                          uint32_t first, uint32_t count)
{
    for (uint32_t i = from; i < to; i++)
        plan->layer[i].ops->forward(&plan->layer[i], p, first, count);
}

static void range_backward(const struct plan *plan, struct pass *p, uint32_t from, uint32_t to,
                           uint32_t first, uint32_t count)
{
    for (uint32_t i = to; i-- > from;)
        plan->layer[i].ops->backward(&plan->layer[i], p, first, count);
}

static float *row(const struct pass *p, uint32_t tensor, uint32_t example)
{
    return p->data[tensor] +
           (size_t)(example - (p->tensor[tensor].whole ? 0 : p->base)) * p->tensor[tensor].ld;
}

/* The loss, and before the way back the gradients that are added to by all. */
static void range_loss(const struct plan *plan, struct pass *p, uint32_t first, uint32_t count,
                       float offset)
{
    uint32_t tasks = plan->tasks;
    p->k->loss_logistic(p->s, count, p->live, tasks, row(p, TENSOR_LOGIT, first), offset,
                        p->in->label + (size_t)first * tasks,
                        p->in->weight != NULL ? p->in->weight + first : NULL, p->step->factor,
                        p->loss,
                        p->out->scores != NULL ? p->out->scores + (size_t)first * tasks : NULL,
                        p->train ? row(p, p->tensor[TENSOR_LOGIT].gradient, first) : NULL);
    for (uint32_t t = 0; t < plan->tensor_count && p->train; t++) {
        uint32_t gradient = plan->tensor[t].gradient;
        if (plan->tensor[t].zero && gradient != TENSOR_NONE)
            p->k->zero(p->s, row(p, gradient, first),
                       (size_t)count * p->tensor[gradient].ld * sizeof(float));
    }
}

/* From layer `begin` on, until the last layer that must see the whole batch first has seen it.
 * Returns that layer's number; `begin` where there is none. */
static uint32_t batch_forward(const struct plan *plan, struct pass *p, uint32_t range,
                              uint32_t begin)
{
    uint32_t from = begin; /* all before has run; `from` itself, when it gathers, has settled */
    for (uint32_t i = begin; i < plan->layer_count; i++) {
        const struct layer *gatherer = &plan->layer[i];
        if (gatherer->ops->forward_gather == NULL)
            continue;
        for (uint32_t first = 0; first < p->in->examples; first += range) {
            uint32_t count = range_count(p, range, first);
            range_forward(plan, p, from, i, first, count);
            gatherer->ops->forward_gather(gatherer, p, first, count);
        }
        gatherer->ops->forward_settle(gatherer, p);
        from = i;
    }
    return from;
}

/* The last stretch, from layer `from` to the loss and back: what lives in it alone is gone before
 * the next range begins (plan_settle.c). Returns the layer above which all have run back: that
 * after `from`, which gathers and settles, or `end` where no layer gathers. */
static uint32_t batch_turn(const struct plan *plan, struct pass *p, uint32_t range, uint32_t from,
                           uint32_t end)
{
    bool gathers = from < plan->layer_count && plan->layer[from].ops->backward_gather != NULL;
    uint32_t to = gathers ? from + 1 : end;
    for (uint32_t first = 0; first < p->in->examples; first += range) {
        uint32_t count = range_count(p, range, first);
        p->base = first;
        range_forward(plan, p, from, plan->layer_count, first, count);
        range_loss(plan, p, first, count, 0.0f);
        range_backward(plan, p, to, plan->layer_count, first, count);
        if (gathers)
            plan->layer[from].ops->backward_gather(&plan->layer[from], p, first, count);
    }
    p->base = 0;
    if (gathers)
        plan->layer[from].ops->backward_settle(&plan->layer[from], p);
    return to;
}

/* Back from layer `to` - 1, which has gathered and settled, to `end`. */
static void batch_backward(const struct plan *plan, struct pass *p, uint32_t range, uint32_t to,
                           uint32_t end)
{
    while (to > end) {
        uint32_t from = to - 1; /* one above the next layer that gathers, or `end` */
        while (from > end && plan->layer[from - 1].ops->backward_gather == NULL)
            from--;
        const struct layer *gatherer = from > end ? &plan->layer[from - 1] : NULL;
        for (uint32_t first = 0; first < p->in->examples; first += range) {
            uint32_t count = range_count(p, range, first);
            range_backward(plan, p, from, to, first, count);
            if (gatherer != NULL)
                gatherer->ops->backward_gather(gatherer, p, first, count);
        }
        if (gatherer != NULL)
            gatherer->ops->backward_settle(gatherer, p);
        to = from;
    }
}

/* Layers from `begin` on, there and back. */
static void batch_train(const struct plan *plan, struct pass *p, uint32_t range, uint32_t begin)
{
    uint32_t last = batch_forward(plan, p, range, begin);
    uint32_t to = batch_turn(plan, p, range, last, begin);
    batch_backward(plan, p, range, to, begin);
}

/* Straight through: statistics are the running ones. */
static void batch_predict(const struct plan *plan, struct pass *p, uint32_t range, uint32_t begin,
                          float offset)
{
    for (uint32_t i = begin; i < plan->layer_count; i++)
        if (plan->layer[i].ops->forward_settle != NULL)
            plan->layer[i].ops->forward_settle(&plan->layer[i], p);
    for (uint32_t first = 0; first < p->in->examples; first += range) {
        uint32_t count = range_count(p, range, first);
        p->base = first;
        range_forward(plan, p, begin, plan->layer_count, first, count);
        range_loss(plan, p, first, count, offset);
    }
    p->base = 0;
}

/* ---- on a device ----------------------------------------------------------------------------- */

static void tensor_fill(const struct plan *plan, struct pass *p, uint32_t tensor)
{
    uint32_t examples = p->in->examples;
    p->k->rows_repeat(p->s, examples, p->filled - examples, plan->tensor[tensor].ld,
                      p->data[tensor]);
}

/* What the section reads of each example, and it does not make by itself, is repeated: what layers
 * before it wrote. */
static void batch_fill(const struct plan *plan, struct pass *p, uint32_t head)
{
    bool filled[PLAN_TENSORS_MAX] = {false};
    if (p->filled == p->in->examples)
        return;
    tensor_fill(plan, p, TENSOR_LOGIT);
    if (plan->shape.numerics > 0)
        tensor_fill(plan, p, TENSOR_NUMERIC);
    for (uint32_t i = 0; i < head; i++) {
        uint32_t t = plan->layer[i].y.tensor;
        if (t == TENSOR_NONE || t < TENSOR_FIRST_FREE || filled[t])
            continue;
        tensor_fill(plan, p, t);
        filled[t] = true;
    }
}

/* Everything that decides what the kernels of a section are told: one number for one set of
 * arguments. */
static uint64_t section_number(const struct pass *p, float offset)
{
    const struct { /* no byte without a value */
        uint32_t examples, train;
        float offset;
        uint32_t zero;
        const void *array[8];
    } key = {p->filled,
             p->train,
             offset,
             0,
             {p->in->label, p->in->weight, p->in->numeric, p->in->dense, p->in->stats,
              p->out->scores, p->out->dense_gradients, p->out->stats_gradients}};

    return hash_bytes(&key, sizeof key, 1);
}

/* Layers that look at values, then the section of fixed shape, and back. */
static void device_pass(const struct plan *plan, struct pass *p, float offset)
{
    const struct model_input *in = p->in;
    struct model_input section = *in;
    uint32_t head = 0;
    while (head < plan->layer_count && plan->layer[head].ops->by_values)
        head++;
    SHOAL_ASSERT(p->filled >= in->examples);
    range_forward(plan, p, 0, head, 0, in->examples);
    batch_fill(plan, p, head);
    section.examples = p->filled;
    p->in = &section;
    for (bool queue = p->k->graph_begin(p->s, section_number(p, offset)); queue;
         queue = p->k->graph_end(p->s))
        if (p->train)
            batch_train(plan, p, p->filled, head);
        else
            batch_predict(plan, p, p->filled, head, offset);
    p->in = in;
    if (p->train)
        range_backward(plan, p, 0, head, 0, in->examples);
}

/* ---- a batch --------------------------------------------------------------------------------- */

void pass_train(const struct plan *plan, struct pass *p, uint32_t range)
{
    SHOAL_ASSERT(p->train && (range > 0 || p->in->examples == 0));
    p->base = 0;
    if (p->k->host)
        batch_train(plan, p, range, 0);
    else
        device_pass(plan, p, 0.0f);
}

void pass_predict(const struct plan *plan, struct pass *p, uint32_t range, float offset)
{
    SHOAL_ASSERT(!p->train && (range > 0 || p->in->examples == 0));
    p->base = 0;
    if (p->k->host)
        batch_predict(plan, p, range, 0, offset);
    else if (p->in->examples > 0)
        device_pass(plan, p, offset);
}
