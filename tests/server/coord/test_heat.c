/* test_heat.c: the coordinator collects the heat of tablets; the case plays the shards. */
#include "server/coord/fleet/fleet.h"
#include "tests/lib/suite.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

enum { TABLETS = 16 + 32 };

static struct {
    struct sim *sim;
    struct coord_fleet f;
    struct coord_shard shard[2];
    uint16_t shard_of[TABLETS];
    struct coord_call asked; /* the newest */
    uint32_t calls, ends;
    bool no_memory;
    int status;
    char text[ERR_TEXT_MAX];
} r;

bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *call);
bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *call)
{
    (void)calls;
    r.asked = *call;
    r.calls++;
    return !r.no_memory;
}

/* Two tables, of 16 and 32 tablets, whose halves two shards lead. */
static void fleet_make(void)
{
    memset(&r, 0, sizeof r);
    r.sim = sim_new(&(struct sim_options){.seed = 1});
    r.f.env = sim_node_env(sim_node_new(r.sim, "coordinator", NULL, NULL));
    r.f.options.lease_ms = 3000;
    r.f.members.shards = 2;
    r.f.members.shard = r.shard;
    r.f.cluster = (struct coord_cluster){.id = {1, 2},
                                         .map_epoch = 4,
                                         .tables = 2,
                                         .tablets = TABLETS,
                                         .bits = {4, 5},
                                         .first = {0, 16},
                                         .shard_of = r.shard_of};
    for (uint32_t i = 0; i < TABLETS; i++)
        r.shard_of[i] = (i >= 8 && i < 16) || i >= 32;
    sim_run(r.sim, 10 * SECOND, NULL, NULL);
}

static void fleet_free(void)
{
    coord_heat_close(&r.f);
    sim_free(r.sim);
}

static void ended(void *context, int status, const char *text)
{
    ck_assert_ptr_eq(context, &r);
    r.ends++;
    r.status = status;
    (void)snprintf(r.text, sizeof r.text, "%s", text);
}

static void ask(int expected)
{
    struct err e = {0};
    ck_assert_msg(coord_heat_ask(&r.f, ended, &r, &e) == expected, "%s", e.text);
}

/* A shard tells of `count` tablets from `first` of the table that was asked for. */
static void told(uint32_t shard, uint32_t first, uint32_t count)
{
    struct wire_heat heat[64] = {{0}};
    struct wire w = {.type = WIRE_TYPE_HEAT, .reply = true};
    struct msg m = {0};
    for (uint32_t i = 0; i < count; i++)
        heat[i] = (struct wire_heat){1, 100 * (shard + 1), 10 + first + i, 1000};
    w.u.HEAT_reply = (struct wire_HEAT_reply){first, count};
    m.frame[1].data = heat;
    m.frame[1].bytes = count * sizeof heat[0];
    r.asked.on_reply(r.asked.context, &r.asked, shard, &w, &m);
}

static void all_told(int status);

/* What the status page asks for delays no order: one that comes meanwhile gets the figures. */
START_TEST(an_order_takes_over_what_nothing_waits_for)
{
    struct err e = {0};
    fleet_make();
    ck_assert_int_eq(coord_heat_ask(&r.f, NULL, NULL, &e), 0);
    told(0, 0, 16);
    ask(0);
    ck_assert_uint_eq(r.calls, 1);
    all_told(0);
    all_told(0);
    ck_assert_uint_eq(r.ends, 1);
    ck_assert_int_eq(r.status, 0);
    ck_assert_uint_ne(r.f.heat.of[0].load, 0);
    ck_assert_int_eq(coord_heat_ask(&r.f, NULL, NULL, &e), 0);
    ck_assert(!r.f.heat.complete);
    all_told(0);
    all_told(0); /* with no one to tell */
    ck_assert(r.f.heat.complete);
    ck_assert_uint_eq(r.ends, 1);
    fleet_free();
}
END_TEST

static void all_told(int status)
{
    struct coord_call call = r.asked;
    call.on_done(call.context, &call, status, status == 0 ? "" : "the shard says so");
}

