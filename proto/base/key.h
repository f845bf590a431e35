/* key.h: a key is 64 bits: the feature field in the high 16, the hash of the value in the low 48.
 * In a field of ids the low 48 are the value itself. key_mix(key) decides the tablet and the bucket
 * of a key. It is a bijection, so mixing loses nothing; it costs two multiplications. */
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
/* The key of a field's raw value (its bytes in the input). */
uint64_t key_of_value(uint32_t field, const void *value, size_t bytes);
/* The key of an id; false: the value is no id. An id is a whole number from 0 to KEY_ID_MAX, in
 * digits without a sign or leading zeros, so that no two values share a key. An empty value is no
 * id; its key is that of an empty raw value, which is above 2^39 in all fields. */
#define KEY_ID_MAX 0xffffffffffffULL
#define KEY_ID_WORDS "a whole number from 0 to 281474976710655"
bool key_of_id(uint32_t field, const void *value, size_t bytes, uint64_t *key);

/* Compare two keys for qsort and bsearch: by value, or mixed, which sorts by tablet. */
int key_by_value(const void *a, const void *b);
int key_by_mixed(const void *a, const void *b);

/* The tablet of a mixed key among 2^bits tablets. It is the top bits, so that key_by_mixed
 * sorts by tablet. */
static inline uint32_t key_tablet(uint64_t mixed, unsigned bits)
{
    return bits == 0 ? 0 : (uint32_t)(mixed >> (64 - bits));
}

#endif
