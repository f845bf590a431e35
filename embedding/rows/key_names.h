/* key_names.h: names of keys survive a restore: a key that was erased or blocked after a cut was
 * made must not come back with the cut.
 *
 * The names are taken out before the tablets are emptied. When the cut's rows are in, they replace
 * the names of the cut, and rows of erased keys go. This is a function of the earlier tablets and
 * the cut, so replay repeats it. Thread: the shard's. */
#ifndef EMBEDDING_ROWS_KEY_NAMES_H
#define EMBEDDING_ROWS_KEY_NAMES_H

#include "embedding/rows/rules/named.h"
#include "embedding/table.h"

struct key_names_of_tablet {
    struct table *table; /* borrowed */
    uint32_t tablet, count;
    struct named_key *list; /* owned */
};
struct key_names {
    struct key_names_of_tablet *tablet; /* owned */
    uint32_t count, room;
};

int key_names_take(struct key_names *n, struct table *t, uint32_t tablet);
/* Gives the i-th tablet the names that were taken from it. */
int key_names_give(const struct key_names *n, uint32_t i);
void key_names_free(struct key_names *n);
/* The key's name: "erased", "blocked", "allowed"; NULL: none. */
const char *key_names_of(const struct table *t, uint64_t key);

#endif
