/* store_mem.c: the row store in memory, a sorted array of pairs, for cuts of a shard without a
 * folder and for tests. */
#include "embedding/store.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct pair {
    char key[16];
    size_t key_bytes;
    void *value; /* owned */
    size_t value_bytes;
};

struct store_mem {
    struct store base;
    struct pair *pair; /* owned; sorted */
    size_t count, capacity;
};

static int compare(const struct pair *p, const void *key, size_t key_bytes)
{
    size_t n = key_bytes;
    if (p->key_bytes < key_bytes)
        n = p->key_bytes;
    int c = memcmp(p->key, key, n);

    if (c != 0)
        return c;

    return (p->key_bytes > key_bytes) - (p->key_bytes < key_bytes);
}

/* Position of the first pair that is not below the key. */
static size_t lower_bound(const struct store_mem *s, const void *key, size_t key_bytes)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (compare(&s->pair[mid], key, key_bytes) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* True when the pair is in order with its neighbours. */
static bool sorted_at(const struct store_mem *s, size_t at)
{
    const struct pair *p = &s->pair[at];
    return (at == 0 || compare(p - 1, p->key, p->key_bytes) < 0) &&
           (at + 1 >= s->count || compare(p + 1, p->key, p->key_bytes) > 0);
}

static int put(struct store_mem *s, const struct store_item *item, struct err *e)
{
    void *value = malloc(item->value_bytes + 1);
    if (value == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %zu bytes of rows", item->value_bytes);
    memcpy(value, item->value, item->value_bytes);
    size_t at = lower_bound(s, item->key, item->key_bytes);
    if (at < s->count && compare(&s->pair[at], item->key, item->key_bytes) == 0) {
        free(s->pair[at].value);
    } else {
        if (array_room(&s->pair, s->count, &s->capacity, 64) != 0) {
            free(value);
            return err_set(e, SHOAL_E_NOMEM, "no memory for %zu stored values", s->count + 1);
        }
        memmove(&s->pair[at + 1], &s->pair[at], (s->count - at) * sizeof *s->pair);
        s->count++;
        s->pair[at].key_bytes = item->key_bytes;
        memcpy(s->pair[at].key, item->key, item->key_bytes);
    }
    SHOAL_ASSERT(s->count <= s->capacity && sorted_at(s, at));
    s->pair[at].value = value;
    s->pair[at].value_bytes = item->value_bytes;
    return 0;
}

static void take_out(struct store_mem *s, const struct store_item *item)
{
    size_t at = lower_bound(s, item->key, item->key_bytes);
    if (at == s->count || compare(&s->pair[at], item->key, item->key_bytes) != 0)
        return;
    SHOAL_ASSERT(sorted_at(s, at));
    free(s->pair[at].value);
    memmove(&s->pair[at], &s->pair[at + 1], (--s->count - at) * sizeof *s->pair);
}

static int mem_write(struct store *base, const struct store_item *items, size_t count,
                     struct err *e)
{
    for (size_t i = 0; i < count; i++) {
        int rc = 0;
        if (items[i].value == NULL)
            take_out(container_of(base, struct store_mem, base), &items[i]);
        else
            rc = put(container_of(base, struct store_mem, base), &items[i], e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int mem_flush(struct store *base, struct err *e)
{
    (void)base, (void)e;
    return 0;
}

static int mem_range(struct store *base, const struct store_item *from,
                     const struct store_item *below, store_visit visit, void *context,
                     struct err *e)
{
    struct store_mem *s = container_of(base, struct store_mem, base);
    size_t first = 0;
    if (from != NULL)
        first = lower_bound(s, from->key, from->key_bytes);

    size_t end = s->count;
    if (below != NULL)
        end = lower_bound(s, below->key, below->key_bytes);
    SHOAL_ASSERT(end <= s->count && first <= end);
    for (size_t i = first; i < end; i++) {
        int rc = visit(context, s->pair[i].key, s->pair[i].key_bytes, s->pair[i].value,
                       s->pair[i].value_bytes, e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int mem_get(struct store *base, const struct store_item *keys, size_t count, void *values,
                   size_t bytes, size_t *sizes, struct err *e)
{
    const struct store_mem *s = container_of(base, struct store_mem, base);
    (void)e;
    for (size_t i = 0; i < count; i++) {
        size_t at = lower_bound(s, keys[i].key, keys[i].key_bytes);
        bool there = at < s->count && compare(&s->pair[at], keys[i].key, keys[i].key_bytes) == 0;
        sizes[i] = 0;
        if (there)
            sizes[i] = s->pair[at].value_bytes;

        if (there && sizes[i] == bytes)
            memcpy((char *)values + i * bytes, s->pair[at].value, bytes);
    }
    return 0;
}

static int mem_drop(struct store *base, const struct store_item *from,
                    const struct store_item *below, struct err *e)
{
    struct store_mem *s = container_of(base, struct store_mem, base);
    (void)e;
    size_t first = lower_bound(s, from->key, from->key_bytes),
           end = lower_bound(s, below->key, below->key_bytes);
    SHOAL_ASSERT(end <= s->count && first <= end);
    for (size_t i = first; i < end; i++)
        free(s->pair[i].value);
    if (end > first)
        memmove(&s->pair[first], &s->pair[end], (s->count - end) * sizeof *s->pair);
    s->count -= end > first ? end - first : 0;
    return 0;
}

static int mem_checkpoint(struct store *base, const char *dir, struct err *e)
{
    (void)base;
    return err_set(e, SHOAL_E_CANTCREATE, "rows kept in memory cannot be linked into %s", dir);
}

static void mem_close(struct store *base)
{
    struct store_mem *s = container_of(base, struct store_mem, base);
    for (size_t i = 0; i < s->count; i++)
        free(s->pair[i].value);
    free(s->pair);
    free(s);
}

static void mem_space(struct store *base, struct store_space *out)
{
    (void)base;
    *out = (struct store_space){0};
}

static void mem_load(struct store *base, struct store_load *out)
{
    (void)base;
    *out = (struct store_load){0};
}

static uint64_t mem_written(struct store *base)
{
    (void)base;
    return 0;
}

static int mem_tidy(struct store *base, const struct store_item *from,
                    const struct store_item *below, struct err *e)
{
    (void)base;
    (void)from;
    (void)below;
    (void)e;
    return 0;
}

static const struct store_ops mem_ops = {.write = mem_write,
                                         .flush = mem_flush,
                                         .flush_begin = mem_flush,
                                         .range = mem_range,
                                         .get = mem_get,
                                         .drop = mem_drop,
                                         .checkpoint = mem_checkpoint,
                                         .space = mem_space,
                                         .written = mem_written,
                                         .load = mem_load,
                                         .tidy = mem_tidy,
                                         .compact = mem_flush,
                                         .compacted = mem_flush,
                                         .close = mem_close};

int store_mem_open(struct store **out)
{
    struct store_mem *s = calloc(1, sizeof *s);
    if (s == NULL)
        return SHOAL_E_NOMEM;
    s->base.ops = &mem_ops;
    *out = &s->base;
    return 0;
}
