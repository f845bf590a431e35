/* embedding_schema.h: two schemas with every kind of field, and stored schemas that a test builds
 * by hand. */
#ifndef TESTS_LIB_EMBEDDING_SCHEMA_H
#define TESTS_LIB_EMBEDDING_SCHEMA_H

#include "embedding/journal/record_schema.h"
#include "embedding/rows/image.h"
#include "proto/job/schema_field.h"
#include "tests/lib/embedding_rows.h"

/* Bytes of schema_rich as every release writes it, whatever other rules the release has. */
#define RICH_BYTES 619u
#define RICH_HASH 0x6506f23bb0dbe7a0ull
#define RICH_IMAGE 0xda1066f6b8e06060ull /* schema_digest of its images, in every release */

static inline struct table_schema schema_plain(void)
{
    return (struct table_schema){
        .name = "plain", .width = 4, .tablet_bits = 2, .optimizer = {.kind = OPT_SGD, .lr = 0.1f}};
}

/* A schema with rules by field, statistics and ageing, and all settings that need them. */
static inline struct table_schema schema_rich(void)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 8, 2);
    s.rules = (struct row_rules){.stats = 1,
                                 .admit_kind = ADMIT_COUNT,
                                 .admit_threshold = 3,
                                 .admit_sketch = 8,
                                 .age_every = 86400,
                                 .age_decay = 0.98f,
                                 .norm_max = 0.3f};
    s.values = VALUES_BF16;
    s.field_rule_count = 2;
    s.field_rule[0] =
        (struct field_rule){.field = 3, .has = FIELD_HAS_INIT, .kind = INIT_NORMAL, .scale = -0.5f};
    s.field_rule[1] = (struct field_rule){.field = 7,
                                          .has = FIELD_HAS_ADMIT | FIELD_HAS_TTL,
                                          .admit_kind = ADMIT_PROBABILITY,
                                          .admit_threshold = 0.25f,
                                          .ttl = 60};
    return s;
}

/* A stored schema that grows field by field. */
struct form {
    uint8_t bytes[4096];
    size_t count;
};

static inline void form_head(struct form *f, uint8_t form, uint16_t fields)
{
    uint32_t bytes = (uint32_t)f->count;
    f->bytes[0] = 0;
    f->bytes[1] = form;
    memcpy(f->bytes + 2, &fields, sizeof fields);
    memcpy(f->bytes + 4, &bytes, sizeof bytes);
}

static inline uint16_t form_fields(const struct form *f)
{
    uint16_t fields;
    memcpy(&fields, f->bytes + 2, sizeof fields);
    return fields;
}

static inline struct form form_of(const struct table_schema *s)
{
    struct form f = {.count = record_schema_bytes(s)};
    ck_assert_uint_le(f.count, sizeof f.bytes);
    record_schema_write(s, f.bytes);
    return f;
}

static inline void form_add(struct form *f, uint8_t type, const char *name, const void *value,
                            uint16_t bytes)
{
    const uint8_t name_bytes = (uint8_t)strlen(name);
    uint8_t *at = f->bytes + f->count;
    ck_assert_uint_le(f->count + 4 + name_bytes + bytes, sizeof f->bytes);
    at[0] = type;
    at[1] = name_bytes;
    memcpy(at + 2, &bytes, sizeof bytes);
    memcpy(at + 4, name, name_bytes);
    memcpy(at + 4 + name_bytes, value, bytes);
    f->count += 4u + name_bytes + bytes;
    form_head(f, f->bytes[1], (uint16_t)(form_fields(f) + 1));
}

static inline void form_refused(const struct form *f, int code, const char *words)
{
    struct table_schema s;
    struct err e = {0};
    uint8_t *exact = malloc(f->count + 1); /* exact, so that a read past the end is detected */
    ck_assert_ptr_nonnull(exact);
    memcpy(exact, f->bytes, f->count);
    ck_assert_msg(record_schema_read(exact, f->count, &s, &e) == code, "%s", e.text);
    ck_assert_msg(strstr(e.text, words) != NULL, "%s", e.text);
    free(exact);
}

/* Gives each field by itself its legal values; visit gets a schema with one of them. Every field
 * has at least one. */
static inline void each_field(void (*visit)(const struct schema_field *f,
                                            const struct table_schema *s))
{
    static const float floats[] = {0.75f, 2, 65535, 1e-45f};
    static const uint32_t numbers[] = {1, 2, 3, 16, 32, 70000};
    const struct table_schema base[] = {schema_plain(), schema_rich()};
    const struct schema_field *f;
    for (uint32_t i = 0; (f = schema_field_at(i)) != NULL; i++) {
        uint32_t legal = 0;
        for (uint32_t b = 0; b < 2; b++)
            for (uint32_t k = 0; k < 6; k++) {
                struct table_schema s = base[b];
                uint64_t wide = numbers[k] * 0x9e3779b97f4a7c15ull;
                const void *value = f->type == SCHEMA_TEXT  ? (const void *)"another name"
                                    : f->type == SCHEMA_F32 ? (const void *)&floats[k % 4]
                                    : f->type == SCHEMA_U64 ? (const void *)&wide
                                                            : (const void *)&numbers[k];
                memcpy(schema_field_value(&s, f, f->each ? 1 : 0), value,
                       f->type == SCHEMA_TEXT ? sizeof "another name" : f->bytes);
                if (schema_check(&s, NULL) != 0 || schema_equal(&s, &base[b]))
                    continue;
                visit(f, &s);
                legal++;
            }
        ck_assert_msg(legal > 0, "no value of %s is legal here", f->name);
    }
}

static inline uint64_t image_digest(const struct table_schema *s)
{
    struct rows r = rows_open(s);
    struct image_header h;
    char *image = malloc(table_image_bytes(r.table, 0));
    ck_assert_ptr_nonnull(image);
    table_image_write(r.table, 0, image);
    memcpy(&h, image, sizeof h);
    free(image);
    rows_close(&r);
    return h.schema_digest;
}

#endif
