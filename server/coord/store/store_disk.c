/* store_disk.c: the store on disk: each transaction is one batch of RocksDB (DIR/store).
 *
 * RocksDB checks its blocks and records. It reads its log up to the first record that is not whole,
 * which is a torn tail after a power cut and damage at any other time. DIR/store/synced tells them
 * apart: it has RocksDB's number of the last change that was on disk. The file itself is not
 * synced: a power cut leaves it older, and never newer, than the log.
 *
 * A state.log of release 0.2.0 is converted: its values and HEAD become one transaction, and then
 * it is renamed. HEAD has the log's hash, so a start after a crash between the two goes on with the
 * renaming, and a log that an older release has written since is refused.
 *
 * Invariants:
 *  1. A transaction is complete after it is on disk. [assert: disk_begin] [test:
 *     coord_store_keeps_what_it_answered_when_power_goes]
 *  2. A change that was on disk is read again, or the store is refused, and stays as it was. After
 *     an error nothing more is written. [test: coord_store_any_flipped_bit_is_found,
 *     coord_store_that_is_refused_stays_as_it_was, coord_store_that_failed_takes_no_more]
 *  3. state.log is renamed after its values are on disk. [test:
 *     coord_store_takes_an_old_log_over_when_power_goes] */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/limits.h"
#include "proto/base/lockfile.h"
#include "proto/base/log.h"
#include "server/coord/store/old_log.h"
#include "server/coord/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "store"
#define VERSION 1u
#define WRITE_BUFFER (2u << 20)
#define POINT_IN_TIME 2 /* a value for rocksdb_options_set_wal_recovery_mode */
#define SILENT 4        /* a value for rocksdb_options_set_info_log_level */
#define PATH_ROOM (LIMIT_PATH + 32)

struct head { /* value of the key HEAD */
    uint64_t version;
    uint64_t taken; /* hash of the converted state.log; 0: there was none */
};
_Static_assert(sizeof(struct head) == 16, "head is a disk format");

struct synced { /* content of DIR/store/synced */
    uint64_t number;
    uint64_t checksum; /* a damaged file counts as missing */
};
_Static_assert(sizeof(struct synced) == 16, "synced is a disk format");

struct disk_store {
    struct coord_keep base;
    struct coord_store *memory; /* borrowed: it gets the values */
    rocksdb_options_t *options; /* owned, as all below */
    rocksdb_writeoptions_t *write_options;
    rocksdb_t *db;
    int lock_fd, synced_fd;
    uint64_t synced; /* RocksDB's number of the last change that is on disk */
    bool failed;     /* an error: the end of the log is not known */
    char path[LIMIT_PATH];
};

/* ---- errors ---------------------------------------------------------------------------------- */

static int damaged(const struct disk_store *d, const char *why, struct err *e)
{
    return err_set(e, SHOAL_E_CORRUPT, "%s is damaged: %s" COORD_STORE_ADVICE, d->path, why);
}

/* Turns RocksDB's malloc'ed text into an error; 0 when there is none. */
static int rocks_error(struct disk_store *d, char *text, const char *what, struct err *e)
{
    if (text == NULL)
        return 0;
    d->failed = true;
    int rc = SHOAL_E_IO;
    if (strstr(text, strerror(ENOSPC)) != NULL)
        rc = SHOAL_E_NO_SPACE;
    if (strstr(text, "Corruption") != NULL || strstr(text, strerror(ENOENT)) != NULL)
        rc = damaged(d, text, e);
    else
        err_set(e, rc, "%s: %s: %s", d->path, what, text);
    rocksdb_free(text);
    return rc;
}

static int file_error(const char *path, const char *what, struct err *e)
{
    int rc = SHOAL_E_IO;
    if (errno == ENOSPC)
        rc = SHOAL_E_NO_SPACE;
    return err_set(e, rc, "%s: %s: %s", path, what, strerror(errno));
}

