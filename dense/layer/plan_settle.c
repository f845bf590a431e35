/* plan_settle.c: where each gradient lies, which layers add to it, and which tensors hold the whole
 * batch.
 *
 * The way back visits layers from last to first; each reads the gradient of its output and writes
 * the gradients of its inputs. So for every tensor the columns already written are known at each
 * layer: the last reader of a column sets it, and the readers before that one add. Two kinds of
 * gradients are zeroed first, and all readers add: those that the readers do not cover, and those
 * of which a reader's columns are partly set. */
#include "dense/layer/plan.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"

/* ---- which layers add ------------------------------------------------------------------------ */

/* The columns of one gradient that are written so far: disjoint intervals, at most two for each
 * layer. */
#define COVER_MAX (2 * PLAN_LAYERS_MAX)
struct cover {
    uint32_t begin[COVER_MAX], end[COVER_MAX];
    uint32_t count;
};

static uint32_t cover_columns(const struct cover *c, uint32_t begin, uint32_t end)
{
    uint32_t columns = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t low = MAX(c->begin[i], begin);
        uint32_t high = MIN(c->end[i], end);
        if (high > low)
            columns += high - low;
    }
    return columns;
}

static uint32_t wanted_columns(const struct plan *p, struct view v)
{
    if (p->tensor[v.tensor].wanted <= v.at)
        return 0;
    uint32_t left = p->tensor[v.tensor].wanted - v.at;
    return MIN(left, v.width);
}

/* Marks the columns of v as written by a reader. true: they were written before, so it adds. */
static bool reader_adds(struct plan *p, struct cover *cover, struct view v)
{
    uint32_t columns = wanted_columns(p, v);
    uint32_t have = cover_columns(cover, v.at, v.at + columns);
    if (columns == 0)
        return false;
    if (have > 0 && have < columns)
        p->tensor[v.tensor].zero = true;
    if (have == 0) {
        SHOAL_ASSERT(cover->count < COVER_MAX);
        cover->begin[cover->count] = v.at;
        cover->end[cover->count++] = v.at + columns;
    }
    return have > 0;
}

static bool works_in_place(const struct layer *l)
{
    return l->x.tensor == l->y.tensor && l->x.at == l->y.at;
}

static bool reads_x(const struct layer *l, uint32_t tensor)
{
    /* a layer in place turns the gradient that is there into its own and never adds */
    return l->x.tensor == tensor && !works_in_place(l);
}

static void readers_settle(struct plan *p, uint32_t tensor)
{
    struct cover cover = {.count = 0};
    for (uint32_t i = p->layer_count; i-- > 0;) {
        struct layer *l = &p->layer[i];
        if (l->z.tensor == tensor)
            l->add_z = reader_adds(p, &cover, l->z);
        if (reads_x(l, tensor))
            l->add = reader_adds(p, &cover, l->x);
    }
    if (cover_columns(&cover, 0, p->tensor[tensor].wanted) < p->tensor[tensor].wanted)
        p->tensor[tensor].zero = true;
    for (uint32_t i = 0; i < p->layer_count && p->tensor[tensor].zero; i++) {
        p->layer[i].add = p->layer[i].add || reads_x(&p->layer[i], tensor);
        p->layer[i].add_z = p->layer[i].add_z || p->layer[i].z.tensor == tensor;
    }
}

static bool views_overlap(struct view a, struct view b)
{
    return a.tensor == b.tensor && a.at < b.at + b.width && b.at < a.at + a.width;
}

/* A layer in place overwrites its input. No layer before may have read that input, and the backward
 * of its writer must not read it again: a linear layer without activation, or a norm. */
static void in_place_check(const struct plan *p, const struct layer *l)
{
    for (uint32_t i = 0; i < l->number && works_in_place(l); i++) {
        const struct layer *before = &p->layer[i];
        SHOAL_ASSERT(!views_overlap(before->x, l->x) && !views_overlap(before->z, l->x));
        SHOAL_ASSERT(before->act == ACT_NONE || !views_overlap(before->y, l->x));
    }
}

/* ---- where gradients lie --------------------------------------------------------------------- */

/* The first and the last layer that touch a tensor. On the way back its gradient lives from the
 * last down to the first. */
struct life {
    uint32_t first, last;
};

