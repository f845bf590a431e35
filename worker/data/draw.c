/* draw.c: see draw.h. */
#include "worker/data/draw.h"

#include "proto/base/rng.h"

#define NEGATIVES_SALT 0x6e65676174697665ULL
#define ROWS_SALT 0x73616d706c652d72ULL
#define VALUES_SALT 0x73616d706c652d76ULL

/* A share times 2^64; 0: all. */
static uint64_t share_of(double share)
{
    if (share > 0 && share < 1)
        return (uint64_t)(share * 0x1p64);

    return 0;
}

struct draw draw_of(const struct job *job)
{
    return (struct draw){.sample = share_of(job->data.sample),
                         .negatives = share_of(job->data.negatives),
                         .by = job->data.sample_by[0] != '\0'};
}

bool draw_leaves(const struct draw *d, uint64_t row, const uint64_t *value)
{
    if (d->sample == 0 || d->epoch == 0)
        return false;
    struct rng rng;
    if (value != NULL) /* a value is in the sample in every object, or in none */
        rng = rng_of(d->seed ^ VALUES_SALT, 0, *value);
    else
        rng = rng_of(d->seed ^ d->salt ^ ROWS_SALT, 0, row);
    return rng_next(&rng) >= d->sample;
}

bool draw_positives_only(const struct draw *d, uint64_t row)
{
    if (d->negatives == 0 || d->epoch == 0)
        return false;
    struct rng rng = rng_of(d->seed ^ d->salt ^ NEGATIVES_SALT, d->epoch, row);
    return rng_next(&rng) >= d->negatives;
}
