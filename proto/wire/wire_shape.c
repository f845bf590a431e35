/* wire_shape.c: the shape of every message: the fields of its plain struct, made from its list in
 * wire.h, and the generated descriptor.
 *
 * 1. Field i of the plain struct is field i of the proto message, with the number i + 1, because
 *    both are made from one list. [assert: wire_shape_assert]
 * 2. The numbers of a release never change. [test: wire_numbers_stay] */
#include "proto/wire/wire_inner.h"

#include "proto/base/assert.h"
#include "proto/wire/wire.h"

#include "shoal.pb-c.h"
#include "shoal_names.pb-c.h"

#include <stddef.h>

/* ---- fields, by list ------------------------------------------------------------------------- */

#define F_U32(n) {PROTOBUF_C_TYPE_UINT32, (uint32_t)offsetof(owner, n), 0},
#define F_U64(n) {PROTOBUF_C_TYPE_UINT64, (uint32_t)offsetof(owner, n), 0},
#define F_I32(n) {PROTOBUF_C_TYPE_SINT32, (uint32_t)offsetof(owner, n), 0},
#define F_F32(n) {PROTOBUF_C_TYPE_FLOAT, (uint32_t)offsetof(owner, n), 0},
#define F_F64(n) {PROTOBUF_C_TYPE_DOUBLE, (uint32_t)offsetof(owner, n), 0},
#define F_B(n) {PROTOBUF_C_TYPE_BOOL, (uint32_t)offsetof(owner, n), 0},
#define F_STR(n, size) {PROTOBUF_C_TYPE_STRING, (uint32_t)offsetof(owner, n), size},

/* Each message has a function of its own, so that `owner` can be another struct in each. */
#define SHAPE(function, plain, LIST, descriptor)                                                   \
    static const struct shape *function(void)                                                      \
    {                                                                                              \
        typedef struct plain owner;                                                                \
        static const struct field field[] = {LIST(F_U32, F_U64, F_I32, F_F32, F_F64, F_B, F_STR)}; \
        static const struct shape shape = {&descriptor, field, sizeof field / sizeof field[0]};    \
        return &shape;                                                                             \
    }
#define X(name, number, request_frames, reply_frames)                                              \
    SHAPE(shape_##name, wire_##name, WIRE_##name, PB_##name)                                       \
    SHAPE(shape_##name##_REPLY, wire_##name##_reply, WIRE_##name##_REPLY, PB_##name##_REPLY)
WIRE_MAP(X)
#undef X

/* ---- by type --------------------------------------------------------------------------------- */

const struct shape *wire_shape_of(uint32_t type, bool reply, uint32_t *frames)
{
    switch (type) {
#define X(name, number, request_frames, reply_frames)                                              \
    case number:                                                                                   \
        *frames = reply ? (reply_frames) : (request_frames);                                       \
        return reply ? shape_##name##_REPLY() : shape_##name();
        WIRE_MAP(X)
#undef X
    default:
        return NULL;
    }
}

uint32_t wire_shape_since(uint32_t type)
{
    switch (type) {
#define X(name, version)                                                                           \
    case WIRE_TYPE_##name:                                                                         \
        return version;
        WIRE_SINCE(X)
#undef X
    default:
        return WIRE_OLDEST;
    }
}

const char *wire_type_name(enum wire_type t)
{
    switch (t) {
#define X(name, number, request_frames, reply_frames)                                              \
    case WIRE_TYPE_##name:                                                                         \
        return #name;
        WIRE_MAP(X)
#undef X
    case WIRE_TYPE_NONE:
        break;
    }
    return "unknown";
}

void wire_shape_assert(const struct shape *s)
{
    SHOAL_ASSERT(s->proto->n_fields == s->field_count && /* 1 */
                 s->proto->sizeof_message <= BODY_STRUCT_BYTES);
    for (uint32_t i = 0; i < s->field_count; i++)
        SHOAL_VERIFY_ASSERT(s->proto->fields[i].type == s->field[i].type &&
                            s->proto->fields[i].id == i + 1);
}
