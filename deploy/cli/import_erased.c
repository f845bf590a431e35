/* import_erased.c: the keys that a difference (`shoal export --since`) lists as erased: an array
 * TABLE.erased, in pieces TABLE.erased.00000 and so on in a large safetensors export, or a file of
 * text. Applied to a table that has the rows of the older export, their rows go. */
#include "deploy/cli/import.h"
#include "deploy/cli/import_files.h"
#include "proto/base/array.h"
#include "proto/base/key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 4096, FIRST = 4096, KEY_TEXT = 18 }; /* 0x and 16 digits */

static int key_add(struct import_erased *x, uint64_t key, struct err *e)
{
    if (array_room(&x->key, x->count, &x->room, FIRST) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for more than %zu erased keys", x->count);
    x->key[x->count++] = key;
    return 0;
}

/* ---- text ------------------------------------------------------------------------------------ */

static bool key_read(const char *at, size_t bytes, uint64_t *out)
{
    char text[KEY_TEXT + 1], *stop;
    if (bytes < KEY_TEXT || memcmp(at, "0x", 2) != 0)
        return false;
    memcpy(text, at, KEY_TEXT);
    text[KEY_TEXT] = 0;
    *out = strtoull(text + 2, &stop, 16);
    return strspn(text + 2, "0123456789abcdef") == KEY_TEXT - 2 &&
           (bytes == KEY_TEXT || at[KEY_TEXT] == '\t' || at[KEY_TEXT] == ',');
}

int import_erased_text(struct import_erased *x, const char *text, size_t bytes, struct err *e)
{
    const char *at = text, *end = text + bytes;
    for (uint64_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        uint64_t key;
        if (stop == NULL)
            stop = end;
        if (line > 1 && !key_read(at, (size_t)(stop - at), &key))
            return err_set(e, SHOAL_E_DATA, "line %" PRIu64 ": it does not begin with a key (0x..)",
                           line);
        int rc = line > 1 ? key_add(x, key, e) : 0; /* names of columns come first */
        if (rc != 0)
            return rc;
        at = stop < end ? stop + 1 : end;
    }
    return 0;
}

static int file_read(struct import_erased *x, const char *folder, const char *name, struct err *e)
{
    char path[LIMIT_PATH];
    struct import_file file;
    if (strchr(name, '/') != NULL || strlen(folder) > LIMIT_PATH - 300 || strlen(name) > 255)
        return err_set(e, SHOAL_E_DATA, "%s names a file '%.100s', which is none of the folder",
                       folder, name);
    (void)snprintf(path, sizeof path, "%.*s/%.255s", LIMIT_PATH - 300, folder, name);
    int rc = import_file_open(path, &file, e);
    if (rc != 0)
        return rc;
    rc = import_erased_text(x, file.data, file.bytes, e);
    import_file_close(&file);
    return rc == 0 ? 0 : err_wrap(e, rc, "%s", path);
}

/* The file of the table's erased keys in export.json; NULL: it is not one of text. */
static const char *text_file(const struct json *about, const char *table)
{
    const char *format = json_get_string(about, "format", "");
    const struct json *tables = json_get(about, "tables");
    if (strcmp(format, "tsv") != 0 && strcmp(format, "csv") != 0)
        return NULL;
    for (size_t i = 0; i < json_count(tables); i++) {
        const struct json *t = json_array_at(tables, i);
        if (strcmp(json_get_string(t, "name", ""), table) == 0)
            return json_get_string(t, "arrays.1.file", "");
    }
    return "";
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static int array_read(struct import_erased *x, const struct tensor_in *in, struct err *e)
{
    bool negative;
    if (in->tensor.type != TENSOR_U64 || in->tensor.rank != 1)
        return err_set(e, SHOAL_E_DATA, "%s: erased keys of an export are U64 in one dimension",
                       in->path);
    int rc = 0;
    for (uint64_t i = 0; i < in->tensor.elements && rc == 0; i++)
        rc = key_add(x, tensor_integer(&in->tensor, in->data, i, &negative), e);
    return rc;
}

static int arrays_read(struct import_erased *x, struct import_files *f, const char *table,
                       struct err *e)
{
    char name[TENSOR_NAME];
    struct tensor_in in;
    (void)snprintf(name, sizeof name, "%.63s.erased", table);
    int rc = import_files_find(f, name, &in, e);
    if (rc == 0)
        return array_read(x, &in, e);
    for (uint32_t i = 0; rc >= 0 && i < PIECES; i++) {
        (void)snprintf(name, sizeof name, "%.63s.erased.%05u", table, i);
        rc = import_files_find(f, name, &in, e);
        if (rc == 1)
            return 0;
        if (rc == 0)
            rc = array_read(x, &in, e);
    }
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int erased_read(struct import_erased *x, struct import_files *f, const char *table,
                       struct err *e)
{
    const struct json *since = json_get(f->about, "since");
    x->difference = json_members(since) > 0;
    if (f->about != NULL && !x->difference)
        return 0;
    const char *text = f->about != NULL ? text_file(f->about, table) : NULL;
    if (text == NULL)
        return arrays_read(x, f, table, e);
    if (text[0] == 0)
        return err_set(e, SHOAL_E_DATA,
                       "%s: export.json names no file of the keys that were erased "
                       "from table %s",
                       f->what, table);
    return file_read(x, f->what, text, e);
}

int import_erased_read(const struct import_line *l, struct import_erased *out, struct err *e)
{
    struct import_line line = *l;
    struct import_files files = {.count = 0};
    *out = (struct import_erased){.count = 0};
    line.fields = NULL;
    if (l->schema->dense || l->path == NULL || l->ids != NULL || import_is_text(l->path))
        return 0;
    int rc = import_files_open(&files, &line, e);
    if (rc == 0 && files.exported)
        rc = erased_read(out, &files, l->schema->name, e);
    out->difference = out->difference || out->count > 0;
    if (out->count > 0)
        qsort(out->key, out->count, sizeof *out->key, key_by_mixed);
    import_files_close(&files);
    json_free(line.fields);
    return rc;
}

void import_erased_free(struct import_erased *x)
{
    free(x->key);
    *x = (struct import_erased){.count = 0};
}
