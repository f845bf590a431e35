/* test_ring.c: workers of a ring in the simulator: messages that are lost, doubled and late,
 * workers that die at each step, freeze or join, strangers, and the bytes that a step takes. */
#include "tests/lib/suite.h"
#include "tests/worker/ring/ring_fleet.h"

static struct fleet fleet;

static void fleet_of(uint32_t lanes, uint32_t starts, uint64_t weighted, uint64_t plain,
                     uint64_t last)
{
    memset(&fleet, 0, sizeof fleet);
    fleet.lanes = lanes;
    fleet.starts = starts;
    fleet.last = last;
    ck_assert_int_eq(way_cut(weighted, plain, starts, &fleet.cut, NULL), 0);
}

static struct sim_options net_of(uint64_t seed, double lost)
{
    return (struct sim_options){.seed = seed,
                                .drop = lost,
                                .duplicate = lost,
                                .delay_min_ns = FLEET_MS / 10,
                                .delay_max_ns = 3 * FLEET_MS,
                                .reorder = lost > 0,
                                .work_min_ns = FLEET_MS,
                                .work_max_ns = FLEET_MS};
}

static uint64_t trained(uint32_t lanes, uint32_t workers, double lost, uint64_t seed)
{
    const struct sim_options net = net_of(seed, lost);
    fleet_of(lanes, workers, 6000, 100, 12);
    fleet_start(&fleet, &net, workers);
    ck_assert(fleet_run(&fleet));
    fleet_check(&fleet);
    for (uint32_t i = 0; i < workers; i++)
        fleet_close(&fleet.worker[i]);
    uint64_t again = fleet.figures.again;
    fleet_free(&fleet);
    return again;
}

START_TEST(ring_sums_for_2_to_64_workers)
{
    static const uint32_t workers[] = {1, 2, 3, 8, 64};
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++)
        ck_assert_uint_eq(trained(workers[i], workers[i], 0, 1), 0); /* nothing goes twice */
    ck_assert_uint_eq(trained(11, 4, 0, 2), 0);
}
END_TEST

/* The same bits as without losses: fleet_check knows no network. */
START_TEST(ring_lost_doubled_and_late_messages_change_nothing)
{
    uint64_t again = 0;
    for (uint64_t seed = 1; seed <= 20; seed++)
        again += trained(8, 3 + (uint32_t)(seed % 3), 0.1, seed);
    again += trained(64, 64, 0.02, 21);
    ck_assert_uint_gt(again, 100);
}
END_TEST

/* A step takes 2 (n - 1) / n of the array from each worker, and a header a chunk. */
START_TEST(ring_bytes_of_a_step)
{
    static const uint32_t workers[] = {2, 4, 8};
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        uint32_t n = workers[i];
        const struct sim_options net = net_of(1, 0);
        fleet_of(n, n, UINT64_C(1) << 16, 0, 4);
        case_all_weigh = true;
        fleet_start(&fleet, &net, n);
        ck_assert(fleet_run(&fleet));
        for (uint32_t w = 0; w < n; w++) {
            struct ring_figures g = ring_figures(fleet.worker[w].ring);
            uint64_t least = 4 * 2 * (n - 1) * (fleet.cut.weighted * 4) / n;
            ck_assert_uint_eq(g.chunks, 4 * 2 * (n - 1) * fleet.cut.chunks / n);
            ck_assert_uint_ge(g.bytes, least);
            ck_assert_uint_le(g.bytes, least + 64 * g.chunks);
        }
        fleet_free(&fleet);
    }
}
END_TEST

struct moment {
    uint64_t made;
};

static bool moment_came(void *context)
{
    const struct moment *m = context;
    return fleet.made >= m->made;
}

/* Kills a worker when `made` steps were made by all together and some events more have passed, and
 * forms the ring of those that are left half a second later. */