static struct life tensor_life(const struct plan *p, uint32_t tensor)
{
    struct life life = {p->layer_count, 0};
    for (uint32_t i = 0; i < p->layer_count; i++) {
        const struct layer *l = &p->layer[i];
        if (l->x.tensor != tensor && l->y.tensor != tensor && l->z.tensor != tensor)
            continue;
        if (i < life.first)
            life.first = i;
        life.last = i;
    }
    return life;
}

/* true: the layer computes its gradient in place, so its input and its output share one gradient.
 * The output may be columns of a wider tensor, whose other columns such layers may write, too. */
static bool shares_gradient(const struct layer *l)
{
    return l->ops->gradient_in_place && l->x.tensor != l->y.tensor;
}

/* An input that shares its output's gradient has one reader: a second one could not add. */
static void sharing_check(const struct plan *p, const struct layer *l)
{
    for (uint32_t i = 0; i < p->layer_count && shares_gradient(l); i++)
        SHOAL_ASSERT(i == l->number ||
                     (!reads_x(&p->layer[i], l->x.tensor) && p->layer[i].z.tensor != l->x.tensor));
}

/* ---- which tensors hold the whole batch ------------------------------------------------------ */

static bool layer_touches(const struct layer *l, uint32_t tensor)
{
    bool touches = l->x.tensor == tensor || l->y.tensor == tensor || l->z.tensor == tensor ||
                   l->rows == tensor;
    for (uint32_t i = 0; i < LAYER_STATES; i++)
        touches = touches || l->state[i] == tensor;
    return touches;
}

/* Behind the last layer that gathers, a range goes to the loss and back at once (pass.c), so a
 * tensor that only these layers touch holds one range. Tensors that share a gradient hold the whole
 * batch if the first of them does. */
static void tensors_narrow(struct plan *p)
{
    uint32_t last = 0; /* one above the last layer that gathers */
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (p->layer[i].ops->forward_gather != NULL)
            last = i + 1;

    for (uint32_t t = TENSOR_FIRST_FREE; t < p->tensor_count; t++) {
        bool early = p->tensor[t].state;
        for (uint32_t i = 0; i < last && !early; i++)
            early = layer_touches(&p->layer[i], t);
        p->tensor[t].whole = p->tensor[t].whole && early;
    }
    for (uint32_t i = last; i < p->layer_count; i++)
        if (shares_gradient(&p->layer[i]) && p->tensor[p->layer[i].x.tensor].whole)
            p->tensor[p->layer[i].y.tensor].whole = true;
}

/* At several sites the ranges of a batch are under way together. */
static void tensors_widen(struct plan *p)
{
    for (uint32_t t = 0; t < p->tensor_count; t++)
        p->tensor[t].whole = true;
}

/* ---- a buffer for each gradient -------------------------------------------------------------- */

/* The layer that reads the tensor and computes its gradient in place; NULL: none. */
static const struct layer *gradient_sharer(const struct plan *p, uint32_t tensor)
{
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (shares_gradient(&p->layer[i]) && p->layer[i].x.tensor == tensor)
            return &p->layer[i];
    return NULL;
}

/* The life of a gradient together with all tensors that share it. */
static struct life shared_life(const struct plan *p, uint32_t tensor)
{
    struct life life = tensor_life(p, tensor);
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (shares_gradient(&p->layer[i]) && p->layer[i].y.tensor == tensor) {
            uint32_t first = shared_life(p, p->layer[i].x.tensor).first;
            if (first < life.first)
                life.first = first;
        }
    return life;
}

struct buffers {
    uint32_t tensor[PLAN_TENSORS_MAX];
    /* the buffer is free for gradients that live only below this layer; 0: never again */
    uint32_t below[PLAN_TENSORS_MAX];
    uint32_t count;
};

/* A buffer for a gradient: one of the same shape that is free by then, or a new one. Reuse keeps
 * the memory that a range touches small, and so in the cache. A gradient that is zeroed beforehand
 * has a buffer of its own, and so has each where another site may still read it. */
