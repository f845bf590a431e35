/* test_engine.c: the path of a push, control records, clocks, and the journal's cap. */
#include "embedding/engine.h"
#include "embedding/engine/engine_state.h"
#include "embedding/engine/tier.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_rig.h"
#include "tests/lib/file_fault.h"

#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static struct rig s;
static struct rig_push p;

static void begin(enum durability durability, const char *dir)
{
    struct err e = {0};
    rig_open(&s, dir, durability);
    rig_table(&s, 0);
    ck_assert_msg(engine_run_open(s.g, 1, 2, 1, &e) == 0, "%s", e.text);
}

static int push_batch(uint32_t lane, uint64_t from, uint64_t to, struct push_plan *plan)
{
    rig_push_make(&p, 1, 0, lane, 0, from, to);
    return rig_push(&s, &p, plan);
}

START_TEST(push_is_taken_once)
{
    struct push_plan plan;
    begin(DURABLE_MEMORY, NULL);
    ck_assert_int_eq(push_batch(0, 0, 1, &plan), 0);
    ck_assert_uint_eq(plan.applied, 16);
    ck_assert_uint_eq(plan.mark, 1);
    uint64_t digest = rig_digest(&s), sequence = plan.sequence;
    ck_assert_uint_eq(engine_acknowledged(s.g), sequence);
    ck_assert_int_eq(push_batch(0, 0, 1, &plan), 0);
    ck_assert_uint_eq(plan.applied, 0);
    ck_assert_uint_eq(plan.skipped, 16);
    ck_assert_uint_eq(plan.sequence, 0);
    ck_assert_uint_eq(rig_digest(&s), digest);
    ck_assert_uint_eq(engine_acknowledged(s.g), sequence);
    rig_close(&s, false);
}
END_TEST

/* Pushes the largest possible number of keys. */
static int push_most(struct push_plan *plan, struct err *e)
{
    static uint64_t keys[LIMIT_KEYS];
    static float gradients[LIMIT_KEYS * (SHARD_WIDTH + 2)];
    for (uint32_t i = 0; i < LIMIT_KEYS; i++)
        keys[i] = key_make(1, i);
    qsort(keys, LIMIT_KEYS, sizeof keys[0], key_by_mixed);
    rig_push_make(&p, 1, 0, 0, 0, 0, 1);
    p.record.key_count = LIMIT_KEYS;
    p.record.keys = keys;
    p.record.gradients = gradients;
    return engine_admit_push(s.g, &p.record, plan, e);
}

/* With the advised value the push is accepted, into the same folder. */
START_TEST(a_push_that_no_segment_takes_names_the_key_to_raise)
{
    static const struct {
        struct engine_options small, raised;
        const char *names;
    } of[] = {{{.journal_max = 64u << 20, .segment_bytes = 65536},
               {.journal_max = 64u << 20, .segment_bytes = 4u << 20},
               "raise journal.segment"},
              {{.journal_max = 2u << 20}, {.journal_max = 64u << 20}, "raise journal.max"},
              {{.disk = 16u << 20}, {.disk = 512u << 20}, "raise disk"}};
    char dir[LIMIT_PATH];
    for (int i = 0; i < 3; i++) {
        struct err e = {0};
        struct push_plan plan;
        struct engine_options o = of[i].small;
        rig_dir(dir);
        o.dir = dir;
        o.durability = DURABLE_JOURNAL;
        o.disk_watermark = 1;
        ck_assert_msg(rig_try_open_with(&s, &o, &e) == 0, "%s", e.text);
        rig_lead(&s);
        rig_table(&s, 0);
        ck_assert_msg(engine_run_open(s.g, 1, 2, 1, &e) == 0, "%s", e.text);
        ck_assert_int_eq(push_most(&plan, &e), SHOAL_E_TOO_BIG);
        ck_assert_msg(strstr(e.text, of[i].names) != NULL, "%s", e.text);
        rig_close(&s, true);
        o.journal_max = of[i].raised.journal_max;
        o.segment_bytes = of[i].raised.segment_bytes;
        o.disk = of[i].raised.disk;
        ck_assert_msg(rig_try_open_with(&s, &o, &e) == 0, "%s", e.text);
        rig_lead(&s);
        ck_assert_msg(push_most(&plan, &e) == 0, "%s", e.text);
        ck_assert_int_eq(engine_commit(s.g), 0);
        ck_assert_int_eq(engine_apply_push(s.g, &p.record, &plan), 0);
        rig_close(&s, false);
        rig_remove_dir(dir);
    }
}
END_TEST

