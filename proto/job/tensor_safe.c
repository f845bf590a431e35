/* tensor_safe.c: the head of a safetensors file: its length, u64, and as many bytes of JSON:
 * {"__metadata__": {TEXT: TEXT}, NAME: {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}}.
 * Offsets count from the end of the head. The arrays lie one behind the other and fill the file.
 * https://github.com/huggingface/safetensors */
#include "proto/base/json.h"
#include "proto/job/tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int malformed(const char *name, const char *what, struct err *e)
{
    return err_set(e, SHOAL_E_DATA, "its head is malformed: %.100s: %s", name, what);
}

static int type_read(const struct json *j, struct tensor *t, struct err *e)
{
    const char *name = json_as_string(json_get(j, "dtype"), "");
    for (uint32_t i = 0; i < TENSOR_TYPES; i++)
        if (strcmp(tensor_type_name((enum tensor_type)i), name) == 0) {
            t->type = (enum tensor_type)i;
            return 0;
        }
    return err_set(e, SHOAL_E_DATA,
                   "%.100s is of type %.20s: F16, BF16, F32, F64, U32, I32, U64 and I64 are read",
                   t->name, name);
}

/* A whole number; -1: it is none. */
static int64_t whole(const struct json *j)
{
    const int64_t n = json_as_int(j, -1);
    return (double)n == json_as_number(j, -1) ? n : -1;
}

static int shape_read(const struct json *j, struct tensor *t, struct err *e)
{
    const struct json *shape = json_get(j, "shape");
    t->rank = (uint32_t)json_count(shape);
    t->elements = 1;
    if (json_absent(shape) || json_count(shape) > TENSOR_RANK)
        return malformed(t->name, "shape", e);
    for (uint32_t i = 0; i < t->rank; i++) {
        const int64_t n = whole(json_array_at(shape, i));
        if (n < 0 || (n > 0 && t->elements > (UINT64_C(1) << 56) / (uint64_t)n))
            return malformed(t->name, "shape", e);
        t->shape[i] = (uint64_t)n;
        t->elements *= (uint64_t)n;
    }
    return 0;
}

static int item_read(const struct json *j, uint64_t data, struct tensor *t, struct err *e)
{
    const struct json *offsets = json_get(j, "data_offsets");
    const int64_t begin = whole(json_array_at(offsets, 0)), end = whole(json_array_at(offsets, 1));
    int rc = type_read(j, t, e);
    if (rc == 0)
        rc = shape_read(j, t, e);
    if (rc != 0)
        return rc;
    if (json_count(offsets) != 2 || begin < 0 || end < begin || (uint64_t)end > data)
        return malformed(t->name, "data_offsets", e);
    if ((uint64_t)(end - begin) != t->elements * tensor_type_bytes(t->type))
        return malformed(t->name, "its shape and its data_offsets differ", e);
    t->at = (uint64_t)begin;
    return 0;
}

static int metadata_read(const struct json *j, struct tensor_list *out, struct err *e)
{
    for (size_t i = 0; i < json_members(j); i++)
        if (json_as_string(json_member_at(j, i), NULL) == NULL)
            return malformed("__metadata__", "its members are texts", e);
    out->shoal = strcmp(json_get_string(j, "shoal_export", ""), "1") == 0;
    return 0;
}

static int items_read(const struct json *j, uint64_t data, struct tensor_list *out, struct err *e)
{
    const size_t members = json_members(j);
    int rc = 0;
    if (members > TENSOR_COUNT)
        return err_set(e, SHOAL_E_TOO_BIG, "it has %zu arrays, at most %u", members, TENSOR_COUNT);
    out->item = calloc(members + 1, sizeof *out->item);
    if (out->item == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %zu arrays", members);
    for (size_t i = 0; i < members && rc == 0; i++) {
        const char *name = json_member_name(j, i);
        const struct json *of = json_member_at(j, i);
        struct tensor *t = &out->item[out->count];
        if (strcmp(name, "__metadata__") == 0) {
            rc = metadata_read(of, out, e);
            continue;
        }
        if (strlen(name) >= TENSOR_NAME)
            return malformed(name, "a name has at most 255 bytes", e);
        memcpy(t->name, name, strlen(name) + 1);
        rc = item_read(of, data, t, e);
        out->count += rc == 0;
    }
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const struct tensor *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->elements > y->elements) - (x->elements < y->elements); /* empty ones first */
}

/* The arrays fill the data. */
static int places_check(struct tensor_list *l, uint64_t data, struct err *e)
{
    uint64_t next = 0;
    qsort(l->item, l->count, sizeof *l->item, by_place);
    for (uint32_t i = 0; i < l->count; i++) {
        const struct tensor *t = &l->item[i];
        if (t->at != next)
            return malformed(t->name, "it overlaps another array, or a hole is before it", e);
        next += t->elements * tensor_type_bytes(t->type);
    }
    if (next == data)
        return 0;
    return err_set(e, SHOAL_E_DATA,
                   "its arrays have %" PRIu64 " bytes, and %" PRIu64 " follow the head", next,
                   data);
}

int tensor_safe(const void *file, uint64_t bytes, struct tensor_list *out, struct err *e)
{
    const unsigned char *at = file;
    uint64_t head = 0;
    *out = (struct tensor_list){.item = NULL};
    for (uint32_t i = 0; i < 8 && bytes >= 8; i++)
        head |= (uint64_t)at[i] << 8 * i;
    if (bytes < 10 || head > bytes - 8 || head < 2 || at[8] != '{')
        return err_set(e, SHOAL_E_DATA, "it is no safetensors file, or is cut short");
    if (head > TENSOR_SAFE_HEAD)
        return err_set(e, SHOAL_E_TOO_BIG, "its head has %" PRIu64 " bytes, at most %u are read",
                       head, TENSOR_SAFE_HEAD);
    struct json *j = NULL;
    const uint64_t data = bytes - 8 - head;
    int rc = json_parse((const char *)at + 8, head, &j, e);
    if (rc == 0)
        rc = items_read(j, data, out, e);
    json_free(j);
    if (rc == 0)
        rc = places_check(out, data, e);
    for (uint32_t i = 0; i < out->count; i++)
        out->item[i].at += 8 + head;
    if (rc != 0)
        tensor_list_free(out);
    return rc;
}
