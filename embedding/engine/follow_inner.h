/* follow_inner.h: the leader's part of follow.h, for the path of a record and for trimming. Thread:
 * the engine's. */
#ifndef EMBEDDING_ENGINE_FOLLOW_INNER_H
#define EMBEDDING_ENGINE_FOLLOW_INNER_H

#include "embedding/engine/engine_state.h"

/* Keeps a record that was just journalled in the tail, which exists; without a journal it is sealed
 * first. */
void follow_keep(struct engine *g, struct record_header *h, const struct record_payload *payload);
/* The journal may be trimmed up to this record, if images allow it up to `floor`. */
uint64_t follow_floor(const struct engine *g, uint64_t floor);
/* Bytes of memory of the tail. */
uint64_t follow_bytes(const struct engine *g);
void follow_free(struct engine *g);

#endif
