/* slices.c: cuts a batch into slices, computes them, and adds their gradients.
 *
 * 1. A slice's list of rows rises, and holds every row that its examples have. [assert: rows_list]
 * 2. Each gradient is the sum over the slices in their order, whichever threads compute and add.
 *    [test: slices_add_the_bits_of_batches_computed_alone] */
#include "worker/train/slices.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/minmax.h"

#include <stdlib.h>
#include <string.h>

#define UNSEEN UINT32_MAX

/* An array that a device reads or writes. */
struct room {
    void *at; /* owned; of backend_host_alloc */
    size_t bytes;
};

struct slice {
    struct slices *of;
    struct env_work work;  /* cuts and computes it */
    struct model_run *run; /* owned */
    uint32_t number;       /* in the batch, from 0 */
    uint32_t first, examples;
    struct room index, offset, rows, gradients, dense, stats;
    uint32_t *place; /* owned; (rows of the batch): the row's position in the list, or UNSEEN */
    size_t place_capacity;
    uint32_t *list; /* owned; (row_count + 1): its rows of the batch; behind them UNSEEN */
    size_t list_capacity;
    uint32_t table_rows[LIMIT_JOB_TABLES];
    uint32_t first_of[LIMIT_JOB_TABLES + 1]; /* where a table's rows begin in the list */
    size_t floats_of[LIMIT_JOB_TABLES + 1];  /* and in the arrays of floats */
    struct model_input in;
    struct model_output out;
    int status;
};

/* A range of the batch's rows and of the dense floats. */
struct range {
    struct slices *of;
    struct env_work work; /* adds it up */
    uint32_t number;
};

struct slices {
    struct slices_options options;
    struct slices_batch batch;
    struct slice *slice; /* owned; (options.window) */
    struct range *range; /* owned; (options.window) */
    uint32_t count;      /* slices of this batch, and as many ranges */
    struct env_work beside;
    uint32_t pending; /* threads of this step that are at work */
    uint64_t slowest_ns;
    struct slices_time time;
    uint32_t tables;
    size_t dense_floats, stats_floats;
};

/* ---- life ------------------------------------------------------------------------------------ */

static const struct backend *backend_of(const struct slice *c)
{
    return c->of->options.backend;
}

/* Makes room for an array; its contents are lost. */
static int room_take(const struct slice *c, struct room *r, size_t bytes)
{
    if (r->at != NULL && bytes <= r->bytes)
        return 0;
    backend_host_free(backend_of(c), r->at);
    bytes += bytes / 8 + 64;
    r->at = backend_host_alloc(backend_of(c), bytes);
    r->bytes = 0;
    if (r->at == NULL)
        return SHOAL_E_NOMEM;
    r->bytes = bytes;
    return 0;
}

static void slice_free(struct slice *c)
{
    struct room *room[] = {&c->index, &c->offset, &c->rows, &c->gradients, &c->dense, &c->stats};
    for (size_t i = 0; i < sizeof room / sizeof room[0]; i++)
        backend_host_free(backend_of(c), room[i]->at);
    model_run_free(c->run);
    free(c->place);
    free(c->list);
}

void slices_free(struct slices *s)
{
    if (s == NULL)
        return;
    SHOAL_ASSERT(s->pending == 0);
    for (uint32_t i = 0; i < s->options.window && s->slice != NULL; i++)
        if (s->slice[i].of != NULL)
            slice_free(&s->slice[i]);
    free(s->slice);
    free(s->range);
    free(s);
}

static void slice_run(struct env_work *w);
static void slice_done(struct env_work *w);
static void range_run(struct env_work *w);
static void range_done(struct env_work *w);
static void beside_run(struct env_work *w);
static void beside_done(struct env_work *w);

static int slice_make(struct slices *s, uint32_t number, struct err *e)
{
    struct slice *c = &s->slice[number];
    c->of = s;
    c->number = number;
    c->work = (struct env_work){.run = slice_run, .done = slice_done};
    s->range[number].of = s;
    s->range[number].number = number;
    s->range[number].work = (struct env_work){.run = range_run, .done = range_done};
    int rc = model_run_new(s->options.model, s->options.examples, &c->run, e);
    if (rc != 0)
        return rc;
    if (room_take(c, &c->dense, s->dense_floats * sizeof(float)) != 0 ||
        room_take(c, &c->stats, s->stats_floats * sizeof(float)) != 0)
        return err_set(e, SHOAL_E_NOMEM,
                       "no memory for slice %u of %u: make train.window or train.lanes smaller",
                       number + 1, s->options.window);
    return 0;
}

