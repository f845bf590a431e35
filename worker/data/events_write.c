/* events_write.c: writes event files.
 *
 * 1. A file has its name only when it is whole and synced.
 *    [test: events_write_has_its_name_when_whole]
 * 2. Nothing is overwritten. [test: events_write_overwrites_nothing] */
#include "worker/data/events_inner.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/plant.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct events_writer {
    char path[LIMIT_PATH],
        temporary[LIMIT_PATH + 32]; /* temporary: empty: the fd is the caller's */
    int fd;
    bool unpacked;                 /* blocks are slices as they are */
    uint64_t most;                 /* bytes */
    const struct columns *columns; /* borrowed */
    char *lines;                   /* owned */
    size_t line_bytes;
    struct packer packer;
    struct events_entry *entry; /* owned: (sums.blocks) */
    size_t capacity;
    struct events_sums sums;
};

static void writer_free(struct events_writer *w)
{
    if (w->fd >= 0 && w->temporary[0] != '\0')
        close(w->fd);
    pack_free(&w->packer);
    free(w->lines);
    free(w->entry);
    free(w);
}

void events_abandon(struct events_writer *w)
{
    if (w->fd >= 0 && w->temporary[0] != '\0')
        file_unlink(w->temporary);
    writer_free(w);
}

static int write_failed(const struct events_writer *w, struct err *e)
{
    bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    return err_set(e, full ? SHOAL_E_CANTCREATE : SHOAL_E_IO, "%s: %s; free some space", w->path,
                   strerror(errno));
}

static int put(struct events_writer *w, const void *data, size_t bytes, struct err *e)
{
    if (bytes > w->most - w->sums.bytes)
        return err_set(e, SHOAL_E_TOO_BIG, "%s: more than %" PRIu64 " bytes of parsed rows",
                       w->path, w->most);
    if (file_write_all(w->fd, data, bytes) != 0)
        return write_failed(w, e);
    w->sums.bytes += bytes;
    return 0;
}

