/* crc32c.h: CRC-32C (Castagnoli; RFC 3720, appendix B.4), the checksum of TensorBoard's records and
 * of RocksDB's blobs. Any thread. */
#ifndef PROTO_BASE_CRC32C_H
#define PROTO_BASE_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *data, size_t bytes);
/* Of some bytes and `bytes` (count) behind them, crc being that of the first; 0 of none. */
uint32_t crc32c_extend(uint32_t crc, const void *bytes, size_t count);
/* The same on any processor, 4 bits a step. */
uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t count);
/* Whether this processor has the instructions for it. */
bool crc32c_is_fast(void);

#endif
