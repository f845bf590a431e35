/* test_survey.c: TABLE_STATS: figures of the tablets that a shard leads, computed in steps;
 * each request is answered once. */
#include "tests/server/shard_rig.h"

#include "proto/base/json.h"

static uint64_t ask(struct rig *r, struct wire_TABLE_STATS what)
{
    struct wire w = rig_wire(r, WIRE_TYPE_TABLE_STATS);
    w.u.TABLE_STATS = what;
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

static struct json *answer(struct rig *r, uint64_t id)
{
    struct json *j;
    struct err e = {0};
    ck_assert_msg(rig_status(r, id) == 0, "%s", r->answer[id].w.error);
    const struct frame *f = &r->answer[id].m->frame[1];
    ck_assert_msg(json_parse(f->data, f->bytes, &j, &e) == 0, "%s", e.text);
    return j;
}

/* Pushes one key in each of the 16 tablets, by a batch each; every gradient is 3, so the norms are
 * sqrt(18). */
static void fill(struct rig *r)
{
    for (uint32_t i = 0; i < 16; i++)
        rig_push(
            r, (struct rig_push_args){.from = i, .to = i + 1, .key = rig_key(i, 0), .gradient = 3});
    rig_run(r, 20);
}

START_TEST(figures_are_those_of_the_rows)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    fill(&r);
    uint64_t full = ask(&r, (struct wire_TABLE_STATS){.table = 0}),
             empty = ask(&r, (struct wire_TABLE_STATS){.table = 1});
    rig_run(&r, 20);
    struct json *j = answer(&r, full);
    ck_assert_uint_eq(rig_reply(&r, full)->u.TABLE_STATS_reply.rows, 16);
    ck_assert_int_eq(json_as_int(json_get(j, "rows"), 0), 16);
    ck_assert_int_eq(json_as_int(json_get(j, "norms.cells.0.0"), 0), 2);
    ck_assert_int_eq(json_as_int(json_get(j, "norms.cells.0.1"), 0), 16);
    json_free(j);
    j = answer(&r, empty);
    ck_assert_int_eq(json_as_int(json_get(j, "rows"), 9), 0);
    json_free(j);
    rig_free(&r);
}
END_TEST

START_TEST(only_led_tablets_count)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    fill(&r);
    /* MAP_SET never takes rows away, so this map is not set by it */
    uint16_t shard_of[2u << RIG_BITS];
    for (uint32_t i = 0; i < 2u << RIG_BITS; i++)
        shard_of[i] = i >= 10;
    ck_assert_int_eq(lead_set_map(&r.shard->lead, 2, shard_of, 2u << RIG_BITS), 0);
    ck_assert_int_eq(lead_apply(&r.shard->lead, r.shard->engine, NULL), 0);
    uint64_t id = ask(&r, (struct wire_TABLE_STATS){.table = 0});
    rig_run(&r, 20);
    ck_assert_uint_eq(rig_reply(&r, id)->u.TABLE_STATS_reply.rows, 10);
    rig_free(&r);
}
END_TEST

START_TEST(what_cannot_be_answered_is_refused)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    uint64_t none = ask(&r, (struct wire_TABLE_STATS){.table = 9});
    uint64_t shows = ask(&r, (struct wire_TABLE_STATS){.what_if = true, .shows = 2});
    uint64_t negative = ask(&r, (struct wire_TABLE_STATS){.what_if = true, .shows = -1});
    uint64_t good = ask(&r, (struct wire_TABLE_STATS){.what_if = true, .budget_rows = 16});
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, none), SHOAL_E_NO_TABLE);
    ck_assert_int_eq(rig_status(&r, shows), SHOAL_E_USAGE);
    ck_assert_int_eq(rig_status(&r, negative), SHOAL_E_USAGE);
    ck_assert_int_eq(rig_status(&r, good), 0);
    rig_free(&r);
}
END_TEST

