/* metric_group.c: examples by group, and a sample of the groups when there are too many. */
#include "proto/metric/metric_group.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/rng.h"
#include "proto/base/salt.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 1024u
#define NO_LABEL UINT32_MAX /* packed: sorts behind all predictions */

/* Not key_mix, because tablets and sampled groups must not depend on the same bits. */
static uint64_t group_hash(uint64_t group)
{
    return rng_mix(group + 0x9e3779b97f4a7c15ULL);
}

static bool hash_stays(uint64_t hash, uint32_t level)
{
    return level == 0 || hash >> (64 - level) == 0;
}

int metric_group_open(struct metric_group *g, uint32_t tasks, uint64_t room, uint64_t expected,
                      struct err *e)
{
    uint64_t rows = MIN(expected, room);
    SHOAL_ASSERT(tasks > 0 && tasks <= LIMIT_TASKS);
    memset(g, 0, sizeof *g);
    g->tasks = tasks;
    g->room = (uint32_t)MIN(rows, METRIC_EXAMPLES_MAX);
    g->slots = SLOTS_FIRST;
    g->salt = salt_draw();
    g->group_room = SLOTS_FIRST / 2;
    g->of = malloc((rows + 1) * sizeof *g->of);
    g->hash = malloc(g->group_room * sizeof *g->hash);
    g->slot = calloc(g->slots, sizeof *g->slot);
    bool whole = g->of != NULL && g->hash != NULL && g->slot != NULL;
    for (uint32_t t = 0; t < tasks; t++) {
        g->packed[t] = malloc((rows + 1) * sizeof *g->packed[t]);
        whole = whole && g->packed[t] != NULL;
    }
    if (whole)
        return 0;
    metric_group_close(g);
    return err_set(e, SHOAL_E_NOMEM,
                   "no memory for %" PRIu64 " predictions by group: set evaluate.exact lower",
                   rows);
}

void metric_group_close(struct metric_group *g)
{
    for (uint32_t t = 0; t < LIMIT_TASKS; t++)
        free(g->packed[t]);
    free(g->of);
    free(g->hash);
    free(g->slot);
    memset(g, 0, sizeof *g);
}

/* ---- groups by number ------------------------------------------------------------------------ */

/* The slot that holds this hash, or the empty one where it belongs. */
static uint32_t *slot_find(const struct metric_group *g, uint64_t hash)
{
    uint32_t at = (uint32_t)salt_mix(g->salt, hash) & (g->slots - 1);
    while (g->slot[at] != 0 && g->hash[g->slot[at] - 1] != hash)
        at = (at + 1) & (g->slots - 1);
    return &g->slot[at];
}

static void slots_fill(struct metric_group *g)
{
    memset(g->slot, 0, g->slots * sizeof *g->slot);
    for (uint32_t i = 0; i < g->groups; i++)
        *slot_find(g, g->hash[i]) = i + 1;
}

static int groups_grow(struct metric_group *g)
{
    SHOAL_ASSERT(g->slots <= UINT32_MAX / 2);
    uint32_t *slot = malloc(2ull * g->slots * sizeof *slot);
    uint64_t *hash = NULL;
    if (slot != NULL)
        hash = realloc(g->hash, 2ull * g->group_room * sizeof *hash);

    if (hash == NULL) {
        free(slot);
        return SHOAL_E_NOMEM;
    }
    free(g->slot);
    g->slot = slot;
    g->hash = hash;
    g->slots *= 2;
    g->group_room *= 2;
    slots_fill(g);
    return 0;
}

/* Drops half of the groups and their examples, and renumbers the others. */
static int groups_thin(struct metric_group *g)
{
    uint32_t *number = malloc((g->groups + 1ull) * sizeof *number), groups = 0, count = 0;
    if (number == NULL)
        return SHOAL_E_NOMEM;
    g->level++;
    for (uint32_t i = 0; i < g->groups; i++) {
        number[i] = UINT32_MAX;
        if (hash_stays(g->hash[i], g->level)) {
            number[i] = groups;
            g->hash[groups++] = g->hash[i];
        }
    }
    for (uint32_t i = 0; i < g->count; i++) {
        if (number[g->of[i]] == UINT32_MAX)
            continue;
        g->of[count] = number[g->of[i]];
        for (uint32_t t = 0; t < g->tasks; t++)
            g->packed[t][count] = g->packed[t][i];
        count++;
    }
    free(number);
    g->groups = groups;
    g->count = count;
    slots_fill(g);
    return 0;
}

