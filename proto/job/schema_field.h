/* schema_field.h: the fields of a table's schema, one row each. The code that compares two schemas,
 * reports how they differ and stores them loops over these rows, and knows no single field.
 *
 * A row rule adds its row with its word in ROW_RULES (schema.h). Another field (a setting of an
 * optimizer) is a row in schema_field.c, with `.later = true`. schema_check decides which values
 * are legal. 0 is every field's default, and the value of a schema that was stored before the field
 * existed. So a field that is 0 takes no space, and a name is never given to another field or
 * another type. */
#ifndef PROTO_JOB_SCHEMA_FIELD_H
#define PROTO_JOB_SCHEMA_FIELD_H

#include "proto/job/schema.h"

#include <stdbool.h>

/* The numbers are stored. */
enum schema_type { SCHEMA_TEXT = 1, SCHEMA_U32 = 2, SCHEMA_F32 = 3, SCHEMA_U64 = 4 };

#define SCHEMA_FIELDS 128u    /* rows at most */
#define SCHEMA_FIELD_NAME 48u /* bytes of a name at most, with its final NUL */

struct schema_field {
    const char *name; /* the stored name */
    const char *said; /* the name for people, where it is another; else NULL */
    enum schema_type type;
    uint32_t bytes;
    uint32_t at; /* offset in struct table_schema; with `each` in struct field_rule */
    bool each;   /* one value for each of field_rule_count */
    bool needed; /* 0 is not legal */
    bool later;  /* an image's digest has the field only where it is not 0 */
    enum schema_change change;
    const char *(*word)(uint32_t value); /* a number's name, where it has one */
};

/* Row `index`, or NULL after the last. The last row is the number of rules by field; fields with
 * `each` have a value for each of these rules. */
const struct schema_field *schema_field_at(uint32_t index);
/* The row of a name with so many bytes; SCHEMA_FIELDS: there is none. */
uint32_t schema_field_find(const char *name, size_t bytes);
/* The value of a field; with `each` that of rule `rule`. */
void *schema_field_value(struct table_schema *s, const struct schema_field *f, uint32_t rule);
const void *schema_field_value_of(const struct table_schema *s, const struct schema_field *f,
                                  uint32_t rule);

#endif
