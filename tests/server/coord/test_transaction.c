/* test_transaction.c: nothing that tells of a change leaves the coordinator before its transaction
 * is complete, and what waits for it is bounded; a coordinator whose values have another owner
 * stops. */
#include "server/coord/coord.h"
#include "server/coord/job/slot.h"
#include "tests/lib/coord_kept.h"
#include "tests/lib/suite.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define DELAY (20 * MS)

static struct sim *sim;
static struct coord_kept kept;

/* A coordinator, and the server that asks it to found a cluster. */
static struct life {
    struct sim_node *node, *asker;
    struct coord_store *store;
    struct coord *coord;
    peer_t to;
    uint64_t incarnation; /* of the server, beyond 7 */
    uint32_t answers;     /* that name a shard */
    uint32_t hellos, stops;
} life[2];

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct life *l = core;
    struct wire w;
    (void)from;
    ck_assert_int_eq(wire_decode(m, &w, NULL), 0);
    l->answers += w.type == WIRE_TYPE_SHARD_BEAT && w.u.SHARD_BEAT_reply.shard != WIRE_NO_SHARD;
    l->hellos += w.type == WIRE_TYPE_HELLO;
    l->stops += w.type == WIRE_TYPE_STOP;
    msg_free(m);
}

static void on_drained(void *core)
{
    (void)core;
}

static void asker_start(struct life *l, const char *address)
{
    static const struct env_handler handler = {on_message, on_drained, NULL};
    l->asker = sim_node_new(sim, "server", &handler, l);
    ck_assert_int_eq(env_connect(sim_node_env(l->asker), address, "", &l->to), 0);
}

static void coordinator_start(struct life *l, const char *address)
{
    struct coord_options o = {.shards = 1, .version = "test"};
    struct err e = {0};
    memset(l, 0, sizeof *l);
    l->node = sim_node_new(sim, "coordinator", NULL, NULL);
    l->store = coord_kept_open(&kept, sim_node_env(l->node));
    ck_assert_msg(coord_new(&o, sim_node_env(l->node), l->store, &l->coord, &e) == 0, "%s", e.text);
    sim_node_set_handler(l->node, &coord_handler, l->coord);
    sim_listen(l->node, address);
    asker_start(l, address);
}

static void coordinator_end(struct life *l)
{
    sim_kill(l->node);
    sim_kill(l->asker);
    coord_free(l->coord);
    coord_store_close(l->store);
}

static void go(uint64_t ns)
{
    (void)sim_run(sim, sim_now_ns(sim) + ns, NULL, NULL);
}

static void beat(struct life *l)
{
    struct wire w = {.type = WIRE_TYPE_SHARD_BEAT, .id = 1};
    (void)snprintf(w.u.SHARD_BEAT.server, sizeof w.u.SHARD_BEAT.server, "server-0");
    (void)snprintf(w.u.SHARD_BEAT.endpoint, sizeof w.u.SHARD_BEAT.endpoint, "sim://server-0");
    w.u.SHARD_BEAT.shard_count = 1;
    w.u.SHARD_BEAT.incarnation = 7 + l->incarnation;
    w.u.SHARD_BEAT.number = WIRE_NO_SHARD;
    ck_assert_int_eq(env_send(sim_node_env(l->asker), l->to, wire_encode(&w)), 0);
}

/* Sends beats until the coordinator has changes that are under way. */
static void beat_until_it_waits(struct life *l)
{
    go(60 * DELAY); /* it owns the values */
    for (uint32_t i = 0; i < 1000 && !coord_fleet_waits(&l->coord->fleet); i++) {
        beat(l);
        go(MS / 4);
    }
    ck_assert(coord_fleet_waits(&l->coord->fleet));
}

static void setup(void)
{
    struct sim_options options = {.seed = 3, .delay_min_ns = MS / 20, .delay_max_ns = MS / 10};
    sim = sim_new(&options);
    kept = (struct coord_kept){.values = coord_store_memory(),
                               .left = COORD_KEPT_ALL,
                               .delay_ns = DELAY,
                               .rng = rng_of(1, 2, 3)};
}

static void teardown(void)
{
    coord_store_close(kept.values);
    sim_free(sim);
}

START_TEST(coord_answers_when_its_transaction_is_complete)
{
    coordinator_start(&life[0], "sim://first");
    beat_until_it_waits(&life[0]);
    while (coord_fleet_waits(&life[0].coord->fleet)) {
        ck_assert_uint_eq(life[0].answers, 0);
        ck_assert(sim_step(sim));
    }
    go(MS);
    ck_assert_uint_gt(life[0].answers, 0);
    coordinator_end(&life[0]);
}
END_TEST

/* A completion is lost with the coordinator: no answer was sent, whether the values were kept or
 * not. */
START_TEST(coord_whose_completion_is_lost_has_told_nothing)
{
    uint64_t unheard = 0, lost = 0;
    for (uint32_t i = 0; i < 40; i++) {
        coordinator_start(&life[0], "sim://first");
        beat_until_it_waits(&life[0]);
        coordinator_end(&life[0]);
        ck_assert_uint_eq(life[0].answers, 0);
        unheard += kept.unheard;
        lost += kept.lost;
        teardown();
        setup();
        kept.rng = rng_of(i, 2, 3);
    }
    ck_assert(unheard > 0 && lost > 0);
}
END_TEST

/* A coordinator stands still while another one takes its place. Its transactions fail from then
 * on, it stops, and it has told of none of them. */
