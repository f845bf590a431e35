/* store.h: the shard's row store as the engine sees it: keys and values, which are written in
 * batches, made durable by flush, and scanned at the start. There are two implementations: RocksDB
 * (store_rocks.c) and memory (store_mem.c).
 *
 * Thread: any, one at a time, except for get. Every function may block, so write, flush and
 * checkpoint are called on an I/O thread. Errors: IO or CORRUPT, with a sentence that names the
 * folder. After an error of write or flush the store must not be written again. */
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
    const void *value; /* borrowed; NULL: deletes the pair */
    size_t value_bytes;
};

typedef int (*store_visit)(void *context, const void *key, size_t key_bytes, const void *value,
                           size_t value_bytes, struct err *e);

struct store_space { /* bytes; overwritten values count until they are deleted */
    /* files of large values, which are written once; all other files, which are merged at times */
    uint64_t large, small;
    uint64_t memory;  /* estimate of the data that is not in files yet */
    uint64_t readers; /* memory for the files' indexes and filters */
};

struct store_load {                /* the work that the store is doing; all 0 in memory */
    uint64_t flushes, compactions; /* that run now */
    uint64_t pending;              /* estimate: bytes that compactions have still to rewrite */
    uint64_t slowed; /* bytes a second to which writes are slowed down; 0: they are not */
    bool stopped;    /* writes wait until compactions have caught up */
};

struct store;
struct store_ops {
    /* Writes all items or none. They are visible at once and durable after the next flush. */
    int (*write)(struct store *s, const struct store_item *items, size_t count, struct err *e);
    int (*flush)(struct store *s, struct err *e);
    /* Begins a flush and returns while it goes on, so that the next batch can be prepared
     * meanwhile; waits for a flush that was begun before. Batches become durable in order. A later
     * write or flush returns a failure of this one. */
    int (*flush_begin)(struct store *s, struct err *e);
    /* Visits every pair with a key in [from, below) in order of the keys (bytewise); only the keys
     * of the two items are used. NULL: no limit at that end. Stops at visit's first status other
     * than 0 and returns it. */
    int (*range)(struct store *s, const struct store_item *from, const struct store_item *below,
                 store_visit visit, void *context, struct err *e);
    /* Copies values of `bytes` bytes each to values (count, bytes), in the order of the keys.
     * sizes[i]: bytes of key i's value, 0 if there is none. A value of another length is not
     * copied: the caller sees it by its size. May run beside a write of another thread. */
    int (*get)(struct store *s, const struct store_item *keys, size_t count, void *values,
               size_t bytes, size_t *sizes, struct err *e);
    /* Deletes all pairs with a key in [from, below); only the keys of the two items are used. */
    int (*drop)(struct store *s, const struct store_item *from, const struct store_item *below,
                struct err *e);
    /* Makes a copy of the store in the new folder `dir` (which must not exist) by hard links;
     * flushes first. */
    int (*checkpoint)(struct store *s, const char *dir, struct err *e);
    /* Space in use, and bytes written since the store was opened. Both are cheap, `written` enough
     * for every push; any thread. */
    void (*space)(struct store *s, struct store_space *out);
    uint64_t (*written)(struct store *s);
    /* The store's own work. Cheap; any thread. */
    void (*load)(struct store *s, struct store_load *out);
    /* Removes overwritten values of keys in [from, below) from the disk, as far as whole files have
     * no live value left. Costs little more than rewriting the small pairs among them. */
    int (*tidy)(struct store *s, const struct store_item *from, const struct store_item *below,
                struct err *e);
    /* Flushes and rewrites the whole store. On return no overwritten value is left in its files,
     * except as `compacted` tells; copies made by `checkpoint` keep theirs. Costs reading and
     * writing all that is stored. */
    int (*compact)(struct store *s, struct err *e);
    /* After `compact`: 0, or AGAIN with the name of an older file that still exists. Old files may
     * be deleted a little later or only at the next rewriting, or writing the new ones failed. */
    int (*compacted)(struct store *s, struct err *e);
    void (*close)(struct store *s);
};
struct store {
    const struct store_ops *ops;
};

/* Opens the store, and creates it if it is missing. memory: limit in bytes for all its buffers (the
 * indexes and filters of its files come on top: store_space); 0: RocksDB's defaults (up to 600
 * MiB). */
int store_rocks_open(const char *dir, uint64_t memory, struct store **out, struct err *e);
/* opens it read-only, such as a checkpoint */
int store_rocks_open_copy(const char *dir, struct store **out, struct err *e);
/* The same for files that were just verified by a checksum of the whole: RocksDB's own checksums,
 * which take as long as all the rest of reading a value, are not checked. */
int store_rocks_open_verified(const char *dir, struct store **out, struct err *e);
int store_mem_open(struct store **out);

/* ok: the item has a valid key. below: its key is before another's, bytewise. */
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
/* The range may be empty but not reversed; NULL: no limit at that end. */
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
/* Visits every pair. */
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
static inline struct store_load store_load(struct store *s)
{
    struct store_load out;
    s->ops->load(s, &out);
    return out;
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
