/* test_metric.c: every measure against its definition, counted pair by pair; bounded measures
 * against exact ones. */
#include "proto/base/rng.h"
#include "proto/metric/measure.h"
#include "tests/lib/crafted.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N 3000u

static float score[N], label[N];
static struct metric got;
static struct metric_bucket bucket[MEASURE_BUCKETS_MAX];
static uint32_t buckets;

/* Draws predictions on a grid (0: no grid), so that some are equal. */
static void draw(uint64_t seed, uint32_t grid)
{
    struct rng g = rng_of(seed, 0, 0);
    for (uint32_t i = 0; i < N; i++) {
        float p = rng_float(&g) * rng_float(&g);
        score[i] = grid == 0 ? p : (float)(uint32_t)(p * (float)grid) / (float)grid;
        label[i] = rng_float(&g) < 0.1f + 0.5f * p;
    }
}

/* Measures one label with metric_scores, exactly up to `exact` examples. */
static void scores_of(const float *p, const float *y, uint32_t count, uint64_t exact,
                      uint32_t wanted)
{
    struct metric_scores s;
    struct err e = {0};
    ck_assert_int_eq(metric_scores_open(&s, false, exact, count, &e), 0);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_int_eq(metric_scores_add(&s, p[i], y[i], metric_loss(p[i], y[i])), 0);
    ck_assert_int_eq(metric_scores_finish(&s, wanted, &got, bucket, &buckets, &e), 0);
    metric_scores_close(&s);
}

/* The definition: the share of pairs in the right order; ties count half. */
static double auc_by_pairs(const float *p, const float *y, uint32_t count)
{
    double right = 0, pairs = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < count; j++)
            if (y[i] > 0.5f && y[j] < 0.5f) {
                pairs++;
                right += p[i] > p[j] ? 1 : p[i] == p[j] ? 0.5 : 0;
            }
    return pairs > 0 ? right / pairs : (double)NAN;
}

/* ---- one label ------------------------------------------------------------------------------- */

START_TEST(metric_auc_is_that_of_counted_pairs)
{
    static const uint32_t grid[] = {0, 2, 17, 500};
    draw(11 + (uint64_t)_i, grid[_i]);
    scores_of(score, label, N, N, 20);
    ck_assert_double_eq_tol(got.auc, auc_by_pairs(score, label, N), 1e-12);
    ck_assert_double_eq(got.auc_error, 0);
    ck_assert_uint_eq(got.examples, N);
    label[0] = 1 - label[0]; /* the control case: other labels have another AUC */
    ck_assert_double_ne(auc_by_pairs(score, label, N), got.auc);
}
END_TEST

START_TEST(metric_auc_knows_both_ends)
{
    const float p[] = {-0.0f, 0.0f, 1e-15f, 0.5f, 1 - 0x1p-24f, 1.0f}, y[] = {0, 1, 0, 1, 0, 1};
    for (uint64_t exact = 1; exact <= 6; exact += 5) {
        scores_of(p, y, 6, exact, 3);
        ck_assert_double_eq_tol(got.auc, auc_by_pairs(p, y, 6), 1e-12);
        ck_assert(isfinite(got.logloss));
    }
}
END_TEST

START_TEST(metric_one_class_has_no_auc)
{
    const float p[] = {0.1f, 0.4f}, y[] = {0, 0};
    scores_of(p, y, 2, 10, 5);
    ck_assert(isnan(got.auc) && isnan(got.ne) && isnan(got.calibration));
    ck_assert_double_eq_tol(got.ece, 0.25, 1e-7);
    const float one[] = {0, 1};
    scores_of(p, one, 2, 10, 5);
    ck_assert_double_eq_tol(got.calibration, 0.5, 1e-7);
    scores_of(p, y, 0, 10, 5);
    ck_assert(isnan(got.auc) && isnan(got.logloss) && isnan(got.ece));
    ck_assert_uint_eq(buckets, 0);
}
END_TEST

START_TEST(metric_cells_keep_within_the_error_they_tell)
{
    draw(5, 0);
    /* a model for rare clicks: over many powers of two, and some near 1 */
    for (uint32_t i = 0; i < N; i++)
        score[i] = i % 10 == 0 ? 1 - score[i] * 1e-4f : score[i] * powf(2, -(float)(i % 20));
    scores_of(score, label, N, N, 20);
    struct metric exact = got;
    scores_of(score, label, N, N / 3, 20); /* kept, then folded into cells */
    ck_assert_double_gt(got.auc_error, 0);
    ck_assert_double_lt(got.auc_error, 1e-3);
    ck_assert_double_le(fabs(got.auc - exact.auc), got.auc_error);
    ck_assert_double_eq(got.logloss, exact.logloss); /* sums do not change */
    ck_assert_double_eq(got.calibration, exact.calibration);
    ck_assert_double_eq_tol(got.ece, exact.ece, 2e-3);
}
END_TEST

/* Predictions that are closer than a cell is wide: their order is unknown, and the error says
 * so. */
START_TEST(metric_cells_that_mix_are_told)
{
    const float p[] = {0.25f, nextafterf(0.25f, 1), 0.25f, nextafterf(0.25f, 1)},
                y[] = {0, 1, 0, 1};
    scores_of(p, y, 4, 4, 2);
    ck_assert_double_eq(got.auc, 1);
    scores_of(p, y, 4, 2, 2);
    ck_assert_double_eq(got.auc, 0.5);
    ck_assert_double_eq(got.auc_error, 0.5);
}
END_TEST

START_TEST(metric_base_rate_has_normalised_entropy_one)
{
    static float p[100], y[100];
    for (int i = 0; i < 100; i++) {
        p[i] = 0.25f;
        y[i] = i < 25;
    }
    scores_of(p, y, 100, 100, 20);
    ck_assert_double_eq_tol(got.ne, 1, 1e-12);
    ck_assert_double_eq_tol(got.logloss, -0.25 * log(0.25) - 0.75 * log(0.75), 1e-12);
    ck_assert_double_eq_tol(got.calibration, 1, 1e-12);
    for (int i = 0; i < 100; i++)
        p[i] = i < 25 ? 0.3f : 0.2f;
    scores_of(p, y, 100, 100, 20);
    ck_assert_double_lt(got.ne, 0.95);
}
END_TEST

