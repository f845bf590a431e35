/* import_files.c: opens files of arrays and finds arrays by name. */
#include "deploy/cli/import_files.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/json.h"
#include "proto/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ABOUT "export.json"
#define MODEL "model.safetensors"
#define INDEX MODEL ".index.json"
enum { ABOUT_BYTES = 64 << 20, FILES = 8192 };

struct import_opened {
    struct import_file file;
    struct tensor_list list; /* tensors of a safetensors file */
    struct tensor npy;       /* else */
    bool safe;
};

/* ---- one file -------------------------------------------------------------------------------- */

int import_file_open(const char *path, struct import_file *out, struct err *e)
{
    struct stat st;
    *out = (struct import_file){.data = ""};
    text_copy(out->path, sizeof out->path, path);
    int f = open(path, O_RDONLY | O_CLOEXEC);
    if (f < 0 || fstat(f, &st) != 0) {
        const int why = errno;
        if (f >= 0)
            close(f);
        return err_set(e, why == ENOENT ? SHOAL_E_NOINPUT : SHOAL_E_IO, "cannot read %s: %s", path,
                       strerror(why));
    }
    int rc = 0;
    if (!S_ISREG(st.st_mode))
        rc = err_set(e, SHOAL_E_NOINPUT, "%s is no plain file", path);
    else if (st.st_size > 0) {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, f, 0);
        if (data == MAP_FAILED)
            rc = err_set(e, SHOAL_E_IO, "cannot map %s: %s", path, strerror(errno));
        else
            *out = (struct import_file){.data = data, .bytes = (uint64_t)st.st_size};
    }
    text_copy(out->path, sizeof out->path, path);
    close(f);
    return rc;
}

void import_file_close(struct import_file *f)
{
    if (f->bytes > 0)
        (void)munmap((void *)(uintptr_t)f->data, f->bytes);
    *f = (struct import_file){.data = ""};
}

static bool ends(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

/* The file of this path, opened once. */
static int opened(struct import_files *f, const char *path, struct import_opened **out,
                  struct err *e)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (strcmp(f->file[i]->file.path, path) == 0) {
            *out = f->file[i];
            return 0;
        }
    if (f->count == FILES)
        return err_set(e, SHOAL_E_TOO_BIG, "%s has more than %u files", f->what, FILES);
    struct import_opened *o = calloc(1, sizeof *o);
    if (o == NULL || array_room(&f->file, f->count, &f->room, 16) != 0) {
        free(o);
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    }
    f->file[f->count++] = o;
    int rc = import_file_open(path, &o->file, e);
    if (rc != 0)
        return rc;
    o->safe = !ends(path, ".npy");
    if (o->safe)
        rc = tensor_safe(o->file.data, o->file.bytes, &o->list, e);
    else
        rc = tensor_npy(o->file.data, o->file.bytes, &o->npy, e);
    if (rc != 0)
        return err_wrap(e, rc, "%s", path);
    *out = o;
    return 0;
}

static struct tensor_in tensor_of(const struct import_opened *o, const struct tensor *t)
{
    return (struct tensor_in){*t, o->file.data, o->file.path};
}

/* ---- a folder -------------------------------------------------------------------------------- */

/* A name that a file of the folder gives: it lies in the folder itself. */
static int beside(const struct import_files *f, const char *name, char out[LIMIT_PATH],
                  struct err *e)
{
    if (name[0] == 0 || strchr(name, '/') != NULL || strlen(f->what) > LIMIT_PATH - 300 ||
        strlen(name) > 255)
        return err_set(e, SHOAL_E_DATA, "%s names a file '%.100s', which is none of the folder",
                       f->what, name);
    (void)snprintf(out, LIMIT_PATH, "%.*s/%.255s", LIMIT_PATH - 300, f->what, name);
    return 0;
}

static int json_of(const char *path, struct json **out, struct err *e)
{
    char *text;
    size_t bytes;
    if (file_read_whole(path, ABOUT_BYTES, &text, &bytes) != 0)
        return err_set(e, errno == ENOENT ? SHOAL_E_NOINPUT : SHOAL_E_IO, "cannot read %s: %s",
                       path, strerror(errno));
    int rc = json_parse(text, bytes, out, e);
    free(text);
    return rc == 0 ? 0 : err_wrap(e, rc, "%s", path);
}

static int folder_open(struct import_files *f, struct import_line *l, struct err *e)
{
    char path[LIMIT_PATH];
    int rc = beside(f, ABOUT, path, e);
    if (rc == 0)
        rc = json_of(path, &f->about, e);
    if (rc == SHOAL_E_NOINPUT)
        return err_set(e, rc, "%s is no folder of `shoal export`: it has no " ABOUT, f->what);
    if (rc != 0)
        return rc;
    if (json_get_int(f->about, "shoal_export", 0) != 1)
        return err_set(e, SHOAL_E_VERSION, "%s is of a later release of Shoal", path);
    l->fields = json_hold(json_get(f->about, "fields"));
    f->exported = true;
    return 0;
}

