/* curve.c: points, joined when there are too many. */
#include "server/coord/curve.h"
#include "proto/base/assert.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(COORD_CURVE_MAX % 2 == 0, "neighbours are joined two by two");

int coord_curve_open(struct coord_curve *c, struct err *e)
{
    memset(c, 0, sizeof *c);
    c->stride = 1;
    c->point = calloc(COORD_CURVE_MAX, sizeof *c->point);
    return c->point == NULL ? err_set(e, SHOAL_E_NOMEM, "no memory for the training curve") : 0;
}

void coord_curve_close(struct coord_curve *c)
{
    free(c->point);
    memset(c, 0, sizeof *c);
}

void coord_point_add(struct coord_point *to, const struct coord_point *from)
{
    to->job = from->job;
    to->reports += from->reports;
    to->epoch = from->epoch;
    to->seen = from->seen;
    to->seconds = from->seconds;
    to->lr_scale = from->lr_scale;
    to->examples += from->examples;
    to->batches += from->batches;
    to->skipped += from->skipped;
    to->measured += from->measured;
    to->pulls += from->pulls;
    to->loss += from->loss;
    to->weight += from->weight;
    for (uint32_t t = 0; t < LIMIT_TASKS; t++)
        to->loss_task[t] += from->loss_task[t];
    to->dense_norm += from->dense_norm;
    to->row_norm += from->row_norm;
    to->staleness += from->staleness;
}

static void curve_join(struct coord_curve *c)
{
    for (uint32_t i = 0; i < c->count / 2; i++) {
        struct coord_point joined = c->point[2 * i];
        coord_point_add(&joined, &c->point[2 * i + 1]);
        c->point[i] = joined;
    }
    c->count /= 2;
    c->stride *= 2;
}

enum coord_curve_change coord_curve_add(struct coord_curve *c, const struct coord_point *report)
{
    coord_point_add(&c->open, report);
    if (c->open.reports < c->stride)
        return COORD_CURVE_SAME;
    bool full = c->count == COORD_CURVE_MAX;
    if (full)
        curve_join(c);
    if (c->open.reports < c->stride) /* joined: a point is twice as much now */
        return COORD_CURVE_JOINED;
    c->point[c->count++] = c->open;
    memset(&c->open, 0, sizeof c->open);
    return full ? COORD_CURVE_JOINED : COORD_CURVE_POINT;
}

bool coord_curve_restore(struct coord_curve *c, uint64_t job, const struct coord_point *point)
{
    if (point->job != job || point->reports == 0 || c->count == COORD_CURVE_MAX)
        return false;
    if (c->count > 0 && (point->reports != c->stride || point->seen < c->point[c->count - 1].seen))
        return false;
    SHOAL_ASSERT(c->count == 0 || c->stride == c->point[0].reports);
    c->stride = point->reports;
    c->point[c->count++] = *point;
    return true;
}
