/* dataset.c: source, index and features of one split; reads batches by position.
 *
 * 1. Rows of whole chunks come first in an epoch, in the order of order.h. The rows of a last,
 *    smaller chunk come last, so that division alone turns every earlier position into
 *    (chunk, row in chunk). [assert: batch_read]
 * 2. A chunk is read whole and compared with its checksum, even if a batch takes only some of its
 *    rows. [assert: read_lines] [test: dataset_changed_input_is_an_error]
 * 3. After dataset_open nothing in a dataset changes but the groups that are held.
 *    [test: dataset_is_read_by_several_threads]
 * 4. The row, not its position, decides whether training takes it (draw.h), so that another order
 *    or batch size does not change the choice.
 *    [test: dataset_negatives_are_a_share_drawn_anew_each_epoch]
 *    [test: dataset_sample_is_the_same_in_each_epoch] */
#include "worker/data/dataset_inner.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "worker/data/batch_inner.h"
#include "worker/data/dated.h"
#include "worker/data/feature.h"
#include "worker/data/heads.h"
#include "worker/data/labels.h"
#include "worker/data/object.h"
#include "worker/data/profile.h"
#include "worker/data/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* up to this many rows a chunk is one row with its own time: 59 MB */
#define REPLAY_CHUNKS_MAX (1u << 21)

/* Chunks that are adjacent in the input and in the order, read at once. */
struct span {
    uint64_t chunk, chunks;
    uint64_t skip; /* rows of its first chunk that are skipped */
    uint64_t rows; /* rows that are read */
};

/* ---- opening ---- */

/* True when the job names its fields and its label, so that no training input is needed to number
 * them. */
static bool names_all(const struct job *job)
{
    for (size_t i = 0; i < job->features.fields.count; i++) {
        const char *name = job->features.fields.item[i];
        if (name[strspn(name, "0123456789")] == '\0') /* a position in that very input */
            return false;
    }
    return job->data.header && job->features.fields.count > 0 && !job->features.fields_auto &&
           job->data.label[0][0] != '\0';
}

/* The header of file i; *text lives in `lines`. END: the file is empty. */
static int header_of(const struct source *s, uint32_t i, struct lines *lines, struct line *line,
                     struct err *e)
{
    SHOAL_ASSERT(i < s->count);
    if (s->file[i].bytes == 0)
        return SHOAL_E_END;
    lines_start(lines, s, false, s->file[i].base, s->file[i].base + s->file[i].bytes, 0);
    return lines_next(lines, line, e);
}

