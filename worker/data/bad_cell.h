/* bad_cell.h: why a cell is malformed, as a sentence: what it should be, its column, what it holds,
 * and what to do where that is known. */
#ifndef WORKER_DATA_BAD_CELL_H
#define WORKER_DATA_BAD_CELL_H

#include "worker/data/feature.h"

/* DATA. `what`: what it should be, as in "no number"; `remedy`: "" or what to do. The column by its
 * name, and of the value as much as fits. */
int bad_cell(const struct features *f, const char *what, uint32_t column, const struct cell *cell,
             const char *remedy, char *reason);
/* What to do with a cell that should be a number: words that stand for a missing one, a decimal
 * comma; "" for anything else. */
const char *bad_cell_number_remedy(const struct cell *cell);
/* The same for a label. */
const char *bad_cell_label_remedy(const struct cell *cell, uint32_t tasks);

#endif
