/* embedding_rig.c: a shard's engine for tests. */
#include "tests/lib/embedding_rig.h"

#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/base/rng.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_synced(void *context)
{
    ((struct rig *)context)->synced++;
}

static void on_fetched(void *context)
{
    ((struct rig *)context)->fetched++;
}

static void on_recovered(void *context)
{
    ((struct rig *)context)->recovered++;
}

bool rig_in_steps;

void rig_come_back(struct rig *s)
{
    while (s->g != NULL && !engine_back(s->g) && s->fatal == 0)
        ck_assert(embedding_env_step(&s->env));
}

static void on_fatal(void *context, const struct err *e)
{
    struct rig *s = context;
    s->fatal++;
    s->fatal_err = *e;
}

int rig_try_open(struct rig *s, const char *dir, enum durability durability, struct err *e)
{
    return rig_try_open_sized(s, dir, durability, 8u << 20, e);
}

int rig_try_open_with(struct rig *s, const struct engine_options *options, struct err *e)
{
    memset(s, 0, sizeof *s);
    embedding_env_init(&s->env);
    s->options = *options;
    s->options.on_synced = on_synced;
    s->options.on_fetched = on_fetched;
    s->options.on_recovered = rig_in_steps ? on_recovered : NULL;
    s->options.on_fatal = on_fatal;
    s->options.context = s;
    return engine_open(&s->options, &s->env.env, &s->g, e);
}

int rig_try_open_sized(struct rig *s, const char *dir, enum durability durability,
                       uint64_t journal_max, struct err *e)
{
    const struct engine_options options = {.dir = dir,
                                           .durability = durability,
                                           .journal_max = journal_max,
                                           .segment_bytes = (uint32_t)(journal_max / 8),
                                           .disk_watermark = 1};
    return rig_try_open_with(s, &options, e);
}

void rig_open(struct rig *s, const char *dir, enum durability durability)
{
    struct err e = {0};
    int rc = rig_try_open(s, dir, durability, &e);
    ck_assert_msg(rc == 0, "open: %s", e.text);
    rig_come_back(s);
    rig_lead(s);
}

void rig_close(struct rig *s, bool flush_all)
{
    ck_assert_int_eq(engine_close(s->g, flush_all), 0);
    embedding_env_run(&s->env);
}

void rig_lead(struct rig *s)
{
    static uint16_t shard_of[1024];
    ck_assert_int_eq(engine_lead(s->g, shard_of, 1024, 0), 0);
}

struct table_schema rig_schema(uint32_t number)
{
    struct table_schema schema;
    memset(&schema, 0, sizeof schema);
    snprintf(schema.name, sizeof schema.name, "table-%u", number);
    schema.table = number;
    schema.width = SHARD_WIDTH;
    schema.tablet_bits = SHARD_TABLET_BITS;
    schema.tablet_first = number << SHARD_TABLET_BITS;
    schema.seed = 7 + number;
    schema.init = (struct init_spec){INIT_UNIFORM, 0.01f};
    schema.optimizer =
        (struct optimizer_spec){.kind = OPT_ADAGRAD, .lr = 0.05f, .eps = 1e-8f, .initial = 0.1f};
    return schema;
}

void rig_table(struct rig *s, uint32_t number)
{
    struct err e = {0};
    struct table_schema schema = rig_schema(number);
    ck_assert_msg(engine_table_create(s->g, &schema, &e) == 0, "%s", e.text);
}

void rig_push_make(struct rig_push *p, uint64_t run, uint32_t table, uint32_t lane,
                   uint64_t generation, uint64_t from, uint64_t to)
{
    struct rng r = rng_of(table, lane, to);
    for (uint32_t i = 0; i < SHARD_KEYS; i++)
        p->keys[i] = key_make(1, rng_below(&r, 64) * SHARD_KEYS + i);
    qsort(p->keys, SHARD_KEYS, sizeof p->keys[0], key_by_mixed);
    for (uint32_t i = 0; i < SHARD_KEYS * SHARD_WIDTH; i++)
        p->gradients[i] = rng_float(&r) - 0.5f;
    p->record = (struct push_record){.run = run,
                                     .generation = generation,
                                     .from = from,
                                     .to = to,
                                     .lane = lane,
                                     .table = table,
                                     .tablet_count = 1u << SHARD_TABLET_BITS,
                                     .lr_scale = 1,
                                     .key_count = SHARD_KEYS,
                                     .clock = to,
                                     .age = lane + 1,
                                     .keys = p->keys,
                                     .gradients = p->gradients};
}

int rig_push(struct rig *s, const struct rig_push *p, struct push_plan *plan)
{
    struct err e = {0};
    int rc = engine_admit_push(s->g, &p->record, plan, &e);
    if (rc != 0)
        return rc;
    ck_assert_int_eq(engine_commit(s->g), 0);
    ck_assert_int_eq(engine_apply_push(s->g, &p->record, plan), 0);
    return 0;
}

void rig_train(struct rig *s, uint64_t run, uint32_t lane, uint64_t generation, uint64_t from,
               uint64_t to)
{
    static struct rig_push p;
    for (uint64_t batch = from; batch < to; batch++) {
        struct push_plan plan;
        rig_push_make(&p, run, 0, lane, generation, batch, batch + 1);
        int rc = rig_push(s, &p, &plan);
        for (int tries = 0; rc == SHOAL_E_BUSY && tries < 100; tries++) {
            embedding_env_run(&s->env);
            rc = rig_push(s, &p, &plan);
        }
        ck_assert_msg(rc == 0, "batch %" PRIu64 ": %s", batch + 1, err_text(rc));
        engine_flush_step(s->g);
        embedding_env_run(&s->env);
    }
}

uint64_t rig_digest(struct rig *s)
{
    uint64_t sum = 0;
    for (uint32_t table = 0; table < LIMIT_TABLES; table++) {
        struct table *t = engine_table(s->g, table);
        for (uint32_t k = 0; t != NULL && k < 1u << SHARD_TABLET_BITS; k++) {
            uint64_t digest;
            ck_assert_int_eq(table_digest(t, k, &digest), 0);
            sum = hash_bytes(&digest, sizeof digest, sum);
        }
    }
    return sum;
}
