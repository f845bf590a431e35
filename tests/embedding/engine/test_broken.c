/* test_broken.c: breaks the invariants of the engine on purpose: each breach must be caught by its
 * own assert. */
#include "embedding/engine/cut.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/reload.h"
#include "embedding/engine/space.h"
#include "embedding/engine/tier.h"
#include "embedding/rows/table_cold.h"
#include "tests/lib/broken.h"
#include "tests/lib/embedding_rig.h"

#include <check.h>
#include <stdlib.h>

static char dir[LIMIT_PATH];
static struct rig s;
static struct rig_push p;

/* A shard with a journal, a table, a run and some batches. Each child opens it anew. */
static struct engine *an_engine(void)
{
    uint64_t mark;
    struct err e;
    rig_remove_dir(dir); /* run 1 of the case before may be over */
    rig_open(&s, dir, DURABLE_JOURNAL);
    rig_lead(&s);
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 1, RUN_ASYNC, &e), 0);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 1, true, NULL, &mark, &e), 0);
    rig_train(&s, 1, 0, 1, mark, mark + 4);
    return s.g;
}

static void admit(struct engine *g, struct push_plan *plan)
{
    struct err e;
    uint64_t mark = engine_mark(g, 1, 0, 0);
    rig_push_make(&p, 1, 0, 0, 1, mark, mark + 1);
    ck_assert_int_eq(engine_admit_push(g, &p.record, plan, &e), 0);
}

static void a_push_is_applied_that_is_not_committed(void)
{
    struct push_plan plan;
    struct engine *g = an_engine();
    admit(g, &plan);
    engine_apply_push(g, &p.record, &plan);
}

static void a_push_leaves_a_gap_behind(void)
{
    struct push_plan plan;
    struct engine *g = an_engine();
    g->sequence--;
    admit(g, &plan);
}

static void cleared(void *context, int status, const char *text)
{
    (void)context, (void)status, (void)text;
}

static void a_record_comes_while_all_is_dropped(void)
{
    struct err e;
    struct engine *g = an_engine();
    ck_assert_int_eq(engine_clear(g, 9, TABLE_SET_ALL, cleared, NULL, &e), 0);
    g->sequence++;
    embedding_env_run(&s.env);
}

static void a_control_record_leaves_a_gap_behind(void)
{
    struct engine *g = an_engine();
    g->sequence++;
    engine_run_open(g, 2, 1, RUN_ASYNC, NULL);
}

static void a_fetch_comes_that_nobody_sent(void)
{
    struct engine *g = an_engine();
    uint64_t cold[SHARD_KEYS];
    rig_push_make(&p, 1, 0, 0, 1, 0, 1);
    for (uint32_t k = 0, chosen; k < g->table[0].scope.tablets; k++) {
        struct spill spill;
        spill_init(&spill, g->store, 0);
        ck_assert_int_eq(
            spill_tablet(&spill, g->table[0].table, k, true, SHARD_KEYS, &chosen, NULL), 0);
    }
    ck_assert_uint_gt(table_cold_among(g->table[0].table, p.keys, p.record.key_count, cold), 0);
    ck_assert(!engine_warm(g, 0, p.keys, p.record.key_count));
    for (uint32_t i = 0; i < TIER_FETCHES; i++)
        g->tier.fetch[i] = NULL;
    embedding_env_run(&s.env);
}

static void an_image_is_copied_while_a_push_waits(void)
{
    struct engine *g = an_engine();
    flush_room(g, 4, 1u << 20);
    g->pending = 1;
    flush_put_image(g, 0, 0, g->sequence);
}

static void an_image_is_not_of_all_records(void)
{
    struct engine *g = an_engine();
    g->table[0].changed[3] = g->sequence + 1;
    flush_all(g, NULL);
}

static void an_image_is_younger_than_the_control_state(void)
{
    struct engine *g = an_engine();
    flush_room(g, 4, 0);
    g->table[0].written[3] = g->sequence + 1;
    flush_put_control(g, g->sequence);
}

static void a_tablet_is_written_that_is_away(void)
{
    static struct reload l;
    static uint8_t place[1u << SHARD_TABLET_BITS] = {PLACE_AWAY};
    static const struct engine_job_ops none;
    struct engine *g = an_engine();
    l.place[0] = place;
    l.left = 1;
    place[0] = PLACE_AWAY;
    engine_job_begin(g, JOB_RELOAD, &l.job, &none);
    flush_put_image(g, 0, 0, g->sequence);
}

