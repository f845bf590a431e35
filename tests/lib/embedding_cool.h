/* embedding_cool.h: rows sent to the store and brought back by hand, for tests of what meets them
 * there. Checks its own steps with Check. */
#ifndef TESTS_LIB_EMBEDDING_COOL_H
#define TESTS_LIB_EMBEDDING_COOL_H

#include "tests/lib/embedding_rig.h"

/* About `share` of 16 of the rows of each tablet of a table leave memory for the engine's store;
 * their tablets are dirty. */
void cool_table(struct rig *s, uint32_t table, uint32_t share);
/* The same for a table and a store of no engine. */
struct store;
void cool_tablet(struct table *t, uint32_t tablet, uint32_t most, struct store *store);
/* Keys of a tablet's cold rows, *count of them: the caller's to free. */
uint64_t *cool_keys(struct rig *s, uint32_t table, uint32_t tablet, uint32_t *count);
/* One of them; there must be some. */
uint64_t cool_key(struct rig *s, uint32_t table, uint32_t tablet);
/* Cold rows of keys come in. */
void cool_fetch(struct rig *s, uint32_t table, const uint64_t *keys, uint32_t count);
/* As rig_digest, of whole tablets. */
uint64_t cool_digest(struct rig *s);

#endif
