/* test_cut.c: cuts on two shards, whose answers each case gives itself: the requests that the
 * shards get, how often, and the status that ends an order. */
#include "server/coord/coord.h"
#include "server/coord/job/slot.h"
#include "tests/lib/suite.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define ASKED 64u

static struct coord *c;
static struct sim *sim;
static struct coord_call asked[ASKED];
static uint32_t count;
static uint32_t ends, others, instants; /* order and second order ended; `held` calls */
static int ended, refusal;
static uint64_t ended_cut;

bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *call);
bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *call)
{
    (void)calls;
    ck_assert_uint_lt(count, ASKED);
    asked[count++] = *call;
    return true;
}

static void on_done(struct coord_job *of, int status, const char *text, uint64_t cut)
{
    ck_assert(of == &c->slot[0] && text != NULL);
    ends++;
    ended = status;
    ended_cut = cut;
}

static void on_other(struct coord_job *of, int status, const char *text, uint64_t cut)
{
    (void)of, (void)status, (void)text, (void)cut;
    others++;
}

static int on_held(struct coord_job *of, struct err *e)
{
    ck_assert(of == &c->slot[0]);
    instants++;
    return refusal == 0 ? 0 : err_set(e, refusal, "not wanted");
}

static void there(bool all)
{
    for (uint32_t s = 0; s < 2; s++) {
        c->fleet.members.shard[s].seen = true;
        c->slot[0].setup.shard[s].done = c->slot[0].setup.shard[s].greeted = true;
        c->fleet.members.shard[s].beat_ns = all || s == 0 ? sim_now_ns(sim) : 0;
    }
}

static void later(uint64_t ms, bool all)
{
    sim_run(sim, sim_now_ns(sim) + ms * MS, NULL, NULL);
    there(all);
    coord_cut_tick(&c->slot[0]);
}

static void setup(void)
{
    static const struct sim_options calm = {.seed = 7, .delay_min_ns = 1, .delay_max_ns = 2};
    struct coord_options o = {.shards = 2, .lease_ms = 1000, .jobs = 2};
    struct err e;
    sim = sim_new(&calm);
    struct sim_node *node = sim_node_new(sim, "coordinator", &coord_handler, NULL);
    ck_assert_int_eq(coord_new(&o, sim_node_env(node), coord_store_memory(), &c, &e), 0);
    count = ends = others = instants = 0;
    ended = refusal = 0;
    ended_cut = 0;
    later(20000, true);
}

static void order(coord_cut_done done, bool patient)
{
    const struct coord_cut_order o = {.patient = patient, .held = on_held, .done = done};
    coord_cut_order(&c->slot[0], &o);
}

/* Returns the newest call of a type; fails the case if there is none. */
static struct coord_call *last(enum wire_type type)
{
    for (uint32_t i = count; i-- > 0;)
        if (asked[i].request.type == type)
            return &asked[i];
    ck_abort_msg("no %s was asked", wire_type_name(type));
    return NULL;
}

static uint32_t asked_of(enum wire_type type)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        n += asked[i].request.type == type;
    return n;
}

/* Both shards answer with these sequences, or the call fails with `status`. */
static void answer(enum wire_type type, uint64_t first, uint64_t second, int status)
{
    struct coord_call call = *last(type);
    const uint64_t sequence[] = {first, second};
    for (uint32_t s = 0; s < 2 && status == 0; s++) {
        struct wire w = {.type = type, .reply = true};
        if (type == WIRE_TYPE_HOLD)
            w.u.HOLD_reply.sequence = sequence[s];
        else
            w.u.GO_reply.sequence = sequence[s];
        if (call.on_reply != NULL)
            call.on_reply(call.context, &call, s, &w, NULL);
    }
    call.on_done(call.context, &call, status, status == 0 ? "" : "scripted");
}

/* ---- attempts -------------------------------------------------------------------------------- */

