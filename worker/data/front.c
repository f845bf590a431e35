/* front.c: decodes the beginnings of files. */
#include "worker/data/front.h"

#include "proto/base/minmax.h"
#include "worker/data/decode.h"
#include "worker/data/kind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Takes the lines that are wanted into the spool. */
struct front_sink {
    const struct cache *cache;
    int fd;
    uint64_t lines; /* that are still wanted */
    uint64_t bytes; /* that are written */
    uint64_t end;   /* behind the last line end */
    bool full;
};

static int sink_add(void *to, const char *data, size_t bytes, struct err *e)
{
    struct front_sink *s = to;
    size_t taken = bytes;
    for (size_t i = 0; i < bytes && !s->full; i++) {
        if (data[i] != '\n')
            continue;
        s->end = s->bytes + i + 1;
        s->lines--;
        s->full = s->lines == 0 || s->end >= FRONT_BYTES;
        taken = s->full ? i + 1 : taken;
    }
    s->full |= s->bytes + bytes >= 2 * FRONT_BYTES; /* a text without line ends */
    int rc = cache_write(s->cache, s->fd, data, taken, e);
    s->bytes += taken;
    if (rc == 0 && s->full)
        return SHOAL_E_END;
    return rc;
}

/* Decodes the beginning of an open file, and closes it. */
static int spool(struct front *f, struct source_file *of, int fd, uint64_t lines,
                 const struct cache *cache, struct err *e)
{
    struct front_sink sink = {.cache = cache, .lines = lines > 0 ? lines : UINT64_MAX};
    uint64_t raw = 0;
    int rc = cache_spool(cache, &of->fd, e);
    if (rc == 0) {
        sink.fd = of->fd;
        rc = decode(&(struct decode_from){.fd = fd, .name = of->name}, sink_add, &sink, &raw, e);
    }
    of->bytes = sink.bytes;
    if (rc == SHOAL_E_END) {
        of->bytes = sink.end > 0 ? sink.end : sink.bytes;
        f->whole = false;
        rc = 0;
    }
    if (of->bytes > 0)
        f->packing = (double)raw / (double)of->bytes;
    if (fd != STDIN_FILENO)
        close(fd);
    return rc;
}

static int plain_open(struct source_file *of, int *fd, bool *packed, struct err *e)
{
    char first[KIND_LOOK_BYTES];
    ssize_t n = -1;
    *fd = open(of->name, O_RDONLY | O_CLOEXEC);
    if (*fd >= 0)
        n = pread(*fd, first, sizeof first, 0);
    if (n < 0) {
        int code = errno == ENOENT ? SHOAL_E_NOINPUT : SHOAL_E_IO;
        int rc =
            err_set(e, code, "%s: %s; check the path and its rights", of->name, strerror(errno));
        if (*fd >= 0)
            close(*fd);
        return rc;
    }
    *packed = decode_needed(first, (size_t)n);
    int rc = *packed ? 0 : kind_check(of->name, first, (size_t)n, e);
    if (rc != 0)
        close(*fd);
    return rc;
}

static int one_open(struct front *f, const char *name, uint64_t lines, const struct cache *cache,
                    struct err *e)
{
    struct source_file *of = &f->source.file[f->source.count++];
    struct stat st;
    bool packed = true, stream = source_is_stream(name);
    *of = (struct source_file){.fd = -1, .base = f->source.bytes, .stream = stream};
    of->name = strdup(strcmp(name, "-") == 0 ? "standard input" : name);
    if (of->name == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory to open it; free some", name);
    int fd = STDIN_FILENO, rc = 0;
    if (strcmp(name, "-") != 0)
        rc = stream ? (fd = open(name, O_RDONLY | O_CLOEXEC)) < 0 : plain_open(of, &fd, &packed, e);
    if (rc != 0)
        return stream ? err_set(e, SHOAL_E_NOINPUT, "%s: %s", name, strerror(errno)) : rc;
    if (packed) {
        rc = spool(f, of, fd, lines, cache, e);
    } else {
        of->fd = fd;
        if (fstat(fd, &st) == 0)
            of->bytes = (uint64_t)st.st_size;
    }
    f->source.bytes += of->bytes;
    return rc;
}

/* ---- a look ---------------------------------------------------------------------------------- */

struct peek_sink {
    char *text;
    size_t most, bytes;
};

static int peek_add(void *to, const char *data, size_t bytes, struct err *e)
{
    struct peek_sink *s = to;
    size_t taken = MIN(bytes, s->most - s->bytes);
    (void)e;
    memcpy(s->text + s->bytes, data, taken);
    s->bytes += taken;
    return s->bytes == s->most ? SHOAL_E_END : 0;
}

int front_peek(const char *path, char *text, size_t most, size_t *bytes, struct err *e)
{
    struct peek_sink sink = {.text = text, .most = most};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(e, errno == ENOENT ? SHOAL_E_NOINPUT : SHOAL_E_IO,
                       "%s: %s; check the path and its rights", path, strerror(errno));
    int rc = decode(&(struct decode_from){.fd = fd, .name = path}, peek_add, &sink, NULL, e);
    close(fd);
    *bytes = sink.bytes;
    return rc == SHOAL_E_END ? 0 : rc;
}

/* ---- the files ------------------------------------------------------------------------------- */

int front_open(const struct string_list *names, uint64_t lines, const struct cache *cache,
               struct front *out, struct err *e)
{
    size_t count = MIN(names->count, (size_t)FRONT_FILES);
    *out = (struct front){.whole = names->count == count, .packing = 1};
    out->source.file = calloc(count, sizeof *out->source.file);
    if (out->source.file == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %zu files; free some", count);
    bool stream = false;
    int rc = 0;
    for (size_t i = 0; i < names->count && rc == 0; i++) {
        struct stat st;
        stream |= source_is_stream(names->item[i]);
        if (stat(names->item[i], &st) == 0)
            out->bytes_on_disk += (double)st.st_size;
        if (i < count)
            rc = one_open(out, names->item[i], lines, cache, e);
    }
    if (stream)
        out->bytes_on_disk = 0;
    if (rc != 0)
        front_close(out);
    return rc;
}

void front_close(struct front *f)
{
    source_close(&f->source);
    *f = (struct front){.whole = false};
}

int front_text(const struct front *f, uint32_t file, char *text, size_t most, size_t *bytes,
               struct err *e)
{
    const struct source_file *of = &f->source.file[file];
    *bytes = 0;
    while (*bytes < most && *bytes < of->bytes) {
        ssize_t n = pread(of->fd, text + *bytes, MIN(most - *bytes, (size_t)(of->bytes - *bytes)),
                          (off_t)*bytes);
        if (n < 0)
            return err_set(e, SHOAL_E_IO, "%s: %s; check the disk", of->name, strerror(errno));
        if (n == 0)
            break;
        *bytes += (size_t)n;
    }
    return 0;
}
