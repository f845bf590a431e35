/* test_echo.c: pushes that ask for rows get those that a pull behind them gets, or none; and the
 * ages of gradients.
 *
 * engine_warm is wrapped (--wrap): its calls are counted. */
#include "embedding/journal/cursor.h"
#include "proto/base/json.h"
#include "tests/lib/rig_dir.h"
#include "tests/server/shard_rig.h"

#include <math.h>

#define KEYS 20u
#define WIDTH 2u

bool __real_engine_warm(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count);
bool __wrap_engine_warm(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count);

static uint32_t looks;

bool __wrap_engine_warm(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count)
{
    looks++;
    return __real_engine_warm(g, table, keys, count);
}

/* One key in each tablet, and a second one in the first four. */
static const uint64_t *keys(void)
{
    static uint64_t key[KEYS];
    for (uint32_t i = 0; i < KEYS; i++)
        key[i] = i < 8 ? rig_key(i / 2, i % 2) : rig_key(i - 4, 0);
    return key;
}

struct sent {
    uint32_t lane, table, values;
    uint64_t from, to, clock; /* from 0: to - 1 */
    uint32_t wanted;          /* a bit for each key */
    bool tick;
};

static uint64_t push(struct rig *r, struct sent p)
{
    struct wire w = rig_wire(r, WIRE_TYPE_PUSH);
    float gradient[KEYS * WIDTH];
    const uint8_t bits[3] = {(uint8_t)p.wanted, (uint8_t)(p.wanted >> 8),
                             (uint8_t)(p.wanted >> 16)};
    const uint32_t count = p.tick ? 0 : KEYS;
    w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                  .table = p.table,
                                  .lane = p.lane,
                                  .generation = 1,
                                  .from = p.from > 0 ? p.from : p.to - 1,
                                  .to = p.to,
                                  .tablet_count = 1u << RIG_BITS,
                                  .lr_scale = 1,
                                  .key_count = count,
                                  .clock = p.clock,
                                  .traced = r->traced,
                                  .echo = (uint32_t)__builtin_popcount(p.wanted),
                                  .values = p.values};
    for (uint32_t i = 0; i < KEYS * WIDTH; i++)
        gradient[i] = 0.3f * (float)(i + 1) + 0.01f * (float)(p.to + 7 * p.lane);
    struct msg *m = rig_push_message(&w, keys(), gradient, bits, p.wanted != 0 ? sizeof bits : 0);
    ck_assert_int_eq(env_send(sim_node_env(r->client), r->to, m), 0);
    return w.id;
}

/* Pulls the keys whose bits are set. */
static uint64_t pull(struct rig *r, uint32_t lane, uint64_t batch, uint32_t values, uint32_t wanted)
{
    uint64_t key[KEYS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < KEYS; i++)
        if (wanted >> i & 1)
            key[count++] = keys()[i];
    struct wire w = rig_wire(r, WIRE_TYPE_PULL);
    w.u.PULL = (struct wire_PULL){.run = RIG_RUN,
                                  .lane = lane,
                                  .batch = batch,
                                  .bound = 100,
                                  .key_count = count,
                                  .values = values};
    return rig_send(r, &w, 1, key, count * sizeof key[0], NULL, 0);
}

static const struct wire_PUSH_reply *pushed(const struct rig *r, uint64_t id)
{
    ck_assert_int_eq(rig_status(r, id), 0);
    return &rig_reply(r, id)->u.PUSH_reply;
}

/* The push got the rows that the pull got. */
static void check_rows(const struct rig *r, uint64_t push_id, uint64_t pull_id)
{
    const struct wire_PUSH_reply *a = pushed(r, push_id);
    const struct wire_PULL_reply *b = &rig_reply(r, pull_id)->u.PULL_reply;
    const struct frame *rows = &r->answer[push_id].m->frame[1],
                       *pulled = &r->answer[pull_id].m->frame[1];
    ck_assert_int_eq(rig_status(r, pull_id), 0);
    ck_assert_uint_gt(a->key_count, 0);
    ck_assert_uint_eq(a->key_count, b->key_count);
    ck_assert_uint_eq(a->width, b->width);
    ck_assert_uint_eq(a->values, b->values);
    ck_assert_uint_eq(rows->bytes, pulled->bytes);
    ck_assert_mem_eq(rows->data, pulled->data, rows->bytes);
}

