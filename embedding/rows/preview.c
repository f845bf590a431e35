/* preview.c: a push whose result is wanted before it is applied. */
#include "embedding/rows/l2.h"
#include "embedding/rows/rules.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/assert.h"

#include <string.h>

void table_preview(struct table *t, uint64_t key, const float *gradient, float lr_scale,
                   float *weights)
{
    struct tablet *tablet = table_tablet(t, key_mix(key));
    const float *stored = tablet_find(tablet, &t->shape, key);
    float *row = t->fresh;
    struct opt_step step;
    SHOAL_ASSERT(!t->ruled && !t->ages && t->wide == NULL);
    if (stored != NULL)
        memcpy(row, stored, ((size_t)t->schema.width + t->state_floats) * sizeof *row);
    else
        rules_row_begin(t, key, row);

    optimizer_step(&t->schema, lr_scale, &step);
    if (t->pulled_back != NULL) {
        tablet->batches++; /* as the push will count itself */
        gradient = l2_gradient(t, key, row, gradient, &step);
        tablet->batches--;
    }
    t->optimizer.update(row, gradient, &step);
    memcpy(weights, row, t->schema.width * sizeof *weights);
}