/* The file that has the array, by the index of a safetensors export; 1: none. */
static int safe_path(struct import_files *f, const char *name, char out[LIMIT_PATH], struct err *e)
{
    char path[LIMIT_PATH];
    struct json *index = NULL;
    int rc = beside(f, MODEL, out, e);
    if (rc != 0 || access(out, F_OK) == 0)
        return rc;
    rc = beside(f, INDEX, path, e);
    if (rc == 0)
        rc = json_of(path, &index, e);
    if (rc != 0)
        return rc;
    const struct json *map = json_get(index, "weight_map");
    const char *file = NULL;
    for (size_t i = 0; i < json_members(map) && file == NULL; i++)
        if (strcmp(json_member_name(map, i), name) == 0)
            file = json_as_string(json_member_at(map, i), "");
    rc = file == NULL ? 1 : beside(f, file, out, e);
    json_free(index);
    return rc;
}

/* The file of an array in a list of export.json; NULL: none. */
static const char *file_in(const struct json *list, const char *name)
{
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *arrays = json_get(json_array_at(list, i), "arrays");
        for (size_t k = 0; k < json_count(arrays); k++)
            if (strcmp(json_get_string(json_array_at(arrays, k), "name", ""), name) == 0)
                return json_get_string(json_array_at(arrays, k), "file", "");
    }
    return NULL;
}

static int npy_path(struct import_files *f, const char *name, char out[LIMIT_PATH], struct err *e)
{
    const char *file = file_in(json_get(f->about, "tables"), name);
    if (file == NULL)
        file = file_in(json_get(f->about, "tensors"), name);
    if (file == NULL)
        return 1;
    return beside(f, file, out, e);
}

/* ---- arrays ---------------------------------------------------------------------------------- */

int import_files_find(struct import_files *f, const char *name, struct tensor_in *out,
                      struct err *e)
{
    struct import_opened *o;
    char path[LIMIT_PATH];
    int rc = 0;
    if (f->about == NULL)
        text_copy(path, sizeof path, f->what);
    else if (strcmp(json_get_string(f->about, "format", ""), "npy") == 0)
        rc = npy_path(f, name, path, e);
    else
        rc = safe_path(f, name, path, e);
    if (rc == 0)
        rc = opened(f, path, &o, e);
    if (rc != 0)
        return rc;
    if (!o->safe) {
        *out = tensor_of(o, &o->npy);
        return 0;
    }
    const struct tensor *t = tensor_find(&o->list, name);
    if (t == NULL)
        return 1;
    *out = tensor_of(o, t);
    return 0;
}

int import_files_named(struct import_files *f, const char *word, struct tensor_in *out,
                       struct err *e)
{
    struct import_opened *o;
    if (ends(word, ".npy")) {
        int rc = opened(f, word, &o, e);
        if (rc == 0)
            *out = tensor_of(o, &o->npy);
        return rc;
    }
    if (f->what[0] == 0 || f->about != NULL)
        return err_set(e, SHOAL_E_USAGE,
                       "%s: name an npy file, or a safetensors file and arrays in it", word);
    int rc = import_files_find(f, word, out, e);
    if (rc != 1)
        return rc;
    return err_set(e, SHOAL_E_NOT_FOUND, "%s has no array %s", f->what, word);
}

/* ---- life ------------------------------------------------------------------------------------ */

int import_files_open(struct import_files *f, struct import_line *l, struct err *e)
{
    struct import_opened *o;
    struct stat st;
    if (l->path == NULL)
        return 0; /* npy files alone */
    text_copy(f->what, sizeof f->what, l->path);
    if (stat(l->path, &st) != 0)
        return err_set(e, SHOAL_E_NOINPUT, "cannot read %s: %s", l->path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return folder_open(f, l, e);
    int rc = opened(f, l->path, &o, e);
    if (rc != 0)
        return rc;
    f->exported = o->list.shoal;
    if (f->exported && !l->raw && l->ids == NULL) /* export.json has the fields of its keys */
        return err_set(e, SHOAL_E_USAGE,
                       "%s is a file of `shoal export`: name its folder, whose fields are compared "
                       "with the table's, or say --raw to take the keys as they are",
                       l->path);
    return 0;
}

void import_files_close(struct import_files *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        import_file_close(&f->file[i]->file);
        tensor_list_free(&f->file[i]->list);
        free(f->file[i]);
    }
    free(f->file);
    json_free(f->about);
    *f = (struct import_files){.count = 0};
}

uint64_t import_files_checksum(const struct import_files *f)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < f->count; i++)
        sum = hash_bytes(f->file[i]->file.data, f->file[i]->file.bytes, sum);
    return sum;
}
