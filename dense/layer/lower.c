/* lower.c: the values of a graph that hold a plan's tensors, and its inputs and weights. */
#include "dense/layer/lower.h"

#include "dense/feed.h"
#include "dense/layer/plan.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Columns of a tensor, and the value that has them. */
struct columns {
    uint32_t tensor, at, width, value;
};

/* pool writes one for each field and number, other layers at most two */
#define COLUMNS_MAX (LIMIT_FIELDS + 2 * LIMIT_NUMERIC + 2 * PLAN_LAYERS_MAX)

struct lower {
    const struct plan *plan;
    const struct feed_names *names;
    struct graph *graph;
    struct err *e;
    int rc;
    struct columns columns[COLUMNS_MAX]; /* (count): no two have a column in common */
    uint32_t count;
};

struct graph *lower_graph(struct lower *w)
{
    return w->graph;
}

const struct plan *lower_plan_of(const struct lower *w)
{
    return w->plan;
}

/* Notes the first error; the graph takes no more nodes. */
static void lower_fail(struct lower *w, int rc)
{
    if (w->rc == 0)
        w->rc = rc;
    w->graph->failed = true;
}

/* ---- views ----------------------------------------------------------------------------------- */

static bool columns_within(const struct columns *c, struct view v)
{
    return c->tensor == v.tensor && c->at >= v.at && c->at + c->width <= v.at + v.width;
}

/* The columns that have column `at` of a tensor; NULL: it was not written. */
static const struct columns *columns_find(const struct lower *w, uint32_t tensor, uint32_t at)
{
    for (uint32_t i = 0; i < w->count; i++) {
        const struct columns *c = &w->columns[i];
        if (c->tensor == tensor && c->at <= at && at < c->at + c->width)
            return c;
    }
    return NULL;
}

void lower_write(struct lower *w, struct view v, uint32_t value)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < w->count; i++)
        if (!columns_within(&w->columns[i], v))
            w->columns[left++] = w->columns[i];
    w->count = left;
    SHOAL_ASSERT(w->count < COLUMNS_MAX && columns_find(w, v.tensor, v.at) == NULL &&
                 columns_find(w, v.tensor, v.at + v.width - 1) == NULL);
    w->columns[w->count++] = (struct columns){v.tensor, v.at, v.width, value};
}

uint32_t lower_read(struct lower *w, struct view v)
{
    uint32_t part[COLUMNS_MAX], parts = 0, at = v.at, end = v.at + v.width;
    bool whole = true;
    do {
        const struct columns *c = columns_find(w, v.tensor, at);
        SHOAL_ASSERT(c != NULL && v.width > 0);
        uint32_t to = MIN(c->at + c->width, end);
        part[parts] = c->value;
        if (!columns_within(c, v)) {
            part[parts] = graph_slice(w->graph, c->value, 1, at - c->at, to - c->at);
            whole = false;
        }
        parts++;
        at = to;
    } while (at < end);
    if (parts == 1)
        return part[0];

    uint32_t joined = graph_concat(w->graph, part, parts, 1);
    if (whole)
        lower_write(w, v, joined);
    return joined;
}

