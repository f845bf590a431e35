/* test_row_cache.c: the index of a lane's cached rows, against an oracle that knows which pushes
 * every served row contains.
 *
 * The oracle plays a shard and its lanes: marks, offsets and clocks as in embedding/rows/run.c,
 * pulls that are answered in two parts at different moments, lanes that leave, come back and join.
 * A row's content is the mark of every lane at the moment of its pull, so the missing pushes are
 * known exactly. */
#include "dense/model.h"
#include "proto/base/key.h"
#include "proto/base/rng.h"
#include "worker/train/row_cache.h"

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 5, KEYS = 96, BATCH_KEYS = 24, FLIGHT = 4, PUSHES = 4096 };

struct content {
    uint64_t key, pulled_for;
    uint64_t mark[LANES];
};

struct oracle_lane {
    bool live;
    int64_t offset;
    uint64_t mark;
    uint64_t clock[PUSHES]; /* each push's, when it was applied */
};

struct oracle_batch {
    uint64_t number;
    uint64_t key[BATCH_KEYS];
    uint32_t count;
    uint64_t fresh[BATCH_KEYS];
    uint32_t source[BATCH_KEYS], keep[2 * BATCH_KEYS];
    struct row_plan plan;
    uint32_t half; /* fresh keys before it form the first part of the pull */
    bool answered[2];
    struct content row[BATCH_KEYS];
};

struct oracle {
    struct rng rng;
    struct row_cache *cache;
    bool bounded;
    uint32_t staleness, prefetch, lanes, slots;
    struct oracle_lane lane[LANES]; /* lane 0 is the tested one */
    struct content slot[KEYS];
    struct oracle_batch batch[FLIGHT + 1];
    uint64_t planned, computed, pushed;
    uint64_t hits, misses, broken; /* broken: rows served beyond the bound */
    uint64_t staleness_most;
};

static uint64_t below(struct oracle *o, uint64_t n)
{
    return rng_below(&o->rng, n);
}

/* ---- the shard's clocks ---------------------------------------------------------------------- */

static uint64_t clock_of(const struct oracle *o, uint32_t lane, uint64_t batch)
{
    return batch + (uint64_t)o->lane[lane].offset;
}

static uint64_t low_of(const struct oracle *o)
{
    uint64_t low = UINT64_MAX;
    for (uint32_t i = 0; i < o->lanes; i++)
        if (o->lane[i].live && clock_of(o, i, o->lane[i].mark) < low)
            low = clock_of(o, i, o->lane[i].mark);
    return low;
}

static bool may_see(const struct oracle *o, uint64_t clock)
{
    return !o->bounded || low_of(o) + o->staleness + 1 >= clock;
}

static void push_apply(struct oracle *o, uint32_t lane)
{
    struct oracle_lane *l = &o->lane[lane];
    if (l->mark + 1 >= PUSHES)
        return;
    l->mark++;
    l->clock[l->mark] = clock_of(o, lane, l->mark);
}

/* Another lane pushes, leaves, joins or comes back. */
static void other_lane(struct oracle *o)
{
    uint32_t i = o->lanes == 1 ? 0 : 1 + (uint32_t)below(o, o->lanes - 1);
    struct oracle_lane *l = &o->lane[i];
    if (i == 0)
        return;
    if (!l->live) {
        if (below(o, 8) == 0) {
            l->offset = (int64_t)(low_of(o) - l->mark);
            l->live = true;
        }
    } else if (below(o, 60) == 0) {
        l->live = false;
    } else if (may_see(o, clock_of(o, i, l->mark + 1))) {
        push_apply(o, i);
    }
}

/* ---- the tested lane ------------------------------------------------------------------------- */

static struct oracle_batch *batch_at(struct oracle *o, uint64_t number)
{
    return &o->batch[number % (FLIGHT + 1)];
}

static int by_mix(const void *a, const void *b)
{
    uint64_t x = key_mix(*(const uint64_t *)a), y = key_mix(*(const uint64_t *)b);
    return (x > y) - (x < y);
}

/* Some keys are in nearly every batch, most are in few. */
static void keys_draw(struct oracle *o, struct oracle_batch *b)
{
    b->count = 0;
    for (uint32_t i = 0; i < BATCH_KEYS; i++) {
        uint64_t key = below(o, 3) == 0 ? below(o, 6) : below(o, KEYS);
        bool seen = false;
        for (uint32_t j = 0; j < b->count; j++)
            seen = seen || b->key[j] == key;
        if (!seen)
            b->key[b->count++] = key;
    }
    qsort(b->key, b->count, sizeof b->key[0], by_mix);
}

/* Counts errors and asserts once: a ck_assert takes a microsecond, and there are millions of
 * checks. */
