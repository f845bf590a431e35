/* source.c: opens files, globs and streams. */
#include "worker/data/source.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/minmax.h"
#include "proto/job/config.h"
#include "worker/data/command.h"
#include "worker/data/kind.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 65536u
#define STREAMS_MAX 64u
#define SHOWN_BYTES 96 /* "command 2 of data.train" */

struct file_sink {
    const struct cache *cache;
    int fd;
    uint64_t bytes;
};

static int file_sink_add(void *to, const char *data, size_t bytes, struct err *e)
{
    struct file_sink *s = to;
    s->bytes += bytes;
    return cache_write(s->cache, s->fd, data, bytes, e);
}

/* ---- streams: spooled once for each job ---- */

struct stream {
    char *name; /* owned */
    int fd;     /* owned; lives as long as the job; -1: it was consumed and cannot be read again */
    uint64_t bytes;
};
static pthread_mutex_t stream_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream streams[STREAMS_MAX]; /* guarded by stream_lock */
static uint32_t stream_count;

static bool repeats(const char *name)
{
    return strncmp(name, "cmd:", 4) == 0;
}

/* The name of item i in messages. A command's text is never shown: it may contain a password. */
static const char *shown_of(const struct string_list *names, size_t i, const char *what,
                            char room[SHOWN_BYTES])
{
    uint32_t commands = 0;
    if (config_item_shown(names->item[i]) == names->item[i])
        return names->item[i];
    for (size_t k = 0; k <= i; k++)
        commands += config_item_shown(names->item[k]) != names->item[k];
    (void)snprintf(room, SHOWN_BYTES, "command %u of %s", commands, what);
    return room;
}

/* Spools a stream. *out has a name when the stream must be remembered, even if it failed. */
static int stream_spool(const char *name, const char *shown, const struct cache *cache,
                        struct stream *out, struct err *e)
{
    struct file_sink sink = {.cache = cache};
    bool begun = true;
    *out = (struct stream){.fd = -1};
    int rc = cache_spool(cache, &sink.fd, e);
    if (rc != 0)
        return rc;
    if (repeats(name)) {
        rc = command_read(&(struct command){.text = name + 4, .name = shown}, file_sink_add, &sink,
                          NULL, e);
    } else if (strncmp(name, "kafka:", 6) == 0) {
        rc = err_set(e, SHOAL_E_CONFIG,
                     "%s: %s is a topic, which only a job that trains can read: name files", shown,
                     name + 6);
        begun = false;
    } else if (strcmp(name, "-") == 0) {
        rc = decode(&(struct decode_from){.fd = STDIN_FILENO, .name = "standard input"},
                    file_sink_add, &sink, NULL, e);
    } else {
        int fd = open(name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            rc = err_set(e, SHOAL_E_NOINPUT, "%s: %s; check the path", shown, strerror(errno));
        else
            rc = decode(&(struct decode_from){.fd = fd, .name = shown}, file_sink_add, &sink, NULL,
                        e);

        begun = fd >= 0;
        if (fd >= 0)
            close(fd);
    }
    out->name = NULL;
    if (rc == 0 || (begun && !repeats(name)))
        out->name = strdup(name);
    if (rc == 0 && out->name == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "%s: no memory to read it; free some", shown);
    if (rc != 0) {
        close(sink.fd);
        return rc;
    }
    out->fd = sink.fd;
    out->bytes = sink.bytes;
    return 0;
}

static int stream_open(const char *name, const char *shown, const struct cache *cache, int *fd,
                       uint64_t *bytes, struct err *e)
{
    int rc = 0;
    pthread_mutex_lock(&stream_lock);
    uint32_t i = 0;
    while (i < stream_count && strcmp(streams[i].name, name) != 0)
        i++;
    if (i == STREAMS_MAX)
        rc =
            err_set(e, SHOAL_E_CONFIG, "%s: more than %u streams and commands; write them to files",
                    shown, STREAMS_MAX);
    else if (i == stream_count) {
        rc = stream_spool(name, shown, cache, &streams[i], e);
        stream_count += streams[i].name != NULL;
    } else if (streams[i].fd < 0) {
        rc = err_set(e, SHOAL_E_NOINPUT,
                     "%s has been read and gives nothing again: start the worker anew, or name a "
                     "file or a command",
                     strcmp(name, "-") == 0 ? "standard input" : shown);
    }
    if (rc == 0) {
        *bytes = streams[i].bytes;
        *fd = fcntl(streams[i].fd, F_DUPFD_CLOEXEC, 0);
        if (*fd < 0)
            rc = err_set(e, SHOAL_E_IO, "%s: %s", shown, strerror(errno));
    }
    pthread_mutex_unlock(&stream_lock);
    return rc;
}

void source_streams_forget(void)
{
    pthread_mutex_lock(&stream_lock);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < stream_count; i++) {
        struct stream *s = &streams[i];
        if (s->fd >= 0)
            close(s->fd);
        s->fd = -1;
        if (repeats(s->name))
            free(s->name);
        else
            streams[kept++] = *s;
    }
    for (uint32_t i = kept; i < stream_count; i++)
        streams[i] = (struct stream){.fd = -1};
    stream_count = kept;
    pthread_mutex_unlock(&stream_lock);
}

