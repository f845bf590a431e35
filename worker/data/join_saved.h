/* join_saved.h: a checkpoint of a join: its position in the input, its state, and the length of its
 * valid output. It is one file, which is there whole or not at all:
 *
 *     struct join_saved_head, files, impressions, waiting rows
 *
 * A join may resume with more memory or with less, if that holds the checkpoint's rows. */
#ifndef WORKER_DATA_JOIN_SAVED_H
#define WORKER_DATA_JOIN_SAVED_H

#include "worker/data/join_input.h"

struct join_state { /* the state of a join between two rows; borrowed */
    struct join_input *input;
    struct join *join;
    uint64_t identity; /* hash of input and rules */
    uint64_t text;     /* bytes of output that are synced */
};

/* Replaces the previous checkpoint. IO, CANTCREATE. */
int join_saved_write(const struct join_state *s, const char *path, struct err *e);
/* NOT_FOUND, without a text: there is no checkpoint, or it is another join's. CORRUPT, IO. After
 * an error input and join are undefined and must be made anew. */
int join_saved_read(struct join_state *s, const char *path, struct err *e);

#endif
