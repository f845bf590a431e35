/* names.h: names of keys outlive a restore: a key that was erased or blocked since a cut was made
 * must not come back with the cut.
 *
 * Before its tablets are emptied their names are taken out; when the cut's rows are in, they take
 * the place of the names that the cut had, and rows of erased keys go. A function of the tablets
 * before and of the cut alone, so replay repeats it. Thread: the shard's. */
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
/* Gives the one that was `i`-th the names that were taken of it. */
int names_give(const struct names *n, uint32_t i);
void names_free(struct names *n);
/* What the key is named: "erased", "blocked", "allowed"; NULL: not at all. */
const char *names_of(const struct table *t, uint64_t key);

#endif
