/* test_life.c: rows with rules on a whole shard: after a kill and replay, after a restore, or
 * spread over more shards, a table is the same and continues the same. */
#include "embedding/rows/run.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_rig.h"
#include "tests/lib/embedding_stats.h"

#include <inttypes.h>
#include <sys/mman.h>

#define KEYS 200u
#define FLOATS (SHARD_WIDTH + 2)
#define TABLETS (1u << SHARD_TABLET_BITS)

static char dir[LIMIT_PATH];
static struct answer {
    uint64_t digest, later, sequence, image_bytes;
    struct table_counts counts;
    uint32_t batches;
} * shared;

static void setup(void)
{
    rig_dir(dir);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    memset(shared, 0, sizeof *shared);
}

static void teardown(void)
{
    munmap(shared, sizeof *shared);
    rig_remove_dir(dir);
}

/* Every rule at once, so that rows come and go all the time. */
static struct table_schema life_schema(void)
{
    struct table_schema s = rig_schema(0);
    s.zero_first = 1;
    s.rules = (struct row_rules){.stats = 1,
                                 .score_show = 0.1f,
                                 .score_click = 1,
                                 .admit_kind = ADMIT_COUNT,
                                 .admit_threshold = 3,
                                 .admit_waiting = 60,
                                 .age_every = DAY,
                                 .age_decay = 0.8f,
                                 .age_score = 0.3f,
                                 .age_ttl = 4 * DAY,
                                 .age_capacity = 24,
                                 .vector_score = 1,
                                 .weight_max = 0.4f,
                                 .by_shows = 1,
                                 .norm_max = 1.5f};
    s.field_rule_count = 3;
    s.field_rule[0] = (struct field_rule){.field = 2,
                                          .has = FIELD_HAS_ADMIT,
                                          .admit_kind = ADMIT_PROBABILITY,
                                          .admit_threshold = 0.3f};
    s.field_rule[1] = (struct field_rule){
        .field = 3, .has = FIELD_HAS_ADMIT, .admit_kind = ADMIT_SCORE, .admit_threshold = 0.5f};
    s.field_rule[2] = (struct field_rule){.field = 4, .has = FIELD_HAS_TTL, .ttl = DAY};
    return s;
}

static void life_table(struct rig *s)
{
    struct err e = {0};
    struct table_schema schema = life_schema();
    ck_assert_msg(engine_table_create(s->g, &schema, &e) == 0, "%s", e.text);
}

struct life_push {
    struct push_record record;
    uint64_t keys[KEYS];
    float values[KEYS * FLOATS];
};

/* Makes batch `to` of a lane, the part in tablets [first, first + count): a function of lane, batch
 * and key. A day has five batches; a few have a future time or none. */
static void make_push(struct life_push *p, uint32_t lane, uint64_t to, uint32_t first,
                      uint32_t count)
{
    struct rng r = rng_of(5, lane, to);
    uint32_t n = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        uint64_t key = key_make(1 + i % 4, rng_below(&r, 40) * KEYS + i);
        if (key_tablet(key_mix(key), SHARD_TABLET_BITS) - first < count)
            p->keys[n++] = key;
    }
    qsort(p->keys, n, sizeof p->keys[0], key_by_mixed);
    for (uint32_t i = 0; i < n; i++) {
        struct rng own = rng_of(p->keys[i], lane, to);
        float *v = p->values + i * FLOATS;
        for (uint32_t k = 0; k < SHARD_WIDTH; k++)
            v[k] = rng_float(&own) * 4 - 2;
        v[SHARD_WIDTH] = (float)(1 + rng_below(&own, 5));
        v[SHARD_WIDTH + 1] = (float)rng_below(&own, 2);
    }
    uint32_t time = FIRST_DAY + (uint32_t)to * (DAY / 5);
    p->record = (struct push_record){.run = 1,
                                     .from = to - 1,
                                     .to = to,
                                     .lane = lane,
                                     .tablet_first = first,
                                     .tablet_count = count,
                                     .lr_scale = 1,
                                     .key_count = n,
                                     .event_time = to % 17 == 0   ? 4000000000u
                                                   : to % 13 == 0 ? 0
                                                                  : time,
                                     .keys = p->keys,
                                     .gradients = p->values};
}

