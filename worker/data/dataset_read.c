/* dataset_read.c: reads batches by position.
 *
 * 1. Rows of whole chunks come first in an epoch, in the order of order.h. The rows of a last,
 *    smaller chunk come last, so that division alone turns every earlier position into
 *    (chunk, row in chunk). [assert: batch_read]
 * 2. A chunk is read whole and compared with its checksum, even if a batch takes only some of its
 *    rows. [assert: read_lines] [test: dataset_changed_input_is_an_error]
 * 3. The row, not its position, decides whether training takes it (draw.h), so that another order
 *    or batch size does not change the choice.
 *    [test: dataset_negatives_are_a_share_drawn_anew_each_epoch]
 *    [test: dataset_sample_is_the_same_in_each_epoch] */
#include "worker/data/dataset_inner.h"

#include "proto/base/assert.h"
#include "worker/data/batch_inner.h"

#include <inttypes.h>

/* Chunks that are adjacent in the input and in the order, read at once. */
struct span {
    uint64_t chunk, chunks;
    uint64_t skip; /* rows of its first chunk that are skipped */
    uint64_t rows; /* rows that are read */
};

static int changed(const struct dataset *d, uint64_t at, struct err *e)
{
    return err_set(e, SHOAL_E_CHECKSUM,
                   "%s: its rows are not those that were indexed; leave the input alone while a "
                   "job runs, and start it again "
                   "(if it happens again, remove the folder %s)",
                   d->source.file[source_file_at(&d->source, at)].name, d->cache.folder);
}

/* True when the row lies outside its file's partition; the chunk's first row tells the file. */
static bool stored_outside(const struct dataset *d, uint64_t row)
{
    uint64_t at = 0;
    if (d->features.dated != 0)
        at = d->index.chunk[row / d->index.chunk_rows].at;

    return d->features.dated != 0 &&
           features_outside(&d->features, source_file_at(&d->source, at), kept_time(&d->kept, row));
}

static int read_stored(const struct dataset *d, const struct draw *draw, const struct span *span,
                       struct batch *b, struct err *e)
{
    uint64_t first = span->chunk * d->index.chunk_rows + span->skip;
    int rc = 0;
    SHOAL_ASSERT(first + span->rows <= d->index.rows);
    for (uint64_t row = first; row < first + span->rows && rc == 0; row++) {
        uint32_t examples = b->examples;
        struct slice_row r;
        rc = kept_row(&d->kept, row, &r);
        if (rc == 0)
            rc = batch_add_stored(b, &d->features, &r, draw, row, e);
        b->outside += rc == 0 && b->examples > examples && stored_outside(d, row);
    }
    if (rc != SHOAL_E_CHECKSUM)
        return rc;

    return err_set(e, rc,
                   "%s: its parsed rows in the folder %s are damaged; remove that folder and "
                   "start the job again",
                   d->source.file[0].name, d->cache.folder);
}

static int read_lines(const struct dataset *d, const struct draw *draw, const struct span *span,
                      struct batch *b, struct err *e)
{
    const struct index *x = &d->index;
    struct lines *lines = &b->space->lines;
    uint64_t row = span->chunk * x->chunk_rows, first = row + span->skip, last = first + span->rows;
    uint64_t end = (span->chunk + span->chunks) * x->chunk_rows, chunk = span->chunk, sum = 0;
    struct line line;
    int rc;
    SHOAL_ASSERT(span->chunks > 0 && span->chunk + span->chunks <= x->chunks);
    if (end > x->rows)
        end = x->rows;
    lines_start(lines, &d->source, features_rows(&d->features), x->chunk[chunk].at,
                index_chunk_end(x, chunk + span->chunks - 1), x->chunk[chunk].number);
    while ((rc = lines_next(lines, &line, e)) == 0) {
        if (row == end)
            return changed(d, x->chunk[chunk - 1].at, e);
        sum += index_row_sum(row, &line);
        if (row >= first && row < last)
            rc = batch_add(b, &d->features, &line, d->source.file[line.file].name, draw, row, e);
        if (rc != 0)
            return rc;
        row++;
        if ((row & (x->chunk_rows - 1)) == 0 || row == x->rows) {
            if (sum != x->chunk[chunk].sum)
                return changed(d, x->chunk[chunk].at, e);
            chunk++;
            sum = 0;
        }
    }
    if (rc != SHOAL_E_END)
        return rc;
    if (row != end)
        return changed(d, x->chunk[chunk].at, e);
    SHOAL_ASSERT(chunk == span->chunk + span->chunks); /* 2: all of them were compared */
    return 0;
}

