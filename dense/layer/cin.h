/* cin.h: the compressed interaction network (xDeepFM, Lian et al. 2018). Layer k has maps of the
 * vectors' length:
 *
 *     map h = sum over maps m of layer k - 1 and fields f of w[h][f, m] (map m * vector f), *
 *     number by number,
 *
 * layer 0 being the field vectors; the sums of all maps' numbers are what it gives. No activation:
 * the paper found the identity best.
 *
 * Here a map's numbers lie apart: tensors are (examples, dim, maps), so that a layer is one outer
 * product for each row of (example, number) and a matrix product of all rows. The outer products
 * are made for as many rows at a time as fit the work space, and made again on the way back. */
#ifndef DENSE_LAYER_CIN_H
#define DENSE_LAYER_CIN_H

#include "dense/layer/layer.h"

#define CIN_WORK_FLOATS (4u << 20) /* at most, for outer products; all layers of a lane share it */
/* of which the host uses so much: what stays in its cache */
#define CIN_WORK_HOST_FLOATS (1u << 18)

struct plan;

/* x (fields * dim) turned into y (dim * fields). Number 0: fields. */
extern const struct layer_ops cin_turn_layer;
/* Uses x (dim * maps below), z: the vectors, turned, y (dim * maps), parameter 0: w (maps, fields *
 * maps below), state 0: work space; numbers 0: fields, 1: maps below, 2: maps, 3: floats of the
 * work space. */
extern const struct layer_ops cin_layer;
/* x (dim * maps) -> y (maps): sums of the maps' numbers. */
extern const struct layer_ops cin_pool_layer;

/* Floats of outer products for one row of the largest layer. */
double cin_row_floats(uint32_t fields, const struct widths *maps);
/* Layers of these many maps over the field vectors; what it gives: (sum of maps). */
struct view cin_plan(struct plan *p, struct view vectors, const struct widths *maps);

#endif
