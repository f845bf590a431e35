/* test_clear.c: a clear drops all that an engine has for a new job, once, whole or not at all; the
 * job's tables are then as in a new engine. */
#include "embedding/engine/cut.h"
#include "embedding/engine/engine_state.h"
#include "embedding/engine/tier.h"
#include "proto/base/key.h"
#include "proto/base/log.h"
#include "tests/lib/embedding_thin.h"
#include "tests/lib/kill_step.h"
#include "tests/lib/table_sets.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define JOB 9u /* the job that begins without rows; earlier runs have lower numbers */
#define BATCHES 25u

static char dir[LIMIT_PATH];
static struct rig s;
static struct rig_push p;
static struct shared {
    uint64_t before, after; /* digests */
    long steps;
    int status; /* status of the clear; 1: it was not reached */
} * shared;

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    rig_dir(dir);
}

static void teardown(void)
{
    munmap(shared, sizeof *shared);
    rig_remove_dir(dir);
}

static const enum durability durabilities[] = {DURABLE_MEMORY, DURABLE_JOURNAL, DURABLE_FSYNC};

/* ---- before: two tables, names, a run that is over, a cut, a restore ------------------------- */

static void fence(uint64_t run)
{
    struct err e = {0};
    uint64_t mark;
    ck_assert_msg(engine_fence(s.g, run, 0, 1, true, NULL, &mark, &e) == 0, "%s", e.text);
}

static void run_open(uint64_t run)
{
    struct err e = {0};
    ck_assert_msg(engine_run_open(s.g, run, 2, 1, &e) == 0, "%s", e.text);
    fence(run);
}

static void went(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)rows, (void)bytes;
    *(int *)context = status;
}

static void cut(uint64_t number, uint64_t run)
{
    uint64_t sequence;
    int status = 1;
    ck_assert_int_eq(engine_hold(s.g, number, run, &sequence), 0);
    ck_assert_int_eq(engine_go(s.g, number, went, &status), 0);
    embedding_env_run(&s.env);
    ck_assert_int_eq(status, 0);
}

static void push_to(uint32_t table, uint64_t run, uint64_t to)
{
    struct push_plan plan;
    rig_push_make(&p, run, table, 0, 1, to - 1, to);
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
}

static void live_before(void)
{
    struct err e = {0};
    uint64_t changed, erased[3] = {p.keys[0], p.keys[1], p.keys[2]};
    rig_table(&s, 0);
    rig_table(&s, 1);
    run_open(1);
    rig_train(&s, 1, 0, 1, 0, BATCHES);
    for (uint64_t i = 1; i <= BATCHES; i++)
        push_to(1, 1, i);
    ck_assert_int_eq(engine_keys(s.g, 0, KEY_ERASE, erased, 3, &changed, &e), 0);
    cut(5, 1);
    ck_assert_msg(engine_restore(s.g, 5, 2, &e) == 0, "%s", e.text);
    embedding_env_run(&s.env);
    fence(2);
    run_open(3);
    rig_train(&s, 2, 0, 1, BATCHES, BATCHES + 5); /* the last record is one of rows */
}

/* ---- the clear ------------------------------------------------------------------------------- */

static void cleared(void *context, int status, const char *text)
{
    (void)text;
    *(int *)context = status;
}

static int clear_tables(uint64_t job, struct table_set tables)
{
    struct err e = {0};
    int told = 1, rc = engine_clear(s.g, job, tables, cleared, &told, &e);
    if (rc != 0)
        return rc;
    embedding_env_run(&s.env);
    return told;
}

static int clear(uint64_t job)
{
    return clear_tables(job, TABLE_SET_ALL);
}

static void check_nothing(void)
{
    struct engine_stats stats;
    uint64_t cuts[4];
    uint32_t mode, lanes;
    engine_stats_get(s.g, &stats);
    ck_assert(engine_back(s.g));
    ck_assert_uint_eq(stats.rows + stats.tables + stats.tablets_dirty + stats.cold_rows, 0);
    ck_assert_uint_eq(engine_cuts(s.g, cuts, 4), 0);
    for (uint64_t run = 1; run <= 3; run++)
        ck_assert_int_eq(engine_run_mode(s.g, run, &mode, &lanes), SHOAL_E_NOT_FOUND);
}

