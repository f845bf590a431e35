/* test_fleet_moves.c: plans by which tablets go from shard to shard; servers that join and leave.
 * The real coordinator with fake shards. */
#include "proto/base/log.h"
#include "server/coord/coord.h"
#include "server/coord/core/core.h"
#include "server/coord/fleet/add.h"
#include "server/coord/fleet/moves_order.h"
#include "server/coord/job/back.h"
#include "server/coord/job/sight.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/status.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/cut.h"
#include "tests/lib/coord_kept.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define SHARDS 3u
#define TABLETS 64u
#define SERVERS 8u /* those that join among them */

static struct {
    struct sim *sim;
    struct sim_node *node;
    struct coord_store *store;
    struct coord_kept kept;
    struct coord *coord;
    uint32_t replicas, shards;
    struct fake_shard *shard; /* (SERVERS) */
} r;

static const struct err idle; /* a server may join or leave at any time */

static struct coord_fleet *fleet(void)
{
    return &r.coord->fleet;
}

static void coord_start(void)
{
    struct err e = {0};
    struct coord_options o = {.shards = r.shards,
                              .replicas = r.replicas,
                              .lease_ms = 1000,
                              .resend_ms = 50,
                              .version = "test"};
    r.node = sim_node_new(r.sim, "coordinator", NULL, NULL);
    r.store = coord_kept_open(&r.kept, sim_node_env(r.node));
    ck_assert_msg(coord_new(&o, sim_node_env(r.node), r.store, &r.coord, &e) == 0, "%s", e.text);
    sim_node_set_handler(r.node, &coord_handler, r.coord);
    sim_listen(r.node, "sim://coordinator");
}

static void coord_kill(void)
{
    sim_kill(r.node);
    coord_free(r.coord);
    coord_store_close(r.store);
    r.coord = NULL;
}

static void go(uint64_t ms)
{
    (void)sim_run(r.sim, sim_now_ns(r.sim) + ms * MS, NULL, NULL);
}

static void shard_start(uint32_t i, uint64_t incarnation)
{
    char name[24];
    (void)snprintf(name, sizeof name, "server-%u", i);
    fake_shard_start(&r.shard[i], r.sim, name, 0, incarnation);
}

/* Returns the shard of a number. */
static struct fake_shard *shard(uint32_t number)
{
    for (uint32_t i = 0; i < SERVERS; i++)
        if (r.shard[i].server[0] != 0 && r.shard[i].number == number)
            return &r.shard[i];
    ck_abort_msg("no shard has number %u", number);
}

static void again(struct fake_shard *s, uint64_t incarnation)
{
    char name[LIMIT_NAME];
    (void)snprintf(name, sizeof name, "%s", s->server);
    fake_shard_start(s, r.sim, name, 0, incarnation);
}

/* A cluster whose only table has its tablets on three shards. */
static void rig(uint32_t replicas, bool tables)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    const struct table_schema schema = {.name = "emb", .width = 2, .tablet_bits = 6};
    struct table_set numbers = {{0}}, left = numbers;
    struct err e = {0};
    memset(&r, 0, sizeof r);
    r.replicas = replicas;
    r.shards = SHARDS;
    log_set_level(LOG_LEVEL_ERROR);
    r.sim = sim_new(&calm);
    r.kept = (struct coord_kept){.values = coord_store_memory(),
                                 .left = COORD_KEPT_ALL,
                                 .delay_ns = 2 * MS,
                                 .rng = rng_of(1, 2, 3)};
    r.shard = calloc(SERVERS, sizeof *r.shard);
    coord_start();
    for (uint32_t i = 0; i < SHARDS * replicas; i++)
        shard_start(i, 1 + 100 * i);
    go(2000);
    ck_assert(coord_cluster_known(&fleet()->cluster));
    if (tables)
        ck_assert_msg(coord_cluster_map(fleet(), &schema, 1, false, &numbers, &left, &e) == 0, "%s",
                      e.text);
    go(1000);
}

static void setup(void)
{
    rig(1, true);
}

static void teardown(void)
{
    if (r.coord != NULL)
        coord_kill();
    coord_store_close(r.kept.values);
    sim_free(r.sim);
    for (uint32_t i = 0; i < SERVERS; i++)
        free(r.shard[i].shard_of);
    free(r.shard);
}

/* Starts a coordinator without a store, whose file says as many shards. */
static void store_lose(uint32_t said)
{
    coord_kill();
    coord_store_close(r.kept.values);
    r.kept.values = coord_store_memory();
    r.kept.left = COORD_KEPT_ALL;
    r.shards = said;
    coord_start();
}

static uint32_t owned(uint32_t shard)
{
    return coord_cluster_led(&fleet()->cluster, shard);
}

/* Begins a plan that moves all tablets of one shard to another. */
static void plan(uint32_t from, uint32_t to)
{
    uint16_t goal[TABLETS];
    struct err e = {0};
    for (uint32_t i = 0; i < TABLETS; i++) {
        goal[i] = fleet()->cluster.shard_of[i];
        if (goal[i] == from)
            goal[i] = (uint16_t)to;
    }
    ck_assert_msg(coord_moves_begin(fleet(), MOVES_REBALANCE, "", goal, &e) == 0, "%s", e.text);
}

static uint64_t epoch(void)
{
    return fleet()->cluster.map_epoch;
}

START_TEST(coord_moves_move_all_tablets_of_a_plan)
{
    uint32_t two = owned(2);
    plan(0, 1);
    go(20000);
    ck_assert_uint_eq(owned(0), 0);
    ck_assert_uint_eq(owned(1), TABLETS - two);
    ck_assert_uint_eq(owned(2), two);
    ck_assert_int_eq(fleet()->moves.kind, MOVES_NONE);
    for (uint32_t i = 0; i < SHARDS; i++) { /* at the end all know the map */
        ck_assert_uint_eq(shard(i)->map_epoch, epoch());
        ck_assert_int_eq(memcmp(shard(i)->shard_of, fleet()->cluster.shard_of, TABLETS * 2), 0);
    }
    ck_assert_uint_gt(shard(1)->takes, 1); /* in several groups */
    ck_assert_uint_eq(shard(0)->takes + shard(2)->takes, 0);
}
END_TEST

/* Moves all tablets of shard 0 over a disk on which no group can be short; returns the groups. */
static uint32_t groups_on_a_slow_disk(uint64_t bytes)
{
    r.kept.delay_ns = COORD_MOVE_FREEZE_NS + 10 * MS;
    shard(1)->take_bytes = bytes;
    ck_assert_uint_gt(owned(0), 16);
    plan(0, 1);
    go(60000);
    ck_assert_uint_eq(owned(0), 0);
    return shard(1)->takes;
}

/* 4, 8, 16 */
START_TEST(coord_moves_light_tablets_go_together_whatever_they_take)
{
    ck_assert_uint_le(groups_on_a_slow_disk(1000), 3);
}
END_TEST

