/* body_interact.h: the kernels of dense/ops_interact.h. */
#ifndef DENSE_CPU_BODY_INTERACT_H
#define DENSE_CPU_BODY_INTERACT_H

#include "dense/cpu/body_cin.h"
#include "dense/cpu/body_cross.h"
#include "dense/cpu/body_products.h"

static void body_interact_fill(struct interact_ops *o)
{
    o->products_forward = body_products_forward;
    o->products_backward = body_products_backward;
    o->cross_forward = body_cross_forward;
    o->cross_backward = body_cross_backward;
    o->turn = body_turn;
    o->cin_outer = body_cin_outer;
    o->cin_outer_backward = body_cin_outer_backward;
    o->cin_pool = body_cin_pool;
    o->cin_pool_backward = body_cin_pool_backward;
}

#endif
