/* store_rocks.c: the row store in RocksDB.
 *
 * 1. RocksDB's own log is off: the shard's journal protects unflushed batches. Memtables are
 *    flushed whole and in order, so after a crash the store holds all batches up to some point and
 *    none behind it. [assert: rocks_write] Closing flushes none, because the store may be ahead of
 *    the journal. [test: what_is_not_flushed_goes_with_a_close]
 * 2. Images go to blob files, which are not garbage-collected: images are overwritten in rounds, so
 *    a blob file dies as a whole. flush.c rewrites everything when dead bytes exceed its bound.
 *    [assert: rocks_open]
 * 3. No compression: rows are floats, and the disk writes them as fast as the CPU could compress
 *    them. [assert: rocks_open] */
#include "embedding/store.h"
#include "embedding/store/rocks_crc32c.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/limits.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <rocksdb/c.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* checksum of blocks; a file's footer names it. Blobs always have CRC-32C (rocks_crc32c.h) */
#define CHECKSUM_XXH3 4
#define FORMAT 5 /* the format of Debian 12's RocksDB, which can then read files of a later one */
#define FLUSH_MOST (64u << 20)
#define FILE_LEAST (8u << 20)
#define FILES_MERGED 28
/* 1/64 of a memtable is its filter: at least ten bits for each row */
#define MEMTABLE_FILTER 64
#define BLOCK_BYTES (2u << 10) /* bytes that are read and checked for one row */
#define READAHEAD (4u << 20)
#define MEMTABLE_MOST (256u << 20)
#define OPENING_THREADS 4
/* with a memory limit: a scan has a file of each level and a few more open */
#define READAHEAD_BOUND (256u << 10)

struct files {
    char (*name)[32]; /* owned; (count) */
    uint32_t count, room;
};

struct store_rocks {
    struct store base;
    rocksdb_t *db; /* owned, as all below */
    rocksdb_options_t *options;
    rocksdb_writeoptions_t *write_options;
    /* the first waits, the second does not */
    rocksdb_flushoptions_t *flush_options, *begin_options;
    rocksdb_readoptions_t *read_options;
    rocksdb_column_family_handle_t *family; /* the default one: some calls need it */
    rocksdb_writebatch_t *batch;
    rocksdb_block_based_table_options_t *blocks;
    bool bounded; /* opened with a memory limit below the size of the rows */
    char *dir;
    atomic_uint_fast64_t written;
    bool read_only;
    struct files before; /* the files before the last rewriting */
    bool verified;       /* its files were verified: blocks and blobs are not checked when read */
};

/* Turns RocksDB's malloc'ed text into our error; 0: there is none. */
static int failed(struct err *e, char *text, const char *what, const char *dir)
{
    if (text == NULL)
        return 0;
    int rc = SHOAL_E_IO;
    if (strstr(text, "Corruption") != NULL)
        rc = SHOAL_E_CORRUPT;
    err_set(e, rc, "cannot %s rows in %s: %s%s", what, dir, text,
            rc == SHOAL_E_CORRUPT
                ? "; damaged: move this server's data_dir away, stop the others and theirs, and "
                  "go on with a checkpoint (shoal checkpoint restore)"
                : "");
    rocksdb_free(text);
    return rc;
}

static int rocks_write(struct store *base, const struct store_item *items, size_t count,
                       struct err *e)
{
    struct store_rocks *s = container_of(base, struct store_rocks, base);
    uint64_t bytes = 0;
    SHOAL_ASSERT(!s->read_only && rocksdb_writeoptions_get_disable_WAL(s->write_options)); /* 1 */
    rocksdb_writebatch_clear(s->batch);
    for (size_t i = 0; i < count; i++)
        bytes += items[i].key_bytes + (items[i].value == NULL ? 0 : items[i].value_bytes);
    atomic_fetch_add(&s->written, bytes);
    for (size_t i = 0; i < count; i++)
        if (items[i].value == NULL)
            rocksdb_writebatch_delete(s->batch, items[i].key, items[i].key_bytes);
        else
            rocksdb_writebatch_put(s->batch, items[i].key, items[i].key_bytes, items[i].value,
                                   items[i].value_bytes);
    char *text = NULL;
    rocksdb_write(s->db, s->write_options, s->batch, &text);
    rocksdb_writebatch_clear(s->batch);
    return failed(e, text, "write", s->dir);
}

