/* export_safetensors.c: the format safetensors: many arrays in one file.
 *
 *     header bytes u64 | header, JSON, ended by blanks at a multiple of 8 | data
 *
 * The header has the offsets of all arrays, so it is known last. Each array is first written to a
 * file of its own, spool-N. A shard is the arrays of one file: when it is full, its header is
 * written, and the spools are appended to it and removed. Arrays lie in a file in descending order
 * of the size of their values, so that each is aligned without gaps, which the format forbids.
 *
 * A table with more rows than a shard takes is divided into pieces, and each piece is whole in one
 * file. Files are named as Hugging Face's are: model.safetensors, or model-00001-of-00002.. with
 * an index. Their number is known last, so they are renamed at the end. */
#include "deploy/cli/export.h"
#include "deploy/cli/export_file.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_NAME = 64 };

struct shard_array {
    struct export_array array;
    uint32_t spool; /* its number */
    uint32_t shard; /* the number of its file, from 1 */
};

struct export_shards {
    struct shard_array *array; /* (count), owned */
    uint32_t count, room;
    uint32_t begun;       /* arrays before this one lie in complete files */
    uint32_t spools;      /* made so far */
    uint32_t files;       /* complete */
    uint64_t bytes;       /* data of the shard that is not complete */
    uint64_t total_bytes; /* bytes of all complete files */
};

void export_free(struct export *x)
{
    if (x->shards != NULL)
        free(x->shards->array);
    free(x->shards);
    x->shards = NULL;
}