START_TEST(metric_loss_is_bounded)
{
    ck_assert_double_eq_tol(metric_loss(0, 1), -log(1e-15), 1e-9);
    ck_assert_double_eq_tol(metric_loss(1, 0), -log(1e-15), 0.2);
    ck_assert_double_lt(metric_loss(1, 1), 1e-14);
    /* a label is positive above one half */
    ck_assert_double_eq(metric_loss(0.2f, 0.5f), metric_loss(0.2f, 0));
    ck_assert_double_eq(metric_loss(0.2f, nextafterf(0.5f, 1)), metric_loss(0.2f, 1));
}
END_TEST

/* Exactly the given number of examples is kept; with one more, all are in cells. */
START_TEST(metric_keeps_as_many_as_it_is_told)
{
    struct metric_scores s;
    ck_assert_int_eq(metric_scores_open(&s, false, 4, 100, NULL), 0);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_int_eq(metric_scores_add(&s, 0.5f, (float)(i % 2), 1), 0);
    ck_assert_ptr_null(s.cell);
    ck_assert_int_eq(metric_scores_add(&s, 0.5f, 1, 1), 0);
    ck_assert_ptr_nonnull(s.cell);
    s.examples = METRIC_EXAMPLES_MAX - 1;
    ck_assert_int_eq(metric_scores_add(&s, 0.5f, 1, 1), 0);
    ck_assert_int_eq(metric_scores_add(&s, 0.5f, 1, 1), SHOAL_E_TOO_BIG);
    metric_scores_close(&s);
}
END_TEST

/* ---- the calibration curve ------------------------------------------------------------------- */

START_TEST(metric_curve_has_equal_counts)
{
    draw(3, 0);
    scores_of(score, label, N, N, 20);
    ck_assert_uint_eq(buckets, 20);
    double error = 0;
    uint64_t examples = 0;
    for (uint32_t b = 0; b < 20; b++) {
        ck_assert_uint_eq(bucket[b].examples, N / 20);
        ck_assert(b == 0 || bucket[b].predicted >= bucket[b - 1].predicted);
        error += fabs(bucket[b].predicted - (double)bucket[b].positives);
        examples += bucket[b].examples;
    }
    ck_assert_uint_eq(examples, N);
    ck_assert_double_eq_tol(got.ece, error / N, 1e-12);
    scores_of(score, label, N, 10, 20); /* from cells: nearly equal */
    ck_assert_uint_eq(buckets, 20);
    for (uint32_t b = 0; b < 20; b++)
        ck_assert_uint_le(bucket[b].examples - (N / 20 - 15), 30);
}
END_TEST

/* A constant prediction is one bucket, however many are asked for: otherwise zeros and ones would
 * be sorted apart. */
START_TEST(metric_curve_never_cuts_equal_predictions)
{
    for (uint32_t i = 0; i < N; i++) {
        score[i] = i < 100 ? 0.75f : 0.5f;
        label[i] = (float)(i % 2);
    }
    scores_of(score, label, N, N, 20);
    ck_assert_uint_eq(buckets, 2);
    ck_assert_uint_eq(bucket[0].examples, N - 100);
    ck_assert_uint_eq(bucket[1].positives, 50);
    ck_assert_double_eq_tol(got.ece, 0.25 * 100 / N, 1e-12);
}
END_TEST

START_TEST(metric_miscalibration_is_seen)
{
    draw(8, 0);
    for (uint32_t i = 0; i < N; i++)
        label[i] = (float)(i % 4 == 0);
    scores_of(score, label, N, N, 10);
    double mean = 0;
    for (uint32_t i = 0; i < N; i++)
        mean += (double)score[i] / N;
    ck_assert_double_eq_tol(got.calibration, mean / 0.25, 1e-9);
    ck_assert_double_gt(got.ece, 0.1);
}
END_TEST

/* ---- groups ---------------------------------------------------------------------------------- */

static struct metric grouped[LIMIT_TASKS];

/* Measures (count, tasks) predictions with metric_group. */
static void groups_of(const uint64_t *group, const float *p, const float *y, uint32_t count,
                      uint32_t tasks, uint64_t room)
{
    struct metric_group g;
    struct err e = {0};
    ck_assert_int_eq(metric_group_open(&g, tasks, room, count, &e), 0);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_int_eq(metric_group_add(&g, group[i], p + i * tasks, y + i * tasks), 0);
    ck_assert_int_eq(metric_group_finish(&g, grouped, &e), 0);
    metric_group_close(&g);
}

START_TEST(metric_gauc_is_weighted_by_impressions)
{
    /* group 7: AUC 1 of 3; group 9: ties, 1/2 of 2; group 1: only one label, does not count */
    const uint64_t group[] = {7, 9, 1, 7, 1, 9, 7};
    const float p[] = {0.9f, 0.5f, 0.1f, 0.2f, 0.8f, 0.5f, 0.3f}, y[] = {1, 1, 0, 0, 0, 0, 0};

    groups_of(group, p, y, 7, 1, 100);
    ck_assert_double_eq_tol(grouped[0].gauc, (3 * 1.0 + 2 * 0.5) / 5, 1e-12);
    ck_assert_uint_eq(grouped[0].groups, 2);
    ck_assert_double_eq(grouped[0].gauc_share, 1);
}
END_TEST

START_TEST(metric_gauc_is_that_of_counted_pairs)
{
    static uint64_t group[N];
    static float member[N], truth[N];
    double sum = 0, weight = 0;
    uint32_t groups = 0;
    draw(4, 30);
    for (uint32_t i = 0; i < N; i++)
        group[i] = UINT64_C(1000000007) * (i * i % 97) + 3;
    groups_of(group, score, label, N, 1, N);
    for (uint32_t first = 0; first < N; first++) {
        uint32_t count = 0, seen = 0;
        for (uint32_t i = 0; i < N; i++) {
            seen += i < first && group[i] == group[first];
            if (group[i] == group[first]) {
                member[count] = score[i];
                truth[count++] = label[i];
            }
        }
        double auc = seen > 0 ? (double)NAN : auc_by_pairs(member, truth, count);
        if (isnan(auc))
            continue;
        sum += auc * count;
        weight += count;
        groups++;
    }
    ck_assert_uint_gt(groups, 30);
    ck_assert_uint_eq(grouped[0].groups, groups);
    ck_assert_double_eq_tol(grouped[0].gauc, sum / weight, 1e-12);
}
END_TEST

