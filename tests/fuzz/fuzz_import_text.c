/* fuzz_import_text.c: any text as rows that `shoal import` reads, or (first byte, bit 2) as the
 * keys that a difference erases. */
#include "deploy/cli/import.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads all rows and adds their keys; returns how many there are. */
static uint64_t rows_read(struct import_source *s)
{
    const struct import_naming naming = {.raw = s->form == IMPORT_RAW, .field = 3};
    struct import_keys *keys = NULL;
    struct import_key key;
    struct err e;
    float row[64];
    if (s->floats > 64 || import_keys_new(&naming, &keys, &e) != 0)
        abort();
    while (s->next(s, &key, row, &e) == 1)
        if (import_keys_add(keys, s->form, &key, &e) != 0)
            abort();
    const uint64_t rows = import_keys_count(keys);
    (void)import_keys_check(keys, &e);
    import_keys_free(keys);
    return rows;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct table_schema schema = {.name = "emb",
                                         .width = 3,
                                         .zero_first = 1,
                                         .tablet_bits = 4,
                                         .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.1f}};
    const struct import_line l = {.schema = &schema};
    struct import_source *s;
    struct err e;
    if (size == 0)
        return 0;
    if ((data[0] & 4) != 0) {
        struct import_erased erased = {.count = 0};
        (void)import_erased_text(&erased, (const char *)data + 1, size - 1, &e);
        import_erased_free(&erased);
        return 0;
    }
    schema.rules.stats = data[0] & 1;
    const char separator = (data[0] & 2) != 0 ? ',' : '\t';
    if (import_text_of(&l, (const char *)data + 1, size - 1, separator, &s, &e) != 0)
        return 0;
    const uint64_t rows = rows_read(s);
    s->rewind(s);
    if (rows_read(s) != rows)
        abort();
    s->close(s);
    return 0;
}
