/* run_input.c: a batch into the backend's memory and its results out of it. On the host nothing is copied, but for rows
 * that come from the cache. */
#include "dense/run.h"

#include "proto/base/assert.h"

/* Room for `bytes`; old content is not kept. */
static void *array_room(struct model_run *r, enum run_array which, size_t bytes)
{
    struct run_buffer *b = &r->array[which];
    bool exact = r->model->k->exact;
    if (b->at && (exact ? bytes == b->bytes : bytes <= b->bytes))
        return b->at;
    if (b->at)
        r->model->k->release(r->stream, b->at);
    size_t room = exact ? bytes : bytes + bytes / 8 + 256;
    b->at = r->model->k->alloc(r->stream, room);
    b->bytes = b->at ? room : 0;
    return b->at;
}

/* A copy of `from` on the device; NULL for NULL. *failed is set when there is no memory. */
static const void *array_upload(struct model_run *r, enum run_array which, const void *from, size_t bytes, bool *failed)
{
    if (!from)
        return NULL;
    void *at = array_room(r, which, bytes);
    if (at)
        r->model->k->upload(r->stream, at, from, bytes);
    else
        *failed = true;
    return at;
}

static void *array_output(struct model_run *r, enum run_array which, const void *wanted, size_t bytes, bool *failed)
{
    if (!wanted)
        return NULL;
    void *at = array_room(r, which, bytes);
    *failed = *failed || !at;
    return at;
}

uint32_t run_values(const struct model *m, const struct model_input *in)
{
    uint32_t slots = in->examples * m->plan.shape.fields;
    return in->offset ? in->offset[slots] : slots;
}

static int device_upload(struct model_run *r, const struct model_input *in, struct model_input *to)
{
    const struct plan *p = &r->model->plan;
    size_t n = in->examples, f = sizeof(float), values = run_values(r->model, in), width = model_row_width(r->model);
    bool failed = false;

    to->label = array_upload(r, RUN_LABEL, in->label, n * p->tasks * f, &failed);
    to->weight = array_upload(r, RUN_WEIGHT, in->weight, n * f, &failed);
    to->numeric = array_upload(r, RUN_NUMERIC, in->numeric, n * p->shape.numerics * f, &failed);
    to->index = array_upload(r, RUN_INDEX, in->index, values * sizeof *in->index, &failed);
    to->offset = array_upload(r, RUN_OFFSET, in->offset, (n * p->shape.fields + 1) * sizeof *in->offset, &failed);
    to->source = array_upload(r, RUN_SOURCE, in->source, in->row_count * sizeof *in->source, &failed);
    to->keep = array_upload(r, RUN_KEEP, in->keep, 2 * (size_t)in->keep_count * sizeof *in->keep, &failed);
    to->rows = array_upload(r, RUN_FRESH, in->rows, in->fresh_count * width * f, &failed);
    to->dense = array_upload(r, RUN_DENSE, in->dense, p->dense.floats * f, &failed);
    to->stats = array_upload(r, RUN_STATS, in->stats, p->stats.floats * f, &failed);
    return failed ? SHOAL_E_NOMEM : 0;
}

static int device_outputs(struct model_run *r, const struct model_input *in, bool train, const struct model_output *out,
                          struct model_output *to)
{
    const struct plan *p = &r->model->plan;
    size_t f = sizeof(float), width = model_row_width(r->model);
    bool failed = false;

    *to = (struct model_output){0};
    to->scores = array_output(r, RUN_SCORES, out->scores, (size_t)in->examples * p->tasks * f, &failed);
    if (train) {
        to->row_gradients = array_output(r, RUN_ROW_GRADIENTS, out->row_gradients, in->row_count * width * f, &failed);
        to->dense_gradients = array_output(r, RUN_DENSE_GRADIENTS, out->dense_gradients, p->dense.floats * f, &failed);
        to->stats_gradients = array_output(r, RUN_STATS_GRADIENTS, out->stats_gradients, p->stats.floats * f, &failed);
    }
    return failed ? SHOAL_E_NOMEM : 0;
}

/* The batch's rows from where they are, then the new ones into the cache. */
static int rows_assemble(struct model_run *r, const struct model_input *in, struct model_input *to)
{
    const struct backend_ops *k = r->model->k;
    uint32_t width = model_row_width(r->model);

    SHOAL_ASSERT(r->cache_rows > 0);
    float *rows = array_room(r, RUN_ROWS, (size_t)in->row_count * width * sizeof *rows);
    if (!rows)
        return SHOAL_E_NOMEM;
    k->rows_gather(r->stream, in->row_count, width, to->source, to->rows, r->cache, rows);
    if (in->keep_count > 0)
        k->rows_keep(r->stream, in->keep_count, width, to->keep, to->rows, r->cache);
    to->rows = rows;
    return 0;
}

int run_upload(struct model_run *r, const struct model_input *in, bool train, struct model_input *to, struct model_output *out,
               struct model_output *out_to)
{
    int code = 0;
    *to = *in;
    *out_to = *out;
    if (!r->model->k->host) {
        code = device_upload(r, in, to);
        if (code == 0)
            code = device_outputs(r, in, train, out, out_to);
    }
    if (code == 0 && in->source)
        code = rows_assemble(r, in, to);
    if (code == 0)
        return 0;
    int lost = r->model->k->stream_finish(r->stream, &r->error); /* a device that is lost gives no memory either */
    if (lost != 0)
        return lost;
    return err_set(&r->error, code, "no memory on the device for a batch of %u examples with %u rows; make train.batch smaller",
                   in->examples, in->row_count);
}

void run_download(struct model_run *r, const struct model_input *in, bool train, const struct model_output *from,
                  struct model_output *out)
{
    const struct backend_ops *k = r->model->k;
    const struct plan *p = &r->model->plan;
    size_t f = sizeof(float);

    k->download(r->stream, r->result_host, r->result, sizeof *r->result);
    if (k->host)
        return;
    if (out->scores)
        k->download(r->stream, out->scores, from->scores, (size_t)in->examples * p->tasks * f);
    if (!train)
        return;
    k->download(r->stream, out->row_gradients, from->row_gradients, (size_t)in->row_count * model_row_width(r->model) * f);
    if (p->dense.floats > 0)
        k->download(r->stream, out->dense_gradients, from->dense_gradients, p->dense.floats * f);
    if (p->stats.floats > 0)
        k->download(r->stream, out->stats_gradients, from->stats_gradients, p->stats.floats * f);
}
