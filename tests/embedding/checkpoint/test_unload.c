/* test_unload.c: an untrained load is dropped, at any point of it; then the same restore
 * succeeds. */
#include "embedding/follow.h"
#include "proto/base/log.h"
#include "tests/lib/embedding_fleet.h"
#include "tests/lib/file_fault.h"
#include "tests/lib/table_sets.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SHARDS 2u

static char dir[LIMIT_PATH], save_dir[LIMIT_PATH + 8], load_dir[LIMIT_PATH + 8],
    path[LIMIT_PATH + 8];
static struct fleet from, to;
static uint64_t digest[FLEET_TABLES];

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    rig_dir(dir);
    snprintf(save_dir, sizeof save_dir, "%s/a", dir);
    snprintf(load_dir, sizeof load_dir, "%s/b", dir);
    snprintf(path, sizeof path, "%s/c", dir);
    ck_assert_int_eq(mkdir(save_dir, 0700), 0);
    ck_assert_int_eq(mkdir(load_dir, 0700), 0);
    fleet_open(&from, SHARDS, save_dir, DURABLE_JOURNAL);
    fleet_tables(&from);
    fleet_run_open(&from, 1, 2, 1);
    fleet_train(&from, 1, 0, 0, 30);
    fleet_cut(&from, 5);
    ck_assert_int_eq(fleet_export(&from, 5, path, NULL), 0);
    for (uint32_t i = 0; i < FLEET_TABLES; i++)
        digest[i] = fleet_digest(&from, i);
    fleet_close(&from, false);
}

static void teardown(void)
{
    rig_remove_dir(dir);
}

struct told {
    uint32_t calls;
    int status;
    char text[ERR_TEXT_MAX];
};

static void loaded(void *context, int status, const char *text, uint64_t rows)
{
    struct told *t = context;
    (void)rows;
    t->calls++;
    t->status = status;
    snprintf(t->text, sizeof t->text, "%s", text);
}

static void dropped(void *context, int status, const char *text)
{
    loaded(context, status, text, 0);
}

static void drop(struct fleet *f, uint64_t run)
{
    struct told t = {0};
    struct err e = {0};
    for (uint32_t i = 0; i < f->shards; i++)
        ck_assert_int_eq(engine_load_drop(f->s[i].g, run, TABLE_SET_ALL, dropped, &t, &e), 0);
    fleet_run(f);
    ck_assert_uint_eq(t.calls, f->shards);
    ck_assert_msg(t.status == 0, "%s", t.text);
}

/* The coordinator continues with another job: the rows that this run loaded can still be
 * dropped. */
static void give_up_below(uint64_t run)
{
    struct err e = {0};
    for (uint32_t i = 0; i < SHARDS; i++)
        ck_assert_int_eq(engine_runs_drop_below(to.s[i].g, run, TABLE_SET_ALL, &e), 0);
}

static void open_empty(enum durability durability)
{
    fleet_open(&to, SHARDS, durability == DURABLE_MEMORY ? NULL : load_dir, durability);
    fleet_tables(&to);
}

static void check_empty(uint64_t run)
{
    uint32_t mode, lanes;
    for (uint32_t i = 0; i < FLEET_TABLES; i++)
        ck_assert_uint_eq(fleet_rows(&to, i), 0);
    for (uint32_t i = 0; i < SHARDS; i++)
        ck_assert_int_eq(engine_run_mode(to.s[i].g, run, &mode, &lanes), SHOAL_E_NOT_FOUND);
}

static void check_loads(uint64_t run)
{
    char text[4096];
    int rc = fleet_load(&to, path, run, text, NULL);
    ck_assert_msg(rc == 0, "%s", text);
    for (uint32_t i = 0; i < FLEET_TABLES; i++)
        ck_assert_uint_eq(fleet_digest(&to, i), digest[i]);
}

START_TEST(a_load_is_taken_back_and_goes_again)
{
    bool on_disk = _i > 0, restart = _i > 1;
    open_empty(on_disk ? DURABLE_JOURNAL : DURABLE_MEMORY);
    uint32_t times = on_disk ? 2 : LIMIT_TABLES + 1; /* more often than there can be tables */
    for (uint64_t run = 7; run < 7 + times; run++) {
        check_loads(run);
        for (int again = 0; again < 2; again++) {
            if (restart) {
                fleet_close(&to, _i == 3);
                fleet_reopen(&to);
            }
            give_up_below(run + 1);
            drop(&to, run);
            check_empty(run);
        }
    }
    if (restart) {
        fleet_close(&to, false);
        fleet_reopen(&to);
        check_empty(7);
    }
    check_loads(400);
    fleet_train(&to, 400, 0, 30, 33);
    fleet_close(&to, false);
}
END_TEST

