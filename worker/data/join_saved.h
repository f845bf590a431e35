/* join_saved.h: checkpoints of a join: where it is in its input, what it knows, how much of its
 * output counts. Each is a folder that is there whole or not at all:
 *
 *     DIR/saved-N/state     struct join_saved_head, files, impressions in memory, rows that wait
 *     DIR/saved-N/rows/     the store, by hard links, where there is one
 *     DIR/saving/           one that is being made */
#ifndef WORKER_DATA_JOIN_SAVED_H
#define WORKER_DATA_JOIN_SAVED_H

#include "worker/data/join_input.h"
#include "worker/data/join_sort.h"

struct join_state { /* all that a join is, between two rows; borrowed */
    struct join_input *input;
    struct join_sort *sort;
    struct join *join;
    struct join_store *store;
    struct join_counts *counts;
    uint64_t identity; /* of input and rules */
    uint64_t text;     /* bytes of output, synced */
    uint64_t number;   /* of the last checkpoint; 0: none */
};

/* The next one; those before it go. IO, CANTCREATE, and as join_store_copy. */
int join_saved_write(struct join_state *s, const char *dir, struct err *e);
/* The last one. NOT_FOUND, without a text: there is none, or none of this join. CORRUPT, IO, NOMEM.
 * Then all of it is undefined, and has to be made anew. */
int join_saved_read(struct join_state *s, const char *dir, struct err *e);

#endif
