/* l2.h: l2 of a whole table on rows that are touched now and then: each push makes up for the
 * batches before it. */
#ifndef EMBEDDING_ROWS_L2_H
#define EMBEDDING_ROWS_L2_H

#include "embedding/rows/optimizer/optimizer.h"
#include "embedding/rows/table_inner.h"

#include <stdint.h>

/* Counts the batches of this push in every tablet that takes it. */
void l2_count(struct table *t, const struct push_args *args);
/* row: wide. The row's gradient with its l2, for all batches of its tablet, of whichever lane,
 * since the one that touched it last: what a loss with the L2 of the whole table in each step would
 * have added up to, had the weights stayed. Under SGD the step takes no more than the weights
 * themselves. In a buffer of the table's (which `gradient` may be), or `gradient` itself. */
const float *l2_gradient(const struct table *t, uint64_t key, float *row, const float *gradient,
                         const struct opt_step *step);

#endif
