/* meter.h: figures of a daemon for Prometheus. Each loop counts in plain numbers that it alone
 * changes, and about once a second writes them to a sheet:
 *
 *     meter_clear(sheet);
 *     meter_put(sheet, METER_JOURNAL_BYTES, bytes, shard, NULL);
 *
 * which the board (proto/http/board.h) takes for the thread that answers Prometheus. So a hot path
 * pays an addition for a count, and meter_time for a latency.
 *
 * Thread: one at a time for each sheet. A sheet grows to what it holds, METER_SERIES at most. */
#ifndef PROTO_METER_METER_H
#define PROTO_METER_METER_H

#include "proto/meter/meter_table.h"

#include <stdbool.h>
#include <stdint.h>

#define METER_SERIES 5000u /* series of a daemon */
#define METER_LABEL 64u    /* bytes of a label's value; more are cut off */
#define METER_LABELS 4u

enum meter_type { METER_COUNTER, METER_GAUGE, METER_HISTOGRAM, METER_INFO };

enum meter_id {
#define X(id, type, name, unit, labels, of, help) METER_ID_##id,
    METER_MAP(X)
#undef X
        METER_ROWS
};

struct meter_row {
    const char *name, *unit, *labels, *of, *help;
    enum meter_type type;
};
extern const struct meter_row meter_rows[METER_ROWS];

/* ---- counting ---- */

/* Latencies by fixed bounds: 50 us, and twice as much for each further cell; the last cell has all
 * beyond 3.3 s. */
#define METER_CELLS 18u
#define METER_FIRST_NS 50000u
struct meter_times {
    uint64_t cell[METER_CELLS], sum_ns;
};

static inline void meter_time(struct meter_times *t, uint64_t ns)
{
    uint64_t firsts =
        (ns + METER_FIRST_NS - 1) / METER_FIRST_NS; /* rounded up: a bound is within */
    uint32_t cell = firsts <= 1 ? 0 : 64 - (uint32_t)__builtin_clzll(firsts - 1);
    t->cell[cell < METER_CELLS ? cell : METER_CELLS - 1]++;
    t->sum_ns += ns;
}

/* The upper bound of a cell, the bound itself included. seconds: 50e-6 * 2^cell; other units: 0, 1,
 * 2, 4, 8 and so on. The last cell has none: infinity. */
double meter_bound(const struct meter_row *row, uint32_t cell);
/* The cell of a whole number in the second kind. */
uint32_t meter_cell(uint64_t value);

/* The label of a refusal: the name of error -i, as "BUSY"; NULL: there is no such error. i below
 * METER_REASONS. */
#define METER_REASONS 32u
const char *meter_reason(uint32_t i);

/* ---- sheets ---- */

struct meter_sample {
    uint16_t id, numbers;
    uint32_t text, number; /* where its labels' values and its numbers begin */
};

struct meter_sheet {             /* zeroed: empty */
    struct meter_sample *sample; /* owned, like text and number */
    char *text;                  /* labels' values, each with its NUL */
    double *number;              /* a value; of a histogram METER_CELLS counts and the sum */
    uint32_t samples, texts, numbers, sample_room, text_room, number_room;
    uint32_t series, left_out;
};

void meter_clear(struct meter_sheet *s);
void meter_free(struct meter_sheet *s);
/* Makes *to equal; `to` keeps its memory. What does not fit for lack of memory is left out. */
void meter_copy(struct meter_sheet *to, const struct meter_sheet *from);

/* Adds a sample with the values of its labels, in the table's order, and NULL behind the last. A
 * value that is not a number (NAN) is not known: nothing is added. */
#define meter_put(sheet, id, ...) meter_put_value(sheet, METER_ID_##id, __VA_ARGS__)
#define meter_put_times(sheet, id, ...) meter_put_cells(sheet, METER_ID_##id, __VA_ARGS__)
void meter_put_value(struct meter_sheet *s, enum meter_id id, double value, ...)
    __attribute__((sentinel));
/* sum_ns is told in seconds. */
void meter_put_cells(struct meter_sheet *s, enum meter_id id, const struct meter_times *t, ...)
    __attribute__((sentinel));

#endif
