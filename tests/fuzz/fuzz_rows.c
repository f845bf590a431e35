/* fuzz_rows.c: any bytes as a text, cut into lines, csv rows over several lines, or records
 * (first byte: the form; bit 7: the records' checksums are made valid). Rows lie one after the
 * other within the text, and from any of them on the same ones follow. */
#include "tests/fuzz/fuzz_file.h"

#include "proto/job/config.h"
#include "worker/data/index.h"

static const struct row_form forms[] = {
    {.framing = FRAMING_LINES},
    {.framing = FRAMING_LINES, .header = true},
    {.framing = FRAMING_CSV, .delimiter = ",", .columns = 2},
    {.framing = FRAMING_CSV, .delimiter = "::", .columns = 2},
    {.framing = FRAMING_CSV, .delimiter = ",", .columns = 1, .header = true},
    {.framing = FRAMING_TFRECORD},
    {.framing = FRAMING_CSV, .delimiter = ",", .columns = 3, .number = 2},
    {.framing = FRAMING_LINES, .comments = true}};
#define FORMS (sizeof forms / sizeof forms[0])

static void sum_mend(uint8_t *to, const uint8_t *data, size_t bytes)
{
    uint32_t sum = hash_crc32c(data, bytes);
    sum = (sum >> 15 | sum << 17) + 0xa282ead8u;
    memcpy(to, &sum, 4);
}

static void records_mend(uint8_t *at, size_t size)
{
    while (size >= 16) {
        uint64_t bytes;
        memset(at + 2, 0, 6); /* lengths of two bytes, or no record would fit */
        memcpy(&bytes, at, 8);
        sum_mend(at + 8, at, 8);
        if (bytes > size - 16)
            return;
        sum_mend(at + 12 + bytes, at + 12, bytes);
        at += 16 + bytes;
        size -= 16 + bytes;
    }
}

/* A checksum of the rows of a range; *count: how many. */
static uint64_t walk(const struct source *s, const struct row_form *form, const struct index *x,
                     uint64_t from, uint64_t *count)
{
    static struct lines lines; /* its buffer is large: one for all inputs */
    struct line line;
    struct err e = {0};
    uint64_t sum = 0, before = 0;
    *count = 0;
    if (lines.buffer == NULL)
        SHOAL_ASSERT(lines_init(&lines, &e) == 0);
    lines_start(&lines, s, *form, x->chunk[from].at, s->bytes, x->chunk[from].number);
    while (lines_next(&lines, &line, &e) == 0) {
        SHOAL_ASSERT(line.at >= before && line.at < s->bytes && line.bytes <= LIMIT_LINE_BYTES);
        SHOAL_ASSERT(line.number > 0);
        before = line.at + 1;
        sum += index_row_sum(from + *count, &line) + line.number;
        for (uint32_t i = 0; i < line.bytes; i++) /* a reader may change all of it */
            line.text[i] = '"';
        if (form->framing == FRAMING_TFRECORD)
            memset(line.text + line.bytes, '"', RECORD_ROOM * line.bytes);
        ++*count;
    }
    SHOAL_ASSERT(e.code == 0 || e.text[0] != '\0');
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[LIMIT_PATH];
    struct string_list list = {0};
    struct cache cache;
    struct source s;
    struct index x;
    struct err e = {0};
    (void)snprintf(path, sizeof path, "%s/cache", fuzz_dir());
    SHOAL_ASSERT(cache_init(&cache, path, &e) == 0);
    (void)snprintf(path, sizeof path, "%s/a.txt", fuzz_dir());
    uint8_t mode = fuzz_mode(&data, &size);
    const struct row_form *form = &forms[(mode & 0x7f) % FORMS];
    uint8_t *copy = fuzz_copy(data, size);
    if ((mode & 0x80) != 0)
        records_mend(copy, size);
    fuzz_file(path, copy, size);
    free(copy);
    SHOAL_ASSERT(config_list_add(&list, path) == 0);
    if (source_open(&list, "data.train", &cache, &s, &e) == 0) {
        if (index_open(&s, form, NULL, NULL, &x, &e) == 0) {
            uint64_t rows, rest;
            uint64_t whole = x.rows > 0 ? walk(&s, form, &x, 0, &rows) : (rows = 0);
            SHOAL_ASSERT(rows == x.rows);
            for (uint64_t i = 0; i < x.rows && i < 8; i++) {
                uint64_t part = walk(&s, form, &x, i, &rest);
                SHOAL_ASSERT(rest == x.rows - i && (i > 0 || part == whole));
            }
            index_close(&x);
        }
        source_close(&s);
    }
    SHOAL_ASSERT(e.code == 0 || e.text[0] != '\0');
    config_list_free(&list);
    return 0;
}
