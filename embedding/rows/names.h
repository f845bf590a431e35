/* names.h: names of keys survive a restore: a key that was erased or blocked after a cut was made
 * must not come back with the cut.
 *
 * The names are taken out before the tablets are emptied. When the cut's rows are in, they replace
 * the names of the cut, and rows of erased keys go. This is a function of the earlier tablets and
 * the cut, so replay repeats it. Thread: the shard's. */
#ifndef EMBEDDING_ROWS_NAMES_H
#define EMBEDDING_ROWS_NAMES_H

#include "embedding/rows/rules/named.h"
#include "embedding/table.h"

struct names_of_tablet {
    struct table *table; /* borrowed */
    uint32_t tablet, count;
    struct named_key *list; /* owned */
};
struct names {
    struct names_of_tablet *tablet; /* owned */
    uint32_t count, room;
};

int names_take(struct names *n, struct table *t, uint32_t tablet);
/* Gives the i-th tablet the names that were taken from it. */
int names_give(const struct names *n, uint32_t i);
void names_free(struct names *n);
/* The key's name: "erased", "blocked", "allowed"; NULL: none. */
const char *names_of(const struct table *t, uint64_t key);

#endif