static int rocks_flush(struct store *base, struct err *e)
{
    struct store_rocks *s = container_of(base, struct store_rocks, base);
    char *text = NULL;
    SHOAL_ASSERT(rocksdb_flushoptions_get_wait(s->flush_options));
    rocksdb_flush(s->db, s->flush_options, &text);
    return failed(e, text, "flush", s->dir);
}

/* RocksDB has two memtables (options_new): while one is flushed and the other is full it waits, so
 * memory never holds more. */
static int rocks_flush_begin(struct store *base, struct err *e)
{
    struct store_rocks *s = container_of(base, struct store_rocks, base);
    char *text = NULL;
    SHOAL_ASSERT(!rocksdb_flushoptions_get_wait(s->begin_options));
    rocksdb_flush(s->db, s->begin_options, &text);
    return failed(e, text, "flush", s->dir);
}

static int rocks_range(struct store *base, const struct store_item *from,
                       const struct store_item *below, store_visit visit, void *context,
                       struct err *e)
{
    struct store_rocks *s = container_of(base, struct store_rocks, base);
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_verify_checksums(options, !s->verified);
    rocksdb_readoptions_set_fill_cache(options, 0);
    /* for each open file */
    rocksdb_readoptions_set_readahead_size(options, s->bounded ? READAHEAD_BOUND : READAHEAD);
    if (below != NULL)
        rocksdb_readoptions_set_iterate_upper_bound(options, below->key, below->key_bytes);
    rocksdb_iterator_t *it = rocksdb_create_iterator(s->db, options);
    int rc = 0;
    if (from != NULL)
        rocksdb_iter_seek(it, from->key, from->key_bytes);
    else
        rocksdb_iter_seek_to_first(it);
    for (; rc == 0 && rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
        size_t key_bytes, value_bytes;
        const char *key = rocksdb_iter_key(it, &key_bytes);
        const char *value = rocksdb_iter_value(it, &value_bytes);
        rc = visit(context, key, key_bytes, value, value_bytes, e);
    }
    if (rc == 0) {
        char *text = NULL;
        rocksdb_iter_get_error(it, &text);
        rc = failed(e, text, "read", s->dir);
    }
    rocksdb_iter_destroy(it);
    rocksdb_readoptions_destroy(options);
    return rc;
}

/* Reads are batched because each needs a pointer of its own. */
#define GET_BATCH 1024u

static int get_batch(struct store_rocks *s, const struct store_item *keys, size_t count,
                     char *values, size_t bytes, size_t *sizes, struct err *e)
{
    const char *key[GET_BATCH] = {NULL}; /* GCC 12 cannot tell that they are set below */
    size_t key_bytes[GET_BATCH] = {0};
    rocksdb_pinnableslice_t *value[GET_BATCH];
    char *text[GET_BATCH];
    int rc = 0;
    SHOAL_ASSERT(count > 0 && count <= GET_BATCH);
    for (size_t i = 0; i < count; i++) {
        key[i] = keys[i].key;
        key_bytes[i] = keys[i].key_bytes;
    }
    rocksdb_batched_multi_get_cf(s->db, s->read_options, s->family, count, key, key_bytes, value,
                                 text, false);
    for (size_t i = 0; i < count; i++) {
        int failure = failed(e, text[i], "read", s->dir);
        rc = rc != 0 ? rc : failure;
        sizes[i] = 0;
        if (value[i] == NULL)
            continue;
        const char *from = rocksdb_pinnableslice_value(value[i], &sizes[i]);
        if (sizes[i] == bytes)
            memcpy(values + i * bytes, from, bytes);
        rocksdb_pinnableslice_destroy(value[i]);
    }
    return rc;
}

