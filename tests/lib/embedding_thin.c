/* embedding_thin.c: an engine whose memory limit is below the size of its rows. */
#include "tests/lib/embedding_thin.h"

#include "embedding/engine/engine_state.h"
#include "embedding/engine/tier.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store/stored.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/base/rng.h"

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct table_schema thin_schema(bool ages)
{
    struct table_schema s = rig_schema(0);
    s.width = THIN_WIDTH;
    s.tablet_bits = THIN_BITS;
    if (ages) {
        s.rules.stats = 1;
        s.rules.score_show = 0.1f;
        s.rules.score_click = 1;
        s.rules.age_every = 86400;
        s.rules.age_decay = 0.9f;
        s.rules.age_ttl = 5 * 86400;
    }
    return s;
}

void thin_batch_make(struct thin_batch *b, uint64_t run, uint64_t to, bool ages)
{
    struct rng r = rng_of(3, 1, to);
    uint32_t floats = THIN_WIDTH + (ages ? 2 : 0), n = 0;
    for (uint32_t i = 0; i < THIN_KEYS; i++) {
        uint64_t value =
            rng_below(&r, 4) == 0 ? rng_below(&r, THIN_SPAN) : rng_below(&r, THIN_SPAN / 16);
        b->keys[i] = key_make(1, value);
    }
    qsort(b->keys, THIN_KEYS, sizeof b->keys[0], key_by_mixed);
    for (uint32_t i = 0; i < THIN_KEYS; i++)
        if (n == 0 || b->keys[n - 1] != b->keys[i])
            b->keys[n++] = b->keys[i];
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < THIN_WIDTH; k++)
            b->gradients[i * floats + k] = rng_float(&r) - 0.5f;
        if (ages) {
            b->gradients[i * floats + THIN_WIDTH] = 1;
            b->gradients[i * floats + THIN_WIDTH + 1] = 0;
        }
    }
    b->record = (struct push_record){.run = run,
                                     .generation = 1,
                                     .from = to - 1,
                                     .to = to,
                                     .tablet_count = 1u << THIN_BITS,
                                     .lr_scale = 1,
                                     .key_count = n,
                                     .event_time = ages ? (uint32_t)(1700006400 + to * 7200) : 0,
                                     .keys = b->keys,
                                     .gradients = b->gradients};
}

static void on_recovered(void *context)
{
    (void)context;
}

static void on_fatal(void *context, const struct err *e)
{
    (void)context;
    ck_abort_msg("the engine failed: %s", e->text);
}

void thin_open(struct rig *s, const char *dir, uint64_t memory)
{
    struct err e = {0};
    memset(s, 0, sizeof *s);
    embedding_env_init(&s->env);
    s->options = (struct engine_options){.dir = dir,
                                         .durability = DURABLE_JOURNAL,
                                         .memory = memory,
                                         .journal_max = 64u << 20,
                                         .segment_bytes = 8u << 20,
                                         .disk_watermark = 1,
                                         .on_recovered = rig_in_steps ? on_recovered : NULL,
                                         .on_fatal = on_fatal};
    ck_assert_msg(engine_open(&s->options, &s->env.env, &s->g, &e) == 0, "%s", e.text);
    rig_come_back(s);
    rig_lead(s);
}

void thin_fence(struct rig *s, uint64_t run)
{
    struct err e = {0};
    uint64_t mark;
    ck_assert_msg(engine_fence(s->g, run, 0, 1, true, NULL, &mark, &e) == 0, "%s", e.text);
}

void thin_begin(struct rig *s, bool ages)
{
    struct err e = {0};
    struct table_schema schema = thin_schema(ages);
    ck_assert_msg(engine_table_create(s->g, &schema, &e) == 0, "%s", e.text);
    ck_assert_msg(engine_run_open(s->g, 1, 1, 1 /* ssp */, &e) == 0, "%s", e.text);
    thin_fence(s, 1);
}

static void most_memory(struct rig *s, uint64_t *most)
{
    struct engine_stats stats;
    engine_stats_get(s->g, &stats);
    if (stats.memory_bytes > *most)
        *most = stats.memory_bytes;
}

