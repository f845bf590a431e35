/* test_copies.c: a leader with followers: pushes and replies wait for them, the in-sync list, the
 * lease, cuts. */
#include "tests/server/copies_rig.h"

#include "proto/base/json.h"

#define EVAL UINT32_MAX

/* _i 0: the follower is in sync, and the push waits while it stands still; 1: it is not, and the
 * push is answered. */
START_TEST(a_push_waits_for_the_follower)
{
    struct fleet f = {0};
    fleet_new(&f, 2, 2);
    fleet_train(&f, 0, 1, 3);
    fleet_equal(&f, 0, 1);
    if (_i == 1) {
        fleet_cut(&f, f.copy[0].node, f.copy[1].node, 400);
        fleet_run(&f, 390);
        ck_assert_uint_eq(f.in_sync, 1);
    }
    sim_pause(f.copy[1].node, sim_now_ns(f.sim) + 100 * MS);
    uint64_t push = fleet_push(&f, 0, 4), pull = rig_pull(fleet_worker(&f, 0), EVAL, 0, 0, 5);
    fleet_run(&f, 90);
    ck_assert_msg(rig_status(&f.worker, push) == (_i == 0 ? RIG_WAITING : 0), "%s",
                  f.worker.answer[push].w.error);
    ck_assert_int_eq(rig_status(&f.worker, pull), 0); /* a reader sees what it sees */
    fleet_run(&f, 300);
    ck_assert_int_eq(rig_status(&f.worker, push), 0);
    fleet_equal(&f, 0, 1);
    ck_assert_uint_eq(f.in_sync, 3);
    fleet_free(&f);
}
END_TEST

START_TEST(a_follower_that_is_cut_off_leaves_once_that_is_stored)
{
    struct fleet f = {0};
    fleet_new(&f, 2, 2);
    f.deaf = true;
    fleet_cut(&f, f.copy[0].node, f.copy[1].node, 1500);
    uint64_t push = fleet_push(&f, 0, 1);
    fleet_run(&f, 150);
    ck_assert_uint_eq(f.in_sync_asked, 0); /* it was heard of less than half a lease ago */
    fleet_run(&f, 850);
    ck_assert_uint_gt(f.in_sync_asked, 1); /* and asked for again */
    ck_assert_int_eq(rig_status(&f.worker, push), RIG_WAITING);
    f.deaf = false;
    fleet_run(&f, 100);
    ck_assert_uint_eq(f.in_sync, 1);
    ck_assert_int_eq(rig_status(&f.worker, push), 0);
    fleet_train(&f, 0, 2, 5);
    fleet_run(&f, 1000); /* it is back */
    ck_assert_uint_eq(f.in_sync, 3);
    fleet_equal(&f, 0, 1);
    fleet_free(&f);
}
END_TEST

/* The coordinator refuses to add the follower, which then dies: pushes wait for it no longer than
 * until a shorter list is stored, and the leader asks a few times a lease. */
START_TEST(a_refused_follower_that_dies_holds_up_nothing)
{
    struct fleet f = {0};
    fleet_new(&f, 2, 2);
    fleet_cut(&f, f.copy[0].node, f.copy[1].node, 1500);
    fleet_run(&f, 1200);
    ck_assert_uint_eq(f.in_sync, 1);
    f.refuses = true;
    fleet_run(&f, 800); /* the follower is back and caught up */
    f.in_sync_asked = 0;
    fleet_train(&f, 0, 1, 20);
    fleet_run(&f, FLEET_LEASE_MS);
    ck_assert_uint_gt(f.in_sync_asked, 2);
    ck_assert_uint_lt(f.in_sync_asked, 60);
    fleet_kill(&f, 1);
    uint64_t push = fleet_push(&f, 0, 21);
    fleet_run(&f, 2 * FLEET_LEASE_MS);
    ck_assert_int_eq(rig_status(&f.worker, push), 0);
    ck_assert_uint_eq(f.in_sync, 1);
    fleet_free(&f);
}
END_TEST

/* A list with the follower was refused, but a late copy of that request may still be stored. So no
 * push is answered without the follower before a shorter list is asked for and stored. */
