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

/* A batch as the worker pulls and computes it. Buffers grow to the largest batch and are kept:
 * batch_init zeroes, batch_free releases. */
struct batch {
    uint32_t examples; /* good lines that were not dropped */
    uint32_t tasks;    /* labels of an example */
    uint32_t fields;   /* sparse fields of an example */
    /* median of the examples' times, seconds since 1970; 0: the job names no data.time, or no
     * example */
    uint32_t event_time;
    /* the reader's, set before batch_read: later event times count as this one; 0: none is too
     * late */
    uint32_t time_limit;
    uint32_t clamped;               /* examples whose event time was later */
    uint32_t first_time, last_time; /* of the examples, before that; 0: as event_time */
    uint32_t outside; /* examples whose event time is outside of their file's partition */
    float *label;     /* (examples, tasks): 0 or 1 */
    float *weight;    /* (examples), or NULL: the job names no data.weight */
    float *numeric;   /* (examples, numerics) */
    uint32_t *index;  /* (values): position in keys */
    uint32_t *offset; /* (examples * fields + 1), or NULL: one value a field */
    uint32_t values;
    uint64_t *keys; /* (key_count): unique, table by table, in each sorted by key_mix */
    uint32_t key_count;
    /* (tables + 1): where in keys each table's begin; the last is key_count */
    const uint32_t *table_first;
    /* (fields): the table of each field's rows; borrowed from the features */
    const uint8_t *field_table;
    const uint16_t *field_number; /* (fields): what its keys call it by; likewise */
    /* (examples): hash of the value that evaluate.group names, or NULL; filled in epoch 0 only */
    uint64_t *group;
    /* (examples, by_count): of those that evaluate.by names, in its order, in every epoch */
    uint64_t *by;
    uint32_t by_count;
    uint32_t *row; /* of a prediction: (examples) which of the rows read each is; else NULL */
    /* of a prediction: cells of all rows read, so many a row; of a malformed one what could be cut
     * out of it */
    struct passed passed;
    uint32_t bad_lines;
    /* lines that data.negatives' draw takes whatever is in them: all of them without it. Malformed
     * ones are counted among these only, so bad_lines / drawn is their share of the input */
    uint32_t drawn;
    /* lines that data.negatives leaves out: without a positive label, or malformed */
    uint32_t dropped;
    char bad_where[256]; /* "file:line: reason" of the lowest bad line, or empty */
    /* borrowed, NULL: plain memory. Set it after batch_init: where label, weight, numeric, index
     * and offset are allocated, for a device reads them */
    const struct backend *backend;
    uint64_t (*clock_ns)(void); /* lent likewise, NULL: file_ns is not measured */
    uint64_t file_ns;           /* about how long batch_read was reading files (lines.h) */
    struct batch_space *space;  /* capacities and scratch; owned */
};
void batch_init(struct batch *b);
void batch_free(struct batch *b);

/* Reads, parses, hashes and makes unique the rows at positions [position, position + rows) (rows <=
 * LIMIT_BATCH). epoch >= 1 and seed choose the order for training, epoch 0: file order.
 * Thread-safe: several batches may be read from one dataset at the same time. IO, CHECKSUM, NOMEM,
 * TOO_BIG (over LIMIT_KEYS unique keys is fine: the client splits pushes). Malformed lines are
 * counted, never an error here.
 *
 * Of the train split's lines without a positive label, epoch >= 1 takes a share data.negatives:
 * drawn from (seed, epoch, row), so each epoch has others (over several epochs all are seen), and a
 * batch read again, on whatever worker, has the same. */
int batch_read(const struct dataset *d, uint64_t seed, uint32_t epoch, uint64_t position,
               uint32_t rows, struct batch *out, struct err *e);

#endif
