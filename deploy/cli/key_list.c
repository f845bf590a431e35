/* key_list.c: reads lists of keys. */
#include "deploy/cli/key_list.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int key_add(struct key_list *k, uint64_t key, size_t most, struct err *e)
{
    if (k->count == most)
        return err_set(e, SHOAL_E_TOO_BIG, "more than %zu keys; give them in several goes", most);
    if (array_room(&k->key, k->count, &k->room, 1024) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %zu keys", k->count + 1);
    k->key[k->count++] = key;
    return 0;
}

/* ---- a file ---------------------------------------------------------------------------------- */

/* Reads a line without its end to line (LIMIT_LINE_BYTES + 1). *more is false, and the line empty,
 * behind the last one. A line with a NUL is no text: it would be cut there. */
static int line_read(FILE *f, char *line, bool *more, struct err *e)
{
    size_t bytes = 0;
    int c;
    while ((c = getc_unlocked(f)) != EOF && c != '\n') {
        if (c == 0)
            return err_set(e, SHOAL_E_DATA, "a NUL in it: the file is to be plain text");
        if (bytes == LIMIT_LINE_BYTES)
            return err_set(e, SHOAL_E_DATA, "longer than %u bytes, as no line of an input is",
                           LIMIT_LINE_BYTES);
        line[bytes++] = (char)c;
    }
    *more = c != EOF || bytes > 0;
    if (bytes > 0 && line[bytes - 1] == '\r')
        bytes--;
    line[bytes] = 0;
    return 0;
}

/* Takes one line; *more: as for line_read. */
static int line_take(FILE *f, char *line, struct key_place *at, const char *field, size_t most,
                     struct key_list *out, bool *more, struct err *e)
{
    uint64_t key;
    int rc = line_read(f, line, more, e);
    if (rc != 0 || line[0] == 0)
        return rc;
    if (field != NULL)
        rc = key_take(at, NULL, field, line, &key, e);
    else
        rc = key_take(at, line, NULL, NULL, &key, e);
    if (rc != 0)
        return rc;
    return key_add(out, key, most, e);
}

int key_list_read(FILE *f, const char *path, struct key_place *at, const char *field, size_t most,
                  struct key_list *out, struct err *e)
{
    char *line = malloc(LIMIT_LINE_BYTES + 1);
    bool more = true;
    int rc = 0;
    if (line == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (uint64_t number = 1; rc == 0 && more; number++) {
        rc = line_take(f, line, at, field, most, out, &more, e);
        if (rc != 0)
            (void)err_wrap(e, rc, "%s:%" PRIu64, path, number);
    }
    if (rc == 0 && ferror(f)) /* otherwise the rest of the keys would be left out */
        rc = err_set(e, SHOAL_E_IO, "cannot read %s: %s", path, strerror(errno));
    free(line);
    return rc;
}

static int file_take(const char *path, struct key_place *at, const char *field, size_t most,
                     struct key_list *out, struct err *e)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return err_set(e, SHOAL_E_NOINPUT, "cannot read %s: %s", path, strerror(errno));
    int rc = key_list_read(f, path, at, field, most, out, e);
    fclose(f);
    if (rc == 0 && out->count == 0)
        return err_set(e, SHOAL_E_DATA, "%s names no key", path);
    return rc;
}

/* ---- the line -------------------------------------------------------------------------------- */

/* Sorts the keys and removes duplicates. */
static void list_sort(struct key_list *k)
{
    size_t unique = 0;
    qsort(k->key, k->count, sizeof k->key[0], key_by_value);
    for (size_t i = 0; i < k->count; i++)
        if (unique == 0 || k->key[unique - 1] != k->key[i])
            k->key[unique++] = k->key[i];
    k->count = unique;
}

int key_list_take(struct option_line *o, struct key_place *at, size_t most, struct key_list *out,
                  struct err *e)
{
    const char *keys = option_text(o, "keys"), *field = option_text(o, "field"),
               *values = option_text(o, "values");
    const struct string_list *few = option_list(o, "value");
    int ways = (keys != NULL) + (values != NULL) + (few->count > 0), rc = 0;
    SHOAL_ASSERT(most > 0 && most <= KEY_LIST_MOST);
    if (ways != 1 || (field != NULL) == (keys != NULL))
        return err_set(e, SHOAL_E_USAGE,
                       "say which keys: --keys FILE, --field NAME and --values FILE, or --field "
                       "NAME and --value TEXT");
    if (keys != NULL)
        rc = file_take(keys, at, NULL, most, out, e);
    else if (values != NULL)
        rc = file_take(values, at, field, most, out, e);
    for (size_t i = 0; i < few->count && rc == 0; i++) {
        uint64_t key;
        rc = key_take(at, NULL, field, few->item[i], &key, e);
        if (rc == 0)
            rc = key_add(out, key, most, e);
    }
    if (rc == 0)
        list_sort(out);
    return rc;
}

void key_list_free(struct key_list *k)
{
    free(k->key);
    *k = (struct key_list){0};
}
