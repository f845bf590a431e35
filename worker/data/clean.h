/* clean.h: cells as other programs write them, as the cells that features read: words for a
 * missing value, whole numbers with ".0", decimal commas, and words for labels. A job without
 * such keys, and without columns of ids, has nothing to clean, and its cells pass unchanged.
 *
 * Made with the features, then read-only: any thread. */
#ifndef WORKER_DATA_CLEAN_H
#define WORKER_DATA_CLEAN_H

#include "proto/job/job.h"
#include "worker/data/format.h"

struct features;
struct line;

struct clean {
    bool any; /* there is something to clean */
    bool comma;
    uint32_t missing_count, positive_count, negative_count;
    uint64_t missing_bytes; /* bit n: a word of n bytes (of 63 or more: bit 63) */
    /* owned, with their text: the words of the three lists, one list after the other */
    struct cell *word;
    char *text;
    uint16_t *whole; /* owned; (whole_count): columns whose values are whole numbers */
    uint32_t whole_count;
    uint16_t *number; /* owned; (number_count): columns of numbers */
    uint32_t number_count;
    /* hash of all that gives a cell that can be read another meaning; 0: nothing does */
    uint64_t hash;
};

/* The kind of a column's cells. Cells of ID and WHOLE are whole numbers; other cells of ID are
 * malformed. */
enum clean_column { CLEAN_TEXT, CLEAN_ID, CLEAN_WHOLE, CLEAN_NUMBER };

/* Fills f->clean once the types of all columns are known; what: (columns) enum clean_column.
 * NOMEM. */
int clean_make(struct features *f, const struct job *job, const uint8_t *what, struct err *e);
void clean_free(struct clean *c);

/* Cuts a line into clean cells. As format_line; SHOAL_E_DATA too for a line with a fault, a label
 * that is no word of the job, and a number with a point beside data.decimal: comma. */
int clean_line(const struct features *f, const struct line *line, struct cell *cell, char *reason);
/* Skips a byte order mark. */
void clean_mark(struct line *line);

#endif
