/* test_broken.c: breaks the invariants of numbers, lanes and tasks on purpose: each breach must be
 * caught by its own assert. */
#include "server/coord/job/handle.h"
#include "server/coord/job/slot.h"
#include "server/coord/work/grant.h"
#include "tests/lib/broken.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct coord *c;
static struct err e;
static uint64_t worker;
static bool shard_changes; /* by the next put */

void __real_coord_lane_close(struct coord_tasks *t, uint32_t lane);
void __wrap_coord_lane_close(struct coord_tasks *t, uint32_t lane);
void __wrap_coord_lane_close(struct coord_tasks *t, uint32_t lane)
{
    __real_coord_lane_close(t, lane);
    t->lane[lane].state = LANE_GRANTING;
}

int __real_coord_store_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                           struct err *why);
int __wrap_coord_store_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                           struct err *why);
int __wrap_coord_store_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                           struct err *why)
{
    if (shard_changes)
        c->fleet.members.shard[0].index++;
    return __real_coord_store_put(s, key, value, bytes, why);
}

#define PASS 77 /* passed by the worker */

/* A coordinator in the middle of an epoch: two lanes, a worker, nothing granted yet. */
static void begin(uint32_t mode)
{
    struct sim_options options = {.seed = 1};
    static const struct env_handler handler;
    struct wire_WORKER_JOIN join = {.name = "w", .pid = 1};
    struct coord_worker *joined;
    c = calloc(1, sizeof *c);
    coord_slot_wire(c);
    c->fleet.env = sim_node_env(sim_node_new(sim_new(&options), "coordinator", &handler, NULL));
    c->fleet.store = coord_store_memory();
    c->slot[0].store = c->fleet.store;
    ck_assert_int_eq(coord_member_open(&c->fleet.members, 1, c->fleet.store, &e), 0);
    coord_call_open(&c->fleet.calls, c->fleet.env, &c->fleet.members, 1, UINT64_MAX);
    const struct coord_caller caller = {.peer = 1, .pass = PASS};
    ck_assert_int_eq(coord_worker_join(&c->slot[0].workers, &c->fleet.members, c->fleet.store,
                                       &join, &caller, &joined, &e),
                     0);
    worker = joined->number;
    ck_assert_int_eq(coord_task_open(c->slot[0].tasks, 2, mode, &e), 0);
    ck_assert_int_eq(
        coord_task_plan(c->slot[0].tasks, 1, &(struct coord_segment){.rows = 100}, 1, 10, 2, 0, &e),
        0);
    c->slot[0].at.phase = PHASE_TRAIN;
    c->slot[0].at.run = 5;
}

static void ask(uint32_t lane, uint64_t id)
{
    struct wire w = {.type = WIRE_TYPE_LANE_NEXT, .id = id};
    w.u.LANE_NEXT = (struct wire_LANE_NEXT){.pass = PASS, .lane = lane, .generation = 1};
    struct coord_ask a = {.from = 1, .request = &w};
    (void)coord_grant_next(&c->slot[0], &a);
}

/* The worker asks for a lane and gets it. */
static void grant(void)
{
    ask(COORD_NO_LANE, 1);
    coord_call_cancel_all(&c->fleet.calls);
    c->slot[0].tasks->lane[0].placed = true;
    coord_lane_granted(c->slot[0].tasks, 0, 0);
}

/* ---- grant.c ---- */

static void a_lane_that_is_not_fenced_is_told(void)
{
    begin(WIRE_ASYNC);
    grant();
    c->slot[0].tasks->lane[0].stored--;
    ask(0, 2);
}

static void a_task_that_is_not_stored_is_told(void)
{
    begin(WIRE_ASYNC);
    grant();
    (void)coord_task_append(c->slot[0].tasks, 0);
    ask(0, 2);
}

static void a_lane_that_is_given_back_leaves_as_if_held(void)
{
    begin(WIRE_ASYNC);
    grant();
    coord_grant_worker_gone(&c->slot[0], worker);
}