/* A disk on which a group takes seconds: 32 tablets are as many as wait for it together. */
START_TEST(coord_moves_light_groups_have_a_bound)
{
    ck_assert_uint_gt(TABLETS, COORD_MOVE_LIGHT);
    r.kept.delay_ns = 1000 * MS;
    uint16_t goal[TABLETS];
    struct err e = {0};
    for (uint32_t i = 0; i < TABLETS; i++)
        goal[i] = 1;
    ck_assert_int_eq(coord_moves_begin(fleet(), MOVES_REBALANCE, "", goal, &e), 0);
    for (uint32_t i = 0; i < 200 && fleet()->moves.kind != MOVES_NONE; i++) {
        go(1000);
        ck_assert_uint_le(fleet()->moves.size, COORD_MOVE_LIGHT);
    }
    ck_assert_int_eq(fleet()->moves.kind, MOVES_NONE);
}
END_TEST

START_TEST(coord_moves_heavy_tablets_go_one_by_one)
{
    ck_assert_uint_ge(groups_on_a_slow_disk(COORD_MOVE_BYTES), 16 - 4 - 2);
}
END_TEST

/* Light tablets come first, so that groups grow; then heavy ones: by what the shards have told of
 * them, they go one by one from the first on. */
START_TEST(coord_moves_group_of_light_tablets_meets_heavy_ones)
{
    struct coord_heat *h = &fleet()->heat;
    uint32_t light = 0, heavies = 0;
    shard(1)->take_bytes = 1000;
    *h = (struct coord_heat){.of = calloc(TABLETS, sizeof *h->of), .tablets = TABLETS};
    h->complete = true;
    for (uint32_t i = 0; i < TABLETS; i++) {
        h->of[i].bytes = 1000;
        if (fleet()->cluster.shard_of[i] == 0 && light++ >= 12) /* 4, 8 */
            h->of[i].bytes = 50 * COORD_MOVE_BYTES;
    }
    plan(0, 1);
    for (uint32_t at = 0; fleet()->moves.kind != MOVES_NONE; go(1)) {
        const struct coord_group *g = &fleet()->moves.group;
        uint32_t heavy = 0;
        if (shard(1)->takes == at)
            continue;
        at = shard(1)->takes;
        for (uint32_t i = 0; i < g->count; i++)
            heavy += h->of[g->tablet[i]].bytes > COORD_MOVE_BYTES;
        ck_assert_msg(heavy <= 1 && (heavy == 0 || g->count == 1), "%u heavy tablets of %u", heavy,
                      g->count);
        heavies += heavy;
    }
    ck_assert_uint_gt(heavies, 3);
}
END_TEST

START_TEST(coord_moves_tell_the_taker_first)
{
    uint64_t before = epoch();
    plan(0, 1);
    for (uint32_t i = 0; i < 5000 && epoch() < before + 3; i++) {
        (void)sim_run(r.sim, sim_now_ns(r.sim) + MS / 10, NULL, NULL);
        ck_assert_uint_ge(shard(1)->map_epoch, shard(0)->map_epoch);
    }
    ck_assert_uint_ge(epoch(), before + 3);
}
END_TEST

/* The map is stored before a shard is told of it. */
START_TEST(coord_moves_map_is_stored_before_it_is_told)
{
    r.kept.delay_ns = 300 * MS;
    uint64_t before = epoch(), known = shard(1)->map_epoch;
    plan(0, 1);
    while (shard(1)->takes == 0 || epoch() == before)
        go(1);
    go(200); /* taken, but the transaction is not complete */
    ck_assert_uint_eq(shard(1)->map_epoch, known);
    go(300);
    ck_assert_uint_gt(shard(1)->map_epoch, before);
}
END_TEST

/* Returns when a group is being taken. */
static void taking(void)
{
    shard(1)->take_slow = true;
    plan(0, 1);
    while (fleet()->moves.state != MOVES_TAKING)
        go(1);
    go(20);
    ck_assert_uint_gt(shard(1)->takes, 0);
}

START_TEST(coord_moves_giver_that_starts_again_ends_the_group)
{
    uint64_t before = epoch();
    uint32_t had = owned(0);
    taking();
    sim_kill(shard(0)->node);
    again(shard(0), 2);
    go(500);
    ck_assert_uint_gt(epoch(), before);
    ck_assert_uint_eq(owned(0), had);
    ck_assert_uint_eq(shard(0)->map_epoch, epoch());
    ck_assert_uint_eq(shard(1)->map_epoch, epoch());
    ck_assert_uint_eq(shard(0)->gone, 0);
    shard(1)->take_slow = false;
    go(30000);
    ck_assert_uint_eq(owned(0), 0);
}
END_TEST

START_TEST(coord_moves_taker_that_refuses_ends_the_group)
{
    uint32_t had = owned(0);
    shard(1)->take_fails = "there is no room";
    plan(0, 1);
    go(500);
    ck_assert_uint_eq(owned(0), had);
    ck_assert_str_eq(fleet()->moves.text, "there is no room");
    shard(1)->take_fails = NULL;
    go(30000);
    ck_assert_uint_eq(owned(0), 0);
}
END_TEST

/* The taker never learns of a table whose schema the coordinator does not know: a plan (_i 0)
 * leaves its tablets out, and ends; a drain (_i 1) says what it waits for. */
START_TEST(coord_moves_taker_without_the_table_ends_the_group)
{
    char problem[ERR_TEXT_MAX];
    uint16_t goal[TABLETS];
    struct err e = {0};
    uint32_t had = owned(0);
    shard(1)->take_fails = "no table here has tablet 5";
    shard(1)->take_status = SHOAL_E_NO_TABLE;
    for (uint32_t i = 0; i < fleet()->cluster.tablets; i++)
        goal[i] = fleet()->cluster.shard_of[i] == 0 ? 1 : fleet()->cluster.shard_of[i];
    enum coord_moves_kind kind = _i == 0 ? MOVES_REBALANCE : MOVES_DRAIN;
    ck_assert_int_eq(coord_moves_begin(fleet(), kind, _i == 0 ? "" : shard(0)->server, goal, &e),
                     0);
    go(500);
    ck_assert_uint_eq(owned(0), had);
    ck_assert(!fleet()->calls.held);
    if (_i == 0) {
        go(3000);
        ck_assert_int_eq(fleet()->moves.kind, MOVES_NONE);
        ck_assert_uint_eq(owned(0), had);
        return;
    }
    ck_assert(coord_moves_problem(fleet(), problem, sizeof problem));
    ck_assert_msg(strstr(problem, "no table here has tablet 5: the coordinator knows") != NULL,
                  "%s", problem);
    shard(1)->take_fails = NULL;
    go(30000);
    ck_assert_uint_eq(owned(0), 0);
}
END_TEST

