/* hash.h: checksums. The one door to xxhash. */
#ifndef PROTO_BASE_HASH_H
#define PROTO_BASE_HASH_H

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

#endif
