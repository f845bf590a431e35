/* admit.h: decides which keys get a row (enum admit_kind, proto/job/schema.h).
 *
 * A push asks only for keys without a row. Named keys come first, then the rule of the key's field,
 * else the table's. A key that is not admitted is counted (waiting.h, sketch.h), and its gradient
 * is dropped. Its counts are forgotten when its row is made; with ADMIT_SCORE the row starts with
 * these shows and clicks. Chance is drawn from (seed, key, lane, batch), so that replay draws the
 * same. */
#ifndef EMBEDDING_ROWS_ADMIT_H
#define EMBEDDING_ROWS_ADMIT_H

#include "embedding/table.h"

#include <stdint.h>

/* *row: the new row; NULL: the key is not admitted. values: the push's data for the key. 0 or
 * SHOAL_E_NOMEM. */
int admit_row(struct table *t, uint32_t tablet, uint64_t key, const float *values,
              const struct push_args *args, float **row);
/* Most waiting keys of a tablet. */
uint32_t admit_waiting_limit(const struct table_schema *s);

#endif