/* Trying again changes nothing: the plan ends, and is a problem until the next one. */
START_TEST(coord_moves_a_tablet_that_is_too_large_ends_the_plan)
{
    char text[ERR_TEXT_MAX];
    uint32_t had = owned(0);
    shard(1)->take_fails = "a tablet does not fit a journal segment: raise journal.segment";
    shard(1)->take_status = SHOAL_E_TOO_BIG;
    plan(0, 1);
    go(3000);
    ck_assert_int_eq(fleet()->moves.kind, MOVES_NONE);
    ck_assert_uint_eq(owned(0), had);
    ck_assert_uint_eq(shard(1)->takes, 1);
    ck_assert(!fleet()->calls.held);
    ck_assert(coord_moves_problem(fleet(), text, sizeof text));
    ck_assert_ptr_nonnull(strstr(text, "ended early: a tablet does not fit a journal segment"));
    shard(1)->take_fails = NULL;
    plan(0, 1);
    ck_assert(!coord_moves_problem(fleet(), text, sizeof text));
    go(30000);
    ck_assert_uint_eq(owned(0), 0);
    ck_assert(!coord_moves_problem(fleet(), text, sizeof text));
}
END_TEST

static void no_reply(void *context, const struct coord_call *call, int status, const char *text)
{
    (void)context;
    (void)call;
    (void)status;
    (void)text;
}

START_TEST(coord_moves_hold_other_calls)
{
    taking();
    uint32_t asked = shard(2)->names_asked;
    ck_assert(coord_call_start(&fleet()->calls,
                               &(struct coord_call){.context = fleet(),
                                                    .request = {.type = WIRE_TYPE_NAMES_HELD},
                                                    .target = 2,
                                                    .on_done = no_reply}));
    go(300);
    ck_assert_uint_eq(shard(2)->names_asked, asked);
    shard(1)->take_slow = false;
    go(300);
    ck_assert_uint_eq(shard(2)->names_asked, asked + 1);
}
END_TEST

/* No group begins while a call is open: it may be a fence or a cut. */
START_TEST(coord_moves_wait_for_open_calls)
{
    shard(2)->map_slow = true;
    ck_assert(coord_call_start(&fleet()->calls,
                               &(struct coord_call){.context = fleet(),
                                                    .request = {.type = WIRE_TYPE_MAP_HELD},
                                                    .target = 2,
                                                    .on_done = no_reply}));
    plan(0, 1);
    go(500);
    ck_assert_uint_eq(shard(1)->takes, 0);
    shard(2)->map_slow = false;
    go(500);
    ck_assert_uint_gt(shard(1)->takes, 0);
}
END_TEST

/* The drop of a run waits for the next job: no plan waits for it. */
START_TEST(coord_moves_do_not_wait_for_a_run_to_be_dropped)
{
    static const struct coord_setup nothing;
    ck_assert(coord_call_start(&fleet()->calls,
                               &(struct coord_call){.context = fleet(),
                                                    .request = {.type = WIRE_TYPE_RUN_DROP},
                                                    .target = COORD_NOBODY,
                                                    .set_up = &nothing,
                                                    .on_done = no_reply}));
    plan(0, 1);
    go(20000);
    ck_assert_uint_eq(owned(0), 0);
}
END_TEST

/* A coordinator that ends in the middle of a group leaves the giver frozen: the next one tells all
 * shards a map of a new epoch, then goes on. */
START_TEST(coord_moves_coordinator_that_starts_again_goes_on)
{
    uint64_t before = epoch();
    taking();
    coord_kill();
    shard(1)->take_slow = false;
    coord_start();
    while (epoch() == before)
        go(1);
    for (uint32_t i = 0; i < 20000 && shard(0)->map_epoch <= before; i++)
        go(1);
    ck_assert_uint_eq(shard(0)->map_epoch, before + 1);
    go(30000);
    ck_assert_uint_eq(owned(0), 0);
    ck_assert_int_eq(fleet()->moves.kind, MOVES_NONE);
}
END_TEST

/* It ended between the map and the giver: the giver hears which tablets may leave. */
START_TEST(coord_moves_giver_hears_of_its_tablets_after_a_restart)
{
    sim_cut(r.node, shard(0)->node, UINT64_MAX);
    uint64_t before = epoch(), known = shard(0)->map_epoch;
    plan(0, 1);
    while (shard(1)->map_epoch <= before)
        go(1);
    coord_kill();
    ck_assert_uint_eq(shard(0)->map_epoch, known);
    coord_start();
    go(1000);
    ck_assert_uint_gt(shard(0)->map_epoch, before);
    go(30000);
    ck_assert_uint_eq(owned(0), 0);
}
END_TEST

START_TEST(coord_moves_stop_ends_the_plan_with_its_group)
{
    struct err e = {0};
    plan(0, 1);
    while (fleet()->moves.moved == 0)
        go(1);
    ck_assert_int_eq(coord_moves_stop(fleet(), &e), 0);
    go(1000);
    ck_assert_int_eq(fleet()->moves.kind, MOVES_NONE);
    ck_assert_uint_gt(owned(0), 0);
    ck_assert_int_eq(coord_moves_stop(fleet(), &e), SHOAL_E_NOT_FOUND);
    coord_kill();
    coord_start();
    go(3000);
    ck_assert_int_eq(fleet()->moves.kind, MOVES_NONE);
    ck_assert_uint_eq(fleet()->calls.held, false);
}
END_TEST

START_TEST(coord_moves_one_plan_at_a_time)
{
    struct err e = {0};
    plan(0, 1);
    ck_assert_int_eq(coord_moves_begin(fleet(), MOVES_REBALANCE, "", fleet()->cluster.shard_of, &e),
                     SHOAL_E_EXISTS);
    go(30000);
    ck_assert_int_eq(coord_moves_begin(fleet(), MOVES_REBALANCE, "", fleet()->cluster.shard_of, &e),
                     SHOAL_E_NOT_FOUND);
}
END_TEST

/* ---- servers that join and leave ------------------------------------------------------------- */

/* Orders that these servers join; returns the status. *e: why not. */
static int add(const char *servers, struct err *e)
{
    struct json *told = NULL;
    *e = (struct err){0};
    int rc = coord_add_order(fleet(), servers, &idle, &told, e);
    ck_assert_int_eq(told != NULL, rc == 0);
    json_free(told);
    coord_fleet_end(fleet());
    return rc;
}

/* Moves all tablets away from a server, which is then retired. */
static void drain(const char *server)
{
    uint16_t goal[TABLETS];
    struct err e = {0};
    for (uint32_t i = 0; i < TABLETS; i++) {
        goal[i] = fleet()->cluster.shard_of[i];
        for (uint32_t s = i % fleet()->members.shards; coord_copies_on(fleet(), goal[i], server);
             s = (s + 1) % fleet()->members.shards)
            if (coord_member_used(&fleet()->members, s))
                goal[i] = (uint16_t)s;
    }
    ck_assert_msg(coord_moves_begin(fleet(), MOVES_DRAIN, server, goal, &e) == 0, "%s", e.text);
    go(20000);
    ck_assert_int_eq(fleet()->moves.kind, MOVES_NONE);
}

