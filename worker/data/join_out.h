/* join_out.h: the joined text as it is written: csv, the impressions' columns and the label. In the
 * column of the time stands when the label was known. */
#ifndef WORKER_DATA_JOIN_OUT_H
#define WORKER_DATA_JOIN_OUT_H

#include "worker/data/cache.h"
#include "worker/data/join_input.h"

#define JOIN_OUT_BYTES (256u << 10) /* are written at a time */

struct join_out {
    const struct job *job; /* borrowed, as the next */
    const struct cache *cache;
    int fd;           /* borrowed: of the text */
    uint64_t written; /* bytes of text, those in the buffer not counted */
    size_t bytes;     /* in the buffer, below JOIN_OUT_BYTES; then there is room for a row */
    char buffer[JOIN_OUT_BYTES + 2 * LIMIT_LINE_BYTES + 2 * CELLS_MAX + 2 * LIMIT_NAME + 64];
};

/* All three as cache_write: the header; an impression, whose cells are there; what the buffer
 * holds. */
int join_out_head(struct join_out *o, const struct join_side *s, struct err *e);
int join_out_row(struct join_out *o, const struct join_side *s, const struct cell *cell,
                 bool positive, uint64_t time, struct err *e);
int join_out_flush(struct join_out *o, struct err *e);

/* Puts the label at the end of a header, at most 2 * LIMIT_NAME bytes: returns its end. */
char *join_out_label(const struct job *job, char *to);

#endif
