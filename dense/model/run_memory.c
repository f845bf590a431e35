/* run_memory.c: the memory of a run: tensors and small arrays, at each site. */
#include "dense/model/run.h"

#include "proto/base/assert.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define RUN_ALIGN 64u
#define RUN_RANGE_BYTES ((size_t)16 << 20)
#define RUN_RANGE_LEAST 64u
#define SCALE_BEGIN 65536.0

static size_t tensor_floats(const struct model_run *r, const struct tensor *t)
{
    const size_t align = RUN_ALIGN / sizeof(float);
    size_t floats;
    if (t->state)
        floats = t->width;
    else if (t->whole)
        floats = (size_t)t->ld * r->max_examples;
    else
        floats = (size_t)t->ld * r->range;

    if (r->model->k->exact)
        return floats;
    return (floats + align - 1) / align * align;
}

/* Allocates and zeroes all tensors of a site but the numerics, which lie in the caller's input. */
static bool tensors_allocate(struct model_run *r, uint32_t number)
{
    const struct plan *plan = &r->model->plan;
    const struct backend_ops *k = r->model->k;
    struct run_site *site = &r->site[number];
    bool made = true;
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (t != TENSOR_NUMERIC && plan->tensor[t].site == number)
            site->arena_bytes += tensor_floats(r, &plan->tensor[t]) * sizeof(float);

    float *at = NULL;
    if (!k->exact)
        at = k->alloc(site->stream, site->arena_bytes + RUN_ALIGN);
    site->arena = at;
    if (at != NULL)
        k->zero(site->stream, at, site->arena_bytes);

    for (uint32_t t = 0; t < plan->tensor_count && (at != NULL || k->exact); t++) {
        if (t == TENSOR_NUMERIC || plan->tensor[t].site != number)
            continue;
        size_t floats = tensor_floats(r, &plan->tensor[t]);
        r->data[t] = at != NULL ? at : k->alloc(site->stream, floats * sizeof(float));
        made = made && r->data[t] != NULL;
        if (at != NULL)
            at += floats;
        else if (r->data[t] != NULL)
            k->zero(site->stream, r->data[t], floats * sizeof(float));
    }
    SHOAL_ASSERT(site->arena == NULL ||
                 at == (float *)site->arena + site->arena_bytes / sizeof *at);
    return made && (site->arena != NULL || k->exact);
}

/* Uploads the table and the column of each field, which the kernels read where tables have several
 * dims. */
static bool fields_upload(struct model_run *r)
{
    const struct plan *plan = &r->model->plan;
    const struct backend_ops *k = r->model->k;
    r->field_table = k->alloc(run_stream(r), sizeof plan->shape.table);
    r->column = k->alloc(run_stream(r), sizeof plan->column);
    if (r->field_table == NULL || r->column == NULL)
        return false;
    k->upload(run_stream(r), r->field_table, plan->shape.table, sizeof plan->shape.table);
    k->upload(run_stream(r), r->column, plan->column, sizeof plan->column);
    return true;
}

static bool site_allocate(struct model_run *r, uint32_t number)
{
    struct run_site *site = &r->site[number];
    bool made = tensors_allocate(r, number);
    site->step = r->model->k->alloc(site->stream, sizeof *site->step);
    site->result = r->model->k->alloc(site->stream, sizeof *site->result);
    return made && site->step != NULL && site->result != NULL;
}

static bool run_allocate(struct model_run *r)
{
    const struct backend_ops *k = r->model->k;
    const struct plan *plan = &r->model->plan;
    bool made = true;
    for (uint32_t i = 0; i < plan->sites && made; i++)
        made = site_allocate(r, i);
    if (made && plan->sites > 1)
        made = run_sites_allocate(r);
    r->pooling = k->alloc(run_stream(r), LIMIT_FIELDS);
    bool fields = !plan->mixed || fields_upload(r);
    r->step_host = k->host_alloc(sizeof *r->step_host);
    r->result_host = k->host_alloc(sizeof *r->result_host);
    if (!made || !fields || r->pooling == NULL || r->step_host == NULL || r->result_host == NULL)
        return false;
    k->upload(run_stream(r), r->pooling, plan->shape.pooling, sizeof plan->shape.pooling);
    memset(r->step_host, 0, sizeof *r->step_host);
    return true;
}

/* The number of examples that go through the layers together: the backend's range, halved until the
 * activations that the way back reads again fit the cache. */
