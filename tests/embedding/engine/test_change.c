/* test_change.c: changes of a table's schema: the allowed ones, the operations that wait for a
 * change, and the state of a shard that is killed during one. */
#include "embedding/checkpoint.h"
#include "embedding/engine.h"
#include "embedding/engine/engine_state.h"
#include "proto/base/hash.h"
#include "tests/lib/embedding_digest.h"
#include "tests/lib/embedding_thin.h"
#include "tests/lib/kill_step.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[LIMIT_PATH];
static struct rig s;
static struct shared {
    uint64_t digest;
    long steps;
    uint32_t done;
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

static struct table_schema with_rate(float lr)
{
    struct table_schema schema = rig_schema(0);
    schema.optimizer.lr = lr;
    return schema;
}

static float rate_of(struct rig *of)
{
    return table_schema_of(engine_table(of->g, 0))->optimizer.lr;
}

/* Asks until the change is made. Returns how often it was not made yet. */
static uint32_t change(const struct table_schema *schema)
{
    struct err e = {0};
    uint32_t tries = 0;
    int rc;
    while ((rc = engine_table_create(s.g, schema, &e)) == SHOAL_E_AGAIN && tries < 100) {
        tries++;
        embedding_env_run(&s.env);
    }
    ck_assert_msg(rc == 0, "%s", e.text);
    ck_assert(schema_equal(table_schema_of(engine_table(s.g, schema->table)), schema));
    return tries;
}

static void begin(enum durability durability, const char *where)
{
    rig_open(&s, where, durability);
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
}

START_TEST(it_waits_until_what_was_pushed_is_on_disk)
{
    struct table_schema other = with_rate(0.2f);
    begin(DURABLE_JOURNAL, dir);
    ck_assert_uint_eq(change(&other), 0); /* nothing has changed */
    rig_train(&s, 1, 0, 0, 0, 3);
    uint64_t digest = rig_digest(&s), sequence = s.g->sequence;
    other = with_rate(0.1f);
    ck_assert_uint_gt(change(&other), 0);
    ck_assert_uint_eq(s.g->sequence, sequence + 1);
    ck_assert_uint_eq(rig_digest(&s), digest);
    ck_assert_uint_gt(change(&other) + 1, 0); /* repeated: it is made */
    ck_assert_uint_eq(s.g->sequence, sequence + 1);
    rig_close(&s, false);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_float_eq(rate_of(&s), 0.1f);
    ck_assert_uint_eq(rig_digest(&s), digest);
    rig_close(&s, false);
}
END_TEST

START_TEST(a_full_disk_that_it_waits_for_is_told)
{
    struct table_schema other = with_rate(0.2f);
    struct engine_stats stats;
    struct err e = {0};
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 3);
    uint64_t watermark = s.g->options.disk_watermark;
    s.g->options.disk_watermark = UINT64_MAX;
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(engine_table_create(s.g, &other, &e), SHOAL_E_AGAIN);
        embedding_env_run(&s.env);
    }
    engine_stats_get(s.g, &stats);
    ck_assert(stats.disk_short);
    s.g->options.disk_watermark = watermark;
    (void)change(&other);
    engine_stats_get(s.g, &stats);
    ck_assert(!stats.disk_short);
    rig_close(&s, false);
}
END_TEST

START_TEST(in_memory_it_is_there_at_once)
{
    struct table_schema other = with_rate(0.2f);
    begin(DURABLE_MEMORY, NULL);
    rig_train(&s, 1, 0, 0, 0, 3);
    ck_assert_uint_eq(change(&other), 0);
    rig_close(&s, false);
}
END_TEST

START_TEST(what_rows_go_by_stays)
{
    struct err e = {0};
    struct table_schema other = with_rate(0.2f);
    other.optimizer.kind = OPT_SGD;
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 3);
    uint64_t digest = rig_digest(&s), sequence = s.g->sequence;
    ck_assert_int_eq(engine_table_create(s.g, &other, &e), SHOAL_E_SCHEMA);
    ck_assert_ptr_nonnull(strstr(e.text, "the optimizer is adagrad, not sgd"));
    ck_assert_ptr_nonnull(strstr(e.text, "\"all\" added to fresh"));
    ck_assert_uint_eq(s.g->sequence, sequence);
    ck_assert_uint_eq(rig_digest(&s), digest);
    rig_close(&s, false);
}
END_TEST