/* Every group has AUC 3/4 as a whole and another one in each part; so 3/4 means that only whole
 * groups count. */
START_TEST(metric_gauc_beyond_the_room_is_of_whole_groups)
{
    static uint64_t group[N];
    static const float p[] = {0.9f, 0.5f, 0.1f, 0.3f}, y[] = {1, 0, 0, 1};
    for (uint32_t i = 0; i < N; i++) {
        /* groups recur, so that thinning meets half of one */
        group[i] = i % (N / 4) % 500;
        score[i] = p[i / (N / 4)];
        label[i] = y[i / (N / 4)];
    }
    groups_of(group, score, label, N, 1, N / 5);
    ck_assert_double_lt(grouped[0].gauc_share, 0.3);
    ck_assert_uint_gt(grouped[0].groups, 10);
    /* the share of the remaining groups */
    double share = (double)grouped[0].groups / 500 / grouped[0].gauc_share;
    ck_assert(share > 0.7 && share < 1.4);
    double sampled = grouped[0].gauc;
    groups_of(group, score, label, N, 1, N);
    ck_assert_double_eq(grouped[0].gauc_share, 1);
    ck_assert_uint_eq(grouped[0].groups, 500);
    ck_assert_double_eq_tol(grouped[0].gauc, 0.75, 1e-12);
    ck_assert_double_eq_tol(sampled, 0.75, 1e-12);
}
END_TEST

START_TEST(metric_group_that_does_not_fit_counts_nowhere)
{
    static const uint64_t group[N];
    draw(4, 0);
    groups_of(group, score, label, N, 1, 100);
    ck_assert(isnan(grouped[0].gauc));
    ck_assert_uint_eq(grouped[0].groups, 0);
}
END_TEST

START_TEST(metric_gauc_of_each_label)
{
    const uint64_t group[] = {1, 1, 2, 2};
    const float p[] = {0.9f, 0.1f, 0.1f, 0.9f, 0.8f, 0.3f, 0.2f, 0.7f},
                y[] = {1, 1, 0, 0, 1, 1, 0, 1};
    groups_of(group, p, y, 4, 2, 10);
    ck_assert_double_eq_tol(grouped[0].gauc, 1, 1e-12);
    ck_assert_uint_eq(grouped[0].groups, 2);
    ck_assert_double_eq_tol(grouped[1].gauc, 0, 1e-12);
    ck_assert_uint_eq(grouped[1].groups, 1); /* both of the second group are positive */
}
END_TEST

/* ---- by value -------------------------------------------------------------------------------- */

static uint32_t zipf(struct rng *g, uint32_t most)
{
    return (uint32_t)pow((double)most, rng_double(g));
}

START_TEST(metric_by_tells_what_was_counted_and_what_may_be_missed)
{
    static uint64_t truth[5000];
    struct metric_by b;
    struct rng g = rng_of(9, 0, 0);
    uint64_t told = 0, positives = 0;
    double loss = 0;
    memset(truth, 0, sizeof truth);
    ck_assert_int_eq(metric_by_open(&b, 1, 0, 64, NULL), 0);
    for (uint32_t i = 0; i < 100000; i++) {
        uint32_t key = zipf(&g, 5000);
        float p = 0.25f, y = key % 3 == 0;
        double l = metric_loss(p, y);
        truth[key]++;
        metric_by_add(&b, key, &p, &y, &l);
        loss += l;
        positives += y > 0.5f;
    }
    metric_by_finish(&b, 10);
    ck_assert_uint_eq(b.count, 10);
    ck_assert_uint_gt(b.floor, 0);
    for (uint32_t i = 0; i < b.count; i++) {
        const struct metric_value *v = &b.value[i];
        const struct metric_by_task *sums = metric_by_sums(&b, v);
        ck_assert(i == 0 || v->examples <= v[-1].examples);
        ck_assert_uint_le(v->examples, truth[v->key]);
        ck_assert_uint_ge(v->examples + v->missed, truth[v->key]);
        ck_assert_uint_eq(sums->positives, v->key % 3 == 0 ? v->examples : 0);
        told += v->examples;
        positives -= sums->positives;
        loss -= sums->loss;
    }
    ck_assert_uint_eq(b.value[0].key, 1); /* the heaviest is always kept */
    ck_assert_uint_eq(b.value[0].missed, 0);
    ck_assert_uint_eq(told + b.rest_examples, 100000);
    ck_assert_uint_eq(b.rest[0].positives, positives);
    ck_assert_double_eq_tol(b.rest[0].loss, loss, 1e-6);
    metric_by_close(&b);
}
END_TEST

START_TEST(metric_by_finds_crafted_values_soon)
{
    enum { VALUES = 4096 };
    struct metric_by b;
    struct crafted_run run = {0};
    float p = 0.5f, y = 1;
    double loss = 1;
    ck_assert_int_eq(metric_by_open(&b, 1, 0, VALUES, NULL), 0);
    for (uint64_t i = 0; i < VALUES; i++)
        metric_by_add(&b, crafted_key(i), &p, &y, &loss);
    for (uint32_t i = 0; i < 4 * VALUES; i++)
        crafted_place(&run, b.slot[i] != 0);
    ck_assert_uint_eq(b.count, VALUES);
    ck_assert_uint_lt(run.most, 200);
    metric_by_close(&b);
}
END_TEST

