/* synth_teacher.c: the teacher of the Criteo-like log, and rows drawn from it. */
#include "deploy/cli/synth_row.h"

#include "proto/base/minmax.h"
#include "proto/base/rng.h"

#include <math.h>

#define SAMPLE_ROWS 20000u
#define SAMPLE_PART 99u /* these rows are in no file */
#define LOGIT_DEVIATION 1.42
#define LABEL_RATE 0.25

/* Shares of the logit's variance: effects of values, pairs, numbers. */
static const double variance_share[3] = {0.66, 0.12, 0.22};

static const uint32_t field_values[SYNTH_FIELDS] = {
    1400,  550,    1000000, 600000,  300,    24,     120000, 630,    400000,
    90000, 5600,   800000,  1000000, 60,     300000, 500000, 400000, 200000,
    2100,  700000, 600000,  1000000, 300000, 500000, 250000, 140000,
};

/* Pairs of fields whose hidden factors are multiplied: small by small and small by large, so that
 * an FM or a network can learn them. */
static const uint8_t pair[SYNTH_PAIRS][2] = {{5, 13}, {4, 5}, {1, 13}, {7, 4}, {5, 18}, {13, 9}};

/* A number is floor(scale (y^-3 - 1)) - shift, y uniform in (least, 1]. It is empty with some
 * chance (of 256). Its effect is a slope, or a bend around a middle, in the logarithm of 1 +
 * |x|. */
static const struct {
    double scale, least, shift;
    uint32_t empty;
    double slope, bend, middle;
} number[SYNTH_NUMBERS] = {
    {1.0, 0.10, 0, 115, 1.0, 0.0, 0},  {4.0, 0.06, 3, 0, -0.4, 0.0, 0},
    {5.0, 0.05, 0, 55, 0.0, 0.6, 3},   {4.0, 0.25, 0, 55, 0.5, 0.0, 0},
    {900.0, 0.04, 0, 7, 0.0, 0.8, 10}, {30.0, 0.08, 0, 55, -0.5, 0.0, 0},
    {3.0, 0.07, 0, 10, 0.8, 0.0, 0},   {8.0, 0.20, 0, 0, 0.3, 0.0, 0},
    {50.0, 0.08, 0, 10, 0.0, -0.5, 6}, {0.5, 0.40, 0, 115, 0.6, 0.0, 0},
    {1.5, 0.15, 0, 10, 0.4, 0.0, 0},   {0.5, 0.20, 0, 190, -0.7, 0.0, 0},
    {5.0, 0.20, 0, 55, -0.6, 0.0, 0},
};

/* a^(1/20), a >= 1, by Newton's steps from above: only additions, multiplications and divisions, so
 * the same bits on every machine. */
static double root_20(double a)
{
    double t = 3.0; /* 3^20 > 3e9 */
    for (int i = 0; i < 200; i++) {
        double t2 = t * t, t4 = t2 * t2, t8 = t4 * t4, t16 = t8 * t8;
        t -= (t16 * t4 - a) / (20.0 * t16 * t2 * t);
    }
    return t;
}

/* From four 16-bit pieces of a hash. */
double synth_row_normal(uint64_t hash)
{
    double sum = (double)(hash & 0xffff) + (double)(hash >> 16 & 0xffff) +
                 (double)(hash >> 32 & 0xffff) + (double)(hash >> 48);
    return (sum - 131070.0) * (1.0 / 37837.0);
}

/* Rare values get smaller effects because no model could learn them. */
static double weight_of_rank(uint32_t rank)
{
    return 1.0 / (1.0 + (double)rank * (1.0 / 150.0));
}

/* A log2 that is linear between powers of two: exact enough for an effect. y >= 1. */
static double log2_about(double y)
{
    int exponent;
    double m = frexp(y, &exponent); /* exact */
    return (double)(exponent - 1) + (2.0 * m - 1.0);
}

static void draw_numbers(struct rng *rng, struct synth_row *row, double *effect)
{
    for (uint32_t i = 0; i < SYNTH_NUMBERS; i++) {
        uint64_t draw = rng_next(rng);
        row->present[i] = (draw & 255) >= number[i].empty;
        row->number[i] = 0;
        if (row->present[i]) {
            double y = 1.0 - (double)(draw >> 11) * 0x1p-53 * (1.0 - number[i].least);
            row->number[i] =
                (int64_t)(number[i].scale * (1.0 / (y * y * y) - 1.0)) - (int64_t)number[i].shift;
        }
        int64_t x = row->number[i];
        double t = log2_about(1.0 + (double)(x < 0 ? -x : x));
        double away = t > number[i].middle ? t - number[i].middle : number[i].middle - t;
        *effect += number[i].slope * (x < 0 ? -t : t) - number[i].bend * away;
    }
}

