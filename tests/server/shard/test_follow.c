/* test_follow.c: a copy that follows: takeovers, copies that come back or begin anew, refusals. */
#include "tests/server/copies_rig.h"

#define EVAL UINT32_MAX

static char dir[64];

static void setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/shoal-copies-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

/* _i 0: in memory; 1: with a journal; 2: with fsync. */
static struct fleet fleet_of(int i)
{
    struct fleet f = {.dir = i == 0 ? NULL : dir};
    f.durability = i == 0 ? DURABLE_MEMORY : i == 1 ? DURABLE_JOURNAL : DURABLE_FSYNC;
    return f;
}

/* The coordinator's set-up of a copy that leads now. */
static void set_up(struct fleet *f, uint32_t i)
{
    const struct wire_lane_fence fence[] = {{1, 0, WIRE_LIVE, 0, 0}, {1, 1, WIRE_LIVE, 0, 0}};
    uint64_t fences = rig_fences(fleet_boss(f, i), RIG_RUN, fence, 2);
    fleet_run(f, 20);
    ck_assert_msg(rig_status(&f->boss, fences) == 0, "%s", f->boss.answer[fences].w.error);
}

/* _i 0: its records are in the journal, which is enough; 1: they must be synced, and no sync
 * ends. */
START_TEST(a_record_is_acknowledged_once_it_is_as_durable)
{
    struct fleet f = fleet_of(1 + _i);
    fleet_new(&f, 2, 2);
    fleet_train(&f, 0, 1, 3);
    sim_wedge(f.copy[1].node, sim_now_ns(f.sim) + 100 * MS);
    uint64_t push = fleet_push(&f, 0, 4);
    fleet_run(&f, 90);
    ck_assert_int_eq(rig_status(&f.worker, push), _i == 0 ? 0 : RIG_WAITING);
    fleet_run(&f, 50);
    ck_assert_int_eq(rig_status(&f.worker, push), 0);
    fleet_free(&f);
}
END_TEST

START_TEST(a_takeover_keeps_every_acknowledged_push)
{
    struct fleet f = fleet_of(_i);
    fleet_new(&f, 2, 2);
    fleet_train(&f, 0, 1, 20);
    fleet_kill(&f, 0);
    fleet_lead(&f, 1);
    ck_assert_uint_eq(engine_last_term(f.copy[1].shard->engine), 2);
    set_up(&f, 1);
    uint64_t again = fleet_push(&f, 1, 20), gap = fleet_push(&f, 1, 22),
             next = fleet_push(&f, 1, 21);
    fleet_run(&f, 20);
    ck_assert_msg(rig_status(&f.worker, again) == 0, "%s", f.worker.answer[again].w.error);
    ck_assert_uint_eq(rig_reply(&f.worker, again)->u.PUSH_reply.skipped, 16);
    ck_assert_int_eq(rig_status(&f.worker, gap), SHOAL_E_GAP); /* it was acknowledged by none */
    ck_assert_int_eq(rig_status(&f.worker, next), 0);
    ck_assert_uint_eq(f.copy[1].beat.last_term, 2);
    ck_assert_uint_eq(f.copy[1].beat.term, 2);
    fleet_free(&f);
}
END_TEST

/* The old leader has pushes that no other copy has. kill: its process ends, too. */
static void comes_back(struct fleet *f, bool kill)
{
    fleet_new(f, 2, 2);
    fleet_train(f, 0, 1, 5);
    uint64_t before = fleet_digest(f, 1);
    fleet_cut(f, f->copy[0].node, f->copy[1].node, 400);
    fleet_cut(f, f->copy[0].node, f->coordinator, 400);
    uint64_t lost[2] = {fleet_push(f, 0, 6), fleet_push(f, 0, 7)};
    fleet_run(f, 50);
    ck_assert_int_eq(rig_status(&f->worker, lost[0]), RIG_WAITING);
    ck_assert(fleet_digest(f, 0) != before);
    ck_assert_uint_eq(fleet_digest(f, 1), before);
    if (kill)
        fleet_kill(f, 0);
    f->in_sync = 2;
    fleet_lead(f, 1);
    set_up(f, 1);
    /* another push of that number, after a takeover */
    rig_push(fleet_worker(f, 1),
             (struct rig_push_args){.from = 5, .to = 6, .key = rig_key(9, 3), .gradient = 3});
    fleet_run(f, 400);
    if (kill)
        fleet_start(f, 0);
    else
        ck_assert_int_eq(rig_status(&f->worker, lost[0]), SHOAL_E_NOT_LEADER);
    fleet_run(f, 1500);
    fleet_train(f, 1, 7, 3);
    fleet_run(f, 50);
    ck_assert_uint_eq(f->in_sync, 3);
    fleet_equal(f, 0, 1);
    ck_assert_uint_eq(engine_last_term(f->copy[0].shard->engine), 2);
    fleet_free(f);
}

