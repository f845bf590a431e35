/* batch.h: the examples of one batch, read from a dataset. */
#ifndef WORKER_DATA_BATCH_H
#define WORKER_DATA_BATCH_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "worker/data/passed.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dataset;
struct batch_space;

/* A batch as the worker pulls and computes it. Buffers grow to the largest batch and are reused.
 * batch_init zeroes the struct, batch_free releases its buffers. */
struct batch {
    uint32_t examples; /* good lines that were not dropped */
    uint32_t tasks;    /* labels of an example */
    uint32_t fields;   /* sparse fields of an example */
    /* median of the examples' times, seconds since 1970; 0: the job names no data.time, or no
     * example */
    uint32_t event_time;
    /* Set by the caller before batch_read: later event times are clamped to it; 0: no limit. */
    uint32_t time_limit;
    uint32_t clamped;               /* examples with a clamped event time */
    uint32_t first_time, last_time; /* range of the event times before clamping; 0: as event_time */
    uint32_t outside; /* examples with an event time outside the partition of their file */
    float *label;     /* (examples, tasks): 0 or 1, or a number; NaN: missing, another is there */
    float *weight;    /* (examples), or NULL: the job names no data.weight */
    float *numeric;   /* (examples, numerics) */
    uint32_t *index;  /* (values): position in keys */
    uint32_t *offset; /* (examples * fields + 1), or NULL: one value a field */
    /* (values): the factor of a value's row when its field is pooled: its weight; in a mean divided
     * by the sum of the weights' magnitudes. NULL: all weights are 1 */
    float *factor;
    uint32_t values;
    uint64_t *keys; /* (key_count): unique; ordered by table, then by key_mix */
    uint32_t key_count;
    /* (tables + 1): start of each table's keys; the last element is key_count */
    const uint32_t *table_first;
    /* (fields): the table of each field's rows; borrowed from the features */
    const uint8_t *field_table;
    /* (fields): field numbers in the keys; borrowed from the features */
    const uint16_t *field_number;
    /* (examples): hash of the evaluate.group value, or NULL; filled in epoch 0 only */
    uint64_t *group;
    /* (examples, by_count): hashes of the evaluate.by values, in the job's order, in every epoch */
    uint64_t *by;
    uint32_t by_count;
    /* prediction only: (examples): index of the example's row among those read; else NULL */
    uint32_t *row;
    /* Prediction only: cells of all rows that were read, a fixed number a row. A malformed row has
     * empty cells. */
    struct passed passed;
    uint32_t bad_lines;
    /* Lines of the sample that are used with or without a positive label; all lines unless
     * data.sample or data.negatives is set. bad_lines counts only malformed lines among these, so
     * bad_lines / drawn is their share of the input. */
    uint32_t drawn;
    /* lines left out: by data.sample, or by data.negatives (malformed, or without a positive
     * label) */
    uint32_t dropped;
    char bad_where[256]; /* "file:line: reason" of the lowest bad line, or empty */
    /* Borrowed; NULL: plain memory. Set after batch_init. It allocates label, weight, numeric,
     * index, offset and factor, which a device reads. */
    const struct backend *backend;
    uint64_t (*clock_ns)(void); /* borrowed; NULL: file_ns is not measured */
    uint64_t file_ns;           /* approximate time that batch_read spent reading files (lines.h) */
    struct batch_space *space;  /* capacities and scratch; owned */
};
void batch_init(struct batch *b);
void batch_free(struct batch *b);

/* Reads and parses the rows at positions [position, position + rows), rows <= LIMIT_BATCH, hashes
 * their values and makes the keys unique. In training epoch >= 1 and seed choose the order; epoch 0
 * is file order. Thread-safe: several threads may read batches from one dataset at the same time.
 * IO, CHECKSUM, NOMEM, TOO_BIG (more than BATCH_VALUES_MAX values; the client splits pushes of more
 * than LIMIT_KEYS keys). Malformed lines are counted and are no error.
 *
 * In the training split, epoch >= 1 uses only the sample of the lines, and of those without a
 * positive label a share data.negatives (draw.h). A batch that is read again, on any worker, has
 * the same lines. */
int batch_read(const struct dataset *d, uint64_t seed, uint32_t epoch, uint64_t position,
               uint32_t rows, struct batch *out, struct err *e);

#endif
