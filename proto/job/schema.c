/* schema.c: checks table schemas; finds the rows of optimizer.h by number and by name; searches
 * gradients for illegal values (gradient.h). */
#include "proto/job/schema.h"
#include "proto/base/assert.h"
#include "proto/base/text.h"
#include "proto/job/gradient.h"
#include "proto/job/optimizer.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* ---- optimizers ------------------------------------------------------------------------------ */

#define FACTS(number, KIND, label, where, ...) [number] = {.name = #label, __VA_ARGS__},
static const struct optimizer_facts kind_facts[] = {OPTIMIZER_KINDS(FACTS)};
#define FACTS_COUNT (sizeof kind_facts / sizeof kind_facts[0])

const struct optimizer_facts *optimizer_facts(uint32_t kind)
{
    if (kind >= FACTS_COUNT || kind_facts[kind].name == NULL)
        return NULL;
    return &kind_facts[kind];
}

enum optimizer_kind optimizer_named(const char *name)
{
    uint32_t kind = 0;
    while (kind < FACTS_COUNT &&
           (kind_facts[kind].name == NULL || strcmp(kind_facts[kind].name, name) != 0))
        kind++;
    SHOAL_ASSERT(kind < FACTS_COUNT);
    return (enum optimizer_kind)kind;
}

const char *optimizer_decaying(char *text, size_t capacity)
{
    size_t count = 0, said = 0, at = 0;
    for (size_t i = 0; i < FACTS_COUNT; i++)
        count += kind_facts[i].decays;
    text[0] = '\0';
    for (size_t i = 0; i < FACTS_COUNT && at < capacity; i++)
        if (kind_facts[i].decays) {
            const char *between = said + 1 == count ? " and " : ", ";
            at += (size_t)snprintf(text + at, capacity - at, "%s%s", text_if(said > 0, between),
                                   kind_facts[i].name);
            said++;
        }
    return text;
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Compares as integers: without its sign a float grows with its bits, and infinities and NaNs lie
 * above every finite one. limit - bits is therefore negative only for bad values: three operations
 * on whole vectors and no branch. */
bool gradient_floats_ok(const float *values, size_t count)
{
    typedef int32_t lanes __attribute__((vector_size(16)));
    const float limit_float = LIMIT_GRADIENT;
    int32_t limit, bits;
    memcpy(&limit, &limit_float, sizeof limit);
    lanes sum[4] = {{0}, {0}, {0}, {0}};
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        lanes in[4];
        memcpy(in, values + i, sizeof in);
        sum[0] |= limit - (in[0] & 0x7fffffff);
        sum[1] |= limit - (in[1] & 0x7fffffff);
        sum[2] |= limit - (in[2] & 0x7fffffff);
        sum[3] |= limit - (in[3] & 0x7fffffff);
    }
    lanes all = (sum[0] | sum[1]) | (sum[2] | sum[3]);
    int32_t any = all[0] | all[1] | all[2] | all[3];
    for (; i < count; i++) {
        memcpy(&bits, values + i, sizeof bits);
        any |= limit - (bits & 0x7fffffff);
    }
    return any >= 0;
}

double gradient_norm(const float *gradient, uint32_t width)
{
    double sum = 0;
    for (uint32_t i = 0; i < width; i++)
        sum += (double)gradient[i] * (double)gradient[i];
    return sqrt(sum);
}

static enum gradient_why value_why(float x)
{
    if (!isfinite(x))
        return GRADIENT_NOT_FINITE;
    if (fabsf(x) > LIMIT_GRADIENT)
        return GRADIENT_TOO_LARGE;
    return GRADIENT_GOOD;
}

static enum gradient_why row_fault(const struct table_schema *s, const float *row,
                                   struct gradient_fault *out)
{
    uint32_t floats = schema_push_floats(s);
    for (uint32_t i = 0; i < floats; i++)
        if (value_why(row[i]) != GRADIENT_GOOD) {
            out->place = i;
            out->value = row[i];
            return value_why(row[i]);
        }
    if (s->rules.norm_refuse == 0 || s->rules.norm_max <= 0)
        return GRADIENT_GOOD;
    out->norm = gradient_norm(row, s->width);
    if (out->norm <= (double)s->rules.norm_max)
        return GRADIENT_GOOD;
    out->place = 0;
    for (uint32_t i = 1; i < s->width; i++)
        if (fabsf(row[i]) > fabsf(row[out->place]))
            out->place = i;
    out->value = row[out->place];
    return GRADIENT_NORM;
}