static int rocks_get(struct store *base, const struct store_item *keys, size_t count, void *values,
                     size_t bytes, size_t *sizes, struct err *e)
{
    struct store_rocks *s = container_of(base, struct store_rocks, base);
    int rc = 0;
    for (size_t at = 0; at < count && rc == 0; at += GET_BATCH) {
        size_t n = GET_BATCH;
        if (count - at < GET_BATCH)
            n = count - at;
        rc = get_batch(s, keys + at, n, (char *)values + at * bytes, bytes, sizes + at, e);
    }
    return rc;
}

static int rocks_drop(struct store *base, const struct store_item *from,
                      const struct store_item *below, struct err *e)
{
    struct store_rocks *s = container_of(base, struct store_rocks, base);
    char *text = NULL;
    SHOAL_ASSERT(!s->read_only);
    rocksdb_delete_range_cf(s->db, s->write_options, s->family, from->key, from->key_bytes,
                            below->key, below->key_bytes, &text);
    return failed(e, text, "delete", s->dir);
}

static int rocks_checkpoint(struct store *base, const char *dir, struct err *e)
{
    struct store_rocks *s = container_of(base, struct store_rocks, base);
    char *text = NULL;
    rocksdb_checkpoint_t *c = rocksdb_checkpoint_object_create(s->db, &text);
    if (text != NULL)
        return failed(e, text, "checkpoint", s->dir);
    rocksdb_checkpoint_create(c, dir, 0, &text);
    rocksdb_checkpoint_object_destroy(c);
    return failed(e, text, "link", dir);
}

static void rocks_close(struct store *base)
{
    struct store_rocks *s = container_of(base, struct store_rocks, base);
    if (s->family != NULL)
        rocksdb_column_family_handle_destroy(s->family);
    if (s->db != NULL)
        rocksdb_close(s->db);
    rocksdb_readoptions_destroy(s->read_options);
    rocksdb_block_based_options_destroy(s->blocks);
    rocksdb_writebatch_destroy(s->batch);
    rocksdb_flushoptions_destroy(s->flush_options);
    rocksdb_flushoptions_destroy(s->begin_options);
    rocksdb_writeoptions_destroy(s->write_options);
    rocksdb_options_destroy(s->options);
    free(s->before.name);
    free(s->dir);
    free(s);
}

static uint64_t property(struct store_rocks *s, const char *name)
{
    uint64_t value = 0;

    if (rocksdb_property_int(s->db, name, &value) == 0)
        return value;

    return 0;
}

static void rocks_space(struct store *base, struct store_space *out)
{
    struct store_rocks *s = container_of(base, struct store_rocks, base);
    out->memory = property(s, "rocksdb.cur-size-all-mem-tables");
    out->large = property(s, "rocksdb.total-blob-file-size");
    out->small = property(s, "rocksdb.total-sst-files-size");
    out->readers = property(s, "rocksdb.estimate-table-readers-mem");
}

static void rocks_load(struct store *base, struct store_load *out)
{
    struct store_rocks *s = container_of(base, struct store_rocks, base);
    *out = (struct store_load){
        .flushes = property(s, "rocksdb.num-running-flushes"),
        .compactions = property(s, "rocksdb.num-running-compactions"),
        .pending = property(s, "rocksdb.estimate-pending-compaction-bytes"),
        .slowed = property(s, "rocksdb.actual-delayed-write-rate"),
        .stopped = property(s, "rocksdb.is-write-stopped") != 0,
    };
}

static uint64_t rocks_written(struct store *base)
{
    return atomic_load(&container_of(base, struct store_rocks, base)->written);
}

/* A blob file is deleted when no table file refers to it. */
static int rocks_tidy(struct store *base, const struct store_item *from,
                      const struct store_item *below, struct err *e)
{
    struct store_rocks *s = container_of(base, struct store_rocks, base);
    int rc = rocks_flush(base, e);
    if (rc == 0)
        rocksdb_compact_range(s->db, from->key, from->key_bytes, below->key, below->key_bytes);
    return rc;
}

/* ---- rewriting everything ---- */

static bool holds_values(const char *name)
{
    const char *end = strrchr(name, '.');
    return end != NULL && (strcmp(end, ".sst") == 0 || strcmp(end, ".blob") == 0);
}

