/* whole.h: tablets with all their rows in memory, for readers and for whoever takes tablets to
 * another place: cold rows (cold.h) are brought in from the store that the tablet's image was read
 * from. For the engine's own files; thread: whoever owns the table. */
#ifndef EMBEDDING_ENGINE_WHOLE_H
#define EMBEDDING_ENGINE_WHOLE_H

#include "embedding/engine/engine_state.h"

/* All cold rows of a tablet come in, aged; afterwards it knows of no store, so its rows may be
 * handed to another engine. Pairs that the tablet does not list are passed over. CORRUPT: a listed
 * row has no pair, or one of another length; NOMEM: as far as it got. */
int whole_thaw(struct table *t, uint32_t tablet, struct store *store, struct err *e);
uint64_t whole_bytes(const struct engine *g); /* memory that it takes */

#endif
