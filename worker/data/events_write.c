/* events_write.c: writes event files. */
#include "worker/data/events_inner.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/minmax.h"
#include "worker/data/parsed.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct writer {
    const struct events_wish *wish;
    const struct columns *columns; /* borrowed */
    char *lines;                   /* owned */
    size_t line_bytes;
    struct packer packer;
    struct events_entry *entry; /* owned: (sums.blocks) */
    size_t capacity;
    struct events_sums sums;
};

static int put(struct writer *w, const void *data, size_t bytes, struct err *e)
{
    const struct events_wish *wish = w->wish;
    if (bytes > wish->most - w->sums.bytes)
        return err_set(e, SHOAL_E_TOO_BIG, "%s: more than %" PRIu64 " bytes of parsed rows",
                       wish->name, wish->most);
    w->sums.bytes += bytes;
    if (file_write_all(wish->fd, data, bytes) == 0)
        return 0;
    return err_set(e, file_write_status(), "%s: %s; free some space", wish->name, strerror(errno));
}

/* The columns' lines in the form of a file. */
static int lines_take(struct writer *w, struct err *e)
{
    const struct columns *c = w->columns;
    w->line_bytes = c->bytes;
    if (!w->wish->packed)
        w->line_bytes = (c->bytes + 7) & ~(size_t)7;
    w->lines = calloc(1, w->line_bytes + 1);
    if (w->lines == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory to write it; free some", w->wish->name);
    for (size_t i = 0; i < c->bytes; i++)
        w->lines[i] = c->text[i] == '\0' ? '\n' : c->text[i];
    return 0;
}

static int head_put(struct writer *w, struct err *e)
{
    struct events_head head = {.bytes = (uint32_t)w->line_bytes, .columns = w->columns->count};
    memcpy(head.magic, EVENTS_MAGIC, sizeof head.magic);
    head.sum = hash_bytes(w->lines, w->line_bytes, 0);
    int rc = put(w, &head, sizeof head, e);
    if (rc != 0)
        return rc;

    return put(w, w->lines, w->line_bytes, e);
}

uint64_t events_block_sum(const struct events_block_head *h, const uint8_t *plain,
                          const uint8_t *packed)
{
    uint64_t sum = hash_bytes(h, offsetof(struct events_block_head, sum), 0);
    sum = hash_bytes(plain, h->plain, sum);
    return hash_bytes(packed, h->packed, sum);
}

static void sums_add(struct writer *w, const struct slice *b)
{
    struct events_sums *s = &w->sums;
    uint32_t first, last;
    slice_times(b, &first, &last);
    if (first != 0) {
        if (s->first == 0 || first < s->first)
            s->first = first;

        s->last = MAX(last, s->last);
    }
    w->entry[s->blocks].first = first;
    w->entry[s->blocks].last = last;
    s->rows += b->rows;
    s->malformed += b->bad_rows;
    s->decoded += strips_bytes(&w->packer.strips, b->rows);
    s->blocks++;
}

/* Writes a block: plain bytes, then packed ones unless they follow the plain ones in memory. */
static int block_put(struct writer *w, struct events_block_head h, const uint8_t *plain,
                     const uint8_t *packed, const struct slice *b, struct err *e)
{
    if (w->sums.blocks == EVENTS_BLOCKS_MAX)
        return err_set(e, SHOAL_E_TOO_BIG, "%s: more than a file may hold; convert a part of it",
                       w->wish->name);
    if (array_room(&w->entry, w->sums.blocks, &w->capacity, 64) != 0)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory for its index; free some", w->wish->name);
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

static int slice_write(struct writer *w, struct slice *b, struct err *e)
{
    SHOAL_ASSERT(b->rows > 0 && b->rows <= SLICE_ROWS_MAX);
    if (!w->wish->packed) {
        if (b->bytes > UINT32_MAX - sizeof(struct events_block_head))
            return err_set(e, SHOAL_E_TOO_BIG, "%s: a block of more than 4 GiB", w->wish->name);
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

static int end_put(struct writer *w, struct err *e)
{
    size_t bytes = sizeof *w->entry * w->sums.blocks;
    struct events_end end = {.blocks = w->sums.blocks, .rows = w->sums.rows};
    memcpy(end.magic, EVENTS_END_MAGIC, sizeof end.magic);
    end.index_sum = hash_bytes(w->lines, w->line_bytes, 0);
    end.index_sum = hash_bytes(w->entry, bytes, end.index_sum);
    end.sum = hash_bytes(&end, offsetof(struct events_end, sum), 0);
    int rc = put(w, w->entry, bytes, e);
    if (rc != 0)
        return rc;

    return put(w, &end, sizeof end, e);
}

static int slices_write(struct writer *w, struct parsed *p, struct err *e)
{
    const struct events_wish *wish = w->wish;
    struct slice *slice;
    int rc;
    while ((rc = parsed_next(p, &slice, e)) == 0 && (rc = slice_write(w, slice, e)) == 0)
        if (wish->see != NULL)
            wish->see(wish->context, w->sums.rows);
    if (rc != SHOAL_E_END)
        return rc;

    if (w->sums.rows > 0)
        return end_put(w, e);

    return err_set(e, SHOAL_E_DATA, "%s: there is no row to write", wish->name);
}

int events_write(const struct events_wish *wish, struct parsed *p, struct events_sums *out,
                 struct err *e)
{
    struct writer w = {.wish = wish, .columns = parsed_columns(p)};
    int rc = lines_take(&w, e);
    if (rc == 0)
        rc = head_put(&w, e);
    if (rc == 0)
        rc = slices_write(&w, p, e);
    if (rc == 0)
        *out = w.sums;
    pack_free(&w.packer);
    free(w.lines);
    free(w.entry);
    return rc;
}
