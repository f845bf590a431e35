/* store_disk.c: the store on disk: one log of puts, replayed at start, rewritten when most of
 * it is old.
 *
 * A few hundred kilobytes that are read at start only and written one small value at a time: one
 * append and one fdatasync. (RocksDB with its log off, as embedding/store.h gives it, would
 * write a table file for every value.) Invariants:
 *  1. A put is answered after its record is synced. [assert: disk_put]
 *  2. Records are read in order up to the end, or up to a torn last one, which nobody was answered
 *     for and which is cut off. A damaged record before the end is CORRUPT: what follows it may
 *     have been promised. [test: coord_store_torn_end_is_cut_off,
 *     coord_store_damage_before_the_end_is_found]
 *  3. Rewriting makes a whole new file and renames it: there is always one good log. [test:
 *     coord_store_is_rewritten_and_stays_small] */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "server/coord/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD_MAGIC 0x53434f52u /* "SCOR" */
#define REMOVED UINT32_MAX
#define REWRITE_BYTES (8u << 20) /* the log is rewritten at this size, then at twice what it was */

struct record {                                   /* then key, then value */
    uint32_t magic, key_bytes, value_bytes, zero; /* value_bytes REMOVED: the key is gone */
    uint64_t checksum; /* XXH3 of key and value, seeded with the three numbers */
};
_Static_assert(sizeof(struct record) == 24, "record is a disk format");

struct disk_store {
    struct coord_store base;
    struct coord_store *memory; /* owned: the values as of now */
    char dir[LIMIT_PATH];
    int fd, lock_fd;
    uint64_t bytes, synced, rewrite_at; /* synced: so many bytes of the log */
};

static uint64_t record_checksum(const struct record *r, const void *body, size_t bytes)
{
    return hash_bytes(body, bytes, ((uint64_t)r->key_bytes << 32 | r->value_bytes) ^ r->magic);
}

static int disk_error(const struct disk_store *d, const char *what, struct err *e)
{
    return err_set(e, errno == ENOSPC ? SHOAL_E_NO_SPACE : SHOAL_E_IO, "%s/state.log: %s: %s",
                   d->dir, what, strerror(errno));
}

/* One record in one write. */
static int record_write(int fd, const char *key, const void *value, size_t bytes, bool removed,
                        uint64_t *written)
{
    struct record r = {.magic = RECORD_MAGIC,
                       .key_bytes = (uint32_t)strlen(key),
                       .value_bytes = removed ? REMOVED : (uint32_t)bytes};
    size_t all = sizeof r + r.key_bytes + bytes;
    /* else record_take would refuse it, and with it the log */
    SHOAL_ASSERT(r.key_bytes > 0 && r.key_bytes < COORD_KEY_MAX);
    SHOAL_ASSERT(bytes <= (removed ? 0 : COORD_VALUE_MAX));
    unsigned char *buffer = malloc(all);
    if (buffer == NULL) {
        errno = ENOMEM;
        return SHOAL_E_NOMEM;
    }
    memcpy(buffer + sizeof r, key, r.key_bytes);
    if (bytes > 0)
        memcpy(buffer + sizeof r + r.key_bytes, value, bytes);
    r.checksum = record_checksum(&r, buffer + sizeof r, r.key_bytes + bytes);
    memcpy(buffer, &r, sizeof r);
    int rc = file_write_all(fd, buffer, all) == 0 ? 0 : SHOAL_E_IO;
    free(buffer);
    *written += all;
    return rc;
}

/* ---- rewriting (3) --------------------------------------------------------------------------- */

struct rewrite {
    int fd;
    uint64_t bytes;
};

static int rewrite_one(void *context, const char *key, const void *value, size_t bytes)
{
    struct rewrite *w = context;
    return record_write(w->fd, key, value, bytes, false, &w->bytes);
}

