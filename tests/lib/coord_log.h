/* coord_log.h: writes records of state.log as release 0.2.0 did (server/coord/store/old_log.h), for
 * tests that read them. */
#ifndef TESTS_LIB_COORD_LOG_H
#define TESTS_LIB_COORD_LOG_H

#include "proto/base/hash.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define COORD_LOG_MAGIC 0x53434f52u

struct coord_log_record { /* followed by key and value */
    uint32_t magic, key_bytes, value_bytes, zero;
    uint64_t checksum;
};

/* Sets magic and checksum. */
static inline void coord_log_mend(unsigned char *at, size_t body)
{
    struct coord_log_record r;
    memcpy(&r, at, sizeof r);
    r.magic = COORD_LOG_MAGIC;
    r.checksum =
        hash_bytes(at + sizeof r, body, ((uint64_t)r.key_bytes << 32 | r.value_bytes) ^ r.magic);
    memcpy(at, &r, sizeof r);
}

/* Writes a record and returns its length; value NULL removes the key. */
static inline size_t coord_log_put(unsigned char *at, const char *key, const void *value,
                                   size_t bytes)
{
    struct coord_log_record r = {.key_bytes = (uint32_t)strlen(key),
                                 .value_bytes = value == NULL ? UINT32_MAX : (uint32_t)bytes};
    memcpy(at, &r, sizeof r);
    memcpy(at + sizeof r, key, r.key_bytes);
    if (bytes > 0)
        memcpy(at + sizeof r + r.key_bytes, value, bytes);
    coord_log_mend(at, r.key_bytes + bytes);
    return sizeof r + r.key_bytes + bytes;
}

#endif