/* Lists the store's table and blob files. IO, NOMEM. */
static int files_list(const char *dir, struct files *out)
{
    struct file_walk walk;
    const char *name;
    int rc = SHOAL_E_IO;
    if (file_walk_open(&walk, dir))
        rc = 0;
    while (rc == 0 && (name = file_walk_next(&walk)) != NULL) {
        if (!holds_values(name) || strlen(name) >= sizeof out->name[0])
            continue;
        if (array_room(&out->name, out->count, &out->room, 64) != 0)
            rc = SHOAL_E_NOMEM;
        else
            text_copy(out->name[out->count++], sizeof out->name[0], name);
    }
    file_walk_close(&walk);
    return rc;
}

/* The name of a listed file that still exists; NULL: none does. */
static const char *files_left(const char *dir, const struct files *f)
{
    char path[LIMIT_PATH];
    for (uint32_t i = 0; i < f->count; i++) {
        int n = snprintf(path, sizeof path, "%s/%s", dir, f->name[i]);
        if (n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0)
            return f->name[i];
    }
    return NULL;
}

static int compact_all(struct store_rocks *s, struct err *e)
{
    static const char *const names[] = {"enable_blob_garbage_collection",
                                        "blob_garbage_collection_age_cutoff"};
    static const char *const all[] = {"true", "1.0"}, *const usual[] = {"false", "0.25"};
    char *text = NULL;
    rocksdb_set_options(s->db, 2, names, all, &text);
    if (text == NULL) {
        rocksdb_compactoptions_t *o = rocksdb_compactoptions_create();
        /* rewrite the bottom level, too */
        rocksdb_compactoptions_set_bottommost_level_compaction(o, 2);
        rocksdb_compactoptions_set_exclusive_manual_compaction(o, 1);
        rocksdb_compact_range_opt(s->db, o, NULL, 0, NULL, 0);
        rocksdb_compactoptions_destroy(o);
        rocksdb_set_options(s->db, 2, names, usual, &text);
    }
    return failed(e, text, "rewrite", s->dir);
}

/* An overwritten value remains in a table file, or in a blob file beside live values. A compaction
 * of the whole range removes the former; for the latter it must copy every live value to new blob
 * files, so that the old ones die. */
static int rocks_compact(struct store *base, struct err *e)
{
    struct store_rocks *s = container_of(base, struct store_rocks, base);
    SHOAL_ASSERT(!s->read_only);
    s->before.count = 0;
    int rc = rocks_flush(base, e);
    if (rc == 0 && (rc = files_list(s->dir, &s->before)) != 0)
        rc = err_set(e, rc, "cannot list the folder %s", s->dir);
    if (rc != 0)
        return rc;

    return compact_all(s, e);
}

/* RocksDB does not report a failed compaction, so this checks that the old files are gone. */
static int rocks_compacted(struct store *base, struct err *e)
{
    struct store_rocks *s = container_of(base, struct store_rocks, base);
    const char *left = files_left(s->dir, &s->before);
    if (left == NULL)
        return 0;
    return err_set(e, SHOAL_E_AGAIN,
                   "%s was not rewritten: %s of before is still there; look for errors of the "
                   "disk, and for room",
                   s->dir, left);
}

static const struct store_ops rocks_ops = {.write = rocks_write,
                                           .flush = rocks_flush,
                                           .flush_begin = rocks_flush_begin,
                                           .range = rocks_range,
                                           .get = rocks_get,
                                           .drop = rocks_drop,
                                           .checkpoint = rocks_checkpoint,
                                           .space = rocks_space,
                                           .written = rocks_written,
                                           .load = rocks_load,
                                           .tidy = rocks_tidy,
                                           .compact = rocks_compact,
                                           .compacted = rocks_compacted,
                                           .close = rocks_close};

/* A limit for open table and blob files; without one RocksDB holds all of them open, and a large
 * shard has thousands. */
static int files_most(void)
{
    struct rlimit l;
    uint64_t limit = 1024;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0)
        limit = l.rlim_cur;

    if (limit / 16 > 1024)
        return 1024;
    if (limit / 16 < 48)
        return 48;

    return (int)(limit / 16);
}