/* If either shard releases its pushes in between, there is no cut. */
START_TEST(cut_of_two_instants_is_made_again)
{
    order(on_done, false);
    answer(WIRE_TYPE_HOLD, 5, 6, 0);
    uint64_t cut = last(WIRE_TYPE_GO)->request.u.GO.cut;
    answer(WIRE_TYPE_GO, _i == 0 ? 7 : 5, _i == 1 ? 7 : 6, 0);
    ck_assert_uint_eq(ends, _i == 2);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_CUT_DROP), _i != 2);
    if (_i == 2) {
        ck_assert_uint_eq(ended_cut, cut);
        return;
    }
    ck_assert_uint_eq(last(WIRE_TYPE_CUT_DROP)->request.u.CUT_DROP.cut, cut);
    later(1001, true);
    ck_assert_uint_gt(last(WIRE_TYPE_HOLD)->request.u.HOLD.cut, cut);
    answer(WIRE_TYPE_HOLD, 8, 9, 0);
    answer(WIRE_TYPE_GO, 8, 9, 0);
    ck_assert_uint_eq(ends, 1);
    ck_assert_int_eq(ended, 0);
    ck_assert_uint_gt(ended_cut, cut);
}
END_TEST

/* Rows are written first, while no push is held. Whatever the result (_i 0: done, 1: refused, 2: no
 * answer for a minute), all shards then hold under the same number. The same applies when a cut is
 * made again (_i 3), after a second of pushes. */
START_TEST(cut_of_a_checkpoint_writes_rows_first)
{
    coord_cut_order(&c->slot[0], &(struct coord_cut_order){.lean = true, .done = on_done});
    if (_i == 3) {
        answer(WIRE_TYPE_HOLD, 0, 0, 0);
        answer(WIRE_TYPE_HOLD, 5, 6, 0);
        answer(WIRE_TYPE_GO, 5, 7, 0);
        ck_assert_int_eq(c->slot[0].cut->state, CUT_PAUSED);
        later(1001, true);
    }
    ck_assert_int_eq(c->slot[0].cut->state, CUT_WRITING);
    ck_assert(last(WIRE_TYPE_HOLD)->request.u.HOLD.ahead);
    uint64_t cut = last(WIRE_TYPE_HOLD)->request.u.HOLD.cut;
    ck_assert_uint_eq(cut, c->slot[0].cut->stored);
    if (_i == 2)
        later(60001, true);
    else
        answer(WIRE_TYPE_HOLD, 0, 0, _i == 1 ? SHOAL_E_IO : 0);
    ck_assert_int_eq(c->slot[0].cut->state, CUT_HOLDING);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_HOLD), _i == 3 ? 4 : 2);
    ck_assert(!last(WIRE_TYPE_HOLD)->request.u.HOLD.ahead);
    ck_assert_uint_eq(last(WIRE_TYPE_HOLD)->request.u.HOLD.cut, cut);
    answer(WIRE_TYPE_HOLD, 5, 6, 0);
    answer(WIRE_TYPE_GO, 5, 6, 0);
    ck_assert_uint_eq(ends, 1);
    ck_assert_uint_eq(ended_cut, cut);
}
END_TEST

/* The number is stored before a shard gets it: it is never drawn again, and a restarted coordinator
 * knows which cut was being made. */
START_TEST(cut_is_stored_before_it_is_asked_for)
{
    struct coord_counters counters;
    struct err e = {0};
    uint64_t cut, next = c->fleet.counters.next_cut;
    order(on_done, false);
    ck_assert_int_eq(coord_store_get_fixed(c->fleet.store, "cut", &cut, sizeof cut, &e), 0);
    ck_assert_uint_eq(cut, next);
    ck_assert_uint_eq(cut, last(WIRE_TYPE_HOLD)->request.u.HOLD.cut);
    ck_assert_int_eq(
        coord_store_get_fixed(c->fleet.store, "counters", &counters, sizeof counters, &e), 0);
    ck_assert_uint_eq(counters.next_cut, next + 1);
}
END_TEST