uint64_t thin_train(struct rig *s, uint64_t run, uint64_t from, uint64_t to, bool ages)
{
    static struct thin_batch b;
    uint64_t most = 0;
    for (uint64_t batch = from + 1; batch <= to; batch++) {
        struct push_plan plan;
        struct err e = {0};
        thin_batch_make(&b, run, batch, ages);
        int rc = SHOAL_E_BUSY;
        for (int tries = 0; rc == SHOAL_E_BUSY; tries++) {
            ck_assert_int_lt(tries, 100);
            bool warm = engine_warm(s->g, 0, b.keys, b.record.key_count);
            rc = warm ? engine_admit_push(s->g, &b.record, &plan, &e) : SHOAL_E_BUSY;
            if (rc == SHOAL_E_BUSY)
                embedding_env_run(&s->env);
        }
        ck_assert_msg(rc == 0, "batch %" PRIu64 ": %s", batch, e.text);
        ck_assert_int_eq(engine_commit(s->g), 0);
        ck_assert_int_eq(engine_apply_push(s->g, &b.record, &plan), 0);
        most_memory(s, &most);
        engine_flush_step(s->g);
        if (batch % 3 == 0)
            embedding_env_run(&s->env);
    }
    embedding_env_run(&s->env);
    most_memory(s, &most);
    return most;
}

void thin_open_trained(struct rig *s, const char *dir, uint64_t memory, uint64_t to, bool ages)
{
    thin_open(s, dir, memory);
    thin_begin(s, ages);
    thin_train(s, 1, 0, to, ages);
}

uint64_t thin_digest(struct rig *s)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < 1u << THIN_BITS; k++) {
        struct err e = {0};
        uint64_t digest;
        const struct table *t = engine_whole(s->g, 0, k, &e);
        ck_assert_msg(t != NULL, "%s", e.text);
        ck_assert_int_eq(table_digest(t, k, &digest), 0);
        sum = hash_bytes(&digest, sizeof digest, sum);
    }
    return sum;
}

uint64_t thin_digest_without_bound(uint64_t batches, bool ages)
{
    char dir[LIMIT_PATH];
    struct rig s;
    thin_open_trained(&s, rig_dir(dir), 0, batches, ages);
    ck_assert_uint_eq(table_cold_rows(engine_table(s.g, 0)), 0);
    uint64_t digest = thin_digest(&s);
    rig_close(&s, false);
    rig_remove_dir(dir);
    return digest;
}

static void on_gone(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)rows, (void)bytes;
    *(int *)context = status;
}

void thin_cut(struct rig *s, uint64_t cut)
{
    uint64_t sequence;
    int status = 1;
    ck_assert_int_eq(engine_hold(s->g, cut, engine_newest_run(s->g), &sequence), 0);
    ck_assert_int_eq(engine_go(s->g, cut, on_gone, &status), 0);
    embedding_env_run(&s->env);
    ck_assert_int_eq(status, 0);
}

void thin_restore(struct rig *s, uint64_t cut, uint64_t run)
{
    struct err e = {0};
    int rc = engine_restore(s->g, cut, run, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    rig_come_back(s);
}

void thin_within(struct rig *s, uint64_t most)
{
    struct engine_stats stats;
    engine_flush_step(s->g);        /* frees the last reader's copy */
    engine_stats_get(s->g, &stats); /* an arena never returns chunks */
    ck_assert_uint_le(stats.memory_bytes, most);
    ck_assert_uint_le(tier_used(s->g), s->g->tier.rows_max);
}

struct counting {
    struct rig *s;
    uint64_t key;
    struct thin_stored sum;
};

static int count_stored(void *context, const void *key, size_t key_bytes, const void *value,
                        size_t value_bytes, struct err *e)
{
    struct counting *c = context;
    uint32_t table, tablet, epoch;
    uint64_t row;
    (void)value, (void)value_bytes, (void)e;
    if (stored_is_row(key, key_bytes, &table, &tablet, &epoch, &row)) {
        const struct table *t = engine_table(c->s->g, table);
        c->sum.pairs++;
        c->sum.stale_pairs += t == NULL || epoch != table_cold_epoch(t, tablet);
        c->sum.of_key += row == c->key;
    }
    c->sum.images += stored_is_tablet(key, key_bytes, &table, &tablet);
    return 0;
}

struct thin_stored thin_stored(struct rig *s, uint64_t key)
{
    struct counting c = {.s = s, .key = key};
    struct err e = {0};
    ck_assert_msg(store_scan(s->g->store, count_stored, &c, &e) == 0, "%s", e.text);
    return c.sum;
}
