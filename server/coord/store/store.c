/* store.c: the interface, and the values in memory. */
#include "server/coord/store/store.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    char key[COORD_KEY_MAX];
    void *value; /* owned */
    size_t bytes;
};

struct entries {
    struct entry *entry; /* owned; sorted by key */
    size_t count, capacity;
    uint64_t bytes; /* all keys and values */
};

struct coord_store {
    struct coord_store *whole; /* borrowed: the store that this is a part of, without entries of its
                                * own; or NULL */
    char prefix[16];
    struct entries values;
    struct coord_keep *keep; /* owned; NULL: the values are in memory alone */
    struct entries changed;  /* for the keep: keys that have changed since the last transaction */
    bool sync;               /* one of them is to be synced */
    uint64_t owner, begun, complete;
    coord_store_told told; /* NULL: no watcher */
    void *context;
};

/* Returns the store that has a key, and the key there. */
static struct coord_store *store_of(struct coord_store *s, const char *key,
                                    char full[COORD_KEY_MAX])
{
    int n = snprintf(full, COORD_KEY_MAX, "%s%s", s->prefix, key);
    SHOAL_ASSERT(key[0] != 0 && n > 0 && (uint32_t)n < COORD_KEY_MAX); /* otherwise it would be
                                                                        * another key */
    return s->whole == NULL ? s : s->whole;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Index of the first entry whose key is not below `key`; *found tells whether it is that key. */
static size_t entry_find(const struct entries *s, const char *key, bool *found)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(s->entry[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < s->count && strcmp(s->entry[low].key, key) == 0;
    SHOAL_ASSERT(low == 0 || strcmp(s->entry[low - 1].key, key) < 0);
    SHOAL_ASSERT(low == s->count || strcmp(s->entry[low].key, key) >= 0);
    return low;
}

/* Makes the entry of a key hold a copy of the value. */
static int entry_put(struct entries *s, const char *key, const void *value, size_t bytes,
                     struct err *e)
{
    bool found;
    size_t at = entry_find(s, key, &found);
    void *copy = malloc(MAX(bytes, 1));
    if (copy == NULL || (!found && array_room(&s->entry, s->count, &s->capacity, 64) != 0)) {
        free(copy);
        return err_set(e, SHOAL_E_NOMEM, "no memory to store '%s'", key);
    }
    SHOAL_ASSERT(s->count + !found <= s->capacity);
    if (bytes > 0)
        memcpy(copy, value, bytes);
    s->bytes += bytes;
    if (found) {
        s->bytes -= s->entry[at].bytes;
        free(s->entry[at].value);
    } else {
        s->bytes += strlen(key);
        memmove(s->entry + at + 1, s->entry + at, (s->count - at) * sizeof *s->entry);
        s->count++;
        memset(s->entry[at].key, 0, COORD_KEY_MAX);
        memcpy(s->entry[at].key, key, strlen(key));
    }
    s->entry[at].value = copy;
    s->entry[at].bytes = bytes;
    SHOAL_ASSERT(at < s->count && strcmp(s->entry[at].key, key) == 0);
    return 0;
}

static void entry_remove(struct entries *s, const char *key)
{
    bool found;
    size_t at = entry_find(s, key, &found);
    if (!found)
        return;
    s->bytes -= s->entry[at].bytes + strlen(key);
    free(s->entry[at].value);
    s->count--;
    memmove(s->entry + at, s->entry + at + 1, (s->count - at) * sizeof *s->entry);
}

static void entries_clear(struct entries *s)
{
    while (s->count > 0)
        free(s->entry[--s->count].value);
    s->bytes = 0;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Notes the key for the next transaction. */
static int change_note(struct coord_store *s, const char *key, bool sync, struct err *e)
{
    if (s->keep == NULL)
        return 0;
    s->sync |= sync;
    return entry_put(&s->changed, key, NULL, 0, e);
}

static int value_put(struct coord_store *part, const char *key, const void *value, size_t bytes,
                     bool sync, struct err *e)
{
    char full[COORD_KEY_MAX];
    struct coord_store *s = store_of(part, key, full);
    if (bytes > COORD_VALUE_MAX)
        return err_set(e, SHOAL_E_TOO_BIG, "state '%s' has %zu bytes, at most %u can be stored",
                       key, bytes, COORD_VALUE_MAX);
    int rc = change_note(s, full, sync, e);
    if (rc != 0)
        return rc;
    return entry_put(&s->values, full, value, bytes, e);
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

int coord_store_get(struct coord_store *part, const char *key, void **value, size_t *bytes,
                    struct err *e)
{
    char full[COORD_KEY_MAX];
    const struct entries *s = &store_of(part, key, full)->values;
    bool found;
    size_t at = entry_find(s, full, &found);
    if (!found)
        return SHOAL_E_NOT_FOUND;
    *value = malloc(s->entry[at].bytes + 1);
    if (*value == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to read '%s'", key);
    memcpy(*value, s->entry[at].value, s->entry[at].bytes);
    *bytes = s->entry[at].bytes;
    return 0;
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
    if (stored_bytes == bytes)
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

int coord_store_remove(struct coord_store *part, const char *key, struct err *e)
{
    char full[COORD_KEY_MAX];
    struct coord_store *s = store_of(part, key, full);
    int rc = change_note(s, full, true, e);
    if (rc == 0)
        entry_remove(&s->values, full);
    return rc;
}

int coord_store_failed(struct err *e)
{
    return err_set(e, SHOAL_E_IO, "the coordinator's store failed");
}

int coord_store_visit(struct coord_store *part, coord_store_visitor visit, void *context)
{
    const struct entries *s = &(part->whole == NULL ? part : part->whole)->values;
    size_t prefix = strlen(part->prefix);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->count; i++) {
        const struct entry *at = &s->entry[i];
        SHOAL_ASSERT(i == 0 || strcmp(at[-1].key, at->key) < 0);
        if (strncmp(at->key, part->prefix, prefix) == 0)
            rc = visit(context, at->key + prefix, at->value, at->bytes);
    }
    return rc;
}

/* ---- transactions ---------------------------------------------------------------------------- */

/* Returns the changes since the last transaction; the values are the store's. NULL: no memory. */
static struct coord_change *changes_make(const struct coord_store *s)
{
    struct coord_change *change = calloc(s->changed.count, sizeof *change);
    bool found;
    for (size_t i = 0; change != NULL && i < s->changed.count; i++) {
        change[i].key = s->changed.entry[i].key;
        size_t at = entry_find(&s->values, change[i].key, &found);
        if (!found)
            continue;
        change[i].value = s->values.entry[at].value;
        change[i].bytes = s->values.entry[at].bytes;
    }
    return change;
}

int coord_store_commit(struct coord_store *s, struct err *e)
{
    SHOAL_ASSERT(s->whole == NULL);
    if (s->changed.count == 0)
        return 0;
    struct coord_change *change = changes_make(s);
    if (change == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to store %zu changes", s->changed.count);

    const struct coord_transaction t = {s->owner, change, s->changed.count, s->sync};
    int rc = s->keep->begin(s->keep, &t, e);
    free(change);
    entries_clear(&s->changed);
    s->sync = false;
    s->begun++;
    SHOAL_ASSERT(rc != 0 || s->complete + 1 == s->begun); /* they end in order */
    s->complete += rc == 0;
    return rc == SHOAL_E_AGAIN ? 0 : rc;
}

uint64_t coord_store_newest(const struct coord_store *s)
{
    return s->begun + (s->changed.count > 0);
}

uint64_t coord_store_complete(const struct coord_store *s)
{
    return s->complete;
}

uint64_t coord_store_bytes(const struct coord_store *s, uint64_t *kept)
{
    SHOAL_ASSERT(s->whole == NULL);
    *kept = 0;
    if (s->keep != NULL && s->keep->bytes != NULL)
        *kept = s->keep->bytes(s->keep);
    return s->values.bytes;
}

void coord_store_done(struct coord_store *s, int rc, const struct err *e)
{
    SHOAL_ASSERT(s->complete < s->begun);
    s->complete += rc == 0;
    if (s->told != NULL)
        s->told(s->context, rc, e);
}

int coord_store_own(struct coord_store *s, struct err *e)
{
    int rc = coord_store_get_fixed(s, COORD_STORE_OWNER, &s->owner, sizeof s->owner, e);
    if (rc != 0 && rc != SHOAL_E_NOT_FOUND)
        return rc;
    uint64_t owner = s->owner + 1;
    rc = coord_store_put(s, COORD_STORE_OWNER, &owner, sizeof owner, e);
    if (rc == 0)
        rc = coord_store_commit(s, e);
    s->owner = owner;
    return rc;
}

bool coord_store_owned(const struct coord_store *s)
{
    return s->keep == NULL || s->keep->owned == NULL || s->keep->owned(s->keep);
}

void coord_store_watch(struct coord_store *s, coord_store_told told, void *context)
{
    s->told = told;
    s->context = context;
}

/* ---- stores ---------------------------------------------------------------------------------- */

struct coord_store *coord_store_memory(void)
{
    return calloc(1, sizeof(struct coord_store));
}

struct coord_store *coord_store_part(struct coord_store *whole, const char *prefix)
{
    struct coord_store *s = coord_store_memory();
    SHOAL_ASSERT(whole->whole == NULL && strlen(prefix) < sizeof s->prefix);
    if (s == NULL)
        return NULL;
    s->whole = whole;
    memcpy(s->prefix, prefix, strlen(prefix));
    return s;
}

void coord_store_keep(struct coord_store *s, struct coord_keep *k)
{
    SHOAL_ASSERT(s->whole == NULL);
    s->keep = k;
}

void coord_store_close(struct coord_store *s)
{
    if (s == NULL)
        return;
    if (s->keep != NULL)
        s->keep->close(s->keep);
    entries_clear(&s->values);
    entries_clear(&s->changed);
    free(s->values.entry);
    free(s->changed.entry);
    free(s);
}
