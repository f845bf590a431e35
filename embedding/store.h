/* store.h: the shard's row store as the engine sees it: keys and values, written in batches, made
 * durable by flush, scanned at start. Two fillings: RocksDB (store_rocks.c, the one door to
 * rocksdb/c.h) and memory (store_mem.c).
 *
 * Thread: any, one at a time, but for get. Every function may block, so write, flush and checkpoint
 * are called on an I/O thread. Errors: IO or CORRUPT with a sentence that names the folder. After
 * an error of write or flush the store is not to be written again. */
#ifndef EMBEDDING_STORE_H
#define EMBEDDING_STORE_H

#include "proto/base/assert.h"
#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct store_item {
    char key[16];
    size_t key_bytes;
    const void *value; /* borrowed; NULL: the pair goes */
    size_t value_bytes;
};

typedef int (*store_visit)(void *context, const void *key, size_t key_bytes, const void *value,
                           size_t value_bytes, struct err *e);

struct store_space { /* bytes; overwritten values that are not yet gone are among them */
    /* files of large values, which are written once; of all else, which are merged now and then */
    uint64_t large, small;
    uint64_t memory;  /* about; what is not in files yet */
    uint64_t readers; /* memory for the files' indexes and filters */
};

struct store;
struct store_ops {
    /* All items or none; visible at once, durable after the next flush. */
    int (*write)(struct store *s, const struct store_item *items, size_t count, struct err *e);
    int (*flush)(struct store *s, struct err *e);
    /* Begins a flush and returns while it goes on, so that the next batch can be made meanwhile;
     * waits for the one begun before it. Order is kept: whatever is durable, all written before it
     * is. A failure is told by a later write or flush. */
    int (*flush_begin)(struct store *s, struct err *e);
    /* Every pair from `from` on that is below `below` (of both the keys alone count; NULL: from the
     * first on, up to the last) in order of key (bytewise); stops at visit's first non-zero, which
     * is returned. */
    int (*range)(struct store *s, const struct store_item *from, const struct store_item *below,
                 store_visit visit, void *context, struct err *e);
    /* Values of `bytes` bytes each, to values (count, bytes) in the keys' order; sizes[i]: bytes of
     * key i's value, 0 where there is none (a value of another length is left out: the caller sees
     * it by its size). May run beside a write of another thread. */
    int (*get)(struct store *s, const struct store_item *keys, size_t count, void *values,
               size_t bytes, size_t *sizes, struct err *e);
    /* All pairs from `from` on that are below `below` (of both the keys alone count) go. */
    int (*drop)(struct store *s, const struct store_item *from, const struct store_item *below,
                struct err *e);
    /* A copy of the whole in the new folder `dir` (must not exist), by hard links; flushes
     * first. */
    int (*checkpoint)(struct store *s, const char *dir, struct err *e);
    /* What it takes of the disk; bytes handed over since it was opened. Both cheap, the latter for
     * every push; any thread. */
    void (*space)(struct store *s, struct store_space *out);
    uint64_t (*written)(struct store *s);
    /* Has what was overwritten in keys from `from` on that are below `below` leave the disk, as far
     * as whole files are dead after it. Costs little more than the small pairs among them. */
    int (*tidy)(struct store *s, const struct store_item *from, const struct store_item *below,
                struct err *e);
    /* Flushes, and rewrites everything: when it returns no overwritten value is left in the store's
     * files (the copies that checkpoint made have what they had), but for what `compacted` says.
     * Costs reading and writing all that is stored. */
    int (*compact)(struct store *s, struct err *e);
    /* After it: 0, or AGAIN with the name of a file of before that is still there. They may go a
     * little later, or not before the next rewriting; or writing the new ones failed. */
    int (*compacted)(struct store *s, struct err *e);
    void (*close)(struct store *s);
};
struct store {
    const struct store_ops *ops;
};

/* Creates it when missing. memory: what its buffers may take in all (indexes and filters of its
 * files come on top: store_space); 0: as it likes (up to 600 MiB). */
