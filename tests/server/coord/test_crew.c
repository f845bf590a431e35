/* test_crew.c: which job a worker gets, and which worker a job gives back: each rule of crew.h. */
#include "server/coord/coord.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/crew.h"
#include "server/coord/job/handle.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/submit.h"
#include "server/coord/job/turns.h"
#include "server/coord/work/grant.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 3, PLACES = 4 };

static struct sim *sim;
static struct coord_store *store;
static struct coord *c;
static struct err e;
static uint64_t pass[16];
static const struct coord_job *kept; /* the job that the last worker waits for */

static void setup(void)
{
    static const struct sim_options calm = {.seed = 7, .delay_min_ns = 1, .delay_max_ns = 2};
    const struct coord_options options = {.shards = 1, .lease_ms = 1000, .jobs = JOBS};
    sim = sim_new(&calm);
    store = coord_store_memory();
    struct sim_node *node = sim_node_new(sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&options, sim_node_env(node), store, &c, &e) == 0, "%s", e.text);
}

static void teardown(void)
{
    coord_free(c);
    coord_store_close(store);
    sim_free(sim);
}

static struct coord_job *submit_kind(const char *name, const char *kind, const char *mode,
                                     uint32_t lanes, uint32_t workers)
{
    char yaml[512];
    uint64_t run;
    (void)snprintf(yaml, sizeof yaml,
                   "job: %s\ndata: {format: libsvm, train: [a]}\n"
                   "tables: [{name: emb, dim: 4}]\nmodel: {kind: %s}\n"
                   "train: {batch: 10, consistency: %s, lanes: %u}\n",
                   name, kind, mode, lanes);
    const struct coord_submit s = {
        .yaml = yaml, .bytes = strlen(yaml), .from = "", .workers = workers};
    struct coord_job *j;
    ck_assert_msg(coord_turns_slot(c, 1, &s, &j, &e) == 0, "%s", e.text);
    ck_assert_ptr_nonnull(j);
    ck_assert_msg(coord_submit(j, 1, &s, NULL, &run, &e) == 0, "%s", e.text);
    return j;
}

static struct coord_job *submit(const char *name, const char *mode, uint32_t lanes,
                                uint32_t workers)
{
    return submit_kind(name, "probe", mode, lanes, workers);
}

/* Worker n joins over its own connection. Returns the job that it got; NULL: it is a visitor. */
static struct coord_job *join_with(uint32_t n, const char *backend, bool stays)
{
    struct wire w = {.type = WIRE_TYPE_WORKER_JOIN};
    struct coord_ask a = {.from = 100 + n, .request = &w};
    (void)snprintf(w.u.WORKER_JOIN.name, sizeof w.u.WORKER_JOIN.name, "w%u", n);
    (void)snprintf(w.u.WORKER_JOIN.backend, sizeof w.u.WORKER_JOIN.backend, "%s", backend);
    w.u.WORKER_JOIN.pid = n + 1;
    w.u.WORKER_JOIN.lanes_max = PLACES;
    w.u.WORKER_JOIN.stays = stays;
    struct coord_job *j = coord_crew_to_join(c, &w.u.WORKER_JOIN, a.from, &kept);
    if (j == NULL) {
        ck_assert_int_eq(coord_handle_visit(&c->fleet, &a, "none"), SHOAL_E_AGAIN);
        return NULL;
    }
    ck_assert_msg(coord_handle_join(j, &a) == 0, "%s", a.e.text);
    pass[n] = a.reply.u.WORKER_JOIN_reply.pass;
    return j;
}

static struct coord_job *join_as(uint32_t n, bool stays)
{
    return join_with(n, "cpu", stays);
}

static struct coord_job *join(uint32_t n)
{
    return join_as(n, true);
}

/* Worker n of the job asks for work. Returns the kind of the answer. */
static uint32_t next_of(struct coord_job *j, uint32_t n)
{
    struct wire w = {.type = WIRE_TYPE_LANE_NEXT, .id = 900 + n};
    struct coord_ask a = {.from = 100 + n, .request = &w};
    w.u.LANE_NEXT = (struct wire_LANE_NEXT){.pass = pass[n], .lane = COORD_NO_LANE};
    ck_assert_int_eq(coord_grant_next(j, &a), 0);
    return a.reply.u.LANE_NEXT_reply.kind;
}

static void leave(struct coord_job *j, uint32_t n)
{
    struct wire w = {.type = WIRE_TYPE_WORKER_LEAVE};
    struct coord_ask a = {.from = 100 + n, .request = &w};
    w.u.WORKER_LEAVE.pass = pass[n];
    ck_assert_int_eq(coord_handle_leave(j, &a), 0);
}

