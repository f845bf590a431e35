/* load.h: the load of a checkpoint as the rest of the engine sees it; the contract is engine_load's
 * (engine.h). */
#ifndef EMBEDDING_LOAD_H
#define EMBEDDING_LOAD_H

#include "embedding/engine_state.h"

/* A load that waits (for pushes to be applied, for a batch of images or a cut to be done) goes on
 * if it can. Called where any of these has ended. Cheap when there is none. */
void load_continue(struct engine *g);
/* Whether run `run` is about to be opened by the load under way. */
bool load_opens(const struct engine *g, uint64_t run);
/* Ends the load under way, if it is of `run` or an older one: its done is told STOPPED. *tables:
 * those of which it may have images in the store. False: it is in the middle of something, ask
 * again when that is done. */
bool load_call_off(struct engine *g, uint64_t run, uint64_t *tables);
/* Bytes of rows that the load under way has in memory, or may soon have. */
uint64_t load_bytes(const struct engine *g);
/* After work_drain, when the engine closes. */
void load_free(struct engine *g);

#endif
