/* fetch.h: brings rows from the store to memory.
 *
 *     engine_warm notes keys -> fetches, each on an I/O thread -> rows come in -> on_fetched
 *
 * Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_FETCH_H
#define EMBEDDING_ENGINE_FETCH_H

#include "embedding/engine/engine_state.h"

void fetch_init(struct engine *g);
void fetch_free(struct engine *g);
/* True when no fetch is in flight. */
bool fetch_none(const struct engine *g);
/* No fetch begins for some seconds, so that those in flight are the last ones: a clear waits for
 * them. Its asker asks again before that time is over, or the fetches go on. */
void fetch_rest(struct engine *g);
/* Forgets all wanted keys, because there are no tables, and ends a rest. No fetch is in flight. */
void fetch_forget(struct engine *g);
/* Room was made: a fetch may begin, and waiting requests may retry. */
void fetch_continue(struct engine *g);

/* ---- on the calling thread, which owns the table (fetch_now.c) ---- */
/* Reads rows of keys (count) from `store` into t. 0, IO, CORRUPT or NOMEM. */
int fetch_now(struct table *t, struct store *store, const uint64_t *keys, size_t count,
              struct err *e);
/* Brings in all cold rows of a tablet, aged; afterwards it refers to no store, so another engine
 * can use its rows. `store` is that of the tablet's image. Pairs that the tablet does not list are
 * skipped. CORRUPT: a listed row has no pair, or one of another length; NOMEM: it stopped half
 * way. */
int fetch_whole(struct table *t, uint32_t tablet, struct store *store, struct err *e);
uint64_t fetch_whole_bytes(const struct engine *g); /* memory of the last copy for readers */

#endif