START_TEST(push_with_a_gap_does_nothing)
{
    struct push_plan plan;
    begin(DURABLE_MEMORY, NULL);
    ck_assert_int_eq(push_batch(0, 0, 1, &plan), 0);
    uint64_t digest = rig_digest(&s);
    ck_assert_int_eq(push_batch(0, 2, 3, &plan), SHOAL_E_GAP);
    ck_assert_uint_eq(plan.mark, 1);
    ck_assert_uint_eq(rig_digest(&s), digest);
    ck_assert_uint_eq(engine_mark(s.g, 1, 0, 0), 1);
    rig_close(&s, false);
}
END_TEST

START_TEST(tablets_that_are_ahead_skip_what_they_have)
{
    struct push_plan plan;
    begin(DURABLE_MEMORY, NULL);
    rig_push_make(&p, 1, 0, 0, 0, 0, 1);
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    uint64_t whole = rig_digest(&s);
    rig_close(&s, false);

    begin(DURABLE_MEMORY, NULL);
    /* the same batch in two pushes: only the lower half of the tablets, then all */
    uint32_t first = 0;
    while (first < p.record.key_count && key_tablet(key_mix(p.keys[first]), SHARD_TABLET_BITS) < 8)
        first++;
    struct rig_push half = p;
    half.record.keys = half.keys;
    half.record.gradients = half.gradients;
    half.record.tablet_count = 8;
    half.record.key_count = first;
    ck_assert_int_eq(rig_push(&s, &half, &plan), 0);
    ck_assert_uint_eq(plan.applied, 8);
    ck_assert_uint_eq(engine_mark(s.g, 1, 0, 0), 0);
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    ck_assert_uint_eq(plan.applied, 8);
    ck_assert_uint_eq(plan.skipped, 8);
    ck_assert_uint_eq(plan.mark, 1);
    ck_assert_uint_eq(engine_mark(s.g, 1, 0, 0), 1);
    ck_assert_uint_eq(rig_digest(&s), whole);
    rig_close(&s, false);
}
END_TEST

/* A push counts for two batches if its tablets lack both, and for one if they have the first: the
 * count shows in l2. _i 0: some tablets have it; 1: all. */
START_TEST(a_push_stands_for_what_a_tablet_lacks)
{
    struct push_plan plan;
    struct table_schema schema = rig_schema(0);
    struct err e = {0};
    schema.optimizer.l2 = 0.01f;
    rig_open(&s, NULL, DURABLE_MEMORY);
    ck_assert_msg(engine_table_create(s.g, &schema, &e) == 0, "%s", e.text);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, &e), 0);
    rig_push_make(&p, 1, 0, 0, 0, 0, 1);
    p.record.tablet_count = _i == 0 ? 8 : 1u << SHARD_TABLET_BITS;
    p.record.key_count = 0;
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    rig_push_make(&p, 1, 0, 0, 0, 0, 2);
    ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    for (uint32_t k = 0; k < 1u << SHARD_TABLET_BITS; k++)
        ck_assert_uint_eq(engine_table(s.g, 0)->tablets[k].batches, 2);
    rig_close(&s, false);
}
END_TEST

