/* feature_multi.c: keys and weights of the values of a multi cell.
 *
 * Each value takes at least one byte of its line, so a line's bytes are room enough for its
 * values. */
#include "worker/data/entries.h"
#include "worker/data/feature_inner.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A cell whose values are being read. */
struct multi {
    const struct features *f;
    const struct feature_use *use;
    const struct feature_padding *padding;
    uint64_t *key;
    float *weight; /* NULL: not wanted */
    uint32_t count;
    char *reason;
};

/* True when a piece of a multi cell is a value: neither empty nor padding. */
static inline bool is_value(const struct feature_padding *padding, const char *piece, size_t bytes)
{
    return bytes > 0 && (bytes != padding->bytes || memcmp(piece, padding->text, bytes) != 0);
}

static inline int value_add(struct multi *m, const struct cell *value, float weight)
{
    if (!is_value(m->padding, value->text, value->bytes))
        return 0;
    if (m->weight != NULL)
        m->weight[m->count] = weight;
    return feature_value_key(m->f, m->use, value, &m->key[m->count++], m->reason);
}

/* Keeps the last `last` values. */
static void last_keep(struct multi *m)
{
    uint32_t last = m->use->last, first = SAT_SUB(m->count, last);
    if (first == 0)
        return;
    memmove(m->key, m->key + first, last * sizeof *m->key);
    if (m->weight != NULL)
        memmove(m->weight, m->weight + first, last * sizeof *m->weight);
    m->count = last;
}

/* ---- values alone: "a|b" has two, "" none ---------------------------------------------------- */

/* The start of the last `last` values of a cell. */
static const char *multi_start(const struct feature_use *use, const struct feature_padding *padding,
                               const struct cell *cell)
{
    const char *start = cell->text, *end = start + cell->bytes, *from = end;
    SHOAL_ASSERT(use->last > 0 && use->last < cell->bytes);
    for (uint32_t count = 0; end > start;) {
        const char *before = memrchr(start, use->separator, (size_t)(end - start));
        const char *piece = start;
        if (before != NULL)
            piece = before + 1;
        if (is_value(padding, piece, (size_t)(end - piece))) {
            from = piece;
            if (++count == use->last)
                return from;
        }
        end = before != NULL ? before : start;
    }
    return from;
}

static int plain_keys(struct multi *m, const struct cell *cell)
{
    const char *p = cell->text, *end = p + cell->bytes;
    /* each value takes at least one byte, so a cell of fewer bytes has few enough */
    if (m->use->last < cell->bytes)
        p = multi_start(m->use, m->padding, cell);
    while (p < end) {
        const char *stop = memchr(p, m->use->separator, (size_t)(end - p));
        if (stop == NULL)
            stop = end;
        struct cell value = {p, (uint32_t)(stop - p)};
        if (value_add(m, &value, 1.0f) != 0)
            return SHOAL_E_DATA;
        p = stop + 1;
    }
    return 0;
}

/* ---- weights --------------------------------------------------------------------------------- */

#define EXACT_DIGITS 15u /* a number of so many digits, and a power of ten of as many, are exact */

/* The decimal number in [p, end). */
static bool weight_slow(const char *p, const char *end, float *out)
{
    struct cell cell = {p, (uint32_t)(end - p)};
    double x;
    if (!feature_number(&cell, &x) || fabs(x) > (double)FLT_MAX)
        return false;
    *out = (float)x;
    return true;
}

/* Reads the number at *at, which ends before `stop` or at `end`, and moves *at there. */
static inline bool weight_at(const char **at, const char *end, char stop, float *out)
{
    static const double ten[EXACT_DIGITS + 1] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const char *from = *at, *p = from + (from < end && *from == '-'), *first = p, *point = NULL;
    uint64_t number = 0;
    for (; p < end && p - first <= (ptrdiff_t)EXACT_DIGITS; p++) {
        unsigned digit = (unsigned)(unsigned char)*p - '0';
        if (digit <= 9)
            number = number * 10 + digit;
        else if (*p == '.' && point == NULL)
            point = p;
        else
            break;
    }
    uint32_t behind = point != NULL ? (uint32_t)(p - point - 1) : 0,
             digits = (uint32_t)(p - first) - (point != NULL);
    if (digits > 0 && digits <= EXACT_DIGITS && (p == end || *p == stop)) {
        double x = (double)number / ten[behind];
        *out = (float)(first > from ? -x : x);
        *at = p;
        return true;
    }
    const char *last = memchr(from, stop, (size_t)(end - from));
    *at = last != NULL ? last : end;
    return weight_slow(from, *at, out);
}

