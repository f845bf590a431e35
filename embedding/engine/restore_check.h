/* restore_check.h: whether a cut can be put back. Asked before a record says that it is: with a cut
 * that cannot be read a shard that has journalled its restore never starts again. */
#ifndef EMBEDDING_ENGINE_RESTORE_CHECK_H
#define EMBEDDING_ENGINE_RESTORE_CHECK_H

#include "embedding/engine/cut.h"

/* Reads all of a cut that is open: every pair of its rows and every record. CORRUPT (file or tablet
 * named), IO, NOMEM. Any thread. */
int restore_read_all(const struct cut_source *s, struct err *e);
/* Whether tables can be put back to the cut: SCHEMA. make: those that are not here are made. */
int restore_tables(struct engine *g, const struct cut_source *s, bool make, struct err *e);
/* Whether this process has found the cut good; and it is another one, or gone. */
bool restore_is_checked(const struct engine *g, uint64_t cut);
void restore_uncheck(struct engine *g, uint64_t cut);

/* control.c: whether the table's tablet numbers are free. SCHEMA. */
int control_overlap(const struct engine *g, const struct table_schema *s, struct err *e);

#endif
