/* pass.h: one batch's run through the layers of a plan, and the addresses at which its layers find
 * their inputs, outputs, parameters and gradients. One thread owns a pass. */
#ifndef DENSE_LAYER_PASS_H
#define DENSE_LAYER_PASS_H

#include "dense/layer/layer.h"
#include "proto/base/minmax.h"

struct plan;

/* The values that change from step to step while their shape stays. A recorded graph reads them
 * here, in the backend's memory. */
struct step {
    uint32_t examples; /* the batch's own, without the copies that fill it up */
    /* for each task's loss: loss scale * task weight / sum of the weights of the examples that have
     * its label */
    float factor[LIMIT_TASKS];
    float unscale;                    /* 1 / loss scale */
    float balance;                    /* loss scale * model.balance */
    uint32_t key[PASS_LAYERS_MAX][2]; /* dropout keys by layer */
    struct pool_table
        table[LIMIT_JOB_TABLES]; /* places of rows; used with tables of different dims */
};

/* The part of a pass that differs between the sites of a plan (plan_sites.h), in the memory of its
 * device. */
struct pass_site {
    struct stream *s;
    const struct model_input *in; /* the batch; dense and stats are the site's own */
    struct model_output *out;
    const struct step *step;
    const uint32_t *live;
};

struct pass {
    const struct backend_ops *k;
    const struct model_shape *shape;
    /* where a plan has several sites: each of them; the members below are the running one's */
    const struct pass_site *site;
    struct stream *s;
    /* all arrays from `in` to `live` lie in the backend's memory */
    const struct model_input *in;
    struct model_output *out; /* gradients and scores */
    const struct step *step;
    double *loss;   /* (tasks) */
    uint64_t *load; /* (plan's experts): examples that chose each (layer_choose) */
    /* a device, where experts compute the examples that chose them alone: `load` for the host, in
     * its memory, from layer_choose on; else NULL */
    uint64_t *chosen;
    const uint8_t *pooling;     /* (fields) */
    const uint8_t *field_table; /* (fields); NULL: all tables have one dim */
    const uint32_t *column;     /* (fields + 1) */
    uint32_t tables;            /* sparse ones */
    uint32_t vectors;           /* columns of all fields' vectors */
    uint32_t grain;  /* the difference between these sizes; 0: the batch is not filled up */
    uint32_t filled; /* examples after the batch is filled up to one of few sizes (pass.c) */
    /* number of true examples; NULL: the batch is not filled up */
    const uint32_t *live;
    const struct tensor *tensor;
    float *const *data;    /* (tensors) */
    uint32_t base;         /* example at which the tensors that are not whole begin */
    uint32_t first, count; /* the range that the layers work on */
    bool train;            /* dropout, statistics of the batch, gradients */
    bool watched;          /* the sites' streams measure how long they wait */
    uint32_t dim;          /* floats of a row's vector, in the widest table */
    uint32_t first_order;  /* 1: rows begin with a first-order weight */
    uint32_t tasks;
    uint32_t values; /* entries of in->index */
};

/* The size, a multiple of the grain or `most`, to which so many examples are filled up. */
uint32_t pass_filled(uint32_t examples, uint32_t grain, uint32_t most);

/* Run a batch through the layers, `range` examples at a time; a device takes the batch at once,
 * but for a plan of several sites, whose ranges are its micro-batches. offset is added to the
 * logits. */
void pass_train(const struct plan *plan, struct pass *p, uint32_t range);
void pass_predict(const struct plan *plan, struct pass *p, uint32_t range, float offset);

/* Row `example` of a tensor. A tensor that is not whole holds the range from `base` on. */
static inline float *pass_row(const struct pass *p, uint32_t tensor, uint32_t example)
{
    const struct tensor *t = &p->tensor[tensor];
    if (!t->whole)
        example -= p->base;
    return p->data[tensor] + (size_t)example * t->ld;
}

static inline float *pass_at(const struct pass *p, struct view v, uint32_t example)
{
    return pass_row(p, v.tensor, example) + v.at;
}

/* Floats from a row to the next. */
static inline uint32_t pass_ld(const struct pass *p, struct view v)
{
    return p->tensor[v.tensor].ld;
}

/* The rows of the range's experts, as the state of layer_choose has them. */
static inline struct mix_rows pass_rows(const struct pass *p, uint32_t state)
{
    uint32_t experts = p->tensor[state].width / mix_rows_width(1);
    return mix_rows_of(pass_row(p, state, p->first), p->count, experts);
}

/* true: the floats behind the view's columns, up to a multiple of TENSOR_ROUND, are zero. */
static inline bool pass_padded(const struct pass *p, struct view v)
{
    const struct tensor *t = &p->tensor[v.tensor];
    return v.at % TENSOR_ROUND == 0 && v.at + v.width == t->width && t->ld % TENSOR_ROUND == 0;
}

/* The number of the view's leading columns whose gradient is wanted. */
static inline uint32_t pass_wanted(const struct pass *p, struct view v)
{
    const struct tensor *t = &p->tensor[v.tensor];
    if (t->gradient == TENSOR_NONE || t->wanted <= v.at)
        return 0;
    uint32_t left = t->wanted - v.at;
    return MIN(left, v.width);
}

/* The gradient of a view's row; NULL when none is wanted. */
static inline float *pass_gradient_at(const struct pass *p, struct view v, uint32_t example)
{
    if (pass_wanted(p, v) == 0)
        return NULL;
    const struct tensor *t = &p->tensor[v.tensor];
    return pass_row(p, t->gradient, example) + t->gradient_at + v.at;
}

static inline uint32_t pass_gradient_ld(const struct pass *p, struct view v)
{
    if (pass_wanted(p, v) == 0)
        return 0;
    return p->tensor[p->tensor[v.tensor].gradient].ld;
}

/* The layer's n-th parameter and its gradient; NULL: the layer has none. */
static inline const float *pass_parameter(const struct pass *p, const struct layer *l, uint32_t n)
{
    if (l->parameter[n] == PARAMETER_NONE)
        return NULL;
    return p->in->dense + l->parameter[n];
}

static inline float *pass_parameter_gradient(const struct pass *p, const struct layer *l,
                                             uint32_t n)
{
    if (l->parameter[n] == PARAMETER_NONE)
        return NULL;
    return p->out->dense_gradients + l->parameter[n];
}

#endif