/* The first line; the caller owns *line. END: there is none. */
static int first_line(const struct source *s, char **line, struct err *e)
{
    struct lines lines;
    struct line first;
    int rc = lines_init(&lines, e);
    if (rc != 0)
        return rc;
    rc = header_of(s, 0, &lines, &first, e);
    if (rc == 0 && first.too_long)
        rc = err_set(e, SHOAL_E_DATA,
                     "data.train: object %s: its first line is longer than 1 MiB; look at it",
                     s->file[0].name);
    *line = NULL;
    if (rc == 0)
        *line = strndup(first.text, first.bytes);
    if (rc == 0 && *line == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the first line of the input");
    lines_free(&lines);
    return rc;
}

/* Reports a damaged object as DATA: the object is at fault, not this machine. */
static int object_fault(int rc, const char *what, struct err *e)
{
    struct err was;
    if (e != NULL)
        was = *e;
    else
        was = (struct err){0};

    if (rc == SHOAL_E_CORRUPT || rc == SHOAL_E_CHECKSUM)
        return err_set(e, SHOAL_E_DATA, "%s: object %s", what, was.text);

    return rc;
}

/* The head of an object, which defines the columns; the caller owns it. END: the object is
 * empty. */
static int object_head(const struct job *job, const char *object, const struct cache *cache,
                       char **head, struct err *e)
{
    struct source s;
    int rc = object_open(job, WIRE_TRAIN, object, cache, &s, e);
    if (rc != 0)
        return rc;
    if (job->data.format == DATA_EVENTS)
        rc = object_fault(dataset_head_of_events(&s, head, e), "data.train", e);
    else
        rc = first_line(&s, head, e);

    source_close(&s);
    return rc;
}

static bool may_be_left_out(const struct job *job, int rc)
{
    return job->data.objects.leave_out &&
           (rc == SHOAL_E_DATA || rc == SHOAL_E_NOINPUT || rc == SHOAL_E_UNAVAILABLE);
}

/* The head of the first object that is not empty. END: all are empty. */
static int objects_head(const struct job *job, const struct string_list *lines,
                        const struct cache *cache, char **head, struct err *e)
{
    int rc = SHOAL_E_END;
    for (size_t i = 0; i < lines->count && (rc == SHOAL_E_END || may_be_left_out(job, rc)); i++)
        rc = object_head(job, lines->item[i], cache, head, e);
    return rc;
}

int dataset_objects(const struct job *job, uint32_t split, struct string_list *lines, char **head,
                    struct err *e)
{
    struct cache cache;
    *head = NULL;
    int rc = cache_init(&cache, job->data.cache, e);
    if (rc == 0)
        rc = object_list(job, split, lines, e);
    if (rc != 0 || split != WIRE_TRAIN || format_of(job->data.format)->columns != NULL)
        return rc;
    rc = objects_head(job, lines, &cache, head, e);
    if (rc == SHOAL_E_END)
        rc = err_set(e, SHOAL_E_DATA,
                     "data.train: there is no line in any of the %zu objects; look at them",
                     lines->count);
    if (rc != 0)
        config_list_free(lines);
    return rc;
}

void dataset_listed_free(struct dataset_listed *l)
{
    config_list_free(&l->lines);
    free(l->head);
    free(l->gone);
    *l = (struct dataset_listed){.head = NULL};
}

int dataset_objects_again(const struct job *job, const struct nameset *taken, bool first,
                          struct dataset_listed *out, struct err *e)
{
    struct cache cache;
    *out = (struct dataset_listed){.head = NULL};
    int rc = cache_init(&cache, job->data.cache, e);
    if (rc == 0)
        rc = object_list_again(job, taken, &out->lines, &out->gone, &out->gone_bytes, e);
    if (rc != 0 || !first || out->lines.count == 0 || format_of(job->data.format)->columns != NULL)
        return rc;
    rc = objects_head(job, &out->lines, &cache, &out->head, e);
    if (rc != 0)
        dataset_listed_free(out);
    if (rc == SHOAL_E_END)
        return 0; /* as if no object existed yet */
    return rc;
}

struct nameset_item *dataset_files(const struct dataset *d, uint32_t *count, bool *unknown)
{
    const struct source *s = &d->source;
    struct nameset_item *item = malloc((s->count + 1ull) * sizeof *item);
    *count = 0;
    *unknown = d->joined;
    for (uint32_t i = 0; item != NULL && i < s->count && !d->joined; i++) {
        *unknown |= s->file[i].stream;
        if (!s->file[i].stream)
            item[(*count)++] = nameset_item(s->file[i].name, strlen(s->file[i].name));
    }
    return item;
}

bool dataset_goes_by_names(const struct job *job)
{
    const char *what;
    const struct string_list *list = job_input(job, WIRE_TRAIN, &what);
    bool stream = list->count > 0 && source_is_stream(list->item[0]),
         reads = job_reads_only(job) && (stream || job->data.objects.of[WIRE_TRAIN].on);
    return (job->predict.on || reads) && job->data.format != DATA_EVENTS &&
           feature_names_known(job);
}

static int features_of_objects(const struct job *job, struct features *f, struct err *e)
{
    struct string_list lines;
    char *head;
    int rc = dataset_objects(job, WIRE_TRAIN, &lines, &head, e);
    if (rc != 0)
        return rc;
    rc = features_make(job, lines.item[0], head, strlen(head), f, e);
    config_list_free(&lines);
    free(head);
    return rc;
}

/* Makes the features from the first line of the training input, so that every split has the same
 * fields. Jobs that go by names, and jobs whose training input is gone, use the tables' names
 * instead. A job without training input, or a prediction that can, uses split `other`. */
static int features_open(const struct job *job, const struct cache *cache, uint32_t other,
                         struct features *f, struct err *e)
{
    const char *what;
    if (job->data.format == DATA_EVENTS)
        return dataset_features_of_events(job, other, f, e);
    const struct string_list *list = job_input(job, WIRE_TRAIN, &what);
    bool stream = list->count > 0 && source_is_stream(list->item[0]);
    /* otherwise this would list all of a long log */
    bool looks = job->predict.on || job->data.objects.grow_ms == 0;
    bool gone = looks && list->count > 0 && !stream && source_check(list, what, NULL) != 0;
    if (dataset_goes_by_names(job) || (gone && feature_names_known(job)))
        return features_make(job, "the tables", NULL, 0, f, e);
    bool named = job->predict.on && names_all(job);
    if (job->predict.on && stream && !named && format_of(job->data.format)->columns == NULL)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s was a stream, which numbered the fields and is gone: name a file of the "
                       "same columns with --set data.train=FILE",
                       what);
    if (list->count == 0 || (named && (stream || gone)))
        list = job_input(job, other, &what);
    if (format_of(job->data.format)->columns != NULL)
        return features_make(job, what, NULL, 0, f, e);
    if (list == &job->data.train && job->data.head != NULL)
        return features_make(job, what, job->data.head, strlen(job->data.head), f, e);
    if (list == &job->data.train && job->data.objects.of[WIRE_TRAIN].on)
        return features_of_objects(job, f, e);
    char *name, *line;
    size_t bytes;
    int rc = source_head(list, what, cache, &name, &line, &bytes, e);
    if (rc != 0)
        return rc;
    if (job->data.join.on && !job->predict.on)
        rc = join_text_head(job, &line, &bytes, e);
    if (rc == 0)
        rc = features_make(job, name, line, bytes, f, e);
    free(name);
    free(line);
    return rc;
}

