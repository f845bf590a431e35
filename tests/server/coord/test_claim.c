/* test_claim.c: servers that come to a known cluster: which of them belong to it, and what the
 * coordinator learns from their beats. */
#include "server/coord/coord.h"
#include "server/coord/fleet/cluster.h"
#include "server/coord/job/older.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/submit.h"
#include "tests/lib/suite.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static struct coord *c;
static struct coord_call asked; /* the last one */
static uint32_t count;
static struct wire_SHARD_BEAT beat; /* the last beat of server "b", which is shard 1 */

bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *call);
bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *call)
{
    (void)calls;
    asked = *call;
    count++;
    return true;
}

static void setup(void)
{
    static const struct sim_options calm = {.seed = 7, .delay_min_ns = 1, .delay_max_ns = 2};
    struct coord_options o = {.shards = 3, .lease_ms = 1000};
    struct err e = {0};
    struct sim *sim = sim_new(&calm);
    struct sim_node *node = sim_node_new(sim, "coordinator", &coord_handler, NULL);
    count = 0;
    sim_run(sim, 10 * SECOND, NULL, NULL);
    ck_assert_int_eq(coord_new(&o, sim_node_env(node), coord_store_memory(), &c, &e), 0);
    c->fleet.cluster.id[0] = 1;
    c->fleet.cluster.id[1] = 2;
    for (uint32_t s = 0; s < 2; s++) {
        struct coord_shard *shard = &c->fleet.members.shard[s];
        (void)snprintf(shard->server, sizeof shard->server, "%c", 'a' + (int)s);
        shard->seen = shard->placed = true;
        shard->incarnation = 7;
        shard->synced = 50;
        shard->beat_ns = 10 * SECOND;
    }
    beat = (struct wire_SHARD_BEAT){.server = "b",
                                    .shard_count = 1,
                                    .endpoint = "tcp://127.0.0.1:7700",
                                    .incarnation = 7,
                                    .cluster_high = 1,
                                    .cluster_low = 2,
                                    .number = 1,
                                    .shards = 3,
                                    .sequence = 60,
                                    .synced = 60};
}

/* Returns the error that answers the beat; "": the server is taken. */
static const char *claim(void)
{
    static struct err e;
    e = (struct err){0};
    int rc = coord_cluster_claim(&c->fleet, &beat, &e);
    ck_assert_int_eq(rc != 0, e.text[0] != 0);
    return e.text;
}

static void told(const char *words)
{
    const char *is = claim();
    ck_assert_msg(words[0] == 0 ? is[0] == 0 : strstr(is, words) != NULL, "%s", is);
}

/* ---- servers that belong here ---------------------------------------------------------------- */

START_TEST(server_as_it_was_is_taken)
{
    told("");
}
END_TEST

/* An empty folder is accepted only if its rows were in memory, or if it had none yet. */
START_TEST(server_with_an_empty_folder_is_refused)
{
    beat.cluster_high = beat.cluster_low = 0;
    beat.number = WIRE_NO_SHARD;
    beat.in_memory = _i == 1;
    c->fleet.members.shard[1].placed = _i != 2;
    told(_i == 0 ? "comes with an empty folder for shard 0 of it" : "");
}
END_TEST

START_TEST(server_of_another_cluster_is_refused)
{
    beat.cluster_high += _i == 0;
    beat.cluster_low += _i == 1;
    told("has rows of cluster");
}
END_TEST

START_TEST(server_of_another_layout_is_refused)
{
    beat.number = _i == 0 ? 3 : 0;
    beat.shards = 4;
    told(_i == 0 ? "shard 3, which this cluster never had" : "one of the two runs on a copy");
}
END_TEST

/* Shards were added or retired while the server was away. */
START_TEST(server_that_knows_another_count_of_shards_is_taken)
{
    beat.shards = 4;
    told("");
}
END_TEST

START_TEST(server_that_was_drained_is_refused)
{
    c->fleet.members.shard[1] = (struct coord_shard){.retired = true};
    told("was drained (shoal drain), and no job needs it: switch the server off");
}
END_TEST

/* The number was given to the server anew (shoal add), and its folder is of before. */
START_TEST(server_that_is_added_with_an_old_folder_is_refused)
{
    c->fleet.members.shard[1].vacant = true;
    c->fleet.members.shard[1].placed = false;
    told("with its rows of before it was replaced or drained");
}
END_TEST