START_TEST(an_old_leader_drops_its_tail)
{
    struct fleet f = fleet_of(_i);
    comes_back(&f, false);
}
END_TEST

START_TEST(an_old_leader_that_was_killed_drops_its_tail)
{
    struct fleet f = fleet_of(_i);
    comes_back(&f, true);
}
END_TEST

/* The first copy was alone for a while, so a follower cannot begin with its first record. */
START_TEST(an_empty_follower_copies_a_cut)
{
    struct fleet f = fleet_of(_i);
    fleet_new(&f, 0, 1);
    fleet_train(&f, 0, 1, 10);
    ck_assert_uint_eq(f.copy[0].beat.term, 0);
    ck_assert_uint_eq(engine_last_term(f.copy[0].shard->engine), 0);
    f.copies = 2;
    f.term = 1;
    f.in_sync = 1;
    f.min_in_sync = 1;
    fleet_run(&f, 1000);
    fleet_train(&f, 0, 11, 10);
    fleet_start(&f, 1);
    for (uint64_t to = 21; to < 41; to++) /* while it copies */
        fleet_train(&f, 0, to, 1);
    fleet_run(&f, 1000);
    ck_assert_uint_eq(f.in_sync, 3);
    fleet_equal(&f, 0, 1);
    fleet_kill(&f, 0);
    fleet_lead(&f, 1);
    set_up(&f, 1);
    fleet_train(&f, 1, 41, 5);
    fleet_free(&f);
}
END_TEST

START_TEST(a_follower_tells_how_far_it_is_behind)
{
    struct fleet f = fleet_of(1);
    const struct wire_SHARD_BEAT *b = &f.copy[1].beat;
    fleet_new(&f, 2, 2);
    fleet_train(&f, 0, 1, 10);
    fleet_run(&f, 500);
    ck_assert_uint_eq(b->lag_ms, 0);
    ck_assert_uint_ge(b->record_bytes, 100);
    ck_assert_uint_eq(b->copy_bytes, 0);
    ck_assert_uint_eq(f.copy[0].beat.lag_ms + f.copy[0].beat.record_bytes, 0); /* it leads */
    /* cut off from the leader, it still beats */
    fleet_cut(&f, f.copy[0].node, f.copy[1].node, 5000);
    fleet_run(&f, 5000);
    ck_assert_uint_ge(b->lag_ms, 4000);
    ck_assert_uint_le(b->lag_ms, 5500);
    fleet_run(&f, 2000);
    ck_assert_uint_eq(b->lag_ms, 0);
    /* before the leader's first answer it does not know that it is even */
    fleet_kill(&f, 0);
    fleet_kill(&f, 1);
    fleet_start(&f, 1);
    fleet_run(&f, 500);
    ck_assert_uint_ge(b->lag_ms, 100);
    fleet_free(&f);
}
END_TEST

START_TEST(a_follower_tells_what_it_has_copied)
{
    struct fleet f = fleet_of(1);
    const struct wire_SHARD_BEAT *b = &f.copy[1].beat;
    fleet_new(&f, 0, 1);
    fleet_train(&f, 0, 1, 10);
    f.copies = 2;
    f.term = 1;
    f.in_sync = f.min_in_sync = 1;
    fleet_run(&f, 1000);
    fleet_train(&f, 0, 11, 10);
    fleet_start(&f, 1);
    fleet_cut(&f, f.copy[0].node, f.copy[1].node, 3000);
    follow_anew(f.copy[1].shard, "the case says so");
    fleet_run(&f, 2500);
    ck_assert_uint_eq(b->copied, 0);
    ck_assert_uint_gt(b->copy_bytes, 0);
    ck_assert_uint_ge(b->copy_ms, 1500);
    f.copy[1].shard->follow.whole_ns = sim_now_ns(f.sim); /* as if it were being opened */
    uint64_t copied_ms = b->copy_ms;
    fleet_run(&f, 1000);
    ck_assert_uint_le(b->copy_ms, copied_ms + 200); /* the last beat may be so old */
    f.copy[1].shard->follow.whole_ns = 0;
    fleet_run(&f, 20000);
    ck_assert_uint_eq(b->copy_bytes, 0);
    ck_assert_uint_eq(f.in_sync, 3);
    fleet_free(&f);
}
END_TEST

