/* graph.c: builds graphs of operators. */
#include "proto/base/graph.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void graph_free(struct graph *g)
{
    for (uint32_t i = 0; i < g->values; i++) {
        free(g->value[i].name);
        free(g->value[i].about);
        free(g->value[i].data);
    }
    for (uint32_t i = 0; i < g->nodes; i++)
        free(g->node[i].in);
    for (uint32_t i = 0; i < g->notes; i++) {
        free(g->note[i].key);
        free(g->note[i].text);
    }
    free(g->value);
    free(g->node);
    free(g->note);
    free(g->output);
    free(g->about);
    memset(g, 0, sizeof *g);
}

bool graph_complete(const struct graph *g)
{
    return !g->failed;
}

/* A copy of a text; NULL for NULL, or with the failure noted. */
static char *text_taken(struct graph *g, const char *text)
{
    if (text == NULL)
        return NULL;
    char *own = strdup(text);
    if (own == NULL)
        g->failed = true;
    return own;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Appends a value without a name. */
static struct graph_value *value_add(struct graph *g, enum graph_kind kind, const int64_t *dim,
                                     uint32_t dims)
{
    SHOAL_ASSERT(dims <= GRAPH_DIMS);
    if (g->failed || array_room(&g->value, g->values, &g->value_room, 256) != 0) {
        g->failed = true;
        return NULL;
    }
    struct graph_value *v = &g->value[g->values++];
    *v = (struct graph_value){.kind = kind, .type = GRAPH_F32, .dims = dims};
    for (uint32_t i = 0; i < dims; i++)
        v->dim[i] = dim[i];
    return v;
}

uint32_t graph_input(struct graph *g, const char *name, const char *about, const int64_t *dim,
                     uint32_t dims)
{
    struct graph_value *v = value_add(g, GRAPH_INPUT, dim, dims);
    if (v == NULL)
        return GRAPH_NONE;
    v->name = text_taken(g, name);
    v->about = text_taken(g, about);
    return g->values - 1;
}

/* Appends a weight of numbers of `each` bytes. */
static uint32_t weight_add(struct graph *g, const char *name, const int64_t *dim, uint32_t dims,
                           const void *data, size_t each)
{
    struct graph_value *v = value_add(g, GRAPH_WEIGHT, dim, dims);
    if (v == NULL)
        return GRAPH_NONE;
    v->bytes = each;
    for (uint32_t i = 0; i < dims; i++)
        v->bytes *= (size_t)dim[i];
    v->name = text_taken(g, name);
    v->data = calloc(1, v->bytes + 1);
    if (v->data == NULL)
        g->failed = true;
    else if (data != NULL)
        memcpy(v->data, data, v->bytes);
    return g->values - 1;
}

uint32_t graph_weight(struct graph *g, const char *name, const int64_t *dim, uint32_t dims,
                      const float *data)
{
    return weight_add(g, name, dim, dims, data, sizeof *data);
}

/* Numbers without a name of their own. They get one, "numbers.7", by which they are found again. */
static uint32_t numbers_add(struct graph *g, enum graph_type type, uint32_t dims, const void *data,
                            size_t bytes, int64_t count)
{
    for (uint32_t i = 0; i < g->values && !g->failed; i++) {
        const struct graph_value *v = &g->value[i];
        if (v->kind == GRAPH_WEIGHT && v->type == type && v->dims == dims && v->bytes == bytes &&
            strncmp(v->name, "numbers.", 8) == 0 && memcmp(v->data, data, bytes) == 0)
            return i;
    }
    char name[24];
    (void)snprintf(name, sizeof name, "numbers.%u", g->values);
    uint32_t at = weight_add(g, name, &count, dims, data, dims > 0 ? bytes / (size_t)count : bytes);
    if (at != GRAPH_NONE)
        g->value[at].type = type;
    return at;
}

uint32_t graph_integers(struct graph *g, const int64_t *x, uint32_t count)
{
    SHOAL_ASSERT(count > 0);
    return numbers_add(g, GRAPH_I64, 1, x, count * sizeof *x, count);
}

uint32_t graph_number(struct graph *g, float x)
{
    return numbers_add(g, GRAPH_F32, 0, &x, sizeof x, 1);
}

uint32_t graph_find(const struct graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->values && !g->failed; i++)
        if (strcmp(g->value[i].name, name) == 0)
            return i;
    return GRAPH_NONE;
}

void graph_output(struct graph *g, uint32_t value, const char *name)
{
    if (g->failed || array_room(&g->output, g->outputs, &g->output_room, 8) != 0) {
        g->failed = true;
        return;
    }
    SHOAL_ASSERT(value < g->values && g->value[value].kind == GRAPH_MADE);
    struct graph_value *v = &g->value[value];
    free(v->name);
    v->name = text_taken(g, name);
    v->read = true;
    v->dims = 1;
    v->dim[0] = GRAPH_BATCH;
    g->output[g->outputs++] = value;
}

/* ---- words ----------------------------------------------------------------------------------- */

void graph_scope(struct graph *g, const char *name, uint32_t number)
{
    (void)snprintf(g->scope, sizeof g->scope, "%.24s.%u/", name, number);
}