/* Pushes many rows of a tablet at once, so that there are soon more than one step takes. */
static void fill_tablet(struct rig *r, uint32_t tablet, uint32_t rows)
{
    uint64_t *key = calloc(rows, sizeof *key);
    float *gradient = calloc(2 * (size_t)rows, sizeof *gradient);
    for (uint32_t i = 0; i < rows; i++) {
        key[i] = rig_key(tablet, i);
        gradient[2 * i] = (float)(tablet + 1);
        gradient[2 * i + 1] = (float)i;
    }
    struct wire w = rig_wire(r, WIRE_TYPE_PUSH);
    w.u.PUSH = (struct wire_PUSH){.run = RIG_RUN,
                                  .generation = 1,
                                  .to = 1,
                                  .tablet_first = tablet,
                                  .tablet_count = 1,
                                  .lr_scale = 1,
                                  .key_count = rows,
                                  .map_epoch = 1};
    uint64_t id =
        rig_send(r, &w, 2, key, rows * sizeof *key, gradient, 2 * (size_t)rows * sizeof *gradient);
    rig_run(r, 20);
    ck_assert_msg(rig_status(r, id) == 0, "%s", r->answer[id].w.error);
    free(key);
    free(gradient);
}

/* The work is done in steps, and covers every tablet once. */
START_TEST(digests_and_figures_of_many_rows_are_of_all_of_them)
{
    enum { ROWS = 12000, TABLETS = 1 << RIG_BITS };
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    for (uint32_t t = 0; t < TABLETS; t++)
        fill_tablet(&r, t, ROWS);
    uint64_t digest = rig_simple(&r, WIRE_TYPE_DIGEST),
             stats = ask(&r, (struct wire_TABLE_STATS){0});
    rig_run(&r, 200);
    ck_assert_uint_eq(rig_reply(&r, stats)->u.TABLE_STATS_reply.rows, ROWS * TABLETS);
    const struct wire_DIGEST_reply *d = &rig_reply(&r, digest)->u.DIGEST_reply;
    ck_assert_uint_eq(d->rows, ROWS * TABLETS);
    ck_assert_uint_eq(r.answer[digest].m->frame[1].bytes, TABLETS * sizeof(uint64_t));
    for (uint32_t t = 0; t < TABLETS; t++) {
        uint64_t is, of = ((const uint64_t *)r.answer[digest].m->frame[1].data)[t];
        ck_assert_int_eq(table_digest(engine_table(r.shard->engine, 0), t, &is), 0);
        ck_assert_msg(is == of && of != 0, "tablet %u", t);
    }
    rig_free(&r);
}
END_TEST

START_TEST(requests_wait_for_each_other_and_are_bounded)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    fill(&r);
    uint64_t refused = r.shard->counts.refused;
    for (uint32_t i = 0; i <= TABLE_STATS_ASKERS; i++) {
        struct wire w = rig_wire(&r, WIRE_TYPE_TABLE_STATS);
        struct msg *m = wire_encode(&w); /* passed directly, so that none is answered in between */
        shard_handler.on_message(r.shard, r.shard->beat.coordinator, m);
        shard_handler.on_message(r.shard, r.shard->beat.coordinator,
                                 wire_encode(&w)); /* repeated: no second place */
    }
    ck_assert_uint_eq(r.shard->table_stats.count, TABLE_STATS_ASKERS);
    ck_assert_uint_eq(r.shard->counts.refused, refused + 2); /* the request too many, both times */
    rig_run(&r, 20);
    ck_assert_uint_eq(r.shard->table_stats.count, 0);
    ck_assert_ptr_null(r.shard->table_stats.census);
    rig_free(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        figures_are_those_of_the_rows,
        only_led_tablets_count,
        what_cannot_be_answered_is_refused,
        digests_and_figures_of_many_rows_are_of_all_of_them,
        requests_wait_for_each_other_and_are_bounded,
    };
    return rig_main("table_stats", tests, sizeof tests / sizeof tests[0]);
}
