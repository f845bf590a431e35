/* l2.h: l2 of a whole table for rows that are rarely touched: each push makes up for the batches
 * before it. */
#ifndef EMBEDDING_ROWS_L2_H
#define EMBEDDING_ROWS_L2_H

#include "embedding/rows/optimizer/optimizer.h"
#include "embedding/rows/table_inner.h"

#include <stdint.h>

/* Counts the batches of this push in every tablet that takes it. */
void l2_count(struct table *t, const struct push_args *args);
/* row: wide. Returns the row's gradient with its l2 for all batches of its tablet, of any lane,
 * since the batch that touched it last: the sum that a loss with the L2 of the whole table at each
 * step would give if the weights had not moved. Under SGD the step takes at most the weights
 * themselves. The result is in a buffer of the table (which `gradient` may be), or `gradient`
 * itself. */
const float *l2_gradient(const struct table *t, uint64_t key, float *row, const float *gradient,
                         const struct opt_step *step);

#endif
