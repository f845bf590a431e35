/* tensor.c: types, and elements of arrays; tensor.h. */
#include "proto/job/tensor.h"

#include "proto/base/assert.h"
#include "proto/job/half.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t bytes;
} types[TENSOR_TYPES] = {
    [TENSOR_F32] = {"F32", 4},   [TENSOR_F64] = {"F64", 8}, [TENSOR_F16] = {"F16", 2},
    [TENSOR_BF16] = {"BF16", 2}, [TENSOR_U64] = {"U64", 8}, [TENSOR_I64] = {"I64", 8},
    [TENSOR_U32] = {"U32", 4},   [TENSOR_I32] = {"I32", 4}};

const char *tensor_type_name(enum tensor_type t)
{
    SHOAL_ASSERT(t < TENSOR_TYPES);
    return types[t].name;
}

uint32_t tensor_type_bytes(enum tensor_type t)
{
    SHOAL_ASSERT(t < TENSOR_TYPES);
    return types[t].bytes;
}

void tensor_list_free(struct tensor_list *l)
{
    free(l->item);
    *l = (struct tensor_list){.item = NULL};
}

const struct tensor *tensor_find(const struct tensor_list *l, const char *name)
{
    for (uint32_t i = 0; i < l->count; i++)
        if (strcmp(l->item[i].name, name) == 0)
            return &l->item[i];
    return NULL;
}

static float float_at(enum tensor_type type, const unsigned char *at)
{
    uint16_t half;
    double wide;
    float x;
    switch (type) {
    case TENSOR_F16:
        memcpy(&half, at, sizeof half);
        return half_from_fp16(half);
    case TENSOR_BF16:
        memcpy(&half, at, sizeof half);
        return half_from_bf16(half);
    case TENSOR_F64:
        memcpy(&wide, at, sizeof wide);
        return (float)wide;
    default:
        memcpy(&x, at, sizeof x);
        return x;
    }
}

void tensor_floats(const struct tensor *t, const void *file, uint64_t from, uint64_t count,
                   float *out)
{
    const uint32_t each = tensor_type_bytes(t->type);
    const unsigned char *at = (const unsigned char *)file + t->at + from * each;
    SHOAL_ASSERT(!tensor_whole(t->type));
    SHOAL_ASSERT(from <= t->elements && count <= t->elements - from);
    if (t->type == TENSOR_F32) {
        memcpy(out, at, count * sizeof *out);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        out[i] = float_at(t->type, at + i * each);
}

uint64_t tensor_integer(const struct tensor *t, const void *file, uint64_t at, bool *negative)
{
    const unsigned char *from =
        (const unsigned char *)file + t->at + at * tensor_type_bytes(t->type);
    uint64_t wide;
    uint32_t narrow;
    SHOAL_ASSERT(tensor_whole(t->type) && at < t->elements);
    *negative = false;
    if (tensor_type_bytes(t->type) == sizeof wide) {
        memcpy(&wide, from, sizeof wide);
        *negative = t->type == TENSOR_I64 && wide >> 63 != 0;
        return wide;
    }
    memcpy(&narrow, from, sizeof narrow);
    if (t->type == TENSOR_I32) {
        *negative = narrow >> 31 != 0;
        return (uint64_t)(int64_t)(int32_t)narrow;
    }
    return narrow;
}
