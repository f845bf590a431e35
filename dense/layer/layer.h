/* layer.h: a layer of a model, and the list of all layers.
 *
 * A layer reads and writes views: columns of tensors, one row for each example. Several layers may
 * read one tensor. On the way back the first of them sets the tensor's gradient and the others add
 * to it; `add` tells a layer which it does, and plan_settle.c computes it.
 *
 * A layer works on a range of the batch's examples at a time, so that one layer's output is still
 * in the cache when the next layer reads it. On a device the range is the whole batch. A layer that
 * needs a sum over the whole batch (batch norm) has four more functions: `gather` adds a range to
 * the sum, and `settle` runs once after every range has been gathered. Only then do `forward` and
 * `backward` of that layer run. pass.c drives them.
 *
 * Parameters lie in the flat arrays of the dense tables, and a layer stores the offsets of its own.
 * A layer adds to its parameters' gradients; the arrays start at zero or at the gradient of L2. A
 * layer is read-only after building and shared by all lanes; a pass belongs to one thread. */
#ifndef DENSE_LAYER_LAYER_H
#define DENSE_LAYER_LAYER_H

#include "dense/backend_ops.h"

#define TENSOR_NONE UINT32_MAX
#define PARAMETER_NONE SIZE_MAX
#define LAYER_STATES 4
#define LAYER_PARAMETERS 6
#define LAYER_NUMBERS 8
#define PASS_LAYERS_MAX 512u

enum {
    TENSOR_LOGIT,   /* (example, tasks): layers add to it */
    TENSOR_NUMERIC, /* (example, numerics): the caller's input */
    TENSOR_FIRST_FREE,
};

/* A tensor's rows begin at multiples of 16 bytes: a device reads and writes 16 bytes at once. */
#define TENSOR_ROUND 4u

struct tensor {
    uint32_t width; /* floats per example; for a state: floats in total */
    /* floats from an example to the next; those behind `width` are zero and are never written */
    uint32_t ld;
    uint32_t wanted;   /* leading columns whose gradient is wanted; 0: none */
    uint32_t gradient; /* tensor that holds the gradient, `wanted` wide or wider, or TENSOR_NONE */
    uint32_t gradient_at; /* its first column there */
    uint32_t site;        /* where it lies (plan_sites.h) */
    bool whole;           /* holds the whole batch, whatever the range */
    bool packed;          /* without gaps: ld is the width */
    bool state;           /* not by example: a layer's sums and the like */
    bool by_field;        /* its columns stand for the input's, one by one or pair by pair */
    /* the gradient is zeroed before the way back, and every layer adds to it (plan_settle.c) */
    bool zero;
};

/* Columns [at, at + width) of a tensor. */
struct view {
    uint32_t tensor, at, width;
};

#define VIEW_NONE ((struct view){TENSOR_NONE, 0, 0})

struct pass;
struct layer;
struct lower;
typedef void (*layer_range_function)(const struct layer *l, struct pass *p, uint32_t first,
                                     uint32_t count);
typedef void (*layer_batch_function)(const struct layer *l, struct pass *p);

struct layer_ops {
    const char *name;
    layer_range_function forward;
    layer_range_function backward; /* NULL: its gradient has no way, or passes by another layer */
    /* Appends what forward computes in a prediction to a graph of operators (lower.h). NULL: the
     * layer is in no plan of one site that has a loss */
    void (*lower)(const struct layer *l, struct lower *w);
    /* NULL but for layers that look at the whole batch */
    layer_range_function forward_gather, backward_gather;
    layer_batch_function forward_settle, backward_settle;
    /* backward turns the gradient of y into that of x where it lies; x has no other reader */
    bool gradient_in_place;
    /* its kernels depend on the batch's number of values or rows, which a recorded graph would fix.
     * So these layers come first, before the recorded section (pass.c) */
    bool by_values;
    bool mixes; /* a column of y depends on all of x: it stands for no column of the input */
};

