/* fuzz_coord_store.c: any bytes as state.log of release 0.2.0, which a start takes over: as they
 * are, or (first byte, bit 0) with valid checksums. A log that is read leaves values that can be
 * read again. */
#include "tests/fuzz/fuzz_file.h"

#include "server/coord/store/old_log.h"
#include "server/coord/store/store.h"
#include "tests/lib/coord_log.h"

static void log_mend(uint8_t *at, size_t size)
{
    struct coord_log_record r;
    for (size_t p = 0; p + sizeof r <= size;) {
        memcpy(&r, at + p, sizeof r);
        size_t body = (size_t)r.key_bytes + (r.value_bytes == UINT32_MAX ? 0 : r.value_bytes);
        if (body > size - p - sizeof r)
            return;
        coord_log_mend(at + p, body);
        p += sizeof r + body;
    }
}

static int value_read(void *context, const char *key, const void *value, size_t bytes)
{
    void *again;
    size_t again_bytes;
    if (coord_store_get(context, key, &again, &again_bytes, NULL) != 0 || again_bytes != bytes ||
        memcmp(again, value, bytes) != 0)
        abort();
    free(again);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    uint64_t whole;
    unsigned mode = fuzz_mode(&data, &size);
    uint8_t *copy = fuzz_copy(data, size);
    struct coord_store *s = coord_store_memory();
    if ((mode & 1) != 0)
        log_mend(copy, size);
    int rc = coord_old_log_read("state.log", copy, size, s, &whole, &e);
    if (rc != 0 && e.text[0] == '\0')
        abort();
    if (rc == 0 && whole > size)
        abort();
    (void)coord_store_visit(s, value_read, s);
    coord_store_close(s);
    free(copy);
    return 0;
}
