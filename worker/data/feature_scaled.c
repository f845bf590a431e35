/* feature_scaled.c: values of numbers that have a scale, of buckets and of crosses. */
#include "worker/data/feature_inner.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "worker/data/bad_cell.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

/* The scale of a number; NULL: it has none. */
static const struct scale *scale_of(const struct features *f, const struct feature_use *use)
{
    if (use->at == FEATURE_PLAIN)
        return NULL;
    SHOAL_ASSERT(use->at < f->scales && f->scale[use->at].known);
    return &f->scale[use->at];
}

int feature_scaled(const struct features *f, const struct feature_use *use, const struct cell *cell,
                   float *out, char *reason)
{
    *out = 0;
    if (use->type == COLUMN_MISSING) {
        *out = cell->bytes == 0 ? 1.0f : 0.0f;
        return 0;
    }
    const struct scale *s = scale_of(f, use);
    double x = s->fill;
    if (cell->bytes == 0 && !s->filled)
        return 0;
    int rc = 0;
    if (cell->bytes > 0)
        rc = feature_number_cell(f, use, cell, &x, reason);
    if (rc != 0)
        return rc;
    if (s->transform == NUMBER_LOG1P) {
        *out = feature_log1p(x);
        return 0;
    }
    if (s->transform == NUMBER_STANDARD)
        x = scale_standard(s, x);
    if (x > FLT_MAX || x < -FLT_MAX)
        return bad_cell(f, "a number too large for a float", use->column, cell, "", reason);
    *out = (float)x;
    return 0;
}

uint32_t feature_bucket_text(const struct features *f, const struct feature_use *use, double x,
                             char out[FEATURE_BUCKET_TEXT])
{
    const struct scale *s = scale_of(f, use);
    if (s == NULL || (s->borders == 0 && s->quantiles == 0))
        return feature_bucket(x, out);
    int n = snprintf(out, FEATURE_BUCKET_TEXT, "%u", scale_bucket(s, x));
    return (uint32_t)n;
}

/* The text that a number's cell has as a value: of an empty cell it is empty, unless a number
 * stands for it. */
static int bucket_value(const struct features *f, const struct feature_use *use,
                        const struct cell *cell, char text[FEATURE_BUCKET_TEXT], uint32_t *bytes,
                        char *reason)
{
    const struct scale *s = scale_of(f, use);
    double x = s != NULL ? s->fill : 0;
    int rc = 0;
    *bytes = 0;
    if (cell->bytes == 0 && (s == NULL || !s->filled))
        return 0;
    if (cell->bytes > 0)
        rc = feature_number_cell(f, use, cell, &x, reason);
    if (rc == 0)
        *bytes = feature_bucket_text(f, use, x, text);
    return rc;
}

int feature_bucket_key(const struct features *f, const struct feature_use *use,
                       const struct cell *cell, uint64_t *key, char *reason)
{
    char text[FEATURE_BUCKET_TEXT];
    uint32_t bytes;
    int rc = bucket_value(f, use, cell, text, &bytes, reason);
    if (rc == 0)
        *key = key_of_value(use->key_field, text, bytes);
    return rc;
}

/* The key of a cross is that of its parts' hashes, 8 bytes each: of a value as it stands in the
 * cell, of a number its bucket's text. */
int feature_cross_key(const struct features *f, const struct feature_use *use,
                      const struct cell *cells, uint64_t *key, char *reason)
{
    SHOAL_ASSERT(use->at < f->crosses);
    const struct feature_cross *x = &f->cross[use->at];
    uint64_t hash[CROSS_PARTS];
    for (uint32_t i = 0; i < x->parts; i++) {
        const struct cell *cell = &cells[x->part[i].column];
        char text[FEATURE_BUCKET_TEXT];
        struct cell value = *cell;
        int rc = 0;
        if (x->part[i].type == COLUMN_NUMBER) {
            value.text = text;
            rc = bucket_value(f, &x->part[i], cell, text, &value.bytes, reason);
        }
        if (rc != 0)
            return rc;
        hash[i] = hash_bytes(value.text, value.bytes, 0);
    }
    *key = key_of_value(use->key_field, hash, x->parts * sizeof hash[0]);
    return 0;
}
