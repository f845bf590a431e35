/* hash.c: XXH3 and the inverse of key_mix. */
#include "proto/base/hash.h"
#include "proto/base/key.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdlib.h>

uint64_t key_unmix(uint64_t mixed)
{
    mixed ^= mixed >> 33;
    mixed *= 0x9cb4b2f8129337dbULL; /* inverse of 0xc4ceb9fe1a85ec53 modulo 2^64 */
    mixed ^= mixed >> 33;
    mixed *= 0x4f74430c22a54005ULL; /* inverse of 0xff51afd7ed558ccd */
    mixed ^= mixed >> 33;
    return mixed;
}

uint64_t key_of_value(uint32_t field, const void *value, size_t bytes)
{
    return key_make(field, XXH3_64bits_withSeed(value, bytes, field));
}

uint64_t hash_bytes(const void *data, size_t bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, bytes, seed);
}

struct hash_stream {
    XXH3_state_t state;
};

struct hash_stream *hash_stream_new(void)
{
    struct hash_stream *h = aligned_alloc(64, (sizeof *h + 63) & ~(size_t)63);
    if (h != NULL)
        hash_stream_reset(h, 0);
    return h;
}

void hash_stream_reset(struct hash_stream *h, uint64_t seed)
{
    XXH3_INITSTATE(&h->state);
    (void)XXH3_64bits_reset_withSeed(&h->state, seed);
}

void hash_stream_add(struct hash_stream *h, const void *data, size_t bytes)
{
    (void)XXH3_64bits_update(&h->state, data, bytes);
}

uint64_t hash_stream_value(const struct hash_stream *h)
{
    return XXH3_64bits_digest(&h->state);
}

void hash_stream_free(struct hash_stream *h)
{
    free(h);
}
