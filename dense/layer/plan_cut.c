/* plan_cut.c: linear layers that are cut over the sites of a stage.
 *
 *     x -moves-> x at each site -fc-> columns of y at each site     by columns
 *     columns of h at each site -fc-> sums -moves that add-> y -act-> y     by rows */
#include "dense/layer/rebuild.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"

/* Where the columns of site `part` begin: at multiples of four floats where all sites get some. */
static uint32_t part_begin(const struct rebuild *r, uint32_t width, uint32_t part)
{
    uint32_t begin = (uint32_t)((uint64_t)width * part / r->split);
    if (part < r->split && width >= TENSOR_ROUND * r->split)
        begin -= begin % TENSOR_ROUND;
    return begin;
}

static uint32_t part_width(const struct rebuild *r, uint32_t width, uint32_t part)
{
    return part_begin(r, width, part + 1) - part_begin(r, width, part);
}

uint32_t rebuild_cut_above(const struct rebuild *r)
{
    return MAX(r->plan->job->model.split_above, r->split - 1);
}

uint32_t rebuild_widest(const struct rebuild *r)
{
    uint32_t widest = 0;
    for (uint32_t i = 0; i < r->count; i++)
        if (r->layer[i].ops == &layer_fc)
            widest = MAX(widest, r->layer[i].y.width);
    return widest;
}

static bool wide(const struct rebuild *r, const struct layer *l)
{
    return r->split > 1 && l->ops == &layer_fc && l->y.width > rebuild_cut_above(r);
}

static bool touches(const struct layer *l, uint32_t tensor)
{
    return l->x.tensor == tensor || l->y.tensor == tensor || l->z.tensor == tensor;
}

/* The linear layer that alone reads all that l writes, on the same stage; NULL: there is none. */
static const struct layer *partner(const struct rebuild *r, const struct layer *l)
{
    const struct layer *found = NULL;
    struct view h = l->y;
    if (h.at != 0 || h.width != r->plan->tensor[h.tensor].width)
        return NULL;
    for (uint32_t i = 0; i < r->count; i++) {
        const struct layer *other = &r->layer[i];
        if (i == l->number || !touches(other, h.tensor))
            continue;
        if (found != NULL || other->ops != &layer_fc || other->x.tensor != h.tensor ||
            other->x.width != h.width || other->y.tensor == h.tensor || other->site != l->site)
            return NULL;
        found = other;
    }
    return found;
}

static size_t piece_place(struct rebuild *r, uint32_t site, size_t parameter, uint32_t rows,
                          size_t width, size_t ld, size_t at)
{
    if (parameter == PARAMETER_NONE)
        return PARAMETER_NONE;
    bool decay = r->plan->dense.tensor[rebuild_tensor_of(r, parameter)].decay;
    const struct piece piece = {site, rows, width, ld, parameter + at, 0, decay};
    return rebuild_piece(r, &piece);
}

/* y = act(x w' + bias) in columns. What the partner reads stays where it is. */
static void cut_columns(struct rebuild *r, const struct layer *of, bool keep)
{
    struct view x[LIMIT_SITES];
    for (uint32_t k = 0; k < r->split; k++)
        x[k] = rebuild_read(r, of->x, of->site + k);
    for (uint32_t k = 0; k < r->split; k++) {
        uint32_t site = of->site + k, begin = part_begin(r, of->y.width, k),
                 width = part_width(r, of->y.width, k);
        struct view y;
        if (keep)
            y = rebuild_view(r, site, width, width);
        else
            y = rebuild_write(r, plan_columns(of->y, begin, width), site);
        if (keep)
            r->half[of->y.tensor][k] = y.tensor;
        struct layer *l = rebuild_layer(r, of, site);
        size_t in = of->x.width;
        l->x = x[k];
        l->y = y;
        l->draw = of->draw | k << 16; /* a part has a mask of its own */
        l->parameter[0] =
            piece_place(r, site, of->parameter[0], 1, width * in, width * in, begin * in);
        l->parameter[1] = piece_place(r, site, of->parameter[1], 1, width, width, begin);
    }
}

/* Bias, activation and dropout of a layer that is cut by rows, at home after the sum. */
static void act_after(struct rebuild *r, const struct layer *of, struct view y)
{
    if (of->parameter[1] == PARAMETER_NONE && of->act == ACT_NONE && of->dropout <= 0)
        return;
    struct layer *l = rebuild_layer(r, of, of->site);
    l->ops = &layer_act;
    l->x = l->y = y;
    l->parameter[0] = PARAMETER_NONE;
    l->parameter[1] = piece_place(r, of->site, of->parameter[1], 1, of->y.width, of->y.width, 0);
}

/* y = act(sum of h w' over the sites + bias): each site has columns of h and of w. */
static void cut_rows(struct rebuild *r, const struct layer *of)
{
    uint32_t home = of->site, out = of->y.width, in = of->x.width;
    struct view y[LIMIT_SITES];
    for (uint32_t k = 0; k < r->split; k++) {
        uint32_t site = home + k, width = part_width(r, in, k);
        if (k == 0)
            y[k] = rebuild_write(r, of->y, site);
        else
            y[k] = rebuild_view(r, site, out, out);
        struct layer *l = rebuild_layer(r, of, site);
        l->x = (struct view){r->half[of->x.tensor][k], 0, width};
        l->y = y[k];
        l->act = ACT_NONE;
        l->dropout = 0.0;
        l->parameter[0] =
            piece_place(r, site, of->parameter[0], out, width, in, part_begin(r, in, k));
        l->parameter[1] = PARAMETER_NONE;
    }
    for (uint32_t k = 1; k < r->split; k++)
        rebuild_move(r, y[k], home, y[0], true);
    act_after(r, of, y[0]);
}

bool rebuild_cut(struct rebuild *r, const struct layer *l)
{
    if (r->plan->overflow)
        return false;
    if (l->ops == &layer_fc && r->half[l->x.tensor][0] != TENSOR_NONE) {
        cut_rows(r, l);
        return true;
    }
    if (!wide(r, l))
        return false;
    r->cut++;
    cut_columns(r, l, partner(r, l) != NULL);
    return true;
}
