/* order.h: position in an epoch -> chunk, a permutation that nobody stores. */
#ifndef WORKER_DATA_ORDER_H
#define WORKER_DATA_ORDER_H

#include <stdint.h>

/* The chunk at `position` among `chunks` in the order drawn from (seed, epoch). A bijection of [0,
 * chunks). */
uint64_t order_chunk(uint64_t seed, uint32_t epoch, uint64_t chunks, uint64_t position);

#endif
