/* row_cache.c: sets of eight slots.
 *
 * A key may lie only in the slots of its set, which the top bits of key_mix(key) select. A batch's
 * keys are sorted by key_mix, so a plan passes through the index once, in order, and each key costs
 * one set. (An open-addressing table in that order fails: a batch that fills one end while slots
 * are freed at the other makes ever longer clusters.) A set evicts its least recently used slot. */
#include "worker/train/row_cache.h"
#include "dense/model.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WAYS = 8, NONE = WAYS, AHEAD = 12, HUGE_PAGE = 2 << 20 };
#define PENDING UINT32_MAX /* lag: the pull is not answered yet */
#define LAG_MAX (UINT32_MAX - 1)

struct set {
    uint64_t key[WAYS];
    struct {
        uint64_t writer; /* number of the batch whose pull fills the slot; 0: free */
        uint32_t lag;    /* clock - low in the answer to that pull */
        uint32_t used;   /* low half of the last batch that wrote or hit it */
    } way[WAYS];
};
_Static_assert(sizeof(struct set) == 192, "three cache lines");

struct row_cache {
    struct row_cache_rule rule;
    /* ways of each set that are used: WAYS, fewer in a cache with fewer rows */
    uint32_t sets, ways;
    struct set *set; /* owned */
};

/* In huge pages if it fills some, because each key of a batch lies in another page. */
static struct set *sets_new(uint32_t sets)
{
    size_t bytes = (sets * sizeof(struct set) + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
    struct set *set;
    if (bytes == HUGE_PAGE)
        return aligned_alloc(64, sets * sizeof *set);
    set = aligned_alloc(HUGE_PAGE, bytes);
    if (set != NULL)
        (void)madvise(set, bytes, MADV_HUGEPAGE); /* a hint */
    return set;
}

int row_cache_new(uint64_t slots, const struct row_cache_rule *rule, struct row_cache **out,
                  struct err *e)
{
    SHOAL_ASSERT(slots > 0);
    if (slots > ROW_CACHE_SLOTS_MAX)
        return err_set(e, SHOAL_E_TOO_BIG,
                       "train.cache.rows: %" PRIu64 " rows, a lane's cache holds %u at most", slots,
                       ROW_CACHE_SLOTS_MAX);
    struct row_cache *c = calloc(1, sizeof *c);
    if (c != NULL) {
        c->rule = *rule;
        c->ways = WAYS;
        if (slots < WAYS)
            c->ways = (uint32_t)slots;
        c->sets = (uint32_t)slots / c->ways;
        c->set = sets_new(c->sets);
    }
    if (c == NULL || c->set == NULL) {
        free(c);
        return err_set(e, SHOAL_E_NOMEM,
                       "no memory for the index of a cache of %" PRIu64
                       " rows: lower train.cache.rows",
                       slots);
    }
    row_cache_clear(c);
    *out = c;
    return 0;
}

void row_cache_free(struct row_cache *c)
{
    if (c == NULL)
        return;
    free(c->set);
    free(c);
}

void row_cache_clear(struct row_cache *c)
{
    memset(c->set, 0, c->sets * sizeof *c->set);
}

/* ---- sets ------------------------------------------------------------------------------------ */

static uint32_t set_of(const struct row_cache *c, uint64_t key)
{
    return (uint32_t)(((unsigned __int128)key_mix(key) * c->sets) >> 64);
}

/* Prefetches the sets of later keys; otherwise an index of some megabytes runs at the speed of
 * memory. Always inlined: GCC 12 sees no effect in a function that only prefetches and drops the
 * calls. */
static inline __attribute__((always_inline)) void
set_fetch(const struct row_cache *c, const uint64_t *keys, uint32_t count, uint32_t at)
{
    if (at >= count)
        return;
    const char *s = (const char *)&c->set[set_of(c, keys[at])];
    for (size_t line = 0; line < sizeof(struct set); line += 64)
        __builtin_prefetch(s + line, 1);
}

static uint32_t way_find(const struct row_cache *c, const struct set *s, uint64_t key)
{
    for (uint32_t w = 0; w < c->ways; w++)
        if (s->key[w] == key && s->way[w].writer != 0)
            return w;
    return NONE;
}

/* Chooses the way for a new key: a free one, else the least recently used, but none that a pull
 * will fill or that this batch uses. */
static uint32_t way_give(const struct row_cache *c, const struct set *s, uint64_t batch)
{
    uint32_t best = NONE, best_age = 0;
    for (uint32_t w = 0; w < c->ways; w++) {
        uint32_t age = (uint32_t)batch - s->way[w].used;
        if (s->way[w].writer == 0)
            return w;
        if (s->way[w].lag != PENDING && age > best_age) {
            best = w;
            best_age = age;
        }
    }
    return best;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static bool serves(const struct row_cache *c, const struct set *s, uint32_t w, uint64_t batch)
{
    if (s->way[w].lag == PENDING)
        return false;
    uint64_t age = batch - s->way[w].writer;

    if (c->rule.bounded)
        return age + s->way[w].lag <= (uint64_t)c->rule.most + 1;

    return age <= c->rule.most;
}

/* Stores the miss at position fresh_count in way w once the batch is computed. */
static void keep(struct row_cache *c, uint32_t set, uint32_t w, uint64_t batch, uint64_t key,
                 struct row_plan *plan)
{
    struct set *s = &c->set[set];
    SHOAL_ASSERT(s->way[w].writer == 0 || s->way[w].lag != PENDING);
    s->key[w] = key;
    s->way[w].writer = batch;
    s->way[w].lag = PENDING;
    s->way[w].used = (uint32_t)batch;
    plan->keep[2 * plan->keep_count] = plan->fresh_count;
    plan->keep[2 * plan->keep_count + 1] = set * c->ways + w;
    plan->keep_count++;
}

static void plan_key(struct row_cache *c, uint64_t batch, uint64_t key, uint32_t *source,
                     struct row_plan *plan)
{
    uint32_t set = set_of(c, key);
    struct set *s = &c->set[set];
    uint32_t w = way_find(c, s, key);
    if (w != NONE && serves(c, s, w, batch)) {
        uint64_t staleness = batch - s->way[w].writer + s->way[w].lag - 1;
        plan->staleness = MAX(staleness, plan->staleness);
        s->way[w].used = (uint32_t)batch;
        *source = MODEL_CACHED | (set * c->ways + w);
        return;
    }
    if (w == NONE)
        w = way_give(c, s, batch);
    else if (s->way[w].lag == PENDING)
        w = NONE; /* an earlier batch will fill it */
    if (w != NONE)
        keep(c, set, w, batch, key, plan);
    *source = plan->fresh_count;
    plan->fresh[plan->fresh_count++] = key;
}

void row_cache_plan(struct row_cache *c, uint64_t batch, const uint64_t *keys, uint32_t count,
                    struct row_plan *plan)
{
    SHOAL_ASSERT(batch > 0);
    plan->fresh_count = plan->keep_count = 0;
    plan->staleness = 0;
    for (uint32_t i = 0; i < count; i++) {
        set_fetch(c, keys, count, i + AHEAD);
        plan_key(c, batch, keys[i], &plan->source[i], plan);
    }
    SHOAL_ASSERT(plan->fresh_count <= count && plan->keep_count <= plan->fresh_count);
}

void row_cache_answered(struct row_cache *c, uint64_t batch, const uint64_t *keys, uint32_t count,
                        uint64_t clock, uint64_t low)
{
    /* low >= clock: the lane is not among the live ones, so no later push is bounded */
    uint32_t lag;
    if (low >= clock || clock - low > LAG_MAX)
        lag = LAG_MAX;
    else
        lag = (uint32_t)(clock - low);

    for (uint32_t i = 0; i < count; i++) {
        set_fetch(c, keys, count, i + AHEAD);
        struct set *s = &c->set[set_of(c, keys[i])];
        uint32_t w = way_find(c, s, keys[i]);
        if (w != NONE && s->way[w].writer == batch && s->way[w].lag == PENDING)
            s->way[w].lag = lag;
    }
}