/* The columns' lines as they stand in a file. */
static int lines_take(struct events_writer *w, struct err *e)
{
    const struct columns *c = w->columns;
    w->line_bytes = w->unpacked ? (c->bytes + 7) & ~(size_t)7 : c->bytes;
    w->lines = calloc(1, w->line_bytes + 1);
    if (w->lines == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory to write it; free some", w->path);
    for (size_t i = 0; i < c->bytes; i++)
        w->lines[i] = c->text[i] == '\0' ? '\n' : c->text[i];
    return 0;
}

static int head_put(struct events_writer *w, struct err *e)
{
    struct events_head head = {.bytes = (uint32_t)w->line_bytes, .columns = w->columns->count};
    memcpy(head.magic, EVENTS_MAGIC, sizeof head.magic);
    head.sum = hash_bytes(w->lines, w->line_bytes, 0);
    int rc = put(w, &head, sizeof head, e);
    return rc == 0 ? put(w, w->lines, w->line_bytes, e) : rc;
}

static struct events_writer *writer_new(const char *path, const struct columns *c, uint64_t most,
                                        struct err *e)
{
    struct events_writer *w = calloc(1, sizeof *w);
    if (w == NULL) {
        err_set(e, SHOAL_E_NOMEM, "%s: no memory to write it; free some", path);
        return NULL;
    }
    w->columns = c;
    w->most = most;
    snprintf(w->path, sizeof w->path, "%s", path);
    return w;
}

/* w goes if its head cannot be written. */
static int writer_begin(struct events_writer *w, struct events_writer **out, struct err *e)
{
    int rc = lines_take(w, e);
    if (rc == 0)
        rc = head_put(w, e);
    if (rc != 0)
        events_abandon(w);
    else
        *out = w;
    return rc;
}

int events_create(const char *path, const struct columns *c, struct events_writer **out,
                  struct err *e)
{
    if (strlen(path) >= LIMIT_PATH)
        return err_set(e, SHOAL_E_CANTCREATE, "%s: the path is longer than %u bytes", path,
                       LIMIT_PATH - 1);
    if (access(path, F_OK) == 0)
        return err_set(e, SHOAL_E_EXISTS, "%s is there already; name another file", path);
    struct events_writer *w = writer_new(path, c, UINT64_MAX, e);
    if (w == NULL)
        return SHOAL_E_NOMEM;
    snprintf(w->temporary, sizeof w->temporary, "%s.tmp-XXXXXX", path);
    w->fd = file_nameless(w->temporary, sizeof w->temporary);
    if (w->fd >= 0)
        return writer_begin(w, out, e);
    err_set(e, SHOAL_E_CANTCREATE, "%s: %s; name a file in a folder that can be written", path,
            strerror(errno));
    events_abandon(w);
    return SHOAL_E_CANTCREATE;
}

int events_create_plain(int fd, const char *name, uint64_t most, const struct columns *c,
                        struct events_writer **out, struct err *e)
{
    struct events_writer *w = writer_new(name, c, most, e);
    if (w == NULL)
        return SHOAL_E_NOMEM;
    w->fd = fd;
    w->unpacked = true;
    return writer_begin(w, out, e);
}

uint64_t events_block_sum(const struct events_block_head *h, const uint8_t *plain,
                          const uint8_t *packed)
{
    uint64_t sum = hash_bytes(h, offsetof(struct events_block_head, sum), 0);
    sum = hash_bytes(plain, h->plain, sum);
    return hash_bytes(packed, h->packed, sum);
}

static void sums_add(struct events_writer *w, const struct slice *b)
{
    struct events_sums *s = &w->sums;
    uint32_t first, last;
    slice_times(b, &first, &last);
    if (first != 0) {
        s->first =
            s->first == 0 || (first < s->first && !PLANTED("first_block_first")) ? first : s->first;
        s->last = last > s->last ? last : s->last;
    }
    w->entry[s->blocks].first = first;
    w->entry[s->blocks].last = last;
    s->rows += b->rows;
    s->malformed += b->bad_rows;
    s->decoded += strips_bytes(&w->packer.strips, b->rows);
    s->blocks++;
}

/* body: plain bytes, then packed ones, where those do not follow them. */
static int block_put(struct events_writer *w, struct events_block_head h, const uint8_t *plain,
                     const uint8_t *packed, const struct slice *b, struct err *e)
{
    if (w->sums.blocks == EVENTS_BLOCKS_MAX)
        return err_set(e, SHOAL_E_TOO_BIG, "%s: more than a file may hold; convert a part of it",
                       w->path);
    if (array_room(&w->entry, w->sums.blocks, &w->capacity, 64) != 0)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory for its index; free some", w->path);
    h.magic = BLOCK_MAGIC;
    h.rows = b->rows;
    h.sum = events_block_sum(&h, plain, packed);
    w->entry[w->sums.blocks] =
        (struct events_entry){.at = w->sums.bytes,
                              .sum = h.sum,
                              .bytes = (uint32_t)sizeof h + h.plain + h.packed,
                              .rows = b->rows};
    int rc = put(w, &h, sizeof h, e);
    if (rc == 0)
        rc = put(w, plain, h.plain, e);
    if (rc == 0)
        rc = put(w, packed, h.packed, e);
    if (rc == 0)
        sums_add(w, b);
    return rc;
}

int events_add(struct events_writer *w, struct slice *b, struct err *e)
{
    SHOAL_ASSERT(b->rows > 0 && b->rows <= SLICE_ROWS_MAX);
    if (w->unpacked) {
        if (b->bytes > UINT32_MAX - sizeof(struct events_block_head))
            return err_set(e, SHOAL_E_TOO_BIG, "%s: a block of more than 4 GiB", w->path);
        slice_stamp(b, w->sums.rows);
        const struct events_block_head h = {.plain = (uint32_t)b->bytes, .zipped = BLOCK_PLAIN};
        return block_put(w, h, b->at, b->at + b->bytes, b, e);
    }
    int rc = pack_slice(&w->packer, b, w->columns, e);
    if (rc != 0)
        return rc;
    const struct packer *p = &w->packer;
    const struct events_block_head h = {.plain = (uint32_t)p->plain.bytes,
                                        .packed = (uint32_t)p->packed.bytes,
                                        .rest = (uint32_t)p->rest.bytes,
                                        .zipped = p->zipped};
    return block_put(w, h, p->plain.at, p->packed.at, b, e);
}

static int end_put(struct events_writer *w, struct err *e)
{
    size_t bytes = sizeof *w->entry * w->sums.blocks;
    struct events_end end = {.blocks = w->sums.blocks, .rows = w->sums.rows};
    memcpy(end.magic, EVENTS_END_MAGIC, sizeof end.magic);
    end.index_sum = hash_bytes(w->lines, w->line_bytes, 0);
    end.index_sum = hash_bytes(w->entry, bytes, end.index_sum);
    end.sum = hash_bytes(&end, offsetof(struct events_end, sum), 0);
    int rc = put(w, w->entry, bytes, e);
    return rc == 0 ? put(w, &end, sizeof end, e) : rc;
}

int events_finish(struct events_writer *w, struct events_sums *out, struct err *e)
{
    int rc = w->sums.rows == 0 ? err_set(e, SHOAL_E_DATA, "%s: there is no row to write", w->path)
                               : end_put(w, e);
    bool named = w->temporary[0] != '\0';
    if (rc == 0 && named && file_sync_data(w->fd) != 0)
        rc = write_failed(w, e);
    if (rc == 0 && named && file_place(w->temporary, w->path) != 0)
        rc = errno == EEXIST
                 ? err_set(e, SHOAL_E_EXISTS, "%s is there already; name another file", w->path)
                 : write_failed(w, e);
    if (rc != 0) {
        events_abandon(w);
        return rc;
    }
    *out = w->sums;
    writer_free(w);
    return 0;
}