/* A cut is tried five times; the next order has five attempts of its own. */
START_TEST(cut_is_tried_five_times)
{
    for (uint32_t orders = 1; orders <= 2; orders++) {
        order(on_done, _i == 1); /* no server is away: patience changes nothing */
        for (uint32_t i = 1; i <= 5; i++) {
            ck_assert_uint_eq(ends, orders - 1);
            ck_assert_uint_eq(asked_of(WIRE_TYPE_HOLD), 5 * (orders - 1) + i);
            answer(WIRE_TYPE_HOLD, 0, 0, SHOAL_E_BUSY);
            ck_assert_uint_eq(asked_of(WIRE_TYPE_CUT_DROP), 5 * (orders - 1) + i);
            later(1001, true);
        }
        ck_assert_uint_eq(ends, orders);
        ck_assert_int_eq(ended, SHOAL_E_BUSY);
    }
}
END_TEST

/* A second attempt would not fit either. */
START_TEST(cut_without_room_is_not_tried_again)
{
    order(on_done, false);
    if (_i == 1)
        answer(WIRE_TYPE_HOLD, 5, 6, 0);
    answer(_i == 0 ? WIRE_TYPE_HOLD : WIRE_TYPE_GO, 0, 0, SHOAL_E_NO_SPACE);
    ck_assert_uint_eq(ends, 1);
    ck_assert_int_eq(ended, SHOAL_E_NO_SPACE);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_CUT_DROP), 1);
}
END_TEST

/* While a server is away a patient order waits and counts no attempt; another order goes on. */
START_TEST(cut_waits_for_a_server_that_is_away)
{
    bool patient = _i == 1;
    order(on_done, patient);
    for (uint32_t i = 0; i < 5; i++) {
        later(2000, false);
        if (!patient || i == 0)
            answer(WIRE_TYPE_HOLD, 0, 0, SHOAL_E_UNAVAILABLE);
        later(1001, false);
    }
    ck_assert_uint_eq(asked_of(WIRE_TYPE_HOLD), patient ? 1 : 5);
    ck_assert_uint_eq(ends, !patient);
    if (!patient)
        return;
    later(1, true);
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(ends, 0);
        answer(WIRE_TYPE_HOLD, 0, 0, SHOAL_E_BUSY);
        later(1001, true);
    }
    ck_assert_uint_eq(ends, 1);
}
END_TEST

/* Pushes are held no longer than the order says, and no longer than HOLD lasts. */
START_TEST(cut_that_not_all_hold_is_given_up_in_time)
{
    const struct coord_cut_order o = {.hold_max_ns = _i == 0 ? 300 * MS : 0, .done = on_done};
    const uint64_t most = _i == 0 ? 300 : 8000;
    coord_cut_order(&c->slot[0], &o);
    later(most, true);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_CUT_DROP), 0);
    later(1, true);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_CUT_DROP), 1);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_HOLD), 1); /* pushes go on for a second */
    later(1000, true);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_HOLD), 1);
    later(1, true);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_HOLD), 2);
}
END_TEST

START_TEST(cut_that_is_not_wanted_any_more_is_dropped)
{
    refusal = SHOAL_E_STOPPED;
    order(on_done, false);
    answer(WIRE_TYPE_HOLD, 5, 6, 0);
    ck_assert_uint_eq(instants, 1);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_GO), 0);
    ck_assert_uint_eq(last(WIRE_TYPE_CUT_DROP)->request.u.CUT_DROP.cut, ended_cut);
    ck_assert_int_eq(ended, SHOAL_E_STOPPED);
}
END_TEST

/* ---- orders ---------------------------------------------------------------------------------- */

