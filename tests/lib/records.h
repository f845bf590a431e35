/* records.h: TFRecord files of tf.Example, made byte by byte for the tests of their reader. A
 * struct record gets features one by one (record_integers and so on); record_example writes the
 * message, and record_frame puts it between its length and checksums. */
#ifndef TESTS_LIB_RECORDS_H
#define TESTS_LIB_RECORDS_H

#include "proto/base/hash.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define RECORDS_BYTES (1u << 16)

struct record {
    uint8_t data[RECORDS_BYTES]; /* the entries of the map */
    size_t bytes;
};

static inline size_t record_varint(uint8_t *to, uint64_t value)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        to[n++] = (uint8_t)(value | 0x80);
    to[n++] = (uint8_t)value;
    return n;
}

/* Writes a member of the number with these bytes. */
static inline size_t record_part(uint8_t *to, uint32_t number, const void *data, size_t bytes)
{
    size_t n = record_varint(to, number << 3 | 2);
    n += record_varint(to + n, bytes);
    if (bytes > 0)
        memcpy(to + n, data, bytes);
    return n + bytes;
}

/* Adds a feature whose list, of this kind (1 bytes, 2 floats, 3 whole numbers), has this body. */
static inline void record_list(struct record *r, const char *name, uint32_t kind, const void *body,
                               size_t bytes)
{
    static uint8_t feature[RECORDS_BYTES], entry[RECORDS_BYTES];
    size_t n = record_part(feature, kind, body, bytes);
    size_t m = record_part(entry, 1, name, strlen(name));
    m += record_part(entry + m, 2, feature, n);
    r->bytes += record_part(r->data + r->bytes, 1, entry, m);
}

static inline void record_integers(struct record *r, const char *name, const int64_t *value,
                                   size_t count)
{
    static uint8_t packed[RECORDS_BYTES], list[RECORDS_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += record_varint(packed + n, (uint64_t)value[i]);
    record_list(r, name, 3, list, record_part(list, 1, packed, n));
}

static inline void record_floats(struct record *r, const char *name, const float *value,
                                 size_t count)
{
    static uint8_t list[RECORDS_BYTES];
    record_list(r, name, 2, list, record_part(list, 1, value, 4 * count));
}

static inline void record_texts(struct record *r, const char *name, const char *const *value,
                                size_t count)
{
    static uint8_t list[RECORDS_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += record_part(list + n, 1, value[i], strlen(value[i]));
    record_list(r, name, 1, list, n);
}

/* Writes the tf.Example, and returns its bytes. */
static inline size_t record_example(const struct record *r, uint8_t *to)
{
    return record_part(to, 1, r->data, r->bytes);
}

static inline uint32_t record_sum(const void *data, size_t bytes)
{
    uint32_t sum = hash_crc32c(data, bytes);
    return (sum >> 15 | sum << 17) + 0xa282ead8u;
}

/* Writes a record of these bytes with its length and checksums, and returns how many it takes. */
static inline size_t record_frame(uint8_t *to, const void *data, size_t bytes)
{
    uint64_t length = bytes;
    uint32_t sum;
    memcpy(to, &length, 8);
    sum = record_sum(&length, 8);
    memcpy(to + 8, &sum, 4);
    memcpy(to + 12, data, bytes);
    sum = record_sum(data, bytes);
    memcpy(to + 12 + bytes, &sum, 4);
    return bytes + 16;
}

#endif
