/* short_keys.h: keys of an example's short values, eight at a time; only if numbers_wide(). */
#ifndef WORKER_DATA_SHORT_KEYS_H
#define WORKER_DATA_SHORT_KEYS_H

#include "worker/data/feature.h"

#define KEYS_GROUP 8u

/* Sets key[i], i < count <= KEYS_GROUP, to key_of_value of use[i]'s cell where the value is empty
 * or has 4 to 8 bytes. Returns a bit for each other cell, whose key[i] is undefined. Reads no byte
 * outside a cell. */
uint32_t short_keys_read(const struct cell *cells, const struct feature_use *use, uint32_t count,
                         uint64_t *key);

#endif
