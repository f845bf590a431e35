/* identity.h: three small files in a shard's folder that identify its rows: DIR/place (cluster,
 * number, map), DIR/names (names of the fields in the keys) and DIR/taken (logs that the tables
 * have learnt). engine.h has the calls.
 *
 * Each file is a head and bytes: the head begins with a magic number and the XXH3 of all that
 * follows it. A file is written whole and synced before the coordinator gets the reply. A folder of
 * an older release lacks some of them. Without a folder the same bytes are kept in memory. */
#ifndef EMBEDDING_ENGINE_IDENTITY_H
#define EMBEDDING_ENGINE_IDENTITY_H

#include "embedding/engine.h"

/* For engine_open and engine_close. CORRUPT names the file and the remedy. */
int identity_open(struct engine *g, struct err *e);
void identity_free(struct engine *g);

#endif
