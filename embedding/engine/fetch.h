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
/* Room was made: a fetch may begin, and who waits may try again. */
void fetch_continue(struct engine *g);
/* Rows of keys (count) out of `store` into t, on this thread. 0, IO, CORRUPT or NOMEM. */
int fetch_bring(struct table *t, struct store *store, const uint64_t *keys, size_t count,
                struct err *e);

#endif