static void push_part(struct rig *s, uint32_t lane, uint64_t to, uint32_t first, uint32_t count)
{
    static struct life_push p;
    struct push_plan plan;
    struct err e = {0};
    make_push(&p, lane, to, first, count);
    int rc = engine_admit_push(s->g, &p.record, &plan, &e);
    for (int tries = 0; rc == SHOAL_E_BUSY && tries < 100; tries++) {
        embedding_env_run(&s->env);
        rc = engine_admit_push(s->g, &p.record, &plan, &e);
    }
    ck_assert_msg(rc == 0, "batch %" PRIu64 ": %s", to, e.text);
    ck_assert_int_eq(engine_commit(s->g), 0);
    ck_assert_int_eq(engine_apply_push(s->g, &p.record, &plan), 0);
}

/* Erases or resets keys in each tenth batch, as a function of the batch. */
static void name_some(struct rig *s, uint64_t batch)
{
    uint64_t keys[6], changed;
    struct rng r = rng_of(6, 6, batch);
    struct err e = {0};
    for (int i = 0; i < 6; i++) {
        uint64_t n = rng_below(&r, KEYS);
        keys[i] = key_make((uint32_t)(1 + n % 4), rng_below(&r, 40) * KEYS + n);
    }
    ck_assert_msg(engine_keys(s->g, 0, (enum key_action)rng_below(&r, 4), keys, 6, &changed, &e) ==
                      0,
                  "%s", e.text);
}

static void train(struct rig *s, uint64_t from, uint64_t to)
{
    for (uint64_t batch = from + 1; batch <= to; batch++) {
        for (uint32_t lane = 0; lane < 2; lane++)
            push_part(s, lane, batch, 0, TABLETS);
        if (batch % 10 == 0)
            name_some(s, batch);
        engine_flush_step(s->g);
        embedding_env_run(&s->env);
    }
}

static void begin(struct rig *s, uint32_t mode)
{
    life_table(s);
    ck_assert_int_eq(engine_run_open(s->g, 1, 2, mode, NULL), 0);
}

/* Every effect must have occurred, or the test shows nothing. */
static void check_alive(const struct table *t)
{
    struct table_counts c;
    table_counts_get(t, &c);
    ck_assert(c.not_admitted > 100 && c.admitted > 100 && c.aged > 10 && c.expired > 10 &&
              c.evicted > 10 && c.blocked > 0 && c.clipped > 100 && c.waiting > 10 &&
              table_rows(t) > 100);
}

static void train_child(void *context)
{
    struct rig s;
    struct engine_stats stats;
    (void)context;
    rig_open(&s, dir, DURABLE_JOURNAL);
    begin(&s, RUN_SSP);
    train(&s, 0, shared->batches);
    check_alive(engine_table(s.g, 0));
    engine_stats_get(s.g, &stats);
    shared->digest = rig_digest(&s);
    shared->sequence = stats.sequence;
    shared->image_bytes = stats.image_bytes_written;
    table_counts_get(engine_table(s.g, 0), &shared->counts);
}

/* Returns the digest of a shard that is never killed. */
static uint64_t digest_unkilled(uint32_t batches, uint32_t mode)
{
    struct rig s;
    rig_open(&s, NULL, DURABLE_MEMORY);
    begin(&s, mode);
    train(&s, 0, batches);
    uint64_t digest = rig_digest(&s);
    rig_close(&s, false);
    return digest;
}

static void check_back(struct rig *s)
{
    struct engine_stats stats;
    struct table_counts counts;
    engine_stats_get(s->g, &stats);
    table_counts_get(engine_table(s->g, 0), &counts);
    ck_assert_uint_eq(stats.sequence, shared->sequence);
    ck_assert_uint_eq(rig_digest(s), shared->digest);
    ck_assert_uint_eq(counts.waiting, shared->counts.waiting);
}

/* From the journal alone, and from images with records above them: the same rows, and the same
 * again ten days later. */
