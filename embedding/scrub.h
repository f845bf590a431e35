/* scrub.h: erased keys out of journal, archive and store; and blame. The promise is in engine.h.
 *
 *     engine_scrub: a new journal segment begins
 *        -> every tablet that changed is written (flush.c, urgent)    scrub_wanted
 *        -> the older segments are trimmed, none is used again         scrub_tick
 *        -> on an I/O thread: store rewritten, archive blanked         scrub_run
 *        -> done                                                       scrub_done
 *
 * A cut under way, or one held, is waited for; flushing pauses while the store is rewritten.
 * Thread: the shard's. */
#ifndef EMBEDDING_SCRUB_H
#define EMBEDDING_SCRUB_H

#include "embedding/engine_state.h"

/* Flushing is urgent: a scrub waits for images. */
bool scrub_wanted(const struct engine *g);
/* After a batch, a cut, a trim: goes on if it can. */
void scrub_tick(struct engine *g);
void scrub_free(struct engine *g);

#endif
