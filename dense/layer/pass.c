/* pass.c: a batch through the layers, forward and back.
 *
 * Without batch norm a range of examples goes through all layers and back before the next one
 * begins, so that its activations never leave the core's cache. With batch norm all ranges go up to
 * the next norm layer, whose sums are then settled, and so on:
 *
 *     ranges: layers .. up to norm, norm gathers  ->  norm settles
 *       ->  ranges: norm, layers .. up to the next norm, ..
 *
 * and the same on the way back. From the last norm on, a range goes to the loss and back at once,
 * because no later layer needs another range. Prediction needs no sums: each range runs through all
 * layers.
 *
 * A device takes the whole batch as one range. The layers behind those that depend on the number of
 * values (layer_ops.by_values) are one section, which the device may record and replay. Batches
 * come in many sizes (bad lines, data.negatives, ends of files), and each size would need its own
 * recording and its own choice of matrix products. So the section runs at one of few sizes: the
 * batch is filled up with copies of its first example. The copies contribute nothing. Their dlogit
 * is 0, and so are all gradients that follow from it, since those are products of dlogit with the
 * first example's own numbers (dropout drops the same values in both). Batch norm and the choice of
 * experts are the only layers that combine examples; they count the true examples alone (struct
 * step). Experts that compute only the examples that chose them differ in size from batch to batch:
 * the host waits for their numbers (layer_choose), and the section is not recorded.
 *
 * In a plan of several sites (plan_sites.h) a range is a micro-batch. All ranges go forward, then
 * all to the loss, then all back. The streams of the sites keep that order, and wait for one
 * another where data moves, so site 1 computes range 0 while site 0 computes range 1: the schedule
 * of GPipe (Huang et al. 2019). With batch norm the sites also wait at each norm. Nothing is
 * recorded, and the batch is not filled up. */
#include "dense/layer/plan.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/minmax.h"

static uint32_t range_count(const struct pass *p, uint32_t range, uint32_t first)
{
    uint32_t left = p->in->examples - first;
    return MIN(left, range);
}

uint32_t pass_filled(uint32_t examples, uint32_t grain, uint32_t most)
{
    if (grain == 0 || examples == 0)
        return MIN(examples, most);
    uint64_t filled = ((uint64_t)examples + grain - 1) / grain * grain;
    return (uint32_t)MIN(filled, most);
}

/* The rows of the range that a layer works on: its examples, or those that chose the layer's
 * expert. On a device they are filled up to one of few sizes, too: the rows behind the last are
 * zeros and add nothing. A device's layers have at least one row. */
static uint32_t layer_count(const struct layer *l, const struct pass *p)
{
    if (l->rows == TENSOR_NONE)
        return p->count;
    if (p->k->host)
        return pass_rows(p, l->rows).load[l->expert];
    uint64_t load = p->chosen[l->load];
    return pass_filled((uint32_t)MIN(MAX(load, 1), p->count), p->grain, p->count);
}

/* Moves the pass to this site: the next layers run there. */
static void pass_enter(struct pass *p, uint32_t site)
{
    if (p->site == NULL)
        return;
    const struct pass_site *at = &p->site[site];
    p->s = at->s;
    p->in = at->in;
    p->out = at->out;
    p->step = at->step;
    p->live = at->live;
}

/* Runs layers [from, to) over a range. */
static void range_forward(const struct plan *plan, struct pass *p, uint32_t from, uint32_t to,
                          uint32_t first, uint32_t count)
{
    p->first = first;
    p->count = count;
    for (uint32_t i = from; i < to; i++) {
        pass_enter(p, plan->layer[i].site);
        plan->layer[i].ops->forward(&plan->layer[i], p, first, layer_count(&plan->layer[i], p));
    }
}

static void range_backward(const struct plan *plan, struct pass *p, uint32_t from, uint32_t to,
                           uint32_t first, uint32_t count)
{
    p->first = first;
    p->count = count;
    for (uint32_t i = to; i-- > from;) {
        const struct layer *l = &plan->layer[i];
        pass_enter(p, l->site);
        if (l->ops->backward != NULL)
            l->ops->backward(l, p, first, layer_count(l, p));
    }
}

/* Computes the loss of a range, and zeroes the gradients to which every layer adds. */
static void range_loss(const struct plan *plan, struct pass *p, uint32_t first, uint32_t count,
                       float offset)
{
    uint32_t tasks = plan->tasks;
    pass_enter(p, 0);
    const float *weight = NULL;
    float *scores = NULL, *dlogit = NULL;
    if (p->in->weight != NULL)
        weight = p->in->weight + first;
    if (p->out->scores != NULL)
        scores = p->out->scores + (size_t)first * tasks;
    if (p->train)
        dlogit = pass_row(p, p->tensor[TENSOR_LOGIT].gradient, first);

    p->k->loss(p->s, count, p->live, tasks, &plan->loss, pass_row(p, TENSOR_LOGIT, first), offset,
               p->in->label + (size_t)first * tasks, weight, p->step->factor, p->loss, scores,
               dlogit);

    for (uint32_t t = 0; t < plan->tensor_count && p->train; t++) {
        uint32_t gradient = plan->tensor[t].gradient;
        if (!plan->tensor[t].zero || gradient == TENSOR_NONE)
            continue;
        pass_enter(p, plan->tensor[t].site);
        p->k->zero(p->s, pass_row(p, gradient, first),
                   (size_t)count * p->tensor[gradient].ld * sizeof(float));
    }
}