/* The cluster has had all numbers: the next shards get retired ones. */
static void numbers_spend(void)
{
    struct coord_members *m = &fleet()->members;
    while (m->shards < LIMIT_SHARDS)
        m->shard[m->shards++].retired = true;
}

static uint32_t shards(void)
{
    return coord_member_count(&fleet()->members);
}

START_TEST(coord_add_gives_a_server_that_waits_a_number)
{
    struct err e;
    ck_assert_int_eq(add("server-3", &e), SHOAL_E_NOT_FOUND);
    shard_start(3, 1);
    shard_start(4, 1);
    go(1000);
    ck_assert_ptr_nonnull(strstr(r.shard[3].refused, "shoal add server-3"));
    ck_assert_msg(add("server-3", &e) == 0, "%s", e.text);
    ck_assert_int_eq(add("server-3", &e), 0); /* before its next beat */
    ck_assert_uint_eq(shards(), 4);
    go(1000);
    ck_assert_uint_eq(shards(), 4);
    ck_assert_uint_eq(r.shard[3].number, 3);
    ck_assert_uint_eq(r.shard[3].map_epoch, epoch());
    ck_assert_str_ne(r.shard[4].refused, ""); /* it was not named */
    ck_assert_int_eq(add("server-3", &e), 0); /* the order came twice */
    ck_assert_uint_eq(shards(), 4);
    plan(0, 3);
    go(20000);
    ck_assert_uint_gt(owned(3), 0);
}
END_TEST

/* A server of the cluster that has a shard more in its file waits for a place for that one. */
START_TEST(coord_add_gives_a_server_one_more_shard)
{
    struct err e;
    fake_shard_start(&r.shard[3], r.sim, "server-0", 1, 1);
    go(1000);
    ck_assert_msg(add("server-0 server-0", &e) == 0, "%s", e.text);
    go(1000);
    ck_assert_uint_eq(shards(), 4);
    ck_assert_uint_eq(r.shard[3].number, 3);
}
END_TEST

/* The number belongs to the named server alone, also when the coordinator starts again before the
 * server's next beat. */
START_TEST(coord_add_is_stored)
{
    struct err e;
    shard_start(3, 1);
    shard_start(4, 1);
    go(1000);
    ck_assert_int_eq(add("server-4", &e), 0);
    go(5); /* stored */
    coord_kill();
    coord_start();
    go(3000);
    ck_assert_uint_eq(shards(), 4);
    ck_assert_uint_eq(r.shard[4].number, 3);
    ck_assert_str_ne(r.shard[3].refused, "");
}
END_TEST

static void count_done(void *context, const struct coord_call *call, int status, const char *text)
{
    (void)call;
    (void)text;
    ck_assert_int_eq(status, 0);
    (*(uint32_t *)context)++;
}

/* A call that was open before a server joined or left does not ask it. */
START_TEST(coord_add_leaves_open_calls_alone)
{
    static const struct coord_setup nothing;
    struct err e;
    uint32_t done = 0;
    shard_start(3, 1);
    go(1000);
    ck_assert(coord_call_start(&fleet()->calls,
                               &(struct coord_call){.context = &done,
                                                    .request = {.type = WIRE_TYPE_RUN_DROP},
                                                    .target = COORD_NOBODY,
                                                    .set_up = &nothing,
                                                    .on_done = count_done}));
    const struct coord_call *call = fleet()->calls.head;
    ck_assert_uint_eq(call->missing, 3);
    ck_assert_int_eq(add("server-3", &e), 0);
    ck_assert_uint_eq(call->missing, 3);
    drain(fleet()->members.shard[3].server);
    ck_assert_uint_eq(call->missing, 3);
    drain(fleet()->members.shard[2].server);
    ck_assert_uint_eq(call->missing, 2);
    drain(fleet()->members.shard[1].server);
    ck_assert_uint_eq(done, 0);
    coord_call_shard_retired(&fleet()->calls, 0);
    ck_assert_uint_eq(done, 1);
}
END_TEST

/* What an operator wanted is a state: a note, and no problem. */
static void drained_told(const char *server)
{
    char text[ERR_TEXT_MAX];
    const struct coord_job *j = &r.coord->slot[0];
    struct json *problems = coord_sight_found(j), *notes = coord_sight_notes(j);
    (void)snprintf(text, sizeof text,
                   "server %s is drained (shards: 1), and no job needs it: switch it off", server);
    ck_assert_uint_eq(json_count(problems), 0);
    ck_assert_uint_eq(json_count(notes), 1);
    ck_assert_str_eq(json_as_string(json_array_at(notes, 0), ""), text);
    json_free(problems);
    json_free(notes);
}

START_TEST(coord_drained_server_is_not_awaited)
{
    char server[LIMIT_NAME];
    struct err e;
    (void)snprintf(server, sizeof server, "%s", shard(1)->server);
    struct fake_shard *left = shard(1);
    drain(server);
    ck_assert_uint_eq(shards(), 2);
    ck_assert(fleet()->members.shard[1].retired);
    go(1000);
    ck_assert_ptr_nonnull(strstr(left->refused, "was drained (shoal drain)"));
    drained_told(server); /* and it is no problem */
    sim_kill(left->node);
    ck_assert(coord_member_shards_ready(&fleet()->members));
    coord_kill();
    coord_start(); /* the retired number is stored */
    go(3000);
    ck_assert_uint_eq(shards(), 2);
    ck_assert(coord_member_shards_ready(&fleet()->members));
    /* it comes back with its folder, then with an empty one */
    again(left, 9);
    go(1000);
    ck_assert_ptr_nonnull(strstr(left->refused, "remove shard-0 in its data_dir"));
    ck_assert_int_eq(add(server, &e), SHOAL_E_NOT_FOUND);
    sim_kill(left->node);
    free(left->shard_of);
    memset(left, 0, sizeof *left);
    fake_shard_start(left, r.sim, server, 0, 10);
    go(1000);
    ck_assert_msg(add(server, &e) == 0, "%s", e.text);
    go(1000);
    ck_assert_uint_eq(left->number, 3); /* the retired number is not given again */
    ck_assert_uint_eq(shards(), 3);
}
END_TEST

