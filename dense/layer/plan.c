/* plan.c: putting the parts of a model together. */
#include "dense/layer/plan.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct init_spec init_zero = {INIT_ZERO, 0.0f};
static const struct init_spec init_one = {INIT_CONSTANT, 1.0f};

/* ---- building blocks ------------------------------------------------------------------------- */

uint32_t plan_stride(uint32_t width, bool packed)
{
    if (packed)
        return width;
    return (width + TENSOR_ROUND - 1) / TENSOR_ROUND * TENSOR_ROUND;
}

static uint32_t tensor_add(struct plan *p, struct tensor t)
{
    if (p->tensor_count == PLAN_TENSORS_MAX) {
        p->overflow = true;
        return PLAN_TENSORS_MAX - 1;
    }
    t.gradient = TENSOR_NONE;
    t.ld = plan_stride(t.width, t.packed);
    p->tensor[p->tensor_count] = t;
    return p->tensor_count++;
}

struct view plan_tensor(struct plan *p, uint32_t width)
{
    uint32_t t =
        tensor_add(p, (struct tensor){.width = width, .wanted = width, .whole = p->by_batch});
    return (struct view){t, 0, width};
}

struct view plan_columns(struct view v, uint32_t at, uint32_t width)
{
    SHOAL_ASSERT(at + width <= v.width);
    return (struct view){v.tensor, v.at + at, width};
}

struct view plan_packed(struct plan *p, struct view v)
{
    p->tensor[v.tensor].packed = true;
    p->tensor[v.tensor].ld = p->tensor[v.tensor].width;
    return v;
}

uint32_t plan_state(struct plan *p, uint32_t floats_an_example)
{
    return tensor_add(
        p, (struct tensor){.width = floats_an_example, .whole = p->by_batch, .packed = true});
}

uint32_t plan_state_whole(struct plan *p, uint32_t floats)
{
    return tensor_add(
        p, (struct tensor){.width = floats, .whole = true, .packed = true, .state = true});
}

void plan_expert(struct plan *p, uint32_t rows, uint32_t expert, uint32_t load)
{
    p->rows = rows;
    p->expert = expert;
    p->load = load;
}

/* Glorot, Bengio 2010: the deviation of activations and gradients stays about the same from layer
 * to layer. */
struct init_spec plan_xavier(uint32_t out, uint32_t in)
{
    return (struct init_spec){INIT_UNIFORM, (float)sqrt(6.0 / ((double)in + out))};
}

void plan_scope(struct plan *p, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(p->scope, sizeof p->scope, format, arguments);
    va_end(arguments);
    p->steps = 0;
}

void plan_step(struct plan *p)
{
    p->steps++;
}

/* true: the columns of v correspond to columns of the input. */
static bool by_field(const struct plan *p, struct view v)
{
    return v.tensor < p->tensor_count && p->tensor[v.tensor].by_field;
}

/* The suffix of a matrix's shape that says to which columns those of the matrix correspond. */
static const char *reads_text(const struct plan *p, struct view v)
{
    if (v.tensor == TENSOR_NUMERIC)
        return " numbers";
    if (by_field(p, v) || p->to_input)
        return " input";
    return "";
}

static const char *labels_text(const struct plan *p)
{
    if (p->by_label && p->tasks > 1)
        return " labels";
    return "";
}

/* "hidden.0.weight", or "hidden.head" where the scope has no steps. */
static const char *name_of(const struct plan *p, const char *what, char out[LEGEND_NAME])
{
    if (p->steps > 0)
        (void)snprintf(out, LEGEND_NAME, "%s.%u.%s", p->scope, p->steps - 1, what);
    else
        (void)snprintf(out, LEGEND_NAME, "%s.%s", p->scope, what);
    return out;
}

size_t plan_parameter(struct plan *p, const char *what, uint32_t out, uint32_t in,
                      struct view reads, struct init_spec init, bool decay)
{
    char name[LEGEND_NAME], shape[40];
    (void)snprintf(shape, sizeof shape, "%ux%u%s%s", out, in, reads_text(p, reads), labels_text(p));
    return block_add(&p->dense, name_of(p, what, name), shape, (size_t)in * out, init, decay);
}

size_t plan_weights(struct plan *p, uint32_t out, struct view x)
{
    return plan_parameter(p, "weight", out, x.width, x, plan_xavier(out, x.width), true);
}

static size_t vector_add(struct plan *p, struct block_layout *b, const char *what, size_t count,
                         struct init_spec init)
{
    char name[LEGEND_NAME], shape[40];
    (void)snprintf(shape, sizeof shape, "%zu%s%s", count, text_if(p->to_input, " input"),
                   labels_text(p));
    return block_add(b, name_of(p, what, name), shape, count, init, false);
}

size_t plan_zeros(struct plan *p, const char *what, size_t count)
{
    return vector_add(p, &p->dense, what, count, init_zero);
}

