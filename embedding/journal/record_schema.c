/* record_schema.c: writes and reads schemas. Invariants 1 to 3: record_schema.h. */
#include "embedding/journal/record_schema.h"

#include "proto/base/assert.h"
#include "proto/job/schema_field.h"

#include <stdbool.h>
#include <string.h>

#define FORM 2u

struct schema_head {
    uint8_t zero, form;
    uint16_t fields;
    uint32_t bytes;
};
struct field_head {
    uint8_t type, name_bytes;
    uint16_t value_bytes;
};
_Static_assert(sizeof(struct schema_head) == 8 && sizeof(struct field_head) == 4,
               "a stored schema is a disk format");
_Static_assert(sizeof(struct table_schema) +
                       SCHEMA_FIELDS * (sizeof(struct field_head) + SCHEMA_FIELD_NAME) <=
                   RECORD_SCHEMA_BYTES,
               "every schema has room");
_Static_assert(LIMIT_FIELDS * sizeof(uint32_t) <= UINT16_MAX && SCHEMA_FIELD_NAME <= UINT8_MAX,
               "the lengths of a field_head suffice");

static const char later[] = "it was written by a later Shoal; start that one";

static uint8_t type_of(const struct schema_field *f)
{
    return (uint8_t)(f->type | (f->each ? RECORD_SCHEMA_EACH : 0));
}

/* ---- writing --------------------------------------------------------------------------------- */

static uint32_t values_of(const struct schema_field *f, const struct table_schema *s)
{
    return f->each ? s->field_rule_count : 1;
}

/* Bytes of a field's value; 0: the field is left out. */
static size_t value_bytes(const struct schema_field *f, const struct table_schema *s)
{
    static const char zero[sizeof(uint64_t)];
    if (f->type == SCHEMA_TEXT)
        return strnlen(schema_field_value_of(s, f, 0), f->bytes);
    SHOAL_ASSERT(f->bytes <= sizeof zero);
    for (uint32_t i = 0; i < values_of(f, s); i++)
        if (memcmp(schema_field_value_of(s, f, i), zero, f->bytes) != 0)
            return (size_t)values_of(f, s) * f->bytes;
    return 0;
}

size_t record_schema_bytes(const struct table_schema *s)
{
    const struct schema_field *f;
    size_t bytes = sizeof(struct schema_head);
    SHOAL_ASSERT(s->field_rule_count <= LIMIT_FIELDS);
    for (uint32_t i = 0; (f = schema_field_at(i)) != NULL; i++) {
        size_t value = value_bytes(f, s);
        if (value > 0)
            bytes += sizeof(struct field_head) + strlen(f->name) + value;
    }
    return bytes;
}

static char *field_write(const struct schema_field *f, const struct table_schema *s, size_t bytes,
                         char *at)
{
    const struct field_head h = {type_of(f), (uint8_t)strlen(f->name), (uint16_t)bytes};
    SHOAL_ASSERT(h.name_bytes < SCHEMA_FIELD_NAME);
    memcpy(at, &h, sizeof h);
    memcpy(at + sizeof h, f->name, h.name_bytes);
    at += sizeof h + h.name_bytes;
    if (f->type == SCHEMA_TEXT)
        memcpy(at, schema_field_value_of(s, f, 0), bytes);
    else
        for (uint32_t i = 0; i < values_of(f, s); i++)
            memcpy(at + (size_t)i * f->bytes, schema_field_value_of(s, f, i), f->bytes);
    return at + bytes;
}