/* ---- after: a table in the place of another, with another schema ----------------------------- */

static void job_begin(void)
{
    struct err e = {0};
    struct table_schema schema = rig_schema(0);
    schema.seed = 77;
    schema.optimizer = (struct optimizer_spec){.kind = OPT_SGD, .lr = 0.5f};
    ck_assert_msg(engine_table_create(s.g, &schema, &e) == 0, "%s", e.text);
    run_open(JOB + 1);
}

static void job_train(uint64_t from, uint64_t to)
{
    rig_train(&s, JOB + 1, 0, 1, from, to);
}

static uint64_t job_alone(void)
{
    struct rig was = s;
    rig_open(&s, NULL, DURABLE_MEMORY);
    job_begin();
    job_train(0, BATCHES);
    uint64_t digest = rig_digest(&s);
    rig_close(&s, false);
    s = was;
    return digest;
}

static void reopen(bool flush)
{
    enum durability durability = s.options.durability;
    rig_close(&s, flush);
    rig_open(&s, dir, durability);
}

START_TEST(a_job_after_a_clear_is_as_in_a_new_engine)
{
    enum durability durability = durabilities[_i / 2];
    bool disk = durability != DURABLE_MEMORY, flush = _i % 2;
    struct err e = {0};
    uint64_t alone = job_alone();
    rig_in_steps = flush;
    rig_open(&s, disk ? dir : NULL, durability);
    live_before();
    struct table_schema other = rig_schema(0);
    other.seed = 77;
    ck_assert_int_eq(engine_table_create(s.g, &other, &e), SHOAL_E_SCHEMA); /* the control */
    ck_assert_int_eq(clear(JOB), 0);
    check_nothing();
    ck_assert_uint_eq(engine_newest_run(s.g), 3);
    ck_assert_int_eq(engine_run_open(s.g, 3, 1, 1, &e), SHOAL_E_CONFIG);
    if (disk) {
        reopen(flush);
        check_nothing();
        ck_assert_uint_eq(engine_newest_run(s.g), 3);
    }
    job_begin();
    job_train(0, 5);
    if (disk)
        reopen(flush);
    job_train(5, BATCHES);
    ck_assert_uint_eq(rig_digest(&s), alone);
    if (disk) {
        cut(6, JOB + 1); /* it may share a segment with records from before */
        reopen(flush);
        ck_assert_uint_eq(rig_digest(&s), alone);
        ck_assert_msg(engine_restore(s.g, 6, JOB + 2, &e) == 0, "%s", e.text);
        embedding_env_run(&s.env);
        ck_assert_uint_eq(rig_digest(&s), alone);
    }
    rig_close(&s, false);
    rig_in_steps = false;
}
END_TEST

/* The job's rows come after the clear: a repeated clear changes nothing. */
START_TEST(a_clear_comes_once)
{
    enum durability durability = durabilities[_i];
    bool disk = durability != DURABLE_MEMORY;
    rig_open(&s, disk ? dir : NULL, durability);
    live_before();
    ck_assert_int_eq(clear(JOB), 0);
    job_begin();
    job_train(0, BATCHES);
    uint64_t digest = rig_digest(&s);
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(clear(JOB), 0);
        ck_assert_int_eq(clear(JOB - 1), 0);
        ck_assert_uint_eq(rig_digest(&s), digest);
        if (again == 0 && disk)
            reopen(false);
    }
    /* a run was opened here, and no clear was made for it */
    ck_assert_int_eq(clear(JOB + 1), SHOAL_E_CONFIG);
    ck_assert_uint_eq(rig_digest(&s), digest);
    ck_assert_int_eq(clear(JOB + 2), 0);
    check_nothing();
    rig_close(&s, false);
}
END_TEST

