/* tier.h: rows between memory and the store, for the engine's own files; the promise is in engine.h. */
#ifndef EMBEDDING_TIER_H
#define EMBEDDING_TIER_H

#include "embedding/engine_state.h"

/* What of the engine's memory its store may take; 0: no bound. */
uint64_t tier_store_memory(const struct engine *g);

#endif