size_t plan_ones(struct plan *p, const char *what, size_t count)
{
    return vector_add(p, &p->dense, what, count, init_one);
}

size_t plan_statistic(struct plan *p, const char *what, size_t count, float initial)
{
    struct init_spec init = {INIT_CONSTANT, initial};
    if (initial == 0.0f)
        init = init_zero;
    return vector_add(p, &p->stats, what, count, init);
}

struct view plan_logit(const struct plan *p, uint32_t task)
{
    SHOAL_ASSERT(task < p->tasks);
    return (struct view){TENSOR_LOGIT, task, 1};
}

/* After an overflow views mean nothing; plan_build_kind fails at its end. */
static bool view_lies(const struct plan *p, struct view v)
{
    return v.tensor == TENSOR_NONE || p->overflow ||
           (v.tensor < p->tensor_count && v.at + v.width <= p->tensor[v.tensor].width);
}

struct layer *plan_layer(struct plan *p, const struct layer_ops *ops, struct view x, struct view y)
{
    if (p->layer_count == PLAN_LAYERS_MAX) {
        p->overflow = true;
        p->layer_count--;
    }
    SHOAL_ASSERT(view_lies(p, x) && view_lies(p, y));
    struct layer *l = &p->layer[p->layer_count];
    *l = (struct layer){.ops = ops,
                        .number = p->layer_count,
                        .draw = p->layer_count,
                        .x = x,
                        .y = y,
                        .z = VIEW_NONE,
                        .act = ACT_NONE};
    p->layer_count++;
    if (y.tensor < p->tensor_count && y.tensor >= TENSOR_FIRST_FREE && !ops->mixes)
        p->tensor[y.tensor].by_field |= by_field(p, x);
    l->rows = p->rows;
    l->expert = p->expert;
    l->load = p->load;
    for (uint32_t i = 0; i < LAYER_STATES; i++)
        l->state[i] = TENSOR_NONE;
    for (uint32_t i = 0; i < LAYER_PARAMETERS; i++)
        l->parameter[i] = PARAMETER_NONE;
    return l;
}

/* ---- checking and building ------------------------------------------------------------------- */

static int shape_check(const struct job *job, const struct model_shape *shape,
                       const struct plan_kind *kind, struct err *e)
{
    if (shape->fields > LIMIT_FIELDS || shape->numerics > LIMIT_NUMERIC ||
        shape->tasks > LIMIT_TASKS)
        return err_set(
            e, SHOAL_E_CONFIG,
            "features: %u fields, %u numbers, %u labels are over the limits of %u, %u and %u",
            shape->fields, shape->numerics, shape->tasks, LIMIT_FIELDS, LIMIT_NUMERIC, LIMIT_TASKS);
    if (!kind->multi && shape->tasks > 1)
        return err_set(e, SHOAL_E_CONFIG, "data.label names %u labels; model.kind %s has one task",
                       shape->tasks, kind->name);
    for (uint32_t f = 0; f < shape->fields; f++)
        if (shape->pooling[f] == POOL_ATTENTION && job->model.kind != MODEL_DIN &&
            job->model.kind != MODEL_EXTERNAL)
            return err_set(e, SHOAL_E_CONFIG,
                           "data.columns: field %u has pooling attention, which only model.kind "
                           "din and external have",
                           f);
    return 0;
}

int plan_widths_check(const struct widths *w, const char *key, struct err *e)
{
    if (w->count == 0 || w->count > 16)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s names %u layers; a model with a network needs 1 to 16, as in [400, 400]",
                       key, w->count);
    double floats = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->at[i] == 0)
            return err_set(e, SHOAL_E_CONFIG, "%s: a layer cannot have 0 outputs", key);
        floats += (double)w->at[i] * (i > 0 ? w->at[i - 1] : 1);
    }
    if (floats > (double)BLOCK_TABLE_FLOATS_MAX)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s makes %.0f weights, over the limit of %zu; make the layers narrower",
                       key, floats, BLOCK_TABLE_FLOATS_MAX);
    return 0;
}

bool plan_dims_differ(const struct job *job)
{
    for (size_t t = 1; t < job->table_count; t++)
        if (job->table[t].dim != job->table[0].dim)
            return true;
    return false;
}

int plan_dims_refuse(const struct job *job, const char *why, const char *instead, struct err *e)
{
    size_t t = 1;
    while (job->table[t].dim == job->table[0].dim)
        t++;
    return err_set(e, SHOAL_E_CONFIG,
                   "tables: %s has dim %u and %s dim %u, but model.kind %s %s: give all tables one "
                   "dim, or take %s",
                   job->table[0].name, job->table[0].dim, job->table[t].name, job->table[t].dim,
                   job_model_name(job->model.kind), why, instead);
}

double plan_vectors_width(const struct job *job, const struct model_shape *shape)
{
    double width = 0;
    for (uint32_t f = 0; f < shape->fields; f++)
        width += job->table[shape->table[f]].dim;
    return width;
}

