/* fuzz_journal.c: any bytes as the segments of a journal: replayed, then written to. First byte:
 * bit 0: mend the checksums; bit 1: the second half is another segment; bit 2: a free file beside
 * them; bit 3: read as a cut's copy. Mended: headers and records are sealed in place. */
#include "proto/base/file.h"
#include "tests/fuzz/fuzz_file.h"

#include "embedding/journal/cursor.h"

#include <sys/stat.h>

/* Mends a header and the records behind it, each with the length that it claims. */
static void segment_mend(uint8_t *at, size_t size, uint64_t generation)
{
    struct segment_header head;
    struct record_header h;
    if (size < sizeof head)
        return;
    memcpy(&head, at, sizeof head);
    head.magic = SEGMENT_MAGIC;
    head.generation = generation;
    head.checksum = record_segment_checksum(&head);
    memcpy(at, &head, sizeof head);
    for (size_t p = sizeof head; p < size && record_head(at + p, size - p, &h);
         p += record_length(&h)) {
        if (h.payload_bytes > size - p - record_head_bytes(&h))
            return;
        if (h.kind == RECORD_PUSH && h.key_count > h.payload_bytes / sizeof(uint64_t))
            return;
        h.segment = generation;
        memcpy(at + p, &h, record_head_bytes(&h));
        record_reseal(at + p);
    }
}

static void visit(uint64_t *last, const struct journal_record *r)
{
    volatile uint8_t byte = 0;
    if (r->head->sequence != *last + 1 && *last != 0)
        abort(); /* sequences have no gap */
    *last = r->head->sequence;
    for (uint32_t i = 0; i < r->head->payload_bytes; i++)
        byte = (uint8_t)(byte ^ ((const uint8_t *)r->payload)[i]);
}

/* Reads all records whole, as recovery and cuts do. */
static int read_whole(struct journal *j, bool copy, uint64_t *last, struct err *e)
{
    struct journal_files files;
    struct journal_cursor c;
    struct journal_record r;
    int rc = cursor_gather(NULL, j, &files, e);
    if (rc != 0)
        return rc;
    cursor_open(&c, &files, 0, UINT64_MAX, CURSOR_WHOLE);
    while ((rc = cursor_next(&c, &r, e)) == 0)
        visit(last, &r);
    if (rc == SHOAL_E_END && !copy)
        journal_take_end(j, &c);
    cursor_close(&c);
    cursor_files_free(&files);
    return rc == SHOAL_E_END ? 0 : rc;
}

/* Reads heads, keys and checksums, as blame does. */
static int read_heads(struct journal *j, struct err *e)
{
    struct journal_files files;
    struct journal_cursor c;
    struct journal_record r;
    const uint64_t *keys;
    void *payload;
    volatile uint64_t key;
    int rc = cursor_gather(NULL, j, &files, e);
    if (rc != 0)
        return rc;
    cursor_open(&c, &files, 0, UINT64_MAX, CURSOR_HEADS);
    while ((rc = cursor_next(&c, &r, e)) == 0) {
        if (cursor_keys(&c, &keys, e) == 0 && r.head->key_count > 0)
            key = keys[r.head->key_count - 1];
        if (cursor_whole(&c, &payload, e) == 0 && r.head->payload_bytes > 0)
            key = ((uint8_t *)payload)[r.head->payload_bytes - 1];
    }
    (void)key;
    cursor_close(&c);
    cursor_files_free(&files);
    return rc == SHOAL_E_END ? 0 : rc;
}

static void segments_write(const char *dir, const uint8_t *data, size_t size, uint8_t mode)
{
    char path[LIMIT_PATH + 64];
    size_t first = (mode & 2) != 0 ? size / 2 / RECORD_ALIGN * RECORD_ALIGN : size;
    /* it goes to files, so its exact size does not matter */
    uint8_t *copy = malloc(size + sizeof(struct segment_header));
    SHOAL_ASSERT(copy != NULL && mkdir(dir, 0700) == 0);
    memcpy(copy, data, size);
    if ((mode & 1) != 0) {
        segment_mend(copy, first, 1);
        segment_mend(copy + first, size - first, 2);
    }
    (void)snprintf(path, sizeof path, "%s/seg-%016x", dir, 1u);
    fuzz_file(path, copy, first);
    (void)snprintf(path, sizeof path, "%s/seg-%016x", dir, 2u);
    if (first < size)
        fuzz_file(path, copy + first, size - first);
    (void)snprintf(path, sizeof path, "%s/free-%08x", dir, 7u);
    if ((mode & 4) != 0)
        fuzz_file(path, copy, size);
    free(copy);
}

static void write_on(struct journal *j, uint64_t last)
{
    struct record_header h = {.kind = RECORD_RUN_DROP};
    uint64_t run = 1;
    struct record_payload payload = {{&run, NULL}, {sizeof run, 0}};
    struct err e;
    if (journal_start(j, last + 1, &e) != 0 || journal_append(j, &h, &payload, &e) != 0 ||
        journal_commit(j, &e) != 0)
        abort(); /* the bytes were read as a journal, so it must accept records */
    journal_trim(j, last, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[LIMIT_PATH];
    struct journal *j = NULL;
    struct err e;
    uint64_t last = 0;
    uint8_t mode = fuzz_mode(&data, &size);
    (void)snprintf(dir, sizeof dir, "%s/journal", fuzz_dir());
    (void)file_remove_tree(dir);
    segments_write(dir, data, size, mode);
    bool copy = (mode & 8) != 0;
    int rc = copy ? journal_open_copy(dir, &j, &e) : journal_open(dir, JOURNAL_SEGMENT_MIN, &j, &e);
    if (rc == 0) {
        rc = read_heads(j, &e);
        if (rc == 0)
            rc = read_whole(j, copy, &last, &e);
        if (rc == 0 && !copy && last < UINT64_MAX - 4)
            write_on(j, last);
        journal_close(j);
    }
    if (rc != 0 && e.text[0] == '\0')
        abort();
    return 0;
}