/* Sets the option for which the C API has no call. */
static rocksdb_options_t *options_flushed_by_nobody(void)
{
    rocksdb_options_t *plain = rocksdb_options_create(), *o = rocksdb_options_create();
    char *text = NULL;
    rocksdb_get_options_from_string(plain, "avoid_flush_during_shutdown=true", o, &text);
    SHOAL_ASSERT(text == NULL); /* 1 */
    rocksdb_options_destroy(plain);
    return o;
}

static rocksdb_options_t *options_new(void)
{
    rocksdb_options_t *o = options_flushed_by_nobody();
    rocksdb_options_set_create_if_missing(o, 1);
    rocksdb_options_set_compression(o, rocksdb_no_compression);
    rocksdb_options_set_blob_compression_type(o, rocksdb_no_compression);
    rocksdb_options_set_enable_blob_files(o, 1);
    rocksdb_options_set_min_blob_size(o, 4096);
    rocksdb_options_set_blob_file_size(o, 64u << 20);
    /* large amounts of dirty pages would stop the shard's own writes */
    rocksdb_options_set_bytes_per_sync(o, 2u << 20);
    /* No garbage collection: images are overwritten in rounds, so a blob file is dead as a whole
     * after the next round, and copying the live half of old files would double the writes. flush.c
     * rewrites everything when dead bytes exceed its bound. */
    rocksdb_options_set_enable_blob_gc(o, 0);
    /* The engine decides when to flush; a memtable must not fill up earlier (flush.c writes at most
     * 64 MiB between flushes). */
    rocksdb_options_set_write_buffer_size(o, MEMTABLE_MOST);
    rocksdb_options_set_max_write_buffer_number(o, 2);
    rocksdb_options_set_level0_file_num_compaction_trigger(o, 4);
    rocksdb_options_set_max_background_jobs(o, 2);
    rocksdb_options_set_paranoid_checks(o, 1);
    rocksdb_options_set_max_open_files(o, files_most());
    /* else each opening begins 15 threads, whatever the number of files */
    rocksdb_options_set_max_file_opening_threads(o, OPENING_THREADS);
    rocksdb_options_set_keep_log_file_num(o, 2);
    rocksdb_options_set_max_log_file_size(o, 1u << 20);
    rocksdb_options_set_info_log_level(o, 2);
    rocksdb_options_set_avoid_unnecessary_blocking_io(o, 1);
    return o;
}

/* Rows are read one by one when they come back to memory, where they stay: blocks need no cache,
 * and indexes and filters stay with their files. Every row that is read exists, so the last level,
 * nine tenths of all rows, has no filters. */
static void take_memory(struct store_rocks *s, uint64_t memory)
{
    SHOAL_ASSERT(s->db == NULL && memory > 0);
    s->bounded = true;
    rocksdb_block_based_options_set_no_block_cache(s->blocks, 1);
    rocksdb_block_based_options_set_block_size(s->blocks, BLOCK_BYTES);
    /* the options own it now */
    rocksdb_block_based_options_set_filter_policy(s->blocks,
                                                  rocksdb_filterpolicy_create_bloom_full(10));
    rocksdb_block_based_options_set_data_block_index_type(
        s->blocks, rocksdb_block_based_table_data_block_index_type_binary_search_and_hash);
    rocksdb_options_set_optimize_filters_for_hits(s->options, 1);
    /* Rows that leave arrive in flushes of at most half of the memory (flush.c), most of it images,
     * whose blobs no compaction touches. Many such files are merged at a time into a first level of
     * about the same size, so that a few rows do not cause all to be written again. Each file has a
     * filter and contains only some tablets. */
    uint64_t flush = FLUSH_MOST;
    if (memory / 2 < FLUSH_MOST)
        flush = memory / 2;
    SHOAL_ASSERT(flush < MEMTABLE_MOST); /* a memtable must not fill up before a flush */
    rocksdb_options_set_level0_file_num_compaction_trigger(s->options, FILES_MERGED);
    rocksdb_options_set_level0_slowdown_writes_trigger(s->options, 2 * FILES_MERGED);
    rocksdb_options_set_level0_stop_writes_trigger(s->options, 3 * FILES_MERGED);
    rocksdb_options_compaction_readahead_size(s->options, READAHEAD_BOUND);
    rocksdb_options_set_memtable_whole_key_filtering(s->options, 1);
    rocksdb_options_set_memtable_prefix_bloom_size_ratio(
        s->options, (double)flush / MEMTABLE_FILTER / MEMTABLE_MOST);
    rocksdb_options_set_max_bytes_for_level_base(s->options, FILES_MERGED * flush);
    rocksdb_options_set_max_bytes_for_level_multiplier(s->options, 8);
    rocksdb_options_set_target_file_size_base(s->options, MAX(flush, FILE_LEAST));
}

