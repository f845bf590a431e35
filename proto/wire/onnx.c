/* onnx.c: makes the messages of a graph, which borrow its names and numbers, and packs them. */
#include "proto/wire/onnx.h"
#include "proto/base/container_of.h"

#include "onnx.pb-c.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IR_VERSION 7

/* The messages' memory: blocks in a list, freed together. */
struct block {
    struct block *next;
    max_align_t data[];
};

struct pack {
    const struct graph *g;
    struct block *block; /* owned; the newest */
    bool failed;         /* no memory */
};

/* Room for so many items, zeros; NULL: none. */
static void *take(struct pack *p, size_t count, size_t each)
{
    struct block *b = NULL;
    if (!p->failed)
        b = calloc(1, sizeof *b + (count + 1) * each);
    if (b == NULL) {
        p->failed = true;
        return NULL;
    }
    b->next = p->block;
    p->block = b;
    return b->data;
}

static void pack_free(struct pack *p)
{
    while (p->block != NULL) {
        struct block *next = p->block->next;
        free(p->block);
        p->block = next;
    }
}

/* protobuf-c takes pointers to texts that it does not change. */
static char *lent(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* A message that is one of a list: room for it, and its place in the list. */
#define ADD(p, list, count, at, type, initial)                                                     \
    type *at = take((p), 1, sizeof *at);                                                           \
    if (at == NULL || (list) == NULL)                                                              \
        return;                                                                                    \
    initial(at);                                                                                   \
    (list)[(count)++] = at

/* ---- values ---------------------------------------------------------------------------------- */

static void dim_add(struct pack *p, Onnx__TensorShapeProto *shape, const struct graph_value *v,
                    int64_t dim)
{
    ADD(p, shape->dim, shape->n_dim, d, Onnx__DimensionProto, onnx__dimension_proto__init);
    if (dim >= 0) {
        d->has_dim_value = 1;
        d->dim_value = dim;
        return;
    }
    d->dim_param = lent("batch");
    if (dim == GRAPH_BATCH)
        return;
    size_t bytes = strlen(v->name) + 8;
    d->dim_param = take(p, bytes, 1);
    if (d->dim_param != NULL)
        (void)snprintf(d->dim_param, bytes, "%s.length", v->name);
}

/* An input or output of the graph. */
static void info_add(struct pack *p, Onnx__ValueInfoProto **list, size_t *count,
                     const struct graph_value *v)
{
    ADD(p, list, *count, info, Onnx__ValueInfoProto, onnx__value_info_proto__init);
    info->name = v->name;
    info->doc_string = v->about;
    info->type = take(p, 1, sizeof *info->type);
    Onnx__TensorTypeProto *type = take(p, 1, sizeof *type);
    Onnx__TensorShapeProto *shape = take(p, 1, sizeof *shape);
    if (p->failed)
        return;
    onnx__type_proto__init(info->type);
    onnx__tensor_type_proto__init(type);
    onnx__tensor_shape_proto__init(shape);
    info->type->tensor_type = type;
    type->has_elem_type = 1;
    type->elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    type->shape = shape;
    shape->dim = take(p, v->dims, sizeof *shape->dim);
    for (uint32_t i = 0; i < v->dims; i++)
        dim_add(p, shape, v, v->dim[i]);
}

static void weight_add(struct pack *p, Onnx__GraphProto *to, const struct graph_value *v)
{
    ADD(p, to->initializer, to->n_initializer, t, Onnx__TensorProto, onnx__tensor_proto__init);
    t->name = v->name;
    t->has_data_type = 1;
    t->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    if (v->type == GRAPH_I64)
        t->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
    t->n_dims = v->dims;
    t->dims = (int64_t *)(uintptr_t)v->dim;
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){v->bytes, v->data};
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void attribute_add(struct pack *p, Onnx__NodeProto *to, const struct graph_attribute *a)
{
    ADD(p, to->attribute, to->n_attribute, m, Onnx__AttributeProto, onnx__attribute_proto__init);
    m->name = lent(a->name);
    m->has_type = 1;
    if (a->real) {
        m->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
        m->has_f = 1;
        m->f = a->f;
    } else if (a->list) {
        m->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
        m->n_ints = a->count;
        m->ints = (int64_t *)(uintptr_t)a->i;
    } else {
        m->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
        m->has_i = 1;
        m->i = a->i[0];
    }
}

static char **names_of(struct pack *p, const uint32_t *value, uint32_t count)
{
    char **name = take(p, count, sizeof *name);
    for (uint32_t i = 0; i < count && name != NULL; i++)
        name[i] = p->g->value[value[i]].name;
    return name;
}

static void node_add(struct pack *p, Onnx__GraphProto *to, const struct graph_node *n)
{
    ADD(p, to->node, to->n_node, m, Onnx__NodeProto, onnx__node_proto__init);
    m->op_type = lent(n->op);
    m->name = p->g->value[n->out[0]].name;
    m->n_input = n->ins;
    m->input = names_of(p, n->in, n->ins);
    m->n_output = n->outs;
    m->output = names_of(p, n->out, n->outs);
    m->attribute = take(p, n->attributes, sizeof *m->attribute);
    for (uint32_t i = 0; i < n->attributes; i++)
        attribute_add(p, m, &n->attribute[i]);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void graph_fill(struct pack *p, Onnx__GraphProto *to, const char *name)
{
    const struct graph *g = p->g;
    to->name = lent(name);
    to->doc_string = g->about;
    to->node = take(p, g->nodes, sizeof *to->node);
    to->initializer = take(p, g->values, sizeof *to->initializer);
    to->input = take(p, g->values, sizeof *to->input);
    to->output = take(p, g->outputs, sizeof *to->output);
    for (uint32_t i = 0; i < g->values; i++) {
        const struct graph_value *v = &g->value[i];
        if (v->kind == GRAPH_INPUT)
            info_add(p, to->input, &to->n_input, v);
        else if (v->kind == GRAPH_WEIGHT && v->read)
            weight_add(p, to, v);
    }
    for (uint32_t i = 0; i < g->nodes; i++)
        node_add(p, to, &g->node[i]);
    for (uint32_t i = 0; i < g->outputs; i++)
        info_add(p, to->output, &to->n_output, &g->value[g->output[i]]);
}

static void note_add(struct pack *p, Onnx__ModelProto *to, const struct graph_note *n)
{
    ADD(p, to->metadata_props, to->n_metadata_props, m, Onnx__StringStringEntryProto,
        onnx__string_string_entry_proto__init);
    m->key = n->key;
    m->value = n->text;
}

static void operators_add(struct pack *p, Onnx__ModelProto *to)
{
    to->opset_import = take(p, 1, sizeof *to->opset_import);
    ADD(p, to->opset_import, to->n_opset_import, m, Onnx__OperatorSetIdProto,
        onnx__operator_set_id_proto__init);
    m->domain = lent("");
    m->has_version = 1;
    m->version = GRAPH_OPERATORS;
}

static void model_fill(struct pack *p, Onnx__ModelProto *to)
{
    to->has_ir_version = 1;
    to->ir_version = IR_VERSION;
    to->producer_name = lent("shoal");
    to->producer_version = lent(SHOAL_VERSION);
    to->doc_string = p->g->about;
    operators_add(p, to);
    to->metadata_props = take(p, p->g->notes, sizeof *to->metadata_props);
    for (uint32_t i = 0; i < p->g->notes; i++)
        note_add(p, to, &p->g->note[i]);
}

struct sink {
    ProtobufCBuffer base;
    void (*add)(void *context, const void *data, size_t bytes);
    void *context;
};

static void sink_append(ProtobufCBuffer *buffer, size_t bytes, const uint8_t *data)
{
    struct sink *s = container_of(buffer, struct sink, base);
    s->add(s->context, data, bytes);
}

int onnx_write(const struct graph *g, const char *name,
               void (*add)(void *context, const void *data, size_t bytes), void *context,
               struct err *e)
{
    if (!graph_complete(g))
        return err_set(e, SHOAL_E_NOMEM, "no memory for the graph of the network");
    const char *twice = graph_twice(g);
    if (twice != NULL)
        return err_set(e, SHOAL_E_CONFIG,
                       "two values of the network would be called %s: rename a column", twice);

    struct pack p = {.g = g};
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    model.graph = &graph;
    graph_fill(&p, &graph, name);
    model_fill(&p, &model);
    int rc = 0;
    size_t bytes = 0;
    if (p.failed)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the graph of the network");
    else
        bytes = onnx__model_proto__get_packed_size(&model);
    if (bytes > ONNX_BYTES_MAX)
        rc = err_set(e, SHOAL_E_TOO_BIG,
                     "the network is %zu bytes, and a file of ONNX has at most %zu: take its "
                     "tensors from `shoal export --out`, or make its layers narrower",
                     bytes, ONNX_BYTES_MAX);
    if (rc == 0) {
        struct sink s = {{sink_append}, add, context};
        (void)onnx__model_proto__pack_to_buffer(&model, &s.base);
    }
    pack_free(&p);
    return rc;
}
