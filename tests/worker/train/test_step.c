/* test_step.c: lanes that contribute, sums that become steps, what is said to the coordinator, and
 * the network on its way from and to the tables. */
#include "tests/worker/train/step_world.h"

/* ---- steps ----------------------------------------------------------------------------------- */

START_TEST(step_of_one_worker)
{
    world_open("", 0);
    world_ring(1);
    ck_assert(world.worker[0].asked.has && world.worker[0].asked.of == world.told.ring);
    world.worker[0].last = 9;
    world_grant(0);
    world_run(1000);
    world_check(&world.worker[0], 9);
    ck_assert_uint_eq(step_figures(world.worker[0].step).bytes, 0);
    world_close();
}
END_TEST

START_TEST(step_is_alike_at_all_workers)
{
    for (uint32_t count = 2; count <= WORLD_WORKERS; count++) {
        world_open("", 0.05);
        world_ring(count);
        for (uint32_t i = 0; i < count; i++)
            world.worker[i].last = 9;
        world_grant(0);
        world_run(20000);
        for (uint32_t i = 0; i < count; i++)
            world_check(&world.worker[i], 9);
        world_close();
    }
}
END_TEST

/* A worker says its newest step only when no sum is on its way to the network any more. */
START_TEST(step_is_told_when_the_thread_is_back)
{
    static const uint32_t both[] = {0, 1};
    world_open("", 0);
    world_ring(2);
    world_grant(0);
    for (uint32_t i = 0; i < 40; i++) {
        world_run(7 + i % 5);
        world_gather(both, 2);
        uint64_t newest = 0;
        for (uint32_t w = 0; w < 2; w++) {
            ck_assert_uint_eq(world.worker[w].asked.ring, world.told.ring);
            ck_assert_uint_eq(world.worker[w].asked.step, world.worker[w].step->at);
            ck_assert(world.worker[w].asked.has);
            if (world.worker[w].asked.step > newest)
                newest = world.worker[w].asked.step;
        }
        world_stand(2, newest, world.worker[0].asked.step == newest ? 0 : 1);
    }
    world_run(100);
    uint64_t at = world.worker[0].step->at;
    ck_assert_uint_gt(at, 100);
    world.worker[0].last = world.worker[1].last = at + 2;
    world_run(1000);
    world_check(&world.worker[0], world.worker[0].step->at);
    world_check(&world.worker[1], world.worker[0].step->at);
    ck_assert_uint_eq(world.worker[0].late + world.worker[1].late, 0);
    world_close();
}
END_TEST

/* One dies; the other gets its lanes, at the batch behind the mark: the newest step has it. */
START_TEST(step_batch_of_a_made_step_gives_nothing)
{
    static const uint32_t second[] = {1};
    world_open("", 0);
    world_ring(2);
    world.worker[0].last = world.worker[1].last = 5;
    world_grant(0);
    world_run(1000);
    ck_assert_uint_eq(world.worker[1].step->at, 5);
    world_kill(&world.worker[0]);
    world_gather(second, 1);
    world_stand(1, 5, 0);
    struct worker *w = &world.worker[1];
    struct step_arrays a;
    w->last = 8;
    ck_assert_int_eq(step_admit(w->step, 0, 5, &a), STEP_WAITS); /* it does not have the lane */
    lane_grant(w, 0, 4); /* the push of batch 5 was lost: it is computed again */
    ck_assert_uint_eq(w->rows, 1);
    lanes_try(w);
    ck_assert_uint_eq(w->step->slot[0].given, 6); /* and batch 6 contributes */
    step_give(w->step, 0, 5, 3, 1);               /* nothing comes of it */
    ck_assert_uint_eq(w->step->slot[0].given, 6);
    lane_grant(w, 1, 5);
    world_run(1000);
    world_check(w, 8);
    ck_assert_int_eq(step_admit(w->step, 0, 7, &a), STEP_LATE);
    world_close();
}
END_TEST

