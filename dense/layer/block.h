/* block.h: tensors laid out as rows of a dense table.
 *
 * Tensor t begins at a multiple of BLOCK_FLOATS of the flat array, so that a matrix is used where
 * it was pulled and its gradient is written where it is pushed from. Block b of tensor t has key
 * key_make(number of t, b). What lies behind a tensor's end in its last block is of no meaning; its
 * gradient is zero. */
#ifndef DENSE_LAYER_BLOCK_H
#define DENSE_LAYER_BLOCK_H

#include "dense/model_input.h"
#include "proto/base/err.h"
#include "proto/base/key.h"
#include "proto/job/legend.h"
#include "proto/job/schema.h"

#include <stddef.h>

#define BLOCK_TENSORS_MAX 512u
#define BLOCK_TABLE_FLOATS_MAX ((size_t)1 << 28)

_Static_assert(BLOCK_TENSORS_MAX <= LIMIT_FIELDS,
               "a tensor is a field of the dense table, with an initial value of its own");

struct block_layout {
    uint32_t tensor_count;
    size_t floats; /* multiple of BLOCK_FLOATS */
    bool overflow; /* there were more tensors than fit; what was added since is not there */
    struct {
        size_t first, count; /* in the flat array */
        struct init_spec init;
        bool decay; /* l2_dense applies */
        char name[LEGEND_NAME];
        char shape[40];  /* as proto/job/legend.h says */
        uint32_t number; /* in its blocks' keys; its place, until block_number says otherwise */
    } tensor[BLOCK_TENSORS_MAX];
};

/* Adds a tensor; returns where it begins. The second of a name gets "#2" behind it. */
size_t block_add(struct block_layout *b, const char *name, const char *shape, size_t count,
                 struct init_spec init, bool decay);
/* Gives tensors the numbers that the tables know them by: `list` of names. CONFIG: they know one by
 * no such name and shape. Where nothing is known all keep their places. */
int block_number(struct block_layout *b, const struct legend *names, enum legend_list list,
                 struct err *e);
/* Initial values by tensor, into a schema (sorted by field; zero is the table's own). */
void block_inits(const struct block_layout *b, struct table_schema *out);
/* Keys of all blocks sorted by key_mix, and the flat block number of each; the caller frees both.
 * NOMEM. */
int block_keys(const struct block_layout *b, uint64_t **keys, uint32_t **block);

#endif
