/* plan_sites.h: a plan over several sites. A site is the share of a plan that one device holds and
 * computes.
 *
 * Stages: the layers, in order, go to model.stages groups of about as many parameters each. Split:
 * each stage has model.split sites, the first of which is its home, where all is computed that is
 * not cut. A linear layer with more than model.split_above outputs is cut by columns: each site
 * computes some of the outputs. Where the only layer that reads them is linear too, that one is cut
 * by rows: each site multiplies the columns that it has, and the home adds the products, in the
 * order of the sites, before bias and activation. Else the home gathers the columns (Shoeybi et al.
 * 2019, Megatron-LM).
 *
 * The layers know nothing of sites. Where one reads a tensor of another site, a layer_move brings a
 * copy; where one writes such a tensor, it writes a tensor of its own, which a layer_move brings
 * home. Copies have gradients of their own, which the move adds at home, as any reader does.
 *
 * Site 0 has the batch, the logit and the loss. The moves to the logit are the plan's tail.
 *
 * Parameters keep their places in the flat arrays of the dense tables. A `piece` says which of them
 * lie where in the array of a site; layer.parameter of a plan with several sites is the place in
 * the site's array. Statistics lie at each site as in the flat array. So nothing but the run
 * (dense/model/run_sites.c) knows that a tensor is cut, and no checkpoint depends on sites. */
#ifndef DENSE_LAYER_PLAN_SITES_H
#define DENSE_LAYER_PLAN_SITES_H

#include "dense/layer/block.h"
#include "proto/base/limits.h"

#define PIECES_MAX 2048u

struct piece {
    uint32_t site;
    uint32_t
        rows; /* rows of `width` floats: without gaps at the site, ld apart in the flat array */
    size_t width, ld;
    size_t from, at; /* where it begins in the flat array; in the site's */
    bool decay;      /* l2_dense applies */
};

/* Statistics that the layers of one site move. */
struct stats_piece {
    uint32_t site;
    size_t from, count;
};

struct site_pieces {
    struct piece piece[PIECES_MAX];
    uint32_t count;
    struct stats_piece stats[BLOCK_TENSORS_MAX];
    uint32_t stats_count;
    size_t floats[LIMIT_SITES]; /* floats of each site's array */
};

struct plan;

/* Rebuilds a plan of one site, not settled yet, as the job asks. CONFIG: the model has fewer stages
 * than asked for, or no layer to split; NOMEM. */
int plan_sites(struct plan *p, struct err *e);
/* After plan_settle: gives back the states of moves that do not add. */
void plan_sites_settle(struct plan *p);

#endif
