/* schedule.c: learning rates by batch. */
#include "worker/train/schedule.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#define PI 3.14159265358979323846

/* cos of x in [0, pi], within 1e-15: Taylor series about 0 on [0, pi / 2], mirrored beyond. */
static double cosine(double x)
{
    double sign = 1.0, term = 1.0, sum = 1.0;
    SHOAL_ASSERT(x >= 0 && x <= PI);
    if (x > PI / 2) {
        x = PI - x;
        sign = -1.0;
    }
    for (int i = 2; i <= 24; i += 2) {
        term *= -x * x / ((double)i * (double)(i - 1));
        sum += term;
    }
    return sign * sum;
}

static double power(double base, uint64_t exponent)
{
    double result = 1.0;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            result *= base;
        base *= base;
    }
    return result;
}

float schedule_scale(const struct job *job, uint64_t batch)
{
    uint64_t warmup = 0, length = job->train.schedule.batches;
    if (!job->legend.learnt)
        warmup = job->train.warmup;
    uint64_t first = MAX(warmup, 1);
    double rest = 1.0 - job->train.schedule.floor, floor = job->train.schedule.floor;
    if (batch < warmup)
        return (float)((double)batch / (double)warmup);
    if (job->train.schedule.kind == SCHEDULE_CONSTANT || length == 0)
        return 1.0f;
    uint64_t n = 0;
    if (batch > first)
        n = batch - first;

    if (job->train.schedule.kind == SCHEDULE_STEP) {
        double scale = power(job->train.schedule.factor, n / length);
        return (float)MAX(scale, floor);
    }
    if (n >= length)
        return (float)floor;
    double part = (double)n / (double)length;
    if (job->train.schedule.kind == SCHEDULE_LINEAR)
        return (float)(floor + rest * (1.0 - part));
    return (float)(floor + rest * 0.5 * (1.0 + cosine(PI * part)));
}
