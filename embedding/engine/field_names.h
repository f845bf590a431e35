/* field_names.h: what the numbers in the keys mean, kept in the shard's folder beside the rows
 * (DIR/names; engine.h has the door). One file: a head, then a line of proto/job/legend.h, which is
 * opaque here. An engine without a folder keeps it in memory. */
#ifndef EMBEDDING_ENGINE_FIELD_NAMES_H
#define EMBEDDING_ENGINE_FIELD_NAMES_H

#include "embedding/engine.h"

/* For engine_open and engine_close. CORRUPT names the file and what to do. */
int field_names_open(struct engine *g, struct err *e);
void field_names_free(struct engine *g);

#endif