static int rewrite(struct disk_store *d, struct err *e)
{
    char from[LIMIT_PATH + 32], to[LIMIT_PATH + 32];
    struct rewrite w = {.bytes = 0};
    SHOAL_ASSERT(d->lock_fd >= 0); /* the log is ours alone */
    (void)snprintf(from, sizeof from, "%s/state.new", d->dir);
    (void)snprintf(to, sizeof to, "%s/state.log", d->dir);
    w.fd = file_open(from, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (w.fd < 0)
        return disk_error(d, "rewrite", e);
    int dir = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || coord_store_memory_visit(d->memory, rewrite_one, &w) != 0 ||
        file_sync_data(w.fd) != 0 || file_rename(from, to) != 0 || file_sync(dir) != 0) {
        int rc = disk_error(d, "rewrite", e);
        close(w.fd);
        if (dir >= 0)
            close(dir);
        return rc;
    }
    close(dir);
    if (d->fd >= 0)
        close(d->fd);
    d->fd = w.fd;
    d->bytes = d->synced = w.bytes;
    d->rewrite_at = 2 * w.bytes > REWRITE_BYTES ? 2 * w.bytes : REWRITE_BYTES;
    SHOAL_ASSERT(d->bytes < d->rewrite_at); /* else each put would rewrite all */
    return 0;
}

/* ---- operations ------------------------------------------------------------------------------ */

static int disk_append(struct disk_store *d, const char *key, const void *value, size_t bytes,
                       bool removed, bool sync, struct err *e)
{
    struct stat st;
    SHOAL_ASSERT(d->fd >= 0 && d->synced <= d->bytes);
    if (record_write(d->fd, key, value, bytes, removed, &d->bytes) != 0)
        return disk_error(d, "write", e);
    if (!sync)
        return 0;
    if (fstat(d->fd, &st) == 0 && st.st_nlink == 0)
        return err_set(
            e, SHOAL_E_IO,
            "%s/state.log was removed while the coordinator runs, which can keep nothing any more: "
            "start it again while all its servers run, and it takes them over into a new folder; "
            "the job in hand ends, its checkpoints stay",
            d->dir);
    if (file_sync_data(d->fd) != 0)
        return disk_error(d, "sync", e);
    d->synced = d->bytes;
    return 0;
}

static int disk_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                    bool sync, struct err *e)
{
    struct disk_store *d = container_of(s, struct disk_store, base);
    int rc = disk_append(d, key, value, bytes, false, sync, e);
    if (rc == 0)
        rc = coord_store_put(d->memory, key, value, bytes, e);
    if (rc == 0 && d->bytes >= d->rewrite_at)
        rc = rewrite(d, e);
    SHOAL_ASSERT(rc != 0 || !sync || d->synced == d->bytes); /* 1 */
    return rc;
}

static int disk_get(struct coord_store *s, const char *key, void **value, size_t *bytes,
                    struct err *e)
{
    return coord_store_get(container_of(s, struct disk_store, base)->memory, key, value, bytes, e);
}

static int disk_remove(struct coord_store *s, const char *key, struct err *e)
{
    struct disk_store *d = container_of(s, struct disk_store, base);
    int rc = disk_append(d, key, NULL, 0, true, true, e);
    SHOAL_ASSERT(rc != 0 || d->synced == d->bytes);
    return rc != 0 ? rc : coord_store_remove(d->memory, key, e);
}

static void disk_close(struct coord_store *s)
{
    struct disk_store *d = container_of(s, struct disk_store, base);
    coord_store_close(d->memory);
    if (d->fd >= 0)
        close(d->fd);
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    free(d);
}

static const struct coord_store_ops disk_ops = {disk_put, disk_get, disk_remove, disk_close};

/* ---- opening (2) ----------------------------------------------------------------------------- */

