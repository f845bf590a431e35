/* block.h: tensors laid out as rows of a dense table.
 *
 * Tensor t begins at a multiple of BLOCK_FLOATS of the flat array. So a matrix is used in place, in
 * the array that a pull fills, and its gradient is written to the array that a push sends. Block b
 * of tensor t has key key_make(number of t, b). The floats behind a tensor's end in its last block
 * are never read; their gradient is zero. */
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
    bool overflow; /* more tensors were added than fit; those beyond the limit are missing */
    struct {
        size_t first, count; /* in the flat array */
        struct init_spec init;
        bool decay; /* l2_dense applies */
        char name[LEGEND_NAME];
        char shape[40];  /* as proto/job/legend.h says */
        uint32_t number; /* in its blocks' keys: its index here, until block_number changes it */
    } tensor[BLOCK_TENSORS_MAX];
};

/* Adds a tensor and returns its offset. The second tensor of a name is named "NAME#2". */
size_t block_add(struct block_layout *b, const char *name, const char *shape, size_t count,
                 struct init_spec init, bool decay);
/* Sets each tensor's number to that which `list` of the legend has for its name. An empty list
 * leaves the numbers alone. CONFIG: the list lacks a tensor of that name and shape. */
int block_number(struct block_layout *b, const struct legend *names, enum legend_list list,
                 struct err *e);
/* Writes the tensors' initial values to a schema, sorted by field; the table's default is zero. */
void block_inits(const struct block_layout *b, struct table_schema *out);
/* Keys of all blocks sorted by key_mix, and the flat block number of each; the caller frees both.
 * NOMEM. */
int block_keys(const struct block_layout *b, uint64_t **keys, uint32_t **block);

#endif