struct layer {
    const struct layer_ops *ops;
    uint32_t number; /* position in the model */
    uint32_t site;   /* where it is computed (plan_sites.h) */
    uint32_t draw;   /* number of its dropout key: its position in the model of one site */
    /* x and z are read, y is written; VIEW_NONE: unused. A layer in place has x equal to y */
    struct view x, z, y;
    /* true: another layer has written the gradient of x (of z) before, so this layer adds to it. A
     * layer with both writes that of z first */
    bool add, add_z;
    uint32_t state[LAYER_STATES]; /* tensors of the layer's own */
    /* The layer is one of an expert that computes the examples that chose it alone: their rows are
     * packed in its views (ops_mix.h), in the order that the state `rows` of layer_choose has.
     * TENSOR_NONE: every example has its row */
    uint32_t rows, expert;
    uint32_t load; /* the expert's number among all whose examples the plan counts */
    /* offsets in the dense parameters; PARAMETER_NONE: unused. By convention 0 is the weight (or
     * gamma), 1 the bias (or beta) */
    size_t parameter[LAYER_PARAMETERS];
    size_t mean, variance; /* norm: offsets in the statistics */
    double momentum;       /* norm: by which one push moves the statistics (norm.c) */
    enum activation act;
    double dropout;
    uint32_t number_of[LAYER_NUMBERS]; /* shapes of the layer's own: heads, fields.. */
};

/* ---- the layers that there are: what each uses ----------------------------------------------- */

/* y (the fields' vectors [+ numerics]; VIEW_NONE when dim is 0), parameter 1: the tasks' biases. */
extern const struct layer_ops layer_pool;
/* x, y, parameter 0: weights (y.width, x.width), 1: bias (y.width) or none; act, dropout. state 0,
 * 1: where a layer of an expert gathers its rows of x, which has a row for each example, and has
 * their gradient; TENSOR_NONE: x is read where it lies. */
extern const struct layer_ops layer_fc;
/* x, y (a column of the logit), parameter 0: weights (x.width). */
extern const struct layer_ops layer_head;
/* x == y, parameter 1: bias (y.width) or none; act, dropout. The columns come from a linear layer
 * without activation or from a norm, and no other layer has read them. */
extern const struct layer_ops layer_act;
/* x, y, parameters 0: gamma, 1: beta; mean, variance; state 0. The gradient is computed in
 * place. */
extern const struct layer_ops layer_batch_norm;
/* x, y, parameters 0: gamma, 1: beta (width of a row); act; state 0: two floats for each row;
 * number_of: rows in an example's view; each row has its own mean and variance. The gradient is
 * computed in place. With several rows per example, x and y are the only views of their tensors. */
extern const struct layer_ops layer_layer_norm;
enum { LAYER_NORM_ROWS_AN_EXAMPLE };

/* x (fields * dim), y (a column of the logit), state 0: dim floats an example, for the sum of the
 * vectors. */
extern const struct layer_ops layer_fm;
/* x (vectors * dim), y ([dim,] pairs), state 0: work space; numbers 0: vectors, 1: y begins with a
 * copy of the last vector. */
extern const struct layer_ops layer_products;
/* x, z: x0, y (all of one width), parameter 0: w (width, width), 1: b (width); state 0: w x,
 * (width) an example. layer_cross_first: x is x0. layer_cross: no other layer reads x, and the
 * gradient is computed in place. */
extern const struct layer_ops layer_cross_first;
extern const struct layer_ops layer_cross;
/* x (fields * dim) turned into y (dim * fields). Number 0: fields. */
extern const struct layer_ops layer_cin_turn;
/* x (dim * maps below), z: the vectors, turned, y (dim * maps), parameter 0: w (maps, fields * maps
 * below), state 0: work space; numbers 0: fields, 1: maps below, 2: maps, 3: floats of the work
 * space. */
extern const struct layer_ops layer_cin;
/* x (dim * maps) -> y (maps): sums of the maps' numbers. */
extern const struct layer_ops layer_cin_pool;
/* x, z, y (a column of the logit), parameter 0: W (heads, x.width / heads, z.width / heads); state
 * 0: z.width floats an example; number_of. */
extern const struct layer_ops layer_bilinear;
enum { BILINEAR_HEADS };

/* Linear maps of an example's fields, without a bias: x (fields, in), in any tensor; y (fields,
 * out), the only view of its tensor; parameter 0: weights (out, in); number_of. */