START_TEST(what_is_wrong_is_refused_by_name)
{
    struct push_plan plan;
    begin(DURABLE_MEMORY, NULL);
    rig_push_make(&p, 2, 0, 0, 0, 0, 1);
    ck_assert_int_eq(rig_push(&s, &p, &plan), SHOAL_E_OLD_RUN);
    rig_push_make(&p, 1, 9, 0, 0, 0, 1);
    ck_assert_int_eq(rig_push(&s, &p, &plan), SHOAL_E_NO_TABLE);
    rig_push_make(&p, 1, 0, 0, 3, 0, 1);
    ck_assert_int_eq(rig_push(&s, &p, &plan), SHOAL_E_FENCED);
    rig_push_make(&p, 1, 0, 2, 0, 0, 1);
    ck_assert_int_eq(rig_push(&s, &p, &plan), SHOAL_E_MALFORMED);
    rig_push_make(&p, 1, 0, 0, 0, 1, 1);
    ck_assert_int_eq(rig_push(&s, &p, &plan), SHOAL_E_MALFORMED);
    rig_push_make(&p, 1, 0, 0, 0, 0, 1);
    p.record.tablet_first = 12;
    ck_assert_int_eq(rig_push(&s, &p, &plan), SHOAL_E_MALFORMED);
    p.record.tablet_count = UINT32_MAX;
    ck_assert_int_eq(rig_push(&s, &p, &plan), SHOAL_E_MALFORMED);
    p.record.tablet_count = 4; /* in range, but with keys of other tablets */
    ck_assert_int_eq(rig_push(&s, &p, &plan), SHOAL_E_MALFORMED);
    ck_assert_uint_eq(engine_mark(s.g, 1, 0, 0), 0);
    static const float bad_lr[] = {-1e-30f, -1, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        rig_push_make(&p, 1, 0, 0, 0, 0, 1);
        p.record.lr_scale = bad_lr[i];
        ck_assert_int_eq(rig_push(&s, &p, &plan), SHOAL_E_MALFORMED);
    }
    uint16_t shard_of[16] = {0};
    shard_of[3] = 1;
    rig_push_make(&p, 1, 0, 0, 0, 0, 1);
    ck_assert_int_eq(engine_lead(s.g, shard_of, 16, 0), 0);
    ck_assert_int_eq(rig_push(&s, &p, &plan), SHOAL_E_NOT_LEADER);
    rig_close(&s, false);
}
END_TEST

/* A key of a tablet before the covered range, of its first tablet, of its last, and behind it. */
START_TEST(keys_lie_in_the_tablets_that_are_covered)
{
    static const uint32_t tablet[] = {3, 8, 15, 0, 4, 7};
    struct push_plan plan;
    uint64_t batch = 0;
    begin(DURABLE_MEMORY, NULL);
    for (size_t i = 0; i < sizeof tablet / sizeof tablet[0]; i++) {
        uint32_t at = 0;
        bool within = tablet[i] >= 4 && tablet[i] < 8;
        rig_push_make(&p, 1, 0, 0, 0, batch, batch + 1);
        while (key_tablet(key_mix(p.keys[at]), SHARD_TABLET_BITS) != tablet[i])
            at++;
        p.record.keys = p.keys + at;
        p.record.key_count = 1;
        p.record.tablet_first = p.record.tablet_count = 4;
        ck_assert_int_eq(rig_push(&s, &p, &plan), within ? 0 : SHOAL_E_MALFORMED);
        batch += within;
    }
    rig_close(&s, false);
}
END_TEST

/* A table that is being loaded accepts no push; other tables do. */
START_TEST(a_table_that_is_filled_takes_no_push)
{
    struct push_plan plan;
    begin(DURABLE_MEMORY, NULL);
    rig_table(&s, 1);
    for (uint32_t table = 0; table < 2; table++) {
        s.g->loading = table_set_one(table);
        for (uint32_t to = 0; to < 2; to++) {
            rig_push_make(&p, 1, to, 0, 0, table, table + 1);
            ck_assert_int_eq(rig_push(&s, &p, &plan), to == table ? SHOAL_E_BUSY : 0);
        }
        s.g->loading = TABLE_SET_NONE;
        rig_push_make(&p, 1, table, 0, 0, 0, 1);
        ck_assert_int_eq(rig_push(&s, &p, &plan), 0);
    }
    rig_close(&s, false);
}
END_TEST

/* Records that decide which worker may push are on disk when they are answered, whatever the
 * durability of pushes. They are tested one by one, because each syncs all earlier records. */