/* A server with an unknown name takes the number of its folder if that is free. */
START_TEST(server_with_another_ones_number_is_refused)
{
    (void)snprintf(beat.server, sizeof beat.server, "%s", _i == 1 ? "b" : "z");
    beat.number = _i == 0 ? 1 : _i == 1 ? 0 : 2;
    told(_i == 2 ? "" : "one of the two runs on a copy of the other's folder");
}
END_TEST

/* Records that were on its disk are missing: it has started on an older folder. A server that holds
 * its rows in memory had none on disk. */
START_TEST(server_with_an_older_folder_is_refused)
{
    beat.incarnation = _i == 3 ? 7 : 8;
    beat.sequence = _i == 1 ? 50 : 49;
    beat.in_memory = _i == 2;
    told(_i == 0 ? "record 49 is its last, 50 was on its disk" : "");
}
END_TEST

/* The former process sends a beat while the newer one lives. Once the newer one is silent, the beat
 * counts as a late one. */
START_TEST(server_that_runs_twice_is_refused)
{
    c->fleet.members.shard[1].incarnation = 9;
    c->fleet.members.shard[1].former = _i == 1 ? 6 : 7;
    c->fleet.members.shard[1].beat_ns = _i == 2 ? 8 * SECOND : 9 * SECOND;
    told(_i == 0 ? "two servers run as b" : "");
}
END_TEST

START_TEST(server_that_nobody_could_reach_is_refused)
{
    static const char *const wrong[] = {"tcp://a b", "tcp://", "://a", "a:7", "tcp://a\x7f", ""};
    (void)snprintf(beat.endpoint, sizeof beat.endpoint, "%s", wrong[_i]);
    told("no endpoint that workers could use");
    (void)snprintf(beat.endpoint, sizeof beat.endpoint, "x://a!");
    told("");
}
END_TEST

/* ---- what beats tell ------------------------------------------------------------------------- */

/* A number that a server has is never drawn again, even if the store would allow it. */
START_TEST(numbers_of_servers_are_not_drawn_again)
{
    c->fleet.counters.next_run = 20;
    c->fleet.counters.next_cut = 30;
    beat.newest_run = _i == 0 ? 20 : _i == 1 ? 25 : 19;
    beat.newest_cut = _i == 2 ? 30 : _i == 3 ? 35 : 29;
    coord_cluster_learn(&c->fleet, 1, &beat);
    ck_assert_uint_eq(c->fleet.counters.next_run, _i == 0 ? 21 : _i == 1 ? 26 : 20);
    ck_assert_uint_eq(c->fleet.counters.next_cut, _i == 2 ? 31 : _i == 3 ? 36 : 30);
    beat.newest_run = UINT64_C(1) << 60; /* the coordinator never drew it */
    coord_cluster_learn(&c->fleet, 1, &beat);
    ck_assert_uint_lt(c->fleet.counters.next_run, 27);
}
END_TEST

/* A job that is older than the newest run of a server belongs to the past; its own run does not end
 * it. */
START_TEST(job_of_the_past_ends)
{
    c->fleet.counters.next_run = 20;
    c->slot[0].at.phase = PHASE_TRAIN;
    c->slot[0].at.run = _i == 0 ? 25 : 24;
    beat.newest_run = 25;
    ck_assert(coord_cluster_learn(&c->fleet, 1, &beat));
    coord_older_run(&c->slot[0], &beat);
    ck_assert_uint_eq(c->slot[0].at.phase, _i == 0 ? PHASE_TRAIN : PHASE_FAILED);
    ck_assert_uint_eq(c->fleet.counters.next_run, 26);
}
END_TEST

/* The newest map is asked of the server that has it, whatever the order of the beats. */
START_TEST(newest_map_is_asked_for)
{
    c->fleet.cluster.map_epoch = 4;
    for (uint32_t s = 0; s < 2; s++) {
        beat.map_epoch = s == (uint32_t)_i ? 6 : 5;
        coord_cluster_learn(&c->fleet, s, &beat);
    }
    ck_assert_uint_eq(c->fleet.cluster.newest_epoch, 6);
    ck_assert_uint_eq(c->fleet.cluster.newest_shard, _i);
    ck_assert(!coord_cluster_ready(&c->fleet.cluster));
    coord_cluster_step(&c->fleet);
    ck_assert_uint_eq(count, 1);
    ck_assert(asked.request.type == WIRE_TYPE_MAP_HELD && asked.target == (uint32_t)_i);
}
END_TEST