bool gradient_fault_find(const struct table_schema *s, const float *values, uint32_t key_count,
                         struct gradient_fault *out)
{
    uint32_t floats = schema_push_floats(s);
    bool norm = s->rules.norm_refuse != 0 && s->rules.norm_max > 0;
    *out = (struct gradient_fault){.why = GRADIENT_GOOD};
    if (!norm && gradient_floats_ok(values, (size_t)key_count * floats))
        return false;
    for (uint32_t k = 0; k < key_count; k++) {
        struct gradient_fault f = {.key = k};
        f.why = row_fault(s, values + (size_t)k * floats, &f);
        if (f.why == GRADIENT_GOOD)
            continue;
        f.rows = out->rows;
        if (out->rows == 0)
            *out = f;
        out->rows++;
    }
    return out->rows > 0;
}

const char *gradient_why_text(enum gradient_why why)
{
    static const char *const text[] = {"good", "not finite", "beyond 1e15", "longer than norm_max"};
    return text[why];
}

/* ---- schemas --------------------------------------------------------------------------------- */

static bool number_ok(float x, float low, float high)
{
    return isfinite(x) && x >= low && x <= high;
}

static int optimizer_check(const struct optimizer_spec *o, const char *table, struct err *e)
{
    const struct optimizer_facts *facts = optimizer_facts(o->kind);
    if (facts == NULL)
        return err_set(e, SHOAL_E_SCHEMA, "table %s: unknown optimizer %d", table, (int)o->kind);
    if (!number_ok(o->lr, 1e-30f, 1e10f))
        return err_set(e, SHOAL_E_SCHEMA, "table %s: lr must be above 0 and finite, it is %g",
                       table, (double)o->lr);
    if (!number_ok(o->beta1, 0, 0.9999999f) || !number_ok(o->beta2, 0, 0.9999999f))
        return err_set(e, SHOAL_E_SCHEMA, "table %s: beta1 and beta2 must be in [0, 1)", table);
    if (!number_ok(o->eps, 0, 1e10f) || !number_ok(o->initial, 0, 1e10f) ||
        !number_ok(o->l1, 0, 1e10f) || !number_ok(o->l2, 0, 1e10f) || !number_ok(o->beta, 0, 1e10f))
        return err_set(e, SHOAL_E_SCHEMA,
                       "table %s: eps, initial, l1, l2 and beta must be finite and not negative",
                       table);
    if (!number_ok(o->decay, 0, 1))
        return err_set(e, SHOAL_E_SCHEMA,
                       "table %s: the optimizer's decay must be in [0, 1]; 0 counts as 1", table);
    if (facts->by_initial && o->initial <= 0)
        return err_set(e, SHOAL_E_SCHEMA, "table %s: %s needs `initial` above 0", table,
                       facts->name);
    if (o->fixed_lr > 1)
        return err_set(e, SHOAL_E_SCHEMA, "table %s: fixed_lr must be 0 or 1", table);
    return 0;
}

static int admit_check(uint32_t kind, float threshold, const struct row_rules *r, const char *table,
                       struct err *e)
{
    if (kind > ADMIT_NONE)
        return err_set(e, SHOAL_E_SCHEMA, "table %s: unknown admission %u", table, kind);
    if (kind == ADMIT_COUNT && !number_ok(threshold, 1, 16777216.0f))
        return err_set(e, SHOAL_E_SCHEMA,
                       "table %s: an admission count must be in 1..2^24, it is %g", table,
                       (double)threshold);
    if (kind == ADMIT_COUNT && r->admit_sketch > 0 && threshold > 65535)
        return err_set(
            e, SHOAL_E_SCHEMA,
            "table %s: a sketch counts to 65535, an admission count of %g needs admit_sketch 0",
            table, (double)threshold);
    if (kind == ADMIT_PROBABILITY && !number_ok(threshold, 0, 1))
        return err_set(e, SHOAL_E_SCHEMA,
                       "table %s: an admission probability must be in [0, 1], it is %g", table,
                       (double)threshold);
    if (kind == ADMIT_SCORE && (!number_ok(threshold, 0, 1e10f) || r->stats == 0))
        return err_set(e, SHOAL_E_SCHEMA,
                       "table %s: admission by score needs stats and a finite score", table);
    return 0;
}

