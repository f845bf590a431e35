/* test_end.c: a job that fails: its run is dropped once it is stored that it has failed, and not
 * before. A coordinator that dies in between goes on with a job whose run every shard still has, or
 * knows that it has ended. */
#include "server/coord/core.h"
#include "server/coord/phase.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct coord *c;
static bool disk_fails, failed_is_stored;
static uint32_t dropped; /* RUN_DROP was ordered */

int __real_coord_store_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                           struct err *e);
int __wrap_coord_store_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                           struct err *e);
int __wrap_coord_store_put(struct coord_store *s, const char *key, const void *value, size_t bytes,
                           struct err *e)
{
    struct coord_progress at;
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
    return __real_coord_call_start(calls, call);
}

/* In the middle of an epoch. */
static void setup(void)
{
    static const struct sim_options calm = {.seed = 7, .delay_min_ns = 1, .delay_max_ns = 2};
    struct coord_options o = {.shards = 1};
    struct err e;
    struct sim_node *node = sim_node_new(sim_new(&calm), "coordinator", &coord_handler, NULL);
    ck_assert_int_eq(coord_new(&o, sim_node_env(node), coord_store_memory(), &c, &e), 0);
    c->job.at.phase = PHASE_TRAIN;
    c->job.at.run = 5;
    c->members.shard[0].seen = c->members.shard[0].set_up = true;
    disk_fails = failed_is_stored = false;
    dropped = 0;
}

START_TEST(a_failed_job_is_stored_before_its_run_is_dropped)
{
    coord_end_fail(c, SHOAL_E_DATA, "no rows");
    ck_assert_uint_eq(c->job.at.phase, PHASE_FAILED);
    ck_assert(failed_is_stored);
    ck_assert_uint_eq(dropped, 1);
}
END_TEST

START_TEST(what_cannot_be_stored_drops_no_run)
{
    disk_fails = true;
    coord_end_fail(c, SHOAL_E_DATA, "no rows");
    ck_assert_uint_eq(dropped, 0);
    ck_assert_int_ne(coord_fatal(c), 0);
}
END_TEST

/* Before its set-up it has no run. */
START_TEST(a_job_without_a_run_drops_none)
{
    c->job.at.phase = PHASE_INDEX;
    coord_end_fail(c, SHOAL_E_DATA, "no rows");
    ck_assert(failed_is_stored);
    ck_assert_uint_eq(dropped, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("end");
    TCase *t = tcase_create("failed");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, a_failed_job_is_stored_before_its_run_is_dropped);
    tcase_add_test(t, what_cannot_be_stored_drops_no_run);
    tcase_add_test(t, a_job_without_a_run_drops_none);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