void lower_add(struct lower *w, struct view v, uint32_t value)
{
    SHOAL_ASSERT(v.tensor == TENSOR_LOGIT);
    if (columns_find(w, v.tensor, v.at) != NULL)
        value = graph_binary(w->graph, "Add", lower_read(w, v), value);
    lower_write(w, v, value);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The weight of the tensor that has offset `at`, and how far from its begin that is. */
static uint32_t weight_find(struct lower *w, const struct block_layout *b, const char *table,
                            size_t at, size_t *from)
{
    uint32_t t = 0;
    while (t + 1 < b->tensor_count && b->tensor[t + 1].first <= at)
        t++;
    SHOAL_ASSERT(at >= b->tensor[t].first && at < b->tensor[t].first + b->tensor[t].count);
    *from = at - b->tensor[t].first;
    char name[LEGEND_NAME + 16];
    (void)snprintf(name, sizeof name, "%s.%s", table, b->tensor[t].name);
    uint32_t found = graph_find(w->graph, name);
    if (w->graph->failed)
        return GRAPH_NONE;
    if (found == GRAPH_NONE || w->graph->value[found].bytes != b->tensor[t].count * sizeof(float)) {
        lower_fail(w, err_set(w->e, SHOAL_E_CONFIG,
                              "the tables have no tensor %s of shape %s: the job has another model "
                              "than they were trained with",
                              name, b->tensor[t].shape));
        return GRAPH_NONE;
    }
    return found;
}

/* The numbers of a weight from `from` on, in this shape. */
static uint32_t weight_shaped(struct lower *w, uint32_t value, size_t from, const int64_t *dim,
                              uint32_t dims)
{
    const struct graph_value *v = &w->graph->value[value];
    int64_t count = 1, all = (int64_t)(v->bytes / sizeof(float)), row = all / v->dim[0];
    bool same = dims == v->dims;
    for (uint32_t i = 0; i < dims; i++) {
        same = same && dim[i] == v->dim[i];
        count *= dim[i];
    }
    if (same)
        return value;
    if (count < all) {
        int64_t first = (int64_t)from / row;
        SHOAL_ASSERT((int64_t)from % row == 0 && count % row == 0);
        value = graph_slice(w->graph, value, 0, first, first + count / row);
        if (dims == 1 || dim[dims - 1] == row) /* rows of a matrix, or of a vector */
            return value;
    }
    return graph_reshape(w->graph, value, dim, dims);
}

uint32_t lower_parameter(struct lower *w, size_t at, const int64_t *dim, uint32_t dims)
{
    size_t from;
    uint32_t value = weight_find(w, &w->plan->dense, "dense", at, &from);
    if (value == GRAPH_NONE)
        return value;
    return weight_shaped(w, value, from, dim, dims);
}

uint32_t lower_statistic(struct lower *w, size_t at, uint32_t width)
{
    size_t from;
    uint32_t value = weight_find(w, &w->plan->stats, "dense_stats", at, &from);
    if (value == GRAPH_NONE)
        return value;
    SHOAL_ASSERT(from == 0 && w->graph->value[value].bytes == width * sizeof(float));
    return value;
}

uint32_t lower_act(struct lower *w, enum activation act, uint32_t value)
{
    static const char *const op[] = {
        [ACT_RELU] = "Relu", [ACT_TANH] = "Tanh", [ACT_SIGMOID] = "Sigmoid"};
    if (act == ACT_NONE)
        return value;
    return graph_unary(w->graph, op[act], value);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static uint32_t input_add(struct lower *w, enum feed_kind kind, const char *name, const char *about,
                          const int64_t *dim, uint32_t dims)
{
    char full[FEED_NAME];
    feed_name(kind, name, full);
    return graph_input(w->graph, full, about, dim, dims);
}

static const char *pooled_text(const struct plan *p, uint32_t field)
{
    return p->shape.pooling[field] == POOL_MEAN ? "mean" : "sum";
}

uint32_t lower_vector(struct lower *w, uint32_t field)
{
    const struct plan *p = w->plan;
    int64_t dim = p->table_dim[p->shape.table[field]];
    char about[96];
    (void)snprintf(about, sizeof about, "%s of the vectors of the field's values; zeros without",
                   pooled_text(p, field));
    return input_add(w, FEED_VECTOR, w->names->field[field], about, (int64_t[]){GRAPH_BATCH, dim},
                     2);
}

uint32_t lower_vectors(struct lower *w, uint32_t field)
{
    return input_add(w, FEED_VECTORS, w->names->field[field],
                     "vectors of the field's values; a shorter sequence ends with vectors of zeros",
                     (int64_t[]){GRAPH_BATCH, GRAPH_LENGTH, w->plan->dim}, 3);
}

uint32_t lower_first(struct lower *w, uint32_t field)
{
    char about[96];
    (void)snprintf(about, sizeof about, "%s of the first-order weights of the field's values",
                   pooled_text(w->plan, field));
    return input_add(w, FEED_FIRST, w->names->field[field], about, (int64_t[]){GRAPH_BATCH, 1}, 2);
}

static void numbers_add(struct lower *w)
{
    for (uint32_t i = 0; i < w->plan->shape.numerics; i++) {
        uint32_t value =
            input_add(w, FEED_NUMBER, w->names->numeric[i], "the number after the job's transform",
                      (int64_t[]){GRAPH_BATCH, 1}, 2);
        lower_write(w, (struct view){TENSOR_NUMERIC, i, 1}, value);
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void layers_lower(struct lower *w, uint32_t *logit)
{
    const struct plan *p = w->plan;
    numbers_add(w);
    for (uint32_t i = 0; i < p->layer_count && !w->graph->failed; i++) {
        const struct layer *l = &p->layer[i];
        graph_scope(w->graph, l->ops->name, i);
        l->ops->lower(l, w);
    }
    for (uint32_t t = 0; t < p->tasks && !w->graph->failed; t++)
        logit[t] = lower_read(w, (struct view){TENSOR_LOGIT, t, 1});
}

int lower_plan(const struct plan *plan, const struct feed_names *names, struct graph *g,
               uint32_t *logit, struct err *e)
{
    struct lower *w = malloc(sizeof *w);
    if (w == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the graph of the network");
    SHOAL_ASSERT(plan->sites == 1 && plan->has_loss);
    *w = (struct lower){.plan = plan, .names = names, .graph = g, .e = e};
    layers_lower(w, logit);
    int rc = w->rc;
    free(w);
    if (rc == 0 && !graph_complete(g))
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the graph of the network");
    return rc;
}