/* Runs the layers from `begin` up to the last layer that gathers, and settles that one. Returns its
 * number, or `begin` where no layer gathers. */
static uint32_t batch_forward(const struct plan *plan, struct pass *p, uint32_t range,
                              uint32_t begin)
{
    /* all layers before `from` have run, and `from` itself has settled if it gathers */
    uint32_t from = begin;
    for (uint32_t i = begin; i < plan->layer_count; i++) {
        const struct layer *gatherer = &plan->layer[i];
        if (gatherer->ops->forward_gather == NULL)
            continue;
        for (uint32_t first = 0; first < p->in->examples; first += range) {
            uint32_t count = range_count(p, range, first);
            range_forward(plan, p, from, i, first, count);
            pass_enter(p, gatherer->site);
            gatherer->ops->forward_gather(gatherer, p, first, count);
        }
        pass_enter(p, gatherer->site);
        gatherer->ops->forward_settle(gatherer, p);
        from = i;
    }
    return from;
}

/* Takes each range from layer `from` to the loss and back. Tensors that only these layers touch
 * hold one range, which the next range overwrites (plan_settle.c). */
static void ranges_turn(const struct plan *plan, struct pass *p, uint32_t range, uint32_t from,
                        uint32_t to, const struct layer *gatherer)
{
    for (uint32_t first = 0; first < p->in->examples; first += range) {
        uint32_t count = range_count(p, range, first);
        p->base = first;
        range_forward(plan, p, from, plan->layer_count, first, count);
        range_loss(plan, p, first, count, 0.0f);
        range_backward(plan, p, to, plan->layer_count, first, count);
        if (gatherer != NULL)
            gatherer->ops->backward_gather(gatherer, p, first, count);
    }
    p->base = 0;
}

/* Takes the ranges forward up to their logits. The layers of the tail wait for the last site, so
 * all ranges have gone through the others before. */
static void sites_forward(const struct plan *plan, struct pass *p, uint32_t range, uint32_t from,
                          float offset)
{
    for (uint32_t first = 0; first < p->in->examples; first += range)
        range_forward(plan, p, from, plan->tail, first, range_count(p, range, first));
    for (uint32_t first = 0; first < p->in->examples; first += range) {
        range_forward(plan, p, plan->tail, plan->layer_count, first, range_count(p, range, first));
        range_loss(plan, p, first, range_count(p, range, first), offset);
    }
}

/* As ranges_turn, range after range at each step of the way. A site waits for all that is queued on
 * the other by then, so all ranges go back through the tail before site 0 has to wait for any. */
static void sites_turn(const struct plan *plan, struct pass *p, uint32_t range, uint32_t from,
                       uint32_t to, const struct layer *gatherer)
{
    sites_forward(plan, p, range, from, 0.0f);
    for (uint32_t first = 0; first < p->in->examples; first += range)
        range_backward(plan, p, plan->tail, plan->layer_count, first, range_count(p, range, first));
    for (uint32_t first = 0; first < p->in->examples; first += range) {
        uint32_t count = range_count(p, range, first);
        range_backward(plan, p, to, plan->tail, first, count);
        if (gatherer == NULL)
            continue;
        pass_enter(p, gatherer->site);
        gatherer->ops->backward_gather(gatherer, p, first, count);
    }
}

/* Takes the batch from layer `from` to the loss and back. Returns the number of the first layer
 * whose backward has run: `from` + 1 where `from` gathers, else `end`. */
static uint32_t batch_turn(const struct plan *plan, struct pass *p, uint32_t range, uint32_t from,
                           uint32_t end)
{
    const struct layer *gatherer = NULL;
    uint32_t to = end;
    if (from < plan->layer_count && plan->layer[from].ops->backward_gather != NULL) {
        gatherer = &plan->layer[from];
        to = from + 1;
    }
    if (plan->sites > 1)
        sites_turn(plan, p, range, from, to, gatherer);
    else
        ranges_turn(plan, p, range, from, to, gatherer);
    if (gatherer == NULL)
        return to;
    pass_enter(p, gatherer->site);
    gatherer->ops->backward_settle(gatherer, p);
    return to;
}

