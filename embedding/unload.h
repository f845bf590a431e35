/* unload.h: a load taken back, as the rest of the engine sees it; the contract is
 * engine_load_drop's (engine.h). */
#ifndef EMBEDDING_UNLOAD_H
#define EMBEDDING_UNLOAD_H

#include "embedding/engine_state.h"

/* Goes on if it can; called where load_continue is. Cheap when there is nothing to take back. */
void unload_continue(struct engine *g);
/* After work_drain, when the engine closes. */
void unload_free(struct engine *g);

#endif
