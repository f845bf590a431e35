/* metric_tally.c: counts, adds and serializes tallies. */
#include "proto/metric/metric_tally.h"

#include "proto/base/assert.h"
#include "proto/base/limits.h"
#include "proto/base/minmax.h"
#include "proto/metric/metric_cell.h"

#include <math.h>
#include <string.h>

#define LOSS_MAX UINT64_C(35) /* largest loss of one example: p is kept within [1e-15, 1 - 1e-15] */

static const struct metric_grid grid = {METRIC_TALLY_BITS, METRIC_TALLY_OCTAVES};

static uint64_t parts(double x)
{
    return (uint64_t)(x * (double)METRIC_TALLY_ONE + 0.5);
}

void metric_tally_clear(struct metric_tally *tally, uint32_t labels, uint32_t real)
{
    memset(tally, 0, labels * sizeof *tally);
    for (uint32_t l = 0; l < labels; l++)
        tally[l].is_real = real >> l & 1;
}

/* ---- a label that is a number ---- */

enum { REAL_SQUARE, REAL_ABSOLUTE, REAL_PREDICTED, REAL_LABEL, REAL_LABEL_SQUARE };
#define LIMB_HIGHEST ((int)(METRIC_TALLY_LIMBS * METRIC_TALLY_LIMB_BITS) - 96)

static uint32_t limb_cell(uint32_t sum, uint32_t limb)
{
    return 1 + sum * METRIC_TALLY_LIMBS + limb;
}

/* Adds the digits of |x|, the highest first. */
static void limbs_add(struct metric_tally *t, uint32_t sum, double x)
{
    const double base = (double)(1u << METRIC_TALLY_LIMB_BITS);
    uint64_t *cell = x < 0 ? t->negatives : t->positives;
    double left = ldexp(fabs(x), -LIMB_HIGHEST) * base; /* below `base`, or x is too large */
    if (!(left < base))
        left = base - 1;
    for (uint32_t i = 0; i < METRIC_TALLY_LIMBS && left > 0; i++) {
        double digit = floor(left);
        cell[limb_cell(sum, i)] += (uint64_t)digit;
        left = (left - digit) * base;
    }
}

static double limbs_sum(const uint64_t *cell, uint32_t sum)
{
    double all = 0;
    for (uint32_t i = METRIC_TALLY_LIMBS; i-- > 0;)
        all += ldexp((double)cell[limb_cell(sum, i)],
                     LIMB_HIGHEST - (int)((i + 1) * METRIC_TALLY_LIMB_BITS));
    return all;
}

static void real_add(struct metric_tally *t, float p, float y)
{
    double error = (double)p - (double)y;
    limbs_add(t, REAL_SQUARE, error * error);
    limbs_add(t, REAL_ABSOLUTE, fabs(error));
    limbs_add(t, REAL_PREDICTED, (double)p);
    limbs_add(t, REAL_LABEL, (double)y);
    limbs_add(t, REAL_LABEL_SQUARE, (double)y * (double)y);
    t->positives[0]++;
}

static struct metric_real real_of(const uint64_t *positives, const uint64_t *negatives)
{
    return (struct metric_real){
        .square = limbs_sum(positives, REAL_SQUARE),
        .absolute = limbs_sum(positives, REAL_ABSOLUTE),
        .predicted = limbs_sum(positives, REAL_PREDICTED) - limbs_sum(negatives, REAL_PREDICTED),
        .label = limbs_sum(positives, REAL_LABEL) - limbs_sum(negatives, REAL_LABEL),
        .label_square = limbs_sum(positives, REAL_LABEL_SQUARE),
        .examples = positives[0]};
}

struct metric_real metric_tally_real(const struct metric_tally *t)
{
    SHOAL_ASSERT(t->is_real);
    return real_of(t->positives, t->negatives);
}

/* ---- counting ---- */

void metric_tally_add(struct metric_tally *t, float p, float y, double loss)
{
    if (t->is_real) {
        real_add(t, p, y);
        return;
    }
    uint32_t cell = metric_cell_of(p, &grid);
    SHOAL_ASSERT(p >= 0.0f && p <= 1.0f && cell < METRIC_TALLY_CELLS);
    t->loss += parts(loss);
    t->predicted += parts((double)p);
    if (y > 0.5f)
        t->positives[cell]++;
    else
        t->negatives[cell]++;
}

void metric_tally_sum(struct metric_tally *to, const struct metric_tally *from)
{
    to->is_real = from->is_real;
    to->loss += from->loss;
    to->predicted += from->predicted;
    for (uint32_t i = 0; i < METRIC_TALLY_CELLS; i++) {
        to->positives[i] += from->positives[i];
        to->negatives[i] += from->negatives[i];
    }
}

uint64_t metric_tally_examples(const struct metric_tally *t)
{
    uint64_t count = 0;
    if (t->is_real)
        return t->positives[0];
    for (uint32_t i = 0; i < METRIC_TALLY_CELLS; i++)
        count += t->positives[i] + t->negatives[i];
    return count;
}

uint64_t metric_tally_most(const struct metric_tally *tally, uint32_t labels)
{
    uint64_t most = 0;
    for (uint32_t l = 0; l < labels; l++)
        most = MAX(metric_tally_examples(&tally[l]), most);
    return most;
}