static void plan_check(const struct oracle *o, const struct oracle_batch *b)
{
    uint32_t fresh = 0, outside = 0, misplaced = 0, doubled = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        if (b->source[i] & MODEL_CACHED) {
            outside += (b->source[i] & ~MODEL_CACHED) >= o->slots;
            continue;
        }
        misplaced += b->source[i] != fresh || b->fresh[fresh] != b->key[i];
        fresh++;
    }
    for (uint32_t i = 0; i < b->plan.keep_count; i++) {
        outside += b->keep[2 * i] >= fresh || b->keep[2 * i + 1] >= o->slots;
        for (uint32_t j = 0; j < i; j++)
            doubled += b->keep[2 * j + 1] == b->keep[2 * i + 1];
    }
    ck_assert_uint_eq(fresh, b->plan.fresh_count);
    ck_assert_uint_eq(outside, 0);
    ck_assert_uint_eq(misplaced, 0);
    ck_assert_uint_eq(doubled, 0);
}

static void batch_plan(struct oracle *o)
{
    struct oracle_batch *b = batch_at(o, o->planned + 1);
    if (o->planned - o->computed > o->prefetch || o->planned + 2 >= PUSHES)
        return;
    memset(b, 0, sizeof *b);
    b->number = ++o->planned;
    keys_draw(o, b);
    b->plan = (struct row_plan){.fresh = b->fresh, .source = b->source, .keep = b->keep};
    row_cache_plan(o->cache, b->number, b->key, b->count, &b->plan);
    plan_check(o, b);
    b->half = (uint32_t)below(o, b->plan.fresh_count + 1);
    b->answered[0] = b->half == 0;
    b->answered[1] = b->half == b->plan.fresh_count;
    o->hits += b->count - b->plan.fresh_count;
    o->misses += b->plan.fresh_count;
    if (b->plan.staleness > o->staleness_most)
        o->staleness_most = b->plan.staleness;
}

/* Answers one part of one pull, if the bound allows it. */
static void pull_answer(struct oracle *o)
{
    if (o->planned == o->computed)
        return;
    struct oracle_batch *b = batch_at(o, o->computed + 1 + below(o, o->planned - o->computed));
    uint32_t part = (uint32_t)below(o, 2), from = part == 0 ? 0 : b->half,
             to = part == 0 ? b->half : b->plan.fresh_count;
    uint64_t clock = clock_of(o, 0, b->number);

    if (b->answered[part] || !may_see(o, clock))
        return;
    b->answered[part] = true;
    for (uint32_t i = from; i < to; i++) {
        b->row[i] = (struct content){.key = b->fresh[i], .pulled_for = b->number};
        for (uint32_t l = 0; l < o->lanes; l++)
            b->row[i].mark[l] = o->lane[l].mark;
    }
    row_cache_answered(o->cache, b->number, b->fresh + from, to - from, clock, low_of(o));
}

/* True when the row contains every push of a clock <= that of the batch less s + 1. */
static bool within_bound(const struct oracle *o, const struct content *row, uint64_t batch)
{
    uint64_t clock = clock_of(o, 0, batch);
    if (!o->bounded)
        return batch - row->pulled_for <= o->staleness;
    for (uint32_t i = 0; i < o->lanes; i++)
        for (uint64_t m = row->mark[i] + 1; m <= o->lane[i].mark; m++)
            if (o->lane[i].clock[m] + o->staleness + 1 <= clock)
                return false;
    return true;
}

static void batch_compute(struct oracle *o)
{
    struct oracle_batch *b = batch_at(o, o->computed + 1);
    if (o->planned == o->computed || !b->answered[0] || !b->answered[1])
        return;
    for (uint32_t i = 0; i < b->count; i++) {
        const struct content *row = b->source[i] & MODEL_CACHED
                                        ? &o->slot[b->source[i] & ~MODEL_CACHED]
                                        : &b->row[b->source[i]];
        ck_assert_uint_eq(row->key, b->key[i]);
        o->broken += !within_bound(o, row, b->number);
    }
    for (uint32_t i = 0; i < b->plan.keep_count; i++)
        o->slot[b->keep[2 * i + 1]] = b->row[b->keep[2 * i]];
    o->computed++;
}

static void own_push(struct oracle *o)
{
    if (o->pushed < o->computed) {
        o->pushed++;
        push_apply(o, 0);
    }
}

