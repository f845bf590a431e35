/* fuzz_coord_store.c: any bytes as the coordinator's state.log: as they are, and with checksums
 * made right. First byte: bit 0: mend; bit 1: as of version 2; bit 2: there headers alone. What was
 * opened can be put to, and opened again with the same values. */
#include "tests/fuzz/fuzz_file.h"

#include "proto/base/hash.h"
#include "server/coord/store.h"

#include <sys/stat.h>

struct record_1 { /* as in records.c */
    uint32_t magic, key_bytes, value_bytes, zero;
    uint64_t checksum;
};
struct record {
    uint32_t magic, key_bytes, value_bytes, zero;
    uint64_t synced, body_checksum, checksum;
};
struct head {
    uint64_t magic;
    uint32_t version, zero;
    uint64_t salt, checksum;
};

static size_t body_of(uint32_t key_bytes, uint32_t value_bytes)
{
    return (size_t)key_bytes + (value_bytes == UINT32_MAX ? 0 : value_bytes);
}

static void log_mend_1(uint8_t *at, size_t size)
{
    struct record_1 r;
    for (size_t p = 0; p + sizeof r <= size;) {
        memcpy(&r, at + p, sizeof r);
        size_t body = body_of(r.key_bytes, r.value_bytes);
        if (body > size - p - sizeof r)
            return;
        r.magic = 0x53434f52u;
        r.checksum = hash_bytes(at + p + sizeof r, body,
                                ((uint64_t)r.key_bytes << 32 | r.value_bytes) ^ r.magic);
        memcpy(at + p, &r, sizeof r);
        p += sizeof r + body;
    }
}

static void log_mend(uint8_t *at, size_t size, bool bodies)
{
    struct head h;
    struct record r;
    if (size < sizeof h)
        return;
    memcpy(&h, at, sizeof h);
    h.magic = UINT64_C(0x474f4c4c414f4853);
    h.checksum = hash_bytes(&h, 24, 0);
    memcpy(at, &h, sizeof h);
    for (size_t p = sizeof h; p + sizeof r <= size;) {
        memcpy(&r, at + p, sizeof r);
        size_t body = body_of(r.key_bytes, r.value_bytes);
        r.magic = 0x44524f43u;
        if (bodies && body <= size - p - sizeof r)
            r.body_checksum = hash_bytes(at + p + sizeof r, body, 0);
        r.checksum = hash_bytes(&r, 32, h.salt ^ p);
        memcpy(at + p, &r, sizeof r);
        if (body > size - p - sizeof r)
            return;
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
    unsigned mode = fuzz_mode(&data, &size);
    uint8_t *copy = fuzz_copy(data, size);
    (void)snprintf(dir, sizeof dir, "%s/coordinator", fuzz_dir());
    (void)snprintf(path, sizeof path, "%s/state.log", dir);
    (void)mkdir(dir, 0700);
    if ((mode & 3) == 1)
        log_mend_1(copy, size);
    else if ((mode & 3) == 3)
        log_mend(copy, size, (mode & 4) == 0);
    fuzz_file(path, copy, size);
    if (coord_store_open(dir, 0, &s, &e) != 0) {
        if (e.text[0] == '\0')
            abort();
    } else {
        SHOAL_ASSERT(coord_store_put(s, "fuzz", "value", 5, &e) == 0);
        coord_store_close(s);
        if (coord_store_open(dir, 0, &s, &e) != 0 ||
            coord_store_get(s, "fuzz", &value, &bytes, &e) != 0 || bytes != 5)
            abort();
        free(value);
        coord_store_close(s);
    }
    free(copy);
    return 0;
}