/* ---- opening ---- */

/* True for an item that is no path. */
static bool is_no_path(const char *item)
{
    return strcmp(item, "-") == 0 || strncmp(item, "cmd:", 4) == 0 ||
           strncmp(item, "object:", 7) == 0 || strncmp(item, "kafka:", 6) == 0;
}

bool source_is_stream(const char *name)
{
    struct stat st;
    if (is_no_path(name))
        return true;
    return stat(name, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Expands one item of a job's list to names of files or streams. */
static int expand(const char *item, const char *what, struct string_list *names, struct err *e)
{
    struct stat st;
    if (is_no_path(item) || stat(item, &st) == 0) {
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

/* Opens a regular file. */
static int plain_open(const char *name, int *fd, struct stat *st, struct err *e)
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
        struct file_sink sink = {.cache = cache, .fd = made.fd};
        rc = decode(&(struct decode_from){.fd = f->fd, .name = f->name}, file_sink_add, &sink, NULL,
                    e);
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
        return stream_open(name, shown, cache, &f->fd, &f->bytes, e);
    struct stat st;
    bool packed;
    char *path = realpath(name, NULL);
    if (path == NULL)
        return file_failed(name, e);
    int rc = plain_open(name, &f->fd, &st, e);
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
    char room[SHOWN_BYTES];
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
        rc = file_open(f, names.item[i], shown_of(&names, i, what, room), cache, e);
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
            rc = plain_open(names.item[i], &fd, &st, e);
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

/* ---- the first line ---- */

#define HEAD_BYTES (LIMIT_LINE_BYTES + RECORD_HEAD_BYTES + 2)

struct head_sink {
    char *text; /* (HEAD_BYTES): the line so far, or the record and its head */
    size_t bytes;
    bool whole;
    bool many; /* not one line but all that there is room for */
    enum framing framing;
};

/* Takes text as it is. */
static int head_sink_fill(struct head_sink *h, const char *data, size_t bytes)
{
    size_t room = LIMIT_LINE_BYTES + 1 - h->bytes, taken = bytes < room ? bytes : room;
    memcpy(h->text + h->bytes, data, taken);
    h->bytes += taken;
    return taken < bytes ? SHOAL_E_END : 0;
}

/* Takes the bytes of the first record. */
static int head_record_add(struct head_sink *h, const char *data, size_t bytes)
{
    uint64_t record;
    size_t room = HEAD_BYTES - h->bytes, taken = MIN(bytes, room);
    memcpy(h->text + h->bytes, data, taken);
    h->bytes += taken;
    if (h->bytes < RECORD_HEAD_BYTES)
        return 0;
    if (!framing_record_head(h->text, &record) || record > LIMIT_LINE_BYTES)
        return SHOAL_E_END;
    h->whole = h->bytes >= RECORD_HEAD_BYTES + record;
    return h->whole ? SHOAL_E_END : 0;
}

/* Leaves the record alone in the sink. */
static int head_record_end(struct head_sink *h, const char *shown, struct err *e)
{
    uint64_t record = 0;
    bool begun = h->bytes >= RECORD_HEAD_BYTES && framing_record_head(h->text, &record);
    if (!begun)
        return err_set(e, SHOAL_E_DATA,
                       "%s: no TFRecord begins at its first byte; look at the file, or at "
                       "data.format",
                       shown);
    if (record > LIMIT_LINE_BYTES)
        return err_set(e, SHOAL_E_DATA,
                       "%s: its first record is longer than 1 MiB; look at the file", shown);
    if (!h->whole)
        return err_set(e, SHOAL_E_DATA,
                       "%s: the file ends within its first record; fetch the file again", shown);
    h->bytes = (size_t)record;
    memmove(h->text, h->text + RECORD_HEAD_BYTES, h->bytes);
    return 0;
}

static int head_sink_add(void *to, const char *data, size_t bytes, struct err *e)
{
    struct head_sink *h = to;
    (void)e;
    if (h->many)
        return head_sink_fill(h, data, bytes);
    if (h->framing == FRAMING_TFRECORD)
        return head_record_add(h, data, bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] != '\n') {
            if (h->bytes > LIMIT_LINE_BYTES)
                return SHOAL_E_END;
            h->text[h->bytes++] = data[i];
            continue;
        }
        if (h->bytes > 0 && h->text[h->bytes - 1] == '\r')
            h->bytes--;
        h->whole = h->bytes > 0;
        if (h->whole)
            return SHOAL_E_END;
    }
    return 0;
}

/* A spool is read by position, so several threads may read it. */
static int head_of_stream(const char *name, const char *shown, const struct cache *cache,
                          struct head_sink *sink, struct err *e)
{
    uint64_t bytes;
    int fd, rc = stream_open(name, shown, cache, &fd, &bytes, e);
    if (rc != 0)
        return rc;
    char block[4096];
    ssize_t n = 0;
    for (off_t at = 0; rc == 0 && (n = pread(fd, block, sizeof block, at)) > 0; at += n)
        rc = head_sink_add(sink, block, (size_t)n, e);
    if (n < 0)
        rc = err_set(e, SHOAL_E_IO, "%s: %s; check the disk of the cache folder %s", shown,
                     strerror(errno), cache->folder);
    close(fd);
    return rc;
}

static int head_of_file(const char *name, struct head_sink *sink, struct err *e)
{
    struct stat st;
    int fd, rc = plain_open(name, &fd, &st, e);
    if (rc == 0)
        rc = decode(&(struct decode_from){.fd = fd, .name = name}, head_sink_add, sink, NULL, e);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Reads a file's text into the sink. */
static int head_read(const char *name, const char *shown, const struct cache *cache,
                     struct head_sink *sink, struct err *e)
{
    int rc;
    if (source_is_stream(name))
        rc = head_of_stream(name, shown, cache, sink, e);
    else
        rc = head_of_file(name, sink, e);
    if (rc == SHOAL_E_END)
        return 0;
    return rc;
}

static int head_too_long(const char *shown, struct err *e)
{
    return err_set(e, SHOAL_E_DATA, "%s: its first line is longer than 1 MiB; look at the file",
                   shown);
}

/* The first line of one file; sink->bytes 0: there is none. */
static int head_of(const char *name, const char *shown, const struct cache *cache,
                   struct head_sink *sink, struct err *e)
{
    sink->bytes = 0;
    sink->whole = false;
    int rc = head_read(name, shown, cache, sink, e);
    if (rc != 0)
        return rc;
    if (sink->framing == FRAMING_TFRECORD && sink->bytes > 0)
        return head_record_end(sink, shown, e);
    if (!sink->whole && sink->bytes > 0 && sink->text[sink->bytes - 1] == '\r')
        sink->bytes--; /* a last line without a newline */

    if (sink->bytes <= LIMIT_LINE_BYTES)
        return 0;

    return head_too_long(shown, e);
}

static bool has_line(const char *text, size_t bytes)
{
    bool has = false;
    for (size_t i = 0; i < bytes && !has; i++)
        has = text[i] != '\n' && text[i] != '\r';
    return has;
}

/* Appends the first lines of one file. A line that does not fit is left out. */
static int lines_of(const char *name, const char *shown, const struct cache *cache,
                    struct head_sink *sink, struct err *e)
{
    size_t before = sink->bytes;
    int rc = head_read(name, shown, cache, sink, e);
    if (rc != 0)
        return rc;
    if (sink->bytes > LIMIT_LINE_BYTES) {
        const char *last = memrchr(sink->text + before, '\n', sink->bytes - before);
        if (last == NULL && before == 0)
            return head_too_long(shown, e);
        sink->bytes = last != NULL ? (size_t)(last + 1 - sink->text) : before;
        sink->whole = true;
    } else if (sink->bytes > before && sink->text[sink->bytes - 1] != '\n') {
        sink->text[sink->bytes++] = '\n';
    }
    if (!has_line(sink->text + before, sink->bytes - before))
        sink->bytes = before;
    return 0;
}

#define HEAD_FILES 16u /* files whose lines together are the first lines of a list */

/* The first line of the first file that has one, or the first lines of the first files; of records,
 * the first record of the first file that is not empty. *name: the file's in messages; borrowed. */
static int head_look(const struct string_list *names, const char *what, const struct cache *cache,
                     struct head_sink *sink, char room[SHOWN_BYTES], const char **name,
                     struct err *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && sink->bytes == 0 && !sink->whole && i < names->count; i++) {
        *name = shown_of(names, i, what, room);
        rc = sink->many ? lines_of(names->item[i], *name, cache, sink, e)
                        : head_of(names->item[i], *name, cache, sink, e);
        for (size_t k = 1;
             rc == 0 && sink->many && sink->bytes > 0 && !sink->whole && k < HEAD_FILES &&
             i + k < names->count && !source_is_stream(names->item[i + k]);
             k++)
            rc = lines_of(names->item[i + k], names->item[i + k], cache, sink, e);
    }
    if (rc != 0 || sink->bytes > 0 || sink->whole)
        return rc;
    return err_set(e, SHOAL_E_DATA, "%s: there is no line in it%s; look at the file",
                   shown_of(names, 0, what, room),
                   names->count > 1 ? ", nor in the other files" : "");
}

/* Fills the sink, which says what is wanted, from the first files of a list. */
static int head_take(const struct string_list *list, const char *what, const struct cache *cache,
                     struct head_sink sink, char **name, char **line, size_t *bytes, struct err *e)
{
    struct string_list names = {0};
    sink.text = malloc(HEAD_BYTES);
    char room[SHOWN_BYTES];
    const char *is = NULL;
    *name = NULL;
    int rc;
    if (sink.text == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "%s: no memory to read it; free some", what);
    else
        rc = source_names(list, what, &names, e);
    if (rc == 0)
        rc = head_look(&names, what, cache, &sink, room, &is, e);
    if (rc == 0 && (*name = strdup(is)) == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "%s: no memory to read it; free some", what);
    config_list_free(&names);
    if (rc != 0) {
        free(sink.text);
        return rc;
    }
    sink.text[sink.bytes] = '\0';
    *line = sink.text;
    *bytes = sink.bytes;
    return 0;
}

int source_head(const struct string_list *list, const char *what, enum framing framing,
                const struct cache *cache, char **name, char **line, size_t *bytes, struct err *e)
{
    return head_take(list, what, cache, (struct head_sink){.framing = framing}, name, line, bytes,
                     e);
}

int source_lines(const struct string_list *list, const char *what, const struct cache *cache,
                 char **name, char **lines, size_t *bytes, struct err *e)
{
    return head_take(list, what, cache, (struct head_sink){.many = true}, name, lines, bytes, e);
}

/* Fills *sink with the first line of a file; sink->bytes 0: there is none, or it cannot be read. */
static int head_try(const char *name, struct head_sink *sink, struct err *e)
{
    struct err own = {0};
    sink->bytes = 0;
    sink->whole = false;
    int rc = SHOAL_E_END;
    if (!source_is_stream(name))
        rc = head_of_file(name, sink, &own);
    if (rc == SHOAL_E_DATA)
        return err_set(e, rc, "%s", own.text);
    if ((rc != 0 && rc != SHOAL_E_END) || sink->bytes > LIMIT_LINE_BYTES)
        sink->bytes = 0;
    if (!sink->whole && sink->bytes > 0 && sink->text[sink->bytes - 1] == '\r')
        sink->bytes--;
    sink->text[sink->bytes] = '\0';
    return 0;
}

int source_heads(const struct string_list *list, const char *what, source_see see, void *context,
                 struct err *e)
{
    struct string_list names = {0};
    struct head_sink sink = {.text = malloc(HEAD_BYTES)};
    struct err silent;
    int rc = 0;
    if (sink.text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory to read it; free some", what);
    if (list->count > 0)
        (void)source_names(list, what, &names, &silent); /* source_check reports the error */
    for (size_t i = 0; i < names.count && rc == 0; i++) {
        rc = head_try(names.item[i], &sink, e);
        if (rc == 0 && sink.bytes > 0)
            rc = see(context, names.item[i], sink.text, sink.bytes, e);
    }
    config_list_free(&names);
    free(sink.text);
    return rc;
}
