/* model_schema.c: the tables that a job needs. */
#include "dense/model.h"
#include "dense/model/models.h"

#include "proto/base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPARSE_TABLETS 1024u /* where the job says nothing */
/* of a tablet with a capacity: fewer, and 15/16 of them are none less */
#define TABLET_ROWS_LEAST 16u
/* DeepFM 400-400-400 is 1,000 blocks: a shard of four servers has 32 tablets */
#define DENSE_TABLET_BITS 7u

/* Pushes set the values: w -= 1 * gradient, whatever the job's learning rates do. */
static const struct optimizer_spec optimizer_assign = {.kind = OPT_SGD, .lr = 1.0f, .fixed_lr = 1};

/* Each tablet may have its even share of the table's capacity; keys are spread evenly over
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
    rules->age_capacity = share < UINT32_MAX ? (uint32_t)share : UINT32_MAX;
    return 0;
}

/* What the job calls by name, by number and sorted. The shape has the numbers of all tables' rules,
 * table by table. */
static void field_rules_take(const struct job *job, const struct plan *p, struct table_schema *out)
{
    const struct job_table *t = &job->table[out->table];
    size_t before = 0;
    for (uint32_t i = 0; i < out->table; i++)
        before += job->table[i].rule_count;
    for (size_t i = 0; i < t->rule_count; i++) {
        struct field_rule rule = t->rule[i].rule;
        rule.field = p->shape.rule_field[before + i];
        if (p->dim == 0) /* no vector to begin with anything */
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
    snprintf(out->name, sizeof out->name, "%s", t->name);
    out->table = number;
    out->width = p->first_order + p->table_dim[number];
    out->zero_first = p->first_order;
    out->tablet_bits = (uint32_t)__builtin_ctz(tablets);
    out->seed = t->seed;
    out->init = p->dim > 0 ? t->init : (struct init_spec){INIT_ZERO, 0.0f};
    out->values = t->values;
    out->optimizer = job->model.kind == MODEL_PROBE ? optimizer_assign : t->optimizer;
    return rules_take(job, p, tablets, out, e);
}

static void dense_schema(const char *name, uint32_t table, const struct block_layout *layout,
                         const struct job *job, const struct optimizer_spec *optimizer,
                         struct table_schema *out)
{
    snprintf(out->name, sizeof out->name, "%s", name);
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
        /* whoever sees one table behind the sparse ones takes it for dense */
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
