/* image.h: a tablet as one value, little-endian; the functions are in table.h. The layout, all parts without gaps:
 *
 *     struct image_header | keys u64 (row_count) | rows f32 (row_count, row_floats) |
 *     undo keys u64 (undo_count) | undo weights f32 (undo_count, width) | XXH3 of all before, u64 */
#ifndef EMBEDDING_IMAGE_H
#define EMBEDDING_IMAGE_H

#include <stdint.h>

#define IMAGE_MAGIC 0x4154204c414f4853ULL /* "SHOAL TA" in memory */
#define IMAGE_VERSION 2u

struct image_header {
    uint64_t magic;
    uint32_t version;
    uint32_t tablet;        /* its number in its table */
    uint64_t schema_digest; /* of what rows mean: name, shape, seed, initial values, optimizer */
    uint64_t bytes;         /* of the whole image */
    uint32_t row_floats;
    uint32_t width;
    uint64_t row_count;
    uint64_t undo_clock; /* 0 when there is no undo */
    uint64_t undo_count;
    uint64_t batches; /* tablet.batches */
};
_Static_assert(sizeof(struct image_header) == 72, "image_header is a disk format");

#endif