static int shards_of(struct export *x, struct export_shards **out, struct err *e)
{
    if (x->shards == NULL)
        x->shards = calloc(1, sizeof *x->shards);
    *out = x->shards;
    if (x->shards == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    return 0;
}

static void spool_name(uint32_t spool, char out[FILE_NAME])
{
    (void)snprintf(out, FILE_NAME, "spool-%u", spool);
}

/* ---- a shard --------------------------------------------------------------------------------- */

static int larger_values_first(const void *a, const void *b)
{
    const struct shard_array *x = a, *y = b;
    uint32_t one = export_type_facts(x->array.type)->bytes,
             other = export_type_facts(y->array.type)->bytes;
    if (one != other)
        return one < other ? 1 : -1;
    return (x->spool > y->spool) - (x->spool < y->spool);
}

/* Returns the header without its length, ended by blanks; the caller frees it. NULL: no memory. */
static char *header_text(const struct export_shards *s, size_t *bytes)
{
    struct json *header = json_new_object(), *about = json_new_object();
    uint64_t at = 0;
    (void)json_set_string(about, "shoal_export", "1");
    (void)json_set(header, "__metadata__", about);
    for (uint32_t i = s->begun; i < s->count; i++) {
        const struct export_array *a = &s->array[i].array;
        struct json *j = json_new_object(), *shape = json_new_array(), *offsets = json_new_array();
        for (uint32_t d = 0; d < a->dims; d++)
            (void)json_append(shape, json_new_int((int64_t)a->shape[d]));
        (void)json_append(offsets, json_new_int((int64_t)at));
        at += export_array_bytes(a);
        (void)json_append(offsets, json_new_int((int64_t)at));
        (void)json_set_string(j, "dtype", export_type_facts(a->type)->name);
        (void)json_set(j, "shape", shape);
        (void)json_set(j, "data_offsets", offsets);
        (void)json_set(header, a->name, j);
    }
    SHOAL_ASSERT(at == s->bytes);
    char *text = json_text(header, 0), *padded = NULL;
    json_free(header);
    if (text != NULL) {
        size_t used = strlen(text);
        *bytes = (used + 7) / 8 * 8;
        padded = realloc(text, *bytes + 1);
        if (padded == NULL)
            free(text);
        else
            memset(padded + used, ' ', *bytes - used);
    }
    return padded;
}

/* Joins the spools of the shard to its file, which has the name of a piece until the end. */
static int shard_close(struct export *x, struct err *e)
{
    struct export_shards *s = x->shards;
    struct export_file *f;
    char name[FILE_NAME], length[8];
    size_t bytes;
    if (s->count > s->begun + 1)
        qsort(s->array + s->begun, s->count - s->begun, sizeof *s->array, larger_values_first);
    char *header = header_text(s, &bytes);
    if (header == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    (void)snprintf(name, sizeof name, "shard-%u", s->files + 1);
    int rc = export_file_open(x->folder, name, 0, &f, e);
    if (rc != 0) {
        free(header);
        return rc;
    }

    for (uint32_t i = 0; i < sizeof length; i++)
        length[i] = (char)(bytes >> (8 * i) & 0xff);
    export_file_add(f, length, sizeof length);
    export_file_add(f, header, bytes);
    free(header);
    s->files++;
    for (; s->begun < s->count; s->begun++) {
        s->array[s->begun].shard = s->files;
        spool_name(s->array[s->begun].spool, name);
        export_file_join(f, x->folder, name);
    }
    s->total_bytes += s->bytes;
    s->bytes = 0;
    return export_file_end(f, NULL, e);
}

/* Makes room for arrays of so many bytes, which must lie in one file. */
static int shard_room(struct export *x, uint64_t bytes, struct err *e)
{
    struct export_shards *s = x->shards;
    if (s->bytes == 0 || s->bytes + bytes <= x->shard_bytes)
        return 0;
    return shard_close(x, e);
}

/* Adds an array whose values are in a spool. */
static int shard_add(struct export *x, const struct export_array *a, uint32_t spool, struct err *e)
{
    struct export_shards *s = x->shards;
    for (uint32_t i = 0; i < s->count; i++)
        if (strcmp(s->array[i].array.name, a->name) == 0)
            return err_set(e, SHOAL_E_CORRUPT,
                           "two arrays would be called %s: name the tables to export, without "
                           "one of them",
                           a->name);
    if (array_room(&s->array, s->count, &s->room, 64) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    s->array[s->count++] = (struct shard_array){.array = *a, .spool = spool};
    s->bytes += export_array_bytes(a);
    return 0;
}

static int spool_open(struct export *x, uint32_t *spool, struct export_file **out, struct err *e)
{
    char name[FILE_NAME];
    *spool = x->shards->spools++;
    spool_name(*spool, name);
    return export_file_open(x->folder, name, 0, out, e);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The spools of the list's piece have consecutive numbers, one a column. */
static int piece_begin(struct export_list *l, struct err *e)
{
    uint32_t spool;
    int rc = 0;
    l->rows = 0;
    l->spool = l->export->shards->spools;
    for (uint32_t i = 0; i < l->layout.columns && rc == 0; i++)
        rc = spool_open(l->export, &spool, &l->file[i], e);
    return rc;
}

/* whole: the list has no other piece. */
static int piece_end(struct export_list *l, bool whole, struct err *e)
{
    int rc = shard_room(l->export, l->rows * l->layout.bytes, e);
    for (uint32_t i = 0; i < l->layout.columns && rc == 0; i++) {
        struct export_array a =
            export_column_array(&l->layout, i, l->rows, whole ? UINT32_MAX : l->piece);
        struct export_file *f = l->file[i];
        l->file[i] = NULL;
        rc = export_file_end(f, NULL, e);
        if (rc == 0)
            rc = shard_add(l->export, &a, l->spool + i, e);
        export_array_note(l->arrays, &a, NULL);
    }
    l->piece++;
    return rc;
}

static int shards_begin(struct export_list *l, struct err *e)
{
    struct export_shards *s;
    int rc = shards_of(l->export, &s, e);
    if (rc == 0)
        rc = piece_begin(l, e);
    return rc;
}

static int shards_row(struct export_list *l, const unsigned char *row, struct err *e)
{
    int rc = 0;
    if (l->rows > 0 && (l->rows + 1) * l->layout.bytes > l->export->shard_bytes) {
        rc = piece_end(l, false, e);
        if (rc == 0)
            rc = piece_begin(l, e);
    }
    for (uint32_t i = 0; i < l->layout.columns && rc == 0; i++) {
        const struct export_column *c = &l->layout.column[i];
        export_file_add(l->file[i], row + c->at,
                        (size_t)export_values(c) * export_type_facts(c->type)->bytes);
        rc = export_file_check(l->file[i], e);
    }
    l->rows++;
    return rc;
}

static int shards_end(struct export_list *l, struct err *e)
{
    if (l->layout.columns == 0)
        return 0;
    return piece_end(l, l->piece == 0, e);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static int array_write(struct export_list *l, const struct export_array *a, const void *data,
                       struct err *e)
{
    struct export_file *f;
    uint32_t spool;
    int rc = shard_room(l->export, export_array_bytes(a), e);
    if (rc == 0)
        rc = spool_open(l->export, &spool, &f, e);
    if (rc != 0)
        return rc;
    export_file_add(f, data, export_array_bytes(a));
    rc = export_file_end(f, NULL, e);
    if (rc == 0)
        rc = shard_add(l->export, a, spool, e);
    export_array_note(l->arrays, a, NULL);
    return rc;
}

static int shards_tensor(struct export_list *l, const struct export_tensor *t, struct err *e)
{
    return export_tensor_write(l, t, array_write, e);
}

/* ---- the index ------------------------------------------------------------------------------- */

static void file_final(const struct export_shards *s, uint32_t shard, char out[FILE_NAME])
{
    if (s->files == 1)
        (void)snprintf(out, FILE_NAME, "model.safetensors");
    else
        (void)snprintf(out, FILE_NAME, "model-%05u-of-%05u.safetensors", shard, s->files);
}

static int files_rename(const struct export *x, struct err *e)
{
    char from[2 * LIMIT_PATH], to[2 * LIMIT_PATH], name[FILE_NAME];
    for (uint32_t i = 1; i <= x->shards->files; i++) {
        file_final(x->shards, i, name);
        (void)snprintf(from, sizeof from, "%s/shard-%u", x->folder, i);
        (void)snprintf(to, sizeof to, "%s/%s", x->folder, name);
        if (file_rename(from, to) != 0)
            return err_set(e, SHOAL_E_IO, "cannot name %s: %s", to, strerror(errno));
    }
    return 0;
}

static int index_write(const struct export *x, struct err *e)
{
    const struct export_shards *s = x->shards;
    struct json *j = json_new_object(), *about = json_new_object(), *map = json_new_object();
    struct export_file *f;
    char name[FILE_NAME];
    (void)json_set_int(about, "total_size", (int64_t)s->total_bytes);
    (void)json_set_string(about, "shoal_export", "1");
    for (uint32_t i = 0; i < s->count; i++) {
        file_final(s, s->array[i].shard, name);
        (void)json_set_string(map, s->array[i].array.name, name);
    }
    (void)json_set(j, "metadata", about);
    (void)json_set(j, "weight_map", map);
    char *text = json_text(j, 2);
    json_free(j);
    if (text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    int rc = export_file_open(x->folder, "model.safetensors.index.json", 0, &f, e);
    if (rc == 0) {
        export_file_add(f, text, strlen(text));
        export_file_add(f, "\n", 1);
        rc = export_file_end(f, NULL, e);
    }
    free(text);
    return rc;
}

static int shards_finish(struct export *x, struct err *e)
{
    struct export_shards *s;
    int rc = shards_of(x, &s, e);
    if (rc == 0 && (s->begun < s->count || s->files == 0))
        rc = shard_close(x, e);
    if (rc == 0)
        rc = files_rename(x, e);
    if (rc == 0 && s->files > 1)
        rc = index_write(x, e);
    return rc;
}

const struct export_format export_safetensors = {
    .name = "safetensors",
    .begin = shards_begin,
    .row = shards_row,
    .tensor = shards_tensor,
    .end = shards_end,
    .finish = shards_finish,
};
