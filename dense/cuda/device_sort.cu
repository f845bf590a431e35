/* device_sort.cu: sorting on the card: CUB's radix sort, which keeps the order of equal keys. */
#include "dense/cuda/device_cuda.h"

#include <cub/device/device_radix_sort.cuh>

static int key_bits(uint32_t key_end)
{
    int bits = 1;
    while (bits < 32 && key_end - 1 >> bits != 0)
        bits++;
    return bits;
}

size_t device_sort_bytes(struct stream *s, uint32_t count, uint32_t key_end)
{
    size_t bytes = 0;
    const uint32_t *in = NULL;
    uint32_t *out = NULL;
    if (!device_enter(s) ||
        !CUDA(s, cub::DeviceRadixSort::SortPairs(NULL, bytes, in, out, in, out, count, 0,
                                                 key_bits(key_end), s->device->stream)))
        return 0;
    return bytes;
}

void device_sort(struct stream *s, uint32_t count, uint32_t key_end, const uint32_t *key,
                 const uint32_t *value, uint32_t *key_out, uint32_t *value_out, void *scratch,
                 size_t scratch_bytes)
{
    if (scratch == NULL || !device_enter(s))
        return;
    if (cuda_exact) {
        device_zero(s, scratch, scratch_bytes);
        device_zero(s, key_out, count * sizeof *key_out);
        device_zero(s, value_out, count * sizeof *value_out);
    }
    CUDA(s, cub::DeviceRadixSort::SortPairs(scratch, scratch_bytes, key, key_out, value, value_out,
                                            count, 0, key_bits(key_end), s->device->stream));
}