/* Runs `steps` events. The cache uses `rule`; the shard and the oracle use their own bound. */
static void play(struct oracle *o, uint64_t seed, bool bounded, const struct row_cache_rule *rule,
                 uint32_t steps)
{
    struct err e = {0};
    memset(o, 0, sizeof *o);
    o->rng = rng_of(seed, 0, 0);
    o->bounded = bounded;
    o->staleness = bounded ? (uint32_t)below(o, 9) : 1 + (uint32_t)below(o, 5);
    o->prefetch = (uint32_t)below(o, FLIGHT);
    o->lanes = 1 + (uint32_t)below(o, LANES);
    o->slots = 4 + (uint32_t)below(o, KEYS - 4);
    for (uint32_t i = 0; i < o->lanes; i++)
        o->lane[i].live = i == 0 || below(o, 2) == 0;
    struct row_cache_rule own = {.bounded = bounded, .most = o->staleness};
    ck_assert_int_eq(row_cache_new(o->slots, rule == NULL ? &own : rule, &o->cache, &e), 0);
    for (uint32_t i = 0; i < steps; i++) {
        switch (below(o, 6)) {
        case 0:
            batch_plan(o);
            break;
        case 1:
        case 2:
            pull_answer(o);
            break;
        case 3:
            batch_compute(o);
            break;
        case 4:
            own_push(o);
            break;
        default:
            other_lane(o);
        }
        if (below(o, 2000) == 0)
            row_cache_clear(o->cache); /* as after a change of the map */
    }
    row_cache_free(o->cache);
}

static struct oracle oracle;

/* ---- cases ----------------------------------------------------------------------------------- */

START_TEST(row_cache_serves_within_the_bound)
{
    uint64_t hits = 0, batches = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        play(&oracle, seed, true, NULL, 6000);
        ck_assert_msg(oracle.broken == 0, "seed %" PRIu64 ": %" PRIu64 " rows beyond the bound",
                      seed, oracle.broken);
        ck_assert_uint_le(oracle.staleness_most, oracle.staleness);
        hits += oracle.hits;
        batches += oracle.computed;
    }
    ck_assert_uint_gt(batches, 50000); /* it did run, */
    ck_assert_uint_gt(hits, 50000);    /* and rows were served */
}
END_TEST

/* The control case: the oracle finds a cache that takes the bound for a much wider one. */
START_TEST(oracle_finds_a_cache_that_ignores_the_bound)
{
    struct row_cache_rule loose = {.bounded = true, .most = 1000},
                          one_more = {.bounded = true, .most = 9};
    uint64_t broken = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        play(&oracle, seed, true, &loose, 6000);
        broken += oracle.broken > 0;
    }
    ck_assert_uint_ge(broken, 18);                 /* nearly every run */
    for (uint64_t seed = 1; seed <= 300; seed++) { /* off by one where s is 8 */
        play(&oracle, seed, true, &one_more, 6000);
        if (oracle.staleness == 8 && oracle.broken > 0)
            return;
    }
    ck_abort_msg("a bound that is one too wide was not seen");
}
END_TEST

START_TEST(row_cache_serves_some_batches_when_asynchronous)
{
    uint64_t hits = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        play(&oracle, seed, false, NULL, 6000);
        ck_assert_uint_eq(oracle.broken, 0);
        hits += oracle.hits;
    }
    ck_assert_uint_gt(hits, 10000);
    struct row_cache_rule loose = {.bounded = false, .most = 100};
    play(&oracle, 1, false, &loose, 6000);
    ck_assert_uint_gt(oracle.broken, 0);
}
END_TEST

/* ---- by hand --------------------------------------------------------------------------------- */

static uint64_t fresh[64];
static uint32_t source[64], keeps[128];
static struct row_plan plan = {.fresh = fresh, .source = source, .keep = keeps};

static struct row_cache *small(uint64_t slots, bool bounded, uint32_t most)
{
    struct row_cache_rule rule = {.bounded = bounded, .most = most};
    struct row_cache *c;
    struct err e = {0};
    ck_assert_int_eq(row_cache_new(slots, &rule, &c, &e), 0);
    return c;
}

/* s = 4, low two clocks behind: the row serves batches b .. b + 3. */
START_TEST(row_cache_counts_batches_from_the_answer)
{
    struct row_cache *c = small(8, true, 4);
    uint64_t key = 7;
    row_cache_plan(c, 100, &key, 1, &plan);
    ck_assert_uint_eq(plan.fresh_count, 1);
    ck_assert_uint_eq(plan.keep_count, 1);
    /* no answer yet: pulled again, but not kept twice */
    row_cache_plan(c, 101, &key, 1, &plan);
    ck_assert_uint_eq(plan.fresh_count, 1);
    ck_assert_uint_eq(plan.keep_count, 0);
    row_cache_answered(c, 100, &key, 1, 500, 498);
    row_cache_answered(c, 101, &key, 1, 501, 500); /* it does not fill the slot: no effect */
    for (uint64_t b = 102; b <= 103; b++) {
        row_cache_plan(c, b, &key, 1, &plan);
        ck_assert_uint_eq(plan.fresh_count, 0);
        ck_assert_uint_eq(plan.source[0], MODEL_CACHED | 0);
        ck_assert_uint_eq(plan.staleness, b - 100 + 1); /* clock - 1 - low */
    }
    row_cache_plan(c, 104, &key, 1, &plan); /* it would miss clock 499 = 504 - 4 - 1 */
    ck_assert_uint_eq(plan.fresh_count, 1);
    ck_assert_uint_eq(plan.keep_count, 1);
    ck_assert_uint_eq(plan.keep[1], 0); /* refreshed in its place */
    row_cache_free(c);
}
END_TEST

