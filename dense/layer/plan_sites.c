/* plan_sites.c: rebuilds a plan for several sites: the layers that stay whole, and the moves.
 * plan_cut.c has the layers that are cut.
 *
 * Invariants:
 *  1. A layer reads and writes tensors of its own site alone, but for layer_move. [test:
 *     layers_stay_at_their_sites]
 *  2. Layers that write a tensor are copied in their order, and a copy of the tensor is made after
 *     the last of them that precedes its reader. [test:
 *     tensor_that_is_written_again_is_copied_again]
 *  3. Stages rise along the plan, and a tensor's home is that of its last writer. So before the
 *     tail no site waits for a later stage. [test: layers_stay_at_their_sites] */
#include "dense/layer/rebuild.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <stdlib.h>

/* ---- pieces ---------------------------------------------------------------------------------- */

#define PIECE_ALIGN 64u /* floats */

size_t rebuild_piece(struct rebuild *r, const struct piece *piece)
{
    struct site_pieces *all = &r->plan->pieces;
    size_t *floats = &all->floats[piece->site], at = *floats;
    for (uint32_t i = 0; i < all->count; i++) {
        const struct piece *had = &all->piece[i];
        if (had->from != piece->from)
            continue;
        /* two layers may share a tensor, at one site: its gradient is downloaded from there */
        SHOAL_ASSERT(had->site == piece->site && had->width == piece->width);
        return had->at;
    }
    if (all->count == PIECES_MAX) {
        r->plan->overflow = true;
        return 0;
    }
    all->piece[all->count] = *piece;
    all->piece[all->count++].at = at;
    *floats += (piece->rows * piece->width + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
    return at;
}

uint32_t rebuild_tensor_of(const struct rebuild *r, size_t parameter)
{
    const struct block_layout *dense = &r->plan->dense;
    for (uint32_t t = 0; t < dense->tensor_count; t++)
        if (parameter >= dense->tensor[t].first &&
            parameter < dense->tensor[t].first + dense->tensor[t].count)
            return t;
    SHOAL_ASSERT(false); /* a layer's parameter is a tensor of the plan */
    return 0;
}

/* The place of a whole tensor at a site, and of the parameter in it. */
static size_t parameter_place(struct rebuild *r, uint32_t site, size_t parameter)
{
    if (parameter == PARAMETER_NONE)
        return PARAMETER_NONE;
    uint32_t t = rebuild_tensor_of(r, parameter);
    size_t first = r->plan->dense.tensor[t].first, count = r->plan->dense.tensor[t].count;
    const struct piece whole = {site, 1, count, count, first, 0, r->plan->dense.tensor[t].decay};
    return rebuild_piece(r, &whole) + parameter - first;
}

/* A layer with statistics has as many of each as it has columns. */
static void stats_place(struct rebuild *r, const struct layer *l)
{
    struct site_pieces *all = &r->plan->pieces;
    if (l->ops->backward_gather == NULL)
        return;
    SHOAL_ASSERT(all->stats_count + 2 <= BLOCK_TENSORS_MAX);
    all->stats[all->stats_count++] = (struct stats_piece){l->site, l->mean, l->x.width};
    all->stats[all->stats_count++] = (struct stats_piece){l->site, l->variance, l->x.width};
}

/* ---- tensors of a site ----------------------------------------------------------------------- */

static uint32_t rebuild_tensor(struct rebuild *r, uint32_t site, struct tensor t)
{
    struct plan *p = r->plan;
    if (p->tensor_count == PLAN_TENSORS_MAX) {
        p->overflow = true;
        return PLAN_TENSORS_MAX - 1;
    }
    t.gradient = TENSOR_NONE;
    t.site = site;
    t.ld = plan_stride(t.width, t.packed);
    p->tensor[p->tensor_count] = t;
    return p->tensor_count++;
}

struct view rebuild_view(struct rebuild *r, uint32_t site, uint32_t width, uint32_t wanted)
{
    uint32_t t = rebuild_tensor(r, site, (struct tensor){.width = width, .wanted = wanted});
    return (struct view){t, 0, width};
}

struct layer *rebuild_layer(struct rebuild *r, const struct layer *of, uint32_t site)
{
    struct layer *l = plan_layer(r->plan, of->ops, VIEW_NONE, VIEW_NONE);
    uint32_t number = l->number;
    *l = *of;
    l->number = number;
    l->site = site;
    return l;
}

void rebuild_move(struct rebuild *r, struct view x, uint32_t site, struct view y, bool adds)
{
    uint32_t from = r->plan->tensor[x.tensor].site;
    struct layer *l = plan_layer(r->plan, &layer_move, x, y);
    SHOAL_ASSERT(x.width == y.width && from != site);
    l->site = site;
    l->number_of[MOVE_FROM] = from;
    l->number_of[MOVE_ADDS] = adds;
    if (adds)
        l->state[0] = rebuild_tensor(r, site, (struct tensor){.width = x.width});
    if (r->plan->tensor[x.tensor].wanted > x.at)
        l->state[1] = rebuild_tensor(r, from, (struct tensor){.width = x.width});
}

/* Brings home what layers of other sites have written for a tensor: before it is read. */
static void writes_bring(struct rebuild *r, uint32_t tensor)
{
    for (uint32_t i = 0; i < r->write_count; i++) {
        struct remote_write *w = &r->write[i];
        if (w->of.tensor != tensor || w->brought)
            continue;
        w->brought = true;
        rebuild_move(r, w->own, r->plan->tensor[tensor].site, w->of, tensor == TENSOR_LOGIT);
    }
}

struct view rebuild_read(struct rebuild *r, struct view v, uint32_t site)
{
    struct plan *p = r->plan;
    if (v.tensor == TENSOR_NONE || p->overflow)
        return v;
    writes_bring(r, v.tensor);
    if (p->tensor[v.tensor].site == site)
        return v;
    uint32_t *copy = &r->copy[site][v.tensor];
    if (*copy == TENSOR_NONE) {
        struct tensor t = p->tensor[v.tensor];
        t.zero = false;
        *copy = rebuild_tensor(r, site, t);
        rebuild_move(r, (struct view){v.tensor, 0, t.width}, site, (struct view){*copy, 0, t.width},
                     false);
    }
    return (struct view){*copy, v.at, v.width};
}

/* The columns of v whose gradient is wanted. */
static uint32_t wanted_of(const struct plan *p, struct view v)
{
    uint32_t wanted = p->tensor[v.tensor].wanted;
    if (wanted <= v.at)
        return 0;
    if (wanted - v.at > v.width)
        return v.width;
    return wanted - v.at;
}

struct view rebuild_write(struct rebuild *r, struct view v, uint32_t site)
{
    struct plan *p = r->plan;
    if (v.tensor == TENSOR_NONE || p->overflow)
        return v;
    for (uint32_t s = 0; s < p->sites; s++)
        r->copy[s][v.tensor] = TENSOR_NONE; /* 2 */
    if (p->tensor[v.tensor].site == site)
        return v;
    for (uint32_t i = 0; i < r->write_count; i++) {
        const struct remote_write *w = &r->write[i];
        if (w->of.tensor == v.tensor && w->of.at == v.at && w->of.width == v.width &&
            w->site == site && !w->brought)
            return w->own;
    }
    struct view own = rebuild_view(r, site, v.width, wanted_of(p, v));
    if (r->write_count == WRITES_MAX) {
        p->overflow = true;
        return v;
    }
    r->write[r->write_count++] = (struct remote_write){.of = v, .own = own, .site = site};
    if (v.tensor == TENSOR_LOGIT) /* its writers add */
        plan_layer(p, &layer_blank, VIEW_NONE, own)->site = site;
    return own;
}

/* A state belongs to one site: layers of several sites that share one get one each. */
static uint32_t state_place(struct rebuild *r, uint32_t state, uint32_t site)
{
    struct plan *p = r->plan;
    if (state == TENSOR_NONE || p->overflow)
        return state;
    if (!r->state_placed[state]) {
        r->state_placed[state] = true;
        p->tensor[state].site = site;
    }
    if (p->tensor[state].site == site)
        return state;
    if (r->copy[site][state] == TENSOR_NONE)
        r->copy[site][state] = rebuild_tensor(r, site, p->tensor[state]);
    return r->copy[site][state];
}

/* ---- layers that stay whole ------------------------------------------------------------------ */

static bool in_place(const struct layer *l)
{
    return l->x.tensor != TENSOR_NONE && l->x.tensor == l->y.tensor && l->x.at == l->y.at;
}

static void layer_whole(struct rebuild *r, const struct layer *of)
{
    struct view x = of->x, z = rebuild_read(r, of->z, of->site);
    if (!in_place(of))
        x = rebuild_read(r, of->x, of->site);
    struct view y = rebuild_write(r, of->y, of->site);
    if (in_place(of)) {
        if (y.tensor == of->y.tensor)
            writes_bring(r, y.tensor);
        x = y;
    }
    struct layer *l = rebuild_layer(r, of, of->site);
    l->x = x;
    l->y = y;
    l->z = z;
    for (uint32_t i = 0; i < LAYER_STATES; i++)
        l->state[i] = state_place(r, of->state[i], of->site);
    for (uint32_t i = 0; i < LAYER_PARAMETERS; i++)
        l->parameter[i] = parameter_place(r, of->site, of->parameter[i]);
    stats_place(r, l);
}

/* ---- stages ---------------------------------------------------------------------------------- */

/* Layers of less than this share of all parameters stay with the layer before them. */
#define LIGHT 1e-3

static double layer_floats(const struct rebuild *r, const struct layer *l)
{
    double floats = 0;
    for (uint32_t i = 0; i < LAYER_PARAMETERS; i++)
        if (l->parameter[i] != PARAMETER_NONE)
            floats += (double)r->plan->dense.tensor[rebuild_tensor_of(r, l->parameter[i])].count;
    return floats;
}

/* Gives each layer the home of its stage: the middle of its parameters decides. Returns the number
 * of stages that have layers. */
static uint32_t stages_deal(struct rebuild *r, uint32_t stages, uint32_t split)
{
    double all = 0, before = 0;
    uint32_t stage = 0, used = 1;
    for (uint32_t i = 0; i < r->count; i++)
        all += layer_floats(r, &r->layer[i]);
    for (uint32_t i = 0; i < r->count; i++) {
        struct layer *l = &r->layer[i];
        double floats = layer_floats(r, l), middle = before + floats / 2;
        before += floats;
        uint32_t to = stage;
        if (!l->ops->by_values && !in_place(l) && floats > LIGHT * all)
            to = (uint32_t)(middle / all * stages);
        used += to > stage;
        if (to > stage)
            stage = to;
        l->site = stage * split;
    }
    SHOAL_ASSERT(stage < stages); /* 3 */
    return used;
}

/* Homes of the tensors; the batch and the logit are at site 0. */
static void tensors_place(struct rebuild *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        const struct layer *l = &r->layer[i];
        if (l->y.tensor != TENSOR_NONE && l->y.tensor >= TENSOR_FIRST_FREE)
            r->plan->tensor[l->y.tensor].site = l->site;
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

/* The tensors of layers that were cut are read and written no more. */
static void tensors_drop(struct plan *p)
{
    bool used[PLAN_TENSORS_MAX] = {[TENSOR_LOGIT] = true, [TENSOR_NUMERIC] = true};
    for (uint32_t i = 0; i < p->layer_count; i++) {
        const struct layer *l = &p->layer[i];
        const uint32_t of[] = {l->x.tensor, l->y.tensor, l->z.tensor, l->rows};
        for (size_t t = 0; t < sizeof of / sizeof *of; t++)
            if (of[t] != TENSOR_NONE)
                used[of[t]] = true;
        for (uint32_t s = 0; s < LAYER_STATES; s++)
            if (l->state[s] != TENSOR_NONE)
                used[l->state[s]] = true;
    }
    for (uint32_t t = 0; t < p->tensor_count; t++)
        if (!used[t])
            p->tensor[t].width = p->tensor[t].ld = p->tensor[t].wanted = 0;
}

static void layers_rebuild(struct rebuild *r)
{
    struct plan *p = r->plan;
    for (uint32_t i = 0; i < r->count && !p->overflow; i++)
        if (!rebuild_cut(r, &r->layer[i]))
            layer_whole(r, &r->layer[i]);
    p->tail = p->layer_count;
    writes_bring(r, TENSOR_LOGIT);
    if (!p->overflow)
        tensors_drop(p);
}

static int sites_check(const struct rebuild *r, uint32_t stages, uint32_t used, struct err *e)
{
    if (used < stages)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.stages is %u, but the parameters of this model fill %u: most of them "
                       "are in few layers; give it fewer stages, or more layers of like width",
                       stages, used);
    uint32_t widest = rebuild_widest(r);
    if (r->split > 1 && widest == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.split is %u, but this model has no linear layer to split: leave "
                       "model.split out",
                       r->split);
    if (r->split > 1 && r->cut == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.split is %u, but no linear layer of this model has more than %u "
                       "outputs (model.split_above), the widest has %u: lower model.split_above, "
                       "or leave model.split out",
                       r->split, rebuild_cut_above(r), widest);
    return 0;
}

int plan_sites(struct plan *p, struct err *e)
{
    const struct job *job = p->job;
    uint32_t stages = MAX(job->model.stages, 1), split = MAX(job->model.split, 1);
    if (job_sites(job) == 1)
        return 0;
    if (p->loads > 0)
        return err_set(
            e, SHOAL_E_CONFIG,
            "model.top_k is %u, and a network over several devices computes all experts: "
            "leave model.top_k out, or model.stages and model.split",
            job->model.top_k);
    if (stages * split > LIMIT_SITES)
        return err_set(e, SHOAL_E_CONFIG,
                       "model.stages %u times model.split %u is more than %u devices: make one of "
                       "them smaller",
                       stages, split, LIMIT_SITES);
    struct rebuild *r = malloc(sizeof *r);
    if (r == NULL)
        return err_set(e, SHOAL_E_NOMEM, "the plan of job %s: out of memory", job->name);
    memset(r, 0, sizeof *r);
    memset(r->copy, 0xff, sizeof r->copy); /* TENSOR_NONE */
    memset(r->half, 0xff, sizeof r->half);
    r->plan = p;
    r->split = split;
    r->count = p->layer_count;
    memcpy(r->layer, p->layer, sizeof r->layer);
    uint32_t used = stages_deal(r, stages, split);
    tensors_place(r);
    p->sites = stages * split;
    p->layer_count = 0;
    layers_rebuild(r);
    int rc = sites_check(r, stages, used, e);
    free(r);
    return rc;
}

void plan_sites_settle(struct plan *p)
{
    for (uint32_t i = 0; i < p->layer_count; i++) {
        const struct layer *l = &p->layer[i];
        if (l->ops != &layer_move || l->add || l->state[1] == TENSOR_NONE)
            continue;
        p->tensor[l->state[1]].width = 0;
        p->tensor[l->state[1]].ld = 0;
    }
}
