/* fuzz_record.c: any bytes as a journal record, as they are or with a valid checksum; and as a
 * table's schema. First byte: bit 0: make it a valid record of segment 1; bit 1: make it a schema
 * of names and values with a valid length. */
#include "tests/fuzz/fuzz_file.h"

#include "embedding/journal/record.h"
#include "embedding/journal/record_schema.h"
#include "proto/base/minmax.h"

static void record_mend(uint8_t *at, size_t size)
{
    struct record_header h = {0};
    memcpy(&h, at, MIN(size, sizeof h));
    if (h.magic != RECORD_MAGIC_0_2_0)
        h.magic = RECORD_MAGIC;
    size_t head = record_head_bytes(&h);
    if (size < head)
        return;
    h.segment = 1;
    h.sequence += h.sequence == 0;
    h.kind = (uint16_t)(RECORD_PUSH + (h.kind - 1u) % (RECORD_KINDS - 1));
    h.payload_bytes = (uint32_t)(size - head);
    if (record_has_keys(h.kind))
        h.key_count = MIN(h.key_count, h.payload_bytes / (uint32_t)sizeof(uint64_t));
    memcpy(at, &h, head);
    record_reseal(at);
}

static void schema_mend(uint8_t *at, size_t size)
{
    const uint32_t bytes = (uint32_t)size;
    if (size < 8)
        return;
    at[0] = 0;
    at[1] = 2;
    memcpy(at + 4, &bytes, sizeof bytes);
}

/* An accepted schema is valid, and comes back when it is written and read again. */
static void schema_again(const struct table_schema *s)
{
    static uint8_t out[RECORD_SCHEMA_BYTES];
    struct table_schema again;
    size_t bytes = record_schema_bytes(s);
    if (schema_check(s, NULL) != 0 || bytes > sizeof out)
        abort();
    record_schema_write(s, out);
    if (record_schema_read(out, bytes, &again, NULL) != 0 || !schema_equal(s, &again))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record_header h;
    struct table_schema s;
    struct push_record r;
    struct err e;
    const void *payload;
    uint8_t mode = fuzz_mode(&data, &size);
    uint8_t *copy = fuzz_copy(data, size);
    if ((mode & 1) != 0)
        record_mend(copy, size);
    if (record_read(copy, size, 1, &h, &payload) == 0) {
        if (record_to_push(&h, payload, 4, &r) == 0 && r.image != NULL) {
            volatile uint8_t last = ((const uint8_t *)r.image)[r.image_bytes - 1];
            (void)last;
        }
        for (uint32_t bytes = 4; bytes <= 68; bytes += 64)
            if (record_to_push(&h, payload, bytes, &r) == 0 && r.key_count > 0) {
                volatile uint64_t last;
                float weight;
                memcpy((void *)(uintptr_t)&last, r.keys + r.key_count - 1, sizeof last);
                const char *end = (const char *)r.gradients + (size_t)r.key_count * bytes;
                if (r.rows != NULL)
                    end = (const char *)(r.rows + (size_t)r.key_count * r.row_floats);
                memcpy(&weight, end - sizeof weight, sizeof weight);
            }
        if (h.kind == RECORD_TABLE)
            (void)record_schema_read(payload, h.payload_bytes, &s, &e);
    }
    if ((mode & 2) != 0)
        schema_mend(copy, size);
    e.text[0] = '\0';
    if (record_schema_read(copy, size, &s, &e) == 0)
        schema_again(&s);
    else if (e.text[0] == '\0')
        abort();
    free(copy);
    return 0;
}
