/* column_form.h: the form of the cells of a column, whatever a job makes of them: numbers, times,
 * lists, words for what is missing. The counts are exact for the cells that were added; distinct
 * values are an estimate beyond a bound (column_seen.h).
 *
 * Memory is bounded by the caller's bound on distinct values. */
#ifndef WORKER_DATA_COLUMN_FORM_H
#define WORKER_DATA_COLUMN_FORM_H

#include "worker/data/column_seen.h"

#define FORM_FEW 12u     /* texts that are kept of a column with no more of them */
#define FORM_MISSING 12u /* words for what is missing */
#define FORM_TIMES 14u   /* forms of times */

struct form_value {
    char text[COLUMN_SEEN_TEXT];
    uint8_t bytes;
    uint64_t rows, positives;
};

struct form_time {
    uint64_t good, bad, back; /* back: earlier than the row before in the file */
    uint32_t last, least, most;
};

struct column_form {
    struct column_seen seen;  /* whole cells; positives once the label is known */
    struct column_seen piece; /* values of lists */
    uint64_t cells, empty, missing[FORM_MISSING];
    /* cells that are: whole numbers, negative numbers, whole numbers with a zero before others, 0;
     * in single quotes, in brackets */
    uint64_t wholes, negatives, padded, zeros, quoted, brackets;
    /* Numbers with commas, each counted once: a decimal comma ("1,5"), commas between thousands
     * ("1,234,567", "1,234.5"), and one comma that may be either ("1,234"). */
    uint64_t commas, thousands, either;
    double sum; /* sum of the numbers */
    struct form_value few[FORM_FEW];
    uint32_t few_count; /* FORM_FEW + 1: there are more */
    char separator;     /* separator of a list: that of the first cell that has one; '\0': none */
    uint64_t listed, pieces, pieces_most, weighted; /* cells with it, and their values */
    uint64_t plain;                                 /* values of lists without a blank in them */
    struct form_time time[FORM_TIMES];
};

/* distinct_most: of column_seen_limit. */
void column_form_init(struct column_form *f, uint32_t distinct_most);
void column_form_free(struct column_form *f);
/* A new file begins: times may go back. */
void column_form_file(struct column_form *f);
/* NOMEM. */
int column_form_add(struct column_form *f, const struct cell *cell, bool positive);

/* Cells that are neither empty nor a word for it. */
uint64_t column_form_values(const struct column_form *f);
/* True when all values are numbers, of which some may have commas. */
bool column_form_numbers(const struct column_form *f);
/* True when all commas of these numbers can be decimal ones, and one of them can be nothing else.
 */
bool column_form_decimal(const struct column_form *f);
const char *column_form_missing(uint32_t i); /* the word */
/* Form i of times as a job writes it; "": a key less. */
const char *column_form_unit(uint32_t i);   /* data.time_unit: "ms" */
const char *column_form_format(uint32_t i); /* data.time_format */
const char *column_form_called(uint32_t i); /* for people: "seconds since 1970" */
/* True for forms in which other numbers may look like times: a name has to tell. */
bool column_form_plain_time(uint32_t i);
/* The form that all values have, or FORM_TIMES. */
uint32_t column_form_time(const struct column_form *f);

#endif