/* A newcomer reads the network from the worker that has it. */
START_TEST(step_newcomer_gets_the_network)
{
    static const uint32_t both[] = {0, 1};
    world_open("", 0.05);
    world_ring(1);
    world.worker[0].last = 6;
    world_grant(0);
    world_run(1000);
    (void)world_worker();
    world_run(100);
    world_gather(both, 2);
    ck_assert(!world.worker[1].asked.has);
    world_stand(2, 6, 0);
    world_run(3000);
    ck_assert(world.worker[1].asked.has && world.worker[1].asked.of == world.told.ring);
    world_check(&world.worker[1], 6);
    world.worker[0].last = world.worker[1].last = 9;
    lane_grant(&world.worker[1], 2, 6);
    lane_grant(&world.worker[1], 3, 6);
    lanes_try(&world.worker[0]);
    world_run(5000);
    world_check(&world.worker[0], 9);
    world_check(&world.worker[1], 9);
    world_close();
}
END_TEST

/* A worker that was put aside and did not hear of it has the right number of another network. */
START_TEST(step_of_another_ring_is_read_anew)
{
    static const uint32_t both[] = {0, 1};
    world_open("", 0);
    world_ring(2);
    world.worker[0].last = world.worker[1].last = 4;
    world_grant(0);
    world_run(1000);
    struct network *right = world.worker[0].step->network, *wrong = world.worker[1].step->network;
    network_settle(wrong, 4, NULL);
    float *sum = calloc(dense_floats + stats_floats, sizeof *sum);
    sum[3] = 1;
    ck_assert_int_eq(network_step(wrong, sum, 1, 1, 5, NULL), 0);
    network_settle(wrong, 4, NULL);
    free(sum);
    world_gather(both, 2);
    world.elsewhere = true; /* of worker 1; worker 0 reads nothing, as it is the source */
    world_stand(2, 4, 0);
    uint64_t one, other;
    ck_assert_int_eq(network_digest(right, &one), 0);
    ck_assert_int_eq(network_digest(wrong, &other), 0);
    ck_assert_uint_eq(one, other);
    world_close();
}
END_TEST

/* A worker that is no member of a ring that stands has no network any more. */
START_TEST(step_of_no_member_is_forgotten)
{
    static const uint32_t second[] = {1};
    world_open("", 0);
    world_ring(2);
    world.worker[0].last = world.worker[1].last = 4;
    world_grant(0);
    world_run(1000);
    world_gather(second, 1);
    world_stand(1, 4, 0);
    ck_assert(!world.worker[0].asked.has && world.worker[0].next[0] == 0);
    ck_assert(world.worker[1].asked.has);
    world_close();
}
END_TEST

/* A sum with a value that no server takes changes nothing, at every worker. */
START_TEST(step_goes_without_a_gradient_that_is_not_finite)
{
    struct step_arrays a;
    uint64_t before, after;
    world_open("", 0);
    world_ring(1);
    struct worker *w = &world.worker[0];
    w->last = 3;
    world_grant(0);
    world_run(1000);
    ck_assert_int_eq(network_digest(w->step->network, &before), 0);
    for (uint32_t lane = 0; lane < WORLD_LANES; lane++) {
        ck_assert_int_eq(step_admit(w->step, lane, 4, &a), STEP_GIVES);
        world_gradients(lane, 4, &a);
        a.dense_gradients[1] = 3e38f;
        step_back(w->step, lane);
        step_give(w->step, lane, 4, 4, 1);
    }
    world_run(100);
    ck_assert_uint_eq(w->step->at, 4);
    ck_assert_uint_eq(step_figures(w->step).refused, 1);
    ck_assert_int_eq(network_digest(w->step->network, &after), 0);
    ck_assert_uint_eq(after, before);
    world_close();
}
END_TEST

/* All lanes of a step have one factor of the learning rates. */
START_TEST(step_of_two_rates_fails)
{
    struct step_arrays a;
    world_open("", 0);
    world_ring(1);
    struct worker *w = &world.worker[0];
    w->last = 0;
    world_grant(0);
    for (uint32_t lane = 0; lane < WORLD_LANES; lane++) {
        ck_assert_int_eq(step_admit(w->step, lane, 1, &a), STEP_GIVES);
        world_gradients(lane, 1, &a);
        step_back(w->step, lane);
        step_give(w->step, lane, 1, 4, lane == 2 ? 0.5f : 1);
    }
    ck_assert_uint_eq(w->failed, 1);
    ck_assert_ptr_nonnull(strstr(w->text, "lane 2 one of 0.5"));
    world_close();
}
END_TEST