/* Returns the bytes that a follower has copied, at most as many as its rate allows; 0: all are. */
static uint64_t copied(struct fleet *f, uint64_t begin_ns, uint64_t part)
{
    const struct follow *o = &f->copy[1].shard->follow;
    double seconds = (double)(sim_now_ns(f->sim) - begin_ns) * 1e-9;
    ck_assert_uint_le(o->bytes, (uint64_t)(seconds * (double)f->copy_rate) + part);
    return o->state == FOLLOW_CUT ? o->bytes : 0;
}

START_TEST(a_copy_stays_within_its_rate)
{
    const uint64_t part = 4096, rate = 4 * part;
    struct fleet f = fleet_of(_i);
    fleet_new(&f, 0, 1);
    uint64_t push = fleet_push_many(&f, 0, 1, 4000);
    fleet_run(&f, 20);
    ck_assert_int_eq(rig_status(&f.worker, push), 0);
    f.copies = 2;
    f.term = 1;
    f.in_sync = f.min_in_sync = 1;
    fleet_run(&f, 1000);
    f.copy_rate = rate;
    uint64_t begin = sim_now_ns(f.sim), all = 0, bytes;
    fleet_start(&f, 1);
    while ((f.in_sync & 2) == 0) {
        fleet_run(&f, 10);
        bytes = copied(&f, begin, part);
        all = bytes > all ? bytes : all;
        ck_assert_uint_lt(sim_now_ns(f.sim) - begin, 1000000 * MS);
    }
    double seconds = (double)(sim_now_ns(f.sim) - begin) * 1e-9, due = (double)all / (double)rate;
    ck_assert_uint_gt(all, 5 * part); /* else nothing was measured */
    ck_assert_double_ge(seconds, due - 0.3);
    ck_assert_double_le(seconds, due * 1.1 + 1);
    fleet_equal(&f, 0, 1);
    fleet_free(&f);
}
END_TEST

START_TEST(a_follower_refuses_an_older_term)
{
    struct fleet f = fleet_of(0);
    fleet_new(&f, 3, 3);
    fleet_train(&f, 0, 1, 3);
    fleet_cut(&f, f.copy[0].node, f.coordinator, 100000);
    fleet_lead(&f, 1);
    fleet_run(&f, 400);
    ck_assert_uint_eq(f.copy[2].shard->copies.term, 2);
    /* late words of the old coordinator, and of the old leader */
    struct wire w = {.type = WIRE_TYPE_SHARD_BEAT, .reply = true};
    f.term = 1;
    f.leader = 0;
    fleet_reply_to(&f, 2, &w.u.SHARD_BEAT_reply);
    env_send(sim_node_env(f.coordinator), f.copy[2].boss, wire_encode(&w));
    f.term = 2;
    f.leader = 1;
    fleet_run(&f, 2); /* before its next beat is answered */
    ck_assert_uint_eq(f.copy[2].shard->copies.term, 2);
    struct wire ask = rig_wire(fleet_worker(&f, 0), WIRE_TYPE_FOLLOW);
    ask.u.FOLLOW = (struct wire_FOLLOW){.copy = 2, .term = 2, .after = 1, .last_term = 1};
    rig_send(&f.worker, &ask, 0, NULL, 0, NULL, 0);
    ask.id = f.worker.next_id++;
    ask.u.FOLLOW.term = 1;
    fleet_worker(&f, 1);
    uint64_t old = rig_send(&f.worker, &ask, 0, NULL, 0, NULL, 0);
    fleet_run(&f, 20);
    ck_assert_uint_eq(f.copy[2].shard->copies.term, 2);
    ck_assert_str_eq(f.copy[2].shard->follow.leader, "sim://s1");
    ck_assert_int_eq(rig_status(&f.worker, old), SHOAL_E_NOT_LEADER);
    ck_assert_ptr_nonnull(strstr(rig_reply(&f.worker, old)->error, "it knows term 2"));
    uint64_t push = fleet_push(&f, 0, 4); /* it has heard of term 2 */
    fleet_run(&f, 20);
    ck_assert_int_eq(rig_status(&f.worker, push), SHOAL_E_NOT_LEADER);
    set_up(&f, 1);
    fleet_train(&f, 1, 4, 2);
    fleet_equal(&f, 1, 2);
    fleet_free(&f);
}
END_TEST