/* The record at `at`: its length, 0 when it is torn, or CORRUPT. */
static int record_take(struct disk_store *d, const unsigned char *log, uint64_t bytes, uint64_t at,
                       uint64_t *length, struct err *e)
{
    struct record r;
    char key[COORD_KEY_MAX];
    uint64_t left = bytes - at;
    *length = 0;
    SHOAL_ASSERT(at < bytes);
    if (left < sizeof r)
        return 0;
    memcpy(&r, log + at, sizeof r);
    uint64_t value = r.value_bytes == REMOVED ? 0 : r.value_bytes;
    uint64_t all = sizeof r + (uint64_t)r.key_bytes + value;
    bool sane = r.magic == RECORD_MAGIC && r.key_bytes > 0 && r.key_bytes < COORD_KEY_MAX &&
                value <= COORD_VALUE_MAX;
    if (sane && all > left)
        return 0;
    bool whole =
        sane && record_checksum(&r, log + at + sizeof r, r.key_bytes + value) == r.checksum;
    if (sane && !whole && all == left)
        return 0; /* the last one, its bytes not all written */
    /* A NUL in a key would make it another key here, one that this store could write but not read
     * again. */
    if (!whole || memchr(log + at + sizeof r, 0, r.key_bytes) != NULL)
        return err_set(e, SHOAL_E_CORRUPT,
                       "%s/state.log: record at byte %" PRIu64
                       " is damaged and others follow it; restore the folder from a copy, or move "
                       "it away and start the job again",
                       d->dir, at);
    memcpy(key, log + at + sizeof r, r.key_bytes);
    key[r.key_bytes] = 0;
    *length = all;
    SHOAL_ASSERT(all <= left);
    if (r.value_bytes == REMOVED)
        return coord_store_remove(d->memory, key, e);
    return coord_store_put(d->memory, key, log + at + sizeof r + r.key_bytes, value, e);
}

static int replay(struct disk_store *d, struct err *e)
{
    struct stat st;
    uint64_t at = 0, length = 1;
    if (fstat(d->fd, &st) != 0)
        return disk_error(d, "stat", e);
    uint64_t bytes = (uint64_t)st.st_size;
    unsigned char *log = malloc(bytes + 1);
    if (log == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s/state.log: no memory for %" PRIu64 " bytes", d->dir,
                       bytes);
    int rc = 0;
    for (uint64_t got = 0; got < bytes;) {
        ssize_t n = pread(d->fd, log + got, bytes - got, (off_t)got);
        if (n <= 0) {
            rc = disk_error(d, "read", e);
            break;
        }
        got += (uint64_t)n;
    }
    while (rc == 0 && at < bytes && length > 0) {
        rc = record_take(d, log, bytes, at, &length, e);
        at += length;
    }
    free(log);
    SHOAL_ASSERT(at <= bytes);
    if (rc == 0 && at < bytes)
        log_warn("%s/state.log: a last record of %" PRIu64
                 " bytes was not written whole and is cut off",
                 d->dir, bytes - at);
    return rc;
}

static int lock_take(struct disk_store *d, struct err *e)
{
    char path[LIMIT_PATH + 32];
    (void)snprintf(path, sizeof path, "%s/lock", d->dir);
    d->lock_fd = file_open(path, O_RDWR | O_CREAT, 0600);
    if (d->lock_fd < 0)
        return err_set(e, SHOAL_E_CANTCREATE, "%s: %s", path, strerror(errno));
    if (flock(d->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "%s: another coordinator uses this data_dir; stop it first", d->dir);
    return 0;
}

int coord_store_open(const char *dir, struct coord_store **out, struct err *e)
{
    char path[LIMIT_PATH + 32];
    struct disk_store *d = calloc(1, sizeof *d);
    if (d == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the store");
    d->base.ops = &disk_ops;
    d->fd = d->lock_fd = -1;
    int rc =
        strlen(dir) >= sizeof d->dir
            ? err_set(e, SHOAL_E_CONFIG, "data_dir is longer than %zu bytes", sizeof d->dir - 1)
            : 0;
    if (rc == 0) {
        (void)snprintf(d->dir, sizeof d->dir, "%s", dir);
        char part[LIMIT_PATH];
        if (file_make_folders(d->dir, 0700, part) != 0)
            rc = err_set(e, SHOAL_E_CANTCREATE, "%s: %s", part, strerror(errno));
    }
    if (rc == 0)
        rc = lock_take(d, e);
    d->memory = coord_store_memory();
    if (rc == 0 && d->memory == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the store");
    if (rc == 0) {
        (void)snprintf(path, sizeof path, "%s/state.log", d->dir);
        d->fd = file_open(path, O_RDWR | O_CREAT, 0600);
        rc = d->fd < 0 ? err_set(e, SHOAL_E_CANTCREATE, "%s: %s", path, strerror(errno))
                       : replay(d, e);
    }
    if (rc == 0)
        rc = rewrite(d, e); /* also cuts a torn end off */
    if (rc != 0) {
        coord_store_close(&d->base);
        return rc;
    }
    SHOAL_ASSERT(d->fd >= 0 && d->synced == d->bytes);
    *out = &d->base;
    return 0;
}
