/* change.h: the schema of a table that is there becomes another (schema_change, table_change).
 *
 *     engine_table_create --> AGAIN: its changed tablets are written, by the flush
 *              again      --> the record --> table_change, all its tablets are to be written again
 *
 * Rows that are there stay as they are; the new schema is for what comes. Thread: the shard's. */
#ifndef EMBEDDING_ENGINE_CHANGE_H
#define EMBEDDING_ENGINE_CHANGE_H

#include "embedding/engine/engine_state.h"

/* 0: the record may be written now. SCHEMA: that may not change, by name. AGAIN: not yet, but it is
 * being worked on. BUSY. NOMEM. */
int change_ready(struct engine *g, const struct table_schema *is, struct err *e);
/* Whether tables can be put back to a cut: 0 or SCHEMA, where one has changed since. Sequences say
 * it; without a journal they begin anew with each start, and the cut's control state, which is of
 * its very instant then, tells each schema. With one it may be older than the cut. */
int change_check_cut(const struct engine *g, const struct cut_facts *facts, struct err *e);
int change_check_then(const struct engine *g, const struct table_schema *then,
                      const struct cut_facts *facts, struct err *e);

#endif
