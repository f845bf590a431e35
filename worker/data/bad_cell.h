/* bad_cell.h: the message about a malformed cell: the expected form, the column, the value and,
 * where one is known, the remedy. */
#ifndef WORKER_DATA_BAD_CELL_H
#define WORKER_DATA_BAD_CELL_H

#include "worker/data/feature.h"

/* Returns DATA. `what` names the expected form, as in "no number"; `remedy` is "" or an
 * instruction. The message has the column's name and as much of the value as fits. */
int bad_cell(const struct features *f, const char *what, uint32_t column, const struct cell *cell,
             const char *remedy, char *reason);
/* The remedy for a cell that should be a number: a missing value or a decimal comma; "" for
 * anything else. */
const char *bad_cell_number_remedy(const struct cell *cell);
/* The remedy for a label. */
const char *bad_cell_label_remedy(const struct cell *cell, uint32_t tasks, bool real);

#endif
