/* plan.c: plan.h describes the three passes. */
#include "server/coord/fleet/plan.h"

#include "proto/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define LOOKS UINT64_C(1000000000) /* at tablets, at most, in search of exchanges */
#define NO_SHARD UINT32_MAX

/* The plan's figures. least: what a tablet without rows counts, which may get some. */
struct work {
    const uint64_t *bytes, *load;
    const bool *leaves;
    uint32_t tablets, shards;
    uint64_t least, mean, even; /* bytes of a shard that carries its part; and a hundredth more */
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

/* True for a shard that would still not have more than its part, but for half the tablet. */
static bool has_room(const struct work *p, const struct sums *sum, uint32_t shard, uint32_t tablet)
{
    return shard != NO_SHARD && !p->leaves[shard] &&
           sum[shard].bytes + bytes_of(p, tablet) / 2 <= p->mean;
}

/* Returns the shard of the tablet before. */
static uint32_t before(const uint16_t *goal, uint32_t tablet)
{
    if (tablet == 0)
        return NO_SHARD;
    return goal[tablet - 1];
}

/* Returns the shard to which a tablet goes: to that of the tablets before or behind, else where
 * the last one went, else to the one with the fewest bytes. */
static uint32_t taker_of(const struct work *p, const struct sums *sum, const uint16_t *goal,
                         uint32_t tablet, uint32_t behind, uint32_t last)
{
    const uint32_t wish[] = {before(goal, tablet), behind, last};
    for (size_t i = 0; i < sizeof wish / sizeof *wish; i++)
        if (has_room(p, sum, wish[i], tablet))
            return wish[i];
    return extreme(p, sum, false, false);
}

static void leave(const struct work *p, struct sums *sum, uint16_t *goal)
{
    uint32_t last = NO_SHARD, end = 0;
    for (uint32_t i = 0; i < p->tablets; i++) {
        if (!p->leaves[goal[i]])
            continue;
        for (end = end > i ? end : i; end < p->tablets && p->leaves[goal[end]];)
            end++;
        last = taker_of(p, sum, goal, i, end < p->tablets ? goal[end] : NO_SHARD, last);
        put(p, sum, goal, i, last);
    }
}

/* Moves the ends of stretches: to the shard of the tablets before, or (back) behind. */
static void even_ends(const struct work *p, struct sums *sum, uint16_t *goal, bool back)
{
    for (uint32_t k = 1; k < p->tablets; k++) {
        uint32_t i = k, beside = k - 1;
        if (back) {
            i = p->tablets - 1 - k;
            beside = i + 1;
        }
        if (sum[goal[i]].bytes > p->even && has_room(p, sum, goal[beside], i))
            put(p, sum, goal, i, goal[beside]);
    }
}

static void even_bytes(const struct work *p, struct sums *sum, uint16_t *goal)
{
    uint32_t last = NO_SHARD;
    even_ends(p, sum, goal, false);
    even_ends(p, sum, goal, true);
    for (uint32_t i = 0; i < p->tablets; i++) {
        if (sum[goal[i]].bytes <= p->even)
            continue;
        uint32_t to = taker_of(p, sum, goal, i, NO_SHARD, last);
        /* both are nearer to each other afterwards, by more than a trifle */
        if (sum[goal[i]].bytes > sum[to].bytes + bytes_of(p, i) + bytes_of(p, i) / 2) {
            put(p, sum, goal, i, to);
            last = to;
        }
    }
}

/* Some tablets beside each other of one shard. */
struct window {
    uint32_t count, first, length; /* length: how many of `count` it has so far */
    uint64_t bytes, load;
};

/* Goes on to the next whole window of a shard; false: there is none. */
static bool window_next(const struct work *p, const uint16_t *goal, uint32_t shard,
                        struct window *w)
{
    for (uint32_t i = w->first + w->length; i < p->tablets; i++) {
        if (goal[i] != shard) {
            *w = (struct window){.count = w->count, .first = i + 1};
            continue;
        }
        if (w->length == w->count) {
            w->bytes -= bytes_of(p, w->first);
            w->load -= p->load[w->first];
            w->first++;
            w->length--;
        }
        w->bytes += bytes_of(p, i);
        w->load += p->load[i];
        w->length++;
        if (w->length == w->count)
            return true;
    }
    return false;
}

/* True when the bytes of two windows differ by a quarter of a tablet at most. */
static bool alike(const struct window *a, const struct window *b)
{
    uint64_t apart = a->bytes > b->bytes ? a->bytes - b->bytes : b->bytes - a->bytes;
    return 4 * a->count * apart <= a->bytes;
}

/* The goal of an exchange: two shards, and the load that is to go from one to the other. */
struct wish {
    uint32_t most, least;
    uint64_t apart, need; /* between their loads; less than `need` is not worth it */
};

/* Lets a window of `count` tablets change places with one of the other shard: the hottest up to
 * `limit`, and the coldest that is alike. False: that would not help. */
static bool exchange(const struct work *p, struct sums *sum, uint16_t *goal, const struct wish *x,
                     uint32_t count, uint64_t limit)
{
    struct window w = {.count = count}, hot = {0}, cold = {0};
    while (window_next(p, goal, x->most, &w))
        if (w.load < limit && (hot.count == 0 || w.load > hot.load))
            hot = w;
    w = (struct window){.count = count};
    while (hot.count > 0 && window_next(p, goal, x->least, &w))
        if (alike(&hot, &w) && (cold.count == 0 || w.load < cold.load))
            cold = w;
    if (cold.count == 0 || hot.load <= cold.load || hot.load - cold.load < x->need)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        put(p, sum, goal, hot.first + i, x->least);
        put(p, sum, goal, cold.first + i, x->most);
    }
    return true;
}

