/* schema_field.c: the rows, and the differences of two schemas. */
#include "proto/job/schema_field.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- the rows -------------------------------------------------------------------------------- */

static const char *init_word(uint32_t kind)
{
    static const char *const word[] = {"zero", "uniform", "normal", "constant"};
    return word[kind % 4];
}

static const char *optimizer_word(uint32_t kind)
{
    return optimizer_facts(kind)->name;
}

static const char *values_word(uint32_t values)
{
    static const char *const word[] = {
        [VALUES_FP32] = "fp32", [VALUES_FP16] = "fp16", [VALUES_BF16] = "bf16"};
    return word[values <= VALUES_BF16 ? values : VALUES_FP32];
}

const char *schema_values_name(const struct table_schema *s)
{
    return values_word(s->values);
}

/* The fields that are not 0 follow the member. */
#define MEMBER_BYTES(type, member) (uint32_t)sizeof(((struct type *)0)->member)
#define ROW(stored, kind, member, ...)                                                             \
    {.name = (stored),                                                                             \
     .type = SCHEMA_##kind,                                                                        \
     .bytes = MEMBER_BYTES(table_schema, member),                                                  \
     .at = offsetof(struct table_schema, member),                                                  \
     __VA_ARGS__},
#define EACH(stored, kind, member, ...)                                                            \
    {.name = (stored),                                                                             \
     .type = SCHEMA_##kind,                                                                        \
     .bytes = MEMBER_BYTES(field_rule, member),                                                    \
     .at = offsetof(struct field_rule, member),                                                    \
     .each = true,                                                                                 \
     __VA_ARGS__},

/* The first 18 rules are in every image's digest, the later ones only where they are not 0. */
#define RULES_FIRST_BYTES 72u
_Static_assert(offsetof(struct row_rules, norm_refuse) == RULES_FIRST_BYTES - 4,
               "rules are added at the end of ROW_RULES");
#define RULE_LATER(n) .later = offsetof(struct row_rules, n) >= RULES_FIRST_BYTES
/* The allowed change of each rule in a table that has rows; a rule without one does not compile.
 * Statistics are a part of the row. Scores count where rows age. */
#define CHANGE_stats SCHEMA_STAYS
#define CHANGE_score_show SCHEMA_AGES
#define CHANGE_score_click SCHEMA_AGES
#define CHANGE_admit_kind SCHEMA_TURNS
#define CHANGE_admit_threshold SCHEMA_TURNS
#define CHANGE_admit_sketch SCHEMA_TURNS
#define CHANGE_admit_waiting SCHEMA_TURNS
#define CHANGE_age_every SCHEMA_AGES
#define CHANGE_age_decay SCHEMA_AGES
#define CHANGE_age_score SCHEMA_AGES
#define CHANGE_age_ttl SCHEMA_AGES
#define CHANGE_age_capacity SCHEMA_AGES /* in a table with a capacity no row is in the store */
#define CHANGE_age_by SCHEMA_TURNS
#define CHANGE_vector_score SCHEMA_TURNS
#define CHANGE_weight_max SCHEMA_TURNS
#define CHANGE_by_shows SCHEMA_TURNS
#define CHANGE_norm_max SCHEMA_TURNS
#define CHANGE_norm_refuse SCHEMA_TURNS
#define RULE_U32(n) ROW(#n, U32, rules.n, RULE_LATER(n), .change = CHANGE_##n)
#define RULE_F32(n) ROW(#n, F32, rules.n, RULE_LATER(n), .change = CHANGE_##n)
#define TURNS .change = SCHEMA_TURNS
#define AGES .change = SCHEMA_AGES