START_TEST(a_list_that_was_refused_is_taken_back)
{
    struct fleet f = {0};
    fleet_new(&f, 2, 2);
    fleet_cut(&f, f.copy[0].node, f.copy[1].node, 1500);
    fleet_run(&f, 1200);
    ck_assert_uint_eq(f.in_sync, 1);
    f.refuses = true;
    fleet_run(&f, 800); /* the follower is back and caught up */
    ck_assert_uint_eq(f.in_sync_wanted, 3);
    fleet_kill(&f, 1);
    uint64_t push = fleet_push(&f, 0, 1);
    for (uint32_t ms = 0; ms < 2 * FLEET_LEASE_MS && f.in_sync_wanted == 3; ms++) {
        ck_assert_int_eq(rig_status(&f.worker, push), RIG_WAITING);
        fleet_run(&f, 1);
    }
    ck_assert_uint_eq(f.in_sync_wanted, 1);
    fleet_run(&f, 100);
    ck_assert_int_eq(rig_status(&f.worker, push), 0);
    fleet_free(&f);
}
END_TEST

/* Pushes go on while a follower comes back. The list with it is asked for when it has all that was
 * acknowledged without it. */
START_TEST(a_follower_joins_with_all_that_is_acknowledged)
{
    struct fleet f = {0};
    uint32_t near = 0, asked = 0;
    uint64_t batch = 1, next = 0;
    fleet_new(&f, 2, 2);
    const struct copies *c = &f.copy[0].shard->copies;
    const struct copies_follower *back = &c->follower[1];
    fleet_cut(&f, f.copy[0].node, f.copy[1].node, 700);
    fleet_run(&f, 690);
    ck_assert_uint_eq(f.in_sync, 1);
    for (uint64_t end = sim_now_ns(f.sim) + 1000 * MS; asked == 0 && sim_now_ns(f.sim) < end;) {
        uint64_t was = c->asked_id;
        if (sim_now_ns(f.sim) >= next) {
            (void)fleet_push(&f, 0, batch++);
            next = sim_now_ns(f.sim) + MS / 4;
        }
        ck_assert(sim_step(f.sim));
        near += back->near && back->have < c->acknowledged;
        if (was != 0 || c->asked_id == 0 || (c->wanted >> 1 & 1) == 0)
            continue;
        asked++;
        ck_assert_uint_ge(back->have, c->acknowledged);
    }
    ck_assert(near > 0 && asked > 0);
    fleet_run(&f, 100);
    ck_assert_uint_eq(f.in_sync, 3);
    fleet_equal(&f, 0, 1);
    fleet_free(&f);
}
END_TEST

/* The list grows: the leader waits for the follower before that is stored. */
START_TEST(a_follower_that_is_back_is_waited_for_first)
{
    struct fleet f = {0};
    fleet_new(&f, 2, 2);
    fleet_cut(&f, f.copy[0].node, f.copy[1].node, 500);
    fleet_run(&f, 490);
    ck_assert_uint_eq(f.in_sync, 1);
    f.deaf = true;
    uint32_t asked = f.in_sync_asked;
    fleet_run(&f, 300);
    ck_assert_uint_gt(f.in_sync_asked, asked);
    ck_assert_uint_eq(f.in_sync, 1);
    sim_pause(f.copy[1].node, sim_now_ns(f.sim) + 100 * MS);
    uint64_t push = fleet_push(&f, 0, 1);
    fleet_run(&f, 90);
    ck_assert_int_eq(rig_status(&f.worker, push), RIG_WAITING);
    fleet_run(&f, 50);
    ck_assert_int_eq(rig_status(&f.worker, push), 0);
    fleet_free(&f);
}
END_TEST

static struct json *status_of(struct fleet *f, uint32_t i)
{
    uint64_t id = rig_simple(fleet_worker(f, i), WIRE_TYPE_SHARD_STATUS);
    fleet_run(f, 10);
    ck_assert_int_eq(rig_status(&f->worker, id), 0);
    const struct frame *text = &f->worker.answer[id].m->frame[1];
    struct err e;
    struct json *j;
    ck_assert_int_eq(json_parse(text->data, text->bytes, &j, &e), 0);
    return j;
}

START_TEST(pushes_wait_below_min_in_sync)
{
    struct fleet f = {.min_in_sync = 2};
    fleet_new(&f, 2, 2);
    fleet_train(&f, 0, 1, 2);
    fleet_kill(&f, 1);
    uint64_t push = fleet_push(&f, 0, 3);
    fleet_run(&f, 900);
    ck_assert_uint_eq(f.in_sync, 1);
    ck_assert_int_eq(rig_status(&f.worker, push), RIG_WAITING);
    struct json *j = status_of(&f, 0);
    ck_assert(json_as_bool(json_get(j, "copies.short"), false));
    json_free(j);
    fleet_start(&f, 1); /* empty */
    fleet_run(&f, 500);
    ck_assert_uint_eq(f.in_sync, 3);
    ck_assert_int_eq(rig_status(&f.worker, push), 0);
    fleet_equal(&f, 0, 1);
    fleet_free(&f);
}
END_TEST

