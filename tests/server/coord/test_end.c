/* test_end.c: a job that fails: its run is dropped only after the failure is stored. A coordinator
 * that dies in between either continues a job whose run every shard still has, or knows that the
 * job has ended. */
#include "server/coord/coord.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/submit.h"
#include "tests/lib/coord_kept.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct coord *c;
static bool disk_fails, failed_is_stored;
static uint32_t puts_left; /* until the disk fails; 0: it does not */
static uint32_t dropped;   /* RUN_DROP was ordered */
static uint32_t taken_back;
static uint64_t cut_dropped[4]; /* numbers */
static uint32_t cuts;

int __real_coord_store_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                           struct err *e);
int __wrap_coord_store_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                           struct err *e);
int __wrap_coord_store_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                           struct err *e)
{
    struct coord_progress at;
    disk_fails |= puts_left > 0 && --puts_left == 0;
    if (disk_fails)
        return err_set(e, SHOAL_E_IO, "the disk fails");
    if (strcmp(key, "progress") == 0) {
        ck_assert_uint_eq(bytes, sizeof at);
        memcpy(&at, value, sizeof at);
        failed_is_stored = at.phase == PHASE_FAILED;
    }
    return __real_coord_store_put(s, key, value, bytes, e);
}

bool __real_coord_call_start(struct coord_calls *calls, const struct coord_call *call);
bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *call);
bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *call)
{
    if (call->request.type == WIRE_TYPE_RUN_DROP) {
        ck_assert_msg(failed_is_stored, "the run is dropped, and nothing stored says why");
        dropped++;
    }
    if (call->request.type == WIRE_TYPE_ROWS_GO) {
        ck_assert(call->set_up == NULL && call->request.u.ROWS_GO.run == 5);
        ck_assert_uint_eq(call->request.u.ROWS_GO.what, WIRE_ROWS_LOADED);
        taken_back++;
    }
    if (call->request.type == WIRE_TYPE_CUT_DROP)
        cut_dropped[cuts++ % 4] = call->request.u.CUT_DROP.cut;
    return __real_coord_call_start(calls, call);
}

/* A coordinator in the middle of an epoch. */
static void setup(void)
{
    static const struct sim_options calm = {.seed = 7, .delay_min_ns = 1, .delay_max_ns = 2};
    struct coord_options o = {.shards = 1};
    struct err e;
    struct sim_node *node = sim_node_new(sim_new(&calm), "coordinator", &coord_handler, NULL);
    ck_assert_int_eq(coord_new(&o, sim_node_env(node), coord_store_memory(), &c, &e), 0);
    c->slot[0].at.phase = PHASE_TRAIN;
    c->slot[0].at.run = 5;
    c->slot[0].at.tables = 1;
    c->fleet.members.shard[0].seen = c->slot[0].setup.shard[0].done = true;
    disk_fails = failed_is_stored = false;
    dropped = taken_back = cuts = 0;
}

START_TEST(a_failed_job_is_stored_before_its_run_is_dropped)
{
    coord_end_fail(&c->slot[0], SHOAL_E_DATA, "no rows");
    ck_assert_uint_eq(c->slot[0].at.phase, PHASE_FAILED);
    ck_assert(failed_is_stored);
    ck_assert_uint_eq(dropped, 1);
}
END_TEST

START_TEST(what_cannot_be_stored_drops_no_run)
{
    disk_fails = true;
    coord_end_fail(&c->slot[0], SHOAL_E_DATA, "no rows");
    ck_assert_uint_eq(dropped, 0);
    ck_assert_int_ne(coord_fatal(c), 0);
}
END_TEST

/* Before its set-up a job has no run. */
START_TEST(a_job_without_a_run_drops_none)
{
    static const enum coord_phase phase[] = {PHASE_INDEX, PHASE_TABLES, PHASE_SETUP};
    c->slot[0].at.phase = phase[_i];
    coord_end_fail(&c->slot[0], SHOAL_E_DATA, "no rows");
    ck_assert(failed_is_stored);
    ck_assert_uint_eq(dropped, _i == 2);
    ck_assert_uint_eq(taken_back, 0);
}
END_TEST

/* Rows of a half-loaded checkpoint are dropped, too, even on servers that are not set up. */
START_TEST(a_job_that_was_loading_takes_that_back)
{
    static const enum coord_from_state from[] = {FROM_TO_LOAD, FROM_TO_START, FROM_LOADED};
    c->slot[0].at.phase = PHASE_SETUP;
    c->slot[0].at.from = from[_i];
    coord_end_fail(&c->slot[0], SHOAL_E_DATA, "no room");
    ck_assert_uint_eq(taken_back, _i < 2);
    ck_assert_uint_eq(dropped, _i == 2);
}
END_TEST

/* Both the best epoch's cut and the unfinished one are dropped. */
START_TEST(a_failed_job_drops_its_cuts)
{
    static const enum coord_cut_state state[] = {CUT_HOLDING, CUT_GOING, CUT_PAUSED};
    c->slot[0].at.best_cut = 8;
    c->slot[0].cut->cut = c->slot[0].cut->stored = 9;
    c->slot[0].cut->state = state[_i];
    coord_end_fail(&c->slot[0], SHOAL_E_DATA, "no rows");
    ck_assert_uint_eq(cuts, _i == 2 ? 1 : 2);
    ck_assert_uint_eq(cut_dropped[0], _i == 2 ? 8 : 9);
    ck_assert(_i == 2 || cut_dropped[1] == 8);
    ck_assert_uint_eq(c->slot[0].cut->state, CUT_IDLE);
}
END_TEST

