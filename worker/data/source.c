/* source.c: names and opens the files of a list. */
#include "worker/data/source_inner.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/minmax.h"
#include "proto/job/config.h"
#include "worker/data/decode.h"
#include "worker/data/kind.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 65536u

int source_sink_add(void *to, const char *data, size_t bytes, struct err *e)
{
    struct source_sink *s = to;
    s->bytes += bytes;
    return cache_write(s->cache, s->fd, data, bytes, e);
}

const char *source_shown(const struct string_list *names, size_t i, const char *what,
                         char room[SOURCE_SHOWN])
{
    uint32_t commands = 0;
    if (config_item_shown(names->item[i]) == names->item[i])
        return names->item[i];
    for (size_t k = 0; k <= i; k++)
        commands += config_item_shown(names->item[k]) != names->item[k];
    (void)snprintf(room, SOURCE_SHOWN, "command %u of %s", commands, what);
    return room;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Expands one item of a job's list to names of files or streams. */
static int expand(const char *item, const char *what, struct string_list *names, struct err *e)
{
    struct stat st;
    if (source_no_path(item) || stat(item, &st) == 0) {
        if (config_list_add(names, item) != 0)
            return err_set(e, SHOAL_E_NOMEM, "%s: no memory for the list of files; free some",
                           what);
        return 0;
    }
    if (strpbrk(item, "*?[") == NULL)
        return err_set(e, SHOAL_E_NOINPUT, "%s: %s: %s; check the path", what, item,
                       strerror(errno));
    glob_t found = {0};
    int rc = 0;
    if (glob(item, GLOB_NOSORT, NULL, &found) != 0 || found.gl_pathc == 0)
        rc = err_set(e, SHOAL_E_NOINPUT, "%s: no file matches %s; check the pattern", what, item);
    else
        qsort(found.gl_pathv, found.gl_pathc, sizeof found.gl_pathv[0],
              compare_names); /* byte order, whatever the locale */
    for (size_t i = 0; i < found.gl_pathc && rc == 0; i++)
        if (config_list_add(names, found.gl_pathv[i]) != 0)
            rc = err_set(e, SHOAL_E_NOMEM, "%s: no memory for the list of files; free some", what);
    globfree(&found);
    return rc;
}

static int file_failed(const char *name, struct err *e)
{
    if (errno == EMFILE || errno == ENFILE)
        return err_set(
            e, SHOAL_E_IO,
            "%s: too many open files; raise the limit (ulimit -n, LimitNOFILE=) or join the input",
            name);
    int code = SHOAL_E_IO;
    if (errno == EACCES)
        code = SHOAL_E_DENIED;
    else if (errno == ENOENT)
        code = SHOAL_E_NOINPUT;
    return err_set(e, code, "%s: %s; check the path and its rights", name, strerror(errno));
}

int source_plain_open(const char *name, int *fd, struct stat *st, struct err *e)
{
    *fd = open(name, O_RDONLY | O_CLOEXEC);
    if (*fd < 0 || fstat(*fd, st) != 0)
        return file_failed(name, e);
    if (S_ISDIR(st->st_mode))
        return err_set(e, SHOAL_E_NOINPUT,
                       "%s is a folder; name its files, with a pattern such as %s/*", name, name);
    return 0;
}

/* Checks the first bytes of a plain file; decode checks packed ones. */
static int plain_look(int fd, const char *name, bool *packed, struct err *e)
{
    char first[KIND_LOOK_BYTES];
    ssize_t n = pread(fd, first, sizeof first, 0);
    if (n < 0)
        return file_failed(name, e);
    *packed = decode_needed(first, (size_t)n);

    if (*packed)
        return 0;

    return kind_check(name, first, (size_t)n, e);
}

/* Finds the decoded text of a packed file in the cache, or makes it. f->fd, the packed file,
 * becomes the text. */
static int unpack(struct source_file *f, const struct cache *cache, struct err *e)
{
    struct stat st;
    SHOAL_ASSERT(!f->stream && f->fd >= 0);
    int text = cache_find(cache, f->group, f->identity, "text");
    if (text < 0) {
        struct cache_file made;
        int rc = cache_create(cache, f->group, f->identity, "text", &made, e);
        if (rc != 0)
            return rc;
        struct source_sink sink = {.cache = cache, .fd = made.fd};
        rc = decode(&(struct decode_from){.fd = f->fd, .name = f->name}, source_sink_add, &sink,
                    NULL, e);
        if (rc != 0) {
            cache_drop(&made);
            return rc;
        }
        rc = cache_keep(&made, &text, e);
        if (rc != 0)
            return rc;
    }
    close(f->fd);
    f->fd = text;
    if (fstat(text, &st) != 0)
        return file_failed(f->name, e);
    f->bytes = (uint64_t)st.st_size;
    return 0;
}

static int file_open(struct source_file *f, const char *name, const char *shown,
                     const struct cache *cache, struct err *e)
{
    *f = (struct source_file){.fd = -1, .name = strdup(shown)};
    if (f->name == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory to open it; free some", shown);
    f->stream = source_is_stream(name);
    if (f->stream)
        return source_stream_open(name, shown, cache, &f->fd, &f->bytes, e);
    struct stat st;
    bool packed;
    char *path = realpath(name, NULL);
    if (path == NULL)
        return file_failed(name, e);
    int rc = source_plain_open(name, &f->fd, &st, e);
    if (rc != 0) {
        free(path);
        return rc;
    }
    uint64_t facts[3] = {(uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec,
                         (uint64_t)st.st_mtim.tv_nsec};
    f->group = hash_bytes(path, strlen(path), 0);
    f->identity = hash_bytes(facts, sizeof facts, f->group);
    free(path);
    f->bytes = (uint64_t)st.st_size;
    rc = plain_look(f->fd, name, &packed, e);
    if (rc == 0 && packed)
        return unpack(f, cache, e);

    return rc;
}

int source_names_any(const struct string_list *list, const char *what, struct string_list *names,
                     struct err *e)
{
    if (list->count == 0)
        return err_set(e, SHOAL_E_NOINPUT, "%s: the job names no input; add a file to it", what);
    int rc = 0;
    for (size_t i = 0; i < list->count && rc == 0; i++)
        rc = expand(list->item[i], what, names, e);
    return rc;
}

int source_names(const struct string_list *list, const char *what, struct string_list *names,
                 struct err *e)
{
    int rc = source_names_any(list, what, names, e);
    if (rc == 0 && names->count > FILES_MAX)
        rc = err_set(e, SHOAL_E_CONFIG, "%s: %zu files, more than %u; join some", what,
                     names->count, FILES_MAX);
    return rc;
}

int source_open(const struct string_list *list, const char *what, const struct cache *cache,
                struct source *out, struct err *e)
{
    struct string_list names = {0};
    char room[SOURCE_SHOWN];
    *out = (struct source){0};
    int rc = source_names(list, what, &names, e);
    if (rc == 0) {
        out->file = calloc(names.count, sizeof out->file[0]);
        if (out->file == NULL)
            rc = err_set(e, SHOAL_E_NOMEM, "%s: no memory for %zu files; free some", what,
                         names.count);
    }
    for (size_t i = 0; i < names.count && rc == 0; i++) {
        struct source_file *f = &out->file[out->count++];
        rc = file_open(f, names.item[i], source_shown(&names, i, what, room), cache, e);
        f->base = out->bytes;
        out->bytes += f->bytes;
    }
    SHOAL_ASSERT(rc != 0 || out->count == names.count);
    config_list_free(&names);
    if (rc != 0)
        source_close(out);
    return rc;
}

int source_check(const struct string_list *list, const char *what, struct err *e)
{
    struct string_list names = {0};
    struct stat st;
    int rc = source_names(list, what, &names, e);
    for (size_t i = 0; i < names.count && rc == 0; i++) {
        int fd = -1;
        bool packed;
        if (!source_is_stream(names.item[i]))
            rc = source_plain_open(names.item[i], &fd, &st, e);
        if (rc == 0 && fd >= 0)
            rc = plain_look(fd, names.item[i], &packed, e);
        if (fd >= 0)
            close(fd);
    }
    config_list_free(&names);
    return rc;
}

void source_close(struct source *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->file[i].fd >= 0)
            close(s->file[i].fd);
        free(s->file[i].name);
    }
    free(s->file);
    *s = (struct source){0};
}

uint32_t source_file_at(const struct source *s, uint64_t at)
{
    SHOAL_ASSERT(at < s->bytes);
    uint32_t low = 0, high = s->count - 1;
    while (low < high) {
        /* the last file with a base <= at; empty files before it have the same base and no bytes */
        uint32_t middle = low + (high - low + 1) / 2;
        if (s->file[middle].base <= at)
            low = middle;
        else
            high = middle - 1;
    }
    SHOAL_ASSERT(at - s->file[low].base < s->file[low].bytes);
    return low;
}
