/* rebuild.h: a plan that is being rebuilt for several sites, shared by plan_sites.c
 * and plan_cut.c alone. */
#ifndef DENSE_LAYER_REBUILD_H
#define DENSE_LAYER_REBUILD_H

#include "dense/layer/plan.h"

#include <string.h>

#define WRITES_MAX PLAN_LAYERS_MAX

/* Columns of a tensor that layers of another site write. */
struct remote_write {
    struct view of, own; /* own: where they write, at their site */
    uint32_t site;
    bool brought; /* to the tensor's home */
};

struct rebuild {
    struct plan *plan;
    uint32_t split, cut;                 /* cut: layers so far */
    struct layer layer[PLAN_LAYERS_MAX]; /* (count): the plan's of one site; `site`: their home */
    uint32_t count;
    /* copies of tensors and states at other sites, or TENSOR_NONE */
    uint32_t copy[LIMIT_SITES][PLAN_TENSORS_MAX];
    bool state_placed[PLAN_TENSORS_MAX];
    struct remote_write write[WRITES_MAX];
    uint32_t write_count;
    /* the columns of an output that each site of the stage keeps to itself, for the layer that is
     * cut by rows; TENSOR_NONE: the output is not kept so */
    uint32_t half[PLAN_TENSORS_MAX][LIMIT_SITES];
};

/* The view as a layer of the site reads it, and as it writes it. */
struct view rebuild_read(struct rebuild *r, struct view v, uint32_t site);
struct view rebuild_write(struct rebuild *r, struct view v, uint32_t site);
/* All of a new tensor of a site. */
struct view rebuild_view(struct rebuild *r, uint32_t site, uint32_t width, uint32_t wanted);
/* Appends a copy of a layer, with views, states and parameters of `of`: the caller sets them. */
struct layer *rebuild_layer(struct rebuild *r, const struct layer *of, uint32_t site);
/* Appends a move of x to y at `site`. */
void rebuild_move(struct rebuild *r, struct view x, uint32_t site, struct view y, bool adds);
/* The place of a piece (all but `at` set) in its site's array. */
size_t rebuild_piece(struct rebuild *r, const struct piece *piece);
/* The dense tensor to which a parameter's offset belongs. */
uint32_t rebuild_tensor_of(const struct rebuild *r, size_t parameter);

/* plan_cut.c: appends the layers of a linear layer that is cut. false: it is not, and nothing was
 * appended. */
bool rebuild_cut(struct rebuild *r, const struct layer *l);
/* Linear layers with more outputs are cut: each site gets some of them. */
uint32_t rebuild_cut_above(const struct rebuild *r);
/* Outputs of the widest linear layer; 0: there is none. */
uint32_t rebuild_widest(const struct rebuild *r);

#endif
