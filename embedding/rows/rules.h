/* rules.h: the effect of a push on one row of a table with rules (struct row_rules,
 * proto/job/schema.h).
 *
 * In this order: the gradient is scaled down to norm_max; shows and clicks are added; the gradient
 * is divided by the shows (by_shows); l2; the optimizer; the vector begins if the score reaches
 * vector_score now; weights are clamped.
 *
 * After Paddle's CtrCommonAccessor (table/ctr_accessor.cc, table/sparse_sgd_rule.cc). A row without
 * its vector has zeros there, and gradients of the vector count as 0. When it begins, the vector
 * gets its initial weights and element-wise optimizer state, and takes gradients from the next push
 * on. Optimizers with one number for a whole row (row_adagrad's G, Adam's powers) have then seen
 * only the first-order weights. */
#ifndef EMBEDDING_ROWS_RULES_H
#define EMBEDDING_ROWS_RULES_H

#include "embedding/rows/optimizer/optimizer.h"
#include "embedding/table.h"

#include <stdint.h>

/* row: wide (table_inner.h). values: (schema_push_floats), checked. */
void rules_push(struct table *t, uint64_t key, float *row, const float *values,
                const struct opt_step *step);
/* Writes weights, state and statistics of a new row of any table in stored form. */
void rules_row_begin(const struct table *t, uint64_t key, float *stored);

#endif