START_TEST(a_worker_stays_with_its_job)
{
    struct coord_job *one = submit("one", "ssp", 8, 2), *two = submit("two", "ssp", 1, 1);
    ck_assert_ptr_eq(join(0), two); /* one would need two */
    ck_assert_ptr_null(join(1));
    ck_assert_ptr_eq(join(0), two);
    ck_assert_uint_eq(one->workers.count + two->workers.count, 1);
}
END_TEST

START_TEST(the_only_job_takes_all_workers)
{
    struct coord_job *one = submit("one", "ssp", 2, 2);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_ptr_eq(join(i), one);
}
END_TEST

START_TEST(the_oldest_job_that_lacks_workers_comes_first)
{
    struct coord_job *one = submit("one", "ssp", 8, 1), *two = submit("two", "ssp", 8, 1);
    ck_assert_ptr_eq(join(0), one);
    ck_assert_ptr_eq(join(1), two);
}
END_TEST

/* Neither of two jobs holds half of what it needs. */
START_TEST(a_job_that_waits_takes_its_workers_when_enough_are_free)
{
    struct coord_job *one = submit("one", "ssp", 2, 2), *two = submit("two", "ssp", 2, 2);
    ck_assert_ptr_null(join(0));
    ck_assert_uint_eq(one->workers.count + two->workers.count, 0);
    ck_assert_ptr_eq(join(1), one);
    ck_assert_ptr_eq(join(0), one);
    ck_assert_ptr_null(join(2));
    ck_assert_ptr_eq(join(3), two);
    ck_assert_ptr_eq(join(2), two);
}
END_TEST

START_TEST(a_job_that_wants_too_many_holds_none_back)
{
    struct coord_job *big = submit("big", "ssp", 8, 5), *small = submit("small", "ssp", 8, 2);
    ck_assert_ptr_null(join(0));
    ck_assert_ptr_eq(join(1), small);
    ck_assert_ptr_eq(join(0), small);
    ck_assert_uint_eq(big->workers.count, 0);
}
END_TEST

/* A job that has waited long enough is patient: small ones that come take no workers any more,
 * those of jobs that end are kept for it, and it begins. One that asks for more than there are
 * keeps none back. */
START_TEST(a_job_that_was_patient_keeps_workers_back)
{
    struct coord_job *big = submit("big", "ssp", 8, _i == 0 ? 4 : 5);
    (void)sim_run(sim, COORD_PATIENCE_NS + 1, NULL, NULL);
    struct coord_job *small = submit("small", "ssp", 8, 1);
    ck_assert_ptr_eq(join(0), small);
    small->at.phase = PHASE_TRAIN;
    ck_assert_ptr_eq(join(1), small); /* beyond its number */
    ck_assert_ptr_eq(join(2), small);
    struct coord_job *late = submit("late", "ssp", 8, 1);
    if (_i == 1) {
        ck_assert_ptr_eq(join(3), late);
    } else {
        ck_assert_ptr_null(join(3));
        ck_assert_ptr_eq(kept, big);
        for (uint32_t i = 0; i < 3; i++)
            leave(small, i);
        (void)coord_end_fail(small, SHOAL_E_STOPPED, "it is over");
        ck_assert_ptr_null(join(0));
        ck_assert_ptr_null(join(1));
        ck_assert_ptr_eq(join(2), big); /* the fourth */
        ck_assert_ptr_eq(join(0), big);
        ck_assert_ptr_eq(join(1), big);
        ck_assert_ptr_eq(join(3), big);
        ck_assert_uint_eq(late->workers.count, 0);
    }
}
END_TEST

/* The workers of a job without an end do not become free: none are kept back for a job that would
 * need them. _i 1: the job ends by max_minutes; _i 2: by data.kafka.until; _i 3: it can spare two
 * of the three. */
START_TEST(a_job_is_not_patient_for_workers_of_one_without_an_end)
{
    struct coord_job *big = submit("big", "ssp", 8, 4);
    (void)sim_run(sim, COORD_PATIENCE_NS + 1, NULL, NULL);
    struct coord_job *endless = submit("endless", "ssp", 8, 1);
    ck_assert_ptr_eq(join(0), endless);
    endless->at.phase = PHASE_TRAIN;
    for (uint32_t i = 1; i < 3; i++)
        ck_assert_ptr_eq(join(i), endless);
    struct coord_job *late = submit("late", "ssp", 8, 1);
    endless->at.workers_wanted = _i == 3 ? 1 : 3;
    endless->spec.data.objects.grow_ms = 1000;
    endless->spec.train.max_minutes = _i == 1 ? 60 : 0;
    endless->spec.data.kafka.until_s = _i == 2 ? 60 : 0;
    if (_i == 0 || _i == 3) {
        ck_assert_ptr_eq(join(3), late);
    } else {
        ck_assert_ptr_null(join(3));
        ck_assert_ptr_eq(kept, big);
    }
}
END_TEST

