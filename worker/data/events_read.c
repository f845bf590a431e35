/* events_read.c: reads event files.
 *
 * 1. No byte of a file is used before its sum was compared, and every number is checked against the
 *    file's size and the limits. [test: events_read_refuses_every_damaged_byte] */
#include "worker/data/events_inner.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "worker/data/taken.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COLUMNS_BYTES_MAX (COLUMNS_MAX * COLUMNS_LINE)
#define AGAIN "fetch the file again, or make it again (shoal convert)"

void events_close(struct events *v)
{
    columns_free(&v->columns);
    free(v->block);
    *v = (struct events){0};
}

void events_room_free(struct events_room *r)
{
    pack_free(&r->packer);
    free(r->body);
    *r = (struct events_room){0};
}

static int read_at(const struct events *v, void *to, uint64_t bytes, uint64_t at, struct err *e)
{
    char *into = to;
    while (bytes > 0) {
        ssize_t n = pread(v->fd, into, (size_t)bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(e, SHOAL_E_IO, "%s: %s; check the disk", v->name, strerror(errno));
        if (n == 0)
            return err_set(e, SHOAL_E_CHECKSUM, "%s: it ends too early; " AGAIN, v->name);
        into += n;
        at += (uint64_t)n;
        bytes -= (uint64_t)n;
        taken_note((uint64_t)n);
    }
    return 0;
}

static int damaged(const struct events *v, const char *part, struct err *e)
{
    return err_set(e, SHOAL_E_CORRUPT, "%s: its %s is damaged; " AGAIN, v->name, part);
}

/* Reads head and columns; *bytes: the length of both. */
static int head_read(struct events *v, uint64_t size, uint64_t *bytes, struct err *e)
{
    struct events_head h;
    if (size < sizeof h)
        return err_set(e, SHOAL_E_DATA,
                       "%s: no event file (shoal convert makes one); look at data.format", v->name);
    int rc = read_at(v, &h, sizeof h, 0, e);
    if (rc != 0)
        return rc;
    if (memcmp(h.magic, EVENTS_MAGIC, 7) != 0)
        return err_set(e, SHOAL_E_DATA,
                       "%s: no event file (shoal convert makes one); look at data.format", v->name);
    if (memcmp(h.magic, EVENTS_MAGIC, 8) != 0)
        return err_set(e, SHOAL_E_DATA,
                       "%s: an event file of another release; convert its log with this one",
                       v->name);
    if (h.bytes == 0 || h.bytes > COLUMNS_BYTES_MAX || h.bytes > size - sizeof h)
        return damaged(v, "head", e);
    char *lines = malloc(h.bytes);
    if (lines == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory for its columns; free some", v->name);
    rc = read_at(v, lines, h.bytes, sizeof h, e);
    if (rc == 0 && hash_bytes(lines, h.bytes, 0) != h.sum)
        rc = damaged(v, "head", e);
    size_t text = h.bytes;
    while (rc == 0 && text > 1 && lines[text - 1] == '\0') /* the padding to 8 bytes */
        text--;
    if (rc == 0)
        rc = columns_parse(lines, text, v->name, &v->columns, e);
    if (rc == 0 && v->columns.count != h.columns)
        rc = damaged(v, "head", e);
    v->digest = h.sum;
    free(lines);
    *bytes = sizeof h + h.bytes;
    return rc;
}

/* Checks that the blocks fill the file from `at` to the index and have as many rows as the end
 * says. */
static int index_check(const struct events *v, uint64_t at, uint64_t end)
{
    uint64_t rows = 0;
    bool good = true;
    for (uint32_t i = 0; i < v->blocks && good; i++) {
        const struct events_entry *x = &v->block[i];
        good = x->at == at && x->bytes >= sizeof(struct events_block_head) &&
               x->bytes <= end - at && x->rows > 0 && x->rows <= SLICE_ROWS_MAX &&
               x->first <= x->last;
        at += x->bytes;
        rows += x->rows;
    }
    if (good && at == end && rows == v->rows)
        return 0;

    return SHOAL_E_CORRUPT;
}

static int index_read(struct events *v, uint64_t size, uint64_t head, struct err *e)
{
    struct events_end end;
    if (size < head + sizeof end)
        return damaged(v, "end", e);
    int rc = read_at(v, &end, sizeof end, size - sizeof end, e);
    if (rc != 0)
        return rc;
    uint64_t room = size - head - sizeof end, bytes = end.blocks * sizeof *v->block;
    if (memcmp(end.magic, EVENTS_END_MAGIC, sizeof end.magic) != 0 ||
        end.sum != hash_bytes(&end, offsetof(struct events_end, sum), 0) || end.blocks == 0 ||
        end.blocks > EVENTS_BLOCKS_MAX || bytes > room)
        return damaged(v, "end", e);
    v->block = malloc(bytes);
    if (v->block == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory for its index; free some", v->name);
    v->blocks = (uint32_t)end.blocks;
    v->rows = end.rows;
    uint64_t at = size - sizeof end - bytes;
    rc = read_at(v, v->block, bytes, at, e);
    if (rc == 0 &&
        (hash_bytes(v->block, bytes, v->digest) != end.index_sum || index_check(v, head, at) != 0))
        rc = damaged(v, "index", e);
    v->digest = end.index_sum;

    return rc;
}

int events_open(int fd, const char *name, struct events *out, struct err *e)
{
    struct stat st;
    uint64_t head = 0;
    *out = (struct events){.name = name, .fd = fd};
    if (fstat(fd, &st) != 0)
        return err_set(e, SHOAL_E_IO, "%s: %s; check the disk", name, strerror(errno));
    int rc = head_read(out, (uint64_t)st.st_size, &head, e);
    if (rc == 0)
        rc = index_read(out, (uint64_t)st.st_size, head, e);
    if (rc != 0)
        events_close(out);
    return rc;
}

static int block_damaged(const struct events *v, uint32_t n, struct err *e)
{
    return err_set(e, SHOAL_E_CORRUPT, "%s: block %u of %u is damaged; " AGAIN, v->name, n,
                   v->blocks);
}

int events_read(const struct events *v, uint32_t n, const struct strips_wanted *wanted,
                struct events_room *r, struct slice *b, struct err *e)
{
    struct events_block_head h;
    SHOAL_ASSERT(n < v->blocks);
    const struct events_entry *x = &v->block[n];
    if (array_reserve(&r->body, x->bytes, &r->capacity) != 0)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory for a block of it; free some", v->name);
    uint64_t begin = 0;
    if (r->clock_ns != NULL)
        begin = r->clock_ns();

    int rc = read_at(v, r->body, x->bytes, x->at, e);
    if (r->clock_ns != NULL)
        r->file_ns += r->clock_ns() - begin;
    r->bytes += x->bytes;
    if (rc != 0)
        return rc;
    memcpy(&h, r->body, sizeof h);
    const uint8_t *body = r->body + sizeof h;
    if (h.magic != BLOCK_MAGIC || h.sum != x->sum || h.rows != x->rows || h.zipped > 1 ||
        (uint64_t)h.plain + h.packed + sizeof h != x->bytes ||
        events_block_sum(&h, body, body + h.plain) != h.sum)
        return block_damaged(v, n, e);
    const struct pack_sizes sizes = {h.rows, h.plain, h.packed, h.rest, h.zipped == 1};
    struct err why = {0};
    rc = pack_unpack(&r->packer, body, &sizes, &v->columns, wanted, b, &why);
    if (rc == SHOAL_E_CORRUPT)
        return block_damaged(v, n, e);
    if (rc == 0)
        return 0;

    return err_set(e, rc, "%s: %s", v->name, why.text);
}
