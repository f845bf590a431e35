/* crc32c.h: CRC-32C (Castagnoli; RFC 3720, appendix B.4), the checksum of TensorBoard's records.
 * Small, not fast: 4 bits a step. */
#ifndef PROTO_BASE_CRC32C_H
#define PROTO_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *data, size_t bytes);

#endif
