/* kept_taken.h: what of logs the tables have learnt, kept in the shard's folder beside the rows
 * (DIR/taken; engine.h has the door). One file: a head, then bytes that are opaque here. They are
 * read when they are asked for, and are in memory only where the engine has no folder. */
#ifndef EMBEDDING_ENGINE_KEPT_TAKEN_H
#define EMBEDDING_ENGINE_KEPT_TAKEN_H

#include "embedding/engine.h"

/* For engine_open and engine_close. CORRUPT names the file and what to do. */
int kept_taken_open(struct engine *g, struct err *e);
void kept_taken_free(struct engine *g);

#endif