/* ---- operations ------------------------------------------------------------------------------ */

/* True while the folder is there. */
static bool is_there(const struct disk_store *d)
{
    struct stat st;
    return fstat(d->synced_fd, &st) != 0 || st.st_nlink > 0;
}

/* Notes that all changes so far are on disk. */
static void synced_note(struct disk_store *d)
{
    struct synced s = {.number = rocksdb_get_latest_sequence_number(d->db)};
    SHOAL_ASSERT(s.number >= d->synced);
    d->synced = s.number;
    s.checksum = hash_bytes(&s.number, sizeof s.number, 0);
    if (pwrite(d->synced_fd, &s, sizeof s, 0) != sizeof s)
        d->failed = true; /* the change stays on disk */
}

/* 0 when the store may be written. */
static int writable(const struct disk_store *d, struct err *e)
{
    if (d->failed)
        return err_set(e, SHOAL_E_IO, "%s could not be written before; start the coordinator again",
                       d->path);
    if (!is_there(d))
        return err_set(
            e, SHOAL_E_IO,
            "%s was removed while the coordinator runs, which can keep nothing any more: "
            "start it again while all its servers run, and it takes them over into a new folder; "
            "the job in hand ends, its checkpoints stay",
            d->path);
    return 0;
}

static rocksdb_writebatch_t *batch_make(const struct coord_transaction *t)
{
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    for (size_t i = 0; i < t->count; i++) {
        const struct coord_change *c = &t->change[i];
        if (c->value == NULL)
            rocksdb_writebatch_delete(batch, c->key, strlen(c->key));
        else
            rocksdb_writebatch_put(batch, c->key, strlen(c->key), c->value, c->bytes);
    }
    return batch;
}

static int disk_begin(struct coord_keep *k, const struct coord_transaction *t, struct err *e)
{
    struct disk_store *d = container_of(k, struct disk_store, base);
    char *text = NULL;
    int rc = writable(d, e);
    if (rc != 0)
        return rc;

    rocksdb_writebatch_t *batch = batch_make(t);
    rocksdb_writeoptions_set_sync(d->write_options, t->sync);
    rocksdb_write(d->db, d->write_options, batch, &text);
    rocksdb_writebatch_destroy(batch);
    rc = rocks_error(d, text, "write", e);
    if (rc == 0 && t->sync)
        synced_note(d);
    SHOAL_ASSERT(rc != 0 || !t->sync ||
                 d->synced == rocksdb_get_latest_sequence_number(d->db)); /* 1 */
    return rc;
}

/* The files of values, and what is in the log alone, by RocksDB's own count. */
static uint64_t disk_bytes(struct coord_keep *k)
{
    struct disk_store *d = container_of(k, struct disk_store, base);
    uint64_t files = 0, log = 0;
    (void)rocksdb_property_int(d->db, "rocksdb.total-sst-files-size", &files);
    (void)rocksdb_property_int(d->db, "rocksdb.cur-size-all-mem-tables", &log);
    return files + log;
}

static void disk_close(struct coord_keep *k)
{
    struct disk_store *d = container_of(k, struct disk_store, base);
    if (d->db != NULL)
        rocksdb_close(d->db);
    rocksdb_writeoptions_destroy(d->write_options);
    rocksdb_options_destroy(d->options);
    if (d->synced_fd >= 0)
        close(d->synced_fd);
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    free(d);
}

/* ---- the log of release 0.2.0 (3) ------------------------------------------------------------ */

/* Reads the values of the log into memory. */
static int old_read(struct disk_store *d, const char *path, const char *log, size_t bytes,
                    struct err *e)
{
    uint64_t whole = bytes;
    if (log == NULL)
        return 0;
    int rc = coord_old_log_read(path, log, bytes, d->memory, &whole, e);
    if (rc == 0 && whole < bytes)
        log_warn("%s: the last %" PRIu64 " bytes were not written whole, no request was answered "
                 "for them, and they are left out",
                 path, bytes - whole);
    return rc;
}

