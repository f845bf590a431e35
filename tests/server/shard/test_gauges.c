/* test_gauges.c: a shard's figures for Prometheus: they count what it did, and are bounded. */
#include "tests/server/shard_rig.h"

static struct meter_sheet sheet;

/* The sum of the samples of a metric; label NULL, or the value of the label behind `shard`. */
static double value(enum meter_id id, const char *label)
{
    double sum = 0;
    bool found = false;
    for (uint32_t i = 0; i < sheet.samples; i++) {
        const char *shard = sheet.text + sheet.sample[i].text;
        if (sheet.sample[i].id != id ||
            (label != NULL && strcmp(shard + strlen(shard) + 1, label) != 0))
            continue;
        ck_assert_str_eq(shard, "s/0");
        const uint32_t cells = sheet.sample[i].numbers == 1 ? 1 : METER_CELLS;
        for (uint32_t n = 0; n < cells; n++)
            sum += sheet.number[sheet.sample[i].number + n];
        found = true;
    }
    ck_assert_msg(found, "%s is not told", meter_rows[id].name);
    return sum;
}

static void put(struct rig *r)
{
    meter_clear(&sheet);
    gauges_put(r->shard, &sheet);
    ck_assert_uint_eq(sheet.left_out, 0);
}

START_TEST(gauges_count_requests)
{
    struct rig r = {0};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    put(&r);
    ck_assert_double_eq(value(METER_ID_REFUSALS, "BUSY"), 0); /* told before it occurs */
    const double fenced = value(METER_ID_REFUSALS, NULL);
    for (uint64_t i = 0; i < 3; i++)
        rig_push(&r, (struct rig_push_args){
                         .from = i, .to = i + 1, .key = rig_key((uint32_t)i, 0), .gradient = 1});
    rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(0, 0), .gradient = 1});
    rig_push(&r, (struct rig_push_args){.from = 9, .to = 10}); /* a gap */
    rig_run(&r, 20);
    rig_pull(&r, 1, 1, 9, rig_key(0, 0)); /* its clock is 2 behind that of lane 0 or more */
    rig_run(&r, 20);
    put(&r);
    ck_assert_double_eq(value(METER_ID_REQUESTS, "push"), 4);
    ck_assert_double_eq(value(METER_ID_REQUESTS, "pull"), 1);
    ck_assert_double_eq(value(METER_ID_KEYS, "push"), 3);
    ck_assert_double_eq(value(METER_ID_VALUE_BYTES, "push"), 3 * 2 * 4);
    ck_assert_double_eq(value(METER_ID_VALUE_BYTES, "pull"), 2 * 4);
    ck_assert_double_eq(value(METER_ID_SKIPPED, NULL), 1);
    ck_assert_double_eq(value(METER_ID_REFUSALS, "GAP"), 1);
    ck_assert_double_eq(value(METER_ID_REFUSALS, NULL), fenced + 1);
    ck_assert_double_eq(value(METER_ID_REQUEST_SECONDS, "push"), 5); /* the refusal was answered */
    ck_assert_double_eq(value(METER_ID_REQUEST_SECONDS, "pull"), 1);
    ck_assert_double_eq(value(METER_ID_STALENESS, NULL), 1);
    ck_assert_double_eq(value(METER_ID_ROWS, NULL), 3);
    ck_assert_double_eq(value(METER_ID_TABLETS, "led"), 2u << RIG_BITS);
    rig_free(&r);
}
END_TEST

/* A daemon shows METER_SERIES at most: with the tables of a large job there is room for eight
 * shards of a server. */
START_TEST(gauges_of_many_tables_are_bounded)
{
    struct rig r = {0};
    rig_new(&r, WIRE_SSP, 100, OPT_SGD);
    for (uint32_t t = 2; t < LIMIT_JOB_TABLES; t++)
        rig_table(&r, t, OPT_SGD);
    rig_run(&r, 20);
    put(&r);
    ck_assert_uint_gt(sheet.series, LIMIT_JOB_TABLES * 10);
    ck_assert_uint_lt(8 * sheet.series, METER_SERIES);
    rig_free(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        gauges_count_requests,
        gauges_of_many_tables_are_bounded,
    };
    return rig_main("gauges", tests, sizeof tests / sizeof tests[0]);
}
