/* embedding_cool.h: moves rows to the store and back by hand, for tests of operations on such rows.
 * Checks its own steps with Check. */
#ifndef TESTS_LIB_EMBEDDING_COOL_H
#define TESTS_LIB_EMBEDDING_COOL_H

#include "tests/lib/embedding_rig.h"

/* Moves about `share` of 16 of the rows of each tablet of a table to the engine's store; their
 * tablets become dirty. */
void cool_table(struct rig *s, uint32_t table, uint32_t share);
/* The same for a table and a store without an engine. */
struct store;
void cool_tablet(struct table *t, uint32_t tablet, uint32_t most, struct store *store);
/* Returns the keys of a tablet's cold rows, *count of them; the caller frees them. */
uint64_t *cool_keys(struct rig *s, uint32_t table, uint32_t tablet, uint32_t *count);
/* Returns one of them; there must be some. */
uint64_t cool_key(struct rig *s, uint32_t table, uint32_t tablet);
/* Brings the cold rows of keys into memory. */
void cool_fetch(struct rig *s, uint32_t table, const uint64_t *keys, uint32_t count);
/* As rig_digest, of whole tablets. */
uint64_t cool_digest(struct rig *s);

#endif
