/* metric.c: the small formulas, and the scores of one label. Kept predictions and cells are both
 * read as runs in rising order. A run is a set of examples whose order is not known: equal
 * predictions, or a cell. */
#include "proto/metric/metric.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/limits.h"
#include "proto/base/minmax.h"
#include "proto/metric/metric_cell.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

double metric_loss(float p, float y)
{
    double q = (double)p;
    if (q < 1e-15)
        q = 1e-15;
    else if (q > 1 - 1e-15)
        q = 1 - 1e-15;
    if (y > 0.5f)
        return -log(q);
    return -log1p(-q);
}

/* weight NULL: equal weights. */
static double mean_of(const struct metric *of, const double *weight, uint32_t count, size_t offset)
{
    double sum = 0, weights = 0;
    for (uint32_t i = 0; i < count; i++) {
        double x = *(const double *)(const void *)((const char *)&of[i] + offset);
        double w = 1.0;
        if (weight != NULL)
            w = weight[i];
        if (isfinite(x)) {
            sum += w * x;
            weights += w;
        }
    }
    return metric_ratio(sum, weights);
}

uint64_t metric_most(const struct metric *of, uint32_t count)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < count; i++)
        most = MAX(of[i].examples, most);
    return most;
}

static void mean_of_kind(const struct metric *of, const double *weight, uint32_t count,
                         struct metric *out)
{
    *out = of[0];
    if (count == 1)
        return;
    out->auc = mean_of(of, NULL, count, offsetof(struct metric, auc));
    out->auc_error = mean_of(of, NULL, count, offsetof(struct metric, auc_error));
    out->logloss = mean_of(of, weight, count, offsetof(struct metric, logloss));
    out->ne = mean_of(of, NULL, count, offsetof(struct metric, ne));
    out->calibration = mean_of(of, NULL, count, offsetof(struct metric, calibration));
    out->ece = mean_of(of, NULL, count, offsetof(struct metric, ece));
    out->gauc = mean_of(of, NULL, count, offsetof(struct metric, gauc));
}

void metric_mean(const struct metric *of, const double *weight, uint32_t count, struct metric *out)
{
    struct metric kind[LIMIT_TASKS];
    double weights[LIMIT_TASKS], sum = 0;
    uint32_t kept = 0;
    bool real = true;
    SHOAL_ASSERT(count >= 1 && count <= LIMIT_TASKS);
    for (uint32_t i = 0; i < count; i++)
        real &= metric_is_real(&of[i]);
    for (uint32_t i = 0; i < count; i++) {
        if (metric_is_real(&of[i]) != real)
            continue;
        kind[kept] = of[i];
        weights[kept] = weight == NULL ? 1 : weight[i];
        sum += weights[kept];
        kept++;
    }
    mean_of_kind(kind, sum > 0 ? weights : NULL, kept, out);
    out->examples = metric_most(of, count);
}

void metric_real_figures(const struct metric_real *r, struct metric *out)
{
    double n = (double)r->examples, mean = metric_ratio(r->label, n),
           square = metric_ratio(r->square, n),
           variance = metric_ratio(r->label_square, n) - mean * mean;
    *out = (struct metric){.auc = (double)NAN,
                           .rmse = sqrt(square),
                           .logloss = (double)NAN,
                           .r2 = 1 - metric_ratio(square, variance),
                           .calibration = metric_ratio(r->predicted, r->label),
                           .mae = metric_ratio(r->absolute, n),
                           .gauc = (double)NAN,
                           .examples = r->examples};
}

/* ---- scores of one label --------------------------------------------------------------------- */

#define MANTISSA_BITS 13u
#define OCTAVES 64u
#define CELLS (2 * (OCTAVES << MANTISSA_BITS) + 1)

static const struct metric_grid grid = {MANTISSA_BITS, OCTAVES};
_Static_assert(sizeof(struct metric_cell) * CELLS < (17u << 20), "as the header says");

int metric_scores_open(struct metric_scores *s, bool is_real, uint64_t exact, uint64_t expected,
                       struct err *e)
{
    uint64_t room = is_real ? 0 : MIN(expected, exact);
    memset(s, 0, sizeof *s);
    s->is_real = is_real;
    if (room > METRIC_EXAMPLES_MAX)
        return err_set(e, SHOAL_E_TOO_BIG, "%" PRIu64 " predictions to keep, at most %u", room,
                       METRIC_EXAMPLES_MAX);
    s->packed = malloc((room + 1) * sizeof *s->packed);
    if (s->packed == NULL)
        return err_set(e, SHOAL_E_NOMEM,
                       "no memory for %" PRIu64 " predictions: set evaluate.exact lower", room);
    s->capacity = (uint32_t)room;
    return 0;
}

void metric_scores_close(struct metric_scores *s)
{
    free(s->packed);
    free(s->cell);
    memset(s, 0, sizeof *s);
}

/* ---- adding ---------------------------------------------------------------------------------- */

