/* events_inner.h: the parts of an event file, shared by reader and writer (events.h). */
#ifndef WORKER_DATA_EVENTS_INNER_H
#define WORKER_DATA_EVENTS_INNER_H

#include "worker/data/events.h"

#define EVENTS_MAGIC "SHOALEV1"
#define EVENTS_END_MAGIC "SHOALEVE"
#define BLOCK_MAGIC 0x4b4c4245u /* "EBLK" */
#define BLOCK_PLAIN 2u          /* zipped: the block is not packed */

struct events_head {
    char magic[8];
    uint32_t bytes, columns;
    uint64_t sum;
};
struct events_block_head {
    uint32_t magic, rows, plain, packed, rest, zipped;
    uint64_t sum;
};
struct events_end {
    uint64_t blocks, rows, index_sum, sum;
    char magic[8];
};
_Static_assert(sizeof(struct events_head) == 24, "events_head is a disk format");
_Static_assert(sizeof(struct events_block_head) == 32, "events_block_head is a disk format");
_Static_assert(sizeof(struct events_end) == 40, "events_end is a disk format");

/* Sum of a block's first 24 bytes and its body. */
uint64_t events_block_sum(const struct events_block_head *h, const uint8_t *plain,
                          const uint8_t *packed);

#endif