START_TEST(runs_and_fences_are_on_disk_when_they_are_answered)
{
    char dir[LIMIT_PATH];
    struct push_plan plan;
    uint64_t mark;
    begin(DURABLE_JOURNAL, rig_dir(dir));
    for (uint64_t step = 0; step < 5; step++) {
        ck_assert_int_eq(push_batch(1, step, step + 1, &plan), 0);
        file_fault_set(&(struct file_fault){0});
        ck_assert_int_eq(step == 0   ? engine_fence(s.g, 1, 0, 4, true, NULL, &mark, NULL)
                         : step == 1 ? engine_fence(s.g, 1, 0, 5, false, NULL, &mark, NULL)
                         : step == 2 ? engine_fence(s.g, 1, 0, 5, true, NULL, &mark, NULL)
                         : step == 3 ? engine_run_open(s.g, 2, 2, 1, NULL)
                                     : engine_run_drop(s.g, 2, NULL),
                         0);
        /* the segment is opened and synced, and so is the folder */
        ck_assert_uint_eq(file_fault_calls(), 3);
        file_fault_set(NULL);
    }
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

START_TEST(bad_gradient_is_refused_before_anything_is_written)
{
    char dir[LIMIT_PATH];
    struct push_plan plan;
    struct engine_stats before, after;
    begin(DURABLE_JOURNAL, rig_dir(dir));
    ck_assert_int_eq(push_batch(0, 0, 1, &plan), 0);
    uint64_t digest = rig_digest(&s);
    engine_stats_get(s.g, &before);
    float bad[] = {NAN, INFINITY, -INFINITY, 2e15f};
    for (int i = 0; i < 4; i++) {
        rig_push_make(&p, 1, 0, 0, 0, 1, 2);
        p.gradients[77] = bad[i];
        ck_assert_int_eq(rig_push(&s, &p, &plan), SHOAL_E_NOT_FINITE);
    }
    engine_stats_get(s.g, &after);
    ck_assert_uint_eq(after.journal_bytes, before.journal_bytes);
    ck_assert_uint_eq(after.sequence, before.sequence);
    ck_assert_uint_eq(engine_mark(s.g, 1, 0, 0), 1);
    ck_assert_uint_eq(rig_digest(&s), digest);
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

START_TEST(fence_shuts_out_the_old_worker)
{
    struct push_plan plan;
    uint64_t mark = 99;
    begin(DURABLE_MEMORY, NULL);
    ck_assert_int_eq(push_batch(0, 0, 3, &plan), 0);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 4, true, NULL, &mark, NULL), 0);
    ck_assert_uint_eq(mark, 3);
    ck_assert_uint_eq(engine_lane_generation(s.g, 1, 0), 4);
    ck_assert(engine_lane_live(s.g, 1, 0));
    ck_assert_int_eq(push_batch(0, 3, 4, &plan), SHOAL_E_FENCED);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 3, true, NULL, &mark, NULL), SHOAL_E_FENCED);
    /* a repeated fence is answered again */
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 4, true, NULL, &mark, NULL), 0);
    ck_assert_uint_eq(mark, 3);
    /* it is asked for, and becomes live again as the same generation: a late copy of the question
     * has no effect */
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 5, false, NULL, &mark, NULL), 0);
    ck_assert(!engine_lane_live(s.g, 1, 0));
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 5, true, NULL, &mark, NULL), 0);
    ck_assert(engine_lane_live(s.g, 1, 0));
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 5, false, NULL, &mark, NULL), 0);
    ck_assert(engine_lane_live(s.g, 1, 0));
    ck_assert_int_eq(engine_fence(s.g, 1, 7, 4, true, NULL, &mark, NULL), SHOAL_E_MALFORMED);
    ck_assert_int_eq(engine_fence(s.g, 8, 0, 4, true, NULL, &mark, NULL), SHOAL_E_OLD_RUN);
    rig_close(&s, false);
}
END_TEST

/* The clock does not depend on other lanes' clocks here: it is the same on every shard. */
START_TEST(a_lane_gets_the_clock_that_it_is_given)
{
    char dir[LIMIT_PATH];
    const int64_t offset = 25;
    uint64_t mark, clock, low;
    begin(DURABLE_JOURNAL, rig_dir(dir));
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 1, true, NULL, &mark, NULL), 0);
    rig_train(&s, 1, 0, 1, 0, 10);
    rig_train(&s, 1, 1, 0, 0, 4);
    ck_assert_int_eq(engine_fence(s.g, 1, 1, 1, true, &offset, &mark, NULL), 0);
    ck_assert_uint_eq(mark, 4);
    ck_assert_int_eq(engine_clock(s.g, 1, 1, 5, &clock, &low), 0);
    ck_assert_uint_eq(clock, 30);
    ck_assert_uint_eq(low, 10);
    rig_close(&s, false);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_int_eq(engine_clock(s.g, 1, 1, 5, &clock, &low), 0);
    ck_assert_uint_eq(clock, 30);
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