static void killed_at(uint32_t workers, uint64_t made, uint32_t events, uint32_t victim, bool join)
{
    const struct sim_options net = net_of(made * 100 + events, 0.05);
    struct moment m = {made};
    fleet_of(8, workers < 8 ? workers : 8, 3000, 70, 6);
    fleet_start(&fleet, &net, workers);
    ck_assert(sim_run(fleet.sim, 100000 * FLEET_MS, moment_came, &m));
    for (uint32_t i = 0; i < events; i++)
        (void)sim_step(fleet.sim);
    fleet_kill(&fleet, victim);
    (void)sim_run(fleet.sim, sim_now_ns(fleet.sim) + 500 * FLEET_MS, NULL, NULL);
    if (join)
        fleet_worker_add(&fleet);
    fleet_form(&fleet);
    ck_assert(fleet_run(&fleet));
    fleet_check(&fleet);
    fleet_free(&fleet);
}

START_TEST(ring_of_those_that_are_left_after_a_death_at_each_step)
{
    static const uint32_t workers[] = {2, 3, 8};
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++)
        for (uint64_t made = 0; made < 5 * workers[i]; made++)
            for (uint32_t events = 0; events < 60; events += 17)
                killed_at(workers[i], made, events, (uint32_t)(made + events) % workers[i], false);
}
END_TEST

START_TEST(ring_with_a_newcomer_in_the_place_of_a_dead_worker)
{
    for (uint64_t made = 0; made < 20; made += 3)
        for (uint32_t events = 0; events < 40; events += 13)
            killed_at(4, made, events, (uint32_t)made % 4, true);
}
END_TEST

START_TEST(ring_of_64_goes_on_with_63)
{
    const struct sim_options net = net_of(5, 0.01);
    struct moment m = {100};
    fleet_of(64, 64, 3000, 0, 4);
    fleet_start(&fleet, &net, 64);
    ck_assert(sim_run(fleet.sim, 100000 * FLEET_MS, moment_came, &m));
    fleet_kill(&fleet, 17);
    fleet_form(&fleet);
    ck_assert(fleet_run(&fleet));
    fleet_check(&fleet);
    fleet_free(&fleet);
}
END_TEST

/* A worker is frozen in the middle of a step and given up. It wakes in its old ring and sends
 * chunks: they are refused, it is told, and they change nothing. */
START_TEST(ring_refuses_a_worker_that_was_frozen)
{
    for (uint64_t made = 1; made < 12; made++) {
        const struct sim_options net = net_of(made, 0.05);
        struct moment m = {made};
        fleet_of(6, 3, 9000, 0, 60);
        fleet_start(&fleet, &net, 3);
        ck_assert(sim_run(fleet.sim, 100000 * FLEET_MS, moment_came, &m));
        uint64_t wake = sim_now_ns(fleet.sim) + 300 * FLEET_MS;
        sim_pause(fleet.worker[1].node, wake);
        fleet.worker[1].frozen = true;
        (void)sim_run(fleet.sim, sim_now_ns(fleet.sim) + 250 * FLEET_MS, NULL, NULL);
        fleet_form(&fleet);
        ck_assert(fleet_run(&fleet));
        (void)sim_run(fleet.sim, wake + 3000 * FLEET_MS, NULL, NULL);
        fleet_check(&fleet);
        ck_assert_uint_lt(fleet.worker[1].step, fleet.last);
        ck_assert_uint_gt(fleet.worker[1].stale, 0);
        fleet_free(&fleet);
    }
}
END_TEST

/* Only the worker before may send chunks: by the key that the coordinator named. Roles are the
 * door's (tests/worker/train/test_door.c). */
