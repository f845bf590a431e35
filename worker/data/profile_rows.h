/* profile_rows.h: findings on the rows of a sample, beside those on its columns: rows over several
 * lines, and features that no record has. One thread. */
#ifndef WORKER_DATA_PROFILE_ROWS_H
#define WORKER_DATA_PROFILE_ROWS_H

#include "proto/base/json.h"
#include "worker/data/feature.h"

struct profile_rows {
    uint64_t rows, over; /* all; of csv, those over several lines */
    uint32_t where;      /* over > 0: a column whose cell has a line end */
    bool *met;           /* owned; (columns): a record had it; NULL: the format is not keyed */
};

int profile_rows_open(struct profile_rows *r, const struct features *f, struct err *e); /* NOMEM */
void profile_rows_close(struct profile_rows *r);
void profile_rows_see(struct profile_rows *r, const struct features *f, const struct cell *cell);
/* Adds "over_lines", the number of such rows, and the notes. */
void profile_rows_tell(const struct profile_rows *r, const struct features *f, struct json *out,
                       struct json *notes);

#endif