START_TEST(a_late_lane_holds_nobody_up)
{
    uint64_t mark, clock, low;
    begin(DURABLE_MEMORY, NULL);
    ck_assert_int_eq(engine_clock(s.g, 1, 0, 5, &clock, &low), 0);
    ck_assert_uint_eq(low, UINT64_MAX);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 1, true, NULL, &mark, NULL), 0);
    rig_train(&s, 1, 0, 1, 0, 10);
    ck_assert_int_eq(engine_clock(s.g, 1, 0, 11, &clock, &low), 0);
    ck_assert_uint_eq(clock, 11);
    ck_assert_uint_eq(low, 10);
    /* it joins at clock 10 with mark 0 */
    ck_assert_int_eq(engine_fence(s.g, 1, 1, 1, true, NULL, &mark, NULL), 0);
    ck_assert_uint_eq(mark, 0);
    ck_assert_int_eq(engine_clock(s.g, 1, 1, 1, &clock, &low), 0);
    ck_assert_uint_eq(clock, 11);
    ck_assert_uint_eq(low, 10);
    rig_train(&s, 1, 0, 1, 10, 12);
    ck_assert_int_eq(engine_clock(s.g, 1, 1, 1, &clock, &low), 0);
    ck_assert_uint_eq(low, 10); /* now lane 1 is behind */
    ck_assert_int_eq(engine_fence(s.g, 1, 1, 2, false, NULL, &mark, NULL), 0);
    ck_assert_int_eq(engine_clock(s.g, 1, 0, 13, &clock, &low), 0);
    ck_assert_uint_eq(low, 12); /* and it has left the clock */
    rig_close(&s, false);
}
END_TEST

/* A worker died when its pushes had reached this shard and not yet another one. Its lane comes back
 * beside a lower one, and batches that this shard already has are computed again: their pulls need
 * not wait. */
START_TEST(a_batch_from_before_the_offset_has_clock_0)
{
    uint64_t mark, clock, low;
    begin(DURABLE_MEMORY, NULL);
    ck_assert_int_eq(engine_fence(s.g, 1, 1, 1, true, NULL, &mark, NULL), 0);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 1, true, NULL, &mark, NULL), 0);
    rig_train(&s, 1, 0, 1, 0, 3);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 2, false, NULL, &mark, NULL), 0);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 3, true, NULL, &mark, NULL), 0);
    for (uint64_t batch = 1; batch <= 5; batch++) {
        ck_assert_int_eq(engine_clock(s.g, 1, 0, batch, &clock, &low), 0);
        ck_assert_uint_eq(clock, batch <= 3 ? 0 : batch - 3);
        ck_assert_uint_eq(low, 0);
    }
    rig_close(&s, false);
}
END_TEST

START_TEST(bsp_lanes_have_no_offset)
{
    uint64_t mark, clock, low;
    rig_open(&s, NULL, DURABLE_MEMORY);
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 2, NULL), 0);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 1, true, NULL, &mark, NULL), 0);
    rig_train(&s, 1, 0, 1, 0, 4);
    ck_assert_int_eq(engine_fence(s.g, 1, 1, 1, true, NULL, &mark, NULL), 0);
    ck_assert_int_eq(engine_clock(s.g, 1, 1, 1, &clock, &low), 0);
    ck_assert_uint_eq(clock, 1);
    ck_assert_uint_eq(low, 0);
    rig_close(&s, false);
}
END_TEST

START_TEST(only_tables_of_the_run_count_in_its_clock)
{
    uint64_t mark;
    rig_open(&s, NULL, DURABLE_MEMORY);
    rig_table(&s, 0);
    rig_table(&s, 1); /* a table of another space */
    ck_assert_int_eq(engine_run_open_tables(s.g, 1, 1, 1, table_set_word(1), NULL), 0);
    ck_assert_int_eq(engine_run_open(s.g, 2, 1, 1, NULL), 0);
    rig_train(&s, 1, 0, 0, 0, 3);
    rig_train(&s, 2, 0, 0, 0, 3);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 1, true, NULL, &mark, NULL), 0);
    ck_assert_uint_eq(mark, 3);
    ck_assert_int_eq(engine_fence(s.g, 2, 0, 1, true, NULL, &mark, NULL), 0);
    ck_assert_uint_eq(mark, 0);
    rig_close(&s, false);
}
END_TEST

