/* admit.h: who gets a row (enum admit_kind, proto/job/schema.h).
 *
 * Asked only for keys of a push that have none. Keys by name come first, then the rule of the key's
 * field, else the table's. A key that is not let in is counted (waiting.h, sketch.h), its gradient
 * is dropped. What it was counted with is forgotten when its row is made; with ADMIT_SCORE the row
 * begins with these shows and clicks. Chance is drawn from (seed, key, lane, batch), so that replay
 * draws the same. */
#ifndef EMBEDDING_ROWS_ADMIT_H
#define EMBEDDING_ROWS_ADMIT_H

#include "embedding/table.h"

#include <stdint.h>

/* *row: the new row; NULL when the key is not let in. values: what the push has for the key. 0 or
 * SHOAL_E_NOMEM. */
int admit_row(struct table *t, uint32_t tablet, uint64_t key, const float *values,
              const struct push_args *args, float **row);
/* Keys of a tablet that may wait. */
uint32_t admit_waiting_limit(const struct table_schema *s);

#endif
