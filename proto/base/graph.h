/* graph.h: a network as a graph of operators, for programs that compute it without us.
 *
 *     uint32_t x = graph_input(&g, "user.vector", "", (int64_t[]){GRAPH_BATCH, 8}, 2);
 *     uint32_t w = graph_weight(&g, "w", (int64_t[]){1, 8}, 2, floats);
 *     graph_output(&g, graph_unary(&g, "Sigmoid", graph_linear(&g, x, w, GRAPH_NONE)), "score");
 *
 * Operators, their inputs, outputs and attributes are those of ONNX's operator set 13
 * (https://github.com/onnx/onnx/blob/main/docs/Operators.md). A value is an input, a weight or what
 * a node computes; its number is its index. A node comes after the values that it reads. An
 * allocation that fails is noted: later calls do nothing, and graph_complete says so at the end.
 * One thread at a time. */
#ifndef PROTO_BASE_GRAPH_H
#define PROTO_BASE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRAPH_OPERATORS 13 /* the version of ONNX's operator set */
#define GRAPH_NONE UINT32_MAX
#define GRAPH_DIMS 4u
#define GRAPH_ATTRIBUTES 3u
/* Dimensions that a batch decides: its examples, or a length that is the input's own. */
#define GRAPH_BATCH (-1)
#define GRAPH_LENGTH (-2)

enum graph_kind { GRAPH_INPUT, GRAPH_WEIGHT, GRAPH_MADE };
enum graph_type { GRAPH_F32, GRAPH_I64 };

struct graph_value {
    enum graph_kind kind;
    enum graph_type type;
    char *name, *about; /* owned; about: an input's meaning, else NULL */
    int64_t dim[GRAPH_DIMS];
    uint32_t dims; /* not known of what a node makes */
    void *data;    /* owned: a weight's numbers, in C order; else NULL */
    size_t bytes;
    bool read; /* a node or the output reads it */
};

struct graph_attribute {
    const char *name;
    bool real, list; /* f; i (count) */
    float f;
    int64_t i[GRAPH_DIMS];
    uint32_t count; /* 1, unless it is a list */
};

struct graph_node {
    const char *op;
    uint32_t *in; /* owned: (ins) values */
    uint32_t ins;
    uint32_t out[2]; /* (outs) */
    uint32_t outs;
    struct graph_attribute attribute[GRAPH_ATTRIBUTES];
    uint32_t attributes;
};

struct graph_note {
    char *key, *text; /* owned */
};

struct graph {                 /* begins as zeros */
    struct graph_value *value; /* owned, as all arrays here */
    struct graph_node *node;
    struct graph_note *note;
    uint32_t *output; /* values */
    uint32_t values, value_room, nodes, node_room, notes, note_room, outputs, output_room;
    char *about;    /* owned: the whole in words, or NULL */
    char scope[48]; /* prefix of the names of what nodes make, "fc.3/" */
    bool failed;
};

void graph_free(struct graph *g); /* leaves an empty one */
/* False: an allocation failed, and the graph is not whole. */
bool graph_complete(const struct graph *g);

/* ---- values ---- */

uint32_t graph_input(struct graph *g, const char *name, const char *about, const int64_t *dim,
                     uint32_t dims);
/* data is copied; NULL: the caller fills value[].data. */
uint32_t graph_weight(struct graph *g, const char *name, const int64_t *dim, uint32_t dims,
                      const float *data);
/* Numbers that are no weights: equal ones are one value. */
uint32_t graph_integers(struct graph *g, const int64_t *x, uint32_t count);
uint32_t graph_number(struct graph *g, float x);
/* The value of that name, or GRAPH_NONE. */
uint32_t graph_find(const struct graph *g, const char *name);
/* Names a value that a node makes, and appends it to the outputs. */
void graph_output(struct graph *g, uint32_t value, const char *name);

/* ---- words ---- */

/* Sets the prefix of names from here on. */
void graph_scope(struct graph *g, const char *name, uint32_t number);
void graph_about(struct graph *g, const char *text);
void graph_note(struct graph *g, const char *key, const char *text);
/* A name that two values have, which no reader takes; NULL: there is none. */
const char *graph_twice(const struct graph *g);

/* ---- nodes ---- */

/* Appends a node and returns its output. */
uint32_t graph_node(struct graph *g, const char *op, const uint32_t *in, uint32_t ins);
/* The second output of the node that was appended last. */
uint32_t graph_second(struct graph *g);
/* An attribute of the node that was appended last; count at most GRAPH_DIMS. */
void graph_set(struct graph *g, const char *name, int64_t x);
void graph_set_list(struct graph *g, const char *name, const int64_t *x, uint32_t count);
void graph_set_real(struct graph *g, const char *name, float x);

/* Nodes that networks are made of. */
uint32_t graph_unary(struct graph *g, const char *op, uint32_t x);
uint32_t graph_binary(struct graph *g, const char *op, uint32_t x, uint32_t y);
/* x w' + bias: x (batch, in), w (out, in), bias (out) or GRAPH_NONE. */
uint32_t graph_linear(struct graph *g, uint32_t x, uint32_t w, uint32_t bias);
/* dim 0: as the input's at that place; -1: what is left. */
uint32_t graph_reshape(struct graph *g, uint32_t x, const int64_t *dim, uint32_t dims);
uint32_t graph_transpose(struct graph *g, uint32_t x, const int64_t *order, uint32_t dims);
uint32_t graph_slice(struct graph *g, uint32_t x, int64_t axis, int64_t from, int64_t to);
uint32_t graph_concat(struct graph *g, const uint32_t *x, uint32_t count, int64_t axis);
/* The sum along an axis, which stays with length 1 if `keep`. */
uint32_t graph_sum(struct graph *g, uint32_t x, int64_t axis, bool keep);

#endif
