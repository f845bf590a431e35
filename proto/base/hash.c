/* hash.c: XXH3, CRC-32C, the inverse of key_mix and the order of keys. */
#include "proto/base/hash.h"

#include "proto/base/key.h"
#include "proto/base/x86.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
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

int key_by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int key_by_mixed(const void *a, const void *b)
{
    uint64_t x = key_mix(*(const uint64_t *)a), y = key_mix(*(const uint64_t *)b);
    return (x > y) - (x < y);
}

uint64_t key_of_value(uint32_t field, const void *value, size_t bytes)
{
    return key_make(field, XXH3_64bits_withSeed(value, bytes, field));
}

bool key_of_id(uint32_t field, const void *value, size_t bytes, uint64_t *key)
{
    const unsigned char *p = value;
    uint64_t id = 0;
    if (bytes == 0 || bytes > 15 || (p[0] == '0' && bytes > 1))
        return false;
    for (size_t i = 0; i < bytes; i++) {
        unsigned digit = (unsigned)p[i] - '0';
        if (digit > 9)
            return false;
        id = id * 10 + digit;
    }
    *key = key_make(field, id);
    return id <= KEY_ID_MAX;
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

/* ---- CRC-32C --------------------------------------------------------------------------------- */

/* Uses the processor's own instruction, on three runs of bytes at a time. Elsewhere four bits a
 * step go through a table of the sixteen remainders of the reflected polynomial 0x82F63B78.
 *
 * The instruction takes eight bytes a cycle but has a latency of three, so three neighbouring runs
 * are computed side by side. To move a run's checksum behind n more bytes, it is multiplied by
 * x^(8n) modulo the polynomial: a product without carries with x^(8n - 33), which the instruction
 * itself reduces. */
static const uint32_t remainder_of[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};

uint32_t hash_crc32c_by_table(uint32_t before, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    uint32_t c = before ^ UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        c ^= at[i];
        c = remainder_of[c & 15] ^ (c >> 4);
        c = remainder_of[c & 15] ^ (c >> 4);
    }
    return c ^ UINT32_MAX;
}

#ifdef SHOAL_X86
#include <immintrin.h>
#include <string.h>

#define LONG 1024u
#define SHORT 128u
/* x^(8n - 33), bits reversed, for n bytes. */
#define LONG_1 0x170076fau
#define LONG_2 0xa51b6135u
#define SHORT_1 0x0d3b6092u
#define SHORT_2 0xb9e02b86u

#define TARGET __attribute__((target("sse4.2,pclmul")))

TARGET static inline uint64_t eight(uint64_t crc, const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return _mm_crc32_u64(crc, word);
}

TARGET static inline uint64_t moved(uint64_t crc, uint32_t by)
{
    __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)crc), _mm_cvtsi64_si128((int64_t)by), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

TARGET static inline uint64_t three_runs(uint64_t crc, const char *at, size_t run, uint32_t by_1,
                                         uint32_t by_2)
{
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < run; i += 8) {
        crc = eight(crc, at + i);
        second = eight(second, at + run + i);
        third = eight(third, at + 2 * run + i);
    }
    return moved(crc, by_2) ^ moved(second, by_1) ^ third;
}

TARGET static uint32_t by_instruction(uint32_t before, const char *at, size_t count)
{
    uint64_t crc = before ^ 0xffffffffu;
    for (; count >= 3 * LONG; at += 3 * LONG, count -= 3 * LONG)
        crc = three_runs(crc, at, LONG, LONG_1, LONG_2);
    for (; count >= 3 * SHORT; at += 3 * SHORT, count -= 3 * SHORT)
        crc = three_runs(crc, at, SHORT, SHORT_1, SHORT_2);
    for (; count >= 8; at += 8, count -= 8)
        crc = eight(crc, at);
    for (; count > 0; at++, count--)
        crc = _mm_crc32_u8((uint32_t)crc, (unsigned char)*at);
    return (uint32_t)crc ^ 0xffffffffu;
}

bool hash_crc32c_is_fast(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}
#else
static uint32_t by_instruction(uint32_t before, const char *at, size_t count)
{
    return hash_crc32c_by_table(before, at, count);
}

bool hash_crc32c_is_fast(void)
{
    return false;
}
#endif

uint32_t hash_crc32c_extend(uint32_t crc, const void *bytes, size_t count)
{
    if (hash_crc32c_is_fast())
        return by_instruction(crc, bytes, count);
    return hash_crc32c_by_table(crc, bytes, count);
}

uint32_t hash_crc32c(const void *data, size_t bytes)
{
    return hash_crc32c_extend(0, data, bytes);
}

const char *hash_library(void)
{
    static char text[32];
    unsigned v = XXH_versionNumber();
    (void)snprintf(text, sizeof text, "xxHash %u.%u.%u", v / 10000, v / 100 % 100, v % 100);
    return text;
}