static void check_none(const struct rig *r, uint64_t id)
{
    ck_assert_uint_eq(pushed(r, id)->key_count, 0);
    ck_assert_uint_eq(r->answer[id].m->frame[1].bytes, 0);
}

/* ---- the rows -------------------------------------------------------------------------------- */

/* All ways to ask, in three rounds: rows that are new, and rows that were there before. The pull
 * comes in the same turn of the loop. */
START_TEST(a_push_gets_the_rows_as_they_are_after_it)
{
    static const uint32_t wanted[] = {1, 1u << (KEYS - 1), 0x55555, (1u << KEYS) - 1},
                          values[] = {0, WIRE_VALUES + VALUES_FP32, WIRE_VALUES + VALUES_BF16};
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_ADAGRAD);
    uint64_t to = 0;
    for (uint32_t i = 0; i < 12; i++) {
        uint64_t id =
            push(&r, (struct sent){.to = ++to, .wanted = wanted[i % 4], .values = values[i / 4]});
        uint64_t behind = pull(&r, 0, to + 1, values[i / 4], wanted[i % 4]);
        rig_run(&r, 5);
        check_rows(&r, id, behind);
    }
    ck_assert_uint_eq(r.shard->counts.keys_echoed, 3 * (1 + 1 + 10 + KEYS));
    uint64_t id = push(&r, (struct sent){.to = ++to});
    rig_run(&r, 5);
    check_none(&r, id); /* it asked for none */
    rig_free(&r);
}
END_TEST

/* Pushes of one group: the rows are those after the whole of it. */
START_TEST(rows_are_those_after_the_group)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 2, OPT_ADAGRAD);
    const uint32_t wanted = 0x3ff;
    uint64_t first = push(&r, (struct sent){.to = 1, .wanted = wanted}),
             second = push(&r, (struct sent){.lane = 1, .to = 1, .wanted = wanted}),
             third = push(&r, (struct sent){.to = 2, .wanted = wanted}),
             behind = pull(&r, 0, 3, 0, wanted);
    rig_run(&r, 5);
    check_rows(&r, third, behind);
    const struct frame *last = &r.answer[third].m->frame[1];
    for (int i = 0; i < 2; i++) {
        const struct frame *rows = &r.answer[i == 0 ? first : second].m->frame[1];
        /* whatever the turns of the loop were, a row has its own push */
        if (pushed(&r, i == 0 ? first : second)->steps == 3)
            ck_assert_mem_eq(rows->data, last->data, last->bytes);
        ck_assert_uint_eq(rows->bytes, last->bytes);
    }
    rig_free(&r);
}
END_TEST

/* clock and steps are those of a pull of the next batch, one clock earlier; low is that of the
 * other lanes. */
START_TEST(rows_come_with_the_clocks_that_they_include)
{
    struct rig r = {0};
    rig_new_of(&r, WIRE_SSP, 2, OPT_SGD, 1); /* table 0 alone counts in the clocks */
    uint64_t id = push(&r, (struct sent){.to = 1, .wanted = 1});
    rig_run(&r, 5);
    ck_assert_uint_eq(pushed(&r, id)->clock, 1);
    ck_assert_uint_eq(pushed(&r, id)->low, 0); /* lane 1 has pushed nothing */
    ck_assert_uint_eq(pushed(&r, id)->steps, 1);
    for (uint64_t to = 1; to <= 3; to++)
        push(&r, (struct sent){.lane = 1, .to = to});
    rig_run(&r, 5);
    id = push(&r, (struct sent){.to = 2, .wanted = 1});
    uint64_t behind = pull(&r, 0, 3, 0, 1);
    rig_run(&r, 5);
    ck_assert_uint_eq(pushed(&r, id)->clock, 2);
    ck_assert_uint_eq(pushed(&r, id)->low, 3);
    ck_assert_uint_eq(pushed(&r, id)->steps, 5);
    ck_assert_uint_eq(rig_reply(&r, behind)->u.PULL_reply.clock, 3);
    ck_assert_uint_eq(rig_reply(&r, behind)->u.PULL_reply.low, 2);
    ck_assert_uint_eq(rig_reply(&r, behind)->u.PULL_reply.steps, 5);
    rig_free(&r);
}
END_TEST

