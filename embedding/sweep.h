/* sweep.h: rows that have aged away in the store, where nobody asks for them.
 *
 * A row in the store ages when it comes in (cold.h); one that is never asked for again would stay for ever. So a tablet of which rows are cold
 * is looked through once its clock has passed a boundary: a few thousand pairs a step, read on an I/O thread; keys whose rows have ended
 * leave the set, and their pairs the store with the tablet's next image. Nothing is journalled: whether a row that has ended is still listed
 * is no state. Thread: the shard's. */
#ifndef EMBEDDING_SWEEP_H
#define EMBEDDING_SWEEP_H

#include "embedding/engine_state.h"

/* Begins the next look, if one is due and none is under way. Cheap when there is none. */
void sweep_step(struct engine *g);

#endif