/* ---- killed ---- */

#define FIRST 40u
#define SECOND 80u
#define LAST 110u

/* Continues from any state of the shard: batches under one rate, under another, and under the
 * first. The table's rate must fit the batch that the shard has reached. */
static void rest_of_it(void)
{
    struct table_schema one = with_rate(0.05f), other = with_rate(0.2f);
    struct err e = {0};
    uint64_t at = engine_table(s.g, 0) == NULL ? 0 : engine_mark(s.g, 1, 0, 0);
    if (engine_table(s.g, 0) == NULL)
        ck_assert_msg(engine_table_create(s.g, &one, &e) == 0, "%s", e.text);
    if (at != FIRST && at != SECOND)
        ck_assert_float_eq(rate_of(&s), at > FIRST && at < SECOND ? 0.2f : 0.05f);
    if (engine_newest_run(s.g) == 0)
        ck_assert_int_eq(engine_run_open(s.g, 1, 1, 1, NULL), 0);
    if (at < FIRST)
        rig_train(&s, 1, 0, 0, at, FIRST);
    if (at < SECOND) {
        change(&other);
        rig_train(&s, 1, 0, 0, at < FIRST ? FIRST : at, SECOND);
    }
    if (at <= LAST) {
        change(&one);
        rig_train(&s, 1, 0, 0, at < SECOND ? SECOND : at, LAST);
    }
}

static void open_small(const char *where, enum durability durability)
{
    struct err e = {0};
    ck_assert_msg(rig_try_open_sized(&s, where, durability, 1u << 20, &e) == 0, "%s", e.text);
    rig_come_back(&s);
    rig_lead(&s);
}

/* Killed before step `at` (0: not killed); then the digest is compared. */
static void life(long at)
{
    fflush(NULL);
    pid_t child = fork();
    int status;
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        kill_begin(at, 0);
        open_small(dir, DURABLE_JOURNAL);
        rest_of_it();
        shared->steps = kill_end();
        if (rig_digest(&s) != shared->digest)
            _exit(3);
        rig_close(&s, false);
        shared->done++;
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "killed at %ld: %x", at,
                  (unsigned)status);
}

START_TEST(killed_at_any_step_it_comes_back_as_if_it_had_not_been)
{
    open_small(NULL, DURABLE_MEMORY);
    rest_of_it();
    shared->digest = rig_digest(&s);
    rig_close(&s, false);
    life(0);
    long steps = shared->steps, stride = kill_stride(steps, 40);
    ck_assert_int_gt(steps, 100);
    for (long at = 1; at <= steps; at += stride) {
        rig_remove_dir(dir);
        rig_dir(dir);
        life(at);
        shared->done = 0;
        life(0);
        ck_assert_uint_eq(shared->done, 1);
    }
}
END_TEST

/* ---- cuts ---- */

static void on_gone(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)rows, (void)bytes;
    *(int *)context = status;
}

static void make_cut(uint64_t cut)
{
    uint64_t sequence;
    int status = 1;
    ck_assert_int_eq(engine_hold(s.g, cut, engine_newest_run(s.g), &sequence), 0);
    ck_assert_int_eq(engine_go(s.g, cut, on_gone, &status), 0);
    embedding_env_run(&s.env);
    ck_assert_int_eq(status, 0);
}

static void on_exported(void *context, int status, const char *text, uint64_t rows, uint64_t bytes)
{
    (void)text, (void)rows, (void)bytes;
    *(int *)context = status;
}

static void assert_export(uint64_t cut, const char *path, int expected)
{
    int status = 1;
    ck_assert_int_eq(engine_cut_export(s.g, cut, path, 0, 1, on_exported, &status, NULL), 0);
    embedding_env_run(&s.env);
    ck_assert_int_eq(status, expected);
}

