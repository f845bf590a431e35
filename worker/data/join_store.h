/* join_store.h: what a join holds beyond its memory: rows in a store on disk (embedding/store.h).
 *
 * Text stays where it lies in the input, which can be read by position: a row is 32 bytes, whatever
 * the line is, and 64 of RocksDB's where memory does not hold it.
 *
 * The folder is made with the first row that goes there: most joins never need it. Writes are
 * gathered and handed over a batch at a time; whoever reads sees them. After a crash the folder is
 * of no use: a join goes on from a copy (join_saved.h). One thread at a time. */
#ifndef WORKER_DATA_JOIN_STORE_H
#define WORKER_DATA_JOIN_STORE_H

#include "embedding/store.h"
#include "proto/base/limits.h"

/* A click; an impression without one, whose window may have closed, with one, with one too late. */
enum join_what { JOIN_CLICK, JOIN_OPEN, JOIN_POSITIVE, JOIN_LATE };

/* A line of the input: where it is and what is asked of it; its text stays there. */
struct join_row {
    uint64_t hash;                 /* of its id */
    uint64_t at;                   /* in its source */
    uint64_t sum;                  /* of its text */
    uint32_t time;                 /* of the event, in seconds since 1970 */
    uint32_t bytes : 24, what : 8; /* enum join_what */
};
_Static_assert(sizeof(struct join_row) == 32, "join_row is stored");

#define JOIN_BATCH 512u
struct join_store {
    char dir[LIMIT_PATH];
    uint64_t memory;                    /* of the store */
    struct store *store;                /* owned; NULL: nothing was put yet */
    struct store_item item[JOIN_BATCH]; /* (items): gathered */
    struct join_row value[JOIN_BATCH];  /* theirs */
    uint32_t items;
    uint64_t written; /* when it was last flushed */
};

/* A key: a letter, then numbers so that its order is theirs. */
struct store_item join_store_key(char kind, uint64_t high, uint32_t high_bytes, uint64_t low,
                                 uint32_t low_bytes);

void join_store_init(struct join_store *s, const char *dir, uint64_t memory);
/* With another store, in memory, say: owned from now on. */
void join_store_use(struct join_store *s, struct store *store);
void join_store_close(struct join_store *s);

/* IO, CORRUPT, CANTCREATE, NOMEM. value: at most a row; NULL: the pair goes. */
int join_store_put(struct join_store *s, const struct store_item *key, const void *value,
                   size_t bytes, struct err *e);
int join_store_get(struct join_store *s, const struct store_item *key, void *value, size_t bytes,
                   bool *found, struct err *e);
/* The first rows, `most` of them, from one key on below another; *count. */
int join_store_rows(struct join_store *s, const struct store_item *from,
                    const struct store_item *below, struct join_row *out, uint32_t most,
                    uint32_t *count, struct err *e);
/* A copy in the new folder `dir`; nothing, if the store is not open. */
int join_store_copy(struct join_store *s, const char *dir, struct err *e);
/* All pairs of such a copy are put here; see: told each key, or NULL. */
int join_store_load(struct join_store *s, const char *dir,
                    void (*see)(void *context, const void *key, size_t bytes), void *context,
                    struct err *e);

#endif
