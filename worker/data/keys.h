/* keys.h: keys of an example's short values, eight at a time, where numbers_wide. */
#ifndef WORKER_DATA_KEYS_H
#define WORKER_DATA_KEYS_H

#include "worker/data/feature.h"

#define KEYS_GROUP 8u

/* key[i] of use[i], i < count <= KEYS_GROUP: key_of_value of a category's value that is empty or of
 * 4 to 8 bytes. Returned are the bits of the others; their key[i] says nothing. Nothing beyond a
 * cell is read. */
uint32_t keys_read(const struct cell *cells, const struct feature_use *use, uint32_t count,
                   uint64_t *key);

#endif
