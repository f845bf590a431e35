/* feature.c: turns cells into an example, by the plan that feature_plan.c makes. */
#include "worker/data/feature.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"
#include "worker/data/bad_cell.h"
#include "worker/data/feature_inner.h"
#include "worker/data/numbers.h"
#include "worker/data/short_keys.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* An integer of up to 15 digits, exactly: the form of nearly every number of a log. */
static bool integer(const struct cell *cell, double *out)
{
    const char *p = cell->text, *end = p + cell->bytes;
    bool negative = p < end && *p == '-';
    p += negative;
    if (p == end || end - p > 15)
        return false;
    int64_t value = 0;
    for (; p < end; p++) {
        unsigned digit = (unsigned)(unsigned char)*p - '0';
        if (digit > 9)
            return false;
        value = value * 10 + digit;
    }
    *out = (double)(negative ? -value : value);
    return true;
}

/* An integer of up to four digits, the form of most numbers; an empty cell is 0. UINT32_MAX: the
 * cell has another form. */
static inline uint32_t small_integer(const struct cell *cell)
{
    uint32_t value = 0;
    if (cell->bytes > 4)
        return UINT32_MAX;
    for (uint32_t i = 0; i < cell->bytes; i++) {
        uint32_t digit = (uint32_t)(unsigned char)cell->text[i] - '0';
        if (digit > 9)
            return UINT32_MAX;
        value = value * 10 + digit;
    }
    return value;
}

/* Removes blanks around a number. */
static struct cell trimmed(const struct cell *cell)
{
    struct cell c = *cell;
    for (; c.bytes > 0 && (*c.text == ' ' || *c.text == '\t'); c.text++)
        c.bytes--;
    while (c.bytes > 0 && (c.text[c.bytes - 1] == ' ' || c.text[c.bytes - 1] == '\t'))
        c.bytes--;
    return c;
}

