/* columns.h: the columns of parsed examples, a line of text for each column:
 *
 *     label above LIMIT \t NAME      0 or 1: the cell was above the limit; 2: it was empty
 *     label real \t NAME             a float; NaN: the cell was empty
 *     weight \t NAME
 *     time \t NAME                   seconds since 1970
 *     number SCALE \t NAME           a float, as the network reads it; SCALE: proto/job/scale.h
 *     number missing \t missing NAME  1 where the column has no number, else 0
 *     field KIND N last M \t NAME    keys that begin with N; KIND: category, id, multi, multi-id,
 *                                    bucket or cross; a multi has its last M values, or `all`;
 *                                    behind that ` weighted`: each value has a weight
 *     field bucket N PARTS \t NAME   PARTS: of N at BORDER.., at BORDER.., fill X, as in a scale
 *     field cross N ~HASH \t NAME    HASH of the parts of which one is a number, else nothing
 *     hash \t NAME                   hash of the cell, for evaluate.group, evaluate.by and
 *                                    data.sample_by
 *
 * A value is a function of such a line and the cell, so equal lines mean equal values: rows that
 * were parsed for one job serve another job whose lines are among them. Names are those that tables
 * use (proto/job/legend.h). */
#ifndef WORKER_DATA_COLUMNS_H
#define WORKER_DATA_COLUMNS_H

#include "worker/data/feature.h"

enum columns_kind {
    COLUMNS_LABEL,
    COLUMNS_WEIGHT,
    COLUMNS_TIME,
    COLUMNS_NUMBER,
    COLUMNS_FIELD,
    COLUMNS_HASH,
    COLUMNS_KINDS
};
#define COLUMNS_MAX (LIMIT_TASKS + 2 + LIMIT_NUMERIC + LIMIT_FIELDS + 2 + LIMIT_BY)
#define COLUMNS_LINE (SCALE_TEXT + LEGEND_NAME + 64u) /* bytes of a line with its end */

struct columns_one {
    enum columns_kind kind;
    bool real;      /* a label that is a number */
    bool multi;     /* any number of values a row */
    bool weighted;  /* they have weights */
    uint32_t field; /* N */
    uint32_t cross; /* hash of a cross: HASH, or 0 */
    bool missing;   /* true for a number that is an indicator */
    bool scaled;    /* a number or a bucket, with a scale */
    char *line;     /* NUL-ended; points into `text` */
    char *name;     /* NUL-ended; points into the line */
};

struct columns {
    char *text; /* owned; (bytes): lines, each ended by a NUL */
    size_t bytes;
    uint32_t count;
    struct columns_one *one; /* owned; (count): labels, weight, time, numbers, fields, hashes */
};

/* The columns of examples that these features make. Hashes are first that of the group, then those
 * of `by`, then that of the sample. NOMEM. */
int columns_of(const struct features *f, struct columns *out, struct err *e);
/* Parses the lines of a file, each ended by "\n". The text may be any bytes. CORRUPT, with the
 * file's name. */
int columns_parse(const char *text, size_t bytes, const char *file, struct columns *out,
                  struct err *e);
void columns_free(struct columns *c);
/* Finds the wanted columns in `have`, the columns of `file`: place (wanted->count) gets their
 * positions. CONFIG, with the difference. */
int columns_bind(const struct columns *wanted, const struct columns *have, const char *file,
                 uint32_t *place, struct err *e);

/* The scale of a parsed column that has one. */
struct scale columns_scale(const struct columns_one *one);

/* ---- columns_job.c ---- */

/* Makes the job that would read a csv whose header has the names of these columns: its own keys,
 * and `file`'s where the job leaves one open. *head is that header, as csv with the job's
 * delimiter. columns_job_free releases both. CONFIG: a key contradicts the file. */
int columns_job(const struct columns *c, const struct job *job, const char *file, struct job *out,
                char **head, struct err *e);
void columns_job_free(struct job *out, char *head);

#endif
