/* model.c: makes a model, the schemas of its tables and the legend of its tensors. Batches run in
 * run.c. */
#include "dense/model/models.h"
#include "dense/model/run.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    int rc;
    if (kind != NULL)
        rc = plan_build_kind(job, shape, kind, &m->plan, e);
    else
        rc = models_plan(job, shape, &m->plan, e);
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
    if (backend != NULL) /* another program's network needs none */
        m->k = backend_ops_of(backend);
    SHOAL_ASSERT(m->plan.tasks <= LIMIT_TASKS && m->plan.tables == job->table_count);
    m->stream = (struct stream_spec){.precision = job->train.precision,
                                     .deterministic = job->train.deterministic};
    m->micro_batches = MAX(job->train.micro_batches, 1);
    m->scaled = m->plan.has_loss && job->train.precision == PRECISION_FP16 && !m->k->host;
    m->l2_dense = job->model.l2_dense;
    m->clip_dense = job->train.clip_dense;
    m->balance = job->model.balance;
    m->negatives = 1.0;
    if (m->plan.has_loss) {
        m->l2 = job->model.l2;
        m->clip_row = job->train.clip_row;
        if (job->data.negatives > 0)
            m->negatives = job->data.negatives;
    }
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

const struct model_shape *model_shape_of(const struct model *m)
{
    return &m->plan.shape;
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

uint32_t model_loads(const struct model *m)
{
    return m->plan.loads;
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

/* ---- its tables ------------------------------------------------------------------------------ */

#define SPARSE_TABLETS 1024u /* the default of tables[].tablets */
/* The least capacity of a tablet, of which an eviction keeps 15/16 (embedding/rows/age.h). */
#define TABLET_ROWS_LEAST 16u
/* DeepFM 400-400-400 is 1,000 blocks: a shard of four servers has 32 tablets */
#define DENSE_TABLET_BITS 7u

/* Pushes set the values: w -= 1 * gradient, whatever the job's learning rates do. */
static const struct optimizer_spec optimizer_assign = {.kind = OPT_SGD, .lr = 1.0f, .fixed_lr = 1};

/* Each tablet gets an equal share of the table's capacity, because keys spread evenly over
 * tablets. */
static int capacity_take(const struct job_table *t, uint32_t number, uint32_t tablets,
                         struct row_rules *rules, struct err *e)
{
    if (t->capacity == 0)
        return 0;
    if (t->capacity < (uint64_t)tablets * TABLET_ROWS_LEAST)
        return err_set(e, SHOAL_E_CONFIG,
                       "tables[%u].evict.capacity is %" PRIu64 " rows, less than %u for each of %u "
                       "tablets: raise it or lower "
                       "tables[%u].tablets",
                       number, t->capacity, TABLET_ROWS_LEAST, tablets, number);
    uint64_t share = (t->capacity + tablets - 1) / tablets;
    if (share > UINT32_MAX)
        share = UINT32_MAX;
    rules->age_capacity = (uint32_t)share;
    return 0;
}

/* Takes the table's rules by field from the job, with fields' numbers instead of names, sorted by
 * number. The shape has the numbers for the rules of all tables, table by table. */
static void field_rules_take(const struct job *job, const struct plan *p, struct table_schema *out)
{
    const struct job_table *t = &job->table[out->table];
    size_t before = 0;
    for (uint32_t i = 0; i < out->table; i++)
        before += job->table[i].rule_count;
    for (size_t i = 0; i < t->rule_count; i++) {
        struct field_rule rule = t->rule[i].rule;
        rule.field = p->shape.rule_field[before + i];
        if (p->dim == 0) /* without a vector no initial value applies */
            rule.has &= ~FIELD_HAS_INIT;
        if (rule.has == 0)
            continue;
        uint32_t at = out->field_rule_count++;
        for (; at > 0 && out->field_rule[at - 1].field > rule.field; at--)
            out->field_rule[at] = out->field_rule[at - 1];
        out->field_rule[at] = rule;
    }
}

static int rules_take(const struct job *job, const struct plan *p, uint32_t tablets,
                      struct table_schema *out, struct err *e)
{
    const struct job_table *t = &job->table[out->table];
    out->rules = t->rules;
    if (p->dim == 0)
        out->rules.vector_score = 0;
    if (out->rules.vector_score > 0 && p->first_order == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "tables[%u].vector_score: rows of model %s have no first-order weight to "
                       "begin with; set it to 0, or "
                       "take a model that has one",
                       out->table, job_model_name(job->model.kind));
    field_rules_take(job, p, out);
    return capacity_take(t, out->table, tablets, &out->rules, e);
}

static int sparse_schema(const struct job *job, const struct plan *p, uint32_t number,
                         struct table_schema *out, struct err *e)
{
    const struct job_table *t = &job->table[number];
    uint32_t tablets = t->tablets == 0 ? SPARSE_TABLETS : t->tablets;
    if ((tablets & (tablets - 1)) != 0 || tablets > LIMIT_TABLETS)
        return err_set(e, SHOAL_E_CONFIG,
                       "tables[%u].tablets is %u; it must be a power of two up to %u", number,
                       tablets, LIMIT_TABLETS);
    text_copy(out->name, sizeof out->name, t->name);
    out->table = number;
    SHOAL_ASSERT(number < p->tables && p->first_order + p->table_dim[number] > 0);
    out->width = p->first_order + p->table_dim[number];
    out->zero_first = p->first_order;
    out->tablet_bits = (uint32_t)__builtin_ctz(tablets);
    out->seed = t->seed;
    out->init = t->init;
    if (p->dim <= 0)
        out->init = (struct init_spec){INIT_ZERO, 0.0f};
    out->values = t->values;
    out->optimizer = job->model.kind == MODEL_PROBE ? optimizer_assign : t->optimizer;
    return rules_take(job, p, tablets, out, e);
}

static void dense_schema(const char *name, uint32_t table, const struct block_layout *layout,
                         const struct job *job, const struct optimizer_spec *optimizer,
                         struct table_schema *out)
{
    text_copy(out->name, sizeof out->name, name);
    out->table = table;
    out->dense = 1;
    out->width = BLOCK_FLOATS;
    out->tablet_bits = DENSE_TABLET_BITS;
    out->seed = job->train.seed;
    out->optimizer = *optimizer;
    block_inits(layout, out);
}

static int schemas_fill(const struct job *job, const struct plan *p,
                        struct table_schema out[MODEL_TABLES_MAX], uint32_t *count, struct err *e)
{
    memset(out, 0, MODEL_TABLES_MAX * sizeof *out);
    int rc = 0;
    for (*count = 0; *count < p->tables && rc == 0; *count += rc == 0)
        rc = sparse_schema(job, p, *count, &out[*count], e);
    if (rc != 0)
        return rc;
    if (p->dense.floats > 0) {
        dense_schema("dense", *count, &p->dense, job, &job->dense_optimizer, &out[*count]);
        ++*count;
    }
    if (p->stats.floats > 0) {
        /* readers take the first table behind the sparse ones for "dense" */
        SHOAL_ASSERT(p->dense.floats > 0);
        dense_schema("dense_stats", *count, &p->stats, job, &optimizer_assign, &out[*count]);
        ++*count;
    }
    uint32_t tablets = 0;
    for (uint32_t i = 0; i < *count; i++) {
        out[i].tablet_first = tablets;
        tablets += 1u << out[i].tablet_bits;
        rc = schema_check(&out[i], e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int model_schemas(const struct job *job, const struct model_shape *shape,
                  struct table_schema out[MODEL_TABLES_MAX], uint32_t *count, struct err *e)
{
    struct plan *p = malloc(sizeof *p);
    *count = 0;
    if (p == NULL)
        return err_set(e, SHOAL_E_NOMEM, "schemas of job %s: out of memory", job->name);
    int rc = models_plan(job, shape, p, e);
    if (rc == 0)
        rc = schemas_fill(job, p, out, count, e);
    free(p);
    return rc;
}

static int layout_legend(const struct block_layout *b, enum legend_list list, struct legend *out,
                         struct err *e)
{
    int rc = 0;
    for (uint32_t t = 0; t < b->tensor_count && rc == 0; t++)
        rc = legend_add(out, list, b->tensor[t].name, "", b->tensor[t].shape, e);
    return rc;
}

int model_legend(const struct job *job, const struct model_shape *shape, struct legend *out,
                 struct err *e)
{
    struct plan *p = malloc(sizeof *p);
    struct job unnumbered = *job; /* shares all members but the legend */
    if (p == NULL)
        return err_set(e, SHOAL_E_NOMEM, "tensors of job %s: out of memory", job->name);
    memset(&unnumbered.legend, 0, sizeof unnumbered.legend);
    int rc = models_plan(&unnumbered, shape, p, e);
    if (rc == 0)
        rc = layout_legend(&p->dense, LEGEND_TENSORS, out, e);
    if (rc == 0)
        rc = layout_legend(&p->stats, LEGEND_STATISTICS, out, e);
    text_copy(out->model, sizeof out->model, job_model_name(job->model.kind));
    free(p);
    return rc;
}
