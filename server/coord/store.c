/* store.c: the interface and its filling in memory. */
#include "server/coord/store.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/plant.h"

#include <stdlib.h>
#include <string.h>

/* Another key could be written, and the store not be read again. */
static void key_assert(const char *key)
{
    SHOAL_ASSERT(key[0] != 0);
    SHOAL_ASSERT(strlen(key) < COORD_KEY_MAX);
}

static int value_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                     bool sync, struct err *e)
{
    key_assert(key);
    if (bytes > COORD_VALUE_MAX)
        return err_set(e, SHOAL_E_TOO_BIG, "state '%s' has %zu bytes, at most %u can be stored",
                       key, bytes, COORD_VALUE_MAX);
    return s->ops->put(s, key, value, bytes, sync, e);
}

int coord_store_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                    struct err *e)
{
    return value_put(s, key, value, bytes, true, e);
}

int coord_store_note(struct coord_store *s, const char *key, const void *value, size_t bytes,
                     struct err *e)
{
    return value_put(s, key, value, bytes, false, e);
}

int coord_store_get(struct coord_store *s, const char *key, void **value, size_t *bytes,
                    struct err *e)
{
    key_assert(key);
    return s->ops->get(s, key, value, bytes, e);
}

int coord_store_get_fixed(struct coord_store *s, const char *key, void *value, size_t bytes,
                          struct err *e)
{
    void *stored;
    size_t stored_bytes;
    SHOAL_ASSERT(bytes <= COORD_VALUE_MAX);
    int rc = coord_store_get(s, key, &stored, &stored_bytes, e);
    if (rc != 0)
        return rc;
    if (stored_bytes == bytes || (PLANTED("longer_than_asked") && stored_bytes > bytes))
        memcpy(value, stored, bytes);
    else
        rc = err_set(
            e, SHOAL_E_CORRUPT,
            "store: '%s' has %zu bytes, this version writes %zu: another version wrote it, or it "
            "is damaged. Go on with the version that wrote it, or with a checkpoint in a "
            "cluster whose data_dirs, the servers' too, are empty: shoal submit JOB --resume "
            "CHECKPOINT. An empty data_dir here alone would number the servers anew and lose "
            "their rows",
            key, stored_bytes, bytes);
    free(stored);
    return rc;
}

int coord_store_remove(struct coord_store *s, const char *key, struct err *e)
{
    key_assert(key);
    return s->ops->remove(s, key, e);
}

int coord_store_visit(struct coord_store *s, coord_store_visitor visit, void *context)
{
    return s->ops->visit(s, visit, context);
}

void coord_store_close(struct coord_store *s)
{
    if (s != NULL)
        s->ops->close(s);
}

/* ---- in memory: entries sorted by key -------------------------------------------------------- */

struct entry {
    char key[COORD_KEY_MAX];
    void *value; /* owned */
    size_t bytes;
};

struct memory_store {
    struct coord_store base;
    struct entry *entry; /* owned */
    size_t count, capacity;
};

/* Index of the first entry whose key is not below `key`; *found tells whether it is that key. */
static size_t memory_find(const struct memory_store *m, const char *key, int *found)
{
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(m->entry[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < m->count && strcmp(m->entry[low].key, key) == 0;
    SHOAL_ASSERT(low == 0 || strcmp(m->entry[low - 1].key, key) < 0);
    SHOAL_ASSERT(low == m->count || strcmp(m->entry[low].key, key) >= 0);
    return low;
}

static int memory_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                      bool sync, struct err *e)
{
    (void)sync;
    struct memory_store *m = container_of(s, struct memory_store, base);
    int found;
    size_t at = memory_find(m, key, &found);
    void *copy = malloc(bytes == 0 ? 1 : bytes);

    if (copy == NULL || (!found && array_room(&m->entry, m->count, &m->capacity, 64) != 0)) {
        free(copy);
        return err_set(e, SHOAL_E_NOMEM, "no memory to store '%s'", key);
    }
    SHOAL_ASSERT(m->count + !found <= m->capacity);
    if (bytes > 0)
        memcpy(copy, value, bytes);
    if (found) {
        free(m->entry[at].value);
    } else {
        memmove(m->entry + at + 1, m->entry + at, (m->count - at) * sizeof *m->entry);
        m->count++;
        memset(m->entry[at].key, 0, COORD_KEY_MAX);
        memcpy(m->entry[at].key, key, strlen(key));
    }
    m->entry[at].value = copy;
    m->entry[at].bytes = bytes;
    SHOAL_ASSERT(at < m->count && strcmp(m->entry[at].key, key) == 0);
    return 0;
}

static int memory_get(struct coord_store *s, const char *key, void **value, size_t *bytes,
                      struct err *e)
{
    struct memory_store *m = container_of(s, struct memory_store, base);
    int found;
    size_t at = memory_find(m, key, &found);
    if (!found)
        return SHOAL_E_NOT_FOUND;
    *value = malloc(m->entry[at].bytes + 1);
    if (*value == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to read '%s'", key);
    memcpy(*value, m->entry[at].value, m->entry[at].bytes);
    *bytes = m->entry[at].bytes;
    return 0;
}

static int memory_remove(struct coord_store *s, const char *key, struct err *e)
{
    struct memory_store *m = container_of(s, struct memory_store, base);
    int found;
    size_t at = memory_find(m, key, &found);
    (void)e;
    if (found) {
        free(m->entry[at].value);
        m->count--;
        memmove(m->entry + at, m->entry + at + 1, (m->count - at) * sizeof *m->entry);
    }
    return 0;
}

static void memory_close(struct coord_store *s)
{
    struct memory_store *m = container_of(s, struct memory_store, base);
    for (size_t i = 0; i < m->count; i++)
        free(m->entry[i].value);
    free(m->entry);
    free(m);
}

static int memory_visit(struct coord_store *s, coord_store_visitor visit, void *context)
{
    const struct memory_store *m = container_of(s, struct memory_store, base);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->count; i++) {
        SHOAL_ASSERT(i == 0 || strcmp(m->entry[i - 1].key, m->entry[i].key) < 0);
        rc = visit(context, m->entry[i].key, m->entry[i].value, m->entry[i].bytes);
    }
    return rc;
}

static const struct coord_store_ops memory_ops = {memory_put, memory_get, memory_remove,
                                                  memory_close, memory_visit};

struct coord_store *coord_store_memory(void)
{
    struct memory_store *m = calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    m->base.ops = &memory_ops;
    return &m->base;
}