static void draw_fields(const struct synth_teacher *t, struct rng *rng, struct synth_row *row,
                        double *effect)
{
    double sum = 0;
    for (uint32_t i = 0; i < SYNTH_FIELDS; i++) {
        const struct synth_field *f = &t->field[i];
        double y = 1.0 - (double)(rng_next(rng) >> 11) * 0x1p-53 * f->reach;
        double y2 = y * y, y4 = y2 * y2, y8 = y4 * y4, y16 = y8 * y8;
        double x = 1.0 / (y16 * y4);
        uint32_t rank = x < (double)f->values ? (uint32_t)x : f->values;
        row->rank[i] = MAX(rank, 1);
        sum += f->weight * weight_of_rank(row->rank[i]) *
               synth_row_normal(rng_mix(f->salt + row->rank[i]));
    }
    *effect += sum;
}

static double hidden(const struct synth_teacher *t, const struct synth_row *row, uint32_t field)
{
    return weight_of_rank(row->rank[field]) *
           synth_row_normal(rng_mix(~t->field[field].salt ^ rng_mix(row->rank[field])));
}

/* Draws a row and the three parts of its logit, without their scales. */
static void draw(const struct synth_teacher *t, uint64_t part, uint64_t number_of_row,
                 struct synth_row *row, double effect[3])
{
    struct rng rng = rng_of(t->seed, part, number_of_row);
    effect[0] = effect[1] = effect[2] = 0;
    draw_numbers(&rng, row, &effect[2]);
    draw_fields(t, &rng, row, &effect[0]);
    for (uint32_t i = 0; i < SYNTH_PAIRS; i++)
        effect[1] += hidden(t, row, pair[i][0]) * hidden(t, row, pair[i][1]);
    row->draw = rng_double(&rng);
}

void synth_row_draw(const struct synth_teacher *t, uint64_t part, uint64_t number_of_row,
                    struct synth_row *row)
{
    double effect[3];
    draw(t, part, number_of_row, row, effect);
    row->logit =
        t->bias + t->scale[0] * effect[0] + t->scale[1] * effect[1] + t->scale[2] * effect[2];
    row->label = row->draw < synth_row_probability(row->logit);
}

/* e^x as 2^k e^r, |r| < 0.35, with eleven terms of the series. */
static double exponential(double x)
{
    x = x > 30 ? 30 : x < -30 ? -30 : x;
    int k = (int)(x * 1.4426950408889634 + (x < 0 ? -0.5 : 0.5));
    double r = x - (double)k * 0.6931471805599453, sum = 1.0;
    for (int i = 11; i >= 1; i--)
        sum = 1.0 + sum * r / (double)i;
    return ldexp(sum, k); /* exact */
}

double synth_row_probability(double logit)
{
    return 1.0 / (1.0 + exponential(-logit));
}

/* Sets the scales from the sample's variances; then the bias, by bisection, for the label rate. */
static void settle(struct synth_teacher *t)
{
    static const uint32_t steps = 40;
    struct synth_row row;
    double sum[3] = {0}, square[3] = {0}, low = -20, high = 20;
    for (uint32_t i = 0; i < SAMPLE_ROWS; i++) {
        double effect[3];
        draw(t, SAMPLE_PART, i, &row, effect);
        for (int j = 0; j < 3; j++) {
            sum[j] += effect[j];
            square[j] += effect[j] * effect[j];
        }
    }
    for (int j = 0; j < 3; j++) {
        double mean = sum[j] / SAMPLE_ROWS, variance = square[j] / SAMPLE_ROWS - mean * mean;
        t->scale[j] = LOGIT_DEVIATION * sqrt(variance_share[j] / variance);
    }
    for (uint32_t step = 0; step < steps; step++) {
        double rate = 0;
        t->bias = (low + high) / 2;
        for (uint32_t i = 0; i < SAMPLE_ROWS; i += 10) {
            synth_row_draw(t, SAMPLE_PART, i, &row);
            rate += synth_row_probability(row.logit) * (10.0 / SAMPLE_ROWS);
        }
        *(rate > LABEL_RATE ? &high : &low) = t->bias;
    }
}

void synth_teacher_make(enum synth_kind kind, uint64_t seed, struct synth_teacher *t)
{
    *t = (struct synth_teacher){.kind = kind, .seed = seed, .scale = {1, 1, 1}};
    if (kind != SYNTH_CRITEO)
        return; /* these need no scales: everything follows from hashes of the seed */
    for (uint32_t i = 0; i < SYNTH_FIELDS; i++) {
        struct synth_field *f = &t->field[i];
        f->values = field_values[i];
        f->salt = rng_mix(rng_mix(seed + 0x5eed) ^ (i + 1) * 0x9e3779b97f4a7c15ULL);
        f->reach = 1.0 - 1.0 / root_20((double)f->values + 1.0);
        f->weight = f->values < 20000 ? 1.0 : 0.5;
        f->empty = i % 6 == 2;
    }
    settle(t);
}