START_TEST(ring_takes_chunks_of_the_worker_before_alone)
{
    static const struct {
        const char *key;
        bool taken;
    } sender[] = {{"the key of the worker before", true}, {"another key", false}, {"", false}};
    for (size_t i = 0; i < sizeof sender / sizeof *sender; i++) {
        const struct sim_options net = net_of(1, 0);
        struct env_who who = {.role = ROLE_WORKER, .name = "somebody"};
        (void)snprintf(who.key, sizeof who.key, "%s", sender[i].key);
        fleet_of(2, 2, 3000, 0, 3);
        fleet.sim = sim_new(&net);
        fleet_worker_add(&fleet);
        fleet_worker_add(&fleet);
        sim_node_who(fleet.worker[0].node, &who);
        fleet.key = "the key of the worker before";
        fleet_form(&fleet);
        bool over = sim_run(fleet.sim, 3000 * FLEET_MS, fleet_over, &fleet);
        ck_assert_int_eq(over, sender[i].taken);
        if (over)
            fleet_check(&fleet);
        ck_assert(over || fleet.worker[1].step == 0);
        fleet_free(&fleet);
    }
}
END_TEST

/* A warm ring takes no memory. Messages take equally long, so that every step has as many under way
 * at a time. */
START_TEST(ring_allocates_nothing_for_a_step)
{
    struct sim_options net = net_of(1, 0);
    net.delay_max_ns = net.delay_min_ns;
    struct moment warm = {40}, later = {390};
    case_all_weigh = true;
    fleet_of(4, 4, 20000, 100, 100);
    fleet_start(&fleet, &net, 4);
    ck_assert(sim_run(fleet.sim, 100000 * FLEET_MS, moment_came, &warm));
    uint64_t before = msg_allocations();
    ck_assert(sim_run(fleet.sim, 100000 * FLEET_MS, moment_came, &later));
    ck_assert_uint_eq(msg_allocations(), before);
    fleet_free(&fleet);
}
END_TEST

/* bf16 halves the bytes; without deaths each run gives the same bits, whatever the network does. */
START_TEST(ring_of_bf16_gives_the_same_bits_at_each_run)
{
    float *first = NULL;
    uint64_t bytes[2] = {0};
    for (uint64_t seed = 1; seed <= 4; seed++) {
        const struct sim_options net = net_of(seed, seed > 1 ? 0.1 : 0);
        fleet_of(6, 3, 6144, 0, 10);
        fleet.values = VALUES_BF16;
        fleet_start(&fleet, &net, 3);
        ck_assert(fleet_run(&fleet));
        if (first == NULL) {
            first = calloc(fleet_floats(&fleet), sizeof *first);
            memcpy(first, fleet.worker[0].tensor, fleet_floats(&fleet) * sizeof *first);
            bytes[1] = ring_figures(fleet.worker[0].ring).bytes;
        }
        for (uint32_t i = 0; i < 3; i++)
            ck_assert_mem_eq(fleet.worker[i].tensor, first, fleet_floats(&fleet) * sizeof *first);
        fleet_free(&fleet);
    }
    const struct sim_options net = net_of(1, 0);
    fleet_of(6, 3, 6144, 0, 10);
    fleet_start(&fleet, &net, 3);
    ck_assert(fleet_run(&fleet));
    bytes[0] = ring_figures(fleet.worker[0].ring).bytes;
    fleet_free(&fleet);
    ck_assert_uint_lt(bytes[1], bytes[0] * 55 / 100);
    free(first);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ring");
    TCase *t = suite_case(s, "ring", 100, NULL, NULL);
    tcase_add_test(t, ring_sums_for_2_to_64_workers);
    tcase_add_test(t, ring_lost_doubled_and_late_messages_change_nothing);
    tcase_add_test(t, ring_bytes_of_a_step);
    tcase_add_test(t, ring_of_those_that_are_left_after_a_death_at_each_step);
    tcase_add_test(t, ring_with_a_newcomer_in_the_place_of_a_dead_worker);
    tcase_add_test(t, ring_of_64_goes_on_with_63);
    tcase_add_test(t, ring_refuses_a_worker_that_was_frozen);
    tcase_add_test(t, ring_takes_chunks_of_the_worker_before_alone);
    tcase_add_test(t, ring_allocates_nothing_for_a_step);
    tcase_add_test(t, ring_of_bf16_gives_the_same_bits_at_each_run);
    return suite_main(s);
}