static void cut_made(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)context, (void)rows, (void)bytes;
    ck_assert_int_eq(status, 0);
}

static void a_batch_is_under_way_beside_a_cut(void)
{
    struct engine *g = an_engine();
    uint64_t sequence;
    ck_assert_int_eq(engine_hold(g, 7, engine_newest_run(g), &sequence), 0);
    ck_assert_int_eq(engine_go(g, 7, cut_made, NULL), 0);
    g->flush.busy = true;
    embedding_env_run(&s.env);
}

static void a_tablet_changes_that_is_not_copied(void)
{
    struct engine *g = an_engine();
    uint64_t sequence;
    g->ref_count = 1; /* so it copies */
    ck_assert_int_eq(engine_hold(g, 7, engine_newest_run(g), &sequence), 0);
    ck_assert_int_eq(engine_go(g, 7, cut_made, NULL), 0);
    g->table[0].changed[3] = sequence + 1;
    embedding_env_run(&s.env);
}

static void a_tablet_younger_than_the_restore_is_put_back(void)
{
    struct engine *g = an_engine();
    uint64_t sequence;
    ck_assert_int_eq(engine_hold(g, 7, engine_newest_run(g), &sequence), 0);
    ck_assert_int_eq(engine_go(g, 7, cut_made, NULL), 0);
    embedding_env_run(&s.env);
    g->table[0].changed[3] = g->sequence + 100;
    engine_restore(g, 7, 9, NULL);
}

static void more_was_seen_than_was_added(void)
{
    struct engine *g = an_engine();
    g->space.added_seen = g->space.added + 1;
    space_taken(g);
}

static void rows_leave_while_a_push_waits(void)
{
    struct engine *g = an_engine();
    g->pending = 1;
    tier_gather(g, g->sequence, FLUSH_BATCH_BYTES);
}

static void rows_are_chosen_beside_a_batch(void)
{
    struct engine *g = an_engine();
    g->flush.busy = true;
    tier_gather(g, g->sequence, FLUSH_BATCH_BYTES);
}

static const struct broken list[] = {
    {"embedding/engine/engine_push.c", 1, a_push_is_applied_that_is_not_committed,
     "plan->sequence <= g->committed"},
    {"embedding/engine/engine_push.c", 2, a_push_leaves_a_gap_behind,
     "h.sequence == g->sequence + 1"},
    {"embedding/engine/control.c", 2, a_control_record_leaves_a_gap_behind,
     "h->sequence == g->sequence + 1"},
    {"embedding/engine/cut.c", 2, a_batch_is_under_way_beside_a_cut,
     "g->cut_busy && !g->flush.busy"},
    {"embedding/engine/cut_copy.c", 1, a_tablet_changes_that_is_not_copied,
     "t->changed[c->tablet] <= c->sequence"},
    {"embedding/engine/fetch.c", 2, a_fetch_comes_that_nobody_sent, "place < "},
    {"embedding/engine/flush_batch.c", 1, an_image_is_copied_while_a_push_waits, "g->pending == 0"},
    {"embedding/engine/flush_batch.c", 1, a_tablet_is_written_that_is_away, "!reload_is_away("},
    {"embedding/engine/flush.c", 4, an_image_is_not_of_all_records,
     "g->table[table].changed[tablet] <= "},
    {"embedding/engine/flush_batch.c", 3, an_image_is_younger_than_the_control_state,
     "t->written[k] <= sequence"},
    {"embedding/engine/clear.c", 3, a_record_comes_while_all_is_dropped,
     "g->sequence == c->sequence"},
    {"embedding/engine/restore.c", 1, a_tablet_younger_than_the_restore_is_put_back,
     "t->changed[tablet] < s->sequence"},
    {"embedding/engine/space.c", 2, more_was_seen_than_was_added, "s->added_seen <= s->added"},
    {"embedding/engine/tier.c", 1, rows_leave_while_a_push_waits, "g->pending == 0"},
    {"embedding/engine/tier.c", 2, rows_are_chosen_beside_a_batch, "!g->flush.busy"},
};

START_TEST(each_broken_invariant_ends_the_process_by_its_own_assert)
{
    rig_dir(dir);
    broken_check(list, sizeof list / sizeof list[0]);
    rig_remove_dir(dir);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("broken");
    TCase *t = tcase_create("broken");
    tcase_set_timeout(t, 100);
    tcase_add_test(t, each_broken_invariant_ends_the_process_by_its_own_assert);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
