/* crc32c.c: four bits a step through a table of the sixteen remainders of the reflected polynomial
 * 0x82F63B78. */
#include "proto/base/crc32c.h"

static const uint32_t remainder_of[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};

uint32_t crc32c(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint32_t c = UINT32_MAX;
    for (size_t i = 0; i < bytes; i++) {
        c ^= p[i];
        c = remainder_of[c & 15] ^ (c >> 4);
        c = remainder_of[c & 15] ^ (c >> 4);
    }
    return c ^ UINT32_MAX;
}
