/* load.h: the load of a checkpoint as the rest of the engine sees it; the contract is engine_load's (engine.h). */
#ifndef EMBEDDING_LOAD_H
#define EMBEDDING_LOAD_H

#include "embedding/engine_state.h"

/* A load that waits (for pushes to be applied, for a batch of images or a cut to be done) goes on if it can. Called where
 * any of these has ended. Cheap when there is none. */
void load_continue(struct engine *g);
/* Whether run `run` is about to be opened by the load under way. */
bool load_opens(const struct engine *g, uint64_t run);
/* After work_drain, when the engine closes. */
void load_free(struct engine *g);

#endif