extern const struct layer_ops layer_project;
/* x: (fields, 3 or 4 times width): queries, keys, values and, in the second case, the residual; z:
 * the residual (fields, width), in any tensor, or VIEW_NONE; y (fields, width). x and y are the
 * only views of their tensors. dropout applies to the shares. state 0: shares; 1: work space;
 * number_of. */
extern const struct layer_ops layer_attend;
enum { ATTENTION_FIELDS, ATTENTION_HEADS }; /* for layer_project and layer_attend */
/* Writes the same learned vector to every example: y; parameter 1: (y.width). */
extern const struct layer_ops layer_context;
/* y = 2 x z, all of one width. */
extern const struct layer_ops layer_gate;
/* x: the target's columns of the input, y: the field's. Parameters 2 i, 2 i + 1: weights and bias
 * of the small network's layer i, the last with one output; act of its hidden layers; state 0;
 * number_of, whose last entry is the first of the hidden widths. The layer adds the target's
 * gradient to what other layers have written, so some other layer must read all of the input. */
extern const struct layer_ops layer_sequence;
enum { SEQUENCE_FIELD, SEQUENCE_LAYERS, SEQUENCE_WIDTHS };
#define SEQUENCE_HIDDEN_MAX ((uint32_t)(LAYER_PARAMETERS / 2 - 1)) /* layers, without its output */

/* x (experts' outputs side by side: the shared ones, then each task's own), z (gates, task by
 * task), y (mixtures, task by task); number_of; state 0: floats an example as z is wide: the
 * shares; 1: the rows of layer_choose, or TENSOR_NONE: x has a row for each example. MIX_CHOSEN:
 * layer_choose has computed the shares. */
extern const struct layer_ops layer_mix;
/* x (gates, task by task), z (the gate of all experts, or VIEW_NONE); state 0, 1: their shares; 2:
 * the rows of the experts, mix_rows_width floats an example; number_of as of layer_mix; MIX_LOAD:
 * where the pass counts the examples of the level's first expert. layer_choose_balanced also adds
 * the gradient of the balancing loss to those of x and z, which layer_mix has set; state 3: three
 * floats for each column of x and z. */
extern const struct layer_ops layer_choose;
extern const struct layer_ops layer_choose_balanced;
enum { MIX_TASKS, MIX_SHARED, MIX_OWN, MIX_TOP_K, MIX_CHOSEN, MIX_LOAD };

/* Layers that plan_sites.c adds (move.c). x of another site copied to y, or added to it; state 0:
 * for what is added; state 1, at the site of x: for a gradient that is added; number_of. */
extern const struct layer_ops layer_move;
enum { MOVE_FROM, MOVE_ADDS }; /* the site of x; 1: y += x */
/* Fills y with zeros, for layers that add to it. */
extern const struct layer_ops layer_blank;

/* ---- arguments of the layers ----------------------------------------------------------------- */

/* The key of a layer's dropout mask. The mask is a function of (seed, lane, batch, layer.draw) and
 * the value's place, so a batch that is computed again drops the same values on any worker. No mask
 * is stored: the way back draws it again or reads it off the output. */
void layer_dropout_key(uint64_t seed, uint32_t lane, uint64_t batch, uint32_t layer,
                       uint32_t out[2]);
/* rate in [0, 1); rate 0 keeps everything. key: in the backend's memory. */
struct dropout_mask layer_dropout_mask(double rate, const uint32_t *key);
/* The mask of a layer in this pass; prediction keeps everything. */
struct dropout_mask layer_dropout(const struct layer *l, const struct pass *p);
/* The batch as the kernels of pooling take it, for examples [first, first + count). */
struct pool_args layer_pool_args(const struct pass *p, uint32_t first, uint32_t count);
/* The fraction by which one push moves batch norm's running statistics towards its batch's: a
 * function of lanes and window (norm.c). */
double layer_norm_momentum(const struct job *job);
#define NORM_MOMENTUM 0.1 /* all lanes and slices together */
/* Floats that the outer products of one row take in the largest of the layer_cin layers. */
double layer_cin_row_floats(uint32_t fields, const struct widths *maps);
#define CIN_WORK_FLOATS (4u << 20) /* limit of the work space, which all layers of a lane share */

#endif
