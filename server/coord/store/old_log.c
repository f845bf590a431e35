/* old_log.c: see old_log.h. */
#include "server/coord/store/old_log.h"

#include "proto/base/hash.h"

#include <inttypes.h>
#include <string.h>

#define MAGIC 0x53434f52u  /* "ROCS" */
#define REMOVED UINT32_MAX /* in value_bytes: the key is removed */

struct record { /* then key, then value */
    uint32_t magic, key_bytes, value_bytes, zero;
    uint64_t checksum; /* XXH3 of key and value, seeded with the three numbers */
};
_Static_assert(sizeof(struct record) == 24, "record is a disk format");

struct old_log {
    const char *path;
    const unsigned char *log;
    uint64_t bytes;
};

static int damaged(const struct old_log *l, uint64_t at, const char *why, struct err *e)
{
    return err_set(e, SHOAL_E_CORRUPT,
                   "%s: the record at byte %" PRIu64 " is damaged%s" COORD_STORE_ADVICE, l->path,
                   at, why);
}

/* Reads the header at `at`, and the length of its record; false: release 0.2.0 writes no such
 * header. */
static bool header_read(const struct old_log *l, uint64_t at, struct record *r, uint64_t *length)
{
    memcpy(r, l->log + at, sizeof *r);
    uint64_t value = r->value_bytes == REMOVED ? 0 : r->value_bytes;
    *length = sizeof *r + r->key_bytes + value;
    return r->magic == MAGIC && r->key_bytes < COORD_KEY_MAX && value <= COORD_VALUE_MAX;
}

static bool is_whole(const struct old_log *l, uint64_t at, struct record *r, uint64_t *length)
{
    if (l->bytes - at < sizeof *r || !header_read(l, at, r, length) || *length > l->bytes - at)
        return false;
    uint64_t seed = ((uint64_t)r->key_bytes << 32 | r->value_bytes) ^ r->magic;
    return hash_bytes(l->log + at + sizeof *r, (size_t)*length - sizeof *r, seed) == r->checksum;
}

/* True when the record at `at` is the last one and the file ends within it. */
static bool is_torn(const struct old_log *l, uint64_t at)
{
    struct record r;
    uint64_t length;
    if (l->bytes - at < sizeof r)
        return true;
    if (!header_read(l, at, &r, &length) || length < l->bytes - at)
        return false;
    while (++at < l->bytes)
        if (is_whole(l, at, &r, &length))
            return false;
    return true;
}

static int record_take(const struct old_log *l, uint64_t at, const struct record *r,
                       struct coord_store *into, struct err *e)
{
    const unsigned char *from = l->log + at + sizeof *r;
    char key[COORD_KEY_MAX] = {0};
    if (r->key_bytes == 0 || memchr(from, 0, r->key_bytes) != NULL)
        return damaged(l, at, ": its key is none", e);
    memcpy(key, from, r->key_bytes);
    if (r->value_bytes == REMOVED)
        return coord_store_remove(into, key, e);
    return coord_store_put(into, key, from + r->key_bytes, r->value_bytes, e);
}

int coord_old_log_read(const char *path, const void *log, uint64_t bytes, struct coord_store *into,
                       uint64_t *whole, struct err *e)
{
    const struct old_log l = {.path = path, .log = log, .bytes = bytes};
    struct record r;
    uint64_t length;
    int rc = 0;
    if (bytes >= 8 && memcmp(log, "SHOALLOG", 8) == 0)
        return err_set(
            e, SHOAL_E_VERSION,
            "%s was written by a build that is no release; this Shoal reads that of 0.2.0", path);
    for (*whole = 0; rc == 0 && *whole < bytes; *whole += length) {
        if (!is_whole(&l, *whole, &r, &length)) {
            if (is_torn(&l, *whole))
                return 0;
            return damaged(&l, *whole, "; others follow it", e);
        }
        rc = record_take(&l, *whole, &r, into, e);
    }
    return rc;
}
