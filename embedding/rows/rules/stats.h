/* stats.h: figures derived from a row's statistics. Pure functions, the same bits everywhere;
 * struct row_stats is in proto/job/schema.h.
 *
 * The score is that of Paddle's CtrCommonAccessor (ShowClickScore in table/ctr_accessor.cc): a show
 * without a click counts score_show, a click score_click. */
#ifndef EMBEDDING_ROWS_RULES_STATS_H
#define EMBEDDING_ROWS_RULES_STATS_H

#include "proto/job/schema.h"

#include <string.h>

static inline float stats_score(const struct row_rules *r, float show, float click)
{
    return r->score_show * (show - click) + r->score_click * click;
}

/* `at`: the row's first weight plus schema_stats_at. */
static inline struct row_stats stats_read(const float *at)
{
    struct row_stats s;
    memcpy(&s, at, sizeof s);
    return s;
}

static inline void stats_write(float *at, const struct row_stats *s)
{
    memcpy(at, s, sizeof *s);
}

#endif