/* Parallel jobs open their runs in any order; the runs of one table rise. */
START_TEST(a_run_is_over_where_a_newer_one_has_its_tables)
{
    struct err e = {0};
    rig_open(&s, NULL, DURABLE_MEMORY);
    rig_table(&s, 0);
    rig_table(&s, 1);
    ck_assert_int_eq(engine_run_open_tables(s.g, 5, 1, 1, table_set_word(1), &e), 0);
    ck_assert_int_eq(engine_run_open_tables(s.g, 4, 1, 1, table_set_word(1), &e), SHOAL_E_CONFIG);
    ck_assert_int_eq(engine_run_open_tables(s.g, 4, 1, 1, table_set_word(3), &e), SHOAL_E_CONFIG);
    ck_assert_int_eq(engine_run_open_tables(s.g, 4, 1, 1, table_set_word(2), &e), 0);
    ck_assert_uint_eq(engine_newest_run(s.g), 5);
    rig_close(&s, false);
}
END_TEST

/* When a table is created during a run, its tablets lack all batches of the run from then on. */
START_TEST(a_table_that_comes_later_counts_in_the_clock_at_once)
{
    const struct table_schema other = rig_schema(1);
    uint64_t mark;
    begin(DURABLE_MEMORY, NULL);
    rig_train(&s, 1, 0, 0, 0, 3);
    ck_assert_int_eq(engine_table_create(s.g, &other, NULL), 0);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 1, true, NULL, &mark, NULL), 0);
    ck_assert_uint_eq(mark, 0);
    rig_close(&s, false);
}
END_TEST

/* Marks take 8 bytes for each lane of each tablet, of all runs together, in a quarter of the rows'
 * memory; and their memory counts. */
START_TEST(marks_are_within_the_budget)
{
    struct err e = {0};
    struct push_plan plan;
    begin(DURABLE_MEMORY, NULL);
    s.g->tier.rows_max = 4 * 3 * marks_bytes_most(100, 16);
    ck_assert_int_eq(engine_run_open(s.g, 2, 1024, 1, &e), SHOAL_E_NO_SPACE);
    ck_assert_ptr_nonnull(strstr(e.text, "the marks of run 2 (1024 lanes)"));
    ck_assert_int_eq(engine_run_open(s.g, 2, 200, 1, &e), 0);
    ck_assert_int_eq(engine_run_open(s.g, 3, 100, 1, &e), SHOAL_E_NO_SPACE); /* run 1 has two */
    ck_assert_int_eq(engine_run_open_tables(s.g, 3, 100, 1, table_set_word(2), &e),
                     0); /* none here */
    ck_assert_int_eq(engine_run_open(s.g, 4, 98, 1, &e), 0);
    ck_assert_int_eq(engine_run_open(s.g, 4, 98, 1, &e), 0); /* repeated */
    s.g->tier.rows_max = 0;
    uint64_t before = runs_bytes(&s.g->runs), used = tier_used(s.g);
    ck_assert_int_eq(push_batch(0, 0, 1, &plan), 0);
    uint64_t marks = runs_bytes(&s.g->runs);
    ck_assert_uint_ge(marks, before + 16 * 8);
    ck_assert_uint_ge(tier_used(s.g), used + marks);
    ck_assert_int_eq(engine_run_drop(s.g, 1, &e), 0);
    ck_assert_uint_eq(runs_bytes(&s.g->runs), 0);
    rig_close(&s, false);
}
END_TEST

START_TEST(control_records_are_idempotent)
{
    struct err e;
    begin(DURABLE_MEMORY, NULL);
    struct table_schema schema = rig_schema(0);
    ck_assert_int_eq(engine_table_create(s.g, &schema, &e), 0);
    schema.seed++;
    ck_assert_int_eq(engine_table_create(s.g, &schema, &e), SHOAL_E_SCHEMA);
    schema = rig_schema(1);
    schema.tablet_first = 8;
    ck_assert_int_eq(engine_table_create(s.g, &schema, &e), SHOAL_E_SCHEMA);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, &e), 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 3, 1, &e), SHOAL_E_EXISTS);
    ck_assert_int_eq(engine_run_open(s.g, 3, 0, 1, &e), SHOAL_E_MALFORMED);
    for (uint32_t run = 2; run <= LIMIT_RUNS; run++)
        ck_assert_int_eq(engine_run_open(s.g, run, 1, 1, &e), 0);
    ck_assert_int_eq(engine_run_open(s.g, 99, 1, 1, &e), SHOAL_E_BUSY);
    ck_assert_int_eq(engine_run_drop(s.g, 2, &e), 0);
    ck_assert_int_eq(engine_run_drop(s.g, 2, &e), 0);
    ck_assert_int_eq(engine_run_open(s.g, 99, 1, 1, &e), 0);
    rig_close(&s, false);
}
END_TEST

