/* key.h: a key is 64 bits: feature field in the high 16, hash of the value in the low 48; or, of a
 * field of ids, the value itself. Where it lies (tablet, bucket) is decided by key_mix(key), a
 * bijection, so that mixing loses nothing and costs two multiplications. */
#ifndef PROTO_BASE_KEY_H
#define PROTO_BASE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Murmur3's 64-bit finalizer (A. Appleby, public domain constants); key_unmix is its inverse. */
static inline uint64_t key_mix(uint64_t key)
{
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdULL;
    key ^= key >> 33;
    key *= 0xc4ceb9fe1a85ec53ULL;
    key ^= key >> 33;
    return key;
}
uint64_t key_unmix(uint64_t mixed);

static inline uint32_t key_field(uint64_t key)
{
    return (uint32_t)(key >> 48);
}
static inline uint64_t key_make(uint32_t field, uint64_t value_hash)
{
    return ((uint64_t)field << 48) | (value_hash & 0xffffffffffffULL);
}
/* Key of a field's raw value (bytes as they stand in the input). */
uint64_t key_of_value(uint32_t field, const void *value, size_t bytes);
/* Key of an id: a whole number from 0 to KEY_ID_MAX, digits without a sign or leading zeros, so
 * that no two values are one key. Whether it is one. An empty value is none; its key is that of an
 * empty raw value, in all fields above 2^39. */
#define KEY_ID_MAX 0xffffffffffffULL
#define KEY_ID_WORDS "a whole number from 0 to 281474976710655"
bool key_of_id(uint32_t field, const void *value, size_t bytes, uint64_t *key);

/* The tablet of a mixed key among 2^bits tablets: its top bits, so that sorting by mixed key sorts
 * by tablet. */
static inline uint32_t key_tablet(uint64_t mixed, unsigned bits)
{
    return bits == 0 ? 0 : (uint32_t)(mixed >> (64 - bits));
}

#endif