static void on_records(void *context, int status, const void *records, size_t bytes, uint64_t last)
{
    (void)last;
    *(uint32_t *)context = status == 0 ? engine_follow_kind(records, bytes) : 0;
}

/* The kind of a shard's record behind `after`. */
static uint32_t kind_behind(uint64_t after)
{
    uint32_t kind = 0;
    struct err e;
    ck_assert_int_eq(engine_records(to.s[0].g, after, 1, on_records, &kind, &e), 0);
    return kind;
}

static uint64_t last_record(void)
{
    struct engine_stats stats;
    engine_stats_get(to.s[0].g, &stats);
    return stats.sequence;
}

/* A follower of the records would not see the rows come and go. */
START_TEST(a_load_and_its_end_are_bases_for_followers)
{
    struct err e;
    open_empty(_i > 0 ? DURABLE_JOURNAL : DURABLE_MEMORY);
    ck_assert_int_eq(engine_tail(to.s[0].g, 1u << 20, &e), 0);
    uint64_t last = last_record();
    check_loads(7);
    ck_assert_uint_eq(kind_behind(last), RECORD_BASE);
    last = last_record();
    drop(&to, 7);
    check_empty(7);
    ck_assert_uint_eq(kind_behind(last), RECORD_BASE);
    fleet_close(&to, false);
}
END_TEST

/* At every step of the I/O threads: the load ends with STOPPED or was already done; in both cases
 * it is dropped. */
START_TEST(a_load_under_way_is_called_off)
{
    uint32_t stopped = 0, done = 0;
    open_empty(_i == 0 ? DURABLE_MEMORY : DURABLE_JOURNAL);
    for (uint32_t steps = 0; done < 2; steps++) {
        struct told load = {0};
        struct err e = {0};
        struct engine_load_options o = {.path = path, .run = 10 + steps};
        ck_assert_int_eq(engine_load(to.s[0].g, &o, loaded, &load, &e), 0);
        for (uint32_t k = 0; k < steps; k++)
            (void)embedding_env_step(&to.s[0].env);
        struct told taken = {0};
        ck_assert_int_eq(engine_load_drop(to.s[0].g, o.run, TABLE_SET_ALL, dropped, &taken, &e), 0);
        if (taken.calls == 0) {
            ck_assert_int_eq(engine_load(to.s[0].g, &o, loaded, &load, &e), SHOAL_E_BUSY);
            ck_assert_int_eq(engine_load_drop(to.s[0].g, o.run, TABLE_SET_ALL, dropped, &taken, &e),
                             SHOAL_E_BUSY);
        }
        embedding_env_run(&to.s[0].env);
        ck_assert_uint_eq(load.calls, 1);
        ck_assert_uint_eq(taken.calls, 1);
        ck_assert_msg(taken.status == 0, "%s", taken.text);
        ck_assert(load.status == 0 || load.status == SHOAL_E_STOPPED);
        stopped += load.status != 0;
        done += load.status == 0;
        check_empty(o.run);
    }
    ck_assert_uint_ge(stopped, 1);
    check_loads(500);
    fleet_close(&to, false);
}
END_TEST

/* Any flush of the store may make other tablets' images durable, so their journal records must be
 * durable first. */
START_TEST(taking_back_asks_for_the_journal_first)
{
    struct told taken = {0};
    struct err e = {0};
    open_empty(DURABLE_JOURNAL);
    check_loads(7);
    ck_assert_int_eq(engine_load_drop(to.s[0].g, 7, TABLE_SET_ALL, dropped, &taken, &e), 0);
    file_fault_set(&(struct file_fault){.at = 1, .why = EIO});
    embedding_env_run(&to.s[0].env);
    ck_assert_uint_ge(file_fault_calls(), 1);
    file_fault_set(NULL);
    ck_assert_int_eq(taken.status, SHOAL_E_IO);
    ck_assert_uint_eq(to.s[0].fatal, 1);
    fleet_close(&to, false);
    fleet_reopen(&to); /* nothing was removed before */
    for (uint32_t i = 0; i < FLEET_TABLES; i++)
        ck_assert_uint_eq(fleet_digest(&to, i), digest[i]);
    fleet_close(&to, false);
}
END_TEST