static int weight_refuse(const struct multi *m, const char *piece, const char *end, char stop)
{
    const char *last = memchr(piece, stop, (size_t)(end - piece));
    struct cell shown = {piece, (uint32_t)((last != NULL ? last : end) - piece)};
    uint32_t colons = 0;
    for (uint32_t i = 0; i < shown.bytes; i++)
        colons += shown.text[i] == ':';
    if (m->f->entries != ENTRIES_PLACES)
        return bad_cell(m->f, "no entry of the form index:value", m->use->column, &shown,
                        colons > 1 && m->f->entries != ENTRIES_FIELDS
                            ? "field:index:value is data.format: libffm"
                            : "",
                        m->reason);
    return bad_cell(m->f, "no number as weight behind the colon", m->use->column, &shown,
                    "without weighted the whole is a value", m->reason);
}

/* "a:0.5|b": the text before the last colon is the value; a value without a weight weighs 1. */
static int weighted_keys(struct multi *m, const struct cell *cell)
{
    const char *p = cell->text, *end = p + cell->bytes;
    while (p < end) {
        const char *stop = memchr(p, m->use->separator, (size_t)(end - p));
        if (stop == NULL)
            stop = end;
        const char *colon = memrchr(p, ':', (size_t)(stop - p));
        float weight = 1.0f;
        struct cell value = {p, (uint32_t)((colon != NULL ? colon : stop) - p)};
        if (colon != NULL) {
            const char *at = colon + 1;
            if (value.bytes == 0 || !weight_at(&at, stop, m->use->separator, &weight))
                return weight_refuse(m, p, end, m->use->separator);
        }
        if (value_add(m, &value, weight) != 0)
            return SHOAL_E_DATA;
        p = stop + 1;
    }
    return 0;
}

/* Reads the entry at *at, which ends before a blank or at `end`, and moves *at behind it. False: it
 * is neither index:value nor an index alone, whose value is 1. */
static inline bool entry_at(const char **at, const char *end, struct cell *index, float *weight)
{
    const char *from = *at, *p = entries_digits(from, end);
    bool good = p > from;
    *index = (struct cell){from, (uint32_t)(p - from)};
    *weight = 1.0f;
    if (good && p < end && *p == ':') {
        p++;
        good = weight_at(&p, end, ' ', weight);
    }
    *at = p;
    return good && (p == end || *p == ' ');
}

/* Finds the text of an entry's index when the entry is the column's; NULL: it is another's. The
 * format has checked the number before the first colon. */
static inline const char *entry_own(const struct multi *m, const char *p, const char *end,
                                    enum multi_form form)
{
    const char *colon = entries_digits(p, end);
    uint32_t number = entries_number(p, colon);
    SHOAL_ASSERT(number < CELLS_MAX);
    if (m->f->column_of[number] != m->use->column)
        return NULL;
    if (form == MULTI_OF_INDEX)
        return p;
    SHOAL_ASSERT(colon < end);
    return colon + 1;
}

/* "35:0.5 237 7:1", as libsvm and libffm have them. */
static int entries_keys(struct multi *m, const struct cell *cell, enum multi_form form)
{
    const char *p = cell->text, *end = p + cell->bytes;
    while (p < end) {
        const char *piece = p;
        float weight;
        struct cell value;
        if (*p == ' ') {
            p++;
            continue;
        }
        if (form != MULTI_ENTRIES) {
            p = entry_own(m, p, end, form);
            if (p == NULL) {
                p = memchr(piece, ' ', (size_t)(end - piece));
                SHOAL_ASSERT(p != NULL); /* a cell ends with an entry of its own */
                continue;
            }
        }
        if (!entry_at(&p, end, &value, &weight))
            return weight_refuse(m, piece, end, ' ');
        if (value_add(m, &value, weight) != 0)
            return SHOAL_E_DATA;
    }
    return 0;
}

int feature_multi_keys(const struct features *f, uint32_t field, const struct cell *cells,
                       uint64_t *key, float *weight, uint32_t *count, char *reason)
{
    const struct feature_use *use = &f->field[field];
    enum multi_form form = (enum multi_form)f->multi_form[field];
    struct multi m = {.f = f,
                      .use = use,
                      .padding = &f->padding[field],
                      .key = key,
                      .weight = weight,
                      .reason = reason};
    int rc;
    if (form == MULTI_PLAIN)
        rc = plain_keys(&m, &cells[use->column]);
    else if (form == MULTI_WEIGHTED)
        rc = weighted_keys(&m, &cells[use->column]);
    else
        rc = entries_keys(&m, &cells[use->column], form);
    last_keep(&m);
    *count = m.count;
    return rc;
}
