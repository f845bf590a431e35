/* curve.h: the training curve: what finished tasks said, in the order in which they were
 * reported, as at most COORD_CURVE_MAX points. A point sums `stride` reports; when all points are
 * taken, neighbours are joined two by two and the stride doubles: so a long job's curve is coarser,
 * not longer, and covers all of it. Pure. */
#ifndef SERVER_COORD_CURVE_H
#define SERVER_COORD_CURVE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_CURVE_MAX 1000u

/* One report, or the sum of several; as stored under "curve/INDEX". */
struct coord_point {
    uint64_t job;            /* number of it */
    uint32_t reports, epoch; /* summed; the last one's */
    uint64_t seen;           /* examples of training up to here, from the job's first on */
    double seconds;          /* of training up to here */
    double lr_scale;         /* the last one's */
    uint64_t examples, batches, skipped, measured, pulls;
    double loss, weight;           /* sums over examples; weight: of the examples' weights */
    double loss_task[LIMIT_TASKS]; /* of each label */
    /* sums over batches that were measured; over pulls, in clocks */
    double dense_norm, row_norm, staleness;
};
_Static_assert(sizeof(struct coord_point) == 184, "coord_point is stored");

struct coord_curve {
    struct coord_point *point; /* (COORD_CURVE_MAX), owned */
    uint32_t count, stride;
    struct coord_point open; /* reports for the next point */
};

enum coord_curve_change {
    COORD_CURVE_SAME,
    COORD_CURVE_POINT,
    COORD_CURVE_JOINED
}; /* the last point is new; all are */

int coord_curve_open(struct coord_curve *c, struct err *e);
void coord_curve_close(struct coord_curve *c);
enum coord_curve_change coord_curve_add(struct coord_curve *c, const struct coord_point *report);
/* After a restart: takes a stored point back, in order from the first; false: it is none of these
 * (of another job, or left over from before neighbours were joined), and neither are those behind
 * it. */
bool coord_curve_restore(struct coord_curve *c, uint64_t job, const struct coord_point *point);
/* Adds a later report (or sum of them) to a sum. */
void coord_point_add(struct coord_point *to, const struct coord_point *from);

#endif