int slices_new(const struct slices_options *options, struct slices **out, struct err *e)
{
    SHOAL_ASSERT(options->window > 0 && options->window <= LIMIT_WINDOW);
    struct slices *s = calloc(1, sizeof *s);
    if (s == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the slices of a batch");
    s->options = *options;
    s->tables = model_tables(options->model);
    s->dense_floats = model_dense_floats(options->model);
    s->stats_floats = model_stats_floats(options->model);
    s->beside = (struct env_work){.run = beside_run, .done = beside_done};
    s->slice = calloc(options->window, sizeof *s->slice);
    s->range = calloc(options->window, sizeof *s->range);
    int rc = 0;
    if (s->slice == NULL || s->range == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the slices of a batch");
    for (uint32_t i = 0; i < options->window && rc == 0; i++)
        rc = slice_make(s, i, e);
    if (rc != 0) {
        slices_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

/* ---- cutting --------------------------------------------------------------------------------- */

/* Part `part` of `count` parts of `all`, as equal as possible: where it begins. */
static uint32_t part_begin(uint32_t all, uint32_t part, uint32_t count)
{
    return (uint32_t)((uint64_t)all * part / count);
}

/* The values of a range of examples. */
struct values {
    uint32_t first, count;
};

static struct values values_of(const struct slice *c, const struct model_input *in)
{
    uint32_t fields = model_shape_of(c->of->options.model)->fields;
    uint32_t from = c->first * fields, to = (c->first + c->examples) * fields;
    if (in->offset != NULL) {
        from = in->offset[from];
        to = in->offset[to];
    }
    return (struct values){from, to - from};
}

/* Makes room for an array of this module alone. */
static int words_take(uint32_t **array, size_t *capacity, size_t count)
{
    if (count <= *capacity)
        return 0;
    return array_reserve(array, count + count / 8, capacity);
}

/* Lists the rows that the slice has, and notes each row's position in the list (1). */
static int rows_list(struct slice *c, const struct model_input *in, struct values v)
{
    uint32_t rows = in->row_count, count = 0, row = 0;
    if (words_take(&c->place, &c->place_capacity, rows) != 0 ||
        words_take(&c->list, &c->list_capacity, (size_t)MIN(rows, v.count) + 1) != 0)
        return SHOAL_E_NOMEM;
    memset(c->place, 0xff, rows * sizeof *c->place);
    for (uint32_t i = 0; i < v.count; i++)
        c->place[in->index[v.first + i]] = 0;
    for (uint32_t t = 0; t < c->of->tables; t++) {
        c->first_of[t] = count;
        for (uint32_t end = row + in->table_rows[t]; row < end; row++)
            if (c->place[row] != UNSEEN) {
                c->place[row] = count;
                c->list[count++] = row;
            }
        c->table_rows[t] = count - c->first_of[t];
    }
    SHOAL_ASSERT(row == rows && count <= v.count); /* 1 */
    c->first_of[c->of->tables] = count;
    c->list[count] = UNSEEN;
    return 0;
}

/* Makes the index of the slice's values, in positions of its list. */
static void values_place(struct slice *c, const struct model_input *in, struct values v)
{
    uint32_t *index = c->index.at, *offset = c->offset.at;
    for (uint32_t i = 0; i < v.count; i++)
        index[i] = c->place[in->index[v.first + i]];
    c->in.index = index;
    if (in->offset == NULL)
        return;
    uint32_t fields = model_shape_of(c->of->options.model)->fields, slots = c->examples * fields;
    for (uint32_t i = 0; i <= slots; i++)
        offset[i] = in->offset[(size_t)c->first * fields + i] - v.first;
    c->in.offset = offset;
}

/* Copies the slice's rows out of the batch's. */
static void rows_copy(struct slice *c, const struct model_input *in)
{
    float *to = c->rows.at;
    const float *from = in->rows;
    uint32_t first = 0;
    for (uint32_t t = 0; t < c->of->tables; t++) {
        size_t width = c->of->options.schema[t].width;
        for (uint32_t i = c->first_of[t]; i < c->first_of[t + 1]; i++, to += width)
            memcpy(to, from + (c->list[i] - first) * width, width * sizeof *to);
        from += in->table_rows[t] * width;
        first += in->table_rows[t];
    }
    c->in.rows = c->rows.at;
}

static int slice_rooms(struct slice *c, struct values v)
{
    size_t floats = 0;
    for (uint32_t t = 0; t < c->of->tables; t++) {
        c->floats_of[t] = floats;
        floats += (size_t)c->table_rows[t] * c->of->options.schema[t].width;
    }
    c->floats_of[c->of->tables] = floats;
    uint32_t slots = c->examples * model_shape_of(c->of->options.model)->fields;
    if (room_take(c, &c->index, v.count * sizeof(uint32_t)) != 0 ||
        room_take(c, &c->offset, (slots + 1ull) * sizeof(uint32_t)) != 0 ||
        room_take(c, &c->rows, floats * sizeof(float)) != 0 ||
        room_take(c, &c->gradients, floats * sizeof(float)) != 0)
        return SHOAL_E_NOMEM;
    return 0;
}

/* The slice as the model takes it. */
static int slice_cut(struct slice *c)
{
    const struct model_input *in = c->of->batch.in;
    const struct model_shape *shape = model_shape_of(c->of->options.model);
    struct values v = values_of(c, in);
    SHOAL_ASSERT(in->table_rows != NULL);
    int rc = rows_list(c, in, v);
    if (rc == 0)
        rc = slice_rooms(c, v);
    if (rc != 0)
        return rc;
    uint32_t rows = c->first_of[c->of->tables];
    c->in = (struct model_input){.examples = c->examples,
                                 .label = in->label + (size_t)c->first * MAX(shape->tasks, 1),
                                 .row_count = rows,
                                 .table_rows = c->table_rows,
                                 .dense = in->dense,
                                 .stats = in->stats};
    if (in->weight != NULL)
        c->in.weight = in->weight + c->first;
    if (in->numeric != NULL)
        c->in.numeric = in->numeric + (size_t)c->first * shape->numerics;
    values_place(c, in, v);
    rows_copy(c, in);
    return 0;
}

/* ---- computing ------------------------------------------------------------------------------- */

static void slice_run(struct env_work *w) /* on a thread of the pool */
{
    struct slice *c = container_of(w, struct slice, work);
    const struct slices *s = c->of;
    const struct slices_batch *b = &s->batch;
    const struct model_output *out = b->out;
    c->status = slice_cut(c);
    if (c->status != 0)
        return;
    uint32_t tasks = MAX(model_shape_of(s->options.model)->tasks, 1);
    c->out = (struct model_output){.row_gradients = c->gradients.at,
                                   .scores = out->scores + (size_t)c->first * tasks};
    if (out->dense_gradients != NULL)
        c->out.dense_gradients = c->dense.at;
    if (out->stats_gradients != NULL)
        c->out.stats_gradients = c->stats.at;
    uint64_t number = (b->batch - 1) * s->options.window + c->number + 1;
    if (b->train)
        c->status =
            model_train(s->options.model, c->run, &c->in, b->seed, b->lane, number, &c->out);
    else
        c->status = model_predict(s->options.model, c->run, &c->in, &c->out);
}

int slices_status(const struct slices *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->slice[i].status != 0)
            return s->slice[i].status;
    return 0;
}

const char *slices_error(const struct slices *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->slice[i].status != 0)
            return model_run_error(s->slice[i].run);
    return "";
}

/* A thread of the current step is back. Returns true when it was the last one. */
static bool step_back(struct slices *s, const struct env_work *w)
{
    SHOAL_ASSERT(s->pending > 0);
    s->time.busy_ns += w->ran_ns;
    s->slowest_ns = MAX(s->slowest_ns, w->ran_ns);
    if (--s->pending > 0)
        return false;
    s->time.path_ns += s->slowest_ns;
    s->slowest_ns = 0;
    return true;
}

/* Adds up what the slices measured. */
static void figures_add(struct slices *s)
{
    struct model_output *out = s->batch.out;
    uint32_t measured = 0;
    out->loss_sum = out->weight_sum = out->dense_norm = out->row_norm = 0.0;
    memset(out->loss_task, 0, sizeof out->loss_task);
    out->skipped = false;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct model_output *from = &s->slice[i].out;
        out->loss_sum += from->loss_sum;
        out->weight_sum += from->weight_sum;
        for (uint32_t t = 0; t < LIMIT_TASKS; t++)
            out->loss_task[t] += from->loss_task[t];
        out->skipped = out->skipped || from->skipped;
        measured += from->dense_norm > 0 || from->row_norm > 0;
        out->dense_norm += from->dense_norm;
        out->row_norm += from->row_norm;
    }
    out->dense_norm /= MAX(measured, 1);
    out->row_norm /= MAX(measured, 1);
}

static void slice_done(struct env_work *w)
{
    struct slices *s = container_of(w, struct slice, work)->of;
    if (!step_back(s, w))
        return;
    if (slices_status(s) != 0) {
        s->options.done(s->options.owner);
        return;
    }
    figures_add(s);
    bool adds = s->batch.train && !s->batch.out->skipped;
    s->pending = 1;
    if (adds)
        s->pending += s->count;
    env_work_start(s->options.env, &s->beside);
    for (uint32_t i = 0; i < s->count && adds; i++)
        env_work_start(s->options.env, &s->range[i].work);
}

void slices_start(struct slices *s, const struct slices_batch *batch)
{
    uint32_t examples = batch->in->examples, each = s->options.examples;
    SHOAL_ASSERT(s->pending == 0 && examples > 0 && examples <= batch->rows && batch->batch > 0);
    uint32_t count = MIN((batch->rows + each - 1) / each, examples);
    SHOAL_ASSERT(count <= s->options.window);
    s->batch = *batch;
    s->count = s->pending = count;
    s->time = (struct slices_time){0};
    for (uint32_t i = 0; i < count; i++) {
        struct slice *c = &s->slice[i];
        c->first = part_begin(examples, i, count);
        c->examples = part_begin(examples, i + 1, count) - c->first;
        env_work_start(s->options.env, &c->work);
    }
}

struct slices_time slices_time(const struct slices *s)
{
    return s->time;
}

/* ---- adding ---------------------------------------------------------------------------------- */

static void floats_add(float *restrict to, const float *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

/* Adds one of the ranges of an array that every slice has whole. */
static void blocks_add(const struct slices *s, float *to, const float *const slice[LIMIT_WINDOW],
                       size_t floats, uint32_t range)
{
    size_t from = floats * range / s->count, end = floats * (range + 1ull) / s->count;
    if (to == NULL || from == end)
        return;
    memcpy(to + from, slice[0] + from, (end - from) * sizeof *to);
    for (uint32_t i = 1; i < s->count; i++)
        floats_add(to + from, slice[i] + from, end - from);
}

static void dense_add(const struct slices *s, uint32_t range)
{
    const float *dense[LIMIT_WINDOW], *stats[LIMIT_WINDOW];
    for (uint32_t i = 0; i < s->count; i++) {
        dense[i] = s->slice[i].dense.at;
        stats[i] = s->slice[i].stats.at;
    }
    blocks_add(s, s->batch.out->dense_gradients, dense, s->dense_floats, range);
    blocks_add(s, s->batch.out->stats_gradients, stats, s->stats_floats, range);
}

/* How far a slice's list is added. */
struct cursor {
    const uint32_t *row;
    const float *gradient;
};

/* The position in the slice's list of the first row from `row` on. */
static uint32_t list_find(const struct slice *c, uint32_t row)
{
    uint32_t low = 0, high = c->first_of[c->of->tables];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (c->list[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void cursors_set(const struct slices *s, uint32_t table, uint32_t row,
                        struct cursor at[LIMIT_WINDOW])
{
    size_t width = s->options.schema[table].width;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct slice *c = &s->slice[i];
        uint32_t found = list_find(c, row);
        at[i].row = c->list + found;
        at[i].gradient = (const float *)c->gradients.at + c->floats_of[table] +
                         (found - c->first_of[table]) * width;
    }
}

/* Adds rows [row, end) of one table. */
static void rows_add(const struct slices *s, uint32_t table, uint32_t row, uint32_t end, float *to)
{
    struct cursor at[LIMIT_WINDOW];
    size_t width = s->options.schema[table].width;
    cursors_set(s, table, row, at);
    for (; row < end; row++, to += width) {
        bool first = true;
        for (uint32_t i = 0; i < s->count; i++) {
            if (*at[i].row != row)
                continue;
            if (first)
                memcpy(to, at[i].gradient, width * sizeof *to);
            else
                floats_add(to, at[i].gradient, width);
            first = false;
            at[i].row++;
            at[i].gradient += width;
        }
        if (first) /* no example has it */
            memset(to, 0, width * sizeof *to);
    }
}

static void range_run(struct env_work *w) /* on a thread of the pool */
{
    const struct range *r = container_of(w, struct range, work);
    const struct slices *s = r->of;
    const struct model_input *in = s->batch.in;
    uint32_t from = part_begin(in->row_count, r->number, s->count),
             to = part_begin(in->row_count, r->number + 1, s->count), first = 0;
    float *gradients = s->batch.out->row_gradients;
    for (uint32_t t = 0; t < s->tables; t++) {
        uint32_t end = first + in->table_rows[t], row = MAX(from, first);
        size_t width = s->options.schema[t].width;
        if (row < MIN(to, end))
            rows_add(s, t, row, MIN(to, end), gradients + (row - first) * width);
        gradients += in->table_rows[t] * width;
        first = end;
    }
    dense_add(s, r->number);
}

static void beside_run(struct env_work *w) /* on a thread of the pool */
{
    struct slices *s = container_of(w, struct slices, beside);
    s->options.beside(s->options.owner);
}

static void step_done(struct slices *s, const struct env_work *w)
{
    if (step_back(s, w))
        s->options.done(s->options.owner);
}

static void range_done(struct env_work *w)
{
    step_done(container_of(w, struct range, work)->of, w);
}

static void beside_done(struct env_work *w)
{
    step_done(container_of(w, struct slices, beside), w);
}