/* Begins a new store with the values in memory. */
static int begin(struct disk_store *d, uint64_t taken, struct err *e)
{
    struct head h = {.version = VERSION, .taken = taken};
    int rc = coord_store_put(d->memory, HEAD, &h, sizeof h, e);
    if (rc != 0)
        return rc;
    return coord_store_commit(d->memory, e);
}

static int old_rename(const char *path, const char *dir, struct err *e)
{
    char away[PATH_ROOM + 8];
    (void)snprintf(away, sizeof away, "%s.0.2.0", path);
    if (file_rename(path, away) != 0 || file_sync_folder(dir) != 0)
        return file_error(path, "rename", e);
    log_info("%s was taken over and is now %s", path, away);
    return 0;
}

static int head_check(const struct head *h, const char *path, uint64_t hash, struct err *e)
{
    if (h->version > VERSION)
        return err_set(e, SHOAL_E_VERSION,
                       "the store beside %s has version %" PRIu64
                       ", this Shoal reads up to %u: it was written by a later one; start that one",
                       path, h->version, VERSION);
    if (hash != 0 && hash != h->taken)
        return err_set(e, SHOAL_E_EXISTS,
                       "%s is not the log that the folder store was made from: an older release "
                       "ran in this data_dir since; move the one that is not to be gone on with "
                       "away",
                       path);
    return 0;
}

static int old_take(struct disk_store *d, const char *dir, struct err *e)
{
    char path[PATH_ROOM], *log = NULL;
    struct head h;
    size_t bytes = 0;
    (void)snprintf(path, sizeof path, "%s/state.log", dir);
    if (file_read_whole(path, SIZE_MAX / 2, &log, &bytes) != 0 && errno != ENOENT)
        return file_error(path, "read", e);

    uint64_t hash = log == NULL ? 0 : hash_bytes(log, bytes, 0) | 1;
    int rc = coord_store_get_fixed(d->memory, HEAD, &h, sizeof h, e);
    if (rc == 0)
        rc = head_check(&h, path, hash, e);
    else if (rc == SHOAL_E_NOT_FOUND && (rc = old_read(d, path, log, bytes, e)) == 0)
        rc = begin(d, hash, e);
    free(log);
    if (rc != 0 || hash == 0)
        return rc;
    return old_rename(path, dir, e);
}

/* ---- opening (2) ----------------------------------------------------------------------------- */

static rocksdb_options_t *options_new(void)
{
    rocksdb_options_t *o = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(o, 1);
    rocksdb_options_set_compression(o, rocksdb_no_compression);
    rocksdb_options_set_paranoid_checks(o, 1);
    rocksdb_options_set_wal_recovery_mode(o, POINT_IN_TIME);
    rocksdb_options_set_write_buffer_size(o, WRITE_BUFFER);
    rocksdb_options_set_manifest_preallocation_size(o, 4096);
    rocksdb_options_set_max_background_jobs(o, 1);
    rocksdb_options_set_keep_log_file_num(o, 1);
    rocksdb_options_set_info_log_level(o, SILENT);
    rocksdb_options_set_stats_dump_period_sec(o, 0);
    rocksdb_options_set_stats_persist_period_sec(o, 0);
    return o;
}

static int value_take(struct disk_store *d, rocksdb_iterator_t *it, struct err *e)
{
    char key[COORD_KEY_MAX] = {0};
    size_t key_bytes, bytes;
    const char *from = rocksdb_iter_key(it, &key_bytes);
    const char *value = rocksdb_iter_value(it, &bytes);
    if (key_bytes >= sizeof key || bytes > COORD_VALUE_MAX)
        return damaged(d, "another program has written to it", e);
    memcpy(key, from, key_bytes);
    return coord_store_put(d->memory, key, value, bytes, e);
}

/* Opens the store for reading alone, and reads all values into memory, and into *number that of the
 * last change. */
