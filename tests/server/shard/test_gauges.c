/* test_gauges.c: a shard's figures for Prometheus: they count what it did, and are bounded. */
#include "proto/meter/meter_text.h"
#include "tests/server/shard_rig.h"

#include <sys/statvfs.h>

static struct meter_sheet sheet;
static char dir[64];

static void dir_make(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/shoal-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void dir_remove(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

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
    ck_assert_double_eq(value(METER_ID_ROW_BYTES, NULL),
                        3.0 * (double)table_row_bytes(engine_table(r.shard->engine, 0)));
    ck_assert_double_eq(value(METER_ID_TABLETS, "led"), 2u << RIG_BITS);
    rig_free(&r);
}
END_TEST

/* Syncs and writes are told by their time, and a sync that hangs while it does; and what is free on
 * the file system, against the bytes with which pushes are refused. */
START_TEST(gauges_tell_the_disk)
{
    struct rig r = {.dir = dir, .durability = DURABLE_FSYNC, .work_ns = 4000 * MS};
    struct statvfs fs;
    dir_make();
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    rig_run(&r, 20000);
    put(&r);
    const double before = value(METER_ID_SYNC_SECONDS, NULL);
    ck_assert_double_eq(value(METER_ID_SYNC_AGE, NULL), 0);
    ck_assert_int_eq(statvfs(dir, &fs), 0);
    ck_assert_double_eq_tol(value(METER_ID_DISK_FREE, NULL), (double)(fs.f_bavail * fs.f_frsize),
                            1 << 28);
    ck_assert_double_eq(value(METER_ID_DISK_FREE_LEAST, NULL),
                        (double)r.shard->options.engine.disk_watermark);
    uint64_t push = rig_push(
        &r, (struct rig_push_args){.from = 0, .to = 1, .key = rig_key(0, 0), .gradient = 1});
    for (int s = 0; s < 3; s++) {
        rig_run(&r, 1000);
        put(&r);
    }
    ck_assert_int_eq(rig_status(&r, push), RIG_WAITING);
    ck_assert_double_eq(value(METER_ID_SYNC_SECONDS, NULL), before);
    ck_assert_double_eq_tol(value(METER_ID_SYNC_AGE, NULL), 2, 0.1);
    rig_run(&r, 20000);
    put(&r);
    ck_assert_int_eq(rig_status(&r, push), 0);
    ck_assert_double_ge(value(METER_ID_SYNC_SECONDS, NULL), before + 1);
    ck_assert_double_eq(value(METER_ID_WRITE_SECONDS, NULL), 1);
    ck_assert_double_eq(value(METER_ID_SYNC_AGE, NULL), 0);
    ck_assert_double_eq(value(METER_ID_STORE_SECONDS, NULL), 0);
    r.shard->engine->options.journal_max = 1; /* rows are written now */
    rig_push(&r, (struct rig_push_args){.from = 1, .to = 2, .key = rig_key(0, 0), .gradient = 1});
    rig_run(&r, 60000);
    r.shard->engine->options.journal_max = 0;
    rig_push(&r, (struct rig_push_args){.from = 2, .to = 3, .key = rig_key(0, 0), .gradient = 1});
    rig_run(&r, 60000);
    put(&r);
    ck_assert_double_ge(value(METER_ID_STORE_SECONDS, NULL), 1);
    rig_free(&r);
    dir_remove();
}
END_TEST

/* The lines of the text that Prometheus reads from a daemon with so many shards like this one. */
static uint32_t lines(uint32_t shards)
{
    static struct meter_sheet of[8];
    char *text = NULL;
    size_t bytes;
    uint32_t count = 0;
    FILE *f = open_memstream(&text, &bytes);
    ck_assert_uint_le(shards, 8);
    for (uint32_t i = 0; i < shards; i++)
        meter_copy(&of[i], &sheet);
    meter_text_write(f, METER_OPEN, of, shards);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_ptr_nonnull(strstr(text, "\nshoal_series_left_out 0\n"));
    for (const char *line = text; *line != 0; line = strchr(line, '\n') + 1)
        count += *line != '#';
    free(text);
    for (uint32_t i = 0; i < shards; i++)
        meter_free(&of[i]);
    return count;
}

/* A daemon shows METER_SERIES at most: with the tables of a large job there is room for eight
 * shards of a server, and for the process's own. */
START_TEST(gauges_of_many_tables_are_bounded)
{
    struct rig r = {0};
    rig_new(&r, WIRE_SSP, 100, OPT_SGD);
    for (uint32_t t = 2; t < LIMIT_JOB_TABLES; t++)
        rig_table(&r, t, OPT_SGD);
    rig_run(&r, 20);
    put(&r);
    ck_assert_uint_gt(sheet.series, LIMIT_JOB_TABLES * 10);
    ck_assert_uint_eq(lines(1), sheet.series + 1);
    ck_assert_uint_lt(lines(8) + 20, METER_SERIES);
    rig_free(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        gauges_count_requests,
        gauges_tell_the_disk,
        gauges_of_many_tables_are_bounded,
    };
    return rig_main("gauges", tests, sizeof tests / sizeof tests[0]);
}