/* Groups use another hash, so keys are searched that collide in it. */
START_TEST(metric_group_finds_crafted_groups_soon)
{
    enum { GROUPS = 1000, PLACES = 2048 };
    struct metric_group g;
    struct err e = {0};
    struct crafted_run run = {0};
    float p = 0.5f, y = 1;
    ck_assert_int_eq(metric_group_open(&g, 1, GROUPS, GROUPS, &e), 0);
    for (uint64_t i = 0; g.groups < GROUPS; i++)
        if (rng_mix(i + 0x9e3779b97f4a7c15ULL) % PLACES == 0)
            ck_assert_int_eq(metric_group_add(&g, i, &p, &y), 0);
    ck_assert_uint_eq(g.slots, PLACES);
    for (uint32_t i = 0; i < g.slots; i++)
        crafted_place(&run, g.slot[i] != 0);
    ck_assert_uint_lt(run.most, 200);
    metric_group_close(&g);
}
END_TEST

static double by_auc(const struct metric_by *b, uint32_t i, uint64_t *examples)
{
    struct metric is;
    metric_by_auc(b, &b->value[i], 0, &is);
    *examples = is.examples;
    ck_assert(isnan(is.auc) || (is.auc_error > 0 && is.auc_error < 0.02));
    return is.auc;
}

/* If there are few values, the AUC covers all examples. If a value comes when all cells are in use,
 * its AUC covers the examples from the moment when it counts as frequent. With only one label there
 * is no AUC. */
START_TEST(metric_by_has_auc_of_the_frequent)
{
    struct metric_by b;
    double loss = 0;
    uint64_t examples;
    uint32_t many = _i == 0 ? 0 : 1000; /* rare ones, which come first */
    float none = 0;
    draw(5, 0);
    ck_assert_int_eq(metric_by_open(&b, 1, 0, 2048, NULL), 0);
    for (uint32_t i = 0; i < many; i++)
        metric_by_add(&b, 100 + i, &score[i], &none, &loss);
    for (uint32_t i = 0; i < N; i++)
        metric_by_add(&b, 7, &score[i], &label[i], &loss);
    metric_by_finish(&b, 50);
    ck_assert_uint_eq(b.value[0].key, 7);
    double auc = by_auc(&b, 0, &examples);
    uint32_t from = _i == 0 ? 0 : 63;
    ck_assert_uint_eq(examples, N - from);
    ck_assert_double_eq_tol(auc, auc_by_pairs(score + from, label + from, N - from), 0.02);
    if (_i != 0)
        ck_assert(isnan(by_auc(&b, 1, &examples)));
    metric_by_close(&b);
}
END_TEST

/* Cells of a removed value are free again, and empty for the next value. */
START_TEST(metric_by_cells_go_with_their_value)
{
    struct metric_by b;
    float p = 0.5f, y = 1;
    double loss = 0;
    uint64_t seen;
    ck_assert_int_eq(metric_by_open(&b, 1, 0, 512, NULL), 0);
    for (uint64_t i = 0; i < 20000; i++)
        metric_by_add(&b, i % 3 == 0 ? i % 5 : i, &p, &y, &loss);
    for (uint32_t i = 0; i < METRIC_BY_TALLIES; i++)
        ck_assert(b.owner[i] == 0 || b.value[b.owner[i] - 1].cells == i + 1);
    metric_by_finish(&b, 5);
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert(isnan(by_auc(&b, i, &seen)));
        ck_assert(seen > b.value[i].examples / 2 && seen <= b.value[i].examples);
    }
    metric_by_close(&b);
}
END_TEST

/* Checks that values and owners of cells agree; returns how many cells are owned. */
static uint32_t cells_agree(const struct metric_by *b)
{
    uint32_t owned = 0, having = 0;
    for (uint32_t i = 0; i < METRIC_BY_TALLIES; i++) {
        ck_assert_uint_le(b->owner[i], b->count);
        ck_assert(b->owner[i] == 0 || b->value[b->owner[i] - 1].cells == i + 1);
        owned += b->owner[i] != 0;
    }
    for (uint32_t i = 0; i < b->count; i++)
        having += b->value[i].cells != 0;
    ck_assert(owned == b->owned && owned == having);
    return owned;
}

static void by_add(struct metric_by *b, uint64_t key, uint32_t times)
{
    const float p = 0.5f, y = 1;
    const double loss = 0.5;
    for (uint32_t i = 0; i < times; i++)
        metric_by_add(b, key, &p, &y, &loss);
}

/* The rarer values came first, so the remaining ones move, with their cells. A cleared table is
 * like a new one. */
START_TEST(metric_by_thinned_and_cleared)
{
    struct metric_by b;
    ck_assert_int_eq(metric_by_open(&b, 1, 0, 8, NULL), 0);
    for (int turn = 0; turn < 2; turn++) {
        for (uint64_t key = 0; key < 8; key++)
            by_add(&b, key, key < 4 ? 3 : 5);
        ck_assert_uint_eq(cells_agree(&b), 8);
        by_add(&b, 8, 1);
        ck_assert_uint_eq(b.count, 5);
        ck_assert_uint_eq(cells_agree(&b), 5);
        ck_assert_uint_eq(b.floor, 3);
        ck_assert_uint_eq(b.value[4].missed, 3);
        ck_assert(b.rest_examples == 12 && b.rest_values == 4);
        ck_assert_uint_eq(b.rest[0].positives, 12);
        for (uint64_t key = 9; key < 12; key++)
            by_add(&b, key, 4);
        ck_assert_uint_eq(cells_agree(&b), 8);
        by_add(&b, 12, 1); /* floor: 4 examples and 3 missed */
        ck_assert_uint_eq(b.floor, 7);
        metric_by_clear(&b);
        ck_assert(b.count == 0 && cells_agree(&b) == 0);
        ck_assert(b.floor == 0 && b.rest_examples == 0 && b.rest_values == 0);
        ck_assert(b.rest[0].positives == 0 && b.rest[0].loss == 0 && b.rest[0].predicted == 0);
    }
    metric_by_close(&b);
}
END_TEST

