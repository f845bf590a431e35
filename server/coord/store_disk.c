/* store_disk.c: the store on disk: one log of puts, replayed at start, rewritten when most of
 * it is old.
 *
 * A few hundred kilobytes that are read at start only and written one small value at a time: one
 * append and one fdatasync. (RocksDB with its log off, as embedding/store.h gives it, would
 * write a table file for every value.) Invariants:
 *  1. A put is answered after its record is synced. [assert: disk_put]
 *  2. What was synced is read again, or the log is refused: records.h. After an error nothing more
 *     is written to it. [test: coord_store_that_failed_takes_no_more]
 *  3. Rewriting, at each start too, makes a whole new file and renames it: there is always one good
 *     log. [test: coord_store_is_rewritten_and_stays_small, coord_store_fails_at_any_call] */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/limits.h"
#include "proto/base/lockfile.h"
#include "proto/base/log.h"
#include "proto/base/plant.h"
#include "server/coord/records.h"
#include "server/coord/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REWRITE_BYTES (8u << 20) /* the log is rewritten at this size, then at twice what it was */

struct disk_store {
    struct coord_store base;
    struct coord_store *memory; /* owned: the values as of now */
    char dir[LIMIT_PATH];
    struct coord_records log; /* log.fd: owned */
    int lock_fd;
    uint64_t rewrite_at;
    uint64_t marked; /* bytes behind the last mark: all before that are synced */
    bool failed;     /* what the log ends in is not known */
};

static int disk_error(struct disk_store *d, const char *what, struct err *e)
{
    d->failed = true;
    return err_set(e, errno == ENOSPC ? SHOAL_E_NO_SPACE : SHOAL_E_IO, "%s/state.log: %s: %s",
                   d->dir, what, strerror(errno));
}

/* ---- rewriting (3) --------------------------------------------------------------------------- */

static int rewrite_one(void *context, const char *key, const void *value, size_t bytes)
{
    return coord_records_put(context, key, value, bytes);
}

/* It is read under its name alone, and so its mark is true before it is synced. */
static int rewrite_write(const struct disk_store *d, struct coord_records *l, int fd)
{
    return coord_records_begin(l, fd) == 0 &&
                   coord_store_memory_visit(d->memory, rewrite_one, l) == 0 &&
                   (PLANTED("rewritten_unmarked") || coord_records_mark(l) == 0) &&
                   (PLANTED("log_unsynced") || file_sync_data(fd) == 0)
               ? 0
               : -1;
}