void graph_about(struct graph *g, const char *text)
{
    free(g->about);
    g->about = text_taken(g, text);
}

void graph_note(struct graph *g, const char *key, const char *text)
{
    if (g->failed || array_room(&g->note, g->notes, &g->note_room, 16) != 0) {
        g->failed = true;
        return;
    }
    g->note[g->notes].key = text_taken(g, key);
    g->note[g->notes].text = text_taken(g, text);
    g->notes++;
}

const char *graph_twice(const struct graph *g)
{
    for (uint32_t i = 0; i < g->values && !g->failed; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(g->value[i].name, g->value[k].name) == 0)
                return g->value[i].name;
    return NULL;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Appends an output to the last node. */
static uint32_t output_add(struct graph *g)
{
    struct graph_value *v = value_add(g, GRAPH_MADE, NULL, 0);
    if (v == NULL)
        return GRAPH_NONE;
    struct graph_node *n = &g->node[g->nodes - 1];
    char name[96];
    (void)snprintf(name, sizeof name, "%s%s.%u", g->scope, n->op, g->values - 1);
    v->name = text_taken(g, name);
    n->out[n->outs++] = g->values - 1;
    return g->values - 1;
}

uint32_t graph_node(struct graph *g, const char *op, const uint32_t *in, uint32_t ins)
{
    uint32_t *own = NULL;
    if (!g->failed)
        own = malloc((ins + 1) * sizeof *own);
    if (own == NULL || array_room(&g->node, g->nodes, &g->node_room, 256) != 0) {
        free(own);
        g->failed = true;
        return GRAPH_NONE;
    }
    for (uint32_t i = 0; i < ins; i++) {
        SHOAL_ASSERT(in[i] < g->values);
        own[i] = in[i];
        g->value[in[i]].read = true;
    }
    g->node[g->nodes++] = (struct graph_node){.op = op, .in = own, .ins = ins};
    return output_add(g);
}

uint32_t graph_second(struct graph *g)
{
    return g->failed ? GRAPH_NONE : output_add(g);
}

/* Appends an attribute to the last node. */
static void attribute_add(struct graph *g, const struct graph_attribute *a)
{
    if (g->failed)
        return;
    struct graph_node *n = &g->node[g->nodes - 1];
    SHOAL_ASSERT(n->attributes < GRAPH_ATTRIBUTES);
    n->attribute[n->attributes++] = *a;
}

void graph_set(struct graph *g, const char *name, int64_t x)
{
    attribute_add(g, &(struct graph_attribute){.name = name, .i = {x}, .count = 1});
}

void graph_set_list(struct graph *g, const char *name, const int64_t *x, uint32_t count)
{
    struct graph_attribute a = {.name = name, .list = true, .count = count};
    SHOAL_ASSERT(count <= GRAPH_DIMS);
    for (uint32_t i = 0; i < count; i++)
        a.i[i] = x[i];
    attribute_add(g, &a);
}

void graph_set_real(struct graph *g, const char *name, float x)
{
    attribute_add(g, &(struct graph_attribute){.name = name, .real = true, .f = x, .count = 1});
}

uint32_t graph_unary(struct graph *g, const char *op, uint32_t x)
{
    return graph_node(g, op, &x, 1);
}

uint32_t graph_binary(struct graph *g, const char *op, uint32_t x, uint32_t y)
{
    return graph_node(g, op, (uint32_t[]){x, y}, 2);
}

uint32_t graph_linear(struct graph *g, uint32_t x, uint32_t w, uint32_t bias)
{
    uint32_t y = graph_node(g, "Gemm", (uint32_t[]){x, w, bias}, bias == GRAPH_NONE ? 2 : 3);
    graph_set(g, "transB", 1);
    return y;
}

uint32_t graph_reshape(struct graph *g, uint32_t x, const int64_t *dim, uint32_t dims)
{
    return graph_binary(g, "Reshape", x, graph_integers(g, dim, dims));
}

uint32_t graph_transpose(struct graph *g, uint32_t x, const int64_t *order, uint32_t dims)
{
    uint32_t y = graph_unary(g, "Transpose", x);
    graph_set_list(g, "perm", order, dims);
    return y;
}

uint32_t graph_slice(struct graph *g, uint32_t x, int64_t axis, int64_t from, int64_t to)
{
    uint32_t begin = graph_integers(g, &from, 1), end = graph_integers(g, &to, 1);
    return graph_node(g, "Slice", (uint32_t[]){x, begin, end, graph_integers(g, &axis, 1)}, 4);
}

uint32_t graph_concat(struct graph *g, const uint32_t *x, uint32_t count, int64_t axis)
{
    uint32_t y = graph_node(g, "Concat", x, count);
    graph_set(g, "axis", axis);
    return y;
}

uint32_t graph_sum(struct graph *g, uint32_t x, int64_t axis, bool keep)
{
    uint32_t y = graph_binary(g, "ReduceSum", x, graph_integers(g, &axis, 1));
    graph_set(g, "keepdims", keep);
    return y;
}
