/* pass.h: a batch on its way through the layers of a plan: where it is, and where its layers find
 * what they read and write. */
#ifndef DENSE_LAYER_PASS_H
#define DENSE_LAYER_PASS_H

#include "dense/layer/layer.h"

struct plan;

/* What changes from step to step but not in shape. In the backend's memory. */
struct step {
    uint32_t examples; /* of the batch, without what fills it up */
    /* of the tasks' losses: loss scale * task weight / sum of the examples' weights */
    float factor[LIMIT_TASKS];
    float unscale;                             /* 1 / loss scale */
    uint32_t key[PASS_LAYERS_MAX][2];          /* dropout, by layer */
    struct pool_table table[LIMIT_JOB_TABLES]; /* of tables of several dims: where their rows lie */
};

struct pass {
    const struct backend_ops *k;
    struct stream *s;
    const struct model_shape *shape;
    const struct model_input *in; /* pointers into the backend's memory */
    struct model_output *out;     /* gradients and scores: likewise */
    const struct step *step;      /* likewise */
    double *loss;                 /* (tasks), likewise */
    const uint8_t *pooling;       /* (fields), likewise */
    const uint8_t *field_table;   /* (fields), likewise; NULL: all tables have one dim */
    const uint32_t *column;       /* (fields + 1), likewise */
    uint32_t tables;              /* sparse ones */
    uint32_t vectors;             /* columns of all fields' vectors */
    uint32_t filled; /* examples of a batch that is filled up to one of few sizes (pass.c) */
    /* in the backend's memory: the examples that it has; NULL: all, nothing fills it up */
    const uint32_t *live;
    const struct tensor *tensor;
    float *const *data;   /* (tensors) */
    uint32_t base;        /* example at which the tensors that are not whole begin */
    bool train;           /* dropout, statistics of the batch, gradients */
    uint32_t dim;         /* of a row's vector; of the widest */
    uint32_t first_order; /* 1: rows begin with a first-order weight */
    uint32_t tasks;
    uint32_t values; /* of the batch: entries of index */
};

/* A batch through the layers, `range` examples at a time; a device takes all at once. offset
 * is added to the logits. */
void pass_train(const struct plan *plan, struct pass *p, uint32_t range);
void pass_predict(const struct plan *plan, struct pass *p, uint32_t range, float offset);

/* Row `example` of a view; floats from a row to the next. */
static inline float *pass_at(const struct pass *p, struct view v, uint32_t example)
{
    const struct tensor *t = &p->tensor[v.tensor];
    return p->data[v.tensor] + (size_t)(example - (t->whole ? 0 : p->base)) * t->ld + v.at;
}

static inline uint32_t pass_ld(const struct pass *p, struct view v)
{
    return p->tensor[v.tensor].ld;
}

/* Whether the floats behind the view's columns, up to a multiple of TENSOR_ROUND, are zero. */
static inline bool pass_padded(const struct pass *p, struct view v)
{
    const struct tensor *t = &p->tensor[v.tensor];
    return v.at % TENSOR_ROUND == 0 && v.at + v.width == t->width && t->ld % TENSOR_ROUND == 0;
}

/* Columns of the view whose gradient is wanted: the leading ones. */
static inline uint32_t pass_wanted(const struct pass *p, struct view v)
{
    const struct tensor *t = &p->tensor[v.tensor];
    if (t->gradient == TENSOR_NONE || t->wanted <= v.at)
        return 0;
    return t->wanted - v.at < v.width ? t->wanted - v.at : v.width;
}

/* The gradient of a view's row; NULL when none is wanted. */
static inline float *pass_gradient_at(const struct pass *p, struct view v, uint32_t example)
{
    if (pass_wanted(p, v) == 0)
        return NULL;
    const struct tensor *t = &p->tensor[v.tensor], *g = &p->tensor[t->gradient];
    return p->data[t->gradient] + (size_t)(example - (g->whole ? 0 : p->base)) * g->ld +
           t->gradient_at + v.at;
}

static inline uint32_t pass_gradient_ld(const struct pass *p, struct view v)
{
    return pass_wanted(p, v) == 0 ? 0 : p->tensor[p->tensor[v.tensor].gradient].ld;
}

/* The layer's n-th parameter and its gradient; NULL: without. */
static inline const float *pass_parameter(const struct pass *p, const struct layer *l, uint32_t n)
{
    return l->parameter[n] == PARAMETER_NONE ? NULL : p->in->dense + l->parameter[n];
}

static inline float *pass_parameter_gradient(const struct pass *p, const struct layer *l,
                                             uint32_t n)
{
    return l->parameter[n] == PARAMETER_NONE ? NULL : p->out->dense_gradients + l->parameter[n];
}

#endif