static uint64_t digest_of(const char *path)
{
    struct checkpoint *c;
    struct err e = {0};
    uint64_t digest[1u << SHARD_TABLET_BITS] = {0}, rows, sum = 0;
    ck_assert_msg(checkpoint_open(path, NULL, &c, &e) == 0, "%s", e.text);
    ck_assert_msg(checkpoint_digest(c, 0, digest, &rows, &e) == 0, "%s", e.text);
    ck_assert_float_eq(checkpoint_table(c, 0)->optimizer.lr, 0.2f);
    checkpoint_close(c);
    for (uint32_t k = 0; k < 1u << SHARD_TABLET_BITS; k++)
        sum = hash_bytes(&digest[k], sizeof digest[k], sum);
    return sum;
}

static void cuts_case(enum durability durability, const char *where)
{
    struct table_schema other = with_rate(0.2f);
    struct err e = {0};
    char path[LIMIT_PATH + 8];
    rig_open(&s, where, durability);
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, NULL), 0);
    rig_train(&s, 1, 0, 0, 0, 5);
    make_cut(1);
    change(&other);
    uint64_t before = rig_digest(&s);
    make_cut(2); /* all its images are from before the change, whose record is in its journal */
    ck_assert_int_eq(engine_restore(s.g, 1, 2, &e), SHOAL_E_SCHEMA);
    ck_assert_ptr_nonnull(strstr(e.text, "cut 1 is of before table table-0"));
    rig_train(&s, 1, 0, 0, 5, 9);
    make_cut(3);
    uint64_t after = rig_digest(&s);
    rig_train(&s, 1, 0, 0, 9, 60);
    if (durability == DURABLE_JOURNAL) {
        snprintf(path, sizeof path, "%s/out", dir);
        ck_assert_int_eq(mkdir(path, 0700), 0);
        assert_export(1, path, SHOAL_E_SCHEMA);
        assert_export(3, path, 0);
        ck_assert_uint_eq(digest_of(path), after);
        rig_close(&s, false);
        rig_open(&s, where, durability);
    }
    ck_assert_msg(engine_restore(s.g, 3, 2, &e) == 0, "%s", e.text);
    rig_come_back(&s);
    ck_assert_uint_eq(rig_digest(&s), after);
    ck_assert_msg(engine_restore(s.g, 2, 3, &e) == 0, "%s", e.text);
    rig_come_back(&s);
    ck_assert_uint_eq(rig_digest(&s), before);
    ck_assert_float_eq(rate_of(&s), 0.2f);
    rig_train(&s, 3, 0, 0, 5, 9);
    ck_assert_uint_eq(rig_digest(&s), after);
    rig_close(&s, false);
}

START_TEST(a_cut_of_before_the_change_is_refused)
{
    rig_in_steps = _i == 1;
    cuts_case(_i == 2 ? DURABLE_MEMORY : DURABLE_JOURNAL, _i == 2 ? NULL : dir);
    rig_in_steps = false;
}
END_TEST

/* Run 2 pushes only to table 1: a later change of table 0 belongs to another job. */
START_TEST(a_cut_is_good_whatever_other_tables_became)
{
    struct table_schema other = with_rate(0.2f);
    struct err e = {0};
    const char *where = _i == 0 ? dir : NULL;
    rig_open(&s, where, _i == 0 ? DURABLE_JOURNAL : DURABLE_MEMORY);
    rig_table(&s, 0);
    rig_table(&s, 1);
    ck_assert_int_eq(engine_run_open_tables(s.g, 1, 2, 1, table_set_word(1), &e), 0);
    ck_assert_int_eq(engine_run_open_tables(s.g, 2, 2, 1, table_set_word(2), &e), 0);
    make_cut(1);
    change(&other);
    ck_assert_msg(engine_restore(s.g, 1, 3, &e) == 0, "%s", e.text);
    rig_come_back(&s);
    ck_assert_float_eq(rate_of(&s), 0.2f);
    rig_close(&s, false);
}
END_TEST

