/* hash.h: checksums. Only hash.c includes xxhash. */
#ifndef PROTO_BASE_HASH_H
#define PROTO_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const void *data, size_t bytes, uint64_t seed); /* XXH3, 64 bits */

/* A running XXH3 over several pieces. */
struct hash_stream; /* opaque; owned by the caller of hash_stream_new */
struct hash_stream *hash_stream_new(void);
void hash_stream_reset(struct hash_stream *h, uint64_t seed);
void hash_stream_add(struct hash_stream *h, const void *data, size_t bytes);
uint64_t hash_stream_value(const struct hash_stream *h);
void hash_stream_free(struct hash_stream *h);

/* CRC-32C (Castagnoli; RFC 3720, appendix B.4), the checksum of TensorBoard's records and
 * of RocksDB's blobs. Any thread. */
uint32_t hash_crc32c(const void *data, size_t bytes);
/* The checksum of some bytes and of `bytes` (count) that follow them; crc is that of the first
 * ones, 0 when there are none. */
uint32_t hash_crc32c_extend(uint32_t crc, const void *bytes, size_t count);
/* The same, portable: 4 bits a step. */
uint32_t hash_crc32c_by_table(uint32_t crc, const void *bytes, size_t count);
/* True when this processor has instructions for it. */
bool hash_crc32c_is_fast(void);

/* "xxHash 0.8.1" */
const char *hash_library(void);

#endif