/* A server without tablets is retired at once, but not while a call is open, which may count it. */
START_TEST(coord_drain_waits_for_open_calls)
{
    struct err e;
    shard_start(3, 1);
    go(1000);
    ck_assert_int_eq(add("server-3", &e), 0);
    go(1000);
    shard(2)->map_slow = true;
    ck_assert(coord_call_start(&fleet()->calls,
                               &(struct coord_call){.context = fleet(),
                                                    .request = {.type = WIRE_TYPE_MAP_HELD},
                                                    .target = 2,
                                                    .on_done = no_reply}));
    ck_assert_int_eq(
        coord_moves_begin(fleet(), MOVES_DRAIN, "server-3", fleet()->cluster.shard_of, &e), 0);
    go(500);
    ck_assert_uint_eq(shards(), 4);
    shard(2)->map_slow = false;
    go(500);
    ck_assert_uint_eq(shards(), 3);
}
END_TEST

/* The coordinator's store is lost: the shards that are left tell which there are. */
START_TEST(coord_lost_store_is_taken_over_without_the_retired)
{
    struct fake_shard *left = shard(1);
    drain(left->server);
    sim_kill(left->node);
    go(1000);
    store_lose(SHARDS);
    go(3000); /* the file still says 3 */
    ck_assert(!coord_cluster_known(&fleet()->cluster));
    ck_assert_ptr_nonnull(strstr(shard(0)->refused, "set `shards: 2` there"));
    store_lose(2);
    go(3000);
    ck_assert(coord_cluster_ready(&fleet()->cluster));
    ck_assert_uint_eq(shards(), 2);
    ck_assert(fleet()->members.shard[1].retired);
    ck_assert_uint_eq(owned(0) + owned(2), TABLETS);
}
END_TEST

START_TEST(coord_file_says_the_shards_of_now_or_of_the_beginning)
{
    struct coord *other = NULL;
    struct err e = {0};
    drain(shard(1)->server);
    coord_kill();
    for (uint32_t n = 1; n <= 4; n++) {
        struct coord_options o = {.shards = n, .version = "test"};
        struct sim_node *node = sim_node_new(r.sim, "other", NULL, NULL);
        struct coord_store *store = coord_kept_open(&r.kept, sim_node_env(node));
        int rc = coord_new(&o, sim_node_env(node), store, &other, &e);
        ck_assert_int_eq(rc, n == 2 || n == 3 ? 0 : SHOAL_E_CONFIG);
        sim_kill(node);
        coord_free(other);
        other = NULL;
        coord_store_close(store);
    }
    ck_assert_ptr_nonnull(strstr(e.text, "has 2 shards (it was founded with 3)"));
    coord_start();
}
END_TEST

/* Before the first job there is nothing to move. */
START_TEST(coord_drain_without_tables)
{
    struct wire w = {.type = WIRE_TYPE_MOVES, .id = 5};
    struct coord_ask a = {.from = 77, .request = &w};
    rig(1, false);
    shard(2)->map_slow = true; /* the coordinator ends before it is quiet */
    ck_assert(coord_call_start(&fleet()->calls,
                               &(struct coord_call){.context = fleet(),
                                                    .request = {.type = WIRE_TYPE_MAP_HELD},
                                                    .target = 2,
                                                    .on_done = no_reply}));
    w.u.MOVES.order = WIRE_MOVES_DRAIN;
    (void)snprintf(w.u.MOVES.server, sizeof w.u.MOVES.server, "%s", shard(1)->server);
    ck_assert_int_eq(coord_moves_order(fleet(), &a, &idle), 0);
    go(500);
    ck_assert_uint_eq(shards(), 3);
    ck_assert_int_eq(coord_moves_stop(fleet(), &a.e), 0);
    go(100);
    ck_assert_int_eq(fleet()->moves.kind, MOVES_NONE);
    ck_assert_int_eq(coord_moves_order(fleet(), &a, &idle), 0); /* and once more */
    go(100);
    coord_kill();
    shard(2)->map_slow = false;
    coord_start();
    go(3000);
    ck_assert_uint_eq(shards(), 2);
    ck_assert(fleet()->members.shard[1].retired);
}
END_TEST

START_TEST(coord_add_with_replicas_takes_servers_for_all_copies)
{
    struct err e;
    rig(2, true);
    shard_start(6, 1);
    go(2000);
    ck_assert_int_eq(add("server-6", &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "name 2 servers that wait"));
    shard_start(7, 1);
    go(2000);
    ck_assert_msg(add("server-6 server-7", &e) == 0, "%s", e.text);
    go(3000);
    ck_assert_uint_eq(shards(), 4);
    ck_assert(coord_copies_on(fleet(), 3, "server-6") && coord_copies_on(fleet(), 3, "server-7"));
    ck_assert_uint_eq(coord_copies_given(fleet(), 3), 2);
    ck_assert(fleet()->members.shard[3].seen);
    coord_kill();
    coord_start();
    go(3000);
    ck_assert_uint_eq(coord_copies_given(fleet(), 3), 2);
    drain("server-7"); /* both copies go */
    ck_assert_uint_eq(shards(), 3);
    go(1000);
    ck_assert_ptr_nonnull(strstr(r.shard[6].refused, "was drained"));
    ck_assert_ptr_nonnull(strstr(r.shard[7].refused, "was drained"));
}
END_TEST

/* ---- servers that join and leave while a job runs -------------------------------------------- */

static struct coord_job *job(void)
{
    return &r.coord->slot[0];
}

/* Sends the order that a server joins. */
static void ask_to_add(const char *server)
{
    struct wire w = {.type = WIRE_TYPE_MOVES, .id = 5, .u.MOVES.order = WIRE_MOVES_ADD};
    (void)snprintf(w.u.MOVES.server, sizeof w.u.MOVES.server, "%s", server);
    coord_handler.on_message(r.coord, 77, wire_encode(&w));
    coord_fleet_end(fleet());
}

/* A job goes back to a cut on all shards (RESTORE), and exports one from all: a shard that joins
 * after HOLD does not have it. */
START_TEST(coord_add_waits_while_a_cut_is_made)
{
    const struct err busy = {.code = SHOAL_E_BUSY};
    struct json *told = NULL;
    struct err e = {0};
    shard_start(3, 1);
    go(1000);
    job()->at.phase = PHASE_TRAIN;
    job()->cut->state = CUT_GOING;
    ask_to_add("server-3");
    ck_assert_uint_eq(shards(), 3);
    job()->cut->state = CUT_IDLE;
    ask_to_add("server-3");
    ck_assert_uint_eq(shards(), 4);
    /* the order may be repeated at any time, and one in vain is refused as such */
    ck_assert_int_eq(coord_add_order(fleet(), "server-3", &busy, &told, &e), 0);
    json_free(told);
    ck_assert_int_eq(coord_add_order(fleet(), "nowhere", &busy, &told, &e), SHOAL_E_NOT_FOUND);
    job()->at.phase = PHASE_NONE;
}
END_TEST