int metric_group_add(struct metric_group *g, uint64_t group, const float *p, const float *y)
{
    uint64_t hash = group_hash(group);
    while (g->count == g->room && g->level < 64 && hash_stays(hash, g->level))
        if (groups_thin(g) != 0)
            return SHOAL_E_NOMEM;
    if (!hash_stays(hash, g->level) || g->count == g->room)
        return 0;
    if (g->groups == g->group_room && groups_grow(g) != 0)
        return SHOAL_E_NOMEM;
    uint32_t *slot = slot_find(g, hash);
    if (*slot == 0) {
        g->hash[g->groups++] = hash;
        *slot = g->groups;
    }
    g->of[g->count] = *slot - 1;
    for (uint32_t t = 0; t < g->tasks; t++) {
        uint32_t bits;
        memcpy(&bits, &p[t], sizeof bits);
        g->packed[t][g->count] = isnan(y[t]) ? NO_LABEL : bits << 1 | (y[t] > 0.5f);
    }
    g->count++;
    return 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Pairs in the right order among these predictions, ties half. */
static double pairs_right(const uint32_t *packed, uint32_t count, uint32_t *positives)
{
    double below = 0, right = 0;
    *positives = 0;
    for (uint32_t i = 0; i < count;) {
        uint32_t first = i, score = packed[i] >> 1, p = 0;
        for (; i < count && packed[i] >> 1 == score; i++)
            p += packed[i] & 1;
        right += p * (below + (i - first - p) / 2.0);
        below += i - first - p;
        *positives += p;
    }
    return right;
}

/* by_group: this label's predictions, group by group; end: the end of each group in it. */
static void groups_sum(const struct metric_group *g, uint32_t *by_group, uint32_t *scratch,
                       const uint32_t *end, struct metric *out)
{
    double sum = 0, weight = 0;
    out->groups = 0;
    for (uint32_t i = 0; i < g->groups; i++) {
        uint32_t begin = i == 0 ? 0 : end[i - 1], count = end[i] - begin, positives;
        array_sort(by_group + begin, scratch, count);
        while (count > 0 && by_group[begin + count - 1] == NO_LABEL)
            count--;
        double right = pairs_right(by_group + begin, count, &positives);
        if (positives == 0 || positives == count)
            continue;
        sum += right / ((double)positives * (count - positives)) * count;
        weight += count;
        out->groups++;
    }
    out->gauc = metric_ratio(sum, weight);
    out->gauc_share = ldexp(1, -(int)g->level);
}

int metric_group_finish(struct metric_group *g, struct metric *out, struct err *e)
{
    uint32_t *by_group = malloc((g->count + 1ull) * sizeof *by_group),
             *end = calloc(g->groups + 1ull, sizeof *end);
    uint32_t *scratch = malloc((g->count + 1ull) * sizeof *scratch);
    bool whole = by_group != NULL && end != NULL && scratch != NULL;
    for (uint32_t t = 0; t < g->tasks && whole; t++) {
        if (metric_is_real(&out[t]))
            continue;
        /* end[i + 1] holds counts at first, then starts of groups, then their ends */
        memset(end, 0, (g->groups + 1ull) * sizeof *end);
        for (uint32_t i = 0; i < g->count; i++)
            end[g->of[i] + 1]++;
        for (uint32_t i = 0; i < g->groups; i++)
            end[i + 1] += end[i];
        for (uint32_t i = 0; i < g->count; i++)
            by_group[end[g->of[i]]++] = g->packed[t][i];
        groups_sum(g, by_group, scratch, end, &out[t]);
    }
    free(by_group);
    free(end);
    free(scratch);
    if (!whole)
        return err_set(e, SHOAL_E_NOMEM,
                       "no memory for %u predictions by group: set evaluate.exact lower", g->count);
    return 0;
}
