/* column_seen.c: distinct values of a column by hash, each with its number of rows and of positive
 * rows. */
#include "worker/data/column_seen.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 64u
#define OWN_ROWS 100u /* with fewer lines, distinct values in all of them say little */
/* rows of each label; with fewer, a column may predict the label by chance */
#define LABEL_ROWS 10u

void column_seen_free(struct column_seen *c)
{
    free(c->value);
    *c = (struct column_seen){0};
}

static struct column_value *slot_of(struct column_value *value, uint32_t slots, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & (slots - 1);
    while (value[at].rows != 0 && value[at].hash != hash)
        at = (at + 1) & (slots - 1);
    return &value[at];
}

static uint64_t empty_hash(void)
{
    return hash_bytes("", 0, 0);
}

/* The slots are found by the low bits, so that the high ones are free to choose by. */
static bool is_kept(const struct column_seen *c, uint64_t hash)
{
    return c->thinned == 0 || hash >> (64 - c->thinned) == 0;
}

void column_seen_limit(struct column_seen *c, uint32_t slots)
{
    SHOAL_ASSERT(c->slots == 0 && slots >= SLOTS_FIRST && (slots & (slots - 1)) == 0);
    c->slots_most = slots;
}

/* Forgets about half of the values. */
static int thin(struct column_seen *c)
{
    struct column_value *kept = calloc(c->slots, sizeof *kept);
    if (kept == NULL)
        return SHOAL_E_NOMEM;
    c->thinned++;
    c->filled = c->distinct = 0;
    for (uint32_t i = 0; i < c->slots; i++) {
        const struct column_value *v = &c->value[i];
        if (v->rows == 0 || !is_kept(c, v->hash))
            continue;
        *slot_of(kept, c->slots, v->hash) = *v;
        c->filled++;
        c->distinct += v->hash != empty_hash();
    }
    free(c->value);
    c->value = kept;
    return 0;
}

static int grow(struct column_seen *c)
{
    uint32_t slots = SLOTS_FIRST;
    if (c->slots != 0 && c->slots == c->slots_most)
        return thin(c);
    if (c->slots != 0)
        slots = 2 * c->slots;
    struct column_value *wide = calloc(slots, sizeof *wide);
    if (wide == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t i = 0; i < c->slots; i++)
        if (c->value[i].rows != 0)
            *slot_of(wide, slots, c->value[i].hash) = c->value[i];
    free(c->value);
    c->value = wide;
    c->slots = slots;
    return 0;
}

static void example_take(struct column_seen *c, const struct cell *cell)
{
    if (c->examples == COLUMN_SEEN_EXAMPLES)
        return;
    char *to = c->example[c->examples++];
    uint32_t n;
    if (cell->bytes < COLUMN_SEEN_TEXT)
        n = cell->bytes;
    else
        n = COLUMN_SEEN_TEXT - 1;
    for (uint32_t i = 0; i < n; i++) /* control characters are not printed to a terminal */
        to[i] = (unsigned char)cell->text[i] >= ' ' && cell->text[i] != 127 ? cell->text[i] : '?';
    to[n] = '\0';
}

/* `cell` gives the text of an example; NULL: there is none. */
static int hash_add(struct column_seen *c, uint64_t hash, bool empty, const struct cell *cell,
                    bool positive)
{
    if (!is_kept(c, hash))
        return 0;
    if (c->filled >= c->slots / 4 * 3 && grow(c) != 0)
        return SHOAL_E_NOMEM;
    if (!is_kept(c, hash))
        return 0;
    struct column_value *v = slot_of(c->value, c->slots, hash);
    if (v->rows == 0) {
        v->hash = hash;
        c->filled++;
        c->distinct += !empty;
        if (!empty && cell != NULL)
            example_take(c, cell);
    }
    v->rows++;
    v->positives += positive;
    SHOAL_ASSERT(c->filled < c->slots && v->positives <= v->rows);
    return 0;
}

static int value_add(struct column_seen *c, const struct cell *cell, bool positive)
{
    return hash_add(c, hash_bytes(cell->text, cell->bytes, 0), cell->bytes == 0, cell, positive);
}

/* True for a number with digits behind the point; *zero: all of them are 0. */
static bool fraction(const struct cell *cell, bool *zero)
{
    const char *point = memchr(cell->text, '.', cell->bytes), *end = cell->text + cell->bytes;
    *zero = true;
    if (point == NULL)
        return false;
    for (const char *p = point + 1; p < end; p++)
        *zero = *zero && *p == '0';
    return point + 1 < end;
}

static void range_take(double x, bool first, double *least, double *most)
{
    if (first || x < *least)
        *least = x;

    if (first || x > *most)
        *most = x;
}

