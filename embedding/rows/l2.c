/* l2.c: a tablet counts batches, and a row has the count at its last push; the difference is the
 * number of l2 steps it missed. */
#include "embedding/rows/l2.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"

#define L2_BATCHES_MAX 1024.0f /* limit for a row that was not used for a long time */

void l2_count(struct table *t, const struct push_args *args)
{
    for (uint32_t i = args->tablet_first; i < args->tablet_first + args->tablet_count; i++)
        if (args->take == NULL || args->take[i] != 0)
            t->tablets[i].batches += args->steps != NULL ? args->steps[i] : args->step;
}

static float within_limit(float x)
{
    return x > LIMIT_GRADIENT ? LIMIT_GRADIENT : x < -LIMIT_GRADIENT ? -LIMIT_GRADIENT : x;
}

const float *l2_gradient(const struct table *t, uint64_t key, float *row, const float *gradient,
                         const struct opt_step *step)
{
    float *last = row + t->last_at, now = (float)table_tablet(t, key_mix(key))->batches,
          batches = now - *last;
    /* a new row, or a difference below a float's precision */
    if (*last == LAST_NEVER || batches <= 0) {
        *last = now;
        return gradient;
    }
    *last = now;
    float factor = t->schema.optimizer.l2 * MIN(batches, L2_BATCHES_MAX);
    if (optimizer_facts(t->schema.optimizer.kind)->plain && factor * step->lr > 1.0f)
        factor = 1.0f / step->lr;
    for (uint32_t i = 0; i < t->schema.width; i++)
        t->pulled_back[i] = within_limit(gradient[i] + factor * row[i]);
    return t->pulled_back;
}