static int rules_check(const struct row_rules *r, const struct table_schema *s, struct err *e)
{
    if (r->stats > 1 || r->by_shows > 1 || r->norm_refuse > 1 || r->age_by > EVICT_SCORE)
        return err_set(e, SHOAL_E_SCHEMA,
                       "table %s: stats, by_shows, norm_refuse and age_by are 0 or 1", s->name);
    if (!number_ok(r->score_show, 0, 1e10f) || !number_ok(r->score_click, 0, 1e10f) ||
        !number_ok(r->age_score, 0, 1e10f) || !number_ok(r->vector_score, 0, 1e10f) ||
        !number_ok(r->weight_max, 0, 1e10f) || !number_ok(r->norm_max, 0, 1e15f))
        return err_set(e, SHOAL_E_SCHEMA,
                       "table %s: scores, weight_max and norm_max must be finite and not negative",
                       s->name);
    if (!number_ok(r->age_decay, 0, 1))
        return err_set(e, SHOAL_E_SCHEMA, "table %s: age_decay must be in [0, 1]; 0 counts as 1",
                       s->name);
    if (r->admit_sketch > 1u << 24 || r->admit_waiting > 1u << 24)
        return err_set(e, SHOAL_E_SCHEMA, "table %s: admission keeps at most 2^24 counts a tablet",
                       s->name);
    if (r->admit_sketch > 0 &&
        (r->admit_sketch < 4 || (r->admit_sketch & (r->admit_sketch - 1)) != 0))
        return err_set(
            e, SHOAL_E_SCHEMA,
            "table %s: the cells of a sketch must be a power of two, at least 4, they are %u",
            s->name, r->admit_sketch);
    if (r->age_every == 0 &&
        (r->age_score > 0 || r->age_ttl > 0 || (r->age_decay > 0 && r->age_decay < 1)))
        return err_set(e, SHOAL_E_SCHEMA,
                       "table %s: rows age every age_every seconds, which is 0; 86400 is a day",
                       s->name);
    bool needs = r->age_score > 0 || r->age_ttl > 0 || r->age_capacity > 0 || r->vector_score > 0 ||
                 r->by_shows > 0 || (r->age_decay > 0 && r->age_decay < 1);
    if (needs && r->stats == 0)
        return err_set(e, SHOAL_E_SCHEMA,
                       "table %s: ageing, staged vectors and by_shows need stats", s->name);
    if (s->dense != 0 && (r->stats != 0 || r->admit_kind != ADMIT_ALL))
        return err_set(e, SHOAL_E_SCHEMA,
                       "table %s: a dense table has no statistics and admits everything", s->name);
    return admit_check(r->admit_kind, r->admit_threshold, r, s->name, e);
}

