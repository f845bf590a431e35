/* plan.c: plan.h describes the three passes. */
#include "server/coord/fleet/plan.h"

#include "proto/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define EXCHANGES UINT64_C(30000000) /* tablets that are looked at, at most */

/* The plan's figures. least: what a tablet without rows counts, which may get some. */
struct work {
    const uint64_t *bytes, *load;
    const bool *leaves;
    uint32_t tablets, shards;
    uint64_t least, even; /* even: bytes of a shard that carries its part, and a hundredth more */
};

/* A shard's sums under the goal so far. */
struct sums {
    uint64_t bytes, load;
};

static uint64_t bytes_of(const struct work *p, uint32_t tablet)
{
    return p->bytes[tablet] + p->least;
}

static void put(const struct work *p, struct sums *sum, uint16_t *goal, uint32_t tablet,
                uint32_t shard)
{
    struct sums *from = &sum[goal[tablet]], *to = &sum[shard];
    from->bytes -= bytes_of(p, tablet);
    from->load -= p->load[tablet];
    to->bytes += bytes_of(p, tablet);
    to->load += p->load[tablet];
    goal[tablet] = (uint16_t)shard;
}

/* Returns the shard that carries least, or most, among those that keep tablets. */
static uint32_t extreme(const struct work *p, const struct sums *sum, bool load, bool most)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t s = 0; s < p->shards; s++) {
        if (p->leaves[s])
            continue;
        uint64_t here = load ? sum[s].load : sum[s].bytes, there = 0;
        if (best != UINT32_MAX)
            there = load ? sum[best].load : sum[best].bytes;
        if (best == UINT32_MAX || (most ? here > there : here < there))
            best = s;
    }
    SHOAL_ASSERT(best != UINT32_MAX);
    return best;
}

static void leave(const struct work *p, struct sums *sum, uint16_t *goal)
{
    for (uint32_t i = 0; i < p->tablets; i++)
        if (p->leaves[goal[i]])
            put(p, sum, goal, i, extreme(p, sum, false, false));
}

static void even_bytes(const struct work *p, struct sums *sum, uint16_t *goal)
{
    for (uint32_t i = 0; i < p->tablets; i++) {
        uint32_t least = extreme(p, sum, false, false);
        /* both are nearer to each other afterwards, by more than a trifle */
        if (sum[goal[i]].bytes > p->even &&
            sum[goal[i]].bytes > sum[least].bytes + bytes_of(p, i) + bytes_of(p, i) / 2)
            put(p, sum, goal, i, least);
    }
}

/* True when the bytes of two tablets differ by a quarter at most. */
static bool alike(const struct work *p, uint32_t a, uint32_t b)
{
    uint64_t x = bytes_of(p, a), y = bytes_of(p, b), apart = x > y ? x - y : y - x;
    return 4 * apart <= x;
}

/* Lets one tablet of the most loaded shard change places. False: that would not help. */
static bool exchange(const struct work *p, struct sums *sum, uint16_t *goal)
{
    uint32_t most = extreme(p, sum, true, true), least = extreme(p, sum, true, false);
    uint64_t apart = sum[most].load - sum[least].load;
    uint32_t hot = UINT32_MAX, cold = UINT32_MAX;
    for (uint32_t i = 0; i < p->tablets; i++)
        if (goal[i] == most && p->load[i] < apart &&
            (hot == UINT32_MAX || p->load[i] > p->load[hot]))
            hot = i;
    for (uint32_t i = 0; hot != UINT32_MAX && i < p->tablets; i++)
        if (goal[i] == least && alike(p, hot, i) && p->load[i] < p->load[hot] &&
            (cold == UINT32_MAX || p->load[i] < p->load[cold]))
            cold = i;
    if (cold == UINT32_MAX)
        return false;
    put(p, sum, goal, hot, least);
    put(p, sum, goal, cold, most);
    return true;
}

static void even_load(const struct work *p, struct sums *sum, uint16_t *goal)
{
    uint64_t all = 0, kept = 0;
    for (uint32_t s = 0; s < p->shards; s++) {
        all += sum[s].load;
        kept += !p->leaves[s];
    }
    double bound = COORD_PLAN_EVEN * (double)all / (double)kept;
    /* each exchange looks at all tablets */
    uint64_t most = 1 + EXCHANGES / (1 + (uint64_t)p->tablets);
    for (uint64_t i = 0; i < most; i++)
        if ((double)sum[extreme(p, sum, true, true)].load <= bound || !exchange(p, sum, goal))
            return;
}

/* Fills in `least`, the sums, and `even`. */
static void weigh(const struct coord_plan *p, struct work *w, struct sums *sum)
{
    uint64_t all = 0, kept = 0;
    for (uint32_t i = 0; i < p->tablets; i++)
        all += p->bytes[i];
    w->least = all / (16 * (uint64_t)p->tablets) + 1;
    all += w->least * p->tablets;
    for (uint32_t s = 0; s < p->shards; s++)
        kept += !p->leaves[s];
    SHOAL_ASSERT(kept > 0);
    w->even = all / kept + all / kept / 100;
    for (uint32_t i = 0; i < p->tablets; i++) {
        SHOAL_ASSERT(p->owner[i] < p->shards);
        sum[p->owner[i]].bytes += bytes_of(w, i);
        sum[p->owner[i]].load += p->load[i];
    }
}

bool coord_plan_make(const struct coord_plan *p, uint16_t *goal)
{
    struct work w = {p->bytes, p->load, p->leaves, p->tablets, p->shards, 0, 0};
    struct sums *sum = calloc(p->shards, sizeof *sum);
    SHOAL_ASSERT(p->tablets > 0);
    if (sum == NULL)
        return false;
    weigh(p, &w, sum);
    memcpy(goal, p->owner, p->tablets * sizeof *goal);
    leave(&w, sum, goal);
    even_bytes(&w, sum, goal);
    even_load(&w, sum, goal);
    free(sum);
    return true;
}