/* The order is that in which differences are reported. A row without .change may not change. */
static const struct schema_field row[] = {
    /* clang-format off */
    ROW("name", TEXT, name, .said = "the name", .needed = true)
    ROW("init.kind", U32, init.kind, .said = "init", .word = init_word, TURNS)
    ROW("optimizer.kind", U32, optimizer.kind, .said = "the optimizer", .word = optimizer_word)
    ROW("values", U32, values, .word = values_word)
    ROW("table", U32, table, .said = "number")
    ROW("dense", U32, dense)
    ROW("width", U32, width, .needed = true)
    ROW("zero_first", U32, zero_first)
    ROW("tablet_bits", U32, tablet_bits)
    ROW("tablet_first", U32, tablet_first)
    ROW("seed", U64, seed)
    ROW("init.scale", F32, init.scale, TURNS)
    ROW("optimizer.lr", F32, optimizer.lr, .needed = true, TURNS)
    ROW("optimizer.beta1", F32, optimizer.beta1, TURNS)
    ROW("optimizer.beta2", F32, optimizer.beta2, TURNS)
    ROW("optimizer.eps", F32, optimizer.eps, TURNS)
    ROW("optimizer.initial", F32, optimizer.initial, TURNS)
    ROW("optimizer.l1", F32, optimizer.l1, TURNS)
    ROW("optimizer.l2", F32, optimizer.l2, TURNS)
    ROW("optimizer.beta", F32, optimizer.beta, TURNS)
    ROW("optimizer.decay", F32, optimizer.decay, TURNS)
    ROW("optimizer.fixed_lr", U32, optimizer.fixed_lr, TURNS)
    ROW_RULES(RULE_U32, RULE_F32)
    EACH("fields.field", U32, field, .said = "the field of a rule", AGES)
    EACH("fields.has", U32, has, .said = "a field rule's parts", AGES)
    EACH("fields.init.kind", U32, kind, .said = "a field's init", TURNS)
    EACH("fields.init.scale", F32, scale, .said = "a field's scale", TURNS)
    EACH("fields.admit_kind", U32, admit_kind, .said = "a field's admit", TURNS)
    EACH("fields.admit_threshold", F32, admit_threshold, .said = "a field's admit threshold",
         TURNS)
    EACH("fields.ttl", U32, ttl, .said = "a field's ttl", AGES)
    ROW("fields", U32, field_rule_count, .said = "the number of rules by field", AGES)
    /* clang-format on */
};
#define ROWS (uint32_t)(sizeof row / sizeof row[0])
_Static_assert(sizeof row / sizeof row[0] < SCHEMA_FIELDS,
               "a find's answer says that there is none");

const struct schema_field *schema_field_at(uint32_t index)
{
    if (index >= ROWS)
        return NULL;
    return &row[index];
}

uint32_t schema_field_find(const char *name, size_t bytes)
{
    for (uint32_t i = 0; i < ROWS; i++)
        if (strlen(row[i].name) == bytes && memcmp(row[i].name, name, bytes) == 0)
            return i;
    return SCHEMA_FIELDS;
}

void *schema_field_value(struct table_schema *s, const struct schema_field *f, uint32_t rule)
{
    SHOAL_ASSERT(rule < (f->each ? LIMIT_FIELDS : 1));
    if (f->each)
        return (char *)&s->field_rule[rule] + f->at;
    return (char *)s + f->at;
}