START_TEST(fsync_acknowledges_what_is_synced)
{
    char dir[LIMIT_PATH];
    struct push_plan plan, next;
    begin(DURABLE_FSYNC, rig_dir(dir));
    embedding_env_run(&s.env);
    ck_assert_int_eq(push_batch(0, 0, 1, &plan), 0);
    ck_assert_uint_lt(engine_acknowledged(s.g), plan.sequence);
    /* it comes during the sync: in the next group */
    ck_assert_int_eq(push_batch(0, 1, 2, &next), 0);
    unsigned synced = s.synced;
    while (engine_acknowledged(s.g) < plan.sequence)
        ck_assert(embedding_env_step(&s.env));
    ck_assert_uint_gt(s.synced, synced);
    ck_assert_uint_lt(engine_acknowledged(s.g), next.sequence);
    embedding_env_run(&s.env);
    ck_assert_uint_eq(engine_acknowledged(s.g), next.sequence);
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

/* The push has moved its marks but not its rows: an image would claim to contain it. */
START_TEST(no_tablet_is_copied_while_a_push_waits)
{
    const uint64_t most = 8u << 20;
    char dir[LIMIT_PATH];
    struct push_plan plan;
    uint64_t batch = 0;
    begin(DURABLE_JOURNAL, rig_dir(dir));
    for (; journal_bytes(s.g->journal) <= most - most / 16; batch++)
        ck_assert_int_eq(push_batch(0, batch, batch + 1, &plan), 0);
    rig_push_make(&p, 1, 0, 0, 0, batch, batch + 1);
    ck_assert_int_eq(engine_admit_push(s.g, &p.record, &plan, NULL), 0);
    ck_assert_int_eq(engine_commit(s.g), 0);
    engine_flush_step(s.g);
    ck_assert(!s.g->flush.busy);
    ck_assert_int_eq(engine_apply_push(s.g, &p.record, &plan), 0);
    engine_flush_step(s.g);
    ck_assert(s.g->flush.busy);
    embedding_env_run(&s.env);
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

START_TEST(a_full_journal_is_busy_until_rows_are_written)
{
    char dir[LIMIT_PATH];
    struct push_plan plan;
    struct engine_stats stats;
    uint64_t batch = 0;
    int rc = 0;
    begin(DURABLE_JOURNAL, rig_dir(dir));
    while (rc == 0 && batch < 5000) { /* work is delayed: nothing is written or trimmed */
        rc = push_batch(0, batch, batch + 1, &plan);
        batch += rc == 0;
    }
    ck_assert_int_eq(rc, SHOAL_E_BUSY);
    engine_stats_get(s.g, &stats);
    ck_assert_uint_le(stats.journal_bytes, 8u << 20);
    ck_assert_uint_gt(stats.journal_bytes, 7u << 20);
    embedding_env_run(&s.env);
    for (int i = 0; i < 2000; i++, batch++) { /* and recovers by itself */
        rc = push_batch(0, batch, batch + 1, &plan);
        ck_assert_msg(rc == 0, "%s", err_text(rc));
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
    engine_stats_get(s.g, &stats);
    ck_assert_uint_gt(stats.image_bytes_written, 0);
    ck_assert_uint_lt(stats.journal_bytes, 8u << 20);
    ck_assert_uint_eq(s.fatal, 0);
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

START_TEST(a_nearly_full_disk_refuses_pushes)
{
    char dir[LIMIT_PATH];
    struct push_plan plan;
    struct err e = {0};
    memset(&s, 0, sizeof s);
    embedding_env_init(&s.env);
    struct engine_options options = {
        .dir = rig_dir(dir), .durability = DURABLE_JOURNAL, .disk_watermark = UINT64_MAX};
    ck_assert_int_eq(engine_open(&options, &s.env.env, &s.g, &e), 0);
    rig_lead(&s);
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 2, 1, &e), 0);
    ck_assert_int_eq(push_batch(0, 0, 1, &plan), SHOAL_E_NO_SPACE);
    ck_assert_uint_eq(engine_mark(s.g, 1, 0, 0), 0);
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

START_TEST(a_failed_write_is_fatal)
{
    char dir[LIMIT_PATH];
    struct push_plan plan;
    struct err e = {0};
    begin(DURABLE_JOURNAL, rig_dir(dir));
    ck_assert_int_eq(push_batch(0, 0, 1, &plan), 0);
    uint64_t acknowledged = engine_acknowledged(s.g);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1, RLIM_INFINITY}), 0);
    rig_push_make(&p, 1, 0, 0, 0, 1, 2);
    ck_assert_int_eq(engine_admit_push(s.g, &p.record, &plan, &e), 0);
    ck_assert_int_eq(engine_commit(s.g), SHOAL_E_IO);
    ck_assert_uint_eq(s.fatal, 1);
    ck_assert_ptr_nonnull(strstr(s.fatal_err.text, dir));
    ck_assert_uint_eq(engine_acknowledged(s.g), acknowledged);
    ck_assert_int_eq(engine_admit_push(s.g, &p.record, &plan, &e), SHOAL_E_IO);
    ck_assert_int_eq(engine_run_drop(s.g, 1, &e), SHOAL_E_AGAIN);
    ck_assert_int_eq(engine_commit(s.g), SHOAL_E_IO);
    ck_assert_uint_eq(s.fatal, 1); /* reported once */
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}), 0);
    rig_close(&s, true);
    rig_open(&s, dir, DURABLE_JOURNAL); /* the acknowledged push is there, the other is not */
    ck_assert_uint_eq(engine_mark(s.g, 1, 0, 0), 1);
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