/* Cells go to a value with twice as many examples, and not to others. */
START_TEST(metric_by_cells_go_to_twice_as_many)
{
    struct metric_by b;
    struct metric is;
    ck_assert_int_eq(metric_by_open(&b, 1, 0, 256, NULL), 0);
    for (uint64_t key = 0; key < METRIC_BY_TALLIES; key++)
        by_add(&b, key, _i == 0 ? 32 : 33);
    by_add(&b, 1000, 64);
    metric_by_auc(&b, &b.value[METRIC_BY_TALLIES], 0, &is);
    ck_assert_uint_eq(is.examples, _i == 0 ? 1 : 0);
    ck_assert_uint_eq(cells_agree(&b), METRIC_BY_TALLIES);
    metric_by_close(&b);
}
END_TEST

/* The examples that a part missed of a reported value are added; for a value that it does not
 * report, the part's floor. */
START_TEST(metric_by_joined_adds_what_was_missed)
{
    struct metric_by b;
    const struct metric_by_head head[2] = {{5, 1}, {2, 1}};
    const struct metric_by_told told[2] = {{7, 10, 3, 0, 0}, {8, 4, 1, 1, 0}};
    const struct metric_by_task task[2] = {{5, 5, 5}, {2, 2, 2}}, all = {10, 10, 10};
    const struct metric_by_more more = {.examples = 20};
    const struct metric_by_part both = {
        .fields = 2, .values = 2, .head = head, .told = told, .task = task};
    ck_assert(metric_by_part_ok(&both, 1, 0, 20));
    ck_assert_int_eq(metric_by_open(&b, 1, 0, 4, NULL), 0);
    metric_by_join(&b, &both, 0, &all, &more, 20);
    ck_assert(b.value[0].key == 7 && b.value[0].examples == 10 && b.value[0].missed == 3);
    ck_assert_uint_eq(b.floor, 5);
    metric_by_join(&b, &both, 1, &all, &more, 20);
    ck_assert(b.value[0].examples == 10 && b.value[0].missed == 5);
    ck_assert(b.value[1].key == 8 && b.value[1].examples == 4 && b.value[1].missed == 6);
    ck_assert_uint_eq(b.floor, 7);
    ck_assert_uint_eq(b.rest_examples, 26);
    metric_by_close(&b);
}
END_TEST

/* ---- reported and joined tables -------------------------------------------------------------- */

#define PARTS 12u

struct told {
    struct metric_by_head head[1];
    struct metric_by_told told[METRIC_BY_TOLD];
    struct metric_by_task task[METRIC_BY_TOLD], all;
    struct metric_by_more more[METRIC_BY_TOLD];
    struct metric_by_entry entry[METRIC_BY_ENTRIES];
    struct metric_by_part part;
    uint64_t examples;
};
static struct told part[PARTS];

/* Returns the value of example i of a part: up to `most`, low ones more often. */
static uint64_t by_key(uint32_t i, uint32_t most)
{
    return i * 7 % (1 + i % most);
}

static void parts_make(uint32_t most, uint32_t each)
{
    struct metric_by b;
    draw(9, 0);
    ck_assert_int_eq(metric_by_open(&b, 1, 0, 64, NULL), 0);
    for (uint32_t n = 0; n < PARTS; n++) {
        struct told *t = &part[n];
        metric_by_clear(&b);
        t->all = (struct metric_by_task){0};
        t->part = (struct metric_by_part){
            .head = t->head, .told = t->told, .task = t->task, .more = t->more, .entry = t->entry};
        t->examples = each;
        for (uint32_t k = 0; k < each; k++) {
            uint32_t i = n * each + k;
            double loss = metric_loss(score[i], label[i]);
            metric_by_add(&b, by_key(i, most), &score[i], &label[i], &loss);
            t->all.loss += loss;
            t->all.predicted += (double)score[i];
            t->all.positives += label[i] > 0.5f;
        }
        metric_by_finish(&b, METRIC_BY_TOLD);
        ck_assert(!metric_by_put(&b, &t->part)); /* every example has the label */
        t->part.more = NULL;
        ck_assert(metric_by_part_ok(&t->part, 1, 0, each));
    }
    metric_by_close(&b);
}

static void parts_join(struct metric_by *b, uint32_t capacity, bool backwards)
{
    ck_assert_int_eq(metric_by_open(b, 1, 0, capacity, NULL), 0);
    for (uint32_t n = 0; n < PARTS; n++) {
        const struct told *t = &part[backwards ? PARTS - 1 - n : n];
        const struct metric_by_more more = {.examples = t->examples};
        metric_by_join(b, &t->part, 0, &t->all, &more, t->examples);
    }
    metric_by_finish(b, 50);
}

/* If all values fit, the joined table equals one table of all examples, in any order. */
START_TEST(metric_by_joined_is_as_one_table)
{
    struct metric_by b, back, whole;
    struct metric is, was, one;
    parts_make(20, N / PARTS);
    parts_join(&b, 64, false);
    parts_join(&back, 64, true);
    ck_assert_int_eq(metric_by_open(&whole, 1, 0, 64, NULL), 0);
    for (uint32_t i = 0; i < N; i++) {
        double loss = metric_loss(score[i], label[i]);
        metric_by_add(&whole, by_key(i, 20), &score[i], &label[i], &loss);
    }
    metric_by_finish(&whole, 50);
    ck_assert_uint_eq(b.count, whole.count);
    ck_assert_uint_eq(b.rest_examples, 0);
    for (uint32_t i = 0; i < b.count; i++) {
        const struct metric_value *v = &b.value[i], *w = &whole.value[i], *u = &back.value[i];
        const struct metric_by_task *s = metric_by_sums(&b, v), *r = metric_by_sums(&whole, w);
        ck_assert(v->key == w->key && v->examples == w->examples && v->missed == 0);
        ck_assert(v->key == u->key && memcmp(s, metric_by_sums(&back, u), sizeof *s) == 0);
        ck_assert_double_eq_tol(s->loss, r->loss, 1e-6);
        ck_assert_double_eq_tol(s->predicted, r->predicted, 1e-6);
        ck_assert_uint_eq(s->positives, r->positives);
        metric_by_auc(&b, v, 0, &is);
        metric_by_auc(&back, u, 0, &was);
        metric_by_auc(&whole, w, 0, &one);
        ck_assert(is.examples == v->examples && was.examples == v->examples);
        ck_assert(isnan(is.auc) ? isnan(one.auc) : is.auc == one.auc && is.auc == was.auc);
    }
    metric_by_close(&b);
    metric_by_close(&back);
    metric_by_close(&whole);
}
END_TEST

