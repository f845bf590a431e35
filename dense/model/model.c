/* model.c: making a model, and what others need to know of it. Batches run in run.c. */
#include "dense/model.h"
#include "dense/model/models.h"
#include "dense/model/run.h"

#include <stdlib.h>

int model_new(const struct job *job, const struct model_shape *shape, struct backend *backend,
              struct model **out, struct err *e)
{
    return model_new_kind(job, shape, NULL, backend, out, e);
}

int model_new_kind(const struct job *job, const struct model_shape *shape,
                   const struct plan_kind *kind, struct backend *backend, struct model **out,
                   struct err *e)
{
    struct model *m = calloc(1, sizeof *m);
    *out = NULL;
    if (m == NULL)
        return err_set(e, SHOAL_E_NOMEM, "model of job %s: out of memory", job->name);
    int rc = kind != NULL ? plan_build_kind(job, shape, kind, &m->plan, e)
                          : models_plan(job, shape, &m->plan, e);
    if (rc == 0) {
        rc = block_keys(&m->plan.dense, &m->key[0], &m->block[0]);
        if (rc == 0)
            rc = block_keys(&m->plan.stats, &m->key[1], &m->block[1]);
        if (rc != 0)
            err_set(e, rc, "model of job %s: out of memory", job->name);
    }
    if (rc != 0) {
        model_free(m);
        return rc;
    }
    m->k = backend_ops_of(backend);
    m->stream = (struct stream_spec){.precision = job->train.precision,
                                     .deterministic = job->train.deterministic};
    m->scaled = job->train.precision == PRECISION_FP16 && !m->k->host && m->plan.has_loss;
    m->l2 = m->plan.has_loss ? job->model.l2 : 0.0;
    m->l2_dense = job->model.l2_dense;
    m->clip_dense = job->train.clip_dense;
    m->clip_row = m->plan.has_loss ? job->train.clip_row : 0.0;
    m->negatives = job->data.negatives > 0 && m->plan.has_loss ? job->data.negatives : 1.0;
    for (uint32_t t = 0; t < m->plan.tasks; t++)
        m->task_weight[t] = m->plan.tasks > 1 ? job->model.task_weight[t] : 1.0;
    *out = m;
    return 0;
}

void model_free(struct model *m)
{
    if (m == NULL)
        return;
    for (uint32_t t = 0; t < 2; t++) {
        free(m->key[t]);
        free(m->block[t]);
    }
    free(m);
}

uint32_t model_tables(const struct model *m)
{
    return m->plan.tables;
}

uint32_t model_row_width(const struct model *m)
{
    return m->plan.first_order + m->plan.dim;
}

size_t model_dense_floats(const struct model *m)
{
    return m->plan.dense.floats;
}

size_t model_stats_floats(const struct model *m)
{
    return m->plan.stats.floats;
}

void model_blocks(const struct model *m, bool stats, const uint64_t **keys, const uint32_t **block,
                  size_t *count)
{
    *keys = m->key[stats];
    *block = m->block[stats];
    *count = (stats ? m->plan.stats.floats : m->plan.dense.floats) / BLOCK_FLOATS;
}
