/* dataset.c: source, index and features of one split are opened, and told.
 *
 * After dataset_open nothing in a dataset changes but the groups that are held.
 * [test: dataset_is_read_by_several_threads] */
#include "worker/data/dataset_inner.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/wire/wire.h"
#include "worker/data/dated.h"
#include "worker/data/heads.h"
#include "worker/data/labels.h"
#include "worker/data/object.h"
#include "worker/data/profile.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- opening ---- */

/* An evaluation split may have its labels already; otherwise each impression is joined once. */
static int split_join(struct dataset *d, const struct job *job, uint32_t split, struct err *e)
{
    bool labelled = false, train = split == WIRE_TRAIN;
    int rc = 0;
    if (!train)
        rc = join_text_labelled(job, &d->source, &labelled, e);
    if (rc != 0 || labelled)
        return rc;
    d->joined = true;
    return join_text(job, job->data.join.learn && train, &d->cache, &d->source, &d->join, e);
}

/* Opens the texts of the object of `line`, or of the whole split when it is NULL. */
static int texts_open(struct dataset *d, const struct job *job, uint32_t split, const char *line,
                      struct err *e)
{
    const char *what;
    const struct string_list *list = job_input(job, split, &what);
    if (line != NULL) {
        d->salt = object_salt(line);
        return object_open(job, split, line, &d->cache, &d->source, e);
    }
    if (job->data.objects.of[split].open != NULL)
        return object_open_all(job, split, &d->cache, &d->source, e);

    return source_open(list, what, &d->cache, &d->source, e);
}

int dataset_parts_open(struct dataset *d, const struct job *job, uint32_t split, const char *line,
                       struct err *e)
{
    SHOAL_ASSERT(split <= WIRE_TEST);
    d->events = job->data.format == DATA_EVENTS;
    if (split == WIRE_TRAIN)
        d->draw = draw_of(job);
    int rc = cache_init(&d->cache, job->data.cache, e);
    if (rc == 0)
        rc = texts_open(d, job, split, line, e);
    if (rc == 0 && job->data.join.on && !job->predict.on)
        rc = split_join(d, job, split, e);
    if (rc == 0)
        rc = dataset_make_features(job, &d->cache, split, &d->features, e);
    d->features.learnt = split == WIRE_TRAIN;
    if (split != WIRE_TRAIN)
        d->features.sample = FEATURE_NO_COLUMN; /* its files need no such column */
    if (rc == 0 && split == WIRE_TRAIN)
        rc = dated_take(job, &d->source, &d->features, e);
    if (rc == 0 && !d->events)
        return dataset_bind(d, job, e);

    return rc;
}

/* The same, with all figures. */
static int parts_open(struct dataset *d, const struct job *job, uint32_t split, const char *line,
                      struct err *e)
{
    int rc = dataset_parts_open(d, job, split, line, e);
    if (rc == 0 && !d->events) /* event files were made with figures */
        return dataset_figures(job, &d->features, e);

    return rc;
}

static int rows_open(struct dataset *d, const struct job *job, uint32_t split, const char *what,
                     struct err *e)
{
    int rc = dataset_index(d, job, split, e);
    if (rc == 0 && d->index.rows == 0 && d->salt == 0) /* an object may be empty */
        rc = err_set(e, SHOAL_E_DATA,
                     "%s: there is no row in it (first file: %s); look at the files", what,
                     d->source.file[0].name);
    if (d->salt != 0 && d->events)
        rc = dataset_object_fault(rc, what, e);
    if (rc == 0 && !d->events)
        return dataset_keep_text(d, job, e);

    return rc;
}

struct dataset *dataset_new(const char *what, struct err *e)
{
    struct dataset *d = calloc(1, sizeof *d);
    if (d == NULL)
        err_set(e, SHOAL_E_NOMEM, "%s: no memory to open it; free some", what);
    return d;
}

static int open_of(const struct job *job, uint32_t split, const char *line, struct dataset **out,
                   struct err *e)
{
    const char *what;
    (void)job_input(job, split, &what);
    struct dataset *d = dataset_new(what, e);
    if (d == NULL)
        return SHOAL_E_NOMEM;
    int rc = 0;
    if (line == NULL)
        rc = heads_check(job, split, e);
    if (rc == 0)
        rc = parts_open(d, job, split, line, e);
    if (rc == 0)
        rc = rows_open(d, job, split, what, e);
    if (rc != 0) {
        dataset_close(d);
        return rc;
    }
    if (split == WIRE_TRAIN && !d->events)
        labels_look(&d->source, &d->index, &d->features, d->warning);
    if (split == WIRE_TRAIN && d->joined && d->warning[0] == '\0')
        join_text_judge(&d->join, d->warning, sizeof d->warning);
    dataset_look_at_order(d, job);
    if (d->warning[0] != '\0')
        log_warn("%s: %s", what, d->warning);
    log_debug("%s: %" PRIu64 " rows, %u chunks of %u", what, d->index.rows, d->index.chunks,
              d->index.chunk_rows);
    *out = d;
    return 0;
}