/* The lane's parts for other tables are on their way still: they are no reason to pull its rows. */
START_TEST(low_is_that_of_the_other_lanes)
{
    static const uint64_t low[] = {UINT64_MAX, 4, 3};
    for (uint32_t others = 0; others < 3; others++) {
        struct rig r = {0};
        rig_new(&r, WIRE_SSP, 1 + others, OPT_SGD);
        for (uint32_t lane = 1; lane <= others; lane++)
            for (uint64_t to = 1; to <= 5 - lane; to++)
                for (uint32_t t = 0; t < 2; t++)
                    push(&r, (struct sent){.lane = lane, .table = t, .to = to});
        rig_run(&r, 5);
        uint64_t id = push(&r, (struct sent){.to = 1, .wanted = 1});
        rig_run(&r, 5);
        ck_assert_uint_eq(pushed(&r, id)->clock, 1);
        ck_assert_uint_eq(pushed(&r, id)->low, low[others]);
        rig_free(&r);
    }
}
END_TEST

/* ---- no rows --------------------------------------------------------------------------------- */

START_TEST(a_push_that_was_applied_before_gets_none)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    uint64_t id = push(&r, (struct sent){.to = 1, .wanted = 3});
    rig_run(&r, 5);
    ck_assert_uint_eq(pushed(&r, id)->key_count, 2);
    uint64_t again = push(&r, (struct sent){.to = 1, .wanted = 3});
    uint64_t gap = push(&r, (struct sent){.from = 5, .to = 6, .wanted = 3});
    rig_run(&r, 5);
    check_none(&r, again);
    ck_assert_uint_eq(pushed(&r, again)->skipped, 16);
    ck_assert_int_eq(rig_status(&r, gap), SHOAL_E_GAP);
    ck_assert_uint_eq(r.answer[gap].m->frame_count, 1);
    rig_free(&r);
}
END_TEST

START_TEST(bsp_gives_none)
{
    struct rig r = {0};
    rig_new(&r, WIRE_BSP, 2, OPT_SGD);
    uint64_t id = push(&r, (struct sent){.to = 1, .wanted = 3}),
             other = push(&r, (struct sent){.lane = 1, .to = 1, .wanted = 3});
    rig_run(&r, 5);
    check_none(&r, id);
    check_none(&r, other);
    /* of a pull of clock 2, whatever is applied of it here: both pushes of clock 1 */
    uint64_t behind = pull(&r, 0, 2, 0, 3);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, behind), 0);
    ck_assert_uint_eq(rig_reply(&r, behind)->u.PULL_reply.steps, 2);
    rig_free(&r);
}
END_TEST

/* They are in memory when the push is admitted, and stay until it is applied. */
START_TEST(rows_are_looked_for_once)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    looks = 0;
    uint64_t id = push(&r, (struct sent){.to = 1, .wanted = 3});
    rig_run(&r, 5);
    ck_assert_uint_eq(pushed(&r, id)->key_count, 2);
    ck_assert_uint_eq(looks, 1);
    rig_free(&r);
}
END_TEST

/* The bitmap of another push: refused, without an effect. */
START_TEST(bits_that_do_not_fit_are_refused)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    const uint64_t key = rig_key(3, 0);
    const float gradient[2] = {1, 1};
    static const uint8_t bits[] = {0x00, 0x02, 0x03, 0xff};
    for (uint32_t i = 0; i < sizeof bits; i++) {
        struct wire w = rig_wire(&r, WIRE_TYPE_PUSH);
        w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                      .generation = 1,
                                      .to = 1,
                                      .tablet_count = 16,
                                      .lr_scale = 1,
                                      .key_count = 1,
                                      .echo = 1};
        struct msg *m = rig_push_message(&w, &key, gradient, &bits[i], 1);
        ck_assert_int_eq(env_send(sim_node_env(r.client), r.to, m), 0);
        rig_run(&r, 5);
        ck_assert_int_eq(rig_status(&r, w.id), SHOAL_E_MALFORMED);
    }
    uint64_t behind = pull(&r, UINT32_MAX, 0, 0, 1u << 6); /* that key */
    rig_run(&r, 5);
    ck_assert(signbit(rig_value(&r, behind))); /* there is no row */
    rig_free(&r);
}
END_TEST

