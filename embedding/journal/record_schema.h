/* record_schema.h: a table's schema as bytes, names and values: in a journal record, in the control
 * state (store/stored.h) and in a checkpoint's manifest (engine/part.h).
 *
 *     u8 0, u8 form (2), u16 fields, u32 bytes of it all
 *     then each field: u8 type, u8 bytes of its name, u16 bytes of its value; name; value
 *
 * little-endian, without padding. Fields and their names are the rows of proto/job/schema_field.h;
 * a type is enum schema_type, with RECORD_SCHEMA_EACH for a field with one value for each rule by
 * field; a text has no NUL.
 *
 * 1. A field whose bits are all 0 is left out, so a new field in Shoal changes no schema that does
 *    not use it, and an older Shoal can read those. A written 0 is accepted, and fields may be in
 *    any order. [test: a_new_rule_changes_no_schema_that_has_none]
 * 2. Values come back bit for bit. [test: every_field_comes_back]
 * 3. An unknown name, type or form is refused by its name, because the table would mean something
 *    else without it. [test: what_is_not_known_is_refused_by_name]
 *
 * Releases before 0.2.0 stored a fixed form, whose first byte is not 0: it is refused by name. */
#ifndef EMBEDDING_JOURNAL_RECORD_SCHEMA_H
#define EMBEDDING_JOURNAL_RECORD_SCHEMA_H

#include "proto/job/schema.h"

#include <stddef.h>

#define RECORD_SCHEMA_EACH 128u
#define RECORD_SCHEMA_BYTES (32u << 10) /* at most */

size_t record_schema_bytes(const struct table_schema *s);
void record_schema_write(const struct table_schema *s, void *out);
/* VERSION: a later Shoal wrote it; MALFORMED: it does not parse; SCHEMA: it is not a legal
 * schema. */
int record_schema_read(const void *bytes, size_t count, struct table_schema *s, struct err *e);

#endif
