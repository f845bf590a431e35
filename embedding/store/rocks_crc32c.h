/* rocks_crc32c.h: replaces RocksDB's CRC-32C.
 *
 * RocksDB puts a CRC-32C on every blob, whatever checksum blocks have, and images are blobs.
 * Distributions build it for any x86-64, so its own version uses a table: writing images then takes
 * 1.3 to 1.5 times the CPU time, reading them 2.4 to 2.6 times. RocksDB calls its function through
 * the linker's table as a public symbol, so a definition of that symbol in our programs takes its
 * place. A RocksDB without the symbol, or on another processor (where it has instructions of its
 * own), is not affected. `shoal --version` prints the version in use. */
#ifndef EMBEDDING_STORE_ROCKS_CRC32C_H
#define EMBEDDING_STORE_ROCKS_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#define ROCKS_CRC32C_SYMBOL "_ZN7rocksdb6crc32c6ExtendEjPKcm"

/* hash_crc32c_extend; RocksDB's own where the processor has no instruction for it. */
uint32_t rocks_crc32c_extend(uint32_t crc, const char *bytes,
                             size_t count) __asm__(ROCKS_CRC32C_SYMBOL)
    __attribute__((visibility("default")));
#endif

/* The checksum of the store's files, in words. */
const char *rocks_crc32c_words(void);
/* "RocksDB 7.8.3", from the name of the loaded file: its C interface has no version. */
const char *rocks_crc32c_library(void);

#endif
