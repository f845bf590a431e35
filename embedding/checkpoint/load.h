/* load.h: the load under way, as who takes one back sees it; the contract is engine_load's
 * (engine.h). */
#ifndef EMBEDDING_CHECKPOINT_LOAD_H
#define EMBEDDING_CHECKPOINT_LOAD_H

#include "embedding/engine/engine_state.h"

/* Ends the load under way, if it is of `run` or an older one: its done is told STOPPED. *tables:
 * those of which it may have images in the store. False: it is in the middle of something, ask
 * again when that is done. */
bool load_call_off(struct engine *g, uint64_t run, uint64_t *tables);

#endif