/* Lets as few tablets as will do change places. False: no exchange helps. */
static bool relieve(const struct work *p, struct sums *sum, uint16_t *goal, const struct wish *x)
{
    uint64_t each = sum[x->least].load * p->shards / p->tablets; /* a tablet's, about */
    for (uint32_t count = 1; count <= p->tablets / p->shards; count *= 2)
        if (exchange(p, sum, goal, x, count, x->apart / 2 + each * count + 1))
            return true;
    return exchange(p, sum, goal, x, 1, x->apart);
}

static void even_load(const struct work *p, struct sums *sum, uint16_t *goal)
{
    uint64_t all = 0, kept = 0;
    for (uint32_t s = 0; s < p->shards; s++) {
        all += sum[s].load;
        kept += !p->leaves[s];
    }
    uint64_t bound = (uint64_t)(COORD_PLAN_EVEN * (double)all / (double)kept);
    /* each exchange looks at all tablets, for each number of them */
    uint64_t most = 1 + LOOKS / (64 * (1 + (uint64_t)p->tablets));
    for (uint64_t i = 0; i < most; i++) {
        struct wish x = {.most = extreme(p, sum, true, true),
                         .least = extreme(p, sum, true, false)};
        if (sum[x.most].load <= bound)
            return;
        x.apart = sum[x.most].load - sum[x.least].load;
        x.need = (sum[x.most].load - bound) / 8 + 1;
        if (!relieve(p, sum, goal, &x))
            return;
    }
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
    w->mean = all / kept;
    w->even = w->mean + w->mean / 100;
    for (uint32_t i = 0; i < p->tablets; i++) {
        SHOAL_ASSERT(p->owner[i] < p->shards);
        sum[p->owner[i]].bytes += bytes_of(w, i);
        sum[p->owner[i]].load += p->load[i];
    }
}

bool coord_plan_make(const struct coord_plan *p, uint16_t *goal)
{
    struct work w = {p->bytes, p->load, p->leaves, p->tablets, p->shards, 0, 0, 0};
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