/* A map that is no longer newer, or that names a shard that does not exist, is not taken. */
START_TEST(map_that_cannot_be_is_not_taken)
{
    const uint64_t epoch[] = {6, 4, 6};
    struct wire w = {.type = WIRE_TYPE_MAP_HELD, .reply = true};
    struct msg *m = msg_new();
    c->fleet.cluster.map_epoch = 4;
    beat.map_epoch = 6;
    coord_cluster_learn(&c->fleet, 1, &beat);
    coord_cluster_step(&c->fleet);
    w.u.MAP_HELD_reply = (struct wire_MAP_HELD_reply){epoch[_i], 64};
    ck_assert_ptr_nonnull(msg_add(m, 0));
    uint16_t *shard_of = msg_add(m, 64 * sizeof *shard_of);
    for (uint32_t t = 0; t < 64; t++)
        shard_of[t] = (uint16_t)(_i == 2 && t == 63 ? 3 : t % 3);
    asked.on_reply(asked.context, &asked, 1, &w, m);
    msg_free(m);
    ck_assert_uint_eq(c->fleet.cluster.map_epoch, _i == 0 ? 6 : 4);
    ck_assert_uint_eq(c->fleet.cluster.tablets, _i == 0 ? 64 : 0);
    /* a server with an older map delays no job; one with an impossible map is asked again later */
    ck_assert_int_eq(coord_cluster_ready(&c->fleet.cluster), _i < 2);
    uint32_t asks = count;
    coord_cluster_step(&c->fleet);
    ck_assert_uint_eq(count, asks);
}
END_TEST

/* A map that a server brought names no tables. The tables of its job must end where the map ends.
 * If the job's tables end before, the map stays whole; if they end behind it, or one would cross
 * its end, the servers hold other tables. */
START_TEST(map_of_a_server_is_of_the_tables_that_end_with_it)
{
    static const struct {
        uint32_t bits[2], count, tables, epoch;
    } cases[] = {{{5, 5}, 2, 2, 6},
                 {{6, 0}, 1, 1, 6},
                 {{5, 0}, 1, 0, 6},
                 {{5, 6}, 2, 0, 0},
                 {{7, 0}, 1, 0, 0}};
    struct table_schema table[2] = {{.name = "one"}, {.name = "two"}};
    struct err e = {0};
    static uint16_t shard_of[64];
    c->fleet.cluster.map_epoch = 6;
    c->fleet.cluster.tablets = 64;
    c->fleet.cluster.shard_of = shard_of;
    c->fleet.members.shard[0].figures.holds = true;
    for (uint32_t t = 0; t < 2; t++) {
        table[t].table = t;
        table[t].tablet_bits = cases[_i].bits[t];
        table[t].tablet_first = t << cases[_i].bits[0];
    }
    int rc = coord_cluster_map(&c->fleet, table, cases[_i].count, coord_fresh_due(&c->slot[0]),
                               &c->slot[0].space->numbers, &c->slot[0].space->left, &e);
    ck_assert_int_eq(rc, cases[_i].epoch != 0 ? 0 : SHOAL_E_CONFIG);
    ck_assert_uint_eq(c->fleet.cluster.map_epoch, 6);
    ck_assert_uint_eq(c->fleet.cluster.tablets, 64);
    ck_assert_uint_eq(c->fleet.cluster.tables, cases[_i].tables);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("claim");
    TCase *t = suite_case(s, "claim", 60, setup, NULL);
    tcase_add_test(t, server_as_it_was_is_taken);
    tcase_add_loop_test(t, server_with_an_empty_folder_is_refused, 0, 3);
    tcase_add_loop_test(t, server_of_another_cluster_is_refused, 0, 2);
    tcase_add_loop_test(t, server_of_another_layout_is_refused, 0, 2);
    tcase_add_test(t, server_that_knows_another_count_of_shards_is_taken);
    tcase_add_test(t, server_that_was_drained_is_refused);
    tcase_add_test(t, server_that_is_added_with_an_old_folder_is_refused);
    tcase_add_loop_test(t, server_with_another_ones_number_is_refused, 0, 3);
    tcase_add_loop_test(t, server_with_an_older_folder_is_refused, 0, 4);
    tcase_add_loop_test(t, server_that_runs_twice_is_refused, 0, 3);
    tcase_add_loop_test(t, server_that_nobody_could_reach_is_refused, 0, 6);
    tcase_add_loop_test(t, numbers_of_servers_are_not_drawn_again, 0, 5);
    tcase_add_loop_test(t, job_of_the_past_ends, 0, 2);
    tcase_add_loop_test(t, newest_map_is_asked_for, 0, 2);
    tcase_add_loop_test(t, map_of_a_server_is_of_the_tables_that_end_with_it, 0, 5);
    tcase_add_loop_test(t, map_that_cannot_be_is_not_taken, 0, 3);
    return suite_main(s);
}
