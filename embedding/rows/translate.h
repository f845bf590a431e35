/* translate.h: rows of a table under one schema into a table of the same name under another; the
 * rules are in checkpoint.h (checkpoint_translation).
 *
 * Thread: whoever owns both tables. */
#ifndef EMBEDDING_ROWS_TRANSLATE_H
#define EMBEDDING_ROWS_TRANSLATE_H

#include "embedding/table.h"

#include <stdio.h>

/* Whether tablets can be taken over as they are: all that counts in a row or a tablet is the same
 * (a table's number and where its tablets begin are not). */
bool translate_as_it_is(const struct table_schema *from, const struct table_schema *to);
/* Writes a sentence a line for all that differs (notes NULL: none). SCHEMA: rows of the one cannot
 * become rows of the other. */
int translate_check(const struct table_schema *from, const struct table_schema *to, FILE *notes,
                    struct err *e);

/* Tablet of `from` to the same tablet of `to`, which is empty; both tables of one arena and
 * as_it_is. Undo that `from_run` kept goes by the name of `to_run` afterwards. */
void translate_move(struct table *from, struct table *to, uint32_t tablet, uint64_t from_run,
                    uint64_t to_run);
/* Adds the rows of a tablet, and what it keeps beside them (clock, keys that wait, names), to those
 * tablets of `to` where their keys belong, as far as wanted[tablet of to]; but for the rows and
 * waiting keys of fields whose bit is set in without, (LIMIT_FIELDS / 64). NOMEM. */
int translate_rows(const struct table *from, uint32_t tablet, struct table *to,
                   const uint8_t *wanted, const uint64_t *without);

/* The tablets of the other table that hold the keys of this one's `tablet`: [*first, *first +
 * *count). */
void translate_tablets(uint32_t bits, uint32_t other_bits, uint32_t tablet, uint32_t *first,
                       uint32_t *count);

#endif