/* Runs back from layer `to` - 1, which has gathered and settled, down to layer `end`. */
static void batch_backward(const struct plan *plan, struct pass *p, uint32_t range, uint32_t to,
                           uint32_t end)
{
    while (to > end) {
        uint32_t from = to - 1; /* one above the next layer that gathers, or `end` */
        while (from > end && plan->layer[from - 1].ops->backward_gather == NULL)
            from--;
        const struct layer *gatherer = NULL;
        if (from > end)
            gatherer = &plan->layer[from - 1];
        for (uint32_t first = 0; first < p->in->examples; first += range) {
            uint32_t count = range_count(p, range, first);
            range_backward(plan, p, from, to, first, count);
            if (gatherer == NULL)
                continue;
            pass_enter(p, gatherer->site);
            gatherer->ops->backward_gather(gatherer, p, first, count);
        }
        if (gatherer != NULL) {
            pass_enter(p, gatherer->site);
            gatherer->ops->backward_settle(gatherer, p);
        }
        to = from;
    }
}

/* Runs the layers from `begin` on, forward and back. */
static void batch_train(const struct plan *plan, struct pass *p, uint32_t range, uint32_t begin)
{
    uint32_t last = batch_forward(plan, p, range, begin);
    uint32_t to = batch_turn(plan, p, range, last, begin);
    batch_backward(plan, p, range, to, begin);
}

/* Prediction takes the running statistics, so every range runs through all layers at once. */
static void batch_predict(const struct plan *plan, struct pass *p, uint32_t range, uint32_t begin,
                          float offset)
{
    for (uint32_t i = begin; i < plan->layer_count; i++)
        if (plan->layer[i].ops->forward_settle != NULL) {
            pass_enter(p, plan->layer[i].site);
            plan->layer[i].ops->forward_settle(&plan->layer[i], p);
        }
    if (plan->sites > 1) {
        sites_forward(plan, p, range, begin, offset);
        return;
    }
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

/* Repeats the first example in every tensor that the section reads and the layers before it (up to
 * `head`) wrote. */
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

/* A hash of all that the arguments of a section's kernels depend on. A recording is replayed for an
 * equal hash. 0: they depend on the batch's numbers, too, and nothing is recorded. */
static uint64_t section_number(const struct pass *p, float offset)
{
    if (p->chosen != NULL)
        return 0;
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

/* The number of layers that depend on the number of values; they come first. */
static uint32_t head_of(const struct plan *plan)
{
    uint32_t head = 0;
    while (head < plan->layer_count && plan->layer[head].ops->by_values)
        head++;
    return head;
}

/* Runs the layers that depend on the number of values, then the section of fixed shape, and
 * back. */
static void device_pass(const struct plan *plan, struct pass *p, float offset)
{
    const struct model_input *in = p->in;
    struct model_input section = *in;
    uint32_t head = head_of(plan);
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

/* ---- at several sites ------------------------------------------------------------------------ */

static void sites_join(struct pass *p, uint32_t sites)
{
    for (uint32_t site = 1; site < sites; site++)
        p->k->after(p->site[0].s, p->site[site].s);
    for (uint32_t site = 1; site < sites; site++)
        p->k->after(p->site[site].s, p->site[0].s);
}

static void sites_watch(struct pass *p, uint32_t sites, bool begin)
{
    for (uint32_t site = 0; site < sites && p->watched; site++)
        p->k->watch(p->site[site].s, begin);
}

/* The layers that depend on the number of values take the batch at once, the others by ranges. The
 * watch ends with a wait for all sites, so that each of them is watched for the same time. */
static void sites_pass(const struct plan *plan, struct pass *p, uint32_t range, float offset)
{
    uint32_t head = head_of(plan), examples = p->in->examples;
    sites_join(p, plan->sites);
    sites_watch(p, plan->sites, true);
    range_forward(plan, p, 0, head, 0, examples);
    if (p->train)
        batch_train(plan, p, range, head);
    else
        batch_predict(plan, p, range, head, offset);
    if (p->train)
        range_backward(plan, p, 0, head, 0, examples);
    sites_join(p, plan->sites);
    sites_watch(p, plan->sites, false);
    pass_enter(p, 0);
}

/* ---- a batch --------------------------------------------------------------------------------- */

void pass_train(const struct plan *plan, struct pass *p, uint32_t range)
{
    SHOAL_ASSERT(p->train && (range > 0 || p->in->examples == 0));
    p->base = 0;
    if (plan->sites > 1)
        sites_pass(plan, p, range, 0.0f);
    else if (p->k->host)
        batch_train(plan, p, range, 0);
    else
        device_pass(plan, p, 0.0f);
}

void pass_predict(const struct plan *plan, struct pass *p, uint32_t range, float offset)
{
    SHOAL_ASSERT(!p->train && (range > 0 || p->in->examples == 0));
    p->base = 0;
    if (plan->sites > 1 && p->in->examples > 0)
        sites_pass(plan, p, range, offset);
    else if (p->k->host)
        batch_predict(plan, p, range, 0, offset);
    else if (p->in->examples > 0)
        device_pass(plan, p, offset);
}
