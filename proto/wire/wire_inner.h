/* wire_inner.h: the shape of a message, for wire.c and wire_shape.c. It includes protobuf-c. */
#ifndef PROTO_WIRE_WIRE_INNER_H
#define PROTO_WIRE_WIRE_INNER_H

#include <protobuf-c/protobuf-c.h>

#include <stdbool.h>
#include <stdint.h>

enum { BODY_STRUCT_BYTES = 2048 }; /* the largest generated struct; asserted */

struct field {
    ProtobufCType type;
    uint32_t offset;   /* in the plain struct */
    uint32_t capacity; /* capacity of a string, NUL counted */
};

struct shape { /* the shape of one message, request or reply */
    const ProtobufCMessageDescriptor *proto;
    const struct field *field;
    uint32_t field_count;
};

/* The shape and raw frame count of a type; NULL for a type that is not in the list. */
const struct shape *wire_shape_of(uint32_t type, bool reply, uint32_t *frames);
/* The oldest release that takes a message of this type: WIRE_SINCE's, else WIRE_OLDEST. */
uint32_t wire_shape_since(uint32_t type);
/* Asserts that the list in wire.h and the proto file agree; the full check only with
 * SHOAL_VERIFY. */
void wire_shape_assert(const struct shape *s);

#endif
