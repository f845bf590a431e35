/* move.c: the layers by which data passes from one site to another (plan_sites.h).
 *
 * Forward, the site of y waits for the site of x and fetches; on the way back the site of x waits
 * for the site of y. Either fetches straight into place where it sets, or into a state of its own
 * where it adds. */
#include "dense/layer/plan.h"
#include "proto/base/assert.h"

/* One end of a move, for some examples. */
struct end {
    uint32_t site;
    float *at;
    uint32_t ld;
};

/* Sets `to` to `from`, or adds it; `own` (count, width) is a state at the site of `to`. */
static void move(struct pass *p, const struct end *from, const struct end *to, uint32_t count,
                 uint32_t width, bool add, const struct end *own)
{
    const struct pass_site *there = &p->site[from->site], *here = &p->site[to->site];
    const struct end *first = to;
    if (add)
        first = own;
    const struct strip strip = {count, width, first->at, from->at, first->ld, from->ld};
    p->k->after(here->s, there->s);
    p->k->fetch(here->s, there->s, &strip);
    if (add)
        p->k->add(here->s, count, width, own->at, own->ld, to->at, to->ld);
}

static struct end state_end(const struct layer *l, const struct pass *p, uint32_t state,
                            uint32_t first, bool used)
{
    if (!used)
        return (struct end){.at = NULL};
    struct view v = {l->state[state], 0, l->x.width};
    SHOAL_ASSERT(p->tensor[v.tensor].width == v.width);
    return (struct end){.at = pass_at(p, v, first), .ld = pass_ld(p, v)};
}

static void move_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    bool adds = l->number_of[MOVE_ADDS] != 0;
    struct end x = {l->number_of[MOVE_FROM], pass_at(p, l->x, first), pass_ld(p, l->x)};
    struct end y = {l->site, pass_at(p, l->y, first), pass_ld(p, l->y)};
    struct end own = state_end(l, p, 0, first, adds);
    move(p, &x, &y, count, l->x.width, adds, &own);
}

static void move_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    uint32_t wanted = pass_wanted(p, l->x);
    if (wanted == 0)
        return;
    struct end dx = {l->number_of[MOVE_FROM], pass_gradient_at(p, l->x, first),
                     pass_gradient_ld(p, l->x)};
    struct end dy = {l->site, pass_gradient_at(p, l->y, first), pass_gradient_ld(p, l->y)};
    struct end own = state_end(l, p, 1, first, l->add);
    SHOAL_ASSERT(pass_wanted(p, l->y) >= wanted);
    move(p, &dy, &dx, count, wanted, l->add, &own);
}

const struct layer_ops layer_move = {
    .name = "move", .forward = move_forward, .backward = move_backward};

static void blank_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    SHOAL_ASSERT(l->y.at == 0 && l->y.width == p->tensor[l->y.tensor].width);
    p->k->zero(p->s, pass_at(p, l->y, first), (size_t)count * pass_ld(p, l->y) * sizeof(float));
}

const struct layer_ops layer_blank = {.name = "blank", .forward = blank_forward};