/* The next order begins when the present one has ended, as a new one. */
START_TEST(cut_that_waits_begins_once)
{
    order(on_done, false);
    order(on_other, false);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(asked_of(WIRE_TYPE_HOLD), i + 1);
        answer(WIRE_TYPE_HOLD, 5, 6, 0);
        answer(WIRE_TYPE_GO, 5, 6, 0);
    }
    ck_assert(ends == 1 && others == 1);
    later(20000, true);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_HOLD), 2);
}
END_TEST

/* The order is the present one (0: holding, 1: going, 2: between attempts), or waits (3); the other
 * order goes on. */
START_TEST(cut_that_is_withdrawn_leaves_the_other)
{
    order(_i == 3 ? on_other : on_done, false);
    order(_i == 3 ? on_done : on_other, false);
    uint64_t cut = last(WIRE_TYPE_HOLD)->request.u.HOLD.cut;
    if (_i == 1)
        answer(WIRE_TYPE_HOLD, 5, 6, 0);
    if (_i == 2)
        answer(WIRE_TYPE_HOLD, 5, 6, SHOAL_E_BUSY);
    coord_cut_withdraw(&c->slot[0], on_done);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_CUT_DROP), _i != 3); /* in case 2 its failure dropped it */
    if (_i != 3)
        ck_assert_uint_eq(last(WIRE_TYPE_CUT_DROP)->request.u.CUT_DROP.cut, cut);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_HOLD), _i == 3 ? 1 : 2);
    answer(WIRE_TYPE_HOLD, 5, 6, 0);
    answer(WIRE_TYPE_GO, 5, 6, 0);
    ck_assert(ends == 0 && others == 1);
    later(20000, true);
    ck_assert(ends == 0 && others == 1);
    ck_assert_uint_eq(c->slot[0].cut->state, CUT_IDLE);
}
END_TEST

START_TEST(cut_orders_are_all_forgotten_with_the_job)
{
    order(on_done, false);
    order(on_other, false);
    coord_cut_cancel(&c->slot[0]);
    ck_assert_uint_eq(c->slot[0].cut->state, CUT_IDLE);
    order(on_other, false);
    answer(WIRE_TYPE_HOLD, 5, 6, 0);
    answer(WIRE_TYPE_GO, 5, 6, 0);
    ck_assert(ends == 0 && others == 1);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_HOLD), 2);
}
END_TEST

/* ---- going back ------------------------------------------------------------------------------ */

/* All shards check the cut before any of them changes a row. */
START_TEST(cut_is_looked_at_before_it_is_restored)
{
    const struct coord_cut_order o = {.restore = true, .cut = 3, .run = 0, .done = on_done};
    coord_cut_order(&c->slot[0], &o);
    ck_assert(last(WIRE_TYPE_RESTORE)->request.u.RESTORE.look);
    answer(WIRE_TYPE_RESTORE, 0, 0, _i == 0 ? 0 : SHOAL_E_CORRUPT);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_RESTORE), _i == 0 ? 2 : 1);
    if (_i == 0) {
        ck_assert_uint_eq(ends, 0);
        ck_assert(!last(WIRE_TYPE_RESTORE)->request.u.RESTORE.look);
        answer(WIRE_TYPE_RESTORE, 0, 0, 0);
    }
    ck_assert_uint_eq(ends, 1);
    ck_assert_uint_eq(ended_cut, 3);
    ck_assert_int_eq(ended, _i == 0 ? 0 : SHOAL_E_CORRUPT);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_CUT_DROP), 0);
}
END_TEST

/* ---- what is wanted -------------------------------------------------------------------------- */

/* While a job runs the cut of its best epoch is kept. A cut that is being made (1: held, 2: being
 * written) and all later ones are not given up. */
