/* init.h: a row's initial weights: a function of (table seed, key), the same on every shard, in
 * pulls of absent keys and in pushes. */
#ifndef EMBEDDING_ROWS_INIT_H
#define EMBEDDING_ROWS_INIT_H

#include "proto/job/schema.h"

#include <stdint.h>

/* Writes (width) weights. The kind is that of the key's field_rule, else the schema's; the first
 * zero_first floats are 0. Float i depends only on i, so another zero_first does not change the
 * others. */
void init_weights(const struct table_schema *s, uint64_t key, float *weights);

#endif
