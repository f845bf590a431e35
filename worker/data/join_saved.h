/* join_saved.h: a checkpoint of a join: where it is in its input, what it knows, how much of its
 * output counts. It is one file, there whole or not at all:
 *
 *     struct join_saved_head, files, impressions, rows that wait
 *
 * The join that goes on may have more memory, or less, if that holds what is there. */
#ifndef WORKER_DATA_JOIN_SAVED_H
#define WORKER_DATA_JOIN_SAVED_H

#include "worker/data/join_input.h"

struct join_state { /* all that a join is, between two rows; borrowed */
    struct join_input *input;
    struct join *join;
    uint64_t identity; /* hash of input and rules */
    uint64_t text;     /* bytes of output, synced */
};

/* In the place of the one before. IO, CANTCREATE. */
int join_saved_write(const struct join_state *s, const char *path, struct err *e);
/* NOT_FOUND, without a text: there is none, or none of this join. CORRUPT, IO. At an error input
 * and join are undefined, and have to be made anew. */
int join_saved_read(struct join_state *s, const char *path, struct err *e);

#endif
