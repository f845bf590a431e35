/* event.h: records of an event file that TensorBoard reads. A file is a sequence of records:
 *
 *     u64 length of the payload, u32 masked CRC-32C of those eight bytes, the payload,
 *     u32 masked CRC-32C of the payload
 *
 * all little-endian; masked: rotated right by 15 bits, plus 0xa282ead8. The payload is a protobuf
 * Event (tensorboard.proto). The first record of a file gives the version of its format. Pure
 * functions, any thread. */
#ifndef PROTO_WIRE_EVENT_H
#define PROTO_WIRE_EVENT_H

#include <stddef.h>
#include <stdint.h>

#define EVENT_SCALARS_MAX 64u
#define EVENT_TAG_MAX 128u /* final NUL counted */
/* Room for the largest record of ours. */
#define EVENT_BYTES_MAX (64u + EVENT_SCALARS_MAX * (EVENT_TAG_MAX + 16u))

struct event_scalar {
    const char *tag; /* "valid/auc": charts are grouped by the part before the slash */
    double value;
};

/* Writes the first record of a file to out (EVENT_BYTES_MAX). Returns its size in bytes. */
size_t event_version(double wall_s, unsigned char *out);
/* Writes figures at a step; count at most EVENT_SCALARS_MAX. Tags longer than EVENT_TAG_MAX are
 * cut. A byte that is not printable ASCII becomes '_', because readers refuse a record with a tag
 * that is not UTF-8. */
size_t event_scalars(double wall_s, int64_t step, const struct event_scalar *scalar, uint32_t count,
                     unsigned char *out);

#endif
