/* order.c: a permutation of chunk numbers by a Feistel network over the next power of two, with
 * cycle walking.
 *
 * 1. Every round is a bijection of [0, 2^bits), whatever the round function does: so the network is
 *    one.
 * 2. A value that falls outside [0, chunks) is put through the network again; as its cycle holds
 *    the start, which is inside, the walk ends, and what is left is a bijection of [0, chunks).
 *    Fewer than two walks are expected, as 2^bits < 2 chunks.
 * 3. The number of rounds is even, so the two sides, which differ by a bit when bits is odd, end as
 *    wide as they began.
 */
#include "worker/data/order.h"

#include "proto/base/assert.h"
#include "proto/base/rng.h"

#define ORDER_ROUNDS 6

static uint64_t feistel(const uint64_t key[ORDER_ROUNDS], unsigned bits, uint64_t value)
{
    unsigned low_bits = bits - bits / 2, high_bits = bits / 2;
    uint64_t low = value & ((1ULL << low_bits) - 1), high = value >> low_bits;
    for (int r = 0; r < ORDER_ROUNDS; r++) {
        uint64_t next = (high ^ rng_mix(low ^ key[r])) & ((1ULL << high_bits) - 1);
        high = low;
        low = next;
        unsigned swap = low_bits;
        low_bits = high_bits;
        high_bits = swap;
    }
    return high << low_bits | low;
}

uint64_t order_chunk(uint64_t seed, uint32_t epoch, uint64_t chunks, uint64_t position)
{
    SHOAL_ASSERT(position < chunks && chunks <= 1ULL << 62);
    if (chunks == 1)
        return 0;
    unsigned bits = 64u - (unsigned)__builtin_clzll(chunks - 1);
    if (bits < 2)
        bits = 2; /* both sides need a bit, else a round could change nothing */
    struct rng rng = rng_of(seed, epoch, chunks);
    uint64_t key[ORDER_ROUNDS];
    for (int r = 0; r < ORDER_ROUNDS; r++)
        key[r] = rng_next(&rng);
    uint64_t value = position;
    do
        value = feistel(key, bits, value);
    while (value >= chunks);
    return value;
}
