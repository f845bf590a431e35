/* fuzz_image.c: any bytes as a tablet's image, as they are and with length, schema and checksum made right.
 * First byte: bit 0: mend. A refused image changes nothing, a taken one is written as it was read. */
#include "tests/fuzz/fuzz_file.h"

#include "embedding/image.h"
#include "embedding/table.h"
#include "proto/base/hash.h"

static struct table *table;
static uint64_t schema_digest; /* as the table writes it */

static void table_prepare(void)
{
    static const struct table_schema s = {.name = "emb",
                                          .width = 2,
                                          .tablet_bits = 1,
                                          .seed = 1,
                                          .init = {INIT_UNIFORM, 0.01f},
                                          .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.05f, .eps = 1e-8f}};
    struct arena *arena;
    struct image_header h;
    struct err e;
    uint8_t image[256];
    SHOAL_ASSERT(arena_new(&arena) == 0 && table_new(&s, arena, &table, &e) == 0);
    SHOAL_ASSERT(table_image_bytes(table, 0) <= sizeof image);
    table_image_write(table, 0, image);
    memcpy(&h, image, sizeof h);
    schema_digest = h.schema_digest;
}

static void image_mend(uint8_t *at, size_t size)
{
    struct image_header h;
    uint64_t sum;
    if (size < sizeof h + sizeof sum)
        return;
    memcpy(&h, at, sizeof h);
    h.magic = IMAGE_MAGIC;
    h.version = IMAGE_VERSION;
    h.schema_digest = schema_digest;
    h.bytes = size;
    memcpy(at, &h, sizeof h);
    sum = hash_bytes(at, size - sizeof sum, 0);
    memcpy(at + size - sizeof sum, &sum, sizeof sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    uint64_t before, after;
    if (table == NULL)
        table_prepare();
    bool mend = (fuzz_mode(&data, &size) & 1) != 0;
    uint8_t *copy = fuzz_copy(data, size);
    if (mend)
        image_mend(copy, size);
    SHOAL_ASSERT(table_digest(table, 0, &before) == 0);
    if (table_image_read(table, 0, copy, size, &e) == 0) {
        size_t bytes = table_image_bytes(table, 0);
        if (bytes != size)
            abort();
        uint8_t *again = malloc(bytes);
        SHOAL_ASSERT(again != NULL && table_digest(table, 0, &before) == 0);
        table_image_write(table, 0, again);
        if (table_image_read(table, 0, again, bytes, &e) != 0)
            abort();
        free(again);
    }
    SHOAL_ASSERT(table_digest(table, 0, &after) == 0);
    if (before != after)
        abort();
    free(copy);
    return 0;
}