static int values_read(struct disk_store *d, uint64_t *number, struct err *e)
{
    char *text = NULL;
    rocksdb_t *db = rocksdb_open_for_read_only(d->options, d->path, 0, &text);
    int rc = rocks_error(d, text, "open", e);
    if (rc != 0)
        return rc;

    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    rocksdb_iterator_t *it = rocksdb_create_iterator(db, options);
    for (rocksdb_iter_seek_to_first(it); rc == 0 && rocksdb_iter_valid(it); rocksdb_iter_next(it))
        rc = value_take(d, it, e);
    if (rc == 0) {
        rocksdb_iter_get_error(it, &text);
        rc = rocks_error(d, text, "read", e);
    }
    *number = rocksdb_get_latest_sequence_number(db);
    rocksdb_iter_destroy(it);
    rocksdb_readoptions_destroy(options);
    rocksdb_close(db);
    return rc;
}

/* Reads what was on disk, or refuses the store before anything is written. */
static int all_read(struct disk_store *d, struct err *e)
{
    char path[PATH_ROOM];
    struct synced s = {0};
    uint64_t number = 0;
    (void)snprintf(path, sizeof path, "%s/synced", d->path);
    d->synced_fd = file_open(path, O_RDWR | O_CREAT, 0600);
    if (d->synced_fd < 0 || pread(d->synced_fd, &s, sizeof s, 0) < 0)
        return file_error(path, "open", e);
    if (s.checksum == hash_bytes(&s.number, sizeof s.number, 0))
        d->synced = s.number;

    (void)snprintf(path, sizeof path, "%s/CURRENT", d->path);
    int rc = 0;
    if (access(path, F_OK) == 0)
        rc = values_read(d, &number, e);
    if (rc == 0 && number < d->synced)
        rc = damaged(d, "changes are missing that had been on disk", e);
    return rc;
}

static int disk_open(struct disk_store *d, const char *dir, uint32_t wait_ms, struct err *e)
{
    char part[LIMIT_PATH], *text = NULL;
    int n = snprintf(d->path, sizeof d->path, "%s/store", dir);
    if (n < 0 || (size_t)n >= sizeof d->path)
        return err_set(e, SHOAL_E_CONFIG, "data_dir is longer than %zu bytes",
                       sizeof d->path - sizeof "/store");
    if (file_make_folders(d->path, 0700, part) != 0 || file_sync_folder(dir) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "%s: %s", part, strerror(errno));
    int rc = lockfile_take_data(dir, wait_ms, "shoal-coordinator", &d->lock_fd, e);
    if (rc == 0)
        rc = all_read(d, e);
    if (rc != 0)
        return rc;

    d->db = rocksdb_open(d->options, d->path, &text);
    rc = rocks_error(d, text, "open", e);
    if (rc != 0)
        return rc;
    rocksdb_compact_range(d->db, NULL, 0, NULL, 0); /* drops older values and removed keys */
    return 0;
}

int coord_store_open(const char *dir, uint32_t wait_ms, struct coord_store **out, struct err *e)
{
    struct coord_store *s = coord_store_memory();
    struct disk_store *d = calloc(1, sizeof *d);
    if (s == NULL || d == NULL) {
        coord_store_close(s);
        free(d);
        return err_set(e, SHOAL_E_NOMEM, "no memory for the store");
    }
    *d =
        (struct disk_store){.base = {.begin = disk_begin, .close = disk_close, .bytes = disk_bytes},
                            .memory = s,
                            .options = options_new(),
                            .write_options = rocksdb_writeoptions_create(),
                            .lock_fd = -1,
                            .synced_fd = -1};
    int rc = disk_open(d, dir, wait_ms, e);
    coord_store_keep(s, &d->base); /* only now, since it has these values already */
    if (rc == 0)
        rc = old_take(d, dir, e);
    if (rc != 0)
        coord_store_close(s);
    else
        *out = s;
    return rc;
}
