/* restore_check.h: whether a cut can be put back. Asked before a record says that it is: with a cut
 * that cannot be read a shard that has journalled its restore never starts again. */
#ifndef EMBEDDING_ENGINE_RESTORE_CHECK_H
#define EMBEDDING_ENGINE_RESTORE_CHECK_H

#include "embedding/engine/cut.h"

/* Reads all of a cut that is open: every pair of its rows and every record. CORRUPT (file or tablet
 * named), IO, NOMEM. Any thread. */
int restore_check_read(const struct cut_source *s, struct err *e);
/* Whether tables can be put back to the cut: SCHEMA. absent: what is done about those that are not
 * here. */
int restore_check_tables(struct engine *g, const struct cut_source *s,
                         int (*absent)(struct engine *g, const struct table_schema *s,
                                       struct err *e),
                         struct err *e);

#endif