/* With more values than are reported or kept, the bounds hold for every value, and no example is
 * lost. */
START_TEST(metric_by_joined_says_what_may_be_missed)
{
    struct metric_by b;
    uint64_t is[500] = {0}, examples, positives;
    parts_make(500, N / PARTS);
    for (uint32_t i = 0; i < N; i++)
        is[by_key(i, 500)]++;
    parts_join(&b, 64, _i == 1);
    examples = b.rest_examples;
    positives = b.rest[0].positives;
    for (uint32_t i = 0; i < b.count; i++) {
        const struct metric_value *v = &b.value[i];
        ck_assert(v->examples <= is[v->key] && is[v->key] <= v->examples + v->missed);
        examples += v->examples;
        positives += metric_by_sums(&b, v)->positives;
    }
    ck_assert_uint_eq(examples, N);
    for (uint32_t i = 0; i < N; i++)
        positives -= label[i] > 0.5f;
    ck_assert_uint_eq(positives, 0);
    ck_assert_uint_gt(b.rest_values, 0);
    metric_by_close(&b);
}
END_TEST

START_TEST(metric_by_part_takes_only_what_can_be)
{
    struct told *t = &part[0];
    parts_make(20, 100);
    ck_assert(!metric_by_part_ok(&t->part, 1, 0, 50));
    for (uint32_t i = 0; i < 12; i++) {
        struct told was = *t;
        t->told[1].examples = i == 0 ? 0 : i == 1 ? UINT64_MAX : was.told[1].examples;
        t->told[1].missed = i == 2 ? 1 : 0;
        t->told[1].field = i == 3;
        t->told[1].cells += i == 4;
        t->head[0].floor = i == 5 ? 101 : 0;
        t->head[0].rest_values = i == 6 ? UINT64_MAX : 0;
        t->task[1].loss = i == 7 ? (double)NAN : was.task[1].loss;
        t->task[1].predicted = i == 8 ? -1 : was.task[1].predicted;
        t->task[1].positives = i == 9 ? 101 : was.task[1].positives;
        t->entry[1].cell = i == 10 ? METRIC_BY_CELLS : was.entry[1].cell;
        t->entry[1].label = i == 11;
        ck_assert_msg(!metric_by_part_ok(&t->part, 1, 0, 100), "lie %u", i);
        *t = was;
        ck_assert(metric_by_part_ok(&t->part, 1, 0, 100));
    }
}
END_TEST

#define LABELS 3u /* of 0 or 1, of 0 or 1, a number; one of the first two is missing in a row */

static void mixed_row(uint32_t i, float p[LABELS], float y[LABELS], double loss[LABELS])
{
    for (uint32_t t = 0; t < LABELS; t++) {
        p[t] = score[i + t];
        y[t] = t < 2 ? label[i + t] : 10 * score[i + 7];
        if (t == i % 3)
            y[t] = NAN;
        loss[t] = metric_loss_of(t == 2, p[t], y[t]);
    }
}

/* Each label has its own examples, also when tables are reported and joined. */
START_TEST(metric_by_counts_the_examples_of_each_label)
{
    static struct metric_by_head head[2];
    static struct metric_by_told told[2 * METRIC_BY_TOLD];
    static struct metric_by_task task[2 * METRIC_BY_TOLD * LABELS];
    static struct metric_by_more more[2 * METRIC_BY_TOLD * LABELS];
    static struct metric_by_entry entry[METRIC_BY_ENTRIES];
    struct metric_by_part sent = {
        .head = head, .told = told, .task = task, .more = more, .entry = entry};
    struct metric_by b, joined;
    struct metric_by_task all[LABELS] = {{0}};
    struct metric_by_more have[LABELS] = {{0}};
    float p[LABELS], y[LABELS];
    double loss[LABELS];
    draw(9, 0);
    ck_assert_int_eq(metric_by_open(&b, LABELS, 4, 64, NULL), 0);
    ck_assert_int_eq(metric_by_open(&joined, LABELS, 4, 64, NULL), 0);
    for (uint32_t i = 0; i < 300; i++) {
        mixed_row(i, p, y, loss);
        metric_by_add(&b, i / 3 % 2, p, y, loss);
        for (uint32_t t = 0; t < LABELS; t++) {
            if (t == i % 3)
                continue;
            all[t].loss += loss[t];
            all[t].predicted += (double)p[t];
            all[t].positives += t < 2 && y[t] > 0.5f;
            have[t].examples++;
            have[t].label += t == 2 ? (double)y[t] : 0;
        }
    }
    metric_by_finish(&b, METRIC_BY_TOLD);
    ck_assert(metric_by_put(&b, &sent));
    ck_assert(metric_by_part_ok(&sent, LABELS, 4, 300));
    metric_by_join(&joined, &sent, 0, all, have, 300);
    for (uint32_t v = 0; v < 2; v++) {
        const struct metric_by *of[] = {&b, &joined};
        for (uint32_t k = 0; k < 2; k++) {
            const struct metric_value *value = &of[k]->value[v];
            const struct metric_by_more *m = metric_by_more(of[k], value);
            ck_assert_uint_eq(value->examples, 150);
            for (uint32_t t = 0; t < LABELS; t++)
                ck_assert_uint_eq(m[t].examples, 100);
            ck_assert(m[0].label == 0 && m[2].label > 0);
            ck_assert_double_gt(metric_by_sums(of[k], value)[2].loss, 0);
        }
    }
    ck_assert_uint_eq(joined.rest_examples, 0);
    ck_assert_uint_eq(joined.rest_more[1].examples, 0);
    sent.more = NULL; /* a number's sums cannot be without */
    ck_assert(!metric_by_part_ok(&sent, LABELS, 4, 300));
    sent.more = more;
    more[1].examples = 151;
    ck_assert(!metric_by_part_ok(&sent, LABELS, 4, 300));
    more[1].examples = 100;
    more[2].label = (double)INFINITY;
    ck_assert(!metric_by_part_ok(&sent, LABELS, 4, 300));
    metric_by_close(&b);
    metric_by_close(&joined);
}
END_TEST