const void *schema_field_value_of(const struct table_schema *s, const struct schema_field *f,
                                  uint32_t rule)
{
    SHOAL_ASSERT(rule < (f->each ? LIMIT_FIELDS : 1));
    if (f->each)
        return (const char *)&s->field_rule[rule] + f->at;
    return (const char *)s + f->at;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool value_equal(const struct schema_field *f, const void *a, const void *b)
{
    if (f->type == SCHEMA_TEXT)
        return strcmp(a, b) == 0;
    return memcmp(a, b, f->bytes) == 0;
}

/* The first field that differs, among those whose `each` is this; `each` compares rule `rule`.
 * NULL: none differs. */
static const struct schema_field *first_difference(const struct table_schema *a,
                                                   const struct table_schema *b, bool each,
                                                   uint32_t rule)
{
    for (const struct schema_field *f = row; f < row + ROWS - 1; f++)
        if (f->each == each &&
            !value_equal(f, schema_field_value_of(a, f, rule), schema_field_value_of(b, f, rule)))
            return f;
    return NULL;
}

/* *rule: the rule that differs. */
static const struct schema_field *difference(const struct table_schema *a,
                                             const struct table_schema *b, uint32_t *rule)
{
    const struct schema_field *f = first_difference(a, b, false, 0);
    uint32_t least = MIN(a->field_rule_count, b->field_rule_count);
    *rule = 0;
    for (uint32_t i = 0; i < least && f == NULL; i++) {
        f = first_difference(a, b, true, i);
        if (f != NULL)
            *rule = i;
    }
    if (f == NULL && a->field_rule_count != b->field_rule_count)
        return &row[ROWS - 1];
    return f;
}

int schema_equal(const struct table_schema *a, const struct table_schema *b)
{
    uint32_t rule;
    return difference(a, b, &rule) == NULL;
}

#define VALUE_TEXT LIMIT_NAME

static void value_text(const struct schema_field *f, const void *value, char text[VALUE_TEXT])
{
    uint32_t u32 = 0;
    uint64_t u64 = 0;
    float f32 = 0;
    memcpy(f->bytes == sizeof u64 ? (void *)&u64 : (void *)&u32, value,
           f->type == SCHEMA_TEXT ? 0 : f->bytes);
    memcpy(&f32, &u32, sizeof f32);
    if (f->type == SCHEMA_TEXT)
        text_copy(text, VALUE_TEXT, (const char *)value);
    else if (f->type == SCHEMA_F32)
        (void)snprintf(text, VALUE_TEXT, "%.7g", (double)f32);
    else if (f->word != NULL)
        text_copy(text, VALUE_TEXT, f->word(u32));
    else
        (void)snprintf(text, VALUE_TEXT, "%" PRIu64, f->type == SCHEMA_U64 ? u64 : u32);
}

static const char *say(const struct schema_field *f, const struct table_schema *a,
                       const struct table_schema *b, uint32_t rule,
                       char text[SCHEMA_DIFFERENCE_MAX])
{
    char of_a[VALUE_TEXT], of_b[VALUE_TEXT];
    value_text(f, schema_field_value_of(a, f, rule), of_a);
    value_text(f, schema_field_value_of(b, f, rule), of_b);
    (void)snprintf(text, SCHEMA_DIFFERENCE_MAX, "%s is %s, not %s", text_or(f->said, f->name), of_a,
                   of_b);
    return text;
}

const char *schema_difference(const struct table_schema *a, const struct table_schema *b,
                              char text[SCHEMA_DIFFERENCE_MAX])
{
    uint32_t rule;
    const struct schema_field *f = difference(a, b, &rule);
    text[0] = '\0';
    if (f == NULL)
        return text;
    return say(f, a, b, rule, text);
}

/* ---- changing -------------------------------------------------------------------------------- */

#define IS_OF(f, member) (!(f)->each && (f)->at == offsetof(struct table_schema, member))

static enum schema_change change_of(const struct schema_field *f, const struct table_schema *was,
                                    const struct table_schema *is)
{
    bool l2 = IS_OF(f, optimizer.l2), of_weights = l2 || IS_OF(f, optimizer.lr) ||
                                                   IS_OF(f, optimizer.beta) ||
                                                   IS_OF(f, optimizer.l1);
    if ((l2 && schema_has_last(was) != schema_has_last(is)) ||
        (of_weights && optimizer_facts(was->optimizer.kind)->weights_of_state))
        return SCHEMA_STAYS;
    return f->change;
}

enum schema_change schema_change(const struct table_schema *was, const struct table_schema *is,
                                 char text[SCHEMA_DIFFERENCE_MAX])
{
    uint32_t both = MIN(was->field_rule_count, is->field_rule_count);
    enum schema_change least = SCHEMA_SAME;
    text[0] = '\0';
    for (const struct schema_field *f = row; f < row + ROWS; f++)
        for (uint32_t rule = 0; rule < (f->each ? both : 1); rule++) {
            enum schema_change own = change_of(f, was, is);
            if (own >= least || value_equal(f, schema_field_value_of(was, f, rule),
                                            schema_field_value_of(is, f, rule)))
                continue;
            least = own;
            (void)say(f, was, is, rule, text);
        }
    return least;
}