int dataset_open(const struct job *job, uint32_t split, struct dataset **out, struct err *e)
{
    return open_of(job, split, NULL, out, e);
}

int dataset_open_object(const struct job *job, uint32_t split, const char *line,
                        struct dataset **out, struct err *e)
{
    return open_of(job, split, line, out, e);
}

int dataset_parsed(const struct job *job, uint32_t split, struct dataset **out, struct parsed **p,
                   struct err *e)
{
    const char *what;
    (void)job_input(job, split, &what);
    struct dataset *d = dataset_new(what, e);
    if (d == NULL)
        return SHOAL_E_NOMEM;
    int rc = parts_open(d, job, split, NULL, e);
    if (rc == 0)
        rc = parsed_open(&d->source, &d->features, d->events, p, e);
    if (rc != 0)
        dataset_close(d);
    else
        *out = d;
    return rc;
}

void dataset_close(struct dataset *d)
{
    if (d == NULL)
        return;
    kept_close(&d->kept);
    groups_close(d->groups);
    source_close(&d->source);
    order_close(&d->order);
    index_close(&d->index);
    features_free(&d->features);
    free(d);
}

void dataset_forget(struct dataset *d)
{
    object_forget(&d->source, &d->cache);
    dataset_close(d);
}

void dataset_trim(const struct dataset *d, const struct job *job)
{
    object_trim(job, &d->cache);
}

/* ---- what it tells ---- */

int dataset_profile(const struct dataset *d, const struct job *job, struct json **out,
                    struct err *e)
{
    *out = NULL;
    if (!d->events)
        return profile_make(job, &d->source, &d->index, &d->features, out, e);
    int rc = profile_make_events(job, &d->source, d->index.rows, &d->features, out, e);

    if (d->salt == 0)
        return rc;

    return dataset_object_fault(rc, "data.train", e);
}

int dataset_by(const struct dataset *d, bool (*see)(void *context, const struct cell *by),
               void *context, struct err *e)
{
    const struct features *f = &d->features;
    struct cell by[LIMIT_BY], *cell;
    struct lines lines;
    struct line line;
    char reason[REASON_BYTES];
    if (d->events)
        return 0; /* event files have hashes of the cells, no texts */
    cell = malloc(sizeof *cell * CELLS_MAX);
    int rc;
    if (cell == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the cells of a line");
    else
        rc = lines_init(&lines, e);
    if (rc != 0) {
        free(cell);
        return rc;
    }
    lines_start(&lines, &d->source, features_rows(f), 0, d->source.bytes, 0);
    for (bool more = true; more && (rc = lines_next(&lines, &line, e)) == 0;) {
        if (clean_line(f, &line, cell, reason) != 0)
            continue;
        for (uint32_t i = 0; i < f->by_count; i++)
            by[i] = cell[f->by[i]];
        more = see(context, by);
    }
    lines_free(&lines);
    free(cell);
    if (rc == SHOAL_E_END)
        return 0;
    return rc;
}

uint64_t dataset_rows(const struct dataset *d)
{
    return d->index.rows;
}

uint64_t dataset_read_bytes(const struct dataset *d)
{
    if (d->groups == NULL)
        return 0;

    return groups_read(d->groups);
}

uint64_t dataset_digest(const struct dataset *d)
{
    return d->index.digest;
}

uint32_t dataset_windows(const struct dataset *d)
{
    return d->order.windows;
}

uint64_t dataset_window(const struct dataset *d, uint32_t window, uint32_t *number, uint32_t *first)
{
    *number = d->order.window[window];
    *first = d->index.time[d->order.chunk[d->order.first[window]]];
    return order_rows(&d->order, &d->index, window);
}

const char *dataset_warning(const struct dataset *d)
{
    return d->warning;
}

const struct join_counts *dataset_join(const struct dataset *d)
{
    if (!d->joined)
        return NULL;

    return &d->join;
}