/* Spans are collected before the first of them is read, to prefetch kept rows, which may lie
 * anywhere. */
#define SPANS 32u

/* True when a span is one row that the sample leaves out by its number: it need not be read. */
static bool span_left(const struct dataset *d, const struct draw *draw, const struct span *span)
{
    return span->rows == 1 && d->index.chunk_rows == 1 && !draw->by &&
           draw_leaves(draw, span->chunk, NULL);
}

static int read_spans(const struct dataset *d, const struct draw *draw, const struct span *span,
                      uint32_t count, struct batch *b, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < count && d->stored; i++)
        kept_expect(&d->kept, span[i].chunk * d->index.chunk_rows + span[i].skip);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        if (span_left(d, draw, &span[i]))
            b->dropped++;
        else if (d->stored)
            rc = read_stored(d, draw, &span[i], b, e);
        else
            rc = read_lines(d, draw, &span[i], b, e);
    return rc;
}

int batch_read(const struct dataset *d, uint64_t seed, uint32_t epoch, uint64_t position,
               uint32_t rows, struct batch *out, struct err *e)
{
    const struct index *x = &d->index;
    SHOAL_ASSERT(rows <= LIMIT_BATCH);
    if (rows > x->rows || position > x->rows - rows)
        return err_set(e, SHOAL_E_DATA,
                       "a batch of %u rows at %" PRIu64 " goes beyond the %" PRIu64
                       " rows of the input (first file: %s)",
                       rows, position, x->rows, d->source.file[0].name);
    struct draw draw = d->draw;
    draw.seed = seed;
    draw.salt = d->salt;
    draw.epoch = epoch;
    seed ^= d->salt;
    int rc = batch_begin(out, &d->features, rows, epoch == 0, e);
    if (rc == 0) {
        out->space->lines.clock_ns = out->clock_ns;
        out->space->lines.file_ns = 0;
    }
    if (rc == 0 && d->groups != NULL) {
        rc = dataset_read_events(d, &draw, position, rows, out, e);
        if (rc != 0)
            return rc;

        return batch_end(out, e);
    }
    uint64_t left = rows;
    struct span span[SPANS];
    uint32_t count = 0;
    for (uint64_t at = position; rc == 0 && left > 0;) {
        uint64_t place = at / x->chunk_rows, skip = at % x->chunk_rows;
        uint64_t take = left;
        if (x->chunk_rows - skip < left)
            take = x->chunk_rows - skip;

        uint64_t chunk = place;
        if (epoch > 0 && place < d->order.whole)
            chunk = order_chunk(&d->order, seed, epoch, place);

        struct span *last = NULL;
        if (count > 0)
            last = &span[count - 1];

        SHOAL_ASSERT(chunk < d->order.whole || chunk == place); /* 1 */
        at += take;
        left -= take;
        if (last != NULL && chunk == last->chunk + last->chunks) {
            last->chunks++;
            last->rows += take;
            continue;
        }
        if (count == SPANS) {
            rc = read_spans(d, &draw, span, count, out, e);
            count = 0;
        }
        span[count++] = (struct span){chunk, 1, skip, take};
    }
    if (rc == 0)
        rc = read_spans(d, &draw, span, count, out, e);
    if (rc == 0)
        out->file_ns = out->space->lines.file_ns;
    if (rc != 0)
        return rc;

    return batch_end(out, e);
}
