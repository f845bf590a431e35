/* gradient.c: looking for values that must not be pushed. */
#include "proto/job/gradient.h"

#include <math.h>

bool gradient_values_ok(const float *values, size_t count)
{
    int bad = 0;

    for (size_t i = 0; i < count; i++)
        bad |= !(fabsf(values[i]) <= LIMIT_GRADIENT); /* NaN compares false */
    return bad == 0;
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
    return !isfinite(x)                ? GRADIENT_NOT_FINITE
           : fabsf(x) > LIMIT_GRADIENT ? GRADIENT_TOO_LARGE
                                       : GRADIENT_GOOD;
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
        out->place = fabsf(row[i]) > fabsf(row[out->place]) ? i : out->place;
    out->value = row[out->place];
    return GRADIENT_NORM;
}

bool gradient_fault_find(const struct table_schema *s, const float *values, uint32_t key_count,
                         struct gradient_fault *out)
{
    uint32_t floats = schema_push_floats(s);
    bool norm = s->rules.norm_refuse != 0 && s->rules.norm_max > 0;

    *out = (struct gradient_fault){.why = GRADIENT_GOOD};
    if (!norm && gradient_values_ok(values, (size_t)key_count * floats))
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