bool feature_number(const struct cell *given, double *out)
{
    char text[64], *end;
    if (integer(given, out))
        return true;
    const struct cell tight = trimmed(given), *cell = &tight;
    if (cell->bytes == 0 || cell->bytes >= sizeof text)
        return false;
    for (uint32_t i = 0; i < cell->bytes; i++) {
        /* strtod would also accept blanks, hexadecimal, inf and nan */
        char c = cell->text[i];
        if (!((c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E'))
            return false;
    }
    memcpy(text, cell->text, cell->bytes);
    text[cell->bytes] = '\0';
    *out = strtod(text, &end);
    return *end == '\0' && isfinite(*out);
}

static bool is_word(const struct cell *cell, const char *word)
{
    return strlen(word) == cell->bytes && strncasecmp(word, cell->text, cell->bytes) == 0;
}

bool feature_label(const struct cell *given, double *out)
{
    if (feature_number(given, out))
        return true;
    const struct cell cell = trimmed(given);
    *out = is_word(&cell, "true");
    return *out > 0 || is_word(&cell, "false");
}

/* ln(y), y >= 1: y = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(s), s = (m - 1) / (m +
 * 1), |s| < 0.172. Eight terms of the series leave an error under 1e-13. */
static double natural_log(double y)
{
    uint64_t bits;
    SHOAL_ASSERT(y >= 1);
    memcpy(&bits, &y, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent++;
    }
    double s = (m - 1.0) / (m + 1.0), q = s * s;
    double series = 1.0 / 15;
    series = series * q + 1.0 / 13;
    series = series * q + 1.0 / 11;
    series = series * q + 1.0 / 9;
    series = series * q + 1.0 / 7;
    series = series * q + 1.0 / 5;
    series = series * q + 1.0 / 3;
    series = series * q + 1.0;
    return (double)exponent * 0.6931471805599453 + 2.0 * s * series;
}

float feature_log1p(double x)
{
    double size = x < 0 ? -x : x;
    if (size < 1e-4) { /* 1 + size would lose its low digits */
        double log = size - size * size / 2 + size * size * size / 3;
        return (float)(x < 0 ? -log : log);
    }
    double log = natural_log(1.0 + size);
    return (float)(x < 0 ? -log : log);
}

uint32_t feature_bucket(double x, char *out)
{
    if (x == 0) {
        out[0] = '0';
        return 1;
    }
    int exponent; /* |x| = m 2^exponent, m in [1/2, 1) */
    frexp(x, &exponent);
    int n = snprintf(out, 8, "%c%d", x < 0 ? '-' : '+', exponent - 1);
    SHOAL_ASSERT(n > 1 && n < 8);
    return (uint32_t)n;
}

int feature_number_cell(const struct features *f, const struct feature_use *use,
                        const struct cell *cell, double *out, char *reason)
{
    bool whole_only = f->format->whole_numbers;
    if (integer(cell, out) || (!whole_only && feature_number(cell, out)))
        return 0;
    return bad_cell(f, whole_only ? "no integer of at most 15 digits" : "no number", use->column,
                    cell, bad_cell_number_remedy(cell), reason);
}

/* The input of a plain number. An empty cell is 0. */
static int numeric_value(const struct features *f, const struct feature_use *use,
                         const struct cell *cell, float *out, char *reason)
{
    double x = 0;
    uint32_t small = small_integer(cell);
    if (small < FEATURE_LOG1P_TABLE) {
        if (use->transform == NUMBER_LOG1P)
            *out = f->log1p[small];
        else
            *out = (float)small;

        return 0;
    }
    int rc = feature_number_cell(f, use, cell, &x, reason);
    if (rc != 0)
        return rc;
    if (use->transform == NUMBER_LOG1P) {
        *out = feature_log1p(x);
        return 0;
    }
    if (x > FLT_MAX || x < -FLT_MAX)
        return bad_cell(f, "a number too large for a float", use->column, cell, "", reason);
    *out = (float)x;
    return 0;
}

/* Reads all numeric inputs; most are integers. */
static int numeric_values(const struct features *f, const struct cell *cells, float *out,
                          char *reason)
{
    for (uint32_t i = 0; i < f->shape.numerics; i += NUMBERS_GROUP) {
        uint32_t left = f->shape.numerics - i, count = MIN(left, NUMBERS_GROUP);
        uint32_t rest;
        if (f->wide)
            rest = numbers_read(cells, &f->numeric[i], count, &out[i]);
        else
            rest = (1u << count) - 1;
        rest |= f->apart[i / NUMBERS_GROUP];
        for (; rest != 0; rest &= rest - 1) {
            uint32_t at = i + (uint32_t)__builtin_ctz(rest);
            const struct feature_use *use = &f->numeric[at];
            const struct cell *cell = &cells[use->column];
            int rc;
            if (use->at == FEATURE_PLAIN)
                rc = numeric_value(f, use, cell, &out[at], reason);
            else
                rc = feature_scaled(f, use, cell, &out[at], reason);
            if (rc != 0)
                return rc;
        }
    }
    return 0;
}

/* The key of a bucketed number, or of a cross. */
static int made_key(const struct features *f, const struct feature_use *use,
                    const struct cell *cells, uint64_t *key, char *reason)
{
    if (use->type == COLUMN_CROSS)
        return feature_cross_key(f, use, cells, key, reason);
    return feature_bucket_key(f, use, &cells[use->column], key, reason);
}

/* Keys where every field has exactly one value; most cells are short. */
static int single_keys(const struct features *f, const struct cell *cells, struct example *out,
                       char *reason)
{
    for (uint32_t i = 0; i < f->shape.fields; i += KEYS_GROUP) {
        uint32_t left = f->shape.fields - i, count = MIN(left, KEYS_GROUP);
        uint32_t rest = short_keys_read(cells, &f->field[i], count, &out->key[i]);
        for (; rest != 0; rest &= rest - 1) {
            uint32_t at = i + (uint32_t)__builtin_ctz(rest);
            const struct feature_use *use = &f->field[at];
            const struct cell *cell = &cells[use->column];
            int rc;
            if (use->type == COLUMN_CATEGORY)
                rc = feature_value_key(f, use, cell, &out->key[at], reason);
            else
                rc = made_key(f, use, cells, &out->key[at], reason);
            if (rc != 0)
                return rc;
        }
    }
    for (uint32_t i = 0; out->count != NULL && i < f->shape.fields; i++)
        out->count[i] = 1;
    out->keys = f->shape.fields;
    return 0;
}

static int field_keys(const struct features *f, const struct cell *cells, struct example *out,
                      char *reason)
{
    uint64_t *key = out->key;
    float *weight = f->weighted ? out->value_weight : NULL;
    if (f->wide && !f->multi)
        return single_keys(f, cells, out, reason);
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        const struct feature_use *use = &f->field[i];
        const struct cell *cell = &cells[use->column];
        uint32_t count = 1;
        int rc;
        if (weight != NULL)
            weight[0] = 1.0f;
        if (use->type == COLUMN_CATEGORY)
            rc = feature_value_key(f, use, cell, key, reason);
        else if (use->type == COLUMN_MULTI)
            rc = feature_multi_keys(f, i, cells, key, weight, &count, reason);
        else
            rc = made_key(f, use, cells, key, reason);
        if (rc != 0)
            return rc;
        key += count;
        if (weight != NULL)
            weight += count;
        if (out->count != NULL)
            out->count[i] = count;
    }
    out->keys = (uint32_t)(key - out->key);
    return 0;
}

/* Reads the label of task t. With several labels an empty one is missing: NaN. */
static int label_value(const struct features *f, uint32_t t, const struct cell *cell, float *out,
                       char *reason)
{
    const struct cell *at = &cell[f->label[t]];
    bool real = f->real >> t & 1;
    double value;
    *out = NAN;
    if (at->bytes == 0 && f->shape.tasks > 1)
        return 0;
    if (!feature_label(at, &value))
        return bad_cell(f, "no number as label", f->label[t], at,
                        bad_cell_label_remedy(at, f->shape.tasks, real), reason);
    if (real && !(fabs(value) <= (double)FLT_MAX))
        return bad_cell(f, "a number too large for a float", f->label[t], at, "", reason);
    *out = real ? (float)value : (float)(value > f->label_above);
    return 0;
}

/* Reads the labels, of which one must be there; *positive: one of them is above 0. */
static int labels(const struct features *f, const struct cell *cell, float *label, bool *positive,
                  char *reason)
{
    bool any = false;
    *positive = false;
    if (f->predict) /* a prediction's lines may have labels or not */
        memset(label, 0, f->shape.tasks * sizeof *label);
    if (f->predict)
        return 0;
    for (uint32_t i = 0; i < f->shape.tasks; i++) {
        int rc = label_value(f, i, cell, &label[i], reason);
        if (rc != 0)
            return rc;
        any |= !isnan(label[i]);
        *positive |= label[i] > 0;
    }
    if (any)
        return 0;
    return bad_cell(f, "no label", f->label[0], &cell[f->label[0]],
                    "and the others are empty too; take lines without any label out", reason);
}

static int weight_value(const struct features *f, const struct cell *cells, float *out,
                        char *reason)
{
    const struct cell *cell = &cells[f->weight];
    double x;
    if (!feature_number(cell, &x) || x > FLT_MAX)
        return bad_cell(f, "no finite number as weight", f->weight, cell, "", reason);
    if (x < 0)
        return bad_cell(f, "a negative weight", f->weight, cell, "", reason);
    *out = (float)x;
    return 0;
}

static int time_value(const struct features *f, const struct cell *cells, uint32_t *out,
                      char *reason)
{
    const struct cell *cell = &cells[f->time];

    if (feature_time(cell, &f->time_form, &f->zone, out))
        return 0;

    return bad_cell(f, "no event time", f->time, cell, feature_time_remedy(cell, &f->time_form),
                    reason);
}

uint64_t features_sample(const struct features *f, const struct cell *cell)
{
    return hash_bytes(cell[f->sample].text, cell[f->sample].bytes, 0);
}

/* Hashes of the cells that evaluation groups by and samples are drawn by, as text, whatever type
 * their columns have. */
static void group_values(const struct features *f, const struct cell *cells,
                         const struct example *out)
{
    if (out->group != NULL)
        *out->group = hash_bytes(cells[f->group].text, cells[f->group].bytes, 0);
    for (uint32_t i = 0; out->by != NULL && i < f->by_count; i++)
        out->by[i] = hash_bytes(cells[f->by[i]].text, cells[f->by[i]].bytes, 0);
    if (out->sample != NULL)
        *out->sample = features_sample(f, cells);
}

int features_example(const struct features *f, const struct cell *cell, struct example *out,
                     char *reason)
{
    bool positive;
    int rc = labels(f, cell, out->label, &positive, reason);
    if (rc != 0)
        return rc;
    out->dropped = out->positives_only && !positive;
    out->keys = 0;
    if (out->dropped)
        return 0;
    if (f->weight != FEATURE_NO_COLUMN)
        rc = weight_value(f, cell, out->weight, reason);
    if (f->time != FEATURE_NO_COLUMN && rc == 0)
        rc = time_value(f, cell, out->time, reason);
    if (rc == 0)
        rc = numeric_values(f, cell, out->numeric, reason);
    if (rc != 0)
        return rc;
    group_values(f, cell, out);
    return field_keys(f, cell, out, reason);
}