int dataset_features(const struct job *job, struct features *out, struct err *e)
{
    struct cache cache;
    int rc = cache_init(&cache, job->data.cache, e);
    if (rc != 0)
        return rc;
    return features_open(job, &cache, job->predict.on ? WIRE_TEST : WIRE_TRAIN, out, e);
}

/* Checks data.partition against the names of files; objects are checked when they are listed. */
static int names_check(const struct job *job, struct err *e)
{
    struct string_list names = {0};
    if (job->data.partition.step == 0 || job->data.objects.of[WIRE_TRAIN].open != NULL)
        return 0;
    int rc = source_names(&job->data.train, "data.train", &names, e);
    if (rc == 0)
        rc = dated_check(job, &names, e);
    config_list_free(&names);
    return rc;
}

int dataset_check(const struct job *job, struct err *e)
{
    int rc = 0;
    /* a job that trains nothing can take the columns from the tables; objects of a growing log may
     * arrive later */
    bool waits = job->train.skip || job->data.objects.grow_ms > 0;
    bool gone = waits && source_check(&job->data.train, "data.train", NULL) != 0;
    for (uint32_t split = gone ? WIRE_VALID : WIRE_TRAIN; split <= WIRE_TEST && rc == 0; split++) {
        const char *what;
        const struct string_list *list = job_input(job, split, &what);
        if (list->count > 0)
            rc = source_check(list, what, e);
        else
            rc = 0;
    }
    if (rc == 0 && job->data.join.on && !gone)
        rc = source_check(&job->data.join.clicks, "data.join.clicks", e);
    if (rc == 0 && !gone)
        rc = names_check(job, e);
    bool waits_for_text =
        gone || job->data.train.count == 0 || source_is_stream(job->data.train.item[0]);
    if (rc == 0 && !waits_for_text) {
        struct features f;
        rc = features_open(job, NULL, WIRE_TRAIN, &f, e);
        if (rc != 0)
            return rc;
        features_free(&f);
    }
    if (rc != 0)
        return rc;

    return heads_check_all(job, e);
}

int dataset_shape(const struct job *job, struct model_shape *out, struct err *e)
{
    struct features f;
    int rc = dataset_features(job, &f, e);
    if (rc != 0)
        return rc;
    *out = f.shape;
    features_free(&f);
    return 0;
}

int dataset_legend(const struct job *job, struct legend *out, struct err *e)
{
    struct features f;
    int rc = dataset_features(job, &f, e);
    if (rc != 0)
        return rc;
    if (job->data.format == DATA_EVENTS)
        rc = dataset_legend_of_events(&f, job, out, e);
    else
        rc = feature_legend(&f, job, out, e);
    features_free(&f);
    return rc;
}

/* csv with a header: finds the columns in the first header of this split. Its other files must have
 * the same header. */
static int headers_bind(struct dataset *d, struct lines *lines, struct err *e)
{
    const struct source *s = &d->source;
    struct line line;
    char *first = NULL;
    size_t bytes = 0;
    int rc = 0;
    const char *first_name = NULL;
    for (uint32_t i = 0; i < s->count && rc == 0; i++) {
        rc = header_of(s, i, lines, &line, e);
        if (rc == SHOAL_E_END) {
            rc = 0;
        } else if (rc == 0 && first == NULL) {
            first_name = s->file[i].name;
            bytes = line.bytes;
            first = malloc(bytes);
            if (first == NULL) {
                rc = err_set(e, SHOAL_E_NOMEM, "%s: no memory for its header; free some",
                             first_name);
                break;
            }
            memcpy(first, line.text, bytes);
            rc = features_bind(&d->features, first_name, first, bytes, e);
        } else if (rc == 0 && (line.bytes != bytes || memcmp(first, line.text, bytes) != 0)) {
            rc = err_set(
                e, SHOAL_E_CONFIG,
                "%s:%" PRIu64
                ": the header is not that of %s; give both the same columns in the same order",
                s->file[i].name, line.number, first_name);
        }
    }
    free(first);
    return rc;
}

