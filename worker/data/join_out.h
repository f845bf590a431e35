/* join_out.h: writes the joined text: csv with the impressions' columns and the label. The time
 * column has the time at which the label was known. */
#ifndef WORKER_DATA_JOIN_OUT_H
#define WORKER_DATA_JOIN_OUT_H

#include "worker/data/cache.h"
#include "worker/data/join_input.h"

#define JOIN_OUT_BYTES (256u << 10) /* written at a time */

struct join_out {
    const struct job *job; /* borrowed, as the next member */
    const struct cache *cache;
    int fd;           /* borrowed; the file of the text */
    uint64_t written; /* bytes of text written, without the buffer's */
    size_t bytes;     /* bytes in the buffer, below JOIN_OUT_BYTES, which leaves room for a row */
    char buffer[JOIN_OUT_BYTES + 2 * LIMIT_LINE_BYTES + 2 * CELLS_MAX + 2 * LIMIT_NAME + 64];
};

/* These write the header, an impression whose cells are in the input, and the buffered text. Errors
 * as cache_write. */
int join_out_head(struct join_out *o, const struct join_side *s, struct err *e);
int join_out_row(struct join_out *o, const struct join_side *s, const struct cell *cell,
                 bool positive, uint64_t time, struct err *e);
int join_out_flush(struct join_out *o, struct err *e);

/* Appends the label to a header, at most 2 * LIMIT_NAME bytes; returns the end. */
char *join_out_label(const struct job *job, char *to);

#endif