/* A shard that joins has no part in a checkpoint that the others write, and may be silent. */
START_TEST(coord_add_leaves_a_checkpoint_alone)
{
    struct coord_checkpoint *k = job()->checkpoint;
    struct err e;
    shard_start(3, 1);
    go(1000);
    k->state = CHECKPOINT_EXPORTING;
    k->part = calloc(LIMIT_SHARDS, sizeof *k->part);
    for (uint32_t s = 0; s < SHARDS; s++)
        k->part[s].asked = true;
    ck_assert_int_eq(add("server-3", &e), 0);
    ck_assert(!fleet()->members.shard[3].seen);
    coord_checkpoint_step(job());
    ck_assert_int_eq(k->state, CHECKPOINT_EXPORTING);
    k->state = CHECKPOINT_IDLE;
    free(k->part);
    k->part = NULL;
}
END_TEST

/* Rows in memory are lost with a process only where there are rows. */
START_TEST(coord_shard_without_tablets_loses_no_rows)
{
    struct err e;
    shard_start(3, 1);
    go(1000);
    ck_assert_int_eq(add("server-3", &e), 0);
    go(1000);
    for (uint32_t s = 0; s < 4; s++) {
        struct coord_shard *at = &fleet()->members.shard[s];
        at->figures.in_memory = true;
        at->made = at->incarnation + (s == 3 || (s == 0 && _i == 0));
    }
    job()->at.phase = PHASE_TRAIN;
    ck_assert(!coord_back_rows_lost(job(), 3));
    ck_assert_int_eq(coord_back_rows_lost(job(), 0), _i == 0);
    ck_assert_int_eq(coord_cluster_made_check(fleet(), &TABLE_SET_NONE, true, &e),
                     _i == 0 ? SHOAL_E_EXISTS : 0);
    fleet()->members.shard[_i == 0 ? 0 : 3].beat_ns = 0; /* silent for long */
    job()->watch.begun_ns = 0;
    coord_watch_tick(job());
    ck_assert_int_eq(job()->at.phase, _i == 0 ? PHASE_FAILED : PHASE_TRAIN);
    job()->at.phase = PHASE_NONE;
}
END_TEST

/* A job makes other tables, of as many tablets, while a server is drained. */
START_TEST(coord_drain_ends_when_the_tables_change)
{
    const struct table_schema schema[] = {
        {.name = "a", .width = 2, .dense = 2, .tablet_bits = 5},
        {.table = 1, .name = "b", .width = 2, .dense = 2, .tablet_bits = 5, .tablet_first = 32}};
    struct table_set numbers = table_set_first(1), left = TABLE_SET_NONE;
    uint16_t goal[TABLETS];
    struct err e = {0};
    for (uint32_t i = 0; i < TABLETS; i++) {
        goal[i] = fleet()->cluster.shard_of[i];
        if (goal[i] == 0)
            goal[i] = 1;
    }
    ck_assert_int_eq(coord_moves_begin(fleet(), MOVES_DRAIN, shard(0)->server, goal, &e), 0);
    while (owned(0) > 2)
        go(1);
    ck_assert_uint_gt(fleet()->moves.at, 0);
    ck_assert_msg(coord_cluster_map(fleet(), schema, 2, true, &numbers, &left, &e) == 0, "%s",
                  e.text);
    coord_moves_map_changed(fleet());
    ck_assert_uint_eq(fleet()->cluster.tablets, TABLETS);
    ck_assert_uint_gt(owned(0), 2);
    go(20000);
    ck_assert_int_eq(fleet()->moves.kind, MOVES_NONE);
    ck_assert(fleet()->members.shard[0].retired);
}
END_TEST

