/* fuzz_npy.c: any bytes as an npy file: what is read lies in the file. */
#include "proto/job/tensor.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tensor t;
    struct err e;
    bool negative;
    float x;
    if (tensor_npy(data, size, &t, &e) != 0)
        return 0;
    if (t.rank > TENSOR_RANK || t.at > size ||
        t.elements * tensor_type_bytes(t.type) != size - t.at)
        abort();
    for (uint64_t i = 0; i < t.elements; i++)
        if (tensor_whole(t.type))
            (void)tensor_integer(&t, data, i, &negative);
        else
            tensor_floats(&t, data, i, 1, &x);
    return 0;
}