/* Against the formulas, in double. */
START_TEST(scores_of_numbers_have_their_own_figures)
{
    struct metric_scores s;
    struct metric_bucket none[4];
    uint32_t count = 7, n = 500;
    double square = 0, absolute = 0, predicted = 0, sum = 0, squares = 0;
    draw(4, 0);
    ck_assert_int_eq(metric_scores_open(&s, true, 10, n, NULL), 0);
    for (uint32_t i = 0; i < n; i++) {
        float y = 100 * score[i] - 20, p = y + score[i + n] - 0.25f;
        double error = (double)p - (double)y;
        ck_assert_int_eq(metric_scores_add(&s, p, y, 0), 0);
        square += error * error;
        absolute += fabs(error);
        predicted += (double)p;
        sum += (double)y;
        squares += (double)y * (double)y;
    }
    ck_assert_int_eq(metric_scores_finish(&s, 4, &got, none, &count, NULL), 0);
    ck_assert(metric_is_real(&got) && count == 0 && isnan(got.auc) && isnan(got.gauc));
    ck_assert_uint_eq(got.examples, n);
    ck_assert_double_eq_tol(got.rmse, sqrt(square / n), 1e-9);
    ck_assert_double_eq_tol(got.mae, absolute / n, 1e-9);
    ck_assert_double_eq_tol(got.calibration, predicted / sum, 1e-9);
    ck_assert_double_eq_tol(got.r2, 1 - square / (squares - sum * sum / n), 1e-9);
    metric_scores_close(&s);
}
END_TEST

START_TEST(metric_by_is_exact_while_values_fit)
{
    struct metric_by b;
    float p[2] = {0.5f, 0.1f}, y[2] = {1, 0};
    double loss[2] = {1, 2};
    ck_assert_int_eq(metric_by_open(&b, 2, 0, 4, NULL), 0);
    for (uint64_t i = 0; i < 10; i++)
        metric_by_add(&b, i * i % 10 == 0 ? 5 : i % 2, p, y, loss);
    metric_by_finish(&b, 50);
    ck_assert_uint_eq(b.count, 3);
    ck_assert_uint_eq(b.rest_values, 0);
    ck_assert_uint_eq(b.value[0].examples + b.value[1].examples + b.value[2].examples, 10);
    ck_assert_double_eq(metric_by_sums(&b, &b.value[0])[1].loss, 2.0 * (double)b.value[0].examples);
    metric_by_close(&b);
}
END_TEST

/* ---- all of it ------------------------------------------------------------------------------- */

static void measure_in(struct measure *m, uint32_t piece, uint64_t exact)
{
    static uint64_t group[N], by[2 * N];
    struct measure_options o = {
        .tasks = 1, .group = true, .by_count = 2, .buckets = 10, .exact = exact, .expected = N};
    struct err e = {0};
    ck_assert_int_eq(measure_open(m, &o, &e), 0);
    for (uint32_t i = 0; i < N; i++) {
        group[i] = i % 61;
        by[2 * i] = i % 7;
        by[2 * i + 1] = i % 100;
    }
    for (uint32_t at = 0; at < N; at += piece) {
        uint32_t count = N - at < piece ? N - at : piece;
        ck_assert_int_eq(measure_add(m, score + at, label + at, group + at, by + 2 * at, count, &e),
                         0);
    }
    ck_assert_int_eq(measure_finish(m, &e), 0);
}

START_TEST(measure_does_not_depend_on_how_examples_are_handed_over)
{
    struct measure a, b;
    draw(6, 0);
    measure_in(&a, 7, _i == 0 ? N : N / 4);
    measure_in(&b, N, _i == 0 ? N : N / 4);
    ck_assert_mem_eq(a.metric, b.metric, sizeof a.metric);
    ck_assert_uint_eq(a.bucket_count[0], b.bucket_count[0]);
    ck_assert_mem_eq(a.bucket, b.bucket, a.bucket_count[0] * sizeof *a.bucket);
    ck_assert_uint_eq(a.by[0].count, 7);
    ck_assert_uint_eq(a.by[1].count, MEASURE_TOP);
    ck_assert_uint_eq(a.by[1].rest_values, 50);
    ck_assert_mem_eq(a.by[1].rest, b.by[1].rest, sizeof a.by[1].rest[0]);
    ck_assert((a.metric[0].gauc_share < 1) == (_i == 1) &&
              (a.metric[0].auc_error > 0) == (_i == 1));
    measure_close(&a);
    measure_close(&b);
}
END_TEST

START_TEST(measure_mean_is_over_the_labels_that_have_the_figure)
{
    struct metric of[3] = {{.auc = 0.8, .logloss = 0.1, .gauc = (double)NAN, .examples = 5},
                           {.auc = (double)NAN, .logloss = 0.2, .gauc = (double)NAN},
                           {.auc = 0.6, .logloss = 0.6, .gauc = (double)NAN}};
    const double alike[3] = {1, 1, 1}, weight[3] = {3, 0, 1};
    metric_mean(of, alike, 3, &got);
    ck_assert_double_eq_tol(got.auc, 0.7, 1e-12);
    ck_assert_double_eq_tol(got.logloss, 0.3, 1e-12);
    metric_mean(of, weight, 3, &got); /* weights of logloss only */
    ck_assert_double_eq_tol(got.auc, 0.7, 1e-12);
    ck_assert_double_eq_tol(got.logloss, 0.225, 1e-12);
    ck_assert(isnan(got.gauc));
    ck_assert_uint_eq(got.examples, 5);
    metric_mean(of, alike, 1, &got);
    ck_assert_double_eq(got.auc, 0.8);
}
END_TEST