/* If the store fails, the stored state stands: the coordinator stops, and continues the job after a
 * restart. */
START_TEST(a_coordinator_that_stops_fails_no_job)
{
    c->fleet.fatal = SHOAL_E_IO;
    ck_assert(!coord_end_fail(&c->slot[0], SHOAL_E_DATA, "no rows"));
    ck_assert_uint_eq(c->slot[0].at.phase, PHASE_TRAIN);
    ck_assert_int_eq(c->slot[0].at.status, 0);
}
END_TEST

static void folder_let_go(int *hold)
{
    *hold = COORD_FOLDER_NONE;
}

/* A worker that waits for a lane gets an answer, and asks again; the checkpoint's folder is
 * released. */
START_TEST(a_failed_job_lets_go_of_who_waits)
{
    struct coord_lane *lane = calloc(2, sizeof *lane);
    const struct coord_folder_ops folder = {.let_go = folder_let_go};
    peer_t peer;
    ck_assert_int_eq(env_connect(c->fleet.env, "sim://worker", ENV_COORDINATOR, &peer), 0);
    lane[1].ask_peer = peer;
    lane[1].ask_id = 3;
    c->slot[0].tasks->lane = lane;
    c->slot[0].tasks->lanes = 2;
    c->slot[0].from_hold = 6;
    c->fleet.options.folder = &folder;
    coord_end_fail(&c->slot[0], SHOAL_E_DATA, "no rows");
    ck_assert_uint_eq(lane[1].ask_peer, 0);
    ck_assert_int_eq(c->slot[0].from_hold, COORD_FOLDER_NONE);
}
END_TEST

/* The coordinator of a process that has just started on the kept values. */
static void coordinator_on(struct coord_kept *k)
{
    static const struct sim_options calm = {.seed = 7, .delay_min_ns = 1, .delay_max_ns = 2};
    static struct sim *sims[4]; /* reachable until the end, for the leak check */
    static uint32_t count;
    struct coord_options o = {.shards = 1};
    struct err e = {0};
    struct sim *sim = sims[count++ % 4] = sim_new(&calm);
    struct sim_node *node = sim_node_new(sim, "coordinator", &coord_handler, NULL);
    disk_fails = false;
    struct coord_store *store = coord_kept_open(k, NULL);
    failed_is_stored = true; /* the last job has ended */
    ck_assert_msg(coord_new(&o, sim_node_env(node), store, &c, &e) == 0, "%s", e.text);
    coord_fleet_end(&c->fleet);
}

static int submit(const char *name, struct err *e)
{
    char yaml[256];
    uint64_t run;
    int bytes = snprintf(yaml, sizeof yaml,
                         "job: %s\ndata: {format: libsvm, train: [a]}\ntables: [{name: emb, dim: "
                         "4}]\nmodel: {kind: probe}\n",
                         name);
    return coord_submit(&c->slot[0], 1,
                        &(struct coord_submit){.yaml = yaml, .bytes = (size_t)bytes, .from = ""},
                        NULL, &run, e);
}

/* When a new job takes the place of a finished one, both its text and its progress are stored,
 * or neither. Whichever put fails, and also when the coordinator dies before the transaction, the
 * tables of one job are never read as those of the other. */
START_TEST(a_job_is_stored_whole_or_not_at_all)
{
    static struct coord *volatile of_setup; /* reachable for the leak check */
    struct err e = {0};
    struct coord_kept k = {.values = coord_store_memory(), .left = COORD_KEPT_ALL};
    of_setup = c;
    ck_assert_ptr_nonnull(of_setup);
    coordinator_on(&k);
    ck_assert_msg(submit("former", &e) == 0, "%s", e.text);
    uint64_t former = c->slot[0].at.number;
    c->slot[0].at.phase = PHASE_DONE;
    ck_assert(coord_phase_put(&c->slot[0]));
    coord_fleet_end(&c->fleet);
    struct coord_store *store = c->fleet.store;
    coord_free(c);
    coord_store_close(store);
    coordinator_on(&k);
    puts_left = (uint32_t)_i + 1;
    int rc = submit("next", &e);
    puts_left = 0;
    if (_i % 2 == 0)
        coord_fleet_end(&c->fleet);
    store = c->fleet.store;
    coord_free(c);
    coord_store_close(store);
    coordinator_on(&k);
    bool is = c->slot[0].at.number != former;
    ck_assert(is == (rc == 0 && _i % 2 == 0));
    void *text;
    size_t bytes;
    ck_assert_int_eq(coord_store_get(c->fleet.store, "job", &text, &bytes, &e), 0);
    const char *name = is ? "job: next" : "job: former";
    ck_assert_msg(memmem(text, bytes, name, strlen(name)) != NULL,
                  "dead in put %d: run %" PRIu64 " has the text %.*s", _i + 1, c->slot[0].at.number,
                  (int)bytes, (char *)text);
    free(text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("end");
    TCase *t = tcase_create("failed");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, a_failed_job_is_stored_before_its_run_is_dropped);
    tcase_add_test(t, what_cannot_be_stored_drops_no_run);
    tcase_add_loop_test(t, a_job_without_a_run_drops_none, 0, 3);
    tcase_add_loop_test(t, a_job_that_was_loading_takes_that_back, 0, 3);
    tcase_add_loop_test(t, a_failed_job_drops_its_cuts, 0, 3);
    tcase_add_test(t, a_coordinator_that_stops_fails_no_job);
    tcase_add_test(t, a_failed_job_lets_go_of_who_waits);
    tcase_add_loop_test(t, a_job_is_stored_whole_or_not_at_all, 0, 10);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