START_TEST(step_allocates_nothing)
{
    world_open("", 0);
    world_ring(3);
    for (uint32_t i = 0; i < 3; i++)
        world.worker[i].last = 400;
    world_grant(0);
    world_run(700); /* chunks of several sizes, so more of them until each has had its most */
    uint64_t at = world.worker[0].step->at, before = msg_allocations();
    uint32_t asks = world.worker[0].asks;
    world_run(500);
    ck_assert_uint_gt(world.worker[0].step->at, at + 20);
    ck_assert_uint_lt(world.worker[0].step->at, 400);
    ck_assert_uint_eq(msg_allocations(), before);
    ck_assert_uint_le(world.worker[0].asks - asks, 8); /* it says nothing at each step */
    world_run(2000);
    world_close();
}
END_TEST

/* The coordinator hears of a member that has taken nothing for a lease, and not before. */
START_TEST(step_names_the_worker_that_it_does_not_reach)
{
    world_open("", 0);
    world_ring(2);
    world_grant(0);
    world_run(50);
    sim_cut(world.worker[0].node, world.worker[1].node, UINT64_MAX);
    for (uint32_t i = 0; i < 9; i++) {
        world_run(100);
        world_tell();
        ck_assert_uint_eq(world.worker[0].asked.unreached, 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        world_run(100);
        world_tell();
    }
    world_run(50);
    ck_assert_uint_eq(world.worker[0].asked.unreached, 2);
    ck_assert_uint_eq(world.worker[1].asked.unreached, 1); /* answers to it are lost, too */
    world_close();
}
END_TEST

/* Servers that lose power lose pushes that were acknowledged, and all workers join again. A lane
 * that had contributed to the next step goes back to a batch of the newest one, for its rows. */
START_TEST(step_of_a_worker_that_joins_again_has_no_contributions)
{
    static const uint32_t first[] = {0};
    struct step_arrays a;
    world_open("", 0);
    world_ring(1);
    struct worker *w = &world.worker[0];
    w->last = 4;
    world_grant(0);
    world_run(1000);
    ck_assert_int_eq(step_admit(w->step, 0, 5, &a), STEP_GIVES);
    world_gradients(0, 5, &a);
    step_back(w->step, 0);
    step_give(w->step, 0, 5, 4, 1);
    step_end(w->step);
    const struct step_begin as = {.worker = 1, .pass = 1, .run = WORLD_RUN, .lease_ms = 1000};
    step_begin(w->step, &as);
    world_gather(first, 1);
    world_stand(1, 4, 0);
    w->last = 7;
    lane_grant(w, 0, 3); /* the push of batch 4 is lost */
    ck_assert_uint_eq(w->rows, 1);
    for (uint32_t lane = 1; lane < WORLD_LANES; lane++)
        lane_grant(w, lane, 4);
    lanes_try(w);
    world_run(1000);
    world_check(w, 7);
    world_close();
}
END_TEST

/* ---- a worker that cannot -------------------------------------------------------------------- */

static bool no_ring; /* ring_open has no memory */

int __real_ring_open(const struct ring_options *options, struct ring **out, struct err *e);
int __wrap_ring_open(const struct ring_options *options, struct ring **out, struct err *e);
int __wrap_ring_open(const struct ring_options *options, struct ring **out, struct err *e)
{
    if (no_ring)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a ring");
    return __real_ring_open(options, out, e);
}

/* It says so once, and stays out until it joins again. */
START_TEST(step_without_memory_for_a_ring_is_unable)
{
    static const uint32_t both[] = {0, 1};
    world_open("", 0);
    world_ring(1);
    world.worker[0].last = 6;
    world_grant(0);
    world_run(1000);
    struct worker *w = world_worker();
    world_run(100);
    world_gather(both, 2);
    no_ring = true;
    world_stand(2, 6, 0);
    ck_assert_uint_eq(w->unable, 1);
    ck_assert_int_eq(w->status, SHOAL_E_NOMEM);
    ck_assert_str_eq(w->text, "no memory for a ring");
    ck_assert(w->lost == 0 && w->failed == 0 && w->step->state == STEP_OUT);
    no_ring = false;
    world_close();
}
END_TEST

/* A source that has another network: its words are told, and the worker does not ask again. */
START_TEST(step_whose_handover_fails_is_unable)
{
    static const uint32_t both[] = {0, 1};
    world_open("", 0);
    world_ring(1);
    world.worker[0].last = 6;
    world_grant(0);
    world_run(1000);
    struct worker *w = world_worker();
    world_run(100);
    world_gather(both, 2);
    network_skip(world.worker[0].step->network, 7); /* not the step of the ring any more */
    world_stand(2, 6, 0);
    ck_assert_uint_eq(w->unable, 1);
    ck_assert_int_eq(w->status, SHOAL_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(w->text, "of step 6"));
    ck_assert_uint_eq(w->lost, 0);
    world_close();
}
END_TEST

/* ---- a rest ---------------------------------------------------------------------------------- */

static uint64_t largest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

START_TEST(step_rests_where_it_is_told)
{
    world_open("", 0);
    world_ring(2);
    world_grant(0);
    world_run(100);
    world.told.rest = 1;
    world_tell();
    world_run(100);
    const struct wire_RING *one = &world.worker[0].asked, *other = &world.worker[1].asked;
    ck_assert(one->rest == 1 && other->rest == 1);
    ck_assert(!one->settled && !other->settled);
    uint64_t held = one->begun;
    world_run(500);
    ck_assert_uint_eq(one->begun, held);
    world.told.rest_at = largest(one->begun, other->begun);
    world_tell();
    world_run(100);
    ck_assert(one->settled && other->settled);
    ck_assert_uint_eq(one->lanes, 2);
    world_check(&world.worker[0], world.told.rest_at);
    world_check(&world.worker[1], world.told.rest_at);
    ck_assert_uint_eq(world.worker[0].next[0], world.told.rest_at + 1);

    world.told.publish = true;
    world_tell();
    world_run(100);
    ck_assert(one->published == world.told.rest_at && other->published == 0);
    uint64_t digest, own;
    ck_assert_int_eq(network_digest(world.tables, &digest), 0);
    ck_assert_int_eq(network_digest(world.worker[0].step->network, &own), 0);
    ck_assert_uint_eq(digest, own);

    world.told.published = one->published;
    world.told.rest = world.told.rest_at = 0;
    world.told.publish = false;
    world_tell();
    world_run(100);
    ck_assert_uint_gt(world.worker[0].step->at, one->published + 2);
    world_close();
}
END_TEST

/* A lane that trains has not settled until its push is acknowledged. */
START_TEST(step_settles_when_pushes_are_acknowledged)
{
    struct step_arrays a;
    world_open("", 0);
    world_ring(1);
    struct worker *w = &world.worker[0];
    w->last = 0;
    world_grant(0);
    for (uint32_t lane = 0; lane < WORLD_LANES; lane++) {
        ck_assert_int_eq(step_admit(w->step, lane, 1, &a), STEP_GIVES);
        world_gradients(lane, 1, &a);
        step_back(w->step, lane);
        step_give(w->step, lane, 1, 4, 1);
    }
    world.told.rest = 3;
    world_tell();
    world_run(100);
    ck_assert_uint_eq(w->asked.begun, 1);
    world.told.rest_at = 1;
    world_tell();
    world_run(100);
    ck_assert(w->step->at == 1 && !w->asked.settled);
    for (uint32_t lane = 0; lane < WORLD_LANES; lane++) {
        const struct step_lane name = lane_of(lane, 1);
        ck_assert(!w->asked.settled);
        step_lane_acknowledged(w->step, &name);
        world_run(50);
    }
    ck_assert(w->asked.settled);
    ck_assert_int_eq(step_admit(w->step, 0, 2, &a), STEP_WAITS);
    world_close();
}
END_TEST

/* ---- tables ---------------------------------------------------------------------------------- */

START_TEST(step_publishes_what_a_later_step_follows)
{
    world_open(", dense_publish: 1s", 0);
    world_ring(2);
    world_grant(0);
    for (uint32_t i = 0; i < 50 && world.worker[0].asked.published == 0; i++) {
        world_run(100);
        ck_assert_uint_eq(world.assign_late, 0);
    }
    uint64_t step = world.worker[0].asked.published, digest;
    ck_assert_uint_gt(step, 0);
    ck_assert_uint_eq(world.assigns, step_tablets(world.worker[0].step));
    for (uint32_t i = 0; i < step_tablets(world.worker[0].step); i++)
        ck_assert_uint_eq(world.mark[i], step);
    ck_assert_int_eq(network_digest(world.tables, &digest), 0);
    ck_assert_uint_eq(digest, world_undisturbed(step));
    ck_assert_uint_eq(world.worker[1].asked.published, 0);
    world_close();
}
END_TEST

/* A former first worker has published the step that this one has copied. */
START_TEST(step_published_by_another_is_skipped)
{
    world_open(", dense_publish: 1s", 0);
    world_ring(1);
    world_grant(0);
    world.refuse = SHOAL_E_BUSY;
    for (uint32_t i = 0; i < 50 && world.assigns == 0; i++)
        world_run(50);
    ck_assert_uint_gt(world.assigns, 0);
    world.told.published = world.worker[0].step->publish.step;
    world_tell();
    world_run(100);
    world.refuse = 0;
    world_run(2000);
    ck_assert_uint_ge(world.worker[0].asked.published, world.told.published);
    world_close();
}
END_TEST

START_TEST(step_forgets_a_publish_that_is_fenced)
{
    world_open(", dense_publish: 1s", 0);
    world_ring(1);
    world.refuse = SHOAL_E_FENCED;
    world_grant(0);
    world_run(1500);
    ck_assert_uint_gt(world.assigns, 0);
    ck_assert_uint_eq(world.worker[0].asked.published, 0);
    uint64_t at = world.worker[0].step->at;
    world.refuse = 0;
    world_run(3000);
    ck_assert_uint_gt(world.worker[0].asked.published, at);
    world_close();
}
END_TEST

/* All that had the network are gone: it is in the tables, as of the step that their marks say. */
START_TEST(step_learns_the_tables_step_from_their_marks)
{
    static const uint32_t first[] = {0};
    world_open("", 0);
    struct worker *w = world_worker();
    struct rng r = rng_of(1, 2, 3);
    size_t floats = dense_floats + stats_floats;
    float *sum = calloc(floats, sizeof *sum);
    for (uint64_t step = 1; step <= 7; step++) {
        for (size_t i = 0; i < floats; i++)
            sum[i] = rng_float(&r);
        ck_assert_int_eq(network_step(world.tables, sum, 3, 1, step, NULL), 0);
    }
    free(sum);
    for (uint32_t i = 0; i < step_tablets(w->step); i++)
        world.mark[i] = 7;
    world_run(50);
    world_gather(first, 1);
    world_stand(1, 4, WIRE_RING_TABLES);
    ck_assert(!w->asked.has && w->asked.marks_low == 7 && w->asked.marks_high == 7);
    world.told.step = 7;
    world_tell();
    world_run(100);
    ck_assert(w->asked.has && w->asked.step == 7);
    uint64_t one, other;
    ck_assert_int_eq(network_digest(world.tables, &one), 0);
    ck_assert_int_eq(network_digest(w->step->network, &other), 0);
    ck_assert_uint_eq(one, other);
    struct step_arrays a;
    lane_grant(w, 0, 6);
    ck_assert_int_eq(step_admit(w->step, 0, 7, &a), STEP_LATE); /* the weights of step 6 are gone */
    world_close();
}
END_TEST

START_TEST(step_of_a_torn_publish_is_not_taken)
{
    static const uint32_t first[] = {0};
    world_open("", 0);
    struct worker *w = world_worker();
    world.mark[2] = 9;
    world_run(50);
    world_gather(first, 1);
    world_stand(1, 0, WIRE_RING_TABLES);
    ck_assert(!w->asked.has && w->asked.marks_low == 0 && w->asked.marks_high == 9);
    world_close();
}
END_TEST

/* ---- sharded state --------------------------------------------------------------------------- */

/* Lanes that their members do not have yet go on behind this batch, and all end with `last`. */
static void shares_go_on(uint64_t mark, uint64_t last)
{
    for (uint32_t i = 0; i < world.told.members; i++) {
        struct worker *w = &world.worker[world.member[i].worker - 1];
        w->last = last;
        for (uint32_t l = 0; l < world.member[i].lanes; l++)
            if (w->next[world.member[i].first + l] == 0)
                lane_grant(w, world.member[i].first + l, mark);
        lanes_try(w);
    }
    world_run(20000);
    for (uint32_t i = 0; i < world.told.members; i++)
        world_check(&world.worker[world.member[i].worker - 1], last);
}

START_TEST(step_of_shares_is_alike_at_all_workers)
{
    for (uint32_t count = 1; count <= WORLD_WORKERS; count++) {
        world_open(", dense_state: sharded", 0.05);
        world_ring(count);
        shares_go_on(0, 9);
        for (uint32_t i = 0; i < count; i++)
            ck_assert_uint_eq(network_keeps(world.worker[i].step->network),
                              way_kept(&world.worker[i].step->shape, i));
        world_close();
    }
}
END_TEST

/* Any of four dies, and its shares are at its neighbours. A newcomer then takes its own from their
 * keepers. */
START_TEST(step_of_shares_outlives_a_worker)
{
    uint32_t left[WORLD_WORKERS], count = 0, dies = (uint32_t)_i;
    world_open(", dense_state: sharded", 0.05);
    world_ring(3);
    shares_go_on(0, 5);
    world_kill(&world.worker[dies]);
    for (uint32_t i = 0; i < 3; i++)
        if (i != dies)
            left[count++] = i;
    world_gather(left, 2);
    world_stand(2, 5, 0);
    world_run(3000);
    shares_go_on(5, 9);

    (void)world_worker();
    world_run(100);
    left[2] = 3;
    world_gather(left, 3);
    world_stand(3, 9, 0);
    world_run(3000);
    ck_assert(world.worker[3].asked.has && world.worker[3].asked.of == world.told.ring);
    shares_go_on(9, 14);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(world.worker[left[i]].lost + world.worker[left[i]].failed, 0);
    world_close();
}
END_TEST

/* No worker has a share any more: all that is left goes back to the tables, lanes too. */
START_TEST(step_of_lost_shares_comes_from_the_tables)
{
    static const uint32_t all[] = {0, 1, 2};
    world_open(", dense_state: sharded", 0);
    world_ring(3);
    shares_go_on(0, 5);
    world_gather(all, 3);
    world_stand(3, 0, WIRE_RING_TABLES);
    world_run(3000);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert(world.worker[i].asked.has);
        ck_assert_uint_eq(world.worker[i].asked.step, 0);
        for (uint32_t l = 0; l < WORLD_LANES; l++)
            ck_assert_uint_eq(world.worker[i].next[l], 0);
    }
    memset(world.weights, 0, sizeof world.weights);
    shares_go_on(0, 7);
    world_close();
}
END_TEST

