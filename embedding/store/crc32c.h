/* crc32c.h: the checksum that RocksDB puts on every value and block, as fast as the processor can.
 *
 * Distributions build RocksDB for any x86-64, so that its own CRC-32C is a table: 1.2 GB/s, which
 * was more than half of what writing an image or loading a checkpoint cost. Its function is a
 * public symbol that it calls through the linker's table; this module defines that very symbol in
 * our programs, so RocksDB calls it. A RocksDB without the symbol, or another processor (there
 * RocksDB has instructions of its own), takes no notice of this file. */
#ifndef EMBEDDING_STORE_CRC32C_H
#define EMBEDDING_STORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#define CRC32C_SYMBOL "_ZN7rocksdb6crc32c6ExtendEjPKcm"

/* The CRC-32C of some bytes and `bytes` (count) behind them, crc being that of the first; 0 of
 * none. Any thread. */
uint32_t crc32c_extend(uint32_t crc, const char *bytes, size_t count) __asm__(CRC32C_SYMBOL)
    __attribute__((visibility("default")));
#endif

#endif