START_TEST(a_follower_refuses_what_its_leader_does)
{
    struct fleet f = fleet_of(0);
    fleet_new(&f, 2, 2);
    uint64_t push = fleet_push(&f, 1, 1), pull = rig_pull(fleet_worker(&f, 1), EVAL, 0, 0, 5),
             table = rig_table(fleet_boss(&f, 1), 1, OPT_SGD),
             map = rig_map(fleet_boss(&f, 1), 2, 1000);
    fleet_run(&f, 20);
    ck_assert_int_eq(rig_status(&f.worker, push), SHOAL_E_NOT_LEADER);
    ck_assert_ptr_nonnull(strstr(rig_reply(&f.worker, push)->error, "follows in term 1"));
    ck_assert_int_eq(rig_status(&f.worker, pull), SHOAL_E_NOT_LEADER);
    ck_assert_int_eq(rig_status(&f.boss, table), SHOAL_E_NOT_LEADER);
    ck_assert_int_eq(rig_status(&f.boss, map), 0);
    fleet_free(&f);
}
END_TEST

/* The copy of the leader's rows opens the folder again. _i 0: there is none; 1: it was emptied
 * while the server ran. */
START_TEST(a_follower_keeps_its_place_in_an_emptied_folder)
{
    struct fleet f = {.dir = _i == 0 ? NULL : dir, .durability = DURABLE_MEMORY};
    char command[128];
    fleet_new(&f, 2, 2);
    fleet_train(&f, 0, 1, 10);
    snprintf(command, sizeof command, "rm -rf '%.64s'/s1/*", dir);
    ck_assert_int_eq(system(command), 0); /* nothing is there with _i 0 */
    follow_anew(f.copy[1].shard, "the case says so");
    fleet_run(&f, 1500);
    ck_assert_uint_eq(engine_place(f.copy[1].shard->engine)->map_epoch, 1);
    uint64_t map = rig_map(fleet_boss(&f, 1), 2, 1000);
    fleet_run(&f, 20);
    ck_assert_msg(rig_status(&f.boss, map) == 0, "%s", f.boss.answer[map].w.error);
    ck_assert_uint_eq(engine_place(f.copy[1].shard->engine)->map_epoch, 2);
    fleet_train(&f, 0, 11, 5);
    fleet_run(&f, 1000);
    ck_assert_uint_eq(f.in_sync, 3);
    fleet_equal(&f, 0, 1);
    fleet_lead(&f, 1);
    set_up(&f, 1);
    fleet_train(&f, 1, 16, 3);
    fleet_free(&f);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("follow");
    TCase *c = tcase_create("follow");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, a_record_is_acknowledged_once_it_is_as_durable, 0, 2);
    tcase_add_loop_test(c, a_takeover_keeps_every_acknowledged_push, 0, 3);
    tcase_add_loop_test(c, an_old_leader_drops_its_tail, 0, 3);
    tcase_add_loop_test(c, an_old_leader_that_was_killed_drops_its_tail, 0, 3);
    tcase_add_loop_test(c, an_empty_follower_copies_a_cut, 0, 3);
    tcase_add_test(c, a_follower_tells_how_far_it_is_behind);
    tcase_add_test(c, a_follower_tells_what_it_has_copied);
    tcase_add_loop_test(c, a_copy_stays_within_its_rate, 0, 2);
    tcase_add_test(c, a_follower_refuses_an_older_term);
    tcase_add_test(c, a_follower_refuses_what_its_leader_does);
    tcase_add_loop_test(c, a_follower_keeps_its_place_in_an_emptied_folder, 0, 2);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
