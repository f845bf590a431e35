/* fuzz_safetensors.c: any bytes as a safetensors file: its arrays lie in the file and fill it. */
#include "proto/job/tensor.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void item_check(const struct tensor *t, const uint8_t *data, uint64_t *next, size_t size)
{
    const uint64_t bytes = t->elements * tensor_type_bytes(t->type);
    bool negative;
    float x;
    if (t->at != *next || t->at > size || bytes > size - t->at)
        abort();
    for (uint64_t i = 0; i < t->elements; i++)
        if (tensor_whole(t->type))
            (void)tensor_integer(t, data, i, &negative);
        else
            tensor_floats(t, data, i, 1, &x);
    *next += bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tensor_list l;
    struct err e;
    if (tensor_safe(data, size, &l, &e) != 0)
        return 0;
    uint64_t next = l.count > 0 ? l.item[0].at : size;
    for (uint32_t i = 0; i < l.count; i++)
        item_check(&l.item[i], data, &next, size);
    if (next != size)
        abort();
    tensor_list_free(&l);
    return 0;
}