START_TEST(each_tablets_figures_are_those_of_its_leader)
{
    fleet_make();
    ask(0);
    ck_assert_uint_eq(r.asked.request.u.HEAT.table, 0);
    told(1, 8, 8);
    told(0, 0, 16); /* of tablets that it does not lead, too */
    all_told(0);
    ck_assert_uint_eq(r.ends, 0);
    ck_assert_uint_eq(r.asked.request.u.HEAT.table, 1);
    told(0, 0, 16);
    told(1, 16, 16);
    all_told(0);
    ck_assert_uint_eq(r.ends, 1);
    ck_assert_int_eq(r.status, 0);
    ck_assert_uint_eq(r.f.heat.tablets, TABLETS);
    for (uint32_t i = 0; i < TABLETS; i++) {
        uint32_t tablet = i < 16 ? i : i - 16;
        ck_assert_uint_eq(r.f.heat.of[i].bytes, 100u * (r.shard_of[i] + 1u));
        ck_assert_uint_eq(r.f.heat.of[i].load, 1010 + tablet);
    }
    fleet_free();
}
END_TEST

/* A peer's numbers of tablets are not believed. */
START_TEST(tablets_beyond_the_table_are_left_out)
{
    fleet_make();
    ask(0);
    told(0, 15, 64);
    told(1, 15, 64);
    told(1, 4000000000u, 64);
    all_told(0);
    all_told(0);
    ck_assert_uint_ne(r.f.heat.of[15].load, 0);
    for (uint32_t i = 16; i < TABLETS; i++)
        ck_assert_uint_eq(r.f.heat.of[i].load, 0);
    fleet_free();
}
END_TEST

START_TEST(one_collection_runs_at_a_time)
{
    fleet_make();
    ask(0);
    ask(SHOAL_E_BUSY);
    all_told(0);
    all_told(0);
    ask(0);
    ck_assert_uint_eq(r.f.heat.of[15].load, 0); /* the last one's figures are gone */
    fleet_free();
}
END_TEST

START_TEST(a_refusal_ends_it)
{
    fleet_make();
    ask(0);
    all_told(SHOAL_E_NOMEM);
    ck_assert_int_eq(r.status, SHOAL_E_NOMEM);
    ck_assert_str_eq(r.text, "the shard says so");
    ask(0);
    r.no_memory = true;
    all_told(0); /* the next table cannot be asked for */
    ck_assert_int_eq(r.status, SHOAL_E_NOMEM);
    ask(SHOAL_E_NOMEM);
    r.no_memory = false;
    ask(0);
    fleet_free();
}
END_TEST

START_TEST(another_map_ends_it)
{
    fleet_make();
    ask(0);
    told(0, 0, 8);
    r.f.cluster.map_epoch++;
    r.f.cluster.tablets = 0;
    r.f.cluster.tables = 0;
    told(1, 8, 8);
    all_told(0);
    ck_assert_int_eq(r.status, SHOAL_E_AGAIN);
    ask(SHOAL_E_UNAVAILABLE);
    fleet_free();
}
END_TEST

START_TEST(a_shard_that_is_away_ends_it_in_ten_seconds)
{
    fleet_make();
    for (uint32_t s = 0; s < 2; s++)
        r.shard[s] = (struct coord_shard){.seen = true, .ready = true, .server = "b"};
    r.shard[0].beat_ns = 20 * SECOND;
    ask(0);
    coord_heat_tick(&r.f);
    sim_run(r.sim, 20 * SECOND - 1, NULL, NULL);
    coord_heat_tick(&r.f);
    ck_assert_uint_eq(r.ends, 0);
    sim_run(r.sim, 20 * SECOND, NULL, NULL);
    coord_heat_tick(&r.f);
    coord_heat_tick(&r.f);
    ck_assert_uint_eq(r.ends, 1);
    ck_assert_int_eq(r.status, SHOAL_E_UNAVAILABLE);
    ck_assert_str_eq(r.text, "shard 1 is away, server b: ask again when it is back");
    fleet_free();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_heat");
    TCase *c = suite_case(s, "heat", 60, NULL, NULL);
    tcase_add_test(c, each_tablets_figures_are_those_of_its_leader);
    tcase_add_test(c, tablets_beyond_the_table_are_left_out);
    tcase_add_test(c, one_collection_runs_at_a_time);
    tcase_add_test(c, an_order_takes_over_what_nothing_waits_for);
    tcase_add_test(c, a_refusal_ends_it);
    tcase_add_test(c, another_map_ends_it);
    tcase_add_test(c, a_shard_that_is_away_ends_it_in_ten_seconds);
    return suite_main(s);
}
