/* fuzz_coord_store.c: any bytes as the coordinator's state.log: as they are, and with every
 * record's checksum made right. First byte: bit 0: mend. What was opened can be put to, and opened
 * again with the same values. */
#include "tests/fuzz/fuzz_file.h"

#include "proto/base/hash.h"
#include "server/coord/store.h"

#include <sys/stat.h>

struct record { /* as in store_disk.c */
    uint32_t magic, key_bytes, value_bytes, zero;
    uint64_t checksum;
};

static void log_mend(uint8_t *at, size_t size)
{
    struct record r;
    for (size_t p = 0; p + sizeof r <= size;) {
        memcpy(&r, at + p, sizeof r);
        size_t body = (size_t)r.key_bytes + (r.value_bytes == UINT32_MAX ? 0 : r.value_bytes);
        if (body > size - p - sizeof r)
            return;
        r.magic = 0x53434f52u;
        r.checksum = hash_bytes(at + p + sizeof r, body,
                                ((uint64_t)r.key_bytes << 32 | r.value_bytes) ^ r.magic);
        memcpy(at + p, &r, sizeof r);
        p += sizeof r + body;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[LIMIT_PATH], path[LIMIT_PATH + 16];
    struct coord_store *s = NULL;
    struct err e = {0};
    void *value;
    size_t bytes;
    bool mend = (fuzz_mode(&data, &size) & 1) != 0;
    uint8_t *copy = fuzz_copy(data, size);
    (void)snprintf(dir, sizeof dir, "%s/coordinator", fuzz_dir());
    (void)snprintf(path, sizeof path, "%s/state.log", dir);
    (void)mkdir(dir, 0700);
    if (mend)
        log_mend(copy, size);
    fuzz_file(path, copy, size);
    if (coord_store_open(dir, &s, &e) != 0) {
        if (e.text[0] == '\0')
            abort();
    } else {
        SHOAL_ASSERT(coord_store_put(s, "fuzz", "value", 5, &e) == 0);
        coord_store_close(s);
        if (coord_store_open(dir, &s, &e) != 0 ||
            coord_store_get(s, "fuzz", &value, &bytes, &e) != 0 || bytes != 5)
            abort();
        free(value);
        coord_store_close(s);
    }
    free(copy);
    return 0;
}