static void number_take(struct column_seen *c, const struct cell *cell, bool positive)
{
    bool zero;
    double x = 0;
    if (cell->bytes > 0 && !feature_number(cell, &x))
        return;
    range_take(x, c->ranged[positive]++ == 0, &c->least_of[positive], &c->most_of[positive]);
    if (cell->bytes == 0)
        return;
    range_take(x, c->numbers == 0, &c->least, &c->most);
    c->numbers++;
    if (!fraction(cell, &zero))
        return;
    c->fractions++;
    c->zeros += zero;
}

int column_seen_add(struct column_seen *c, const struct cell *cell, bool positive)
{
    number_take(c, cell, positive);
    c->cells++;
    c->empty += cell->bytes == 0;
    c->values += cell->bytes > 0;
    c->labels[positive]++;
    return value_add(c, cell, positive);
}

/* True for a value such as "3:0.5"; *fractional: its number has a fraction. */
static bool weighted(const struct cell *value, bool *fractional)
{
    const char *colon = memrchr(value->text, ':', value->bytes);
    bool zero;
    double x;
    if (colon == NULL || colon == value->text)
        return false;
    struct cell weight = {colon + 1, (uint32_t)(value->bytes - (size_t)(colon + 1 - value->text))};
    *fractional = fraction(&weight, &zero);
    return feature_number(&weight, &x);
}

int column_seen_add_multi(struct column_seen *c, const struct cell *cell, char separator,
                          const struct feature_padding *padding)
{
    const char *p = cell->text, *end = p + cell->bytes;
    uint64_t before = c->values;
    int rc = 0;
    c->cells++;
    c->lists += cell->bytes > 1 && p[0] == '[' && end[-1] == ']';
    while (p < end && rc == 0) {
        const char *stop = memchr(p, separator, (size_t)(end - p));
        if (stop == NULL)
            stop = end;
        struct cell value = {p, (uint32_t)(stop - p)};
        bool pads = value.bytes == padding->bytes && memcmp(p, padding->text, value.bytes) == 0;
        if (value.bytes > 0 && !pads) {
            bool fractional = false, weighs = weighted(&value, &fractional);
            c->weighted += weighs;
            c->weights += weighs && fractional;
            c->values++;
            rc = value_add(c, &value, false);
        }
        p = stop + 1;
    }
    c->empty += c->values == before;
    return rc;
}

int column_seen_add_key(struct column_seen *c, uint64_t key, bool empty, bool positive)
{
    c->cells++;
    c->empty += empty;
    c->values += !empty;
    c->labels[positive]++;
    return hash_add(c, hash_bytes(&key, sizeof key, 0), empty, NULL, positive);
}

int column_seen_add_keys(struct column_seen *c, const struct cell *cell, const uint64_t *key,
                         uint32_t count)
{
    int rc = 0;
    if (cell != NULL && count > 0)
        example_take(c, cell);
    c->cells++;
    c->empty += count == 0;
    c->values += count;
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = hash_add(c, hash_bytes(&key[i], sizeof key[i], 0), false, NULL, false);
    return rc;
}

int column_seen_add_number(struct column_seen *c, double x, bool positive)
{
    range_take(x, c->ranged[positive]++ == 0, &c->least_of[positive], &c->most_of[positive]);
    range_take(x, c->numbers++ == 0, &c->least, &c->most);
    return column_seen_add_key(c, hash_bytes(&x, sizeof x, 0), false, positive);
}

bool column_seen_own(const struct column_seen *c)
{
    if (c->values < OWN_ROWS || c->empty > c->cells / 10)
        return false;
    if (c->thinned == 0)
        return c->distinct == c->values;
    for (uint32_t i = 0; i < c->slots; i++)
        if (c->value[i].rows > 1 && c->value[i].hash != empty_hash())
            return false;
    return true;
}

static bool both_labels(const struct column_seen *c)
{
    return c->labels[0] >= LABEL_ROWS && c->labels[1] >= LABEL_ROWS;
}

/* A value seen once predicts nothing by itself; all such values together count as one value. */
bool column_seen_tells(const struct column_seen *c)
{
    uint64_t rows = 0, positives = 0;
    for (uint32_t i = 0; i < c->slots; i++) {
        const struct column_value *v = &c->value[i];
        if (v->rows > 1 && v->positives > 0 && v->positives < v->rows)
            return false;
        if (v->rows == 1) {
            rows++;
            positives += v->positives;
        }
    }
    return both_labels(c) && (positives == 0 || positives == rows);
}

bool column_seen_parts(const struct column_seen *c)
{
    return both_labels(c) && (c->most_of[0] < c->least_of[1] || c->most_of[1] < c->least_of[0]);
}
