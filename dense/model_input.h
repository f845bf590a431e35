/* model_input.h: what goes into a model and comes out of it, a batch at a time. */
#ifndef DENSE_MODEL_INPUT_H
#define DENSE_MODEL_INPUT_H

#include "proto/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

#define BLOCK_FLOATS 512u /* of a row of a dense table */

/* What a model needs to know of the input, the same on every worker of a job. */
struct model_shape {
    uint32_t fields;               /* sparse fields of an example */
    uint32_t numerics;             /* numeric inputs of an example */
    uint32_t tasks;                /* labels of an example; 0 counts as 1 */
    uint16_t number[LIMIT_FIELDS]; /* of each field: what its keys, and its tensors, call it by */
    uint8_t pooling[LIMIT_FIELDS]; /* enum pooling, of each field */
    uint16_t attend[LIMIT_FIELDS]; /* of a field with pooling attention: the target's field */
    uint8_t table[LIMIT_FIELDS];   /* of each field: the table that its rows lie in */
    /* of each rule by field (job_table.rule), table by table: the number of its field */
    uint16_t rule_field[LIMIT_FIELDS];
    /* values that a field may have; 0: any number (attention: at most 65,536) */
    uint32_t most[LIMIT_FIELDS];
    uint32_t gate_fields;   /* finalmlp: fields that gates look at: 0, or 2, one for each network */
    uint16_t gate_field[2]; /* (gate_fields): their numbers */
};

#define MODEL_CACHED 0x80000000u

/* How many of a batch's rows are of one table. */
struct model_part {
    uint32_t rows;  /* unique keys */
    uint32_t fresh; /* of these, in model_input.rows; all without a cache */
    uint32_t keep;  /* pairs of model_input.keep */
};

/* One batch. All arrays are the caller's, in host memory; the big ones better in memory of
 * backend_host_alloc. */
struct model_input {
    uint32_t examples;
    const float *label;   /* (examples, tasks): 0 or 1 */
    const float *weight;  /* (examples) or NULL: all weigh 1 */
    const float *numeric; /* (examples, numerics) */
    /* (values): row number of each value, example by example, field by field */
    const uint32_t *index;
    /* (examples * fields + 1) into index; NULL: exactly one value for each field */
    const uint32_t *offset;
    uint32_t row_count; /* unique keys, table by table */
    /* (tables), on the host: their counts. NULL will do where all tables have one dim */
    const struct model_part *part;
    const float *rows;    /* (fresh_count, row width of its table), one behind another: pulled */
    uint32_t fresh_count; /* row_count without a cache */
    /* (row_count) or NULL: row i is rows[i]. Else row i is rows[source[i]], or, with MODEL_CACHED
     * set, the slot source[i] & ~MODEL_CACHED of the run's cache */
    const uint32_t *source;
    /* (keep_count, 2): a position in rows, and the slot that takes a copy once the batch has its
     * rows */
    const uint32_t *keep;
    uint32_t keep_count;
    const float *dense; /* flat, model_dense_floats: pulled */
    const float *stats; /* flat, model_stats_floats: pulled */
};

struct model_output {
    double loss_sum; /* weighted logloss summed over examples and (weighted) tasks (L2 not in it) */
    double weight_sum;             /* of the examples */
    double loss_task[LIMIT_TASKS]; /* weighted by example only */
    /* 2-norms of the gradients, before clipping; 0 where there are none */
    double dense_norm, row_norm;
    /* precision fp16: a gradient overflowed, nothing is to be pushed; the scale is lowered */
    bool skipped;
    /* (row_count, row width of its table): merged; gradient of the mean loss of the batch, plus l2
     * * weight */
    float *row_gradients;
    float *dense_gradients; /* flat, model_dense_floats */
    float *stats_gradients; /* flat, model_stats_floats */
    float *scores;          /* (examples, tasks): probabilities */
};

#endif
