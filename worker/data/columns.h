/* columns.h: what parsed examples are made of, a line of text for each column:
 *
 *     label above LIMIT \t NAME      0 or 1: whether the cell was above the limit
 *     weight \t NAME
 *     time \t NAME                   seconds since 1970
 *     number none|log1p \t NAME      a float, as the network reads it
 *     field KIND N last M \t NAME    keys with N in front; KIND: category, id, multi, multi-id or
 *                                    bucket; of a multi the last M values, or `all`
 *     hash \t NAME                   of the cell, for evaluate.group and evaluate.by
 *
 * A key is a function of such a line and the cell, so equal lines mean equal values: what was
 * parsed for one job serves another whose lines are among its own. Names are those that tables use
 * (proto/job/legend.h). */
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
#define COLUMNS_MAX (LIMIT_TASKS + 2 + LIMIT_NUMERIC + LIMIT_FIELDS + 1 + LIMIT_BY)
#define COLUMNS_LINE 192u /* bytes of a line, its end counted */

struct columns_one {
    enum columns_kind kind;
    bool multi;     /* any number of values a row */
    uint32_t field; /* N */
    char *line;     /* NUL-ended; in `text` */
    char *name;     /* likewise, within the line */
};

struct columns {
    char *text; /* owned: (bytes): lines, each ended by a NUL */
    size_t bytes;
    uint32_t count;
    struct columns_one *one; /* owned: (count): labels, weight, time, numbers, fields, hashes */
};

/* Those of the examples that these features make: hashes are of the group, then of `by`. NOMEM. */
int columns_of(const struct features *f, struct columns *out, struct err *e);
/* From lines, as a file has them (each ended by "\n"); any bytes. CORRUPT, naming the file. */
int columns_parse(const char *text, size_t bytes, const char *file, struct columns *out,
                  struct err *e);
void columns_free(struct columns *c);
/* place: (wanted->count): where among `have` each of the wanted columns is. CONFIG, which says what
 * differs, have being those of `file`. */
int columns_bind(const struct columns *wanted, const struct columns *have, const char *file,
                 uint32_t *place, struct err *e);

/* The job as it would read a csv whose header are the names of these columns: its own keys, and
 * what they leave open as `file` has it. *head: that header, as csv with the job's delimiter.
 * columns_job_free releases both. CONFIG: a key says something else. */
int columns_job(const struct columns *c, const struct job *job, const char *file, struct job *out,
                char **head, struct err *e);
void columns_job_free(struct job *out, char *head);

#endif
