/* place.h: where a shard belongs, kept in its folder beside the rows (DIR/place; engine.h has the
 * door). One file: a head, then the map. An engine without a folder keeps it in memory. */
#ifndef EMBEDDING_ENGINE_PLACE_H
#define EMBEDDING_ENGINE_PLACE_H

#include "embedding/engine.h"

/* For engine_open and engine_close. CORRUPT names the file. */
int place_open(struct engine *g, struct err *e);
void place_free(struct engine *g);

#endif