/* During a clear nothing is read or changed, and it waits for operations in progress. */
START_TEST(a_clear_is_alone)
{
    struct err e = {0};
    uint64_t sequence;
    int status = 1;
    rig_open(&s, dir, DURABLE_JOURNAL);
    live_before();
    ck_assert_int_eq(engine_hold(s.g, 7, 2, &sequence), 0);
    ck_assert_int_eq(clear(JOB), SHOAL_E_AGAIN);
    ck_assert_int_eq(engine_release(s.g, 7), 0);
    ck_assert_int_eq(clear(0), SHOAL_E_MALFORMED);
    ck_assert_int_eq(engine_clear(s.g, JOB, TABLE_SET_ALL, cleared, &status, &e), 0);
    ck_assert(!engine_back(s.g));
    ck_assert(!engine_warm(s.g, 0, p.keys, 1));
    bool stored;
    ck_assert_ptr_null(engine_row(s.g, 0, p.keys[0], &stored, &e));
    ck_assert_int_eq(e.code, SHOAL_E_AGAIN);
    ck_assert_int_eq(engine_clear(s.g, JOB, TABLE_SET_ALL, cleared, &status, &e), SHOAL_E_AGAIN);
    unsigned fetched = s.fetched;
    embedding_env_run(&s.env);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_gt(s.fetched, fetched);
    check_nothing();
    rig_close(&s, false);
}
END_TEST

/* ---- one of two tables ----------------------------------------------------------------------- */

/* Table 0 goes, table 1 belongs to another job. */
#define GOES table_set_word(1)
#define STAYS table_set_word(2)

static uint64_t digest_of(uint32_t number)
{
    const struct table *t = engine_table(s.g, number);
    uint64_t sum = 0, digest;
    ck_assert_ptr_nonnull(t);
    for (uint32_t k = 0; k < 1u << table_schema_of(t)->tablet_bits; k++) {
        ck_assert_int_eq(table_digest(t, k, &digest), 0);
        sum = key_mix(sum ^ digest);
    }
    return sum;
}

static void run_open_of(uint64_t run, struct table_set tables)
{
    struct err e = {0};
    ck_assert_msg(engine_run_open_tables(s.g, run, 2, 1, tables, &e) == 0, "%s", e.text);
    fence(run);
}

/* Runs 1 and 3 train table 0, run 2 trains table 1; each has a cut, and cut 5 is restored. The last
 * records are about both tables. */
