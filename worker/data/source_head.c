/* source_head.c: the first line, lines or record of a list of files. */
#include "worker/data/source_inner.h"

#include "proto/base/minmax.h"
#include "proto/job/config.h"
#include "worker/data/decode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    int fd, rc = source_stream_open(name, shown, cache, &fd, &bytes, e);
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
    int fd, rc = source_plain_open(name, &fd, &st, e);
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
                     struct head_sink *sink, char room[SOURCE_SHOWN], const char **name,
                     struct err *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && sink->bytes == 0 && !sink->whole && i < names->count; i++) {
        *name = source_shown(names, i, what, room);
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
                   source_shown(names, 0, what, room),
                   names->count > 1 ? ", nor in the other files" : "");
}

/* Fills the sink, which says what is wanted, from the first files of a list. */
static int head_take(const struct string_list *list, const char *what, const struct cache *cache,
                     struct head_sink sink, char **name, char **line, size_t *bytes, struct err *e)
{
    struct string_list names = {0};
    sink.text = malloc(HEAD_BYTES);
    char room[SOURCE_SHOWN];
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