static float packed_score(uint32_t packed)
{
    uint32_t bits = packed >> 1;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void cell_add(struct metric_cell *cell, float p, uint32_t positive)
{
    struct metric_cell *c = &cell[metric_cell_of(p, &grid)];
    c->positives += positive;
    c->negatives += 1 - positive;
    c->predicted += (double)p;
}

/* Switches to cells: the kept predictions are counted in them. */
static int scores_fold(struct metric_scores *s)
{
    s->cell = calloc(CELLS, sizeof *s->cell);
    if (s->cell == NULL)
        return SHOAL_E_NOMEM;
    for (uint64_t i = 0; i < s->examples; i++)
        cell_add(s->cell, packed_score(s->packed[i]), s->packed[i] & 1);
    free(s->packed);
    s->packed = NULL;
    return 0;
}

int metric_scores_add(struct metric_scores *s, float p, float y, double loss)
{
    uint32_t positive = y > 0.5f;
    if (s->examples >= METRIC_EXAMPLES_MAX)
        return SHOAL_E_TOO_BIG;
    if (s->is_real) {
        metric_real_add(&s->real, p, y);
        s->examples++;
        return 0;
    }
    if (s->cell == NULL && s->examples >= s->capacity && scores_fold(s) != 0)
        return SHOAL_E_NOMEM;
    if (s->cell != NULL)
        cell_add(s->cell, p, positive);
    else
        s->packed[s->examples] = metric_float_bits(p) << 1 | positive;
    s->examples++;
    s->positives += positive;
    s->loss += loss;
    s->predicted += (double)p;
    return 0;
}

/* ---- runs ------------------------------------------------------------------------------------ */

struct run {
    uint64_t positives, negatives;
    double predicted;
};

/* The sums over the runs, in rising order. */
struct walk {
    uint64_t examples; /* all */
    struct metric_pairs pairs;
    struct metric_bucket *bucket;
    uint32_t wanted, bound, count; /* wanted parts of the curve; bounds passed; parts filled */
    uint64_t seen;
};

/* A part ends where the next share of all examples is passed; a run is never split. */
static void walk_curve(struct walk *w, const struct run *r)
{
    struct metric_bucket *b = &w->bucket[w->count];
    b->examples += r->positives + r->negatives;
    b->positives += r->positives;
    b->predicted += r->predicted;
    w->seen += r->positives + r->negatives;
    uint32_t passed = (uint32_t)(w->seen * w->wanted / w->examples);
    w->count += passed > w->bound;
    w->bound = passed;
}

static void walk_add(struct walk *w, const struct run *r)
{
    metric_pairs_add(&w->pairs, r->positives, r->negatives);
    walk_curve(w, r);
}

static int walk_kept(struct metric_scores *s, struct walk *w, struct err *e)
{
    uint32_t *scratch = malloc((s->examples + 1) * sizeof *scratch);
    if (scratch == NULL)
        return err_set(e, SHOAL_E_NOMEM,
                       "no memory to sort %" PRIu64 " predictions: set evaluate.exact lower",
                       s->examples);
    array_sort(s->packed, scratch, s->examples);
    free(scratch);
    for (uint64_t i = 0; i < s->examples;) {
        struct run r = {0};
        uint64_t first = i;
        uint32_t score = s->packed[i] >> 1;
        for (; i < s->examples && s->packed[i] >> 1 == score; i++)
            r.positives += s->packed[i] & 1;
        r.negatives = i - first - r.positives;
        r.predicted = (double)packed_score(score << 1) * (double)(i - first);
        walk_add(w, &r);
    }
    w->pairs.unsure = 0; /* in exact mode a run is a true tie */
    return 0;
}

static void walk_cells(const struct metric_scores *s, struct walk *w)
{
    for (uint32_t i = 0; i < CELLS; i++) {
        struct run r = {s->cell[i].positives, s->cell[i].negatives, s->cell[i].predicted};
        if (r.positives + r.negatives > 0)
            walk_add(w, &r);
    }
}

static double curve_error(const struct metric_bucket *bucket, uint32_t count, uint64_t examples)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += fabs(bucket[i].predicted - (double)bucket[i].positives);
    return metric_ratio(sum, (double)examples);
}

int metric_scores_finish(struct metric_scores *s, uint32_t buckets, struct metric *out,
                         struct metric_bucket *bucket, uint32_t *bucket_count, struct err *e)
{
    struct walk w = {.examples = s->examples, .bucket = bucket, .wanted = buckets};
    SHOAL_ASSERT(buckets > 0);
    memset(bucket, 0, buckets * sizeof *bucket);
    if (s->is_real) {
        metric_real_figures(&s->real, out);
        *bucket_count = 0;
        return 0;
    }
    int rc = 0;
    if (s->cell == NULL)
        rc = walk_kept(s, &w, e);
    if (rc != 0)
        return rc;
    if (s->cell != NULL)
        walk_cells(s, &w);
    SHOAL_ASSERT(w.seen == s->examples && w.count <= buckets);
    metric_pairs_figures(&w.pairs, s->loss, s->predicted, out);
    out->ece = curve_error(bucket, w.count, s->examples);
    *bucket_count = w.count;
    return 0;
}
