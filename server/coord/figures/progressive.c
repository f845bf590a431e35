/* progressive.c: tallies by window, kept and stored. */
#include "server/coord/figures/progressive.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/metric/measure.h"
#include "server/coord/core/core.h"
#include "server/coord/work/task.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct metric_tally_sums) == WIRE_TALLY_SUMS &&
                   sizeof(struct metric_tally_entry) == WIRE_TALLY_CELL &&
                   LIMIT_TASKS * METRIC_TALLY_CELLS == WIRE_TALLY_CELLS,
               "wire.h says the same");
_Static_assert(sizeof(struct metric_by_head) == WIRE_BY_HEAD &&
                   sizeof(struct metric_by_told) == WIRE_BY_VALUE &&
                   sizeof(struct metric_by_task) == WIRE_BY_SUMS &&
                   sizeof(struct metric_by_entry) == WIRE_BY_CELL &&
                   sizeof(struct metric_by_more) == WIRE_BY_MORE &&
                   LIMIT_BY * METRIC_BY_TOLD == WIRE_BY_VALUES &&
                   METRIC_BY_ENTRIES == WIRE_BY_CELLS,
               "likewise");
#define VALUES 1024u /* values counted for a field of evaluate.by */

_Static_assert(COORD_WINDOWS_MAX % 2 == 0, "neighbours are joined two by two");

static struct metric_tally *tally_new(const struct coord_progressive *w)
{
    struct metric_tally *tally = malloc(w->labels * sizeof *tally);
    if (tally != NULL)
        metric_tally_clear(tally, w->labels, w->real);
    return tally;
}

