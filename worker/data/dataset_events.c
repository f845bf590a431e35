/* dataset_events.c: event files as the input of a job: their heads define the features; rows are
 * read group by group. */
#include "worker/data/dataset_inner.h"

#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "worker/data/batch_inner.h"
#include "worker/data/object.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(COLUMNS_MAX *COLUMNS_LINE < LIMIT_LINE_BYTES, "a file's columns travel as a line");

int dataset_head_of_events(const struct source *s, char **text, struct err *e)
{
    struct events v;
    int rc = events_open(s->file[0].fd, s->file[0].name, &v, e);
    if (rc != 0)
        return rc;
    *text = malloc(v.columns.bytes + 1);
    for (size_t i = 0; *text != NULL && i < v.columns.bytes; i++)
        (*text)[i] = v.columns.text[i] != '\0' ? v.columns.text[i] : '\n';
    if (*text != NULL)
        (*text)[v.columns.bytes] = '\0';
    else
        rc = err_set(e, SHOAL_E_NOMEM, "%s: no memory for its columns; free some", s->file[0].name);
    events_close(&v);
    return rc;
}

/* Finds the columns of a file of the training input, so that every split has the same fields, or of
 * split `other` when that input is gone. The caller owns *text and *name, the file's name. */
static int head_find(const struct job *job, uint32_t other, char **text, char **name, struct err *e)
{
    const char *what;
    const struct string_list *list = job_input(job, WIRE_TRAIN, &what);
    struct cache cache;
    struct source s;
    if (job->data.head != NULL) {
        *text = strdup(job->data.head);
        *name = strdup(what);
        return 0;
    }
    bool there = list->count > 0 && source_check(list, what, NULL) == 0;
    if (there && job->data.objects.of[WIRE_TRAIN].on) {
        struct string_list lines;
        int rc = dataset_objects(job, WIRE_TRAIN, &lines, text, e);
        if (rc != 0)
            return rc;
        *name = strndup(lines.item[0], object_name(lines.item[0]));
        config_list_free(&lines);
        return 0;
    }
    if (!there)
        list = job_input(job, other, &what);
    const struct string_list first = {list->item, MIN(list->count, 1)};
    int rc = cache_init(&cache, job->data.cache, e);
    if (rc == 0)
        rc = source_open(&first, what, &cache, &s, e);
    if (rc != 0)
        return rc;
    rc = dataset_head_of_events(&s, text, e);
    if (rc == 0)
        *name = strdup(s.file[0].name);
    source_close(&s);
    return rc;
}

/* Makes the job that an event file's head implies. The caller owns *name, the file's name. */
static int events_job(const struct job *job, uint32_t other, struct job *out, char **head,
                      char **name, struct err *e)
{
    struct columns c = {0};
    char *text = NULL;
    *name = NULL;
    if (job->predict.on)
        return err_set(e, SHOAL_E_CONFIG,
                       "a prediction reads text, and data.format is events: name the log's with "
                       "--set data.format=..");
    int rc = head_find(job, other, &text, name, e);
    if (rc == 0 && (text == NULL || *name == NULL))
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the columns of the input; free some");
    if (rc == 0)
        rc = columns_parse(text, strlen(text), *name, &c, e);
    if (rc == 0)
        rc = columns_job(&c, job, *name, out, head, e);
    columns_free(&c);
    free(text);
    if (rc != 0)
        free(*name);
    return rc;
}

int dataset_features_of_events(const struct job *job, uint32_t other, struct features *f,
                               struct err *e)
{
    struct job read;
    char *head, *name;
    int rc = events_job(job, other, &read, &head, &name, e);
    if (rc != 0)
        return rc;
    rc = features_make(&read, name, head, strlen(head), f, e);
    free(name);
    columns_job_free(&read, head);
    return rc;
}