START_TEST(the_coordinator_hears_of_a_change_when_the_copies_have_it)
{
    struct fleet f = {0};
    fleet_new(&f, 2, 2);
    sim_pause(f.copy[1].node, sim_now_ns(f.sim) + 100 * MS);
    uint64_t fence = rig_fence(fleet_boss(&f, 0), 0, 2, true),
             status = rig_simple(fleet_boss(&f, 0), WIRE_TYPE_SHARD_STATUS);
    fleet_run(&f, 90);
    ck_assert_int_eq(rig_status(&f.boss, fence), RIG_WAITING);
    ck_assert_int_eq(rig_status(&f.boss, status), 0);
    fleet_run(&f, 50);
    ck_assert_int_eq(rig_status(&f.boss, fence), 0);
    ck_assert_uint_eq(engine_lane_generation(f.copy[1].shard->engine, RIG_RUN, 0), 2);
    fleet_free(&f);
}
END_TEST

/* Its refusals are no answers, so they renew nothing and end no term. */
START_TEST(a_coordinator_that_stands_by_renews_no_lease)
{
    struct fleet f = {0};
    fleet_new(&f, 2, 2);
    fleet_train(&f, 0, 1, 2);
    f.stands_by = true;
    fleet_kill(&f, 1);
    uint64_t waits = fleet_push(&f, 0, 3);
    fleet_run(&f, 590);
    ck_assert_uint_gt(f.in_sync_asked, 0);
    uint64_t push = fleet_push(&f, 0, 4);
    fleet_run(&f, 10);
    ck_assert_int_eq(rig_status(&f.worker, push), SHOAL_E_NOT_LEADER);
    f.stands_by = false;
    fleet_run(&f, 500);
    ck_assert_int_ne(rig_status(&f.worker, waits), RIG_WAITING);
    ck_assert_uint_eq(f.in_sync, 1);
    fleet_train(&f, 0, 4, 2);
    fleet_free(&f);
}
END_TEST

START_TEST(an_old_leader_past_its_lease_answers_nothing)
{
    struct fleet f = {0};
    fleet_new(&f, 2, 2);
    fleet_train(&f, 0, 1, 2);
    fleet_cut(&f, f.copy[0].node, f.coordinator, 1000);
    fleet_run(&f, 200);
    fleet_train(&f, 0, 3, 1); /* the lease goes on */
    fleet_run(&f, 390);
    uint64_t push = fleet_push(&f, 0, 4), pull = rig_pull(fleet_worker(&f, 0), 0, 4, 0, 5),
             reader = rig_pull(fleet_worker(&f, 0), EVAL, 0, 0, 5);
    fleet_run(&f, 100);
    ck_assert_int_eq(rig_status(&f.worker, push), SHOAL_E_NOT_LEADER);
    ck_assert_int_eq(rig_status(&f.worker, pull), SHOAL_E_NOT_LEADER);
    ck_assert_int_eq(rig_status(&f.worker, reader), 0);
    fleet_run(&f, 600);
    fleet_train(&f, 0, 4, 1);
    fleet_equal(&f, 0, 1);
    fleet_free(&f);
}
END_TEST

/* Tablets have moved while the follower followed, and it has not heard of it. */
START_TEST(a_new_leader_waits_for_the_newest_map)
{
    struct fleet f = {0};
    fleet_new(&f, 2, 2);
    fleet_train(&f, 0, 1, 2);
    struct shard *s = f.copy[0].shard;
    s->copies.map_due = s->lead.epoch + 1;
    uint64_t push = fleet_push(&f, 0, 3), reader = rig_pull(fleet_worker(&f, 0), EVAL, 0, 0, 5);
    fleet_run(&f, 20);
    ck_assert_int_eq(rig_status(&f.worker, push), SHOAL_E_AGAIN);
    ck_assert_int_eq(rig_status(&f.worker, reader), SHOAL_E_AGAIN);
    s->copies.map_due = s->lead.epoch;
    push = fleet_push(&f, 0, 3);
    fleet_run(&f, 20);
    ck_assert_int_eq(rig_status(&f.worker, push), 0);
    fleet_free(&f);
}
END_TEST

/* The coordinator stands still and then answers many beats at once: an answer to an old beat is no
 * reason for a new one, else beats and answers would go back and forth for ever. */