/* A change waits for a cut in progress; a cut that is only held is still one of its instant. */
START_TEST(a_cut_under_way_is_waited_for)
{
    struct table_schema other = with_rate(0.2f);
    struct err e = {0};
    uint64_t sequence;
    int status = 1;
    begin(DURABLE_JOURNAL, dir);
    rig_train(&s, 1, 0, 0, 0, 5);
    ck_assert_int_eq(engine_hold(s.g, 1, 1, &sequence), 0);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(engine_table_create(s.g, &other, &e), SHOAL_E_AGAIN);
        embedding_env_run(&s.env);
    }
    ck_assert_int_eq(engine_go(s.g, 1, on_gone, &status), 0);
    ck_assert_int_eq(engine_table_create(s.g, &other, &e), SHOAL_E_AGAIN);
    embedding_env_run(&s.env);
    ck_assert_int_eq(status, 0);
    change(&other);
    rig_close(&s, false);
}
END_TEST

/* ---- rows in the store ---- */

START_TEST(rules_of_ageing_stay_while_rows_are_in_the_store)
{
    struct err e = {0};
    thin_open_trained(&s, dir, THIN_MEMORY, 60, true);
    ck_assert_uint_gt(table_cold_rows(engine_table(s.g, 0)), 0);
    struct table_schema other = *table_schema_of(engine_table(s.g, 0));
    other.rules.age_ttl = other.rules.age_ttl == 0 ? 9 * 86400 : other.rules.age_ttl * 2;
    ck_assert_int_eq(engine_table_create(s.g, &other, &e), SHOAL_E_SCHEMA);
    ck_assert_msg(strstr(e.text, "age_ttl is") != NULL && strstr(e.text, "in the store") != NULL,
                  "%s", e.text);
    uint64_t digest = thin_digest(&s);
    other = *table_schema_of(engine_table(s.g, 0));
    other.rules.weight_max = 0.5f;
    change(&other);
    ck_assert_uint_eq(thin_digest(&s), digest);
    rig_close(&s, false);
}
END_TEST

/* If no row is in the store, the rules of ageing change, and a kill makes no difference: later
 * pushes age by the new rules. */
START_TEST(rules_of_ageing_change_where_all_rows_are_in_memory)
{
    thin_open_trained(&s, dir, 0, 20, true);
    thin_cut(&s, 1); /* a restore leaves the store's numbers of tablets behind, and no row in it */
    thin_restore(&s, 1, 2);
    thin_fence(&s, 2);
    struct table_schema other = *table_schema_of(engine_table(s.g, 0));
    other.rules.age_every /= 2;
    other.rules.age_ttl = 86400;
    other.rules.age_capacity = 500;
    change(&other);
    uint64_t rows = table_rows(engine_table(s.g, 0));
    (void)thin_train(&s, 2, 20, 30, true);
    ck_assert_uint_lt(table_rows(engine_table(s.g, 0)), rows);
    uint64_t digest = thin_digest(&s);
    rig_close(&s, false);
    thin_open(&s, dir, 0);
    ck_assert_uint_eq(thin_digest(&s), digest);
    rig_close(&s, false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("change");
    TCase *c = tcase_create("change");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 300);
    tcase_add_test(c, it_waits_until_what_was_pushed_is_on_disk);
    tcase_add_test(c, a_full_disk_that_it_waits_for_is_told);
    tcase_add_test(c, in_memory_it_is_there_at_once);
    tcase_add_test(c, what_rows_go_by_stays);
    tcase_add_test(c, killed_at_any_step_it_comes_back_as_if_it_had_not_been);
    tcase_add_loop_test(c, a_cut_of_before_the_change_is_refused, 0, 3);
    tcase_add_loop_test(c, a_cut_is_good_whatever_other_tables_became, 0, 2);
    tcase_add_test(c, a_cut_under_way_is_waited_for);
    tcase_add_test(c, rules_of_ageing_stay_while_rows_are_in_the_store);
    tcase_add_test(c, rules_of_ageing_change_where_all_rows_are_in_memory);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