void metric_tally_total(struct metric_tally_total *to, const struct metric_tally *from)
{
    to->is_real = from->is_real;
    to->loss += (double)from->loss / (double)METRIC_TALLY_ONE;
    to->predicted += (double)from->predicted / (double)METRIC_TALLY_ONE;
    for (uint32_t i = 0; i < METRIC_TALLY_CELLS; i++) {
        to->positives[i] += from->positives[i];
        to->negatives[i] += from->negatives[i];
    }
}

void metric_tally_total_figures(const struct metric_tally_total *t, struct metric *out)
{
    struct metric_pairs pairs = {.below = 0};
    if (t->is_real) {
        const struct metric_real real = real_of(t->positives, t->negatives);
        metric_real_figures(&real, out);
        return;
    }
    for (uint32_t i = 0; i < METRIC_TALLY_CELLS; i++)
        metric_pairs_add(&pairs, t->positives[i], t->negatives[i]);
    metric_pairs_figures(&pairs, t->loss, t->predicted, out);
}

void metric_tally_figures(const struct metric_tally *t, struct metric *out)
{
    struct metric_tally_total total = {.loss = 0};
    metric_tally_total(&total, t);
    metric_tally_total_figures(&total, out);
}

/* ---- as bytes -------------------------------------------------------------------------------- */

uint32_t metric_tally_put(const struct metric_tally *tally, uint32_t labels,
                          struct metric_tally_sums *sums, struct metric_tally_entry *entry)
{
    uint32_t count = 0;
    for (uint32_t l = 0; l < labels; l++) {
        const struct metric_tally *t = &tally[l];
        sums[l] = (struct metric_tally_sums){t->loss, t->predicted};
        for (uint32_t i = 0; i < METRIC_TALLY_CELLS; i++)
            if (t->positives[i] + t->negatives[i] > 0)
                entry[count++] =
                    (struct metric_tally_entry){l, i, t->positives[i], t->negatives[i]};
    }
    return count;
}

/* The most that a cell of a label that is a number can hold of one example. */
static uint64_t real_most(uint32_t cell)
{
    return cell == 0 ? 1 : UINT64_C(1) << METRIC_TALLY_LIMB_BITS;
}

static bool real_entry_ok(const struct metric_tally_entry *at, uint64_t examples)
{
    uint64_t most = real_most(at->cell);
    return at->cell < METRIC_TALLY_REAL_CELLS && at->positives / most <= examples &&
           at->negatives / most <= examples;
}

/* True when the entries rise by label and cell, have at most `examples` in each label, and at least
 * as many in all, for each example has a label; or when there are none. seen: examples of each
 * label. */
static bool entries_ok(const struct metric_tally *tally, const struct metric_tally_entry *e,
                       uint32_t count, uint32_t labels, uint64_t examples,
                       uint64_t seen[LIMIT_TASKS])
{
    uint64_t before = 0, all = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct metric_tally_entry at;
        memcpy(&at, (const char *)e + i * sizeof at, sizeof at);
        uint64_t place = (uint64_t)at.label * METRIC_TALLY_CELLS + at.cell + 1;
        if (at.label >= labels || at.cell >= METRIC_TALLY_CELLS || place <= before)
            return false;
        before = place;
        bool real = tally[at.label].is_real;
        if (real && !real_entry_ok(&at, examples))
            return false;
        if (real && at.cell > 0)
            continue;
        if (at.positives > examples - seen[at.label] ||
            at.negatives > examples - seen[at.label] - at.positives)
            return false;
        seen[at.label] += at.positives + at.negatives;
    }
    for (uint32_t l = 0; l < labels; l++)
        all += MIN(seen[l], examples - MIN(all, examples)); /* never above `examples` */
    return count == 0 || all == examples;
}

/* True when `examples` predictions can have these sums. Sums of a whole epoch may come from a
 * store, and its count times the largest loss exceeds 64 bits, so the check divides. */
static bool sums_ok(const struct metric_tally_sums *s, uint64_t examples)
{
    const uint64_t loss_most = LOSS_MAX * METRIC_TALLY_ONE;
    return s->loss / loss_most + (s->loss % loss_most > 0) <= examples &&
           s->predicted / METRIC_TALLY_ONE + (s->predicted % METRIC_TALLY_ONE > 0) <= examples;
}

bool metric_tally_take(struct metric_tally *tally, uint32_t labels, uint64_t examples,
                       const void *sums, const void *entry, uint32_t count)
{
    struct metric_tally_sums s[LIMIT_TASKS];
    struct metric_tally_entry at;
    SHOAL_ASSERT(labels >= 1 && labels <= LIMIT_TASKS);
    memcpy(s, sums, labels * sizeof s[0]);
    uint64_t seen[LIMIT_TASKS] = {0};
    if (!entries_ok(tally, entry, count, labels, examples, seen))
        return false;
    for (uint32_t l = 0; l < labels; l++)
        if (!sums_ok(&s[l], tally[l].is_real ? 0 : seen[l]))
            return false;
    for (uint32_t l = 0; l < labels; l++) {
        tally[l].loss += s[l].loss;
        tally[l].predicted += s[l].predicted;
    }
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&at, (const char *)entry + i * sizeof at, sizeof at);
        tally[at.label].positives[at.cell] += at.positives;
        tally[at.label].negatives[at.cell] += at.negatives;
    }
    return true;
}