START_TEST(killed_shard_comes_back_and_goes_on_the_same)
{
    struct rig s;
    shared->batches = _i == 0 ? 60 : 700;
    rig_in_child(train_child, NULL);
    ck_assert((shared->image_bytes > 0) == (_i == 1));
    rig_open(&s, dir, DURABLE_JOURNAL);
    check_back(&s);
    train(&s, shared->batches, shared->batches + 50);
    uint64_t later = rig_digest(&s);
    rig_close(&s, true);
    ck_assert_uint_eq(later, digest_unkilled(shared->batches + 50, RUN_SSP));
    rig_open(&s, dir, DURABLE_JOURNAL); /* from images alone */
    ck_assert_uint_eq(rig_digest(&s), later);
    train(&s, shared->batches + 50, shared->batches + 80);
    later = rig_digest(&s);
    rig_close(&s, false);
    ck_assert_uint_eq(later, digest_unkilled(shared->batches + 80, RUN_SSP));
}
END_TEST

static void cut_done(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)rows;
    (void)bytes;
    *(int *)context = status == 0 ? 1 : -1;
}

/* A cut contains waiting keys, names and clock as well. */
START_TEST(restored_cut_goes_on_the_same)
{
    struct rig s;
    struct err e = {0};
    uint64_t sequence, mark;
    int done = 0;
    rig_open(&s, dir, DURABLE_JOURNAL);
    begin(&s, RUN_SSP);
    train(&s, 0, 100);
    ck_assert_int_eq(engine_hold(s.g, 1, engine_newest_run(s.g), &sequence), 0);
    ck_assert_int_eq(engine_go(s.g, 1, cut_done, &done), 0);
    embedding_env_run(&s.env);
    ck_assert_int_eq(done, 1);
    train(&s, 100, 130);
    ck_assert_msg(engine_restore(s.g, 1, 2, &e) == 0, "%s", e.text);
    /* Run 2 trains the same batches again. */
    static struct life_push p;
    for (uint64_t batch = 101; batch <= 130; batch++) {
        for (uint32_t lane = 0; lane < 2; lane++) {
            struct push_plan plan;
            make_push(&p, lane, batch, 0, TABLETS);
            p.record.run = 2;
            mark = engine_lane_generation(s.g, 2, lane);
            p.record.generation = mark;
            ck_assert_msg(engine_admit_push(s.g, &p.record, &plan, &e) == 0, "%s", e.text);
            ck_assert_int_eq(engine_commit(s.g), 0);
            ck_assert_int_eq(engine_apply_push(s.g, &p.record, &plan), 0);
        }
        if (batch % 10 == 0)
            name_some(&s, batch);
    }
    uint64_t digest = rig_digest(&s);
    rig_close(&s, false);
    ck_assert_uint_eq(digest, digest_unkilled(130, RUN_SSP));
}
END_TEST

/* The tablets are dealt to 1, 2 and 4 shards, each with its part of every batch: each tablet must
 * be the same. */
static void digest_spread(uint32_t shards, uint64_t digest[TABLETS])
{
    struct rig s[4];
    uint16_t shard_of[TABLETS];
    uint32_t part = TABLETS / shards;
    for (uint32_t t = 0; t < TABLETS; t++)
        shard_of[t] = (uint16_t)(t / part);
    for (uint32_t i = 0; i < shards; i++) {
        rig_open(&s[i], NULL, DURABLE_MEMORY);
        begin(&s[i], RUN_BSP);
        ck_assert_int_eq(engine_lead(s[i].g, shard_of, TABLETS, (uint16_t)i), 0);
        for (uint64_t batch = 1; batch <= 150; batch++) {
            for (uint32_t lane = 0; lane < 2; lane++)
                push_part(&s[i], lane, batch, i * part, part);
            if (batch % 10 == 0)
                name_some(&s[i], batch);
        }
        for (uint32_t t = i * part; t < (i + 1) * part; t++)
            ck_assert_int_eq(table_digest(engine_table(s[i].g, 0), t, &digest[t]), 0);
        for (uint32_t t = 0; t < TABLETS; t++)
            if (shard_of[t] != i)
                ck_assert_uint_eq(table_tablet_rows(engine_table(s[i].g, 0), t), 0);
        rig_close(&s[i], false);
    }
}

