/* join_past.h: impressions that a join has put out of its memory, oldest first: by number, and by
 * the hash of their ids.
 *
 * In the store: "q" number -> row; "i" hash slot -> number: ids whose hashes are alike have slots
 * 0, 1, .., of which none is empty. Which hashes are there at all a filter in memory tells, so that
 * what is new need not be looked for on disk. */
#ifndef WORKER_DATA_JOIN_PAST_H
#define WORKER_DATA_JOIN_PAST_H

#include "worker/data/join_store.h"

#define JOIN_AHEAD 1024u /* rows that are read at a time, in the order of their numbers */

struct join_ahead {
    uint64_t first;
    uint32_t count;
    struct join_row row[JOIN_AHEAD];
};

struct join_past {
    struct join_store *store; /* borrowed */
    uint8_t *filter;          /* owned: (filter_bytes) how many hashes fall where */
    uint64_t filter_bytes;
    uint64_t first, end;        /* numbers of those that are there */
    struct join_ahead ahead[2]; /* two who read in order: windows that close, and what is left */
};

/* Whether a row is the impression of the id that is looked for. */
typedef int (*join_same)(void *context, const struct join_row *row, bool *same, struct err *e);

/* NOMEM */
int join_past_init(struct join_past *p, struct join_store *s, uint64_t filter_bytes, struct err *e);
void join_past_free(struct join_past *p);
/* All as join_store_put: the next one; number: p->end. */
int join_past_add(struct join_past *p, const struct join_row *row, struct err *e);
/* The one of this hash that is the same; *number, or UINT64_MAX: there is none. */
int join_past_find(struct join_past *p, uint64_t hash, join_same same, void *context,
                   uint64_t *number, struct join_row *row, struct err *e);
int join_past_set(struct join_past *p, uint64_t number, const struct join_row *row, struct err *e);
/* Row `number` of [first, end), which `who`, 0 or 1, reads in order. */
int join_past_row(struct join_past *p, uint32_t who, uint64_t number, struct join_row *out,
                  struct err *e);
/* The first one, which is `row`, goes. */
int join_past_drop(struct join_past *p, const struct join_row *row, struct err *e);
/* A key of the store that is loaded: the filter knows its hash. */
void join_past_see(void *context, const void *key, size_t bytes);

#endif
