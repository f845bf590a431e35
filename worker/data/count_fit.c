/* count_fit.c: a grid over shape and scale, then halving steps around its best point. */
#include "worker/data/count_fit.h"

#include <math.h>
#include <stdbool.h>

const uint32_t count_fit_threshold[COUNT_THRESHOLDS] = {1, 2, 3, 5, 10};

/* How much each figure counts: what a prediction far ahead hangs on is the rare keys. */
static const double weight[COUNT_THRESHOLDS] = {0, 4, 2, 1, 0.5};
#define WEIGHT_HALF 4.0
#define WEIGHT_QUARTER 2.0

#define GRID 46
#define HALVINGS 14
#define SHAPE_LEAST (-4.0) /* both are sought as logarithms: of a + 1, and of c */
#define SHAPE_MOST 7.0
#define SCALE_LEAST (-9.0)
#define SCALE_MOST 14.0

/* Keys with so many appearances at least after t samples, in units of C gamma(a + 1). */
static void curve(double a, double c, double t, double out[COUNT_THRESHOLDS])
{
    double q = 1 + c * t, p = c * t / q, power = exp(-a * log(q));
    double left = fabs(a) < 1e-9 ? log(q) : (1 - power) / a, f = p * power;
    uint32_t i = 0;
    for (uint32_t x = 1; i < COUNT_THRESHOLDS; x++) {
        if (x == count_fit_threshold[i])
            out[i++] = left;
        left -= f;
        f *= (x + a) / (x + 1) * p;
    }
}

static double squared(double x)
{
    return x * x;
}

/* Sum of squared differences of logarithms, all figures taken by the distinct keys. */
static double distance(const struct count_curve *o, double shape, double scale)
{
    double a = exp(shape) - 1, c = exp(scale), now[COUNT_THRESHOLDS], part[COUNT_THRESHOLDS],
           sum = 0;
    double least = 1 / o->now[0]; /* what one key is worth: keeps counts of none finite */
    curve(a, c, 1, now);
    for (uint32_t i = 1; i < COUNT_THRESHOLDS; i++) {
        double model = now[i] > 0 ? now[i] / now[0] : 0;
        sum += weight[i] * squared(log(model + least) - log(o->now[i] / o->now[0] + least));
    }
    curve(a, c, 0.5, part);
    sum += WEIGHT_HALF * squared(log(part[0] / now[0]) - log(o->half / o->now[0]));
    curve(a, c, 0.25, part);
    return sum + WEIGHT_QUARTER * squared(log(part[0] / now[0]) - log(o->quarter / o->now[0]));
}

struct point {
    double shape, scale, distance;
};

static void try_point(const struct count_curve *o, double shape, double scale, struct point *best)
{
    double d = distance(o, shape, scale);
    if (d < best->distance)
        *best = (struct point){shape, scale, d};
}

static struct point nearest(const struct count_curve *o)
{
    double shape_step = (SHAPE_MOST - SHAPE_LEAST) / (GRID - 1),
           scale_step = (SCALE_MOST - SCALE_LEAST) / (GRID - 1);
    struct point best = {0, 0, INFINITY};
    for (int i = 0; i < GRID; i++)
        for (int j = 0; j < GRID; j++)
            try_point(o, SHAPE_LEAST + i * shape_step, SCALE_LEAST + j * scale_step, &best);
    for (int n = 0; n < HALVINGS; n++) {
        struct point at = best;
        shape_step /= 2;
        scale_step /= 2;
        for (int i = -1; i <= 1; i++)
            for (int j = -1; j <= 1; j++)
                try_point(o, at.shape + i * shape_step, at.scale + j * scale_step, &best);
    }
    return best;
}

void count_fit_extrapolate(const struct count_curve *c, double factor, double out[COUNT_THRESHOLDS])
{
    bool usable = c->quarter > 0 && c->half > 0 && factor > 1;
    struct point p = {0};
    double now[COUNT_THRESHOLDS], then[COUNT_THRESHOLDS];
    if (usable) {
        p = nearest(c);
        curve(exp(p.shape) - 1, exp(p.scale), 1, now);
        curve(exp(p.shape) - 1, exp(p.scale), factor, then);
        usable = p.distance < INFINITY;
    }
    for (uint32_t i = 0; i < COUNT_THRESHOLDS; i++) {
        double grown = usable ? c->now[0] * then[i] / now[0] : c->now[i];
        out[i] = grown > c->now[i] ? grown : c->now[i];
    }
}