START_TEST(a_late_answer_asks_for_no_beat)
{
    struct fleet f = {0};
    fleet_new(&f, 2, 2);
    fleet_train(&f, 0, 1, 2);
    sim_pause(f.coordinator, sim_now_ns(f.sim) + 6 * FLEET_LEASE_MS * MS);
    fleet_run(&f, 6 * FLEET_LEASE_MS + 100);
    uint32_t beats = f.copy[0].beats;
    fleet_run(&f, FLEET_LEASE_MS);
    ck_assert_uint_le(f.copy[0].beats - beats, 6); /* four in a lease */
    fleet_train(&f, 0, 3, 2);
    fleet_free(&f);
}
END_TEST

static uint64_t cut_ask(struct fleet *f, enum wire_type type, uint64_t cut)
{
    struct wire w = rig_wire(fleet_boss(f, 0), type);
    w.u.HOLD = (struct wire_HOLD){.cut = cut};
    if (type == WIRE_TYPE_HOLD)
        w.u.HOLD.run = RIG_RUN;
    if (type == WIRE_TYPE_GO)
        w.u.GO = (struct wire_GO){.cut = cut};
    if (type == WIRE_TYPE_CUT_DROP)
        w.u.CUT_DROP = (struct wire_CUT_DROP){.cut = cut};
    return rig_send(&f->boss, &w, 0, NULL, 0, NULL, 0);
}

START_TEST(a_cut_is_made_by_both_copies)
{
    struct fleet f = {0};
    uint64_t cut[4];
    fleet_new(&f, 2, 2);
    fleet_train(&f, 0, 1, 5);
    uint64_t hold = cut_ask(&f, WIRE_TYPE_HOLD, 9);
    fleet_run(&f, 20);
    ck_assert_int_eq(rig_status(&f.boss, hold), 0);
    uint64_t late = fleet_push(&f, 0, 6), go = cut_ask(&f, WIRE_TYPE_GO, 9);
    fleet_run(&f, 100);
    ck_assert_int_eq(rig_status(&f.worker, late), 0);
    ck_assert_msg(rig_status(&f.boss, go) == 0, "%s", rig_reply(&f.boss, go)->error);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(engine_cuts(f.copy[i].shard->engine, cut, 4), 1);
        ck_assert_uint_eq(cut[0], 9);
        ck_assert_uint_eq(f.copy[i].shard->hold.last_sequence,
                          rig_reply(&f.boss, go)->u.GO_reply.sequence);
        ck_assert_uint_eq(f.copy[i].shard->hold.last_rows, rig_reply(&f.boss, go)->u.GO_reply.rows);
    }
    fleet_equal(&f, 0, 1);
    fleet_free(&f);
}
END_TEST

START_TEST(a_cut_is_dropped_by_both_copies)
{
    struct fleet f = {0};
    uint64_t cut[4];
    fleet_new(&f, 2, 2);
    fleet_train(&f, 0, 1, 5);
    (void)cut_ask(&f, WIRE_TYPE_HOLD, 9);
    fleet_run(&f, 20);
    uint64_t go = cut_ask(&f, WIRE_TYPE_GO, 9);
    fleet_run(&f, 100);
    ck_assert_int_eq(rig_status(&f.boss, go), 0);
    uint64_t drop = cut_ask(&f, WIRE_TYPE_CUT_DROP, 9);
    fleet_run(&f, 100);
    ck_assert_int_eq(rig_status(&f.boss, drop), 0);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_uint_eq(engine_cuts(f.copy[i].shard->engine, cut, 4), 0);
    fleet_equal(&f, 0, 1);
    fleet_free(&f);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("copies");
    TCase *c = tcase_create("copies");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, a_push_waits_for_the_follower, 0, 2);
    tcase_add_test(c, a_follower_that_is_cut_off_leaves_once_that_is_stored);
    tcase_add_test(c, a_follower_that_is_back_is_waited_for_first);
    tcase_add_test(c, pushes_wait_below_min_in_sync);
    tcase_add_test(c, the_coordinator_hears_of_a_change_when_the_copies_have_it);
    tcase_add_test(c, an_old_leader_past_its_lease_answers_nothing);
    tcase_add_test(c, a_new_leader_waits_for_the_newest_map);
    tcase_add_test(c, a_late_answer_asks_for_no_beat);
    tcase_add_test(c, a_coordinator_that_stands_by_renews_no_lease);
    tcase_add_test(c, a_refused_follower_that_dies_holds_up_nothing);
    tcase_add_test(c, a_list_that_was_refused_is_taken_back);
    tcase_add_test(c, a_follower_joins_with_all_that_is_acknowledged);
    tcase_add_test(c, a_cut_is_made_by_both_copies);
    tcase_add_test(c, a_cut_is_dropped_by_both_copies);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