START_TEST(one_folder_one_process)
{
    char dir[LIMIT_PATH];
    struct rig other;
    struct err e = {0};
    begin(DURABLE_JOURNAL, rig_dir(dir));
    ck_assert_int_eq(rig_try_open(&other, dir, DURABLE_JOURNAL, &e), SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.text, dir));
    rig_close(&s, false);
    ck_assert_int_eq(rig_try_open(&other, dir, DURABLE_MEMORY, &e), SHOAL_E_CONFIG);
    rig_remove_dir(dir);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine");
    TCase *t = tcase_create("engine");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, push_is_taken_once);
    tcase_add_test(t, push_with_a_gap_does_nothing);
    tcase_add_test(t, a_push_that_no_segment_takes_names_the_key_to_raise);
    tcase_add_test(t, tablets_that_are_ahead_skip_what_they_have);
    tcase_add_loop_test(t, a_push_stands_for_what_a_tablet_lacks, 0, 2);
    tcase_add_test(t, what_is_wrong_is_refused_by_name);
    tcase_add_test(t, keys_lie_in_the_tablets_that_are_covered);
    tcase_add_test(t, a_table_that_is_filled_takes_no_push);
    tcase_add_test(t, runs_and_fences_are_on_disk_when_they_are_answered);
    tcase_add_test(t, bad_gradient_is_refused_before_anything_is_written);
    tcase_add_test(t, fence_shuts_out_the_old_worker);
    tcase_add_test(t, a_lane_gets_the_clock_that_it_is_given);
    tcase_add_test(t, a_late_lane_holds_nobody_up);
    tcase_add_test(t, a_batch_from_before_the_offset_has_clock_0);
    tcase_add_test(t, bsp_lanes_have_no_offset);
    tcase_add_test(t, only_tables_of_the_run_count_in_its_clock);
    tcase_add_test(t, a_run_is_over_where_a_newer_one_has_its_tables);
    tcase_add_test(t, a_table_that_comes_later_counts_in_the_clock_at_once);
    tcase_add_test(t, marks_are_within_the_budget);
    tcase_add_test(t, control_records_are_idempotent);
    tcase_add_test(t, fsync_acknowledges_what_is_synced);
    tcase_add_test(t, no_tablet_is_copied_while_a_push_waits);
    tcase_add_test(t, a_full_journal_is_busy_until_rows_are_written);
    tcase_add_test(t, a_nearly_full_disk_refuses_pushes);
    tcase_add_test(t, a_failed_write_is_fatal);
    tcase_add_test(t, one_folder_one_process);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
