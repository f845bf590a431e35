/* fuzz_read_tfrecord.c: any bytes as a tf.Example, as the first record of a file, and cleaned as
 * the cells of other programs are. */
#include "tests/fuzz/fuzz_worker.h"

#include "worker/data/lines.h"

static int read_cleaned(const struct features *f, char *line, size_t bytes, struct cell *cell,
                        char *reason)
{
    char *room = malloc(bytes * (1 + RECORD_ROOM) + 1);
    SHOAL_ASSERT(room != NULL);
    memcpy(room, line, bytes);
    struct line given = {.text = room, .bytes = (uint32_t)bytes, .number = 2};
    int rc = clean_line(f, &given, cell, reason);
    /* the cells must outlive the record, and lie in it */
    static char kept[1 << 21];
    size_t at = 0;
    for (uint32_t i = 0; rc == 0 && i < f->columns && at + cell[i].bytes <= sizeof kept; i++) {
        memcpy(kept + at, cell[i].text, cell[i].bytes);
        cell[i].text = kept + at;
        at += cell[i].bytes;
    }
    free(room);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct features f;
    static char *words[] = {"NA", "a"}, *positive[] = {"1", "yes"};
    static struct column column[] = {{.name = "click", .type = COLUMN_LABEL},
                                     {.name = "age", .type = COLUMN_NUMBER},
                                     {.name = "item", .type = COLUMN_CATEGORY, .whole = true},
                                     {.name = "tags", .type = COLUMN_MULTI, .separator = '|'},
                                     {.name = "w", .type = COLUMN_SKIP}};
    struct job job = {.data = {.format = DATA_TFRECORD,
                               .label = {"click"},
                               .label_count = 1,
                               .missing = {words, 2},
                               .label_positive = {positive, 2},
                               .column = column,
                               .column_count = 5},
                      .features = {.fields_auto = true}};
    /* a record with one feature: user, without values */
    static const char first[] = "\x0a\x0a\x0a\x08\x0a\x04user\x12\x00";
    struct err e = {0};
    if (size > 1 << 18)
        return 0;
    if (f.columns == 0)
        SHOAL_ASSERT(features_make(&job, "fuzz", first, sizeof first - 1, &f, &e) == 0);
    fuzz_line(read_cleaned, &f, data, size);
    fuzz_head(&job, data, size);
    return 0;
}