START_TEST(coord_that_another_has_replaced_stops)
{
    coordinator_start(&life[0], "sim://first");
    beat_until_it_waits(&life[0]);
    sim_pause(life[0].node, sim_now_ns(sim) + 500 * DELAY);
    coordinator_start(&life[1], "sim://second");
    go(100 * DELAY);
    ck_assert_int_eq(coord_fatal(life[1].coord), 0);
    ck_assert(!sim_stopped(life[1].node));
    go(500 * DELAY);
    ck_assert_int_eq(coord_fatal(life[0].coord), SHOAL_E_FENCED);
    ck_assert(sim_stopped(life[0].node));
    ck_assert_uint_eq(life[0].answers, 0);
    ck_assert_int_eq(coord_fatal(life[1].coord), 0);
    coordinator_end(&life[0]);
    coordinator_end(&life[1]);
}
END_TEST

/* ---- a store that stands still --------------------------------------------------------------- */

static void ask(struct life *l, enum wire_type type, uint32_t count)
{
    struct wire w = {.type = type, .id = 1};
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_int_eq(env_send(sim_node_env(l->asker), l->to, wire_encode(&w)), 0);
        if (i % 64 == 63)
            go(MS / 4);
    }
    go(MS);
}

static uint32_t held(const struct life *l)
{
    uint32_t count = 0;
    for (const struct coord_held *h = l->coord->fleet.held; h != NULL; h = h->next)
        count++;
    return count;
}

/* Starts a coordinator with a transaction that stays under way for minutes. */
static void stand_still(struct life *l)
{
    coordinator_start(l, "sim://first");
    go(60 * DELAY); /* it owns the values */
    kept.delay_ns = 50000 * DELAY;
    beat_until_it_waits(l);
}

static bool goes_on(void *context)
{
    const struct life *l = context;
    return sim_stopped(l->node) || !coord_fleet_waits(&l->coord->fleet);
}

static void go_on(struct life *l)
{
    kept.delay_ns = 0;
    (void)sim_run(sim, UINT64_MAX, goes_on, l);
    go(10 * MS);
}

START_TEST(coord_whose_store_stands_still_holds_a_bounded_number)
{
    struct life *l = &life[0];
    for (uint32_t stall = 0; stall < 2; stall++) {
        if (stall == 0)
            stand_still(l);
        ask(l, WIRE_TYPE_HELLO, LIMIT_HELD + 1000);
        ck_assert(coord_fleet_waits(&l->coord->fleet));
        ck_assert_uint_eq(l->hellos, 0);
        ck_assert_uint_eq(held(l), LIMIT_HELD);

        go_on(l);
        ck_assert_uint_eq(held(l), 0);
        ck_assert_uint_gt(l->hellos, 0);
        l->hellos = 0;
        ask(l, WIRE_TYPE_HELLO, 1); /* asked again */
        ck_assert_uint_eq(l->hellos, 1);
        l->hellos = 0;
        kept.delay_ns = 50000 * DELAY;
        l->incarnation++;
        beat_until_it_waits(l);
    }
    coordinator_end(l);
}
END_TEST

START_TEST(coord_whose_store_stands_still_holds_bounded_bytes)
{
    static unsigned char bytes[LIMIT_FRAME_BYTES];
    struct life *l = &life[0];
    const struct wire w = {.type = WIRE_TYPE_REPORT, .reply = true};
    uint32_t count = 0;
    stand_still(l);
    struct coord_fleet *f = &l->coord->fleet;
    peer_t to = f->members.shard[0].peer;
    while (count <= LIMIT_HELD_BYTES / sizeof bytes &&
           coord_send_frame(f, to, &w, bytes, sizeof bytes))
        count++;
    ck_assert_uint_eq(count, LIMIT_HELD_BYTES / sizeof bytes - 1); /* headers take some, too */
    ck_assert(coord_send_frame(f, to, &w, bytes, 1));

    go_on(l);
    ck_assert(coord_send_frame(f, to, &w, bytes, sizeof bytes));
    coordinator_end(l);
}
END_TEST

/* The reply to a STOP is held beyond the bound: there is no coordinator to repeat the request to.
 * No request is taken after it. */
START_TEST(coord_whose_store_stands_still_answers_a_stop)
{
    struct life *l = &life[0], *other = &life[1];
    stand_still(l);
    ask(l, WIRE_TYPE_HELLO, LIMIT_HELD);
    ck_assert_uint_eq(held(l), LIMIT_HELD);
    memset(other, 0, sizeof *other);
    asker_start(other, "sim://first");
    ask(other, WIRE_TYPE_STOP, 2);
    ask(other, WIRE_TYPE_PULL, 1); /* lacks its frame of keys */
    ck_assert_uint_eq(held(l), LIMIT_HELD + 1);

    go_on(l);
    ck_assert(sim_stopped(l->node));
    ck_assert_uint_eq(other->stops, 1);
    sim_kill(other->asker);
    coordinator_end(l);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_transaction");
    TCase *t = suite_case(s, "transaction", 60, setup, teardown);
    tcase_add_test(t, coord_answers_when_its_transaction_is_complete);
    tcase_add_test(t, coord_whose_completion_is_lost_has_told_nothing);
    tcase_add_test(t, coord_that_another_has_replaced_stops);
    tcase_add_test(t, coord_whose_store_stands_still_holds_a_bounded_number);
    tcase_add_test(t, coord_whose_store_stands_still_holds_bounded_bytes);
    tcase_add_test(t, coord_whose_store_stands_still_answers_a_stop);
    return suite_main(s);
}
