/* rules.c: the steps of rules.h, a function for each. */
#include "embedding/rows/rules.h"
#include "proto/base/key.h"

#include "embedding/rows/l2.h"
#include "embedding/rows/rules/stats.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"
#include "proto/job/gradient.h"

#include <string.h>

static bool has_stages(const struct table *t)
{
    return t->schema.rules.vector_score > 0 && t->schema.zero_first < t->schema.width;
}

void rules_row_begin(const struct table *t, uint64_t key, float *stored)
{
    const struct table_schema *s = &t->schema;
    float *row = table_open_new(t, stored);
    table_initial(t, key, row);
    if (has_stages(t))
        memset(row + s->zero_first, 0, (s->width - s->zero_first) * sizeof *row);
    t->optimizer.start(row, s);
    if (t->pulled_back != NULL)
        row[t->last_at] = LAST_NEVER;
    if (s->rules.stats != 0)
        stats_write(row + t->wide_stats_at,
                    &(struct row_stats){.flags = has_stages(t) ? 0 : ROW_HAS_VECTOR});
    table_close_new(t, stored);
}

static void vector_begin(struct table *t, uint64_t key, float *row)
{
    const struct table_schema *s = &t->schema;
    const uint32_t first = s->zero_first, floats = s->width - first;
    /* the weights, then the blocks of element-wise state */
    const uint32_t blocks = 1 + optimizer_facts(s->optimizer.kind)->per_element;
    SHOAL_ASSERT((blocks - 1) * s->width <= t->state_floats);
    table_initial(t, key, t->fresh);
    t->optimizer.start(t->fresh, s);
    for (uint32_t block = 0; block < blocks; block++) {
        uint32_t at = block * s->width + first;
        memcpy(row + at, t->fresh + at, floats * sizeof *row);
    }
}

static void scale(struct table *t, const float *gradient, float factor)
{
    for (uint32_t i = 0; i < t->schema.width; i++)
        t->changed[i] = gradient[i] * factor;
}

/* The factor that scales the gradient to norm_max. */
static float clip_factor(struct table *t, const float *gradient)
{
    const struct row_rules *r = &t->schema.rules;
    if (r->norm_max <= 0 || r->norm_refuse != 0)
        return 1.0f;
    double norm = gradient_norm(gradient, t->schema.width);
    if (norm <= (double)r->norm_max)
        return 1.0f;
    t->counts.clipped++;
    return (float)((double)r->norm_max / norm);
}

static const float *gradient_of(struct table *t, uint64_t key, float *row, const float *values,
                                bool staged, const struct opt_step *step)
{
    const struct row_rules *r = &t->schema.rules;
    const uint32_t width = t->schema.width;
    const float *gradient = values;
    float factor = clip_factor(t, values);
    if (factor < 1.0f) {
        scale(t, gradient, factor);
        gradient = t->changed;
    }
    if (r->by_shows != 0 && values[width] > 1.0f) {
        for (uint32_t i = 0; i < width; i++)
            t->changed[i] = gradient[i] / values[width];
        gradient = t->changed;
    }
    if (t->pulled_back != NULL)
        gradient = l2_gradient(t, key, row, gradient, step);
    if (staged) {
        if (gradient != t->changed)
            memcpy(t->changed, gradient, t->schema.zero_first * sizeof *t->changed);
        memset(t->changed + t->schema.zero_first, 0,
               (width - t->schema.zero_first) * sizeof *t->changed);
        gradient = t->changed;
    }
    return gradient;
}

static void clamp(float *weights, uint32_t width, float most)
{
    for (uint32_t i = 0; i < width; i++)
        weights[i] = weights[i] > most ? most : weights[i] < -most ? -most : weights[i];
}

void rules_push(struct table *t, uint64_t key, float *row, const float *values,
                const struct opt_step *step)
{
    const struct row_rules *r = &t->schema.rules;
    const uint32_t width = t->schema.width;
    const struct tablet_life *life = table_tablet(t, key_mix(key))->life;
    struct row_stats stats = {.flags = ROW_HAS_VECTOR};
    if (r->stats != 0) {
        stats = stats_read(row + t->wide_stats_at);
        stats.show += values[width];
        stats.click += values[width + 1];
        stats.delta_score += stats_score(r, values[width], values[width + 1]);
        stats.time = life != NULL ? life->clock : 0;
    }
    bool staged = (stats.flags & ROW_HAS_VECTOR) == 0;
    t->optimizer.update(row, gradient_of(t, key, row, values, staged, step), step);
    if (staged && stats_score(r, stats.show, stats.click) >= r->vector_score) {
        vector_begin(t, key, row);
        stats.flags |= ROW_HAS_VECTOR;
    }
    if (r->weight_max > 0)
        clamp(row, width, t->weight_max);
    if (r->stats != 0)
        stats_write(row + t->wide_stats_at, &stats);
}