static int rewrite(struct disk_store *d, struct err *e)
{
    char from[LIMIT_PATH + 32], to[LIMIT_PATH + 32];
    struct coord_records l = {.fd = -1};
    SHOAL_ASSERT(d->lock_fd >= 0); /* the log is ours alone */
    (void)snprintf(from, sizeof from, "%s/state.new", d->dir);
    (void)snprintf(to, sizeof to, "%s/state.log", d->dir);
    int fd = file_open(from, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || rewrite_write(d, &l, fd) != 0 || file_rename(from, to) != 0 ||
        (!PLANTED("log_name_unsynced") && file_sync_folder(d->dir) != 0)) {
        int rc = disk_error(d, "rewrite", e);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    if (d->log.fd >= 0)
        close(d->log.fd);
    d->log = l;
    d->log.synced = d->marked = l.bytes;
    d->rewrite_at = 2 * l.bytes > REWRITE_BYTES ? 2 * l.bytes : REWRITE_BYTES;
    SHOAL_ASSERT(d->log.bytes < d->rewrite_at); /* else each put would rewrite all */
    return 0;
}

/* ---- operations ------------------------------------------------------------------------------ */

static int disk_sync(struct disk_store *d, struct err *e)
{
    struct stat st;
    if (fstat(d->log.fd, &st) == 0 && st.st_nlink == 0)
        return err_set(
            e, SHOAL_E_IO,
            "%s/state.log was removed while the coordinator runs, which can keep nothing any more: "
            "start it again while all its servers run, and it takes them over into a new folder; "
            "the job in hand ends, its checkpoints stay",
            d->dir);
    if (file_sync_data(d->log.fd) != 0)
        return disk_error(d, "sync", e);
    d->log.synced = d->log.bytes;
    if (coord_records_mark(&d->log) != 0)
        d->failed = true; /* what was synced stays so */
    d->marked = d->log.bytes;
    return 0;
}

/* NULL: the key goes. */
static int disk_append(struct disk_store *d, const char *key, const void *value, size_t bytes,
                       bool sync, struct err *e)
{
    SHOAL_ASSERT(d->log.fd >= 0 && d->log.synced <= d->log.bytes);
    if (d->failed)
        return err_set(e, SHOAL_E_IO,
                       "%s/state.log could not be written before; start the coordinator again",
                       d->dir);
    if (coord_records_put(&d->log, key, value, bytes) != 0)
        return disk_error(d, "write", e);
    return sync ? disk_sync(d, e) : 0;
}

static int disk_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                    bool sync, struct err *e)
{
    struct disk_store *d = container_of(s, struct disk_store, base);
    int rc = disk_append(d, key, bytes == 0 && !PLANTED("empty_is_removed") ? "" : value, bytes,
                         sync, e);
    if (rc == 0)
        rc = coord_store_put(d->memory, key, value, bytes, e);
    if (rc == 0 && !d->failed && d->log.bytes >= d->rewrite_at)
        rc = rewrite(d, e);
    SHOAL_ASSERT(rc != 0 || !sync || d->log.bytes == d->marked); /* 1 */
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
    int rc = disk_append(d, key, NULL, 0, true, e);
    return rc != 0 ? rc : coord_store_remove(d->memory, key, e);
}

static void disk_close(struct coord_store *s)
{
    struct disk_store *d = container_of(s, struct disk_store, base);
    coord_store_close(d->memory);
    if (d->log.fd >= 0)
        close(d->log.fd);
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    free(d);
}

static const struct coord_store_ops disk_ops = {disk_put, disk_get, disk_remove, disk_close};

/* ---- opening (2) ----------------------------------------------------------------------------- */

static int record_take(void *context, const char *key, const void *value, size_t bytes,
                       struct err *e)
{
    return value == NULL ? coord_store_remove(context, key, e)
                         : coord_store_put(context, key, value, bytes, e);
}

static int replay(struct disk_store *d, const char *path, struct err *e)
{
    char *log;
    size_t bytes;
    uint64_t whole = 0;
    if (file_read_whole(path, SIZE_MAX / 2, &log, &bytes) != 0)
        return errno == ENOENT ? 0 : disk_error(d, "read", e); /* it is a new one */
    int rc = coord_records_read(path, log, bytes, record_take, d->memory, &whole, e);
    free(log);
    if (rc == 0 && whole < bytes)
        log_warn("%s: the last %" PRIu64
                 " bytes were not written whole, nobody was told of them, and they are cut off",
                 path, bytes - whole);
    return rc;
}

int coord_store_open(const char *dir, uint32_t wait_ms, struct coord_store **out, struct err *e)
{
    char path[LIMIT_PATH + 32];
    struct disk_store *d = calloc(1, sizeof *d);
    if (d == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the store");
    d->base.ops = &disk_ops;
    d->log.fd = d->lock_fd = -1;
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
        rc = lockfile_take_data(d->dir, wait_ms, "shoal-coordinator", &d->lock_fd, e);
    d->memory = coord_store_memory();
    if (rc == 0 && d->memory == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the store");
    if (rc == 0) {
        (void)snprintf(path, sizeof path, "%s/state.log", d->dir);
        rc = replay(d, path, e);
    }
    if (rc == 0)
        rc = rewrite(d, e); /* also cuts a torn end off */
    if (rc != 0) {
        coord_store_close(&d->base);
        return rc;
    }
    SHOAL_ASSERT(d->log.fd >= 0 && d->log.synced == d->log.bytes);
    *out = &d->base;
    return 0;
}