/* What a server that comes with a retired number is told must be safe to follow. */
START_TEST(coord_retired_number_is_refused_with_safe_advice)
{
    struct wire_SHARD_BEAT b = {.number = 1, .map_epoch = epoch(), .endpoint = "sim://there"};
    struct err e = {0};
    drain(shard(1)->server);
    b.cluster_high = fleet()->cluster.id[0];
    b.cluster_low = fleet()->cluster.id[1];
    (void)snprintf(b.server, sizeof b.server, "left");
    ck_assert_int_eq(coord_cluster_claim(fleet(), &b, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "remove shard-0"));
    /* the number was given again, and the coordinator's store is of before */
    b.map_epoch = fleet()->cluster.map_epoch + 1;
    ck_assert_int_eq(coord_cluster_claim(fleet(), &b, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_null(strstr(e.text, "remove"));
    ck_assert_ptr_nonnull(strstr(e.text, "older than it was"));
}
END_TEST

/* A server that was drained runs on with its old folder, while another one has its number. */
START_TEST(coord_retired_number_given_again_is_refused_to_its_old_folder)
{
    struct fake_shard *left = shard(1);
    struct err e;
    drain(left->server);
    numbers_spend();
    shard_start(3, 1);
    go(1000);
    ck_assert_msg(add("server-3", &e) == 0, "%s", e.text);
    go(1000);
    ck_assert_uint_eq(r.shard[3].number, 1);
    ck_assert_ptr_nonnull(strstr(left->refused, "server server-3 holds: it was drained before"));
    sim_kill(left->node);
    again(left, 9);
    go(1000);
    ck_assert_ptr_nonnull(strstr(left->refused, "server server-3 holds: it was drained before"));
    ck_assert_str_eq(fleet()->members.shard[1].server, "server-3");
}
END_TEST

/* ---- servers that were added and are away ---------------------------------------------------- */

/* Orders that a server is drained, at once as it is away; returns the status. */
static int take_back(const char *server, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_MOVES, .id = 5, .u.MOVES.order = WIRE_MOVES_DRAIN};
    struct coord_ask a = {.from = 77, .request = &w};
    (void)snprintf(w.u.MOVES.server, sizeof w.u.MOVES.server, "%s", server);
    wire_reply_to(&w, 0, &a.reply);
    int rc = coord_moves_order(fleet(), &a, &idle);
    coord_fleet_end(fleet());
    *e = a.e;
    return rc;
}

/* A server that was added and has never come: what waits for it goes on once it is drained. _i 1:
 * with replicas, and after the coordinator has started again. */
START_TEST(coord_drain_takes_an_order_back)
{
    uint32_t done = 0, first = _i == 0 ? 3 : 6, now = SHARDS;
    char names[80], name[24], ways[ERR_TEXT_MAX];
    struct err e;
    if (_i == 1) {
        teardown();
        rig(2, true);
    }
    names[0] = 0;
    for (uint32_t i = first; i <= first + (uint32_t)_i; i++) {
        shard_start(i, 1);
        (void)snprintf(names + strlen(names), sizeof names - strlen(names), " server-%u", i);
    }
    (void)snprintf(name, sizeof name, "server-%u", first);
    go(2000);
    for (uint32_t i = first; i <= first + (uint32_t)_i; i++)
        sim_kill(r.shard[i].node);
    ck_assert_msg(add(names, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(shards(), now + 1);
    go(5);
    if (_i == 1) {
        coord_kill();
        coord_start();
        go(3000);
    }
    ck_assert(coord_call_start(&fleet()->calls,
                               &(struct coord_call){.context = &done,
                                                    .request = {.type = WIRE_TYPE_MAP_HELD},
                                                    .target = COORD_NOBODY,
                                                    .on_done = count_done}));
    go(3000);
    ck_assert_uint_eq(done, 0);
    ck_assert(!coord_member_shards_ready(&fleet()->members));
    ck_assert_ptr_nonnull(strstr(coord_add_ways(fleet(), name, ways), "shoal drain server-"));
    ck_assert_ptr_null(strstr(coord_add_ways(fleet(), shard(0)->server, ways), "shoal drain"));
    ck_assert_msg(take_back(name, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(done, 1);
    ck_assert_uint_eq(shards(), now);
    ck_assert(coord_member_shards_ready(&fleet()->members));
    go(10); /* stored */
    coord_kill();
    coord_start();
    go(3000);
    ck_assert_uint_eq(shards(), now);
    shard_start(first, 2); /* it comes after all: it waits for a place, or has one as a copy */
    go(1000);
    ck_assert_ptr_nonnull(strstr(r.shard[first].refused, "waits"));
}
END_TEST

/* A server that came, got no tablets, and is gone. One with tablets is drained as any other. */
START_TEST(coord_drain_retires_an_empty_server_that_is_gone)
{
    struct err e;
    shard_start(3, 1);
    go(1000);
    ck_assert_int_eq(add("server-3", &e), 0);
    go(1000);
    sim_kill(r.shard[3].node);
    ck_assert(!coord_add_absent(fleet(), "server-3")); /* it was heard a moment ago */
    go(3000);
    ck_assert(coord_add_absent(fleet(), "server-3"));
    sim_kill(shard(0)->node);
    go(3000);
    ck_assert(!coord_add_absent(fleet(), shard(0)->server)); /* it leads tablets */
    again(shard(0), 2);
    go(1000);
    ck_assert_msg(take_back("server-3", &e) == 0, "%s", e.text);
    ck_assert_uint_eq(shards(), SHARDS);
    plan(0, 1);
    go(20000);
    ck_assert_uint_eq(owned(0), 0);
}
END_TEST

/* A plan that moves nothing says why among the problems. */
START_TEST(coord_moves_that_fail_are_a_problem)
{
    char text[ERR_TEXT_MAX];
    ck_assert(!coord_moves_problem(fleet(), text, sizeof text));
    shard(1)->take_fails = "there is no room";
    plan(0, 1);
    go(500);
    ck_assert(coord_moves_problem(fleet(), text, sizeof text));
    ck_assert_ptr_nonnull(strstr(text, "(shard 1): there is no room"));
    ck_assert_ptr_nonnull(strstr(text, "shoal rebalance --stop"));
    (void)snprintf(fleet()->moves.job, LIMIT_NAME, "t"); /* it goes back (keep/home.h) */
    ck_assert(coord_moves_problem(fleet(), text, sizeof text));
    ck_assert_ptr_nonnull(strstr(text, "stop job t, which waits for them"));
    shard(1)->take_fails = NULL;
    go(3000);
    ck_assert(!coord_moves_problem(fleet(), text, sizeof text));
}
END_TEST

/* As many servers wait as there are: all are listed, and all can be added at once. */
START_TEST(coord_many_servers_wait)
{
    char names[1024] = "";
    struct err e;
    struct wire_SHARD_BEAT b = {.endpoint = "sim://there"};
    for (uint32_t i = 0; i < 40; i++) {
        (void)snprintf(b.server, sizeof b.server, "w%u", i);
        (void)snprintf(names + strlen(names), sizeof names - strlen(names), " w%u", i);
        e = (struct err){.code = SHOAL_E_BUSY, .text = "it waits"};
        coord_cluster_note(fleet(), &b, &e);
    }
    ck_assert_uint_eq(fleet()->cluster.strangers, 40);
    for (uint32_t i = 40; i < COORD_STRANGERS + 5; i++) {
        (void)snprintf(b.server, sizeof b.server, "w%u", i);
        coord_cluster_note(fleet(), &b, &(struct err){.code = SHOAL_E_CONFIG, .text = "no"});
    }
    ck_assert_uint_eq(fleet()->cluster.strangers, COORD_STRANGERS);
    ck_assert_str_eq(fleet()->cluster.stranger[0].server, "w0"); /* none is pushed out */
    struct json *list = coord_sight_found(job());
    char *text = json_text(list, 0);
    ck_assert_ptr_nonnull(strstr(text, "more than 256 shards are there and are not taken"));
    free(text);
    json_free(list);
    ck_assert_msg(add(names, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(shards(), SHARDS + 40);
}
END_TEST

/* ---- the coordinator's store is lost --------------------------------------------------------- */

/* A server was drained, another one added and filled, and the drained one runs on. Its folder must
 * not be taken for that of a shard with rows, in whatever order they come (_i). */
START_TEST(coord_lost_store_waits_for_the_shard_that_leads)
{
    struct fake_shard *left = shard(1), *late;
    char text[ERR_TEXT_MAX];
    struct err e;
    drain(left->server);
    shard_start(3, 1);
    go(1000);
    ck_assert_msg(add("server-3", &e) == 0, "%s", e.text);
    go(1000);
    uint32_t number = r.shard[3].number;
    plan(0, number);
    go(20000);
    ck_assert_uint_gt(owned(number), 0);
    uint32_t had = owned(number);
    late = _i == 0 ? &r.shard[3] : left;
    sim_kill(late->node);
    store_lose(3);
    go(3000);
    ck_assert_int_eq(coord_cluster_known(&fleet()->cluster), _i == 1);
    if (_i == 0) {
        ck_assert(coord_claims_waits(fleet(), text, sizeof text));
        ck_assert_ptr_nonnull(strstr(text, "shard 3, which leads tablets, has not"));
    }
    again(late, 9);
    go(3000);
    ck_assert(coord_cluster_ready(&fleet()->cluster));
    ck_assert(!coord_claims_waits(fleet(), text, sizeof text));
    ck_assert_uint_eq(owned(number), had);
    ck_assert_str_eq(fleet()->members.shard[number].server, "server-3");
    ck_assert(!coord_member_used(&fleet()->members, 1));
    ck_assert_ptr_nonnull(strstr(left->refused, "was drained"));
    ck_assert_uint_eq(shards(), 3);
}
END_TEST

/* The coordinator ends within a moment of a drain's end: some shards know that there is one fewer.
 * The file says the number of now (_i: 2), or of the beginning (3), and the drained server runs on,
 * or not. What each shard and the status say must lead to a cluster that runs. */
START_TEST(coord_lost_store_of_a_moment_after_a_drain)
{
    struct fake_shard *left = shard(1);
    uint32_t said = 2 + (uint32_t)_i % 2;
    bool off = _i >= 2;
    char text[ERR_TEXT_MAX];
    drain(left->server);
    go(1000);
    shard(2)->shards = 3; /* it has not heard yet */
    if (off)
        sim_kill(left->node);
    store_lose(said);
    go(5000);
    if (!coord_cluster_known(&fleet()->cluster)) { /* the drained one is awaited */
        ck_assert(off && said == 3);
        ck_assert(coord_claims_waits(fleet(), text, sizeof text));
        ck_assert_ptr_nonnull(strstr(text, "if the others were drained, set `shards: 2`"));
        store_lose(2);
        go(5000);
    }
    ck_assert(coord_cluster_ready(&fleet()->cluster));
    ck_assert_uint_eq(owned(0) + owned(2), TABLETS);
    ck_assert_uint_eq(shards(), fleet()->options.shards);
    ck_assert_int_eq(coord_member_used(&fleet()->members, 1), fleet()->options.shards == 3);
}
END_TEST

/* All shards were told of one that has left since, for good: they lead all tablets, so after a
 * while the number of the file counts. */
START_TEST(coord_lost_store_without_a_shard_that_nobody_forgot)
{
    struct fake_shard *left = shard(1);
    drain(left->server);
    go(1000);
    shard(0)->shards = shard(2)->shards = 3;
    sim_kill(left->node);
    store_lose(2);
    go(500);
    ck_assert_ptr_nonnull(strstr(shard(0)->refused, "set `shards: 3` there, unless"));
    ck_assert(!coord_cluster_known(&fleet()->cluster));
    go(5000);
    ck_assert(coord_cluster_ready(&fleet()->cluster));
    ck_assert_uint_eq(shards(), 2);
}
END_TEST

/* A server of before, which was not switched off, must not be taken for a copy of the shard that
 * has its number now: followers compare the terms of their records. */
START_TEST(coord_number_given_again_has_terms_of_its_own)
{
    char text[ERR_TEXT_MAX];
    struct err e;
    rig(2, true);
    drain(fleet()->members.shard[1].server);
    ck_assert(fleet()->members.shard[1].retired);
    ck_assert(!coord_copies_problem(fleet(), 1, text, sizeof text)); /* no copy is missing */
    coord_kill();
    coord_start();
    shard_start(6, 1);
    shard_start(7, 1);
    go(3000);
    ck_assert(!coord_copies_problem(fleet(), 1, text, sizeof text));
    numbers_spend();
    ck_assert_msg(add("server-6 server-7", &e) == 0, "%s", e.text);
    ck_assert(coord_copies_on(fleet(), 1, "server-6"));
    ck_assert_uint_eq(coord_copies_shard(fleet(), 1)->term, 2);
    ck_assert_uint_eq(coord_copies_shard(fleet(), 0)->term, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_fleet_moves");
    TCase *t = suite_case(s, "moves", 60, setup, teardown);
    tcase_add_test(t, coord_moves_move_all_tablets_of_a_plan);
    tcase_add_test(t, coord_moves_light_tablets_go_together_whatever_they_take);
    tcase_add_test(t, coord_moves_light_groups_have_a_bound);
    tcase_add_test(t, coord_moves_heavy_tablets_go_one_by_one);
    tcase_add_test(t, coord_moves_group_of_light_tablets_meets_heavy_ones);
    tcase_add_test(t, coord_moves_tell_the_taker_first);
    tcase_add_test(t, coord_moves_map_is_stored_before_it_is_told);
    tcase_add_test(t, coord_moves_giver_that_starts_again_ends_the_group);
    tcase_add_test(t, coord_moves_taker_that_refuses_ends_the_group);
    tcase_add_loop_test(t, coord_moves_taker_without_the_table_ends_the_group, 0, 2);
    tcase_add_test(t, coord_moves_a_tablet_that_is_too_large_ends_the_plan);
    tcase_add_test(t, coord_moves_hold_other_calls);
    tcase_add_test(t, coord_moves_wait_for_open_calls);
    tcase_add_test(t, coord_moves_do_not_wait_for_a_run_to_be_dropped);
    tcase_add_test(t, coord_moves_coordinator_that_starts_again_goes_on);
    tcase_add_test(t, coord_moves_giver_hears_of_its_tablets_after_a_restart);
    tcase_add_test(t, coord_moves_stop_ends_the_plan_with_its_group);
    tcase_add_test(t, coord_moves_one_plan_at_a_time);
    TCase *a = suite_case(s, "add", 60, setup, teardown);
    tcase_add_test(a, coord_add_gives_a_server_that_waits_a_number);
    tcase_add_test(a, coord_add_gives_a_server_one_more_shard);
    tcase_add_test(a, coord_add_is_stored);
    tcase_add_test(a, coord_add_leaves_open_calls_alone);
    tcase_add_test(a, coord_drained_server_is_not_awaited);
    tcase_add_test(a, coord_drain_waits_for_open_calls);
    tcase_add_test(a, coord_lost_store_is_taken_over_without_the_retired);
    tcase_add_test(a, coord_file_says_the_shards_of_now_or_of_the_beginning);
    TCase *j = suite_case(s, "add beside a job", 60, setup, teardown);
    tcase_add_test(j, coord_add_waits_while_a_cut_is_made);
    tcase_add_test(j, coord_add_leaves_a_checkpoint_alone);
    tcase_add_loop_test(j, coord_shard_without_tablets_loses_no_rows, 0, 2);
    tcase_add_test(j, coord_drain_ends_when_the_tables_change);
    tcase_add_test(j, coord_retired_number_is_refused_with_safe_advice);
    tcase_add_test(j, coord_retired_number_given_again_is_refused_to_its_old_folder);
    TCase *w = suite_case(s, "away", 60, setup, teardown);
    tcase_add_loop_test(w, coord_drain_takes_an_order_back, 0, 2);
    tcase_add_test(w, coord_drain_retires_an_empty_server_that_is_gone);
    tcase_add_test(w, coord_moves_that_fail_are_a_problem);
    tcase_add_test(w, coord_many_servers_wait);
    TCase *l = suite_case(s, "lost store", 60, setup, teardown);
    tcase_add_loop_test(l, coord_lost_store_waits_for_the_shard_that_leads, 0, 2);
    tcase_add_loop_test(l, coord_lost_store_of_a_moment_after_a_drain, 0, 4);
    tcase_add_test(l, coord_lost_store_without_a_shard_that_nobody_forgot);
    TCase *c = suite_case(s, "add copies", 60, NULL, teardown);
    tcase_add_test(c, coord_drain_without_tables);
    tcase_add_test(c, coord_add_with_replicas_takes_servers_for_all_copies);
    tcase_add_test(c, coord_number_given_again_has_terms_of_its_own);
    return suite_main(s);
}
