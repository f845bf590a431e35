/* metric_tally.c: counts, adds and serializes tallies. */
#include "proto/metric/metric_tally.h"

#include "proto/base/assert.h"
#include "proto/base/limits.h"
#include "proto/metric/metric_cell.h"

#include <string.h>

#define LOSS_MAX UINT64_C(35) /* largest loss of one example: p is kept within [1e-15, 1 - 1e-15] */

static const struct metric_grid grid = {METRIC_TALLY_BITS, METRIC_TALLY_OCTAVES};

static uint64_t parts(double x)
{
    return (uint64_t)(x * (double)METRIC_TALLY_ONE + 0.5);
}

void metric_tally_add(struct metric_tally *t, float p, float y, double loss)
{
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
    for (uint32_t i = 0; i < METRIC_TALLY_CELLS; i++)
        count += t->positives[i] + t->negatives[i];
    return count;
}

void metric_tally_total(struct metric_tally_total *to, const struct metric_tally *from)
{
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

/* True when the entries rise by label and cell and add up to `examples` in each label, or when
 * there are none. */
static bool entries_ok(const struct metric_tally_entry *e, uint32_t count, uint32_t labels,
                       uint64_t examples)
{
    uint64_t seen[LIMIT_TASKS] = {0}, before = 0;
    bool none = true;
    for (uint32_t i = 0; i < count; i++) {
        struct metric_tally_entry at;
        memcpy(&at, (const char *)e + i * sizeof at, sizeof at);
        uint64_t place = (uint64_t)at.label * METRIC_TALLY_CELLS + at.cell + 1;
        if (at.label >= labels || at.cell >= METRIC_TALLY_CELLS || place <= before ||
            at.positives > examples - seen[at.label] ||
            at.negatives > examples - seen[at.label] - at.positives)
            return false;
        before = place;
        seen[at.label] += at.positives + at.negatives;
        none = false;
    }
    for (uint32_t l = 0; l < labels && !none; l++)
        if (seen[l] != examples)
            return false;
    return true;
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
    if (!entries_ok(entry, count, labels, examples))
        return false;
    for (uint32_t l = 0; l < labels; l++)
        if (!sums_ok(&s[l], count > 0 ? examples : 0))
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