static rocksdb_t *open_db(struct store_rocks *s, const char *dir, int read_only, char **text)
{
    const char *name = "default";
    const rocksdb_options_t *options = s->options;
    if (read_only)
        return rocksdb_open_for_read_only_column_families(s->options, dir, 1, &name, &options,
                                                          &s->family, 0, text);
    return rocksdb_open_column_families(s->options, dir, 1, &name, &options, &s->family, text);
}

/* Blobs have our checksums: nothing may be written with wrong ones. This call also links the
 * symbol. */
static void check_checksum(void)
{
#if defined(__x86_64__)
    SHOAL_ASSERT(rocks_crc32c_extend(0, "123456789", 9) == 0xe3069283u);
#endif
}

static int rocks_open(const char *dir, int read_only, uint64_t memory, struct store **out,
                      struct err *e)
{
    check_checksum();
    struct store_rocks *s = calloc(1, sizeof *s);
    char *copy = strdup(dir);
    if (s == NULL || copy == NULL) {
        free(s);
        free(copy);
        return err_set(e, SHOAL_E_NOMEM, "no memory to open the rows in %s", dir);
    }
    s->base.ops = &rocks_ops;
    s->read_only = read_only != 0;
    s->dir = copy;
    s->options = options_new();
    s->blocks = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_checksum(s->blocks, CHECKSUM_XXH3);
    rocksdb_block_based_options_set_format_version(s->blocks, FORMAT);
    if (memory > 0)
        take_memory(s, memory);
    SHOAL_ASSERT(!rocksdb_options_get_enable_blob_gc(s->options)); /* 2 */
    SHOAL_ASSERT(rocksdb_options_get_compression(s->options) == rocksdb_no_compression &&
                 rocksdb_options_get_blob_compression_type(s->options) ==
                     rocksdb_no_compression); /* 3 */
    rocksdb_options_set_block_based_table_factory(s->options, s->blocks);
    s->read_options = rocksdb_readoptions_create();
    /* the row moves to memory, and the others in its block are as cold as before */
    rocksdb_readoptions_set_fill_cache(s->read_options, 0);
    s->write_options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(s->write_options, 1);
    s->flush_options = rocksdb_flushoptions_create();
    rocksdb_flushoptions_set_wait(s->flush_options, 1);
    s->begin_options = rocksdb_flushoptions_create();
    rocksdb_flushoptions_set_wait(s->begin_options, 0);
    s->batch = rocksdb_writebatch_create();
    char *text = NULL;
    s->db = open_db(s, dir, read_only, &text);
    int rc = failed(e, text, "open", dir);
    if (rc != 0) {
        s->db = NULL;
        s->family = NULL;
        rocks_close(&s->base);
        return rc;
    }
    *out = &s->base;
    return 0;
}

int store_rocks_open(const char *dir, uint64_t memory, struct store **out, struct err *e)
{
    return rocks_open(dir, 0, memory, out, e);
}

int store_rocks_open_copy(const char *dir, struct store **out, struct err *e)
{
    return rocks_open(dir, 1, 0, out, e);
}

int store_rocks_open_verified(const char *dir, struct store **out, struct err *e)
{
    int rc = rocks_open(dir, 1, 0, out, e);
    if (rc == 0) {
        struct store_rocks *s = container_of(*out, struct store_rocks, base);
        SHOAL_ASSERT(s->read_only);
        s->verified = true;
    }
    return rc;
}