/* The coordinator wants the step of a rest in the tables. */
static void rest_begin(uint64_t rest, uint64_t at)
{
    world.told.rest = rest;
    world.told.rest_at = at;
    world.told.publish = true;
    world_tell();
}

static void tables_check(uint64_t step)
{
    for (uint32_t t = 0; t < step_tablets(world.worker[0].step); t++)
        ck_assert_uint_eq(world.mark[t], step);
    uint64_t digest = world_undisturbed(step), tables;
    network_settle(world.tables, step, NULL);
    tables =
        hash_bytes(network_weights(world.tables, NETWORK_DENSE), dense_floats * sizeof(float), 0);
    tables = hash_bytes(network_weights(world.tables, NETWORK_STATS), stats_floats * sizeof(float),
                        tables);
    ck_assert_uint_eq(digest, tables);
}

/* In a rest each member assigns the tablets that it owns, and the tables have the whole network. */
START_TEST(step_of_shares_is_assigned_by_all)
{
    world_open(", dense_state: sharded", 0.05);
    world_ring(3);
    shares_go_on(0, 6);
    rest_begin(1, 6);
    world_run(3000);
    tables_check(6);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(world.worker[i].asked.published, 6);
    /* in another ring they own other shares, of which nothing is assigned yet */
    static const uint32_t two[] = {0, 1};
    world_gather(two, 2);
    world_run(3000);
    ck_assert_uint_eq(world.worker[0].asked.ring, world.told.ring);
    ck_assert_uint_eq(world.worker[0].asked.published, 0);
    world_close();
}
END_TEST

