/* run_input.c: copies a batch to the backend's memory and its results back. The host copies
 * nothing. */
#include "dense/model/run.h"

#include "proto/base/assert.h"

/* Bytes per example of an array that recorded kernels read. Such an array has room for the largest
 * batch from the start, because a recording holds its address. 0: another array, which may grow. */
static size_t array_example_bytes(const struct plan *p, enum run_array which)
{
    switch (which) {
    case RUN_LABEL:
    case RUN_SCORES:
        return p->tasks * sizeof(float);
    case RUN_WEIGHT:
        return sizeof(float);
    case RUN_NUMERIC:
        return p->shape.numerics * sizeof(float);
    default:
        return 0;
    }
}

/* An array of at least `bytes`; its old content is lost. */
static void *array_room(struct model_run *r, enum run_array which, size_t bytes)
{
    struct run_buffer *b = &r->array[which];
    bool exact = r->model->k->exact;
    size_t largest = array_example_bytes(&r->model->plan, which) * r->max_examples;
    if (bytes < largest && (!exact || which == RUN_NUMERIC)) /* pass.c fills the numerics up */
        bytes = largest;
    if (b->at != NULL && (exact ? bytes == b->bytes : bytes <= b->bytes))
        return b->at;
    if (b->at != NULL)
        r->model->k->release(run_stream(r), b->at);

    size_t room = bytes;
    if (!exact && largest == 0)
        room += bytes / 8 + 256; /* spare room, so that a slightly larger batch fits */
    SHOAL_ASSERT(room >= bytes);
    b->at = r->model->k->alloc(run_stream(r), room);
    b->bytes = 0;
    if (b->at != NULL)
        b->bytes = room;
    return b->at;
}

/* A copy of `from` on the device; NULL for NULL. *failed is set when there is no memory. */
static const void *array_upload(struct model_run *r, enum run_array which, const void *from,
                                size_t bytes, bool *failed)
{
    if (from == NULL)
        return NULL;
    void *at = array_room(r, which, bytes);
    if (at != NULL)
        r->model->k->upload(run_stream(r), at, from, bytes);
    else
        *failed = true;
    return at;
}

static void *array_output(struct model_run *r, enum run_array which, const void *wanted,
                          size_t bytes, bool *failed)
{
    if (wanted == NULL)
        return NULL;
    void *at = array_room(r, which, bytes);
    *failed = *failed || at == NULL;
    return at;
}

uint32_t run_values(const struct model *m, const struct model_input *in)
{
    uint32_t slots = in->examples * m->plan.shape.fields;
    SHOAL_ASSERT(in->offset == NULL || in->offset[0] == 0);
    if (in->offset == NULL) /* one value for each slot */
        return slots;
    return in->offset[slots];
}

static int device_upload(struct model_run *r, const struct model_input *in, struct model_input *to)
{
    const struct plan *p = &r->model->plan;
    size_t n = in->examples, f = sizeof(float), values = run_values(r->model, in);
    bool failed = false;
    to->label = array_upload(r, RUN_LABEL, in->label, n * p->tasks * f, &failed);
    to->weight = array_upload(r, RUN_WEIGHT, in->weight, n * f, &failed);
    to->numeric = array_upload(r, RUN_NUMERIC, in->numeric, n * p->shape.numerics * f, &failed);
    to->index = array_upload(r, RUN_INDEX, in->index, values * sizeof *in->index, &failed);
    to->offset = array_upload(r, RUN_OFFSET, in->offset,
                              (n * p->shape.fields + 1) * sizeof *in->offset, &failed);
    to->factor = array_upload(r, RUN_FACTOR, in->factor, values * f, &failed);
    to->rows = array_upload(r, RUN_ROWS, in->rows, run_row_floats(r->model, in) * f, &failed);
    if (p->sites == 1) { /* else run_sites.c */
        to->dense = array_upload(r, RUN_DENSE, in->dense, p->dense.floats * f, &failed);
        to->stats = array_upload(r, RUN_STATS, in->stats, p->stats.floats * f, &failed);
    }
    if (failed)
        return SHOAL_E_NOMEM;
    return 0;
}

static int device_outputs(struct model_run *r, const struct model_input *in, bool train,
                          const struct model_output *out, struct model_output *to)
{
    const struct plan *p = &r->model->plan;
    size_t f = sizeof(float);
    bool failed = false;
    *to = (struct model_output){0};
    to->scores =
        array_output(r, RUN_SCORES, out->scores, (size_t)in->examples * p->tasks * f, &failed);
    if (train) {
        to->row_gradients = array_output(r, RUN_ROW_GRADIENTS, out->row_gradients,
                                         run_row_floats(r->model, in) * f, &failed);
    }
    if (train && p->sites == 1) {
        to->dense_gradients = array_output(r, RUN_DENSE_GRADIENTS, out->dense_gradients,
                                           p->dense.floats * f, &failed);
        to->stats_gradients = array_output(r, RUN_STATS_GRADIENTS, out->stats_gradients,
                                           p->stats.floats * f, &failed);
    }
    if (failed)
        return SHOAL_E_NOMEM;
    return 0;
}

int run_upload(struct model_run *r, const struct model_input *in, bool train,
               struct model_input *to, struct model_output *out, struct model_output *out_to)
{
    int rc = 0;
    *to = *in;
    *out_to = *out;
    if (!r->model->k->host) {
        rc = device_upload(r, in, to);
        if (rc == 0)
            rc = device_outputs(r, in, train, out, out_to);
    }
    if (rc == 0)
        return 0;
    /* a lost device gives no memory either; its error is the one to report */
    int lost = run_finish(r, &r->error);
    if (lost != 0)
        return lost;
    return err_set(
        &r->error, rc,
        "no memory on the device for a batch of %u examples with %u rows; make train.batch smaller",
        in->examples, in->row_count);
}

void run_download(struct model_run *r, const struct model_input *in, bool train,
                  const struct model_output *from, struct model_output *out)
{
    const struct backend_ops *k = r->model->k;
    const struct plan *p = &r->model->plan;
    size_t f = sizeof(float);
    k->download(run_stream(r), r->result_host, r->site[0].result, sizeof *r->result_host);
    if (train && p->sites > 1)
        run_sites_download(r, out);
    if (k->host)
        return;
    if (out->scores != NULL)
        k->download(run_stream(r), out->scores, from->scores, (size_t)in->examples * p->tasks * f);
    if (!train)
        return;
    k->download(run_stream(r), out->row_gradients, from->row_gradients,
                run_row_floats(r->model, in) * f);
    if (p->sites > 1)
        return;
    if (p->dense.floats > 0)
        k->download(run_stream(r), out->dense_gradients, from->dense_gradients,
                    p->dense.floats * f);
    if (p->stats.floats > 0)
        k->download(run_stream(r), out->stats_gradients, from->stats_gradients,
                    p->stats.floats * f);
}
