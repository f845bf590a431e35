/* plan.h: the plan of a model: its layers in order, the tensors between them, its parameters in the
 * dense tables.
 *
 * plan_build_kind is a function of job and shape alone, so every worker and the maker of the
 * schemas build the same plan. A model is a few calls of parts, functions from views to views.
 * plan_settle places the gradients at the end, from the views that each layer reads. A plan is
 * read-only once built. */
#ifndef DENSE_LAYER_PLAN_H
#define DENSE_LAYER_PLAN_H

#include "dense/layer/block.h"
#include "dense/layer/pass.h"
#include "dense/layer/plan_sites.h"

#define PLAN_LAYERS_MAX PASS_LAYERS_MAX
#define PLAN_TENSORS_MAX 1536u

struct plan {
    const struct job *job; /* borrowed, while building only */
    struct model_shape shape;
    uint32_t tables;                      /* sparse ones */
    uint32_t table_dim[LIMIT_JOB_TABLES]; /* (tables): floats of a row's vector; 0: no vector */
    uint32_t dim;                         /* the largest of table_dim */
    bool mixed;                           /* tables of several dims */
    /* (fields + 1): the input's column at which each field's vector begins; the last: their end */
    uint32_t column[LIMIT_FIELDS + 1];
    uint32_t first_order; /* 1: rows begin with a first-order weight */
    uint32_t tasks;
    struct loss_spec loss;
    bool has_loss; /* false: the layers give the gradients by themselves (probe) */
    bool by_batch; /* some layer looks at the whole batch: tensors hold all of it */
    /* more layers, tensors or parameters than fit: the parts go on, plan_build_kind fails at the
     * end */
    bool overflow;
    struct layer layer[PLAN_LAYERS_MAX];
    uint32_t layer_count;
    struct tensor tensor[PLAN_TENSORS_MAX];
    uint32_t tensor_count;
    struct block_layout dense, stats;
    uint32_t sites; /* 1: the whole plan is at one; `tail` and `pieces` are then unused */
    uint32_t tail;  /* the first of the layers that bring logits to site 0, or layer_count */
    struct site_pieces pieces;
    /* how parameters that are added now are named and marked: "hidden.0.weight" (plan_scope) */
    char scope[LIMIT_NAME + 16];
    uint32_t steps;              /* steps of the scope so far */
    bool by_label;               /* the parameters have an entry for each label */
    uint32_t rows, expert, load; /* values for the layers that are added now (struct layer) */
    uint32_t loads;              /* experts whose examples are counted */
    bool packs;                  /* some experts compute the examples that chose them alone */
    bool to_input;               /* the layer's outputs correspond to the columns of the input */
};

/* A model as models_plan finds it by model.kind. */
struct plan_kind {
    const char *name;
    void (*build)(struct plan *p);
    bool vectors, first_order; /* parts of a sparse row */
    bool network;              /* a network of model.hidden, with the job's norm */
    bool multi;                /* a task for each label */
    /* dims may differ by table: the vectors stand side by side and no product takes two of them */
    bool mixed;
    /* CONFIG: the model cannot be built for this job; NULL: no check */
    int (*check)(const struct job *job, const struct model_shape *shape, struct err *e);
};

/* CONFIG: tables of several dims where the model needs one, a network without a layer, a model that
 * does not fit the input, or more parameters than a dense table holds. models_plan builds a model
 * by its number. */
int plan_build_kind(const struct job *job, const struct model_shape *shape,
                    const struct plan_kind *kind, struct plan *out, struct err *e);
/* Columns of all fields' vectors. */
double plan_vectors_width(const struct job *job, const struct model_shape *shape);
/* true: the job's tables have several dims. */
bool plan_dims_differ(const struct job *job);
/* Sets the error of a job whose tables have several dims: `why` is the verb phrase that says why
 * model.kind needs one dim, `instead` names a model that does not. Returns CONFIG. */
int plan_dims_refuse(const struct job *job, const char *why, const char *instead, struct err *e);
/* CONFIG: no layers, too many, or one that is too wide. key: for the message. */
int plan_widths_check(const struct widths *w, const char *key, struct err *e);
/* Places the gradients and sets `add` of every layer; called by plan_build_kind. */
void plan_settle(struct plan *p);

/* Floats from one example to the next in a tensor of this width. */
uint32_t plan_stride(uint32_t width, bool packed);

/* Building blocks of parts. */
/* A tensor whose gradient is wanted. */
struct view plan_tensor(struct plan *p, uint32_t width);
struct view plan_columns(struct view v, uint32_t at, uint32_t width);
/* Removes the gaps between examples from v's tensor and its gradient, for a layer that needs so. */
struct view plan_packed(struct plan *p, struct view v);
/* A layer's own tensor: by example, or of so many floats in total. */
uint32_t plan_state(struct plan *p, uint32_t floats_an_example);
uint32_t plan_state_whole(struct plan *p, uint32_t floats);
/* Marks the layers that are added from now on as those of an expert (struct layer). */
void plan_expert(struct plan *p, uint32_t rows, uint32_t expert, uint32_t load);
struct init_spec plan_xavier(uint32_t out, uint32_t in);
/* A parameter keeps its name from one job to the next (proto/job/legend.h). The name is the scope,
 * the step within the scope, and the kind of parameter: "hidden.0.weight". plan_input sets the
 * scope "hidden"; a model with several networks sets one for each. A scope begins with no step. */