/* A publish ends with its ring: in the next one each member owns other shares, and a tablet that it
 * assigned as before might be another member's. */
START_TEST(step_of_shares_gives_up_a_publish_with_its_ring)
{
    static const uint32_t two[] = {0, 1};
    world_open(", dense_state: sharded", 0);
    world_ring(3);
    shares_go_on(0, 6);
    world.refuse = SHOAL_E_BUSY;
    rest_begin(1, 6);
    world_run(500);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(world.worker[i].step->publish.state, PUBLISH_SENDS);
    world_gather(two, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct step_publish *p = &world.worker[i].step->publish;
        ck_assert_int_eq(p->state, PUBLISH_NONE);
        for (uint32_t k = 0; k < STEP_ASSIGNS_AT_ONCE; k++)
            ck_assert(!request_active(&p->flight[k].request));
    }
    const uint64_t assigns = world.assigns;
    world.refuse = 0;
    world_run(2000);
    ck_assert_uint_eq(world.assigns, assigns);
    world_stand(2, 6, 0);
    world_run(3000);
    rest_begin(2, 6);
    world_run(3000);
    tables_check(6);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_uint_eq(world.worker[i].asked.published, 6);
    world_close();
}
END_TEST

/* Each answer starts the next tablet. All are refused for a while, and messages are lost. */
START_TEST(step_publishes_every_tablet)
{
    world_open(", dense_publish: 1s", 0.05);
    world_ring(1);
    world_grant(0);
    for (uint32_t i = 0; i < 10; i++) {
        world.refuse = i % 3 == 0 ? SHOAL_E_BUSY : 0;
        world_run(700);
    }
    world.refuse = 0;
    world_run(3000);
    const struct step_publish *p = &world.worker[0].step->publish;
    ck_assert_uint_gt(p->done, 0);
    for (uint32_t t = 0; t < step_tablets(world.worker[0].step); t++)
        ck_assert_uint_ge(world.mark[t], p->done);
    world_close();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("step");
    TCase *t = suite_case(s, "step", 100, NULL, NULL);
    tcase_add_test(t, step_of_one_worker);
    tcase_add_test(t, step_is_alike_at_all_workers);
    tcase_add_test(t, step_is_told_when_the_thread_is_back);
    tcase_add_test(t, step_batch_of_a_made_step_gives_nothing);
    tcase_add_test(t, step_newcomer_gets_the_network);
    tcase_add_test(t, step_of_another_ring_is_read_anew);
    tcase_add_test(t, step_of_no_member_is_forgotten);
    tcase_add_test(t, step_goes_without_a_gradient_that_is_not_finite);
    tcase_add_test(t, step_of_two_rates_fails);
    tcase_add_test(t, step_allocates_nothing);
    tcase_add_test(t, step_names_the_worker_that_it_does_not_reach);
    tcase_add_test(t, step_of_a_worker_that_joins_again_has_no_contributions);
    tcase_add_test(t, step_without_memory_for_a_ring_is_unable);
    tcase_add_test(t, step_whose_handover_fails_is_unable);
    tcase_add_test(t, step_rests_where_it_is_told);
    tcase_add_test(t, step_settles_when_pushes_are_acknowledged);
    tcase_add_test(t, step_publishes_what_a_later_step_follows);
    tcase_add_test(t, step_published_by_another_is_skipped);
    tcase_add_test(t, step_forgets_a_publish_that_is_fenced);
    tcase_add_test(t, step_learns_the_tables_step_from_their_marks);
    tcase_add_test(t, step_of_a_torn_publish_is_not_taken);
    tcase_add_test(t, step_of_shares_is_alike_at_all_workers);
    tcase_add_loop_test(t, step_of_shares_outlives_a_worker, 0, 3);
    tcase_add_test(t, step_of_lost_shares_comes_from_the_tables);
    tcase_add_test(t, step_of_shares_is_assigned_by_all);
    tcase_add_test(t, step_of_shares_gives_up_a_publish_with_its_ring);
    tcase_add_test(t, step_publishes_every_tablet);
    return suite_main(s);
}
