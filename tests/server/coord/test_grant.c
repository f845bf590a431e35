/* test_grant.c: one worker's questions for a lane: once, repeated, late, and about a lane that
 * another worker holds by now. Shards answer when a case says so. */
#include "server/coord/coord.h"
#include "server/coord/job/handle.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/submit.h"
#include "server/coord/work/grant.h"
#include "tests/lib/suite.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define LANES 3u
#define ASKED 16u

static struct coord *c;
static struct sim *sim;
static struct coord_worker worker;
static struct coord_call fence[ASKED];
static uint32_t fences, answers;
static struct wire answered; /* the last answer */
static peer_t answered_to;

bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *call);
bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *call)
{
    (void)calls;
    ck_assert_uint_lt(fences, ASKED);
    if (call->request.type == WIRE_TYPE_FENCE)
        fence[fences++] = *call;
    return true;
}

void __wrap_coord_send(struct coord_fleet *of, peer_t to, struct msg *m);
void __wrap_coord_send(struct coord_fleet *of, peer_t to, struct msg *m)
{
    struct err e;
    ck_assert(of == &c->fleet && m != NULL);
    ck_assert_int_eq(wire_decode(m, &answered, &e), 0);
    msg_free(m);
    answered_to = to;
    answers++;
}

/* Every question comes from the only worker. */
int __wrap_coord_heard(struct coord_job *of, struct coord_ask *a, uint64_t pass);
int __wrap_coord_heard(struct coord_job *of, struct coord_ask *a, uint64_t pass)
{
    ck_assert(of == &c->slot[0] && pass == 71);
    a->worker = &worker;
    return 0;
}

static void setup(void)
{
    static const struct sim_options calm = {.seed = 7, .delay_min_ns = 1, .delay_max_ns = 2};
    static const char text[] = "job: t\ndata: {format: csv, train: [a.csv], label: 0}\n"
                               "tables: [{name: emb, dim: 2, tablets: 64}]\nmodel: {kind: probe}\n"
                               "train: {consistency: ssp, lanes: 3, batch: 10}\n";
    struct coord_options o = {.shards = 1, .lease_ms = 1000};
    struct err e = {0};
    sim = sim_new(&calm);
    struct sim_node *node = sim_node_new(sim, "coordinator", &coord_handler, NULL);
    fences = answers = 0;
    sim_run(sim, 10000 * MS, NULL, NULL);
    ck_assert_int_eq(coord_new(&o, sim_node_env(node), coord_store_memory(), &c, &e), 0);
    struct coord_job *j = &c->slot[0];
    ck_assert_msg(coord_submit_build(j, text, sizeof text - 1, &e) == 0, "%s", e.text);
    j->at.number = j->at.run = 5;
    j->at.epoch = 1;
    j->at.phase = PHASE_TRAIN;
    struct coord_segment rows = {.rows = 400};
    ck_assert_int_eq(coord_task_plan(j->tasks, 1, &rows, 1, 10, 2, 0, &e), 0);
    j->tasks->planned_ns = sim_now_ns(sim);
    ck_assert_uint_eq(j->tasks->lanes, LANES);
    worker = (struct coord_worker){.number = 3, .pass = 71};
}

/* A question without a lane, from a worker that says that it has `has` lanes. */
static void ask(uint64_t id, peer_t from, uint64_t has)
{
    struct wire w = {.type = WIRE_TYPE_LANE_NEXT, .id = id};
    struct coord_ask a = {.from = from, .request = &w};
    w.u.LANE_NEXT.pass = 71;
    w.u.LANE_NEXT.lane = COORD_NO_LANE;
    w.u.LANE_NEXT.batch = has;
    wire_reply_to(&w, 0, &a.reply);
    ck_assert_int_eq(coord_grant_next(&c->slot[0], &a), 0);
    if (!a.silent)
        coord_send(&c->fleet, from, wire_encode(&a.reply));
}

/* The shard has stored the last fence; a granted lane gets two. */
static void fenced(void)
{
    struct coord_call call = fence[fences - 1];
    struct wire w = {.type = WIRE_TYPE_FENCE, .reply = true};
    call.on_reply(call.context, &call, 0, &w, NULL);
    call.on_done(call.context, &call, 0, "");
}

static void granted(uint64_t id, peer_t from, uint64_t has)
{
    ask(id, from, has);
    fenced();
    fenced();
}

static void task_of(uint32_t lane, peer_t to, uint64_t id)
{
    ck_assert_uint_eq(answered.u.LANE_NEXT_reply.kind, WIRE_NEXT_TASK);
    ck_assert_uint_eq(answered.u.LANE_NEXT_reply.lane, lane);
    ck_assert_uint_eq(answered.u.LANE_NEXT_reply.generation,
                      c->slot[0].tasks->lane[lane].generation);
    ck_assert_uint_eq(answered.id, id);
    ck_assert_uint_eq(answered_to, to);
}

static uint32_t granting(void)
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < LANES; l++)
        n += c->slot[0].tasks->lane[l].state != LANE_FREE;
    return n;
}

/* The question is answered when the shard has both fences: the new generation, and the lane's
 * place. */