int store_rocks_open(const char *dir, uint64_t memory, struct store **out, struct err *e);
/* read-only, such as a checkpoint */
int store_rocks_open_copy(const char *dir, struct store **out, struct err *e);
/* The same of files that have just been compared with a checksum of the whole: RocksDB's own
 * checksums, which take as long as all the rest of reading a value, are not looked at. */
int store_rocks_open_verified(const char *dir, struct store **out, struct err *e);
int store_mem_open(struct store **out);

/* Whether it is a key at all; and whether it stands before another, bytewise. */
static inline bool store_item_ok(const struct store_item *i)
{
    return i->key_bytes > 0 && i->key_bytes <= sizeof i->key;
}
static inline bool store_item_below(const struct store_item *a, const struct store_item *b)
{
    size_t n = b->key_bytes;
    if (a->key_bytes < b->key_bytes)
        n = a->key_bytes;
    int c = memcmp(a->key, b->key, n);

    if (c != 0)
        return c < 0;

    return a->key_bytes < b->key_bytes;
}
/* Nothing may lie between the two, but they are not turned; NULL: open at that end. */
static inline bool store_range_ok(const struct store_item *from, const struct store_item *below)
{
    if (from == NULL || below == NULL)
        return (from == NULL || store_item_ok(from)) && (below == NULL || store_item_ok(below));
    return store_item_ok(from) && store_item_ok(below) && !store_item_below(below, from);
}

static inline int store_write(struct store *s, const struct store_item *items, size_t count,
                              struct err *e)
{
    for (size_t i = 0; i < count; i++)
        SHOAL_ASSERT(store_item_ok(&items[i]));
    return s->ops->write(s, items, count, e);
}
static inline int store_flush(struct store *s, struct err *e)
{
    return s->ops->flush(s, e);
}
static inline int store_flush_begin(struct store *s, struct err *e)
{
    return s->ops->flush_begin(s, e);
}
/* Every pair. */
static inline int store_scan(struct store *s, store_visit visit, void *context, struct err *e)
{
    return s->ops->range(s, NULL, NULL, visit, context, e);
}
static inline int store_range(struct store *s, const struct store_item *from,
                              const struct store_item *below, store_visit visit, void *context,
                              struct err *e)
{
    SHOAL_ASSERT(store_range_ok(from, below));
    return s->ops->range(s, from, below, visit, context, e);
}
static inline int store_get(struct store *s, const struct store_item *keys, size_t count,
                            void *values, size_t bytes, size_t *sizes, struct err *e)
{
    SHOAL_ASSERT(count == 0 || (store_item_ok(&keys[0]) && bytes > 0));
    return s->ops->get(s, keys, count, values, bytes, sizes, e);
}
static inline int store_drop(struct store *s, const struct store_item *from,
                             const struct store_item *below, struct err *e)
{
    SHOAL_ASSERT(store_range_ok(from, below));
    return s->ops->drop(s, from, below, e);
}
static inline int store_checkpoint(struct store *s, const char *dir, struct err *e)
{
    SHOAL_ASSERT(dir[0] != '\0');
    return s->ops->checkpoint(s, dir, e);
}
static inline struct store_space store_space(struct store *s)
{
    struct store_space out;
    s->ops->space(s, &out);
    return out;
}
static inline uint64_t store_written(struct store *s)
{
    return s->ops->written(s);
}
static inline int store_tidy(struct store *s, const struct store_item *from,
                             const struct store_item *below, struct err *e)
{
    SHOAL_ASSERT(store_range_ok(from, below));
    return s->ops->tidy(s, from, below, e);
}
static inline int store_compact(struct store *s, struct err *e)
{
    return s->ops->compact(s, e);
}
static inline int store_compacted(struct store *s, struct err *e)
{
    return s->ops->compacted(s, e);
}
static inline void store_close(struct store *s)
{
    if (s != NULL)
        s->ops->close(s);
}

#endif