START_TEST(shards_of_any_number_make_the_same_rows)
{
    uint64_t one[TABLETS], more[TABLETS];
    digest_spread(1, one);
    for (uint32_t shards = 2; shards <= 4; shards *= 2) {
        digest_spread(shards, more);
        ck_assert_mem_eq(one, more, sizeof one);
    }
}
END_TEST

START_TEST(statistics_that_cannot_be_are_refused)
{
    struct rig s;
    struct push_plan plan;
    static struct life_push p;
    struct err e = {0};
    rig_open(&s, NULL, DURABLE_MEMORY);
    begin(&s, RUN_SSP);
    make_push(&p, 0, 1, 0, TABLETS);
    /* more clicks than shows */
    p.values[3 * FLOATS + SHARD_WIDTH + 1] = p.values[3 * FLOATS + SHARD_WIDTH] + 1;
    ck_assert_int_eq(engine_admit_push(s.g, &p.record, &plan, &e), SHOAL_E_MALFORMED);
    p.values[3 * FLOATS + SHARD_WIDTH + 1] = -1;
    ck_assert_int_eq(engine_admit_push(s.g, &p.record, &plan, &e), SHOAL_E_MALFORMED);
    p.values[3 * FLOATS + SHARD_WIDTH + 1] = 0;
    ck_assert_int_eq(engine_admit_push(s.g, &p.record, &plan, &e), 0);
    ck_assert_int_eq(engine_commit(s.g), 0);
    ck_assert_int_eq(engine_apply_push(s.g, &p.record, &plan), 0);
    rig_close(&s, false);
}
END_TEST

START_TEST(keys_are_refused_with_a_reason)
{
    struct rig s;
    static struct life_push p;
    struct push_plan plan;
    struct err e = {0};
    uint64_t key = 5, changed;
    rig_open(&s, NULL, DURABLE_MEMORY);
    begin(&s, RUN_SSP);
    ck_assert_int_eq(engine_keys(s.g, 9, KEY_ERASE, &key, 1, &changed, &e), SHOAL_E_NO_TABLE);
    ck_assert_int_eq(engine_keys(s.g, 0, (enum key_action)(KEY_EVICT + 1), &key, 1, &changed, &e),
                     SHOAL_E_MALFORMED);
    make_push(&p, 0, 1, 0, TABLETS);
    ck_assert_int_eq(engine_admit_push(s.g, &p.record, &plan, &e), 0);
    ck_assert_int_eq(engine_keys(s.g, 0, KEY_ERASE, &key, 1, &changed, &e), SHOAL_E_AGAIN);
    ck_assert_int_eq(engine_commit(s.g), 0);
    ck_assert_int_eq(engine_apply_push(s.g, &p.record, &plan), 0);
    ck_assert_int_eq(engine_keys(s.g, 0, KEY_ERASE, &key, 1, &changed, &e), 0);
    ck_assert_uint_eq(changed, 1);
    static uint16_t elsewhere[TABLETS];
    for (uint32_t i = 0; i < TABLETS; i++)
        elsewhere[i] = 1;
    ck_assert_int_eq(engine_lead(s.g, elsewhere, TABLETS, 0), 0);
    /* not led here: skipped */
    ck_assert_int_eq(engine_keys(s.g, 0, KEY_RESET, &key, 1, &changed, &e), 0);
    ck_assert_uint_eq(changed, 0);
    rig_close(&s, false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("life");
    TCase *c = tcase_create("life");
    tcase_set_timeout(c, 100);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, killed_shard_comes_back_and_goes_on_the_same, 0, 2);
    tcase_add_test(c, restored_cut_goes_on_the_same);
    tcase_add_test(c, shards_of_any_number_make_the_same_rows);
    tcase_add_test(c, statistics_that_cannot_be_are_refused);
    tcase_add_test(c, keys_are_refused_with_a_reason);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