void record_schema_write(const struct table_schema *s, void *out)
{
    const struct schema_field *f;
    struct schema_head h = {.form = FORM, .bytes = (uint32_t)record_schema_bytes(s)};
    char *at = (char *)out + sizeof h;
    for (uint32_t i = 0; (f = schema_field_at(i)) != NULL; i++) {
        size_t bytes = value_bytes(f, s);
        if (bytes == 0)
            continue;
        at = field_write(f, s, bytes, at);
        h.fields++;
    }
    SHOAL_ASSERT(at == (char *)out + h.bytes);
    memcpy(out, &h, sizeof h);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Positions of the fields' values, by row; NULL: left out. */
struct values {
    const char *at[SCHEMA_FIELDS];
    size_t bytes[SCHEMA_FIELDS];
};

static int head_check(const char *bytes, size_t count, struct schema_head *h, struct err *e)
{
    if (count < sizeof *h)
        return err_set(e, SHOAL_E_MALFORMED,
                       "a stored table schema has %zu bytes, at least %zu are needed", count,
                       sizeof *h);
    memcpy(h, bytes, sizeof *h);
    if (h->form > FORM)
        return err_set(e, SHOAL_E_VERSION,
                       "a stored table schema has form %u, this Shoal reads up to %u: %s", h->form,
                       FORM, later);
    if (h->form != FORM || h->bytes != count)
        return err_set(e, SHOAL_E_MALFORMED,
                       "a stored table schema of form %u says that it has %u bytes, it has %zu",
                       h->form, h->bytes, count);
    return 0;
}

/* The printable length of an unknown name. */
static int shown(const char *name, uint32_t bytes)
{
    uint32_t count = 0;
    while (count < bytes && count < SCHEMA_FIELD_NAME && name[count] > ' ' && name[count] < 127)
        count++;
    return (int)count;
}

static int field_known(const struct field_head *h, const char *name, uint32_t row, struct err *e)
{
    if (row == SCHEMA_FIELDS)
        return err_set(e, SHOAL_E_VERSION,
                       "a stored table schema has a field '%.*s', which this Shoal does not know: "
                       "%s",
                       shown(name, h->name_bytes), name, later);
    const struct schema_field *f = schema_field_at(row);
    if (h->type != type_of(f))
        return err_set(e, SHOAL_E_VERSION,
                       "a stored table schema has a field '%s' of type %u, this Shoal knows it as "
                       "of type %u: %s",
                       f->name, h->type, type_of(f), later);
    return 0;
}

/* Parses the field at *at, which must end before `end`. */
static int field_next(const char **at, const char *end, struct values *v, struct err *e)
{
    static const char cut[] = "a stored table schema is cut short in a field";
    struct field_head h;
    if ((size_t)(end - *at) < sizeof h)
        return err_set(e, SHOAL_E_MALFORMED, cut);
    memcpy(&h, *at, sizeof h);
    const char *name = *at + sizeof h;
    if ((size_t)(end - name) < (size_t)h.name_bytes + h.value_bytes)
        return err_set(e, SHOAL_E_MALFORMED, cut);
    uint32_t row = schema_field_find(name, h.name_bytes);
    int rc = field_known(&h, name, row, e);
    if (rc != 0)
        return rc;
    if (v->at[row] != NULL)
        return err_set(e, SHOAL_E_MALFORMED, "a stored table schema has field '%s' twice",
                       schema_field_at(row)->name);
    v->at[row] = name + h.name_bytes;
    v->bytes[row] = h.value_bytes;
    *at = name + h.name_bytes + h.value_bytes;
    return 0;
}

static int value_take(const struct schema_field *f, const char *value, size_t bytes,
                      struct table_schema *s, struct err *e)
{
    bool text = f->type == SCHEMA_TEXT;
    size_t fits = (size_t)values_of(f, s) * f->bytes;
    if (text && (bytes >= f->bytes || memchr(value, 0, bytes) != NULL))
        return err_set(e, SHOAL_E_MALFORMED,
                       "a stored table schema has a '%s' with a NUL or of over %u bytes", f->name,
                       f->bytes - 1);
    if (!text && bytes != fits)
        return err_set(e, SHOAL_E_MALFORMED,
                       "a stored table schema has %zu bytes in field '%s', not %zu", bytes, f->name,
                       fits);
    if (text)
        memcpy(schema_field_value(s, f, 0), value, bytes);
    else
        for (uint32_t i = 0; i < values_of(f, s); i++)
            memcpy(schema_field_value(s, f, i), value + (size_t)i * f->bytes, f->bytes);
    return 0;
}

/* Takes the last row first: it is the number of rules by field, on which the other lengths
 * depend. */
static int values_take(const struct values *v, struct table_schema *s, struct err *e)
{
    uint32_t rows = 0;
    while (schema_field_at(rows) != NULL)
        rows++;
    for (uint32_t i = rows; i-- > 0;) {
        const struct schema_field *f = schema_field_at(i);
        if (v->at[i] == NULL && f->needed)
            return err_set(e, SHOAL_E_MALFORMED, "a stored table schema has no field '%s'",
                           f->name);
        int rc = 0;
        if (v->at[i] != NULL)
            rc = value_take(f, v->at[i], v->bytes[i], s, e);
        if (rc != 0)
            return rc;
        if (s->field_rule_count > LIMIT_FIELDS)
            return err_set(e, SHOAL_E_MALFORMED,
                           "a stored table schema has %u rules by field, at most %u",
                           s->field_rule_count, LIMIT_FIELDS);
    }
    return 0;
}

int record_schema_read(const void *bytes, size_t count, struct table_schema *s, struct err *e)
{
    struct schema_head h;
    struct values v = {{NULL}, {0}};
    const char *at = bytes, *end = at + count;
    memset(s, 0, sizeof *s);
    if (count > 0 && at[0] != 0)
        return err_set(e, SHOAL_E_VERSION,
                       "a stored table schema has the form of a release before 0.2.0; start that "
                       "one");
    int rc = head_check(bytes, count, &h, e);
    at += sizeof h;
    for (uint32_t i = 0; rc == 0 && i < h.fields; i++)
        rc = field_next(&at, end, &v, e);
    if (rc == 0 && at != end)
        rc = err_set(e, SHOAL_E_MALFORMED,
                     "a stored table schema has %zu bytes behind its %u fields", (size_t)(end - at),
                     h.fields);
    if (rc == 0)
        rc = values_take(&v, s, e);
    if (rc != 0)
        return rc;

    return schema_check(s, e);
}
