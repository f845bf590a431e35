/* change.h: gives an existing table another schema (schema_change, table_change).
 *
 *     engine_table_create --> AGAIN: the flush writes its changed tablets
 *              again      --> the record --> table_change; all its tablets are marked for writing
 *
 * Existing rows stay unchanged; the new schema applies to later pushes. Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_CHANGE_H
#define EMBEDDING_ENGINE_CHANGE_H

#include "embedding/engine/engine_state.h"

/* 0: the record may be written now. SCHEMA: a named member may not change. AGAIN: not yet, the
 * flush is working on it. BUSY. NOMEM. */
int change_ready(struct engine *g, const struct table_schema *is, struct err *e);
/* 0: tables can be restored to a cut; SCHEMA: one has changed since. Sequences decide; without a
 * journal they begin anew with each start, and then the cut's control state, which is of the same
 * instant, has each schema. With a journal it may be older than the cut. */
int change_check_cut(const struct engine *g, const struct cut_facts *facts, struct err *e);
int change_check_then(const struct engine *g, const struct table_schema *then,
                      const struct cut_facts *facts, struct err *e);

#endif