/* Labels of 0 and 1 have the mean where there is one; else those that are numbers. */
START_TEST(measure_mean_is_over_labels_of_one_kind)
{
    const struct metric_real far = {9, 3, 6, 3, 4, 1}, near = {1, 1, 2, 3, 10, 1};
    struct metric of[3] = {
        {.auc = 0}, {.auc = 0.6, .logloss = 0.5, .gauc_share = 1, .examples = 2}, {.auc = 0}};
    const double weight[3] = {0, 1, 0};
    metric_real_figures(&far, &of[0]);
    metric_real_figures(&near, &of[2]);
    metric_mean(of, weight, 3, &got);
    ck_assert(!metric_is_real(&got) && got.auc == 0.6 && got.logloss == 0.5);
    ck_assert_uint_eq(got.examples, 2);
    of[1] = of[2];
    metric_mean(of, weight, 3, &got);
    ck_assert(metric_is_real(&got));
    ck_assert_double_eq_tol(got.rmse, (3 + 1 + 1) / 3.0, 1e-12);
    ck_assert_double_eq_tol(got.mae, (3 + 1 + 1) / 3.0, 1e-12);
}
END_TEST

START_TEST(measure_too_many_examples_are_refused)
{
    struct measure m;
    struct measure_options o = {.tasks = 1, .buckets = 1, .exact = 10, .expected = 1ull << 33};
    struct err e = {0};
    ck_assert_int_eq(measure_open(&m, &o, &e), SHOAL_E_TOO_BIG);
    ck_assert_ptr_nonnull(strstr(e.text, "8589934592 rows"));
    measure_close(&m);
}
END_TEST

/* A power of two each, as many as fit together. */
START_TEST(measure_values_of_all_fields_fit)
{
    for (uint32_t fields = 1; fields <= LIMIT_BY; fields *= 2) {
        struct measure_options o = {
            .tasks = 1, .by_count = fields + (fields > 2), .buckets = 1, .exact = 1, .expected = 1};
        struct measure m;
        if (o.by_count > LIMIT_BY)
            o.by_count = LIMIT_BY;
        ck_assert_int_eq(measure_open(&m, &o, NULL), 0);
        uint64_t each = m.by[0].capacity;
        ck_assert_uint_eq(each & (each - 1), 0);
        ck_assert_uint_le(each * o.by_count, MEASURE_VALUES);
        ck_assert(each == MEASURE_VALUES / 4 || 2 * each * o.by_count > MEASURE_VALUES);
        measure_close(&m);
    }
}
END_TEST

START_TEST(measure_options_come_from_the_job)
{
    static const char text[] =
        "data: {train: [a], label: [click, buy]}\nmodel: {kind: mmoe}\ntables: [{name: emb, dim: "
        "4}]\n"
        "evaluate: {group: user, by: [city, hour], buckets: 7, exact: 1000}\n";
    struct err e = {0};
    struct job job;
    ck_assert_msg(job_parse(text, strlen(text), "job", NULL, &job, &e) == 0, "%s", e.text);
    struct measure_options o = measure_options_of(&job, 99);
    ck_assert(o.tasks == 2 && o.group && o.by_count == 2 && o.buckets == 7 && o.exact == 1000 &&
              o.expected == 99);
    job_free(&job);
    memset(&job, 0, sizeof job);
    o = measure_options_of(&job, 1);
    ck_assert(o.tasks == 1 && !o.group && o.by_count == 0 && o.buckets == MEASURE_BUCKETS &&
              o.exact == MEASURE_EXACT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("metric");
    TCase *t = tcase_create("metric");
    tcase_add_loop_test(t, metric_auc_is_that_of_counted_pairs, 0, 4);
    tcase_add_test(t, metric_auc_knows_both_ends);
    tcase_add_test(t, metric_one_class_has_no_auc);
    tcase_add_test(t, metric_cells_keep_within_the_error_they_tell);
    tcase_add_test(t, metric_cells_that_mix_are_told);
    tcase_add_test(t, metric_base_rate_has_normalised_entropy_one);
    tcase_add_test(t, metric_loss_is_bounded);
    tcase_add_test(t, metric_keeps_as_many_as_it_is_told);
    tcase_add_test(t, metric_curve_has_equal_counts);
    tcase_add_test(t, metric_curve_never_cuts_equal_predictions);
    tcase_add_test(t, metric_miscalibration_is_seen);
    tcase_add_test(t, metric_gauc_is_weighted_by_impressions);
    tcase_add_test(t, metric_gauc_is_that_of_counted_pairs);
    tcase_add_test(t, metric_gauc_beyond_the_room_is_of_whole_groups);
    tcase_add_test(t, metric_group_that_does_not_fit_counts_nowhere);
    tcase_add_test(t, metric_gauc_of_each_label);
    tcase_add_test(t, metric_by_tells_what_was_counted_and_what_may_be_missed);
    tcase_add_loop_test(t, metric_by_has_auc_of_the_frequent, 0, 2);
    tcase_add_test(t, metric_by_cells_go_with_their_value);
    tcase_add_test(t, metric_by_thinned_and_cleared);
    tcase_add_loop_test(t, metric_by_cells_go_to_twice_as_many, 0, 2);
    tcase_add_test(t, metric_by_joined_adds_what_was_missed);
    tcase_add_test(t, metric_by_joined_is_as_one_table);
    tcase_add_test(t, metric_by_counts_the_examples_of_each_label);
    tcase_add_test(t, scores_of_numbers_have_their_own_figures);
    tcase_add_loop_test(t, metric_by_joined_says_what_may_be_missed, 0, 2);
    tcase_add_test(t, metric_by_part_takes_only_what_can_be);
    tcase_add_test(t, metric_by_is_exact_while_values_fit);
    tcase_add_test(t, metric_by_finds_crafted_values_soon);
    tcase_add_test(t, metric_group_finds_crafted_groups_soon);
    tcase_add_loop_test(t, measure_does_not_depend_on_how_examples_are_handed_over, 0, 2);
    tcase_add_test(t, measure_mean_is_over_the_labels_that_have_the_figure);
    tcase_add_test(t, measure_mean_is_over_labels_of_one_kind);
    tcase_add_test(t, measure_too_many_examples_are_refused);
    tcase_add_test(t, measure_values_of_all_fields_fit);
    tcase_add_test(t, measure_options_come_from_the_job);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