START_TEST(cut_at_hand_and_the_best_are_wanted)
{
    uint64_t keep, next = c->fleet.counters.next_cut;
    c->slot[0].at.best_cut = 2;
    ck_assert_uint_eq(coord_cut_known(&c->slot[0], &keep), next);
    ck_assert_uint_eq(keep, 0);
    c->slot[0].at.phase = PHASE_TRAIN;
    ck_assert_uint_eq(coord_cut_known(&c->slot[0], &keep), next);
    ck_assert_uint_eq(keep, 2);
    c->slot[0].at.phase = PHASE_NONE;
    if (_i > 0)
        order(on_done, false);
    if (_i > 1)
        answer(WIRE_TYPE_HOLD, 5, 6, 0);
    ck_assert_uint_eq(coord_cut_known(&c->slot[0], &keep), next);
    if (_i == 2) {
        answer(WIRE_TYPE_GO, 5, 6, 0);
        ck_assert_uint_eq(coord_cut_known(&c->slot[0], &keep), next + 1);
    }
}
END_TEST

/* The cut that a checkpoint is written from is not given up either, however old it is. */
START_TEST(cut_of_a_checkpoint_is_wanted)
{
    uint64_t keep, next = c->fleet.counters.next_cut = 20;
    c->slot[0].checkpoint->cut = 12;
    c->slot[0].checkpoint->state = _i == 0 ? CHECKPOINT_EXPORTING : CHECKPOINT_IDLE;
    ck_assert_uint_eq(coord_cut_known(&c->slot[0], &keep), _i == 0 ? 12 : next);
    c->slot[0].checkpoint->state = CHECKPOINT_IDLE;
}
END_TEST

/* After a restart the unfinished cut is dropped, unless it became the best. */
START_TEST(cut_of_a_dead_coordinator_is_dropped_unless_it_is_kept)
{
    struct err e = {0};
    uint64_t cut = 9;
    ck_assert(coord_job_note(&c->slot[0], "cut", &cut, sizeof cut));
    ck_assert_int_eq(coord_cut_open(&c->slot[0], _i == 0 ? 8 : 9, &e), 0);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_CUT_DROP), _i == 0);
    if (_i == 0) {
        ck_assert_uint_eq(last(WIRE_TYPE_CUT_DROP)->request.u.CUT_DROP.cut, 9);
        ck_assert(last(WIRE_TYPE_CUT_DROP)->present); /* servers that are away are not waited for */
    }
}
END_TEST

static void on_second(struct coord_job *of, int status, const char *text, uint64_t cut)
{
    ck_assert(of == &c->slot[1] && text != NULL && cut != 0);
    others += status == 0;
}

/* The job of the second slot wants to hold while that of the first one does: it holds when the
 * first has its cut (_i 0), gives it up (_i 1), or is withdrawn (_i 2). Two that each held a part
 * of the shards would wait for one another. */
START_TEST(cuts_of_two_jobs_hold_in_turn)
{
    const struct coord_cut_order second = {.done = on_second};
    order(on_done, false);
    uint64_t cut = last(WIRE_TYPE_HOLD)->request.u.HOLD.cut;
    coord_cut_order(&c->slot[1], &second);
    ck_assert_int_eq(c->slot[1].cut->state, CUT_QUEUED);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_HOLD), 1);
    if (_i == 0) {
        answer(WIRE_TYPE_HOLD, 5, 6, 0);
        coord_cut_tick(&c->slot[1]);
        ck_assert_int_eq(c->slot[1].cut->state, CUT_QUEUED);
        answer(WIRE_TYPE_GO, 5, 6, 0);
    } else if (_i == 1) {
        answer(WIRE_TYPE_HOLD, 5, 6, SHOAL_E_NO_SPACE);
    } else {
        coord_cut_withdraw(&c->slot[0], on_done);
    }
    coord_cut_tick(&c->slot[1]);
    ck_assert_int_eq(c->slot[1].cut->state, CUT_HOLDING);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_HOLD), 2);
    ck_assert_uint_gt(last(WIRE_TYPE_HOLD)->request.u.HOLD.cut, cut);
    order(on_other, false); /* behind it */
    ck_assert_int_eq(c->slot[0].cut->state, CUT_QUEUED);
    coord_cut_cancel(&c->slot[1]);
    coord_cut_tick(&c->slot[0]);
    ck_assert_int_eq(c->slot[0].cut->state, CUT_HOLDING);
}
END_TEST

