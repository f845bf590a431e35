/* translate.h: copies rows of a table under one schema into a table of the same name under another;
 * checkpoint.h has the rules (checkpoint_translation).
 *
 * Thread: the one that owns both tables. */
#ifndef EMBEDDING_ROWS_TRANSLATE_H
#define EMBEDDING_ROWS_TRANSLATE_H

#include "embedding/table.h"

#include <stdio.h>

/* True when tablets can be used unchanged: rows and tablets mean the same (a table's number and
 * place do not matter). */
bool translate_as_it_is(const struct table_schema *from, const struct table_schema *to);
/* Writes a sentence for each difference, one a line (notes NULL: none). SCHEMA: rows of one cannot
 * become rows of the other. */
int translate_check(const struct table_schema *from, const struct table_schema *to, FILE *notes,
                    struct err *e);

/* Moves a tablet of `from` to the same, empty tablet of `to`; both tables use one arena, and
 * translate_as_it_is. Undo of `from_run` has the name of `to_run` afterwards. */
void translate_move(struct table *from, struct table *to, uint32_t tablet, uint64_t from_run,
                    uint64_t to_run);
/* Adds the rows of a tablet and its other state (clock, waiting keys, names) to the tablets of `to`
 * where their keys belong, if wanted[tablet of to]. Fields whose bit is set in `without`
 * (LIMIT_FIELDS / 64) are left out. NOMEM. */
int translate_rows(const struct table *from, uint32_t tablet, struct table *to,
                   const uint8_t *wanted, const uint64_t *without);

/* The tablets of the other table that have the keys of this one's `tablet`: [*first, *first +
 * *count). */
void translate_tablets(uint32_t bits, uint32_t other_bits, uint32_t tablet, uint32_t *first,
                       uint32_t *count);

#endif
