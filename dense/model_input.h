/* model_input.h: the input and the output of a model for one batch. */
#ifndef DENSE_MODEL_INPUT_H
#define DENSE_MODEL_INPUT_H

#include "proto/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

#define BLOCK_FLOATS 512u /* floats of a dense table's row */

/* The shape of the input, which is the same on every worker of a job. */
struct model_shape {
    uint32_t fields;               /* sparse fields of an example */
    uint32_t numerics;             /* numeric inputs of an example */
    uint32_t tasks;                /* labels of an example; 0 counts as 1 */
    uint16_t number[LIMIT_FIELDS]; /* the field's number in its keys and in names of tensors */
    uint8_t pooling[LIMIT_FIELDS]; /* enum pooling of each field */
    uint16_t attend[LIMIT_FIELDS]; /* the target's field, for a field with pooling attention */
    uint8_t table[LIMIT_FIELDS];   /* the table that has the field's rows */
    /* the field number of each rule by field (job_table.rule), table by table */
    uint16_t rule_field[LIMIT_FIELDS];
    /* values that a field may have; 0: any number (attention: at most 65,536) */
    uint32_t most[LIMIT_FIELDS];
    uint32_t gate_fields;   /* finalmlp: fields that the gates read: 0, or 2, one a network */
    uint16_t gate_field[2]; /* (gate_fields): their numbers */
};

/* One batch. The caller owns all arrays, in host memory. Large arrays from backend_host_alloc are
 * copied to a device faster. */
struct model_input {
    uint32_t examples;
    /* (examples, tasks): 0 or 1, or a number (model.loss); NaN: the example has no such label */
    const float *label;
    const float *weight;  /* (examples) or NULL: all weigh 1 */
    const float *numeric; /* (examples, numerics) */
    /* (values): row number of each value, example by example, field by field */
    const uint32_t *index;
    /* (examples * fields + 1) into index; NULL: exactly one value for each field */
    const uint32_t *offset;
    /* (values): by which a value's row is multiplied when its field is pooled, instead of by 1 in a
     * sum and by 1 / values in a mean; NULL: by those */
    const float *factor;
    uint32_t row_count; /* unique keys, table by table */
    /* (tables), on the host: unique keys by table. May be NULL where all tables have one dim */
    const uint32_t *table_rows;
    const float *rows;  /* (row_count, row width of its table), without gaps: pulled */
    const float *dense; /* flat, model_dense_floats: pulled */
    const float *stats; /* flat, model_stats_floats: pulled */
};

struct model_output {
    /* the sum over (weighted) tasks of the mean loss of the examples that have the label, times
     * weight_sum, without L2 */
    double loss_sum;
    double weight_sum; /* sum of the examples' weights */
    /* over the examples that have the label: the sums of their losses, weighted by example only,
     * and of their weights */
    double loss_task[LIMIT_TASKS], weight_task[LIMIT_TASKS];
    /* 2-norms of the gradients before clipping; 0: not measured in this batch, or no gradients */
    double dense_norm, row_norm;
    /* a model at several sites (dense/layer/plan_sites.h): seconds of all its devices in this
     * batch, and the seconds that they waited for one another; 0: not measured in it */
    double site_time, site_waited;
    /* precision fp16: a gradient overflowed and the loss scale is lowered; push nothing */
    bool skipped;
    /* (model_loads): examples that chose each expert */
    uint64_t load[LIMIT_EXPERTS];
    /* (row_count, row width of its table), one a key: the gradient of the batch's mean loss, plus
     * l2 * weight */
    float *row_gradients;
    float *dense_gradients; /* flat, model_dense_floats */
    float *stats_gradients; /* flat, model_stats_floats */
    float *scores;          /* (examples, tasks): probabilities, or numbers */
};

#endif
