/* fuzz_index.c: any bytes as the kept index of an input of three lines: as they are, or with both
 * checksums and the identity valid (first byte, bit 0). An accepted index names places in the
 * input; any other is made again. */
#include "tests/fuzz/fuzz_file.h"

#include "proto/job/config.h"
#include "worker/data/index.h"

#include <glob.h>
#include <stddef.h>

static struct cache cache;
static struct source source;
static char kept[LIMIT_PATH + 128]; /* name of the index that the first opening kept */
static uint8_t head[56];            /* its header */

/* Rows have times, so that the kept file has every possible part. */
static uint32_t row_time(void *context, struct line *line)
{
    (void)context;
    return 1700000000u + line->bytes;
}

static const struct index_clock timed = {row_time, NULL, 1, INDEX_CHUNKS_MAX};

static void input_prepare(void)
{
    char path[LIMIT_PATH + 64], folder[LIMIT_PATH];
    struct string_list list = {0};
    struct index x;
    struct err e;
    glob_t found;
    (void)snprintf(path, sizeof path, "%s/a.txt", fuzz_dir());
    (void)snprintf(folder, sizeof folder, "%s/cache", fuzz_dir());
    fuzz_file(path, "first\nsecond\nthird\n", 19);
    SHOAL_ASSERT(config_list_add(&list, path) == 0 && cache_init(&cache, folder, &e) == 0);
    SHOAL_ASSERT(source_open(&list, "data.train", &cache, &source, &e) == 0);
    SHOAL_ASSERT(index_open(&source, &ROW_FORM_LINES, &timed, &cache, &x, &e) == 0);
    index_close(&x);
    config_list_free(&list);
    (void)snprintf(path, sizeof path, "%s/*.index", folder);
    SHOAL_ASSERT(glob(path, 0, NULL, &found) == 0 && found.gl_pathc == 1);
    (void)snprintf(kept, sizeof kept, "%s", found.gl_pathv[0]);
    globfree(&found);
    FILE *f = fopen(kept, "rb");
    SHOAL_ASSERT(f != NULL && fread(head, 1, sizeof head, f) == sizeof head);
    fclose(f);
}

/* magic, identity | rows | bytes | chunk_rows, chunks | chunk_sum | sum, then the chunks. */
static void file_mend(uint8_t *at, size_t size)
{
    uint64_t sum;
    if (size < sizeof head)
        return;
    memcpy(at, head, 16);
    memcpy(at + 24, head + 24, 8);
    sum = hash_bytes(at + sizeof head, size - sizeof head, 0);
    memcpy(at + 40, &sum, sizeof sum);
    sum = hash_bytes(at, 48, 0);
    memcpy(at + 48, &sum, sizeof sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct index x;
    struct err e = {0};
    if (kept[0] == '\0')
        input_prepare();
    bool mend = (fuzz_mode(&data, &size) & 1) != 0;
    uint8_t *copy = fuzz_copy(data, size);
    if (mend)
        file_mend(copy, size);
    fuzz_file(kept, copy, size);
    if (index_open(&source, &ROW_FORM_LINES, &timed, &cache, &x, &e) != 0)
        abort(); /* a bad index must be made again */
    for (uint32_t i = 0; i < x.chunks; i++)
        if (x.chunk[i].at >= source.bytes || index_chunk_end(&x, i) > source.bytes ||
            index_chunk_end(&x, i) <= x.chunk[i].at)
            abort();
    if (x.rows > (uint64_t)x.chunks * x.chunk_rows || x.bytes != source.bytes)
        abort();
    index_close(&x);
    free(copy);
    return 0;
}