/* ---- later answers --------------------------------------------------------------------------- */

/* The reply waits for the sync with the rows in it, which count as the request's bytes. */
START_TEST(rows_wait_for_the_sync)
{
    char dir[LIMIT_PATH];
    struct rig r = {
        .dir = rig_dir(dir), .durability = DURABLE_FSYNC, .work_ns = 300 * MS, .traced = true};
    rig_new(&r, WIRE_ASYNC, 2, OPT_ADAGRAD);
    rig_run(&r, 2000);
    const uint32_t wanted = 0xff0ff;
    uint64_t id = push(&r, (struct sent){.to = 1, .wanted = wanted}),
             behind = pull(&r, 0, 2, 0, wanted);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, id), RIG_WAITING);
    uint64_t bytes = request_pool_bytes(&r.shard->pool);
    ck_assert_uint_ge(bytes, 16 * WIDTH * sizeof(float));
    ck_assert_uint_lt(bytes, KEYS * (sizeof(uint64_t) + WIDTH * sizeof(float))); /* the message's */
    push(&r, (struct sent){.lane = 1, .to = 1}); /* not in the rows */
    rig_run(&r, 2000);
    check_rows(&r, id, behind);
    ck_assert_uint_eq(pushed(&r, id)->steps, 1);
    ck_assert_uint_eq(request_pool_bytes(&r.shard->pool), 0);
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

/* ---- ages ------------------------------------------------------------------------------------ */

static uint64_t aged(const struct rig *r, uint32_t table, uint32_t steps)
{
    return r->shard->ages.table[table].cell[steps];
}

/* The age is of the push's own table: lane 1 is three batches further in table 0, one in table 1,
 * when lane 0 pushes what it has computed from the rows of before. */
START_TEST(the_age_is_the_steps_of_the_table_since_the_rows)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 2, OPT_SGD);
    for (uint32_t t = 0; t < 2; t++)
        push(&r, (struct sent){.table = t, .to = 1});
    uint64_t from = pull(&r, 0, 2, 0, 3);
    rig_run(&r, 5);
    const uint64_t clock = rig_reply(&r, from)->u.PULL_reply.steps;
    ck_assert_uint_eq(clock, 1);
    for (uint64_t to = 1; to <= 3; to++)
        push(&r, (struct sent){.lane = 1, .to = to});
    push(&r, (struct sent){.lane = 1, .table = 1, .to = 1});
    ck_assert_uint_eq(aged(&r, 0, 3), 0);
    push(&r, (struct sent){.to = 2, .clock = clock});
    push(&r, (struct sent){.table = 1, .to = 2, .clock = clock});
    rig_run(&r, 5);
    ck_assert_uint_eq(aged(&r, 0, 3), 1);
    ck_assert_uint_eq(aged(&r, 1, 1), 1);
    /* own batches count too; ticks and pushes of an unknown clock do not; nothing is older than
     * from the beginning, or younger than now */
    push(&r, (struct sent){.to = 3, .clock = clock});
    push(&r, (struct sent){.to = 4, .clock = clock, .tick = true});
    push(&r, (struct sent){.to = 5});
    push(&r, (struct sent){.to = 6, .clock = 1000000});
    rig_run(&r, 5);
    ck_assert_uint_eq(aged(&r, 0, 4), 1);
    ck_assert_uint_eq(aged(&r, 0, 0), 1);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < AGES_CELLS; i++)
        sum += aged(&r, 0, i);
    ck_assert_uint_eq(sum, 3);
    ck_assert_uint_eq(r.shard->ages.table[0].pushes, 3);
    ck_assert_uint_eq(r.shard->ages.table[0].steps, 3 + 4 + 0);
    ck_assert_uint_eq(engine_steps(r.shard->engine, RIG_RUN, 0), 9);
    ck_assert_uint_eq(engine_steps(r.shard->engine, RIG_RUN, 1), 3);
    rig_free(&r);
}
END_TEST