int coord_progressive_open(struct coord_progressive *w, const struct job *job, uint32_t epochs,
                           struct err *e)
{
    uint32_t labels = MAX(job->data.label_count, 1);
    int rc = 0;
    *w = (struct coord_progressive){.labels = labels, .real = job_real_labels(job), .stride = 1};
    w->epoch = tally_new(w);
    w->recent = tally_new(w);
    w->told = tally_new(w);
    w->trained = calloc(epochs, sizeof *w->trained);
    w->by = calloc(job->evaluate.by.count + 1, sizeof *w->by);
    if (w->epoch == NULL || w->recent == NULL || w->told == NULL || w->trained == NULL ||
        w->by == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the figures of training");
    for (; rc == 0 && w->by_count < job->evaluate.by.count; w->by_count += rc == 0)
        rc = metric_by_open(&w->by[w->by_count], labels, w->real, VALUES, e);
    return rc;
}

void coord_progressive_close(struct coord_progressive *w)
{
    for (uint32_t i = 0; i < COORD_WINDOWS_MAX; i++)
        free(w->window[i]);
    free(w->epoch);
    free(w->recent);
    free(w->told);
    free(w->trained);
    for (uint32_t f = 0; f < w->by_count; f++)
        metric_by_close(&w->by[f]);
    free(w->by);
    memset(w, 0, sizeof *w);
}

static void sum(const struct coord_progressive *w, struct metric_tally *to,
                const struct metric_tally *from)
{
    for (uint32_t l = 0; l < w->labels; l++)
        metric_tally_sum(&to[l], &from[l]);
}

static void clear(const struct coord_progressive *w, struct metric_tally *tally)
{
    metric_tally_clear(tally, w->labels, w->real);
}

static bool figures(const struct coord_progressive *w, const struct metric_tally *tally,
                    struct metric *out)
{
    for (uint32_t l = 0; tally != NULL && l < w->labels; l++)
        metric_tally_figures(&tally[l], &out[l]);
    return tally != NULL && metric_most(out, w->labels) > 0;
}

/* ---- stored ---------------------------------------------------------------------------------- */

static void *record_of(const struct coord_job *j, uint32_t n, size_t *bytes)
{
    const struct coord_progressive *w = j->windows;
    const struct metric_tally *tally = n == COORD_WINDOW_EPOCH ? w->epoch : w->window[n];
    if (tally == NULL)
        return NULL;
    uint64_t examples = metric_tally_most(tally, w->labels);
    if (examples == 0)
        return NULL;
    char *record = malloc(COORD_WINDOW_BYTES_MAX);
    if (record == NULL)
        return NULL;
    size_t sums = w->labels * sizeof(struct metric_tally_sums);
    struct coord_progressive_record head = {.job = j->at.number,
                                            .stride = w->stride,
                                            .examples = examples,
                                            .epoch = j->at.epoch,
                                            .labels = w->labels};
    head.cells = metric_tally_put(tally, w->labels, (void *)(record + sizeof head),
                                  (void *)(record + sizeof head + sums));
    memcpy(record, &head, sizeof head);
    *bytes = sizeof head + sums + head.cells * sizeof(struct metric_tally_entry);
    return record;
}

static bool window_note(struct coord_job *j, uint32_t n)
{
    static const struct coord_progressive_record none;
    size_t bytes;
    struct coord_row_key key = coord_row_key("window", n);
    void *record = record_of(j, n, &bytes);
    if (record == NULL)
        return coord_job_note(j, key.text, &none, sizeof none);
    bool good = coord_job_note(j, key.text, record, bytes);
    free(record);
    return good;
}

/* Takes a record of this job into window n, or into the epoch's tally. False: the record is of
 * another job or stride, or is damaged. */
static bool record_take(struct coord_job *j, uint32_t n, const char *record, size_t bytes)
{
    struct coord_progressive *w = j->windows;
    struct coord_progressive_record head;
    size_t sums = w->labels * sizeof(struct metric_tally_sums);
    if (bytes < sizeof head)
        return false;
    memcpy(&head, record, sizeof head);
    if (head.job != j->at.number || head.labels != w->labels || head.stride == 0 ||
        (head.stride & (head.stride - 1)) != 0 || head.cells > WIRE_TALLY_CELLS ||
        bytes != sizeof head + sums + head.cells * sizeof(struct metric_tally_entry))
        return false;
    struct metric_tally *tally = w->epoch;
    if (n == COORD_WINDOW_EPOCH && head.epoch != j->at.epoch)
        return false;
    if (n != COORD_WINDOW_EPOCH) {
        /* The first window gives the stride; windows with another stride were left over when
         * neighbours were joined. */
        if (n > 0 && head.stride != w->stride)
            return false;
        w->stride = head.stride;
        if (w->window[n] == NULL)
            w->window[n] = tally_new(w);
        tally = w->window[n];
    }
    return tally != NULL && metric_tally_take(tally, w->labels, head.examples, record + sizeof head,
                                              record + sizeof head + sums, head.cells);
}

static int trained_load(struct coord_job *j, struct err *e)
{
    int rc = 0;
    for (uint32_t n = coord_epoch_first(j); rc == 0 && n <= j->at.epoch; n++) {
        uint32_t slot = coord_epoch_slot(j, n);
        struct coord_trained stored;
        rc = coord_store_get_fixed(j->store, coord_row_key("trained", slot + 1).text, &stored,
                                   sizeof stored, e);
        if (rc == 0 && stored.job == j->at.number)
            j->windows->trained[slot] = stored;
        rc = coord_store_optional(rc);
    }
    return rc;
}

int coord_progressive_load(struct coord_job *j, struct err *e)
{
    for (uint32_t n = 0; n <= COORD_WINDOW_EPOCH; n++) {
        void *record;
        size_t bytes;
        int rc = coord_store_get(j->store, coord_row_key("window", n).text, &record, &bytes, e);
        if (rc == SHOAL_E_NOT_FOUND)
            continue;
        if (rc != 0)
            return rc;
        if (record_take(j, n, record, bytes) && n < COORD_WINDOW_EPOCH)
            j->windows->serial = (n + 1ull) * j->windows->stride;
        free(record);
    }
    /* its figures are told: those of the next epoch begin empty */
    if (j->windows->epoch != NULL && !coord_epoch_open(j))
        clear(j->windows, j->windows->epoch);
    return trained_load(j, e);
}

/* ---- counting -------------------------------------------------------------------------------- */

/* Finds the values of the fields, which follow the tally in frame 2. */
static struct metric_by_part part_of(const struct wire_TASK_DONE *q, const char *at)
{
    struct metric_by_part part = {
        .fields = q->by_count, .values = q->values, .entries = q->value_cells};
    part.head = (const void *)at;
    part.told = (const void *)(part.head + q->by_count);
    part.task = (const void *)(part.told + q->values);
    part.entry = (const void *)(part.task + (size_t)q->values * q->tasks);
    if (q->more)
        part.more = (const void *)(part.entry + q->value_cells);
    return part;
}

bool coord_progressive_told(struct coord_job *j, const struct wire_TASK_DONE *q, const void *frame)
{
    struct coord_progressive *w = j->windows;
    const char *sums = (const char *)frame + w->labels * sizeof(double),
               *entry = sums + w->labels * sizeof(struct metric_tally_sums);
    SHOAL_ASSERT(q->tasks == w->labels); /* handle.c has checked it */
    clear(w, w->told);
    w->part = part_of(q, entry + q->cells * sizeof(struct metric_tally_entry));
    w->load = w->part.entry + q->value_cells;
    if (q->more)
        w->load = w->part.more + (size_t)q->values * q->tasks;
    /* a task whose rows all lack their labels has values and no cells */
    w->examples = q->cells > 0 || q->values > 0 ? q->examples : 0;
    return q->by_count == w->by_count &&
           metric_tally_take(w->told, w->labels, q->examples, sums, entry, q->cells) &&
           metric_by_part_ok(&w->part, w->labels, w->real, q->examples);
}

/* The sums of a label over all examples of the task in `told`. */
static struct metric_by_task told_sums(const struct metric_tally *told, struct metric_by_more *more)
{
    struct metric is;
    *more = (struct metric_by_more){.examples = metric_tally_examples(told)};
    if (told->is_real) {
        const struct metric_real real = metric_tally_real(told);
        more->label = real.label;
        return (struct metric_by_task){.loss = real.square, .predicted = real.predicted};
    }
    metric_tally_figures(told, &is);
    return (struct metric_by_task){(double)told->loss / (double)METRIC_TALLY_ONE,
                                   (double)told->predicted / (double)METRIC_TALLY_ONE,
                                   is.positives};
}

void coord_progressive_by(struct coord_progressive *w, struct metric_by *by)
{
    struct metric_by_task all[LIMIT_TASKS];
    struct metric_by_more more[LIMIT_TASKS];
    for (uint32_t l = 0; l < w->labels; l++)
        all[l] = told_sums(&w->told[l], &more[l]);
    for (uint32_t f = 0; f < w->by_count; f++)
        metric_by_join(&by[f], &w->part, f, all, more, w->examples);
}

void coord_progressive_finish(struct coord_progressive *w)
{
    for (uint32_t f = 0; f < w->by_count; f++)
        metric_by_finish(&w->by[f], MEASURE_TOP);
}

/* Doubles the number of tasks in a window. */
static bool windows_join(struct coord_job *j)
{
    struct coord_progressive *w = j->windows;
    bool good = true;
    for (uint32_t i = 0; i < COORD_WINDOWS_MAX / 2; i++) {
        struct metric_tally *a = w->window[2 * i], *b = w->window[2 * i + 1];
        w->window[2 * i] = w->window[2 * i + 1] = NULL;
        if (a != NULL && b != NULL)
            sum(w, a, b);
        w->window[i] = a;
        if (a == NULL)
            w->window[i] = b;
        else
            free(b);
    }
    w->stride *= 2;
    for (uint32_t i = 0; good && i < COORD_WINDOWS_MAX; i++)
        good = window_note(j, i);
    return good;
}

bool coord_progressive_count(struct coord_job *j, uint32_t task)
{
    struct coord_progressive *w = j->windows;
    const struct coord_tasks *t = j->tasks;
    /* a round has a number of tasks of its own, as has each drawn order of objects that is dealt */
    bool own = coord_grow_on(j) || (t->dealt && j->spec.data.objects.of[WIRE_TRAIN].on);
    uint64_t serial = w->serial;
    if (!own)
        serial = (uint64_t)(t->epoch - 1) * t->tasks + task;
    SHOAL_ASSERT(task < t->tasks && t->epoch >= 1);
    if (metric_tally_most(w->told, w->labels) == 0) /* a model without a loss has no scores */
        return true;
    while (serial / w->stride >= COORD_WINDOWS_MAX)
        if (!windows_join(j))
            return false;
    uint32_t n = (uint32_t)(serial / w->stride);
    w->serial = serial + 1;
    if (w->window[n] == NULL)
        w->window[n] = tally_new(w);
    if (w->window[n] == NULL) {
        log_warn("no memory for the figures of training: a task is missing in them");
        return true;
    }
    sum(w, w->window[n], w->told);
    sum(w, w->epoch, w->told);
    sum(w, w->recent, w->told);
    coord_progressive_by(w, w->by);
    return window_note(j, n) && window_note(j, COORD_WINDOW_EPOCH);
}

bool coord_progressive_epoch(struct coord_job *j)
{
    struct coord_progressive *w = j->windows;
    uint32_t slot = coord_epoch_slot(j, j->at.epoch);
    struct coord_trained *trained = &w->trained[slot];
    if (!figures(w, w->epoch, trained->of))
        return true;
    trained->job = j->at.number;
    clear(w, w->epoch);
    return coord_job_note(j, coord_row_key("trained", slot + 1).text, trained, sizeof *trained);
}

/* ---- figures --------------------------------------------------------------------------------- */

bool coord_progressive_figures(const struct coord_progressive *w, uint32_t n, struct metric *out)
{
    SHOAL_ASSERT(n < COORD_WINDOWS_MAX);
    return figures(w, w->window[n], out);
}

/* Adds up the newest `most` windows. */
static bool newest(const struct coord_progressive *w, uint32_t most, struct metric *out)
{
    struct metric_tally_total *all = calloc(w->labels, sizeof *all);
    for (uint32_t n = COORD_WINDOWS_MAX; all != NULL && n-- > 0 && most > 0;)
        if (w->window[n] != NULL) {
            for (uint32_t l = 0; l < w->labels; l++)
                metric_tally_total(&all[l], &w->window[n][l]);
            most--;
        }
    for (uint32_t l = 0; all != NULL && l < w->labels; l++)
        metric_tally_total_figures(&all[l], &out[l]);
    bool good = all != NULL && metric_most(out, w->labels) > 0;
    free(all);
    return good;
}

bool coord_progressive_all(const struct coord_progressive *w, struct metric *out)
{
    return newest(w, COORD_WINDOWS_MAX, out);
}

bool coord_progressive_newest(const struct coord_progressive *w, struct metric *out)
{
    return newest(w, 2, out);
}

bool coord_progressive_recent(struct coord_progressive *w, struct metric *out)
{
    bool good = figures(w, w->recent, out);
    clear(w, w->recent);
    return good;
}

uint64_t coord_progressive_end(const struct coord_job *j, uint32_t n, uint64_t trained,
                               uint32_t *epoch)
{
    const struct coord_tasks *t = j->tasks;
    uint64_t all = coord_task_before(t, t->tasks), last = (n + 1ull) * j->windows->stride - 1;
    SHOAL_ASSERT(t->tasks > 0 && all > 0);
    uint64_t end = last / t->tasks * all + coord_task_before(t, (uint32_t)(last % t->tasks) + 1);
    if (end > trained)
        end = trained;
    *epoch = (uint32_t)((end + all - 1) / all);
    return end;
}
