/* dataset_kept.c: finds a split's parsed rows in the cache folder, or makes them. */
#include "worker/data/dataset_inner.h"

#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"

#include <stdlib.h>

/* A hash of the positions of columns that belong to no field, for a log without a header: the job
 * names those, and its user may correct the names while the file stays the same. */
static uint64_t places_hash(const struct features *f)
{
    if (f->header || f->format->keyed || !f->format->named)
        return 0;
    uint32_t one[] = {f->weight, f->time, f->group};
    uint64_t places = hash_bytes(one, sizeof one, 0);
    places = hash_bytes(f->label, f->shape.tasks * sizeof f->label[0], places);
    places = hash_bytes(f->by, f->by_count * sizeof f->by[0], places);
    if (f->sample != FEATURE_NO_COLUMN) /* or files of former releases would not be found */
        places = hash_bytes(&f->sample, sizeof f->sample, places);
    for (uint32_t i = 0; i < f->shape.numerics; i++)
        places = rng_mix(places ^ f->numeric[i].column) + i;
    for (uint32_t i = 0; i < f->crosses; i++)
        for (uint32_t k = 0; k < f->cross[i].parts; k++)
            places = rng_mix(places ^ f->cross[i].part[k].column) + i;
    return places;
}

/* The name of the kept file. */
static void name_take(const struct dataset *d, const struct columns *c, struct kept_wish *w)
{
    const struct features *f = &d->features;
    uint64_t lines = hash_bytes(c->text, c->bytes, 1);
    uint32_t cuts[] = {d->events,
                       f->columns,
                       (uint32_t)(unsigned char)f->delimiter[0],
                       f->header,
                       (uint32_t)feature_time_hash(&f->time_form),
                       f->format->whole_numbers,
                       f->format->named};
    lines = hash_bytes(cuts, sizeof cuts, lines) ^ zone_hash(&f->zone) ^ f->dated ^ places_hash(f);
    if (f->entries != ENTRIES_PLACES) /* or files of former releases would not be found */
        lines = rng_mix(lines ^ f->entries);
    if (f->shape.tasks > 1) /* former releases left out rows that lack a label */
        lines = rng_mix(lines ^ f->shape.tasks);
    if (f->clean.hash != 0)
        lines = rng_mix(lines ^ f->clean.hash);
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        lines = rng_mix(lines ^ (f->field[i].column * 256u + (uint8_t)f->field[i].separator)) + i;
        if (f->padding[i].bytes > 0)
            lines = hash_bytes(f->padding[i].text, f->padding[i].bytes, lines);
    }
    w->group = w->identity = lines;
    if (f->format->framing != FRAMING_LINES) { /* another generation than that of single lines */
        const struct row_form form = features_rows(f);
        w->identity = rng_mix(w->identity ^ framing_hash(&form));
    }
    for (uint32_t i = 0; i < d->source.count; i++) {
        w->group = rng_mix(w->group ^ d->source.file[i].group) + 1;
        w->identity = rng_mix(w->identity ^ d->source.file[i].identity) + 1;
    }
}

static bool streams(const struct source *s)
{
    bool any = false;
    for (uint32_t i = 0; i < s->count; i++)
        any |= s->file[i].stream;
    return any;
}

/* `most` bounds the bytes of all kept files in the folder. */
static int rows_take(struct dataset *d, struct parsed *p, uint64_t most, struct err *e)
{
    struct kept_wish w = {
        .cache = &d->cache, .parsed = p, .most = most, .nameless = streams(&d->source)};
    name_take(d, parsed_columns(p), &w);
    int rc = kept_open(&w, &d->kept, e);
    d->stored = rc == 0;
    if (rc == 0 && d->kept.rows != d->index.rows)
        rc = err_set(e, SHOAL_E_CHECKSUM,
                     "%s: its rows are not those that were indexed; leave the input alone while a "
                     "job runs, and start it again",
                     d->source.file[0].name);
    return rc;
}

int dataset_keep_text(struct dataset *d, const struct job *job, struct err *e)
{
    struct parsed *p;
    struct err why = {0};
    if (job->data.cache[0] == '\0' || job->data.cache_max == 0 || job->predict.on ||
        d->index.rows == 0 || streams(&d->source))
        return 0;
    int rc = parsed_open(&d->source, &d->features, false, &p, e);
    if (rc != 0)
        return rc;
    rc = rows_take(d, p, job->data.cache_max, &why);
    parsed_close(p);
    if (rc == SHOAL_E_CHECKSUM) {
        if (e != NULL)
            *e = why;
        return rc;
    }
    if (rc != 0)
        log_warn("%s: parsed rows are not kept (data.cache_max): %s", d->source.file[0].name,
                 why.text);
    return 0;
}

/* Times of the chunks' first rows, as an index has them; a malformed row has none. */
static int times_take(struct dataset *d, struct err *e)
{
    struct index *x = &d->index;
    x->time = malloc(sizeof x->time[0] * (x->chunks + 1ull));
    if (x->time == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the times of the input; free some");
    for (uint32_t i = 0; i < x->chunks; i++) {
        uint32_t time = kept_time(&d->kept, (uint64_t)i * x->chunk_rows);
        if (time != 0)
            x->time[i] = time;
        else if (i > 0)
            x->time[i] = x->time[i - 1];
        else
            x->time[i] = 0;
    }
    index_times_lead(x);
    return 0;
}

/* Makes the chunks that an index of the text would have. */
int dataset_keep_events(struct dataset *d, struct err *e)
{
    struct parsed *p;
    int rc = parsed_open(&d->source, &d->features, true, &p, e);
    if (rc != 0)
        return rc;
    struct index *x = &d->index;
    *x = (struct index){.rows = parsed_rows(p), .digest = parsed_digest(p), .chunk_rows = 1};
    while ((x->rows + x->chunk_rows - 1) / x->chunk_rows > INDEX_CHUNKS_MAX)
        x->chunk_rows *= 2;
    x->chunks = (uint32_t)((x->rows + x->chunk_rows - 1) / x->chunk_rows);
    rc = rows_take(d, p, UINT64_MAX, e);
    parsed_close(p);

    if (rc != 0)
        return rc;

    return times_take(d, e);
}
