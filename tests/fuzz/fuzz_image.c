/* fuzz_image.c: any bytes as a tablet's image, as they are or with valid length, schema and
 * checksum. First byte: bit 0: mend; bit 1: for a table whose tablets have more than rows (clock,
 * waiting keys, sketch, names); bit 2: for 16-bit weights; bit 3: for a schema that has changed
 * since. A refused image changes nothing. An accepted one is written as it was read (one of an
 * older schema: always in the same new form), and its table can be used. */
#include "tests/fuzz/fuzz_file.h"

#include "embedding/rows/image.h"
#include "embedding/table.h"
#include "proto/base/hash.h"

enum { LIVING = 1, HALF = 2, CHANGED = 4, KINDS = 8 };
static struct table *table_of[KINDS];
static uint64_t digest_of[KINDS]; /* digest of its first schema, as the table writes it */

static struct table_schema schema_of(unsigned kind)
{
    bool living = (kind & LIVING) != 0;
    struct table_schema s = {.name = "emb",
                             .width = 2,
                             .tablet_bits = 1,
                             .seed = 1,
                             .init = {INIT_UNIFORM, 0.01f},
                             .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.05f, .eps = 1e-8f}};
    if (living)
        s.rules = (struct row_rules){.stats = 1,
                                     .score_show = 0.1f,
                                     .score_click = 1,
                                     .admit_kind = ADMIT_COUNT,
                                     .admit_threshold = 3,
                                     .admit_sketch = 16,
                                     .admit_waiting = 8,
                                     .age_every = 3600,
                                     .age_decay = 0.9f,
                                     .age_score = 0.05f,
                                     .age_capacity = 4};
    if (living) {
        s.field_rule_count = 1;
        s.field_rule[0] = (struct field_rule){
            .field = 2, .has = FIELD_HAS_ADMIT, .admit_kind = ADMIT_SCORE, .admit_threshold = 1};
    }
    s.values = (kind & HALF) != 0 ? VALUES_FP16 : VALUES_FP32;
    return s;
}

static void table_prepare(unsigned kind)
{
    struct table_schema s = schema_of(kind);
    struct arena *arena;
    struct image_header h;
    struct err e;
    uint8_t image[256];
    SHOAL_ASSERT(arena_new(&arena) == 0 && table_new(&s, arena, &table_of[kind], &e) == 0);
    SHOAL_ASSERT(table_image_bytes(table_of[kind], 0) <= sizeof image);
    table_image_write(table_of[kind], 0, image);
    memcpy(&h, image, sizeof h);
    digest_of[kind] = h.schema_digest;
    s.optimizer.lr = 0.1f;
    if ((kind & LIVING) != 0) { /* longer generations and another sketch than there is room for */
        s.rules.admit_sketch = 32;
        s.rules.admit_waiting = 2;
    }
    if ((kind & CHANGED) != 0)
        table_change(table_of[kind], &s, 7);
}

/* Pushes to the accepted rows, ages them, and names their keys. */
static void live_on(struct table *table)
{
    static const uint64_t keys[] = {0x0001000000000001, 0x0001000000000002, 0x0002000000000003,
                                    0x0002000000000004};
    static const float values[16] = {0.1f, 0.2f, 2, 1, 0.1f, 0.2f, 1, 0,
                                     0.1f, 0.2f, 3, 0, 0.1f, 0.2f, 1, 0};
    struct push_args args = {
        .lr_scale = 1, .batch = 1, .step = 1, .undo_clock = 7, .tablet_count = 2};
    uint64_t changed;
    for (uint32_t i = 0; i < 4; i++) {
        args.event_time = 1700000000 + i * 5000;
        SHOAL_ASSERT(table_push(table, keys, values, 4, &args) == 0);
        SHOAL_ASSERT(table_keys(table, (enum key_action)i, keys + i, 1, NULL, &changed) == 0);
    }
}

static void image_mend(uint8_t *at, size_t size, unsigned kind)
{
    struct image_header h;
    uint64_t sum;
    if (size < sizeof h + sizeof sum)
        return;
    memcpy(&h, at, sizeof h);
    h.magic = IMAGE_MAGIC;
    h.version = IMAGE_VERSION;
    h.schema_digest = digest_of[kind];
    h.bytes = size;
    memcpy(at, &h, sizeof h);
    sum = hash_bytes(at, size - sizeof sum, 0);
    memcpy(at + size - sizeof sum, &sum, sizeof sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    uint64_t before, after;
    uint8_t mode = fuzz_mode(&data, &size);
    bool mend = (mode & 1) != 0, living = (mode & 2) != 0;
    unsigned kind = mode >> 1 & (KINDS - 1);
    if (table_of[kind] == NULL)
        table_prepare(kind);
    struct table *table = table_of[kind];
    uint8_t *copy = fuzz_copy(data, size);
    if (mend)
        image_mend(copy, size, kind);
    SHOAL_ASSERT(table_digest(table, 0, &before) == 0);
    if (table_image_read(table, 0, copy, size, &e) == 0) {
        size_t bytes = table_image_bytes(table, 0);
        if ((kind & CHANGED) == 0 ? bytes != size : bytes > size)
            abort();
        uint8_t *again = malloc(bytes);
        SHOAL_ASSERT(again != NULL && table_digest(table, 0, &before) == 0);
        table_image_write(table, 0, again);
        if (table_image_read(table, 0, again, bytes, &e) != 0)
            abort();
        free(again);
        if (living) {
            live_on(table);
            table_clear(table, 1);
        }
        SHOAL_ASSERT(table_digest(table, 0, &before) == 0);
    }
    SHOAL_ASSERT(table_digest(table, 0, &after) == 0);
    if (before != after)
        abort();
    free(copy);
    return 0;
}