static int dims_check(const struct job *job, const struct plan_kind *kind, struct err *e)
{
    for (size_t t = 0; t < job->table_count; t++)
        if (job->table[t].dim == 0 || job->table[t].dim + 1 > LIMIT_WIDTH)
            return err_set(e, SHOAL_E_CONFIG,
                           "tables[%zu].dim is %u; a model with vectors needs 1 to %u", t,
                           job->table[t].dim, LIMIT_WIDTH - 1);
    if (kind->mixed || !plan_dims_differ(job))
        return 0;
    return plan_dims_refuse(job, "multiplies the vectors of fields",
                            "a model that puts them side by side, such as dcnv2", e);
}

static int plan_check(const struct job *job, const struct model_shape *shape,
                      const struct plan_kind *kind, struct err *e)
{
    int rc = shape_check(job, shape, kind, e);
    if (rc != 0 || !kind->vectors)
        return rc;
    rc = dims_check(job, kind, e);
    if (rc != 0)
        return rc;
    if (kind->network && shape->fields == 0 && shape->numerics == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "features: there are neither fields nor numbers to learn from");
    if (kind->network)
        rc = plan_widths_check(&job->model.hidden, "model.hidden", e);
    if (rc != 0 || kind->check == NULL)
        return rc;
    return kind->check(job, shape, e);
}

/* Sets the dim of each table and the column of each field's vector. */
static void plan_tables(struct plan *p, const struct job *job, bool vectors)
{
    p->tables = (uint32_t)job->table_count;
    p->mixed = vectors && plan_dims_differ(job);
    for (uint32_t t = 0; t < p->tables && vectors; t++) {
        p->table_dim[t] = job->table[t].dim;
        if (p->table_dim[t] > p->dim)
            p->dim = p->table_dim[t];
    }
    for (uint32_t f = 0; f < p->shape.fields; f++) {
        SHOAL_ASSERT(p->shape.table[f] < p->tables);
        p->column[f + 1] = p->column[f] + p->table_dim[p->shape.table[f]];
    }
}

static bool plan_overflows(const struct plan *p)
{
    return p->overflow || p->dense.overflow || p->stats.overflow;
}

int plan_build_kind(const struct job *job, const struct model_shape *shape,
                    const struct plan_kind *kind, struct plan *out, struct err *e)
{
    int rc = plan_check(job, shape, kind, e);
    if (rc != 0)
        return rc;

    memset(out, 0, sizeof *out);
    out->job = job;
    out->shape = *shape;
    plan_tables(out, job, kind->vectors);
    out->sites = 1;
    out->first_order = kind->first_order;
    out->tasks = MAX(shape->tasks, 1);
    for (uint32_t t = 0; t < out->tasks; t++)
        out->loss.kind[t] = job->model.loss[t];
    out->loss.delta = job->model.huber_delta;
    out->has_loss = job->model.kind != MODEL_PROBE && job->model.kind != MODEL_EXTERNAL;
    out->by_batch =
        kind->network && (job->model.norm == NORM_BATCH || (kind->multi && job->model.balance > 0));
    plan_expert(out, TENSOR_NONE, 0, 0);
    tensor_add(out, (struct tensor){
                        .width = out->tasks, .wanted = out->tasks, .whole = true, .packed = true});
    tensor_add(out, (struct tensor){
                        .width = shape->numerics, .whole = true, .packed = true, .by_field = true});
    plan_scope(out, "%s", kind->name); /* plan_input, where a model has it, sets another */
    SHOAL_ASSERT(out->tensor_count == TENSOR_FIRST_FREE);

    kind->build(out);
    if (!plan_overflows(out))
        rc = plan_sites(out, e);
    if (!plan_overflows(out) && rc == 0) {
        plan_settle(out);
        plan_sites_settle(out);
    }
    out->job = NULL;
    if (rc != 0)
        return rc;

    if (plan_overflows(out))
        return err_set(
            e, SHOAL_E_CONFIG,
            "model: %s of this size is more than %u layers, %u tensors or %u "
            "parameters, or with model.top_k more than %u experts; give it fewer layers, "
            "heads or experts",
            kind->name, PLAN_LAYERS_MAX, PLAN_TENSORS_MAX, BLOCK_TENSORS_MAX, LIMIT_EXPERTS);
    if (out->dense.floats > BLOCK_TABLE_FLOATS_MAX)
        return err_set(
            e, SHOAL_E_CONFIG,
            "model.hidden makes %zu weights, over the limit of %zu; make the layers narrower",
            out->dense.floats, BLOCK_TABLE_FLOATS_MAX);

    rc = block_number(&out->dense, &job->legend, LEGEND_TENSORS, e);
    if (rc != 0)
        return rc;
    return block_number(&out->stats, &job->legend, LEGEND_STATISTICS, e);
}
