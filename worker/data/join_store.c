/* join_store.c: rows of a join on disk.
 *
 * 1. What was put is seen, whether it is written yet or not: ranges are read when all is.
 *    [assert: join_store_rows] [test: join_ids_of_one_hash_are_told_apart] */
#include "worker/data/join_store.h"

#include "proto/base/assert.h"
#include "proto/base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static size_t number_put(char *to, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = (char)(value >> 8 * (bytes - 1 - i));
    return bytes;
}

struct store_item join_store_key(char kind, uint64_t high, uint32_t high_bytes, uint64_t low,
                                 uint32_t low_bytes)
{
    struct store_item k = {.key = {kind}, .key_bytes = 1};
    SHOAL_ASSERT(1 + high_bytes + low_bytes <= sizeof k.key);
    k.key_bytes += number_put(k.key + k.key_bytes, high, high_bytes);
    k.key_bytes += number_put(k.key + k.key_bytes, low, low_bytes);
    return k;
}

void join_store_init(struct join_store *s, const char *dir, uint64_t memory)
{
    SHOAL_ASSERT(strlen(dir) < sizeof s->dir && memory > 0);
    s->store = NULL;
    s->memory = memory;
    s->items = 0;
    s->written = 0;
    (void)snprintf(s->dir, sizeof s->dir, "%s", dir);
}

void join_store_use(struct join_store *s, struct store *store)
{
    SHOAL_ASSERT(s->store == NULL);
    s->store = store;
}

void join_store_close(struct join_store *s)
{
    store_close(s->store);
    s->store = NULL;
    s->items = 0;
}

static int opened(struct join_store *s, struct err *e)
{
    char failed[LIMIT_PATH];
    if (s->store != NULL)
        return 0;
    /* what a crash has left is not what is known now */
    if (file_remove_tree(s->dir) != 0 || file_make_folders(s->dir, 0700, failed) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "%s: %s; free some space or set data.cache", s->dir,
                       strerror(errno));
    return store_rocks_open(s->dir, s->memory, &s->store, e);
}

/* A flush begins when a quarter of the memory is written: with the one before it still going on,
 * and what comes meanwhile, it stays below. */
static int written(struct join_store *s, struct err *e)
{
    int rc = s->items > 0 ? store_write(s->store, s->item, s->items, e) : 0;
    s->items = 0;
    if (rc != 0 || store_written(s->store) - s->written < s->memory / 4)
        return rc;
    s->written = store_written(s->store);
    return s->store->ops->flush_begin(s->store, e);
}

int join_store_put(struct join_store *s, const struct store_item *key, const void *value,
                   size_t bytes, struct err *e)
{
    int rc = opened(s, e);
    if (rc != 0)
        return rc;
    SHOAL_ASSERT(bytes <= sizeof s->value[0] && s->items < JOIN_BATCH);
    s->item[s->items] = *key;
    s->item[s->items].value = NULL;
    if (value != NULL) {
        memcpy(&s->value[s->items], value, bytes);
        s->item[s->items].value = &s->value[s->items];
        s->item[s->items].value_bytes = bytes;
    }
    return ++s->items == JOIN_BATCH ? written(s, e) : 0;
}

/* The last that was put of a key and is not written yet; NULL: nothing is. */
static const struct store_item *gathered(const struct join_store *s, const struct store_item *key)
{
    for (uint32_t i = s->items; i-- > 0;)
        if (s->item[i].key_bytes == key->key_bytes &&
            memcmp(s->item[i].key, key->key, key->key_bytes) == 0)
            return &s->item[i];
    return NULL;
}

int join_store_get(struct join_store *s, const struct store_item *key, void *value, size_t bytes,
                   bool *found, struct err *e)
{
    size_t size = 0;
    const struct store_item *last = gathered(s, key);
    *found = last != NULL && last->value != NULL && last->value_bytes == bytes;
    if (*found)
        memcpy(value, last->value, bytes);
    if (last != NULL || s->store == NULL)
        return 0;
    int rc = store_get(s->store, key, 1, value, bytes, &size, e);
    *found = rc == 0 && size == bytes;
    return rc;
}

struct rows_read {
    struct join_row *out;
    uint32_t most, count;
};

static int row_see(void *context, const void *key, size_t key_bytes, const void *value,
                   size_t value_bytes, struct err *e)
{
    struct rows_read *r = context;
    (void)key, (void)key_bytes;
    if (value_bytes != sizeof *r->out)
        return err_set(e, SHOAL_E_CORRUPT,
                       "a join's row on disk has %zu bytes, not %zu; remove data.cache and start "
                       "again",
                       value_bytes, sizeof *r->out);
    memcpy(&r->out[r->count++], value, sizeof *r->out);
    return r->count == r->most ? SHOAL_E_END : 0;
}

int join_store_rows(struct join_store *s, const struct store_item *from,
                    const struct store_item *below, struct join_row *out, uint32_t most,
                    uint32_t *count, struct err *e)
{
    struct rows_read r = {out, most, 0};
    int rc = s->store != NULL ? written(s, e) : 0;
    *count = 0;
    if (rc != 0 || s->store == NULL)
        return rc;
    SHOAL_ASSERT(s->items == 0 && most > 0); /* 1 */
    rc = store_range(s->store, from, below, row_see, &r, e);
    *count = r.count;
    return rc == SHOAL_E_END ? 0 : rc;
}

int join_store_copy(struct join_store *s, const char *dir, struct err *e)
{
    if (s->store == NULL)
        return 0;
    int rc = written(s, e);
    return rc == 0 ? store_checkpoint(s->store, dir, e) : rc;
}

struct load {
    struct join_store *to;
    void (*see)(void *context, const void *key, size_t bytes);
    void *context;
};

static int pair_see(void *context, const void *key, size_t key_bytes, const void *value,
                    size_t value_bytes, struct err *e)
{
    struct load *l = context;
    struct store_item item = {.key_bytes = key_bytes};
    if (key_bytes > sizeof item.key || value_bytes > sizeof(struct join_row))
        return err_set(e, SHOAL_E_CORRUPT, "%s: a pair of %zu and %zu bytes is none of a join's",
                       l->to->dir, key_bytes, value_bytes);
    memcpy(item.key, key, key_bytes);
    if (l->see != NULL)
        l->see(l->context, key, key_bytes);
    return join_store_put(l->to, &item, value, value_bytes, e);
}

int join_store_load(struct join_store *s, const char *dir,
                    void (*see)(void *context, const void *key, size_t bytes), void *context,
                    struct err *e)
{
    struct load l = {s, see, context};
    struct store *from;
    int rc = store_rocks_open_copy(dir, &from, e);
    if (rc != 0)
        return rc;
    rc = store_scan(from, pair_see, &l, e);
    store_close(from);
    return rc;
}
