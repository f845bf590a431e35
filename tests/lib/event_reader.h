/* event_reader.h: reads the files that proto/wire/event.h writes, by the rules of the format. It
 * shares only the checksum with the writer, and checks lengths and both sums before it uses any
 * data. */
#ifndef TESTS_LIB_EVENT_READER_H
#define TESTS_LIB_EVENT_READER_H

#include "proto/base/hash.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct event_read {
    double wall_s;
    int64_t step;
    char version[64];
    uint32_t count;
    char tag[64][160];
    float value[64];
};

static inline uint64_t reader_number(const unsigned char *p, int bytes)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++)
        x |= (uint64_t)p[i] << 8 * i;
    return x;
}

static inline bool reader_sum_is(const unsigned char *data, size_t bytes, const unsigned char *sum)
{
    uint32_t rotated = (uint32_t)reader_number(sum, 4) - 0xa282ead8u;
    return (rotated >> 17 | rotated << 15) == hash_crc32c(data, bytes);
}

static inline bool reader_varint(const unsigned char **p, const unsigned char *end, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && *p < end; shift += 7) {
        unsigned char b = *(*p)++;
        *out |= (uint64_t)(b & 127) << shift;
        if (b < 128)
            return true;
    }
    return false;
}

/* Reads one field: its number and wire type in *key, a number or length in *number, and at *at the
 * bytes of a length or of a fixed number. */
static inline bool reader_field(const unsigned char **p, const unsigned char *end, uint64_t *key,
                                uint64_t *number, const unsigned char **at)
{
    *at = *p;
    if (!reader_varint(p, end, key))
        return false;
    uint64_t type = *key & 7, bytes = type == 1 ? 8 : type == 5 ? 4 : 0;
    if (type == 0)
        return reader_varint(p, end, number);
    if (type == 2 && !reader_varint(p, end, &bytes))
        return false;
    if ((type != 1 && type != 2 && type != 5) || bytes > (uint64_t)(end - *p))
        return false;
    *at = *p;
    *p += bytes;
    *number = bytes;
    return true;
}

static inline bool reader_value(const unsigned char *p, const unsigned char *end,
                                struct event_read *out)
{
    uint64_t key, number;
    const unsigned char *at;
    uint32_t n = out->count++;
    if (n >= 64)
        return false;
    while (p < end) {
        if (!reader_field(&p, end, &key, &number, &at))
            return false;
        if (key == (1 << 3 | 2) && number < sizeof out->tag[0])
            memcpy(out->tag[n], at, number);
        else if (key == (2 << 3 | 5))
            memcpy(&out->value[n], at, 4);
        else
            return false;
    }
    return true;
}

/* Reads the record at *p and advances *p; false: the file ends within the record, or it is
 * damaged. */
static inline bool event_read(const unsigned char **p, const unsigned char *end,
                              struct event_read *out)
{
    uint64_t key, number;
    const unsigned char *at;
    memset(out, 0, sizeof *out);
    if (end - *p < 16 || !reader_sum_is(*p, 8, *p + 8))
        return false;
    uint64_t bytes = reader_number(*p, 8);
    if (bytes > (uint64_t)(end - *p) - 16 || !reader_sum_is(*p + 12, bytes, *p + 12 + bytes))
        return false;
    const unsigned char *q = *p + 12, *stop = q + bytes;
    *p = stop + 4;
    while (q < stop) {
        if (!reader_field(&q, stop, &key, &number, &at))
            return false;
        if (key == (1 << 3 | 1))
            memcpy(&out->wall_s, at, 8);
        else if (key == 2 << 3)
            out->step = (int64_t)number;
        else if (key == (3 << 3 | 2) && number < sizeof out->version)
            memcpy(out->version, at, number);
        else if (key == (5 << 3 | 2))
            while (at < q) {
                uint64_t length;
                const unsigned char *value;
                if (!reader_field(&at, q, &key, &length, &value) || key != (1 << 3 | 2) ||
                    !reader_value(value, value + length, out))
                    return false;
            }
        else
            return false;
    }
    return true;
}

#endif
