/* rocks_crc32c.h: RocksDB's CRC-32C replaced by ours.
 *
 * RocksDB puts a CRC-32C on every blob, whatever is chosen for blocks, and images are blobs.
 * Distributions build it for any x86-64, so that its own is a table: with it, writing images takes
 * 1.3 to 1.5 times the processor's time and reading them 2.4 to 2.6 times. Its function is a public
 * symbol that it calls through the linker's table; this module defines that very symbol in our
 * programs, so RocksDB calls it. A RocksDB without the symbol, or another processor (there RocksDB
 * has instructions of its own), takes no notice. `shoal --version` says what is in use. */
#ifndef EMBEDDING_STORE_ROCKS_CRC32C_H
#define EMBEDDING_STORE_ROCKS_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#define ROCKS_CRC32C_SYMBOL "_ZN7rocksdb6crc32c6ExtendEjPKcm"

/* hash_crc32c_extend; on a processor that is slow at it RocksDB's own. */
uint32_t rocks_crc32c_extend(uint32_t crc, const char *bytes,
                             size_t count) __asm__(ROCKS_CRC32C_SYMBOL)
    __attribute__((visibility("default")));
#endif

/* How the store's files are checked, in words. */
const char *rocks_crc32c_words(void);
/* "RocksDB 7.8.3", by the name of the file that was loaded: its C interface does not tell. */
const char *rocks_crc32c_library(void);

#endif