static bool loads[2]; /* by the space's number */

static struct coord_space_use use_of(const struct coord_fleet *f, const struct coord_space *s)
{
    (void)f;
    return (struct coord_space_use){.loads = s->number < 2 && loads[s->number]};
}

/* While the shards load a checkpoint for another job they refuse HOLD: the cut is not asked for,
 * and no attempt is lost, however long that lasts (_i 0: for a best epoch, 1: for a checkpoint).
 * The job's own load delays nothing. */
START_TEST(cut_waits_for_the_load_of_another_job)
{
    const struct coord_cut_order lean = {.lean = true, .done = on_done};
    struct coord_space *own = &c->fleet.spaces.space[0], *other = &c->fleet.spaces.space[1];
    c->slot[0].space = own;
    own->number = 0;
    other->number = 1;
    other->used = true;
    other->state = SPACE_IS;
    c->fleet.spaces.use = use_of;
    loads[0] = loads[1] = true;
    if (_i == 1)
        coord_cut_order(&c->slot[0], &lean);
    else
        order(on_done, true);
    if (_i == 1)
        answer(WIRE_TYPE_HOLD, 0, 0, 0);
    uint32_t held = asked_of(WIRE_TYPE_HOLD);
    for (uint32_t i = 0; i < 20; i++)
        coord_cut_tick(&c->slot[0]);
    ck_assert_int_eq(c->slot[0].cut->state, CUT_QUEUED);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_HOLD), held);
    ck_assert_uint_eq(c->slot[0].cut->attempt, 0);
    loads[1] = false;
    coord_cut_tick(&c->slot[0]);
    ck_assert_uint_eq(asked_of(WIRE_TYPE_HOLD), held + 1);
    answer(WIRE_TYPE_HOLD, 5, 6, 0);
    answer(WIRE_TYPE_GO, 5, 6, 0);
    ck_assert_uint_eq(ends, 1);
    ck_assert_int_eq(ended, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cut");
    TCase *t = suite_case(s, "cut", 60, setup, NULL);
    tcase_add_loop_test(t, cut_of_a_checkpoint_writes_rows_first, 0, 4);
    tcase_add_loop_test(t, cut_of_two_instants_is_made_again, 0, 3);
    tcase_add_test(t, cut_is_stored_before_it_is_asked_for);
    tcase_add_loop_test(t, cut_is_tried_five_times, 0, 2);
    tcase_add_loop_test(t, cut_without_room_is_not_tried_again, 0, 2);
    tcase_add_loop_test(t, cut_waits_for_a_server_that_is_away, 0, 2);
    tcase_add_loop_test(t, cut_that_not_all_hold_is_given_up_in_time, 0, 2);
    tcase_add_test(t, cut_that_is_not_wanted_any_more_is_dropped);
    tcase_add_test(t, cut_that_waits_begins_once);
    tcase_add_loop_test(t, cut_that_is_withdrawn_leaves_the_other, 0, 4);
    tcase_add_loop_test(t, cuts_of_two_jobs_hold_in_turn, 0, 3);
    tcase_add_loop_test(t, cut_waits_for_the_load_of_another_job, 0, 2);
    tcase_add_test(t, cut_orders_are_all_forgotten_with_the_job);
    tcase_add_loop_test(t, cut_is_looked_at_before_it_is_restored, 0, 2);
    tcase_add_loop_test(t, cut_at_hand_and_the_best_are_wanted, 0, 3);
    tcase_add_loop_test(t, cut_of_a_checkpoint_is_wanted, 0, 2);
    tcase_add_loop_test(t, cut_of_a_dead_coordinator_is_dropped_unless_it_is_kept, 0, 2);
    return suite_main(s);
}
