/* restore_check.h: checks that a cut can be restored before a record says so: a shard that has
 * journalled a restore to an unreadable cut could never start again. */
#ifndef EMBEDDING_ENGINE_RESTORE_CHECK_H
#define EMBEDDING_ENGINE_RESTORE_CHECK_H

#include "embedding/engine/cut.h"

/* Reads all of an open cut: every pair of its rows and every record. CORRUPT (with file or tablet),
 * IO, NOMEM. Any thread. */
int restore_check_read(const struct cut_source *s, struct err *e);
/* Checks that tables can be restored to the cut: SCHEMA. absent: called for tables that are not
 * here. */
int restore_check_tables(struct engine *g, const struct cut_source *s,
                         int (*absent)(struct engine *g, const struct table_schema *s,
                                       struct err *e),
                         struct err *e);

#endif
