/* fetch.h: rows come from the store to memory.
 *
 *     engine_warm notes keys -> fetches, each on an I/O thread -> rows come in -> on_fetched
 *
 * Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_FETCH_H
#define EMBEDDING_ENGINE_FETCH_H

#include "embedding/engine/engine_state.h"

void fetch_init(struct engine *g);
void fetch_free(struct engine *g);
/* Whether no fetch is on its way. */
bool fetch_none(const struct engine *g);
/* Nothing is wanted any more: there are no tables. No fetch is on its way. */
void fetch_forget(struct engine *g);
/* Room was made: a fetch may begin, and who waits may try again. */
void fetch_continue(struct engine *g);

/* ---- on this thread, which owns the table (fetch_now.c) ---- */
/* Rows of keys (count) out of `store` into t. 0, IO, CORRUPT or NOMEM. */
int fetch_now(struct table *t, struct store *store, const uint64_t *keys, size_t count,
              struct err *e);
/* All cold rows of a tablet come in, aged; afterwards it knows of no store, so its rows may be
 * handed to another engine. `store`: that the tablet's image was read from. Pairs that the tablet
 * does not list are passed over. CORRUPT: a listed row has no pair, or one of another length;
 * NOMEM: as far as it got. */
int fetch_whole(struct table *t, uint32_t tablet, struct store *store, struct err *e);
uint64_t fetch_whole_bytes(const struct engine *g); /* memory of the copy that readers got last */

#endif