/* ---- task.h ---- */

static void a_batch_number_is_left_out(void)
{
    begin(WIRE_SSP);
    (void)coord_task_append(c->slot[0].tasks, 0);
    coord_task_pushed(c->slot[0].tasks, 0);
    c->slot[0].tasks->lane[0].next_batch++;
    (void)coord_task_append(c->slot[0].tasks, 0);
}

static void a_task_is_on_two_lanes(void)
{
    begin(WIRE_SSP);
    (void)coord_task_append(c->slot[0].tasks, 0);
    c->slot[0].tasks->next = 0;
    (void)coord_task_append(c->slot[0].tasks, 1);
}

/* ---- member.c ---- */

static void a_worker_is_told_a_number_that_is_not_stored(void)
{
    struct wire w = {.type = WIRE_TYPE_WORKER_JOIN};
    begin(WIRE_ASYNC);
    c->fleet.members.next_worker = worker;
    w.u.WORKER_JOIN = (struct wire_WORKER_JOIN){.name = "w", .pid = 1};
    struct coord_ask a = {.from = 1, .request = &w};
    (void)coord_handle_join(&c->slot[0], &a);
}

static void a_shard_number_changes_its_owner(void)
{
    struct wire_SHARD_BEAT beat = {.server = "s", .incarnation = 1};
    enum coord_beat what;
    uint32_t shard;
    begin(WIRE_ASYNC);
    ck_assert_int_eq(
        coord_member_shard_beat(&c->fleet.members, c->fleet.store, &beat, 2, 0, &shard, &what, &e),
        0);
    beat.incarnation = 2;
    shard_changes = true;
    (void)coord_member_shard_beat(&c->fleet.members, c->fleet.store, &beat, 2, 0, &shard, &what,
                                  &e);
}

/* ---- cluster_map.h ---- */

static void a_map_is_of_no_later_epoch(void)
{
    static struct table_schema table[2] = {{.table = 0, .tablet_bits = 6},
                                           {.table = 1, .tablet_bits = 6, .tablet_first = 64}};
    begin(WIRE_ASYNC);
    c->fleet.cluster.id[0] = 1;
    c->fleet.cluster.map_epoch = c->fleet.cluster.newest_epoch = UINT64_MAX;
    (void)coord_cluster_map(&c->fleet, table, 2, coord_fresh_due(&c->slot[0]),
                            &c->slot[0].space->numbers, &c->slot[0].space->left, &e);
}

static const struct broken list[] = {
    {"server/coord/work/grant.c", 1, a_lane_that_is_not_fenced_is_told,
     "l->state == LANE_HELD && "},
    {"server/coord/work/grant.c", 1, a_task_that_is_not_stored_is_told, "task->stored && "},
    {"server/coord/work/grant.c", 2, a_lane_that_is_given_back_leaves_as_if_held, "live == "},
    {"server/coord/work/grant.c", 2, a_lane_that_is_not_fenced_is_told,
     "l->state == LANE_HELD && "},
    {"server/coord/work/task.c", 1, a_batch_number_is_left_out, "l->appended == 0 || "},
    {"server/coord/work/task.c", 3, a_task_is_on_two_lanes, "t->task[index].first_batch == 0"},
    {"server/coord/job/handle.c", 1, a_worker_is_told_a_number_that_is_not_stored,
     "w->number < j->fleet->members.next_worker"},
    {"server/coord/fleet/cluster_map.c", 1, a_map_is_of_no_later_epoch, "r->epoch > cl->map_epoch"},
    {"server/coord/fleet/member.c", 2, a_shard_number_changes_its_owner, "s->server[0] == 0 || "},
};

START_TEST(each_broken_invariant_ends_the_process_by_its_own_assert)
{
    broken_check(list, sizeof list / sizeof list[0]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("broken");
    TCase *t = tcase_create("broken");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, each_broken_invariant_ends_the_process_by_its_own_assert);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