/* The control case: from the first fence on, the rows belong to the run. */
START_TEST(a_run_that_may_have_trained_keeps_its_rows)
{
    char text[4096];
    uint64_t mark;
    struct err e = {0};
    open_empty(DURABLE_JOURNAL);
    check_loads(7);
    for (uint32_t i = 0; i < SHARDS; i++)
        ck_assert_int_eq(engine_fence(to.s[i].g, 7, 1, 1, true, NULL, &mark, &e), 0);
    drop(&to, 7);
    for (uint32_t i = 0; i < FLEET_TABLES; i++)
        ck_assert_uint_eq(fleet_digest(&to, i), digest[i]);
    drop(&to, 8); /* nor does a later one, of a closed run */
    for (uint32_t i = 0; i < FLEET_TABLES; i++)
        ck_assert_uint_eq(fleet_digest(&to, i), digest[i]);
    ck_assert_int_eq(fleet_load(&to, path, 9, text, NULL), SHOAL_E_EXISTS);
    fleet_close(&to, false);
}
END_TEST

/* A coordinator died between two tries: the second drop also removes the rows of the first. */
START_TEST(what_an_older_try_left_goes_too)
{
    char text[4096];
    open_empty(DURABLE_JOURNAL);
    check_loads(7);
    ck_assert_int_eq(fleet_load(&to, path, 9, text, NULL), SHOAL_E_EXISTS);
    drop(&to, 9);
    check_empty(7);
    check_loads(11);
    drop(&to, 10); /* an older run's drop does not concern this load */
    for (uint32_t i = 0; i < FLEET_TABLES; i++)
        ck_assert_uint_eq(fleet_digest(&to, i), digest[i]);
    fleet_close(&to, false);
}
END_TEST

static void load_begin(struct engine *g, uint64_t run, uint64_t tables, struct told *t)
{
    struct engine_load_options o = {.path = path, .run = run, .tables = set_of(tables)};
    struct err e = {0};
    *t = (struct told){0};
    ck_assert_msg(engine_load(g, &o, loaded, t, &e) == 0, "%s", e.text);
}

static void drop_of(struct engine *g, uint64_t run, uint64_t tables, struct told *t)
{
    struct err e = {0};
    *t = (struct told){0};
    ck_assert_msg(engine_load_drop(g, run, set_of(tables), dropped, t, &e) == 0, "%s", e.text);
}

/* Run 7 is loaded into table 0, run 8 into table 1. Each is recorded as loaded, and dropped
 * separately; only its own job can cancel a running load. */
START_TEST(a_load_of_another_job_stays)
{
    struct told seven, eight, gone;
    struct err e = {0};
    open_empty(_i == 0 ? DURABLE_MEMORY : DURABLE_JOURNAL);
    struct engine *g = to.s[0].g;
    struct embedding_env *env = &to.s[0].env;
    load_begin(g, 7, 1, &seven);
    embedding_env_run(env);
    load_begin(g, 8, 2, &eight);
    drop_of(g, 9, 1, &gone);
    embedding_env_run(env);
    ck_assert(seven.calls == 1 && eight.calls == 1 && gone.calls == 1);
    ck_assert_msg(eight.status == 0 && gone.status == 0, "%s %s", eight.text, gone.text);
    ck_assert_uint_eq(table_rows(engine_table(g, 0)), 0);
    ck_assert_uint_gt(table_rows(engine_table(g, 1)), 0);

    load_begin(g, 10, 1, &seven);
    embedding_env_run(env);
    struct engine_load_options again = {.path = path, .run = 8, .tables = table_set_word(2)};
    ck_assert_msg(engine_load(g, &again, loaded, &eight, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(eight.calls, 2);
    drop_of(g, 11, 2, &gone);
    embedding_env_run(env);
    ck_assert_uint_eq(gone.calls, 1);
    ck_assert_uint_gt(table_rows(engine_table(g, 0)), 0);
    ck_assert_uint_eq(table_rows(engine_table(g, 1)), 0);
    ck_assert_uint_eq(engine_run_tables(g, 8).word[0], 0);
    fleet_close(&to, false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unload");
    TCase *t = tcase_create("unload");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, a_load_and_its_end_are_bases_for_followers, 0, 2);
    tcase_add_loop_test(t, a_load_is_taken_back_and_goes_again, 0, 4);
    tcase_add_loop_test(t, a_load_under_way_is_called_off, 0, 2);
    tcase_add_test(t, taking_back_asks_for_the_journal_first);
    tcase_add_test(t, a_run_that_may_have_trained_keeps_its_rows);
    tcase_add_test(t, what_an_older_try_left_goes_too);
    tcase_add_loop_test(t, a_load_of_another_job_stays, 0, 2);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