void plan_scope(struct plan *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void plan_step(struct plan *p);
/* (out, in). reads: the view that they are multiplied with. The parameter's shape also records that
 * the view's columns correspond to those of the input. */
size_t plan_parameter(struct plan *p, const char *what, uint32_t out, uint32_t in,
                      struct view reads, struct init_spec init, bool decay);
/* (out, x.width), Xavier-uniform, with l2_dense: "weight" */
size_t plan_weights(struct plan *p, uint32_t out, struct view x);
size_t plan_zeros(struct plan *p, const char *what, size_t count); /* a bias: no L2 */
size_t plan_ones(struct plan *p, const char *what, size_t count);
/* in dense_stats */
size_t plan_statistic(struct plan *p, const char *what, size_t count, float initial);
struct view plan_logit(const struct plan *p, uint32_t task);
/* Appends a layer without z, states, parameters or activation; the caller sets what it has. */
struct layer *plan_layer(struct plan *p, const struct layer_ops *ops, struct view x, struct view y);

/* Parts. plan_input is the first: everything else reads its view.
 * Input: (the fields' vectors [, numerics]), followed by `extra` columns that another layer fills.
 * The part adds a bias to the logit; a plan with first_order adds the pooled first-order weights
 * and the weighted numerics, too. */
struct view plan_input(struct plan *p, bool numerics, uint32_t extra);
/* The input's leading columns: the vectors of all fields, or the vector of one. */
struct view plan_vectors(const struct plan *p, struct view input);
struct view plan_field(const struct plan *p, struct view input, uint32_t field);
/* Linear, then norm, then activation with dropout. With a norm the linear layer has no bias. y:
 * where to write, or VIEW_NONE: a tensor of its own. */
struct view plan_linear(struct plan *p, struct view x, uint32_t out, enum activation act,
                        double dropout, enum norm_kind norm, struct view y);
/* Hidden layers with the job's norm, activation and dropout; the last one's output. */
struct view plan_network(struct plan *p, struct view x, const struct widths *hidden);
void plan_head(struct plan *p, struct view x, uint32_t task); /* logit of the task += x . w */
/* y = norm(x), both (width); act(norm(x)), each of the view's `rows` by itself */
void plan_batch_norm(struct plan *p, struct view x, struct view y);
void plan_layer_norm(struct plan *p, struct view x, uint32_t rows, enum activation act,
                     struct view y);

/* Products (interact.c). logit += pairwise products of the field vectors */
void plan_pairs(struct plan *p, struct view vectors);
/* Products of the vectors in x, of the plan's dim; x has at least two. keep: a copy of the last
 * vector precedes them. y: where to write, or VIEW_NONE: a tensor of its own. */
struct view plan_products(struct plan *p, struct view x, bool keep, struct view y);
/* Columns that plan_products writes: vectors (vectors - 1) / 2, and dim more with keep. */
uint32_t plan_products_width(uint32_t vectors, uint32_t dim, bool keep);
/* CONFIG: fewer than two vectors. */
int plan_products_check(uint32_t vectors, struct err *e);
/* `layers` cross layers, one on the other. y: where the last one writes. */
void plan_cross(struct plan *p, struct view x0, uint32_t layers, struct view y);
/* Layers of the given numbers of maps over the field vectors; returns (sum of maps). */
struct view plan_cin(struct plan *p, struct view vectors, const struct widths *maps);
/* logit of the task += products of two streams */
void plan_bilinear(struct plan *p, struct view x, struct view z, uint32_t heads, uint32_t task);

/* Attention (attention.c). `layers` layers over x (fields, in), each `width` wide over all heads.
 * The job's dropout applies to the shares. Where the job has any norm, even batch norm, these
 * layers have layer norm. Returns (fields * width). */
struct view plan_attention(struct plan *p, struct view x, uint32_t fields, uint32_t layers,
                           uint32_t heads, uint32_t width);
/* A learned vector, the same for every example. */
struct view plan_context(struct plan *p, uint32_t width);
/* x through a gate over `context`, which may be columns of x; the gate's network has the widths
 * `hidden`, relu, and no norm or dropout. Returns a tensor of its own. */
struct view plan_gate(struct plan *p, struct view x, struct view context,
                      const struct widths *hidden);
/* Pools the input's fields that have pooling attention; called right after plan_input. The small
 * network has the widths `hidden` (at most SEQUENCE_HIDDEN_MAX) and the job's activation. */
void plan_sequences(struct plan *p, struct view input, const struct widths *hidden);

/* Experts (model.hidden each) and gates over x, in `levels` levels. Returns the mixtures of all
 * tasks side by side (mix.c). */
struct view plan_mixtures(struct plan *p, struct view x, uint32_t shared, uint32_t own,
                          uint32_t levels);
/* For each task a network (model.tower) over its mixture, and a head. */
void plan_towers(struct plan *p, struct view mixtures);
/* CONFIG: model.experts, `own` and model.top_k make no gates. */
int plan_mix_check(const struct job *job, uint32_t own, struct err *e);

#endif
