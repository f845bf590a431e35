/* test_network.c: what report and status tell of a ring of workers. */
#include "server/coord/figures/network.h"
#include "server/coord/work/ring_job.h"
#include "tests/lib/suite.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <math.h>
#include <string.h>

static struct {
    struct sim *sim;
    struct coord_fleet fleet;
    struct coord_ring_job ring;
    struct coord_job job;
} r;

static void setup(void)
{
    static const struct sim_options calm = {.seed = 1};
    memset(&r, 0, sizeof r);
    r.sim = sim_new(&calm);
    r.fleet.env = sim_node_env(sim_node_new(r.sim, "coordinator", NULL, NULL));
    r.job.fleet = &r.fleet;
    r.job.ring = &r.ring;
    r.job.parsed = true;
    r.job.spec.train.allreduce = true;
}

static void teardown(void)
{
    sim_free(r.sim);
}

static double number(const struct json *j, const char *key)
{
    return json_as_number(json_get(j, key), (double)NAN);
}

/* Means of one worker at one step, not sums. */
START_TEST(report_has_means_of_a_step)
{
    const struct wire_WORKER_BEAT sum = {
        .ring_steps = 400, .ring_bytes = 80000, .ring_wait_s = 0.2};
    r.ring.ring = (struct coord_ring){
        .state = RING_STANDS, .number = 7, .count = 3, .starts = 4, .step = 120, .published = 90};
    r.ring.state_bytes = 4096;
    struct json *j = coord_network_json(&r.job, &sum);
    ck_assert_double_eq(number(j, "rings"), 7);
    ck_assert_double_eq(number(j, "members"), 3);
    ck_assert_double_eq(number(j, "starts"), 4);
    ck_assert_double_eq(number(j, "steps"), 120);
    ck_assert_double_eq(number(j, "bytes_a_step"), 200);
    ck_assert_double_eq_tol(number(j, "wait_ms_a_step"), 0.5, 1e-12);
    ck_assert_double_eq(number(j, "published"), 90);
    ck_assert_double_eq(number(j, "state_bytes"), 4096);
    json_free(j);
}
END_TEST

START_TEST(what_is_not_known_yet_is_null)
{
    const struct wire_WORKER_BEAT none = {.ring_steps = 0};
    r.ring.ring = (struct coord_ring){.state = RING_GATHERS, .number = 1, .count = 2};
    struct json *j = coord_network_status(&r.job, &none);
    ck_assert(json_absent(json_get(j, "bytes_a_step")));
    ck_assert(json_absent(json_get(j, "wait_ms_a_step")));
    ck_assert(json_absent(json_get(j, "published_seconds")));
    ck_assert(json_absent(json_get(j, "rest")));
    ck_assert_str_eq(json_as_string(json_get(j, "state"), ""), "gathers");
    json_free(j);
    r.job.spec.train.allreduce = false;
    ck_assert_ptr_null(coord_network_status(&r.job, &none));
}
END_TEST

static bool never(void *context)
{
    (void)context;
    return false;
}

START_TEST(network_of_the_tables_has_an_age)
{
    r.ring.ring.published = 4;
    r.ring.published_ns = 1000000000;
    (void)sim_run(r.sim, UINT64_C(3500000000), never, NULL);
    ck_assert_double_eq_tol(coord_network_age_s(&r.job), 2.5, 1e-9);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_network");
    TCase *t = suite_case(s, "network", 60, setup, teardown);
    tcase_add_test(t, report_has_means_of_a_step);
    tcase_add_test(t, what_is_not_known_yet_is_null);
    tcase_add_test(t, network_of_the_tables_has_an_age);
    return suite_main(s);
}
