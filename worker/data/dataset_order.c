/* dataset_order.c: the index of a split, and the order of training. */
#include "worker/data/dataset_inner.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* up to this many rows a chunk is one row with its own time: 59 MB */
#define REPLAY_CHUNKS_MAX (1u << 21)

struct row_clock {
    const struct features *features;
    struct cell *cell; /* CELLS_MAX */
};

static uint32_t row_time(void *context, struct line *line)
{
    const struct row_clock *c = context;
    const struct features *f = c->features;
    char reason[REASON_BYTES];
    uint32_t time;
    if (f->time == FEATURE_NO_COLUMN)
        return f->span[line->file].from;

    if (f->format->line(f, line->text, line->bytes, c->cell, reason) == 0 &&
        feature_time(&c->cell[f->time], &f->time_form, &f->zone, &time))
        return time;
    if (f->dated != 0)
        return f->span[line->file].from;

    return 0;
}

/* A hash of all settings that change a row's time. */
static uint64_t clock_identity(const struct job *job, const struct features *f)
{
    uint64_t of[] = {job->data.format,
                     format_delimiter_hash(job->data.delimiter),
                     f->time,
                     feature_time_hash(&f->time_form),
                     zone_hash(&f->zone),
                     f->dated};
    return hash_bytes(of, sizeof of, 0);
}

/* The index is not kept where the text of an object is not kept. */
static const struct cache *index_cache(const struct dataset *d, const struct job *job)
{
    bool passes = d->source.count > 0 && d->source.file[0].fetched && job->data.cache_max == 0;

    if (passes)
        return NULL;

    return &d->cache;
}

/* Rows of a chunk stay together, so windows can split a log without order in time only where a
 * chunk is one row. Adds a warning about that to the others. */
void dataset_look_at_order(struct dataset *d, const struct job *job)
{
    size_t at = strlen(d->warning);
    const char *what = "data.shuffle.within";
    uint32_t within = job->data.shuffle_within;
    if (job->replay.on) {
        what = "replay";
        within = job->replay.window;
    }
    if (d->index.chunk_rows > 1 && d->order.going_back > d->order.whole / 100)
        (void)snprintf(d->warning + at, sizeof d->warning - at,
                       "%s%s: the rows are in no order of time (%u of %u chunks of %u rows begin "
                       "more than %u s before the one in front of them), and rows of a chunk stay "
                       "together: sort the log by its time",
                       at > 0 ? "; " : "", what, d->order.going_back, d->order.whole,
                       d->index.chunk_rows, within);
}

int dataset_index(struct dataset *d, const struct job *job, uint32_t split, struct err *e)
{
    bool train = split == WIRE_TRAIN;
    bool drawn = train && job->data.shuffle && !job->replay.on;
    uint32_t within = job->data.shuffle_within;
    if (!train)
        within = 0;
    else if (job->replay.on)
        within = job->replay.window;

    struct row_clock c = {.features = &d->features};
    struct index_clock clock = {row_time, &c, clock_identity(job, &d->features),
                                job->replay.on ? REPLAY_CHUNKS_MAX : INDEX_CHUNKS_MAX};
    SHOAL_ASSERT(within == 0 || features_timed(&d->features));
    if (within > 0)
        c.cell = malloc(sizeof c.cell[0] * CELLS_MAX);
    else
        c.cell = NULL;
    if (within > 0 && c.cell == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the cells of a line");
    const struct row_form form = features_rows(&d->features);
    int rc;
    if (!d->events)
        rc = index_open(&d->source, &form, within > 0 ? &clock : NULL, index_cache(d, job),
                        &d->index, e);
    else if (within > 0)
        rc = dataset_keep_events(d, e);
    else
        rc = dataset_group_events(d, job, drawn, e);
    free(c.cell);
    if (rc == 0 && d->groups == NULL)
        rc = order_open(&d->order, &d->index, drawn, within, &job->data.zone, e);
    if (rc == 0 && job->replay.on && d->order.windows > WIRE_WINDOWS_MAX)
        rc = err_set(e, SHOAL_E_DATA,
                     "data.train has %u windows of %u s, at most %u are possible: raise "
                     "replay.window",
                     d->order.windows, within, WIRE_WINDOWS_MAX);
    return rc;
}
