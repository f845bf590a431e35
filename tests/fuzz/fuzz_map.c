/* fuzz_map.c: any bytes as the coordinator's map in a worker: shards and tablets (two bytes each),
 * then the shard of each tablet, then the endpoints. First byte: bit 0: each shard number is
 * reduced below the count. */
#include "tests/fuzz/fuzz_file.h"

#include "worker/train/map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct map kept; /* from an earlier input: a refused one leaves it unchanged */
    struct wire_MAP_GET_reply reply = {.map_epoch = 1};
    struct err e = {0};
    uint16_t number[2] = {0};
    bool mend = (fuzz_mode(&data, &size) & 1) != 0;
    if (size < sizeof number)
        return 0;
    memcpy(number, data, sizeof number);
    data += sizeof number;
    size -= sizeof number;
    reply.shards = number[0];
    reply.tablet_count = number[1];
    size_t bytes =
        mend || size < 2u * number[1] ? (size < 2u * number[1] ? size : 2u * number[1]) : size / 2;
    uint8_t *shards = fuzz_copy(data, bytes), *text = fuzz_copy(data + bytes, size - bytes);
    for (size_t i = 0; mend && number[0] > 0 && i + 1 < bytes; i += 2) {
        uint16_t shard;
        memcpy(&shard, shards + i, 2);
        shard = (uint16_t)(shard % number[0]);
        memcpy(shards + i, &shard, 2);
    }
    struct frame of_tablets = {shards, bytes, NULL, NULL},
                 of_shards = {text, size - bytes, NULL, NULL};
    uint64_t epoch = kept.epoch;
    if (map_take(&kept, &reply, &of_tablets, &of_shards, &e) != 0) {
        if (e.text[0] == '\0' || kept.epoch != epoch)
            abort();
    } else {
        uint32_t counted = 0;
        while (counted < kept.tablet_count)
            counted += map_stretch(&kept, counted, kept.tablet_count);
        if (counted != kept.tablet_count || !map_same(&kept, &kept))
            abort();
        (void)map_complete(&kept);
    }
    free(shards);
    free(text);
    return 0;
}