/* Followers and a replay have the age from the record. */
START_TEST(the_record_keeps_clock_and_age)
{
    char dir[LIMIT_PATH];
    struct rig r = {.dir = rig_dir(dir), .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_ASYNC, 2, OPT_ADAGRAD);
    rig_run(&r, 1000);
    static const struct {
        uint32_t lane;
        uint64_t to, clock, age;
    } of[] = {{0, 1, 0, 0}, {1, 1, 1, 0}, {0, 2, 1, 1}, {1, 2, 1, 2}, {0, 3, 9, 0}};
    for (uint32_t i = 0; i < 5; i++)
        push(&r, (struct sent){.lane = of[i].lane, .to = of[i].to, .clock = of[i].clock});
    rig_run(&r, 20);
    struct engine *g = r.shard->engine;
    struct journal_files files;
    struct journal_cursor c;
    struct journal_record record;
    struct err e = {0};
    uint32_t pushes = 0;
    ck_assert_int_eq(cursor_gather(NULL, g->journal, &files, &e), 0);
    cursor_open(&c, &files, 0, UINT64_MAX, CURSOR_WHOLE);
    while (cursor_next(&c, &record, &e) == 0) {
        if (record.head->kind != RECORD_PUSH)
            continue;
        ck_assert_uint_lt(pushes, 5);
        ck_assert_uint_eq(record.head->clock, of[pushes].clock);
        ck_assert_uint_eq(record.head->age, of[pushes].age);
        pushes++;
    }
    ck_assert_uint_eq(pushes, 5);
    cursor_close(&c);
    cursor_files_free(&files);
    rig_restart(&r, false);
    ck_assert_uint_eq(engine_steps(r.shard->engine, RIG_RUN, 0), 5);
    rig_free(&r);
    rig_remove_dir(dir);
}
END_TEST

/* What `shoal report` is made of. */
START_TEST(ages_are_told_by_table)
{
    struct rig r = {0};
    struct json *j = NULL;
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    push(&r, (struct sent){.to = 1});
    push(&r, (struct sent){.to = 2, .clock = 1});
    push(&r, (struct sent){.to = 3, .clock = 1});
    push(&r, (struct sent){.to = 400, .from = 3, .clock = 1});
    push(&r, (struct sent){.to = 401, .clock = 1}); /* 399 steps old: in the last cell */
    rig_run(&r, 5);
    struct wire w = rig_wire(&r, WIRE_TYPE_SHARD_STATUS);
    w.u.SHARD_STATUS.part = 1;
    rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    const struct frame *text = &r.answer[w.id].m->frame[1];
    ck_assert_int_eq(json_parse(text->data, text->bytes, &j, NULL), 0);
    const struct json *table = json_array_at(json_get(j, "tables"), 0), *ages;
    ages = json_get(table, "ages");
    ck_assert_int_eq(json_as_int(json_get(table, "ages_run"), 0), RIG_RUN);
    ck_assert_uint_eq(json_count(ages), AGES_CELLS);
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(json_as_int(json_array_at(ages, i), 0), i < 3);
    ck_assert_int_eq(json_as_int(json_array_at(ages, AGES_CELLS - 1), 0), 1);
    ck_assert(json_get(json_array_at(json_get(j, "tables"), 1), "ages") == NULL);
    json_free(j);
    rig_free(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        a_push_gets_the_rows_as_they_are_after_it,
        rows_are_those_after_the_group,
        rows_come_with_the_clocks_that_they_include,
        low_is_that_of_the_other_lanes,
        a_push_that_was_applied_before_gets_none,
        bsp_gives_none,
        rows_are_looked_for_once,
        bits_that_do_not_fit_are_refused,
        rows_wait_for_the_sync,
        the_age_is_the_steps_of_the_table_since_the_rows,
        the_record_keeps_clock_and_age,
        ages_are_told_by_table,
    };
    return rig_main("echo", tests, sizeof tests / sizeof tests[0]);
}
