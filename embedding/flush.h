/* flush.h: rows to the store, and what the journal may forget because of it.
 *
 * The shard copies tablets into one buffer (under 1 ms each); an I/O thread writes them, with marks and control state,
 * in one batch. Once in a while it flushes the store; only then the tablets' durable sequences move and the journal is
 * trimmed. One batch at a time. Thread: the shard's. */
#ifndef EMBEDDING_FLUSH_H
#define EMBEDDING_FLUSH_H

#include "embedding/engine_state.h"

#define FLUSH_ITEMS 4096u
#define FLUSH_BATCH_BYTES (8u << 20)

uint64_t flush_journal_max(const struct engine *g);
/* Trims the journal as far as the durable images, the control state and cuts allow. */
void flush_trim(struct engine *g);
/* Writes every dirty tablet and flushes, on this thread: for a clean stop. */
int flush_all(struct engine *g, struct err *e);
uint32_t flush_dirty(const struct engine *g); /* tablets */
uint64_t flush_floor(const struct engine *g); /* every record at or below is in durable images */
void flush_free(struct engine *g);

#endif