static void live_beside(void)
{
    struct err e = {0};
    uint64_t changed, erased[3];
    rig_table(&s, 0);
    rig_table(&s, 1);
    run_open_of(1, GOES);
    run_open_of(2, STAYS);
    for (uint64_t i = 1; i <= BATCHES; i++) {
        push_to(0, 1, i);
        push_to(1, 2, i);
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
    memcpy(erased, p.keys, sizeof erased);
    for (uint32_t table = 0; table < 2; table++)
        ck_assert_int_eq(engine_keys(s.g, table, KEY_ERASE, erased, 3, &changed, &e), 0);
    cut(5, 1);
    cut(6, 2);
    ck_assert_msg(engine_restore(s.g, 5, 3, &e) == 0, "%s", e.text);
    embedding_env_run(&s.env);
    fence(3);
    for (uint64_t i = BATCHES + 1; i <= BATCHES + 5; i++) {
        push_to(0, 3, i);
        push_to(1, 2, i);
    }
}

/* A table of another shape in the place of table 0. */
static void other_begin(uint64_t run)
{
    struct err e = {0};
    struct table_schema schema = rig_schema(0);
    schema.seed = 77;
    schema.tablet_bits = SHARD_TABLET_BITS + 1;
    schema.tablet_first = 2u << SHARD_TABLET_BITS; /* behind table 1 */
    schema.optimizer = (struct optimizer_spec){.kind = OPT_SGD, .lr = 0.5f};
    ck_assert_msg(engine_table_create(s.g, &schema, &e) == 0, "%s", e.text);
    rig_lead(&s);
    run_open_of(run, GOES);
}

static void other_train(uint64_t run, uint64_t from, uint64_t to)
{
    struct push_plan plan;
    for (uint64_t i = from + 1; i <= to; i++) {
        rig_push_make(&p, run, 0, 0, 1, i - 1, i);
        p.record.tablet_count = 2u << SHARD_TABLET_BITS;
        ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
}

static uint64_t other_alone(void)
{
    struct rig was = s;
    rig_open(&s, NULL, DURABLE_MEMORY);
    other_begin(JOB + 1);
    other_train(JOB + 1, 0, BATCHES);
    uint64_t digest = digest_of(0);
    rig_close(&s, false);
    s = was;
    return digest;
}

static void check_stays(uint64_t digest, uint64_t mark)
{
    uint64_t cuts[4];
    uint32_t mode, lanes;
    ck_assert_ptr_null(engine_table(s.g, 0));
    ck_assert_uint_eq(digest_of(1), digest);
    ck_assert_uint_eq(engine_mark(s.g, 2, 0, 1), mark);
    ck_assert_int_eq(engine_run_mode(s.g, 1, &mode, &lanes), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(engine_run_mode(s.g, 2, &mode, &lanes), 0);
    ck_assert_int_eq(engine_run_mode(s.g, 3, &mode, &lanes), SHOAL_E_NOT_FOUND);
    ck_assert_uint_eq(engine_cuts(s.g, cuts, 4), 1);
    ck_assert_uint_eq(cuts[0], 6);
}

/* Rows, marks, run, records and cut of another job's table stay, and what takes the place of the
 * table that went is as in a new engine: at once, after a restart, and after a clear of the other
 * table, too. */
START_TEST(a_clear_leaves_other_tables)
{
    enum durability durability = durabilities[_i / 2];
    bool disk = durability != DURABLE_MEMORY, flush = _i % 2;
    struct err e = {0};
    uint64_t alone = other_alone();
    rig_in_steps = flush;
    rig_open(&s, disk ? dir : NULL, durability);
    live_beside();
    uint64_t digest = digest_of(1);
    ck_assert_int_eq(clear_tables(JOB, GOES), 0);
    check_stays(digest, BATCHES + 5);
    if (disk) {
        reopen(flush);
        check_stays(digest, BATCHES + 5);
    }
    ck_assert_uint_eq(engine_newest_run_of(s.g, GOES), 3);
    other_begin(JOB + 1);
    other_train(JOB + 1, 0, 5);
    push_to(1, 2, BATCHES + 6); /* the other job goes on */
    digest = digest_of(1);
    if (disk)
        reopen(flush);
    ck_assert_uint_eq(digest_of(1), digest);
    other_train(JOB + 1, 5, BATCHES);
    ck_assert_uint_eq(digest_of(0), alone);
    /* the other job's cut, with the records from before, is what it was */
    ck_assert_msg(engine_restore(s.g, 6, JOB + 2, &e) == 0, "%s", e.text);
    embedding_env_run(&s.env);
    fence(JOB + 2);
    for (uint64_t i = BATCHES + 1; i <= BATCHES + 6; i++)
        push_to(1, JOB + 2, i);
    ck_assert_uint_eq(digest_of(1), digest);
    ck_assert_uint_eq(digest_of(0), alone);
    if (disk)
        reopen(!flush);
    ck_assert_uint_eq(digest_of(1), digest);
    /* now that one goes */
    ck_assert_int_eq(clear_tables(JOB + 5, STAYS), 0);
    ck_assert_int_eq(clear_tables(JOB + 5, STAYS), 0);
    ck_assert_ptr_null(engine_table(s.g, 1));
    if (disk)
        reopen(flush);
    ck_assert_ptr_null(engine_table(s.g, 1));
    ck_assert_uint_eq(digest_of(0), alone);
    rig_close(&s, false);
    rig_in_steps = false;
}
END_TEST

/* A run of a release that knew one space pushes to both tables: it would lose one under its
 * pushes. */
START_TEST(a_clear_waits_for_a_run_of_all_tables)
{
    struct err e = {0};
    rig_open(&s, dir, DURABLE_JOURNAL);
    rig_table(&s, 0);
    rig_table(&s, 1);
    run_open(1);
    ck_assert_int_eq(clear_tables(JOB, GOES), SHOAL_E_BUSY);
    ck_assert_int_eq(engine_run_drop(s.g, 1, &e), 0);
    ck_assert_int_eq(clear_tables(JOB, GOES), 0);
    ck_assert_ptr_null(engine_table(s.g, 0));
    ck_assert_ptr_nonnull(engine_table(s.g, 1));
    ck_assert_int_eq(clear_tables(JOB, TABLE_SET_NONE), SHOAL_E_MALFORMED);
    rig_close(&s, false);
}
END_TEST

/* ---- kill -9 before the n-th change of a file ------------------------------------------------ */

static void before_child(void *context)
{
    (void)context;
    rig_open(&s, dir, DURABLE_JOURNAL);
    live_before();
    shared->before = rig_digest(&s);
    _exit(0);
}

static void clear_child(void *context)
{
    rig_open(&s, dir, DURABLE_JOURNAL);
    kill_begin(*(long *)context, 0);
    shared->status = clear(JOB);
    shared->steps = kill_end();
    _exit(0);
}

static void after_child(void *context)
{
    (void)context;
    struct engine_stats stats;
    rig_open(&s, dir, DURABLE_JOURNAL);
    engine_stats_get(s.g, &stats);
    if (stats.tables != 0) {
        ck_assert_int_eq(shared->status, 1);
        ck_assert_uint_eq(rig_digest(&s), shared->before);
    }
    ck_assert_int_eq(clear(JOB), 0);
    check_nothing();
    job_begin();
    job_train(0, 5);
    ck_assert_int_eq(clear(JOB), 0);
    reopen(true);
    job_train(5, BATCHES);
    ck_assert_uint_eq(rig_digest(&s), shared->after);
    _exit(0);
}

START_TEST(a_clear_has_happened_or_has_not)
{
    long steps = 0, killed = 0;
    shared->after = job_alone();
    for (long at = 0; at <= steps; at += at == 0 ? 1 : kill_stride(steps, 20)) {
        rig_in_child(before_child, NULL);
        shared->status = 1;
        rig_in_child(clear_child, &at);
        if (at == 0) {
            ck_assert_int_eq(shared->status, 0);
            steps = shared->steps;
            ck_assert_int_gt(steps, 10);
        }
        killed += shared->status == 1;
        rig_in_child(after_child, NULL);
        rig_remove_dir(dir);
        rig_dir(dir);
    }
    ck_assert_int_ge(killed, 5);
}
END_TEST

/* ---- the same for one of two tables; the other one stays ------------------------------------- */

static void beside_before_child(void *context)
{
    (void)context;
    rig_open(&s, dir, DURABLE_JOURNAL);
    live_beside();
    shared->before = digest_of(1);
    _exit(0);
}

static void beside_clear_child(void *context)
{
    rig_open(&s, dir, DURABLE_JOURNAL);
    kill_begin(*(long *)context, 0);
    shared->status = clear_tables(JOB, GOES);
    shared->steps = kill_end();
    _exit(0);
}

static void beside_after_child(void *context)
{
    (void)context;
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(digest_of(1), shared->before);
    if (engine_table(s.g, 0) != NULL)
        ck_assert_int_eq(shared->status, 1);
    ck_assert_int_eq(clear_tables(JOB, GOES), 0);
    check_stays(shared->before, BATCHES + 5);
    other_begin(JOB + 1);
    other_train(JOB + 1, 0, 5);
    ck_assert_int_eq(clear_tables(JOB, GOES), 0);
    reopen(true);
    other_train(JOB + 1, 5, BATCHES);
    ck_assert_uint_eq(digest_of(0), shared->after);
    ck_assert_uint_eq(digest_of(1), shared->before);
    _exit(0);
}

START_TEST(a_clear_of_one_table_has_happened_or_has_not)
{
    long steps = 0, killed = 0;
    shared->after = other_alone();
    for (long at = 0; at <= steps; at += at == 0 ? 1 : kill_stride(steps, 20)) {
        rig_in_child(beside_before_child, NULL);
        shared->status = 1;
        rig_in_child(beside_clear_child, &at);
        if (at == 0) {
            ck_assert_int_eq(shared->status, 0);
            steps = shared->steps;
            ck_assert_int_gt(steps, 10);
        }
        killed += shared->status == 1;
        rig_in_child(beside_after_child, NULL);
        rig_remove_dir(dir);
        rig_dir(dir);
    }
    ck_assert_int_ge(killed, 5);
}
END_TEST

/* ---- rows in the store ----------------------------------------------------------------------- */

START_TEST(rows_in_the_store_go_and_memory_comes_back)
{
    struct engine_stats stats;
    thin_open_trained(&s, dir, THIN_MEMORY, 60, false);
    engine_stats_get(s.g, &stats);
    ck_assert_uint_gt(stats.cold_rows, 0);
    ck_assert_uint_gt(tier_used(s.g), 2u << 20);
    embedding_env_run(&s.env);
    ck_assert_int_eq(clear(JOB), 0);
    check_nothing();
    ck_assert_uint_lt(tier_used(s.g), 64u << 10);
    struct thin_stored in = thin_stored(&s, 0);
    ck_assert_uint_eq(in.pairs + in.stale_pairs + in.images, 0);
    struct err e = {0};
    struct table_schema schema = thin_schema(false);
    ck_assert_int_eq(engine_table_create(s.g, &schema, &e), 0);
    run_open(JOB + 1);
    thin_train(&s, JOB + 1, 0, 60, false);
    ck_assert_uint_eq(thin_digest(&s), thin_digest_without_bound(60, false));
    rig_close(&s, false);
}
END_TEST

/* A job that trains with rows in the store always has fetches in flight. A clear that meets one
 * ends them: no other begins, whatever is asked for, until the clear of the other table is made. */
START_TEST(a_clear_comes_beside_fetches)
{
    struct engine_stats stats;
    struct err e = {0};
    struct thin_batch b;
    struct table_schema schema = thin_schema(false), other = rig_schema(1);
    other.tablet_first = 512;
    thin_open(&s, dir, THIN_MEMORY);
    ck_assert_msg(engine_table_create(s.g, &schema, &e) == 0, "%s", e.text);
    ck_assert_msg(engine_table_create(s.g, &other, &e) == 0, "%s", e.text);
    ck_assert_int_eq(engine_run_open_tables(s.g, 1, 1, 1 /* ssp */, GOES, &e), 0);
    fence(1);
    thin_train(&s, 1, 0, 60, false);
    bool ended = false;
    for (uint64_t to = 1; to <= 20 && !ended; to++) {
        thin_batch_make(&b, 1, to, false);
        (void)engine_warm(s.g, 0, b.keys, b.record.key_count);
        int status = 1;
        int rc = engine_clear(s.g, JOB, STAYS, cleared, &status, &e);
        if (rc == 0)
            embedding_env_run(&s.env);
        else
            ck_assert_int_eq(rc, SHOAL_E_AGAIN);
        ended = rc == 0 && status == 0;
        while (s.env.count > 0)
            embedding_env_step(&s.env);
        ck_assert(rc != 0 || to > 1); /* the first one met a fetch */
    }
    ck_assert_msg(ended, "it was put off 20 times: %s", e.text);
    ck_assert_ptr_null(s.g->table[1].table);
    engine_stats_get(s.g, &stats);
    ck_assert_uint_gt(stats.cold_rows, 0);
    thin_train(&s, 1, 60, 65, false); /* fetches go on */
    ck_assert_uint_eq(thin_digest(&s), thin_digest_without_bound(65, false));
    rig_close(&s, false);
}
END_TEST

/* A clear of an engine without a record has no record behind it; a start knows of it all the same:
 * the clear that is asked for again, after the job's run was opened, drops nothing. */
START_TEST(a_clear_before_all_records_comes_once)
{
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_int_eq(clear(JOB), 0);
    reopen(false);
    rig_table(&s, 0);
    run_open(JOB);
    ck_assert_int_eq(clear(JOB), 0);
    reopen(_i == 1);
    ck_assert_int_eq(clear(JOB), 0);
    ck_assert_ptr_nonnull(s.g->table[0].table);
    rig_close(&s, false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clear");
    TCase *t = tcase_create("clear");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, a_job_after_a_clear_is_as_in_a_new_engine, 0, 6);
    tcase_add_loop_test(t, a_clear_comes_once, 0, 3);
    tcase_add_loop_test(t, a_clear_leaves_other_tables, 0, 6);
    tcase_add_test(t, a_clear_waits_for_a_run_of_all_tables);
    tcase_add_test(t, a_clear_is_alone);
    tcase_add_test(t, a_clear_has_happened_or_has_not);
    tcase_add_test(t, a_clear_of_one_table_has_happened_or_has_not);
    tcase_add_test(t, rows_in_the_store_go_and_memory_comes_back);
    tcase_add_test(t, a_clear_comes_beside_fetches);
    tcase_add_loop_test(t, a_clear_before_all_records_comes_once, 0, 2);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
