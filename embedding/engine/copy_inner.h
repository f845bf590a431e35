/* copy_inner.h: private cuts, which the leader's copies are read from (copy.c), for the files of
 * this room that list and remove cuts. */
#ifndef EMBEDDING_ENGINE_COPY_INNER_H
#define EMBEDDING_ENGINE_COPY_INNER_H

#include "embedding/engine/engine_state.h"

/* Numbers of private cuts go down from UINT64_MAX. */
static inline bool copy_private(uint64_t cut)
{
    return cut > UINT64_MAX - (UINT64_C(1) << 32);
}
/* For engine_close, after offload_drain: ends all copies. */
void copy_free(struct engine *g);

#endif