START_TEST(lane_is_told_once_it_is_fenced)
{
    ask(10, 4, 0);
    ck_assert(answers == 0 && fences == 1 && !fence[0].request.u.FENCE.live);
    fenced();
    ck_assert(answers == 0 && fences == 2 && fence[1].request.u.FENCE.live);
    fenced();
    ck_assert_uint_eq(answers, 1);
    task_of(0, 4, 10);
}
END_TEST

/* While the lane is being fenced (0), or before it is used (1), a copy only changes the peer that
 * gets the answer. Once it is used (2), no answer is due any more. */
START_TEST(copy_of_a_question_is_granted_no_second_lane)
{
    ask(10, 4, 0);
    if (_i > 0) {
        fenced();
        fenced();
    }
    c->slot[0].tasks->lane[0].used = _i == 2;
    ask(10, 6, 0);
    ck_assert_uint_eq(granting(), 1);
    if (_i == 0) {
        ck_assert_uint_eq(answers, 0);
        fenced();
        fenced();
    }
    ck_assert_uint_eq(answers, _i == 1 ? 2 : 1);
    task_of(0, _i == 2 ? 4 : 6, 10);
    ask(9, 6, 0); /* an older question was answered long ago */
    ck_assert_uint_eq(answers, _i == 1 ? 2 : 1);
}
END_TEST

/* The lane that was granted for the question has been taken back: its generation was raised since
 * (0), another worker has it (1), or the job has no such lane any more (2). */
START_TEST(copy_of_a_question_of_another_time_waits)
{
    granted(10, 4, 0);
    struct coord_lane *l = &c->slot[0].tasks->lane[0];
    l->generation += _i == 0;
    l->worker = _i == 1 ? 8 : l->worker;
    worker.asked_lane = _i == 2 ? LANES : 0;
    ask(10, 6, 0);
    ck_assert_uint_eq(answered.u.LANE_NEXT_reply.kind, WIRE_NEXT_WAIT);
    ck_assert_uint_eq(answered_to, 6);
    ck_assert_uint_eq(granting(), 1);
}
END_TEST

/* A worker that says that it has fewer lanes than it was granted gets the same grant again, after a
 * while. A worker that knows of its grant gets another lane. */
START_TEST(grant_that_was_not_heard_of_is_told_again)
{
    granted(10, 4, 0);
    if (_i > 0)
        sim_run(sim, sim_now_ns(sim) + 500 * MS, NULL, NULL);
    ask(11, 6, _i == 2 ? 1 : 0);
    bool again = _i == 1;
    ck_assert_uint_eq(answers, again ? 2 : 1);
    ck_assert_uint_eq(granting(), again ? 1 : 2);
    if (again)
        task_of(0, 6, 11);
}
END_TEST

/* The worker cannot say which lane it has released: all lanes in use go back. */
START_TEST(lanes_that_a_worker_has_dropped_go_back)
{
    granted(10, 4, 0);
    c->slot[0].tasks->lane[0].used = true;
    granted(11, 4, 1);
    c->slot[0].tasks->lane[1].used = true;
    ask(12, 4, _i == 0 ? 1 : 2);
    ck_assert_uint_eq(c->slot[0].tasks->lane[0].state, _i == 0 ? LANE_CLOSING : LANE_HELD);
    ck_assert_uint_eq(c->slot[0].tasks->lane[1].state, _i == 0 ? LANE_CLOSING : LANE_HELD);
    ck_assert_uint_eq(c->slot[0].tasks->lane[2].state, _i == 0 ? LANE_FREE : LANE_GRANTING);
}
END_TEST

/* A shard may have answered a fence and lost it: a lane that is being closed is raised again. */
START_TEST(all_lanes_are_fenced_whatever_they_are_at)
{
    granted(10, 4, 0);
    ask(11, 4, 1);
    c->slot[0].tasks->lane[0].used = true;
    coord_grant_worker_gone(&c->slot[0], 3);
    ck_assert_uint_eq(c->slot[0].tasks->lane[0].state, LANE_CLOSING);
    ck_assert_uint_eq(c->slot[0].tasks->lane[1].state, LANE_CLOSING);
    uint64_t before = c->slot[0].tasks->lane[0].generation;
    uint32_t were = fences;
    coord_grant_fence_all(&c->slot[0]);
    ck_assert_uint_eq(fences, were + LANES);
    ck_assert_uint_eq(c->slot[0].tasks->lane[0].generation, before + 1);
    for (uint32_t l = 0; l < LANES; l++)
        ck_assert_uint_eq(c->slot[0].tasks->lane[l].state, LANE_CLOSING);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("grant");
    TCase *t = suite_case(s, "grant", 60, setup, NULL);
    tcase_add_test(t, lane_is_told_once_it_is_fenced);
    tcase_add_loop_test(t, copy_of_a_question_is_granted_no_second_lane, 0, 3);
    tcase_add_loop_test(t, copy_of_a_question_of_another_time_waits, 0, 3);
    tcase_add_loop_test(t, grant_that_was_not_heard_of_is_told_again, 0, 3);
    tcase_add_loop_test(t, lanes_that_a_worker_has_dropped_go_back, 0, 2);
    tcase_add_test(t, all_lanes_are_fenced_whatever_they_are_at);
    return suite_main(s);
}