/* Without headers, the first row of the split shows whether it has labels. */
static int predict_bind(struct dataset *d, const struct job *job, struct lines *lines,
                        struct err *e)
{
    const struct source *s = &d->source;
    struct line line = {.text = NULL};
    int rc = SHOAL_E_END;
    for (uint32_t i = 0; i < s->count && rc == SHOAL_E_END; i++)
        rc = header_of(s, i, lines, &line, e);
    if (rc == SHOAL_E_END)
        return 0; /* no row; the index reports that */
    if (rc != 0)
        return rc;
    struct cell first = {line.text, 0};
    if (!line.too_long)
        first.bytes = (uint32_t)line.bytes;
    return features_predict(&d->features, job, s->file[line.file].name, &first, e);
}

static int bind(struct dataset *d, const struct job *job, struct err *e)
{
    struct lines lines;
    if (!d->features.header && !job->predict.on)
        return 0;
    int rc = lines_init(&lines, e);
    if (rc != 0)
        return rc;
    rc = 0;
    if (d->features.header)
        rc = headers_bind(d, &lines, e);
    if (rc == 0 && job->predict.on)
        rc = predict_bind(d, job, &lines, e);
    lines_free(&lines);
    return rc;
}

/* ---- the order of training ---- */

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
                     (unsigned char)job->data.delimiter,
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
static void order_look(struct dataset *d, const struct job *job)
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

static int index_and_order(struct dataset *d, const struct job *job, uint32_t split, struct err *e)
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
    int rc;
    if (!d->events)
        rc = index_open(&d->source, d->features.header, within > 0 ? &clock : NULL,
                        index_cache(d, job), &d->index, e);
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

/* Opens what comes before the rows: source and features. */
static int parts_open(struct dataset *d, const struct job *job, uint32_t split, const char *line,
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
        rc = features_open(job, &d->cache, split, &d->features, e);
    d->features.learnt = split == WIRE_TRAIN;
    if (split != WIRE_TRAIN)
        d->features.sample = FEATURE_NO_COLUMN; /* its files need no such column */
    if (rc == 0 && split == WIRE_TRAIN)
        rc = dated_take(job, &d->source, &d->features, e);
    if (rc == 0 && !d->events)
        return bind(d, job, e);

    return rc;
}

static int rows_open(struct dataset *d, const struct job *job, uint32_t split, const char *what,
                     struct err *e)
{
    int rc = index_and_order(d, job, split, e);
    if (rc == 0 && d->index.rows == 0 && d->salt == 0) /* an object may be empty */
        rc = err_set(e, SHOAL_E_DATA,
                     "%s: there is no row in it (first file: %s); look at the files", what,
                     d->source.file[0].name);
    if (d->salt != 0 && d->events)
        rc = object_fault(rc, what, e);
    if (rc == 0 && !d->events)
        return dataset_keep_text(d, job, e);

    return rc;
}

static struct dataset *dataset_new(const char *what, struct err *e)
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
    order_look(d, job);
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

int dataset_profile(const struct dataset *d, const struct job *job, struct json **out,
                    struct err *e)
{
    *out = NULL;
    if (!d->events)
        return profile_make(job, &d->source, &d->index, &d->features, out, e);
    int rc = profile_make_events(job, &d->source, d->index.rows, &d->features, out, e);

    if (d->salt == 0)
        return rc;

    return object_fault(rc, "data.train", e);
}

void dataset_trim(const struct dataset *d, const struct job *job)
{
    object_trim(job, &d->cache);
}

void dataset_forget(struct dataset *d)
{
    object_forget(&d->source, &d->cache);
    dataset_close(d);
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
    lines_start(&lines, &d->source, f->header, 0, d->source.bytes, 0);
    for (bool more = true; more && (rc = lines_next(&lines, &line, e)) == 0;) {
        if (line.too_long || f->format->line(f, line.text, line.bytes, cell, reason) != 0)
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

/* ---- reading ---- */

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
    lines_start(lines, &d->source, d->features.header, x->chunk[chunk].at,
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