static uint32_t gradient_place(struct plan *p, struct buffers *b, uint32_t tensor, struct life life)
{
    const struct tensor *t = &p->tensor[tensor];
    bool alone = t->zero || tensor < TENSOR_FIRST_FREE || p->sites > 1;
    uint32_t ld = plan_stride(t->wanted, t->packed);
    uint32_t i = 0;
    for (; i < b->count; i++)
        if (!alone && b->below[i] > life.last && p->tensor[b->tensor[i]].width == t->wanted &&
            p->tensor[b->tensor[i]].ld == ld && p->tensor[b->tensor[i]].whole == t->whole)
            break;
    if (i == b->count) {
        if (p->tensor_count == PLAN_TENSORS_MAX) {
            p->overflow = true;
            return 0;
        }
        b->tensor[b->count++] = p->tensor_count;
        p->tensor[p->tensor_count++] = (struct tensor){.width = t->wanted,
                                                       .ld = ld,
                                                       .site = t->site,
                                                       .gradient = TENSOR_NONE,
                                                       .whole = t->whole,
                                                       .packed = t->packed};
    }
    /* pass_gradient_ld returns the buffer's ld for the gradient's */
    SHOAL_ASSERT(p->tensor[b->tensor[i]].width == t->wanted && p->tensor[b->tensor[i]].ld == ld);
    b->below[i] = 0;
    if (!alone)
        b->below[i] = life.first;
    return b->tensor[i];
}

/* Places a tensor's gradient: in that of the output of a layer that shares it, or in a buffer. */
static void tensor_place(struct plan *p, struct buffers *b, uint32_t tensor)
{
    const struct layer *l = gradient_sharer(p, tensor);
    struct tensor *t = &p->tensor[tensor];
    if (t->gradient != TENSOR_NONE)
        return;
    if (l != NULL) {
        /* a later layer that reads the output has placed its gradient; this places the rest */
        tensor_place(p, b, l->y.tensor);
        SHOAL_ASSERT(l->y.at >= l->x.at);
        t->gradient = p->tensor[l->y.tensor].gradient;
        t->gradient_at = p->tensor[l->y.tensor].gradient_at + l->y.at - l->x.at;
        return;
    }
    readers_settle(p, tensor);
    t->gradient = gradient_place(p, b, tensor, shared_life(p, tensor));
}

/* The views, states and parameters that a layer names exist. */
static void layer_check(const struct plan *p, const struct layer *l)
{
    SHOAL_ASSERT(
        l->z.tensor == TENSOR_NONE ||
        (l->z.tensor < p->tensor_count && l->z.at + l->z.width <= p->tensor[l->z.tensor].width));
    for (uint32_t i = 0; i < LAYER_STATES; i++)
        SHOAL_ASSERT(l->state[i] == TENSOR_NONE ||
                     (l->state[i] >= TENSOR_FIRST_FREE && p->tensor[l->state[i]].wanted == 0));
    for (uint32_t i = 0; i < LAYER_PARAMETERS; i++)
        SHOAL_ASSERT(l->parameter[i] == PARAMETER_NONE || l->parameter[i] < p->dense.floats);
    /* every layer that a service may need to score has its operators (lower.h) */
    SHOAL_ASSERT(l->ops->lower != NULL || !p->has_loss || p->sites > 1);
    /* layers by values come first: none lies in a recorded section (pass.c) */
    SHOAL_ASSERT(l->number == 0 || !l->ops->by_values || p->layer[l->number - 1].ops->by_values);
    /* a layer that gathers also settles, and makes the tensors hold the whole batch */
    SHOAL_ASSERT((l->ops->forward_gather != NULL) == (l->ops->forward_settle != NULL));
    SHOAL_ASSERT(l->ops->forward_gather == NULL || p->by_batch);
}

void plan_settle(struct plan *p)
{
    struct buffers b = {.count = 0};
    uint32_t tensors = p->tensor_count;
    for (uint32_t i = 0; i < p->layer_count; i++) {
        layer_check(p, &p->layer[i]);
        in_place_check(p, &p->layer[i]);
        sharing_check(p, &p->layer[i]);
    }
    if (p->sites > 1)
        tensors_widen(p);
    else
        tensors_narrow(p);
    p->tensor[TENSOR_LOGIT].gradient = gradient_place(p, &b, TENSOR_LOGIT, (struct life){0, 0});
    for (uint32_t layer = p->layer_count; layer-- > 0;)
        for (uint32_t t = TENSOR_FIRST_FREE; t < tensors; t++) {
            struct life life = tensor_life(p, t);
            if (p->tensor[t].wanted > 0 && life.first < p->layer_count && life.last == layer)
                tensor_place(p, &b, t);
        }
}
