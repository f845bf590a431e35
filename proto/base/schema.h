/* schema.h: what a table is: its shape, initial values and optimizer. Plain values, the same on every shard; a table's
 * schema travels in TABLE_CREATE and is journalled. Two tables of one name with different schemas are an error. */
#ifndef PROTO_BASE_SCHEMA_H
#define PROTO_BASE_SCHEMA_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdint.h>

enum init_kind {
    INIT_ZERO = 0,
    INIT_UNIFORM = 1,  /* in (-scale, scale) */
    INIT_NORMAL = 2,   /* mean 0, deviation scale: sum of twelve uniforms less six */
    INIT_CONSTANT = 3, /* scale everywhere */
};

enum optimizer_kind {
    OPT_SGD = 0,         /* w -= lr g */
    OPT_ADAGRAD = 1,     /* element-wise: G += g^2; w -= lr g / (sqrt(G) + eps) */
    OPT_ROW_ADAGRAD = 2, /* one G a row: G += mean(g^2) */
    OPT_ADAM = 3,        /* Kingma, Ba 2015; powers of beta are running products kept in the row */
    OPT_FTRL = 4,        /* McMahan 2013, FTRL-proximal, learning-rate power -1/2 */
};

struct init_spec {
    enum init_kind kind;
    float scale;
};

struct optimizer_spec {
    enum optimizer_kind kind;
    float lr;
    float beta1, beta2, eps; /* adam; eps also adagrad */
    float initial;           /* adagrad, ftrl: G starts here */
    float l1, beta;          /* ftrl */
    float l2;                /* ftrl: its own. Others: pulls a row's weights towards 0 for each batch of a lane, also for those
                                that did not touch the row: made up for when the next one does */
    uint32_t fixed_lr;       /* 1: a push's lr_scale is ignored (running statistics) */
};

/* Another initial value for the keys of one field (a dense tensor is a field). 12 bytes, little-endian, also on the wire. */
struct field_init {
    uint32_t field;
    uint32_t kind; /* enum init_kind */
    float scale;
};
_Static_assert(sizeof(struct field_init) == 12, "field_init is a wire format");

struct table_schema {
    char name[LIMIT_NAME];
    uint32_t table;        /* number, 0..LIMIT_TABLES-1, given by the coordinator */
    uint32_t dense;        /* 1: rows are blocks of dense tensors */
    uint32_t width;        /* floats of a row's weights, 1..LIMIT_WIDTH */
    uint32_t zero_first;   /* this many leading floats start at 0 (first-order weights) */
    uint32_t tablet_bits;  /* the table has 2^tablet_bits tablets */
    uint32_t tablet_first; /* the number of its tablet 0 in the numbering over all tables */
    uint64_t seed;         /* initial values are a function of (seed, key) */
    struct init_spec init;
    struct optimizer_spec optimizer;
    uint32_t field_init_count;                 /* at most LIMIT_FIELDS */
    struct field_init field_init[LIMIT_FIELDS]; /* sorted by field */
};

/* 0, or SHOAL_E_SCHEMA with the reason: every number within limits, floats finite, lr > 0, betas in [0, 1). */
int schema_check(const struct table_schema *s, struct err *e);
/* Whether both describe the same table, bit for bit. */
int schema_equal(const struct table_schema *a, const struct table_schema *b);
/* Whether rows remember the batch that touched them last, for l2: a float behind the optimizer's own state. */
int schema_has_last(const struct table_schema *s);
/* Floats of optimizer state a row: 0, width, 1, 2 width + 2, 2 width; and one more with schema_has_last. */
uint32_t schema_state_floats(const struct table_schema *s);

#endif
