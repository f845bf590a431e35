/* join_sort.h: rows put in order of time: impressions before the clicks of the same second, of one
 * kind by their places. What does not fit in memory waits in the store: "r" time kind place -> row.
 */
#ifndef WORKER_DATA_JOIN_SORT_H
#define WORKER_DATA_JOIN_SORT_H

#include "worker/data/join_store.h"

#define JOIN_SORT_AHEAD 1024u

struct join_sort {
    struct join_store *store; /* borrowed */
    struct join_row *row;     /* owned: (count), in any order */
    uint32_t count, most;
    uint64_t stored;        /* rows on disk */
    uint64_t taken;         /* all before this time are out: among the dead nobody looks */
    struct join_row *waits; /* owned: (JOIN_SORT_AHEAD): first of those on disk */
};

typedef int (*join_visit)(void *context, const struct join_row *row, struct err *e);

/* NOMEM */
int join_sort_init(struct join_sort *s, struct join_store *store, uint32_t most, struct err *e);
void join_sort_free(struct join_sort *s);
/* There is room: count < most. */
void join_sort_add(struct join_sort *s, const struct join_row *row);
/* Those of times before `time`, in order, and what is left has room for one more at least. As
 * visit and join_store_put. */
int join_sort_take(struct join_sort *s, uint64_t time, join_visit visit, void *context,
                   struct err *e);

#endif