int dataset_legend_of_events(const struct features *f, const struct job *job, struct legend *out,
                             struct err *e)
{
    struct job read;
    char *head, *name;
    int rc = events_job(job, WIRE_TRAIN, &read, &head, &name, e);
    if (rc != 0)
        return rc;
    rc = feature_legend(f, &read, out, e);
    free(name);
    columns_job_free(&read, head);
    return rc;
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define BATCHES_AHEAD 64u /* about, at most, for one lane */
#define AHEAD 32u         /* rows that are prefetched before they are read */

/* An upper bound of the distance in rows between the lanes of all workers: their tasks follow one
 * another. Where tasks are dealt in advance one lane reads all of an object. */
static uint64_t rows_near(const struct job *job, bool object)
{
    uint64_t step = (uint64_t)job_lanes(job) * job_batch_rows(job), said = job->train.task_batches;
    if (object && job_dealt(job))
        return (uint64_t)job_batch_rows(job) * BATCHES_AHEAD;

    if (said > 0)
        return step * said;

    return step + LIMIT_NEAR_ROWS;
}

/* Logs how much memory the held groups need. */
static void groups_tell(const struct dataset *d, uint64_t near)
{
    const struct groups *g = d->groups;
    uint64_t held = groups_held(g), apart = (held - 1) * (d->index.rows / groups_count(g));
    log_info("data.train: an epoch is %u groups of blocks, up to %" PRIu64
             " of them in memory, %" PRIu64 " MiB each",
             groups_count(g), held, (groups_bytes(g) >> 20) + 1);
    if (held < groups_count(g) && apart < near)
        log_warn("data.train: lanes read up to %" PRIu64 " rows apart, and groups of %" PRIu64
                 " are held: blocks are read more than once; set train.task_batches to 1, or lower "
                 "train.lanes or train.batch",
                 near, apart);
}

int dataset_group_events(struct dataset *d, const struct job *job, bool drawn, struct err *e)
{
    bool object = d->salt != 0;
    struct groups_wish w = {.drawn = drawn,
                            .object = object,
                            .near = rows_near(job, object),
                            .readers = job_lanes(job) * (1 + job->train.prefetch)};
    int rc = groups_open(&d->source, &d->features, &w, &d->groups, e);
    if (rc != 0)
        return rc;
    d->index = (struct index){
        .rows = groups_rows(d->groups), .digest = groups_digest(d->groups), .chunk_rows = 1};
    if (drawn && !object)
        groups_tell(d, w.near);
    return 0;
}

/* Adds the rows at positions [at, end) of a hold. */
static int held_add(const struct dataset *d, const struct groups_hold *h, const struct draw *draw,
                    uint64_t at, uint64_t end, struct batch *b, struct err *e)
{
    struct {
        const struct slice *rows;
        uint32_t row;
        uint64_t number;
    } of[AHEAD];
    int rc = 0;
    for (uint64_t asked = at; rc == 0 && at < end; at++) {
        for (; asked < end && asked < at + AHEAD; asked++) {
            uint32_t i = asked % AHEAD;
            groups_row(d->groups, h, asked, &of[i].rows, &of[i].row, &of[i].number);
            slice_expect(of[i].rows, of[i].row);
        }
        uint32_t i = at % AHEAD;
        struct slice_row row;
        rc = slice_row(of[i].rows, of[i].row, &row);
        if (rc == 0)
            rc = batch_add_stored(b, &d->features, &row, draw, of[i].number, e);
    }
    return rc;
}

int dataset_read_events(const struct dataset *d, const struct draw *draw, uint64_t position,
                        uint32_t rows, struct batch *b, struct err *e)
{
    uint64_t seed = draw->seed ^ draw->salt;
    uint64_t at = position, end = position + rows;
    struct groups_hold h;
    int rc = 0;
    b->file_ns = 0;
    while (rc == 0 && at < end) {
        rc = groups_take(d->groups, seed, draw->epoch, at, b->clock_ns, &h, e);
        if (rc != 0)
            break;
        uint64_t last;
        if (end < h.first + h.rows)
            last = end;
        else
            last = h.first + h.rows;
        rc = held_add(d, &h, draw, at, last, b, e);
        at = last;
        b->file_ns += h.file_ns;
        groups_give(d->groups, &h, last);
    }
    return rc;
}
