/* kept.c: parsed rows as a mapped event file.
 *
 * 1. A file is used when its head, index and end match their sums and these features. Its blocks
 *    are checked when they are read (slice.c). [test: rows_with_another_end_are_made_again] */
#include "worker/data/kept.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "worker/data/events_inner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX "rows"

/* ---- opening --------------------------------------------------------------------------------- */

void kept_close(struct kept *k)
{
    if (k->map != NULL)
        munmap(k->map, k->bytes);
    free(k->block);
    *k = (struct kept){0};
}

/* Finds the blocks; false: a block is too small for its rows. */
static bool blocks_take(struct kept *k, const struct events *v)
{
    const struct slice_layout *l = &k->layout;
    const size_t head = sizeof(struct events_block_head);
    bool good = true;
    uint64_t first = 0;
    for (uint32_t i = 0; i < v->blocks && good; i++) {
        const struct events_entry *x = &v->block[i];
        uint64_t least;
        if (l->multi)
            least = 8 + (uint64_t)x->rows * (8 + l->least);
        else
            least = (uint64_t)x->rows * l->stride;
        good = x->at % 8 == 0 && x->bytes >= head + least;
        k->block[i] = (struct slice){.layout = l,
                                     .at = k->map + x->at + head,
                                     .bytes = x->bytes - head,
                                     .rows = x->rows,
                                     .first = first};
        first += x->rows;
    }
    k->rows = v->rows;
    k->blocks = v->blocks;
    while (good && k->block[0].rows >> k->shift > 1)
        k->shift++;
    return good;
}

/* True when the mapped file has the columns of these features. */
static bool fits(struct kept *k, const struct events *v, const struct columns *c)
{
    if (v->columns.bytes != c->bytes || memcmp(v->columns.text, c->text, c->bytes) != 0)
        return false;
    k->block = calloc(v->blocks, sizeof *k->block);
    return k->block != NULL && blocks_take(k, v);
}

/* Maps the file and closes fd. NOT_FOUND: it is no such file. `out` must not move while it is
 * open. */
static int map(int fd, const struct kept_wish *w, struct kept *out, struct err *e)
{
    struct events v;
    struct stat st;
    *out = (struct kept){.layout = *parsed_layout(w->parsed)};
    int rc = events_open(fd, w->cache->folder, &v, NULL);
    if (rc == 0 && fstat(fd, &st) == 0) {
        void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        out->map = at != MAP_FAILED ? at : NULL;
        out->bytes = (size_t)st.st_size;
    }
    close(fd);
    bool good = out->map != NULL && fits(out, &v, parsed_columns(w->parsed));
    if (rc == 0)
        events_close(&v);
    if (good)
        return 0;
    kept_close(out);
    return err_set(e, SHOAL_E_NOT_FOUND, "no parsed rows are kept in %s", w->cache->folder);
}

static int find(const struct kept_wish *w, struct kept *out, struct err *e)
{
    int fd = -1;
    if (!w->nameless)
        fd = cache_find(w->cache, w->group, w->identity, SUFFIX);

    if (fd >= 0)
        return map(fd, w, out, e);

    return SHOAL_E_NOT_FOUND;
}

/* ---- making ---------------------------------------------------------------------------------- */

static int all_write(const struct kept_wish *w, int fd, struct err *e)
{
    bool bound = !w->nameless && w->most < UINT64_MAX;
    uint64_t others = 0;
    if (bound)
        others = cache_bytes(w->cache, SUFFIX, w->group);

    const struct events_wish wish = {
        .name = w->cache->folder, .fd = fd, .most = SAT_SUB(w->most, others)};
    struct events_sums sums;
    return events_write(&wish, w->parsed, &sums, e);
}

/* Makes the rows in a nameless file. */
static int spool(const struct kept_wish *w, int *fd, struct err *e)
{
    int rc = cache_spool(w->cache, fd, e);
    if (rc != 0)
        return rc;
    rc = all_write(w, *fd, e);
    if (rc != 0)
        close(*fd);
    return rc;
}

static int keep(const struct kept_wish *w, int *fd, struct err *e)
{
    struct cache_file file;
    int rc = cache_create(w->cache, w->group, w->identity, SUFFIX, &file, e);
    if (rc != 0)
        return rc;
    rc = all_write(w, file.fd, e);
    if (rc == 0)
        return cache_keep(&file, fd, e);
    cache_drop(&file);
    return rc;
}

static int make(const struct kept_wish *w, struct kept *out, struct err *e)
{
    int fd, rc;
    if (w->nameless)
        rc = spool(w, &fd, e);
    else
        rc = keep(w, &fd, e);
    if (rc != 0)
        return rc;
    rc = map(fd, w, out, e);
    if (rc != SHOAL_E_NOT_FOUND)
        return rc;

    return err_set(e, SHOAL_E_IO, "%s: cannot map parsed rows: %s", w->cache->folder,
                   strerror(errno));
}

int kept_open(const struct kept_wish *w, struct kept *out, struct err *e)
{
    int rc = find(w, out, e);
    if (rc != SHOAL_E_NOT_FOUND)
        return rc;
    int lock = -1;
    if (!w->nameless)
        lock = cache_lock(w->cache, w->group, w->identity, SUFFIX);

    rc = find(w, out, e);
    if (rc == SHOAL_E_NOT_FOUND)
        rc = make(w, out, e);
    if (lock >= 0)
        close(lock);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The block of a row. */
static const struct slice *block_of(const struct kept *k, uint64_t row)
{
    uint64_t guess = row >> k->shift;
    uint32_t low = 0, high = k->blocks;
    SHOAL_ASSERT(row < k->rows);
    if (guess < high && row - k->block[guess].first < k->block[guess].rows)
        return &k->block[guess];
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (k->block[middle].first <= row)
            low = middle;
        else
            high = middle;
    }
    return &k->block[low];
}

int kept_row(const struct kept *k, uint64_t row, struct slice_row *out)
{
    const struct slice *s = block_of(k, row);
    return slice_row(s, (uint32_t)(row - s->first), out);
}

uint32_t kept_time(const struct kept *k, uint64_t row)
{
    const struct slice *s = block_of(k, row);
    return slice_time(s, (uint32_t)(row - s->first));
}

void kept_expect(const struct kept *k, uint64_t row)
{
    const struct slice *s = block_of(k, row);
    slice_expect(s, (uint32_t)(row - s->first));
}