static uint32_t run_range(const struct model *m, uint32_t max_examples)
{
    uint32_t range = m->k->range;
    if (range == 0 || range > max_examples)
        range = max_examples;

    size_t bytes = 0;
    for (uint32_t t = 0; t < m->plan.tensor_count; t++)
        if (!m->plan.tensor[t].whole)
            bytes += m->plan.tensor[t].ld * sizeof(float);
    while (m->k->range > 0 && range > RUN_RANGE_LEAST && range * bytes > RUN_RANGE_BYTES)
        range /= 2;
    SHOAL_ASSERT(range > 0 || max_examples == 0); /* pass.c advances by it */
    return range;
}

/* The error of a run for which there is no memory. */
static int run_shortage(const struct model_run *r, struct err *e)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < r->model->plan.sites; i++)
        bytes += r->site[i].arena_bytes;
    if (r->model->plan.sites > 1)
        return err_set(
            e, SHOAL_E_NOMEM,
            "a lane's run of %u examples a batch: no memory for %zu bytes of tensors and "
            "%zu of parameters at %u places; make train.batch or train.lanes smaller, or "
            "model.split or model.stages larger, on more devices",
            r->max_examples, bytes, r->model->plan.dense.floats * 2 * sizeof(float),
            r->model->plan.sites);
    return err_set(e, SHOAL_E_NOMEM,
                   "a lane's run of %u examples a batch: no memory for %zu bytes of tensors; "
                   "make train.batch or train.lanes smaller",
                   r->max_examples, bytes);
}

/* Runs of a process begin at one device after the other, and so do their sites. */
static int streams_open(struct model_run *r, struct err *e)
{
    static atomic_uint next;
    struct stream_spec spec = r->model->stream;
    uint32_t first = atomic_fetch_add(&next, 1);
    int rc = 0;
    for (uint32_t i = 0; i < r->model->plan.sites && rc == 0; i++) {
        spec.device = first + i;
        rc = r->model->k->stream_new(&spec, &r->site[i].stream, e);
    }
    return rc;
}

int run_finish(struct model_run *r, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < r->model->plan.sites; i++) {
        struct err why = {0};
        int of_site = r->model->k->stream_finish(r->site[i].stream, &why);
        if (rc == 0 && of_site != 0 && e != NULL)
            *e = why;
        if (rc == 0)
            rc = of_site;
    }
    return rc;
}

int model_run_new(const struct model *m, uint32_t max_examples, struct model_run **out,
                  struct err *e)
{
    struct model_run *r = calloc(1, sizeof *r);
    *out = NULL;
    if (r == NULL)
        return err_set(e, SHOAL_E_NOMEM, "a run of the model: out of memory");
    r->model = m;
    r->max_examples = max_examples;
    r->range = run_range(m, max_examples);
    r->scale = m->scaled ? SCALE_BEGIN : 1.0;
    int rc = streams_open(r, e);
    bool room = rc == 0 && run_allocate(r);
    if (rc == 0)
        /* a lost device gives no memory either; its error is the one to report */
        rc = run_finish(r, e);
    if (rc == 0 && !room)
        rc = run_shortage(r, e);
    if (rc != 0) {
        model_run_free(r);
        return rc;
    }
    *out = r;
    return 0;
}

static void release(struct model_run *r, uint32_t site, void *p)
{
    if (p != NULL)
        r->model->k->release(r->site[site].stream, p);
}

static void site_free(struct model_run *r, uint32_t number)
{
    const struct plan *plan = &r->model->plan;
    struct run_site *site = &r->site[number];
    void *owned[] = {site->arena,           site->step,  site->result,         site->dense,
                     site->dense_gradients, site->stats, site->stats_gradients};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        release(r, number, owned[i]);
    for (uint32_t t = 0; t < plan->tensor_count && r->model->k->exact; t++)
        if (t != TENSOR_NUMERIC && plan->tensor[t].site == number)
            release(r, number, r->data[t]);
}

void model_run_free(struct model_run *r)
{
    if (r == NULL)
        return;
    const struct backend_ops *k = r->model->k;
    if (run_stream(r) != NULL) {
        void *owned[] = {r->pooling, r->field_table, r->column};
        for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
            release(r, 0, owned[i]);
        for (uint32_t i = 0; i < RUN_ARRAYS; i++)
            release(r, 0, r->array[i].at);
    }
    for (uint32_t i = 0; i < r->model->plan.sites; i++)
        if (r->site[i].stream != NULL)
            site_free(r, i);
    for (uint32_t i = 0; i < r->model->plan.sites; i++)
        if (r->site[i].stream != NULL)
            k->stream_free(r->site[i].stream);
    k->host_free(r->step_host);
    k->host_free(r->result_host);
    free(r);
}

const char *model_run_error(const struct model_run *r)
{
    return r->error.text;
}