/* With bsp's bound a row is never served, nor in a lane that is out of the clock (fenced). */
START_TEST(row_cache_never_serves_without_slack)
{
    struct row_cache *c = small(8, true, 0);
    uint64_t key = 7;
    row_cache_plan(c, 5, &key, 1, &plan);
    row_cache_answered(c, 5, &key, 1, 5, 4);
    row_cache_plan(c, 6, &key, 1, &plan);
    ck_assert_uint_eq(plan.fresh_count, 1);
    row_cache_free(c);
    c = small(8, true, 100);
    row_cache_plan(c, 5, &key, 1, &plan);
    row_cache_answered(c, 5, &key, 1, 5, UINT64_MAX);
    row_cache_plan(c, 6, &key, 1, &plan);
    ck_assert_uint_eq(plan.fresh_count, 1);
    row_cache_free(c);
    for (uint64_t low = 4; low < 7; low++) { /* not behind its clock: nothing known */
        c = small(8, true, 100);
        row_cache_plan(c, 5, &key, 1, &plan);
        row_cache_answered(c, 5, &key, 1, 5, low);
        row_cache_plan(c, 6, &key, 1, &plan);
        ck_assert_uint_eq(plan.fresh_count, low == 4 ? 0 : 1);
        row_cache_free(c);
    }
}
END_TEST

/* One slot and two keys in a batch: one is kept. A row that is being pulled is not evicted. */
START_TEST(row_cache_never_writes_a_slot_twice)
{
    struct row_cache *c = small(1, false, 50);
    uint64_t key[2] = {1, 2};
    if (key_mix(key[0]) > key_mix(key[1])) {
        key[0] = 2;
        key[1] = 1;
    }
    row_cache_plan(c, 1, key, 2, &plan);
    ck_assert_uint_eq(plan.keep_count, 1);
    row_cache_plan(c, 2, key + 1, 1, &plan);
    ck_assert_uint_eq(plan.keep_count, 0);
    row_cache_answered(c, 1, key, 2, 1, 0);
    row_cache_plan(c, 3, key, 2, &plan);
    ck_assert_uint_eq(plan.fresh_count, 1); /* key[0] is hit, so spared once */
    row_cache_clear(c);
    row_cache_plan(c, 4, key, 1, &plan);
    ck_assert_uint_eq(plan.fresh_count, 1);
    row_cache_free(c);
}
END_TEST

/* A key that is used again and again stays during a flood of others. */
START_TEST(row_cache_keeps_what_is_hot)
{
    struct row_cache *c = small(32, false, 1000);
    uint32_t hits = 0;
    for (uint64_t b = 1; b <= 500; b++) {
        uint64_t key[9] = {12345};
        for (uint64_t i = 1; i < 9; i++)
            key[i] = 1000000 + b * 8 + i;
        qsort(key, 9, sizeof key[0], by_mix);
        row_cache_plan(c, b, key, 9, &plan);
        hits += 9 - plan.fresh_count;
        row_cache_answered(c, b, plan.fresh, plan.fresh_count, b, b - 1);
    }
    ck_assert_uint_gt(hits, 480);
    row_cache_free(c);
}
END_TEST

START_TEST(row_cache_refuses_what_no_memory_holds)
{
    struct row_cache_rule rule = {.bounded = false, .most = 1};
    struct row_cache *c;
    struct err e = {0};
    ck_assert_int_eq(row_cache_new((1ull << 30) + 1, &rule, &c, &e), SHOAL_E_TOO_BIG);
    ck_assert_ptr_nonnull(strstr(e.text, "train.cache.rows"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("row_cache");
    TCase *c = tcase_create("row_cache");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, row_cache_serves_within_the_bound);
    tcase_add_test(c, oracle_finds_a_cache_that_ignores_the_bound);
    tcase_add_test(c, row_cache_serves_some_batches_when_asynchronous);
    tcase_add_test(c, row_cache_counts_batches_from_the_answer);
    tcase_add_test(c, row_cache_never_serves_without_slack);
    tcase_add_test(c, row_cache_never_writes_a_slot_twice);
    tcase_add_test(c, row_cache_keeps_what_is_hot);
    tcase_add_test(c, row_cache_refuses_what_no_memory_holds);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