static int field_rules_check(const struct table_schema *s, struct err *e)
{
    if (s->field_rule_count > LIMIT_FIELDS)
        return err_set(e, SHOAL_E_SCHEMA, "table %s: %u rules by field, at most %u", s->name,
                       s->field_rule_count, LIMIT_FIELDS);
    for (uint32_t i = 0; i < s->field_rule_count; i++) {
        const struct field_rule *f = &s->field_rule[i];
        if (f->kind > INIT_CONSTANT || !number_ok(f->scale, -1e10f, 1e10f) || f->field > 0xffff ||
            f->has > 7)
            return err_set(e, SHOAL_E_SCHEMA, "table %s: rule %u by field is not valid", s->name,
                           i);
        if (i > 0 && s->field_rule[i - 1].field >= f->field)
            return err_set(e, SHOAL_E_SCHEMA, "table %s: rules are not sorted by field", s->name);
        if ((f->has & FIELD_HAS_TTL) != 0 && f->ttl > 0 &&
            (s->rules.stats == 0 || s->rules.age_every == 0))
            return err_set(e, SHOAL_E_SCHEMA, "table %s: a field's ttl needs stats and age_every",
                           s->name);
        int rc = 0;
        if (f->has & FIELD_HAS_ADMIT)
            rc = admit_check(f->admit_kind, f->admit_threshold, &s->rules, s->name, e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int schema_check(const struct table_schema *s, struct err *e)
{
    if (memchr(s->name, 0, sizeof s->name) == NULL || s->name[0] == 0)
        return err_set(e, SHOAL_E_SCHEMA, "a table has no name, or one over %u bytes",
                       LIMIT_NAME - 1);
    if (s->table >= LIMIT_TABLES || s->dense > 1)
        return err_set(e, SHOAL_E_SCHEMA, "table %s: number %u is over the limit of %u tables",
                       s->name, s->table, LIMIT_TABLES);
    if (s->width == 0 || s->width > LIMIT_WIDTH || s->zero_first > s->width)
        return err_set(e, SHOAL_E_SCHEMA, "table %s: width %u is not in 1..%u", s->name, s->width,
                       LIMIT_WIDTH);
    if (s->tablet_bits > 16 || s->tablet_first > LIMIT_FLEET_TABLETS - (1u << s->tablet_bits))
        return err_set(e, SHOAL_E_SCHEMA, "table %s: 2^%u tablets from %u on are over the limit",
                       s->name, s->tablet_bits, s->tablet_first);
    if ((unsigned)s->init.kind > INIT_CONSTANT || !number_ok(s->init.scale, -1e10f, 1e10f))
        return err_set(e, SHOAL_E_SCHEMA, "table %s: initial value is not valid", s->name);
    if (s->values > VALUES_BF16 || (s->dense != 0 && s->values != VALUES_FP32))
        return err_set(
            e, SHOAL_E_SCHEMA,
            "table %s: values are fp32, fp16 or bf16, of a dense table fp32; they are %u", s->name,
            s->values);
    if (s->values == VALUES_FP16 && s->rules.weight_max > 0 && s->rules.weight_max < 0x1p-24f)
        return err_set(
            e, SHOAL_E_SCHEMA,
            "table %s: the least fp16 above 0 is 2^-24, weights cannot be kept within %g", s->name,
            (double)s->rules.weight_max);
    int rc = optimizer_check(&s->optimizer, s->name, e);
    if (rc == 0)
        rc = rules_check(&s->rules, s, e);
    if (rc != 0)
        return rc;
    return field_rules_check(s, e);
}

uint32_t schema_vector(const struct table_schema *s)
{
    return s->width - s->zero_first;
}

struct schema_part schema_first_part(const struct table_schema *from, const struct table_schema *to)
{
    return (struct schema_part){0, 0, from->zero_first == to->zero_first ? to->zero_first : 0};
}

struct schema_part schema_vector_part(const struct table_schema *from,
                                      const struct table_schema *to)
{
    bool same = schema_vector(from) == schema_vector(to);
    return (struct schema_part){from->zero_first, to->zero_first, same ? schema_vector(to) : 0};
}

int schema_has_last(const struct table_schema *s)
{
    return !optimizer_facts(s->optimizer.kind)->l2_own && s->optimizer.l2 > 0;
}

static uint32_t optimizer_floats(const struct table_schema *s)
{
    const struct optimizer_facts *facts = optimizer_facts(s->optimizer.kind);
    return facts->per_element * s->width + facts->per_row;
}

#define STATS_FLOATS (uint32_t)(sizeof(struct row_stats) / sizeof(float))

uint32_t schema_state_floats(const struct table_schema *s)
{
    return optimizer_floats(s) + (uint32_t)schema_has_last(s) +
           (s->rules.stats != 0 ? STATS_FLOATS : 0);
}

uint32_t schema_weight_floats(const struct table_schema *s)
{
    return s->values == VALUES_FP32 ? s->width : (s->width + 1) / 2;
}

uint32_t schema_row_floats(const struct table_schema *s)
{
    return schema_weight_floats(s) + schema_state_floats(s);
}

uint32_t schema_stats_at(const struct table_schema *s)
{
    return schema_row_floats(s) - STATS_FLOATS;
}

uint32_t schema_push_floats(const struct table_schema *s)
{
    return s->width + (s->rules.stats != 0 ? 2 : 0);
}

const struct field_rule *schema_field_rule(const struct table_schema *s, uint32_t field)
{
    uint32_t low = 0, high = s->field_rule_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (s->field_rule[middle].field < field)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < s->field_rule_count && s->field_rule[low].field == field)
        return &s->field_rule[low];
    return NULL;
}

int schema_absent_zero(const struct table_schema *s, uint32_t field)
{
    const struct field_rule *f = schema_field_rule(s, field);
    uint32_t kind = s->rules.admit_kind;
    if (f != NULL && (f->has & FIELD_HAS_ADMIT) != 0)
        kind = f->admit_kind;
    return kind != ADMIT_ALL || s->rules.vector_score > 0;
}