/* One that has begun, and lost a worker, takes one at once. */
START_TEST(a_job_that_has_begun_takes_workers_one_by_one)
{
    struct coord_job *one = submit("one", "ssp", 8, 3), *two = submit("two", "ssp", 8, 4);
    one->at.phase = PHASE_TRAIN;
    ck_assert_ptr_eq(join(0), one);
    ck_assert_ptr_eq(join(1), one);
    ck_assert_uint_eq(two->workers.count, 0);
    one->at.phase = PHASE_WAITING;
}
END_TEST

START_TEST(further_workers_go_to_the_smallest_share)
{
    struct coord_job *one = submit("one", "ssp", 8, 2), *two = submit("two", "ssp", 8, 1);
    ck_assert_ptr_eq(join(0), two);
    ck_assert_ptr_eq(join(1), two); /* one would need two */
    leave(two, 1);
    ck_assert_ptr_eq(join(1), two);
    leave(two, 1);
    one->at.phase = PHASE_TRAIN;
    ck_assert_ptr_eq(join(1), one);
    ck_assert_ptr_eq(join(2), one);
    ck_assert_ptr_eq(join(3), one); /* equal shares: the older one */
    ck_assert_ptr_eq(join(4), two); /* 3 of 2 and 1 of 1 */
    ck_assert_ptr_eq(join(5), one); /* 3 of 2 and 2 of 1 */
    one->at.phase = PHASE_WAITING;
}
END_TEST

/* A job without a place takes none: under ssp a lane for each worker, under bsp one that none has a
 * place for. */
START_TEST(a_worker_without_a_place_stays_a_visitor)
{
    struct coord_job *one = submit("one", "ssp", 2, 1), *two = submit("two", "bsp", PLACES, 1);
    ck_assert_ptr_eq(join(0), one);
    ck_assert_ptr_eq(join(1), two);
    ck_assert_ptr_eq(join(2), one);
    ck_assert_ptr_null(join(3));
    ck_assert_uint_eq(coord_sight_free(&c->fleet, false, 0), 1);
}
END_TEST

/* The second job gets what the first has beyond its number, and no more; a worker that would not
 * come again is not sent away. */
START_TEST(spare_workers_are_given_back)
{
    struct coord_job *one = submit("one", "ssp", 8, 1);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_ptr_eq(join_as(i, i != 3), one);
    struct coord_job *two = submit("two", "ssp", 8, 2);
    one->at.phase = PHASE_TRAIN;
    coord_crew_step(c);
    ck_assert_uint_eq(next_of(one, 3), WIRE_NEXT_WAIT); /* it does not stay */
    ck_assert_uint_eq(next_of(one, 2), WIRE_NEXT_END);
    ck_assert_uint_eq(next_of(one, 1), WIRE_NEXT_WAIT);
    coord_crew_step(c);
    coord_crew_step(c);
    ck_assert_uint_eq(next_of(one, 1), WIRE_NEXT_END);
    ck_assert_uint_eq(next_of(one, 0), WIRE_NEXT_WAIT); /* two are enough */
    leave(one, 2);
    ck_assert_ptr_null(join(2)); /* kept free for two, not taken back by one */
    leave(one, 1);
    ck_assert_ptr_eq(join(1), two);
    ck_assert_ptr_eq(join(2), two);
    coord_crew_step(c);
    ck_assert_uint_eq(next_of(one, 0), WIRE_NEXT_WAIT);
    one->at.phase = PHASE_WAITING;
}
END_TEST

/* Under bsp no lane may be without a worker: one of three workers is spare, though the job was
 * submitted for one. */
START_TEST(a_worker_whose_lanes_have_no_other_place_stays)
{
    struct coord_job *one = submit("one", "bsp", 2 * PLACES, 1);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_ptr_eq(join(i), one);
    submit("two", "ssp", 8, 1);
    coord_crew_step(c);
    ck_assert(one->workers.worker[2].released);
    leave(one, 2);
    submit("three", "ssp", 8, 1);
    coord_crew_step(c);
    ck_assert(!one->workers.worker[0].released && !one->workers.worker[1].released);
}
END_TEST

/* Two bsp jobs were submitted for one worker each, which has places for half of the lanes: the
 * older one gets both, since neither would go on with one. */
START_TEST(a_job_lacks_workers_until_all_its_lanes_have_places)
{
    struct coord_job *one = submit("one", "bsp", 2 * PLACES, 1);
    submit("two", "bsp", 2 * PLACES, 1);
    ck_assert_ptr_eq(join(0), one);
    one->at.phase = PHASE_INDEX;
    ck_assert_ptr_eq(join(1), one);
    one->at.phase = PHASE_WAITING;
}
END_TEST

/* Those that are spare would not be enough: all stay where they are. */
START_TEST(no_worker_is_given_back_in_vain)
{
    struct coord_job *one = submit("one", "ssp", 8, 2);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_ptr_eq(join(i), one);
    submit("two", "ssp", 8, 3);
    coord_crew_step(c);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert(!one->workers.worker[i].released);
}
END_TEST

/* A worker with a network of its own gets external jobs alone, and any other one none of them. One
 * that does not stay ends with a reason where only jobs of the other kind run. */
START_TEST(workers_get_jobs_of_their_kind)
{
    struct coord_job *own = submit_kind("own", "external", "ssp", 8, 1);
    ck_assert_ptr_null(join_with(0, "cpu", true));
    ck_assert_ptr_nonnull(strstr(coord_crew_why(c, false), "programs with their networks"));
    ck_assert_uint_eq(coord_sight_free(&c->fleet, false, 0), 1);
    ck_assert_uint_eq(coord_sight_free(&c->fleet, true, 0), 0);
    ck_assert_ptr_eq(join_with(1, "external", true), own);
    struct coord_job *probe = submit("probe", "ssp", 8, 1);
    ck_assert_ptr_eq(join_with(0, "cpu", true), probe);
    ck_assert_ptr_eq(join_with(2, "external", false), own);
    ck_assert_ptr_eq(join_with(3, "cpu", false), probe);
    leave(own, 1);
    leave(own, 2);
    own->at.phase = PHASE_DONE;
    ck_assert_ptr_null(join_with(1, "external", true));
    ck_assert_ptr_nonnull(strstr(coord_crew_why(c, true), "no job with model.kind: external"));
    ck_assert_ptr_eq(join_with(2, "external", false), probe);
}
END_TEST

/* Free and spare workers of the other kind are no help to a job. */
START_TEST(workers_of_the_other_kind_do_not_count)
{
    struct coord_job *own = submit_kind("own", "external", "ssp", 8, 1);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_ptr_eq(join_with(i, "external", true), own);
    own->at.phase = PHASE_TRAIN;
    struct coord_job *one = submit("one", "ssp", 8, 1), *two = submit("two", "ssp", 8, 2);
    (void)two;
    coord_crew_step(c);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert(!own->workers.worker[i].released);
    ck_assert_ptr_eq(join_with(3, "cpu", true), one);
    ck_assert_uint_eq(coord_sight_free(&c->fleet, true, 0), 0);
    own->at.phase = PHASE_WAITING;
}
END_TEST

int main(void)
{
    Suite *s = suite_create("crew");
    TCase *t = tcase_create("crew");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_worker_stays_with_its_job);
    tcase_add_test(t, the_only_job_takes_all_workers);
    tcase_add_test(t, the_oldest_job_that_lacks_workers_comes_first);
    tcase_add_test(t, a_job_that_waits_takes_its_workers_when_enough_are_free);
    tcase_add_test(t, a_job_that_wants_too_many_holds_none_back);
    tcase_add_loop_test(t, a_job_that_was_patient_keeps_workers_back, 0, 2);
    tcase_add_loop_test(t, a_job_is_not_patient_for_workers_of_one_without_an_end, 0, 4);
    tcase_add_test(t, a_job_that_has_begun_takes_workers_one_by_one);
    tcase_add_test(t, further_workers_go_to_the_smallest_share);
    tcase_add_test(t, a_worker_without_a_place_stays_a_visitor);
    tcase_add_test(t, spare_workers_are_given_back);
    tcase_add_test(t, a_worker_whose_lanes_have_no_other_place_stays);
    tcase_add_test(t, a_job_lacks_workers_until_all_its_lanes_have_places);
    tcase_add_test(t, no_worker_is_given_back_in_vain);
    tcase_add_test(t, workers_get_jobs_of_their_kind);
    tcase_add_test(t, workers_of_the_other_kind_do_not_count);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
