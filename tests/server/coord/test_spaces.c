/* test_spaces.c: several spaces on one fleet, with one job at a time: which space a job gets, what
 * is refused, what readers see, what is dropped. The real coordinator with fake shards. */
#include "proto/base/log.h"
#include "server/coord/coord.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/aside.h"
#include "server/coord/job/back.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/status.h"
#include "server/coord/job/submit.h"
#include "server/coord/work/taken.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/table_sets.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define SHARDS 2u

static struct {
    struct sim *sim;
    struct sim_node *node;
    struct coord_store *store;
    struct coord *coord;
    struct fake_shard shard[SHARDS];
    struct fake_worker worker;
    struct fake_client client;
    char yaml[512];
} r;

static const char ONE[] = "[{name: emb, dim: 4}]", WIDE[] = "[{name: emb, dim: 4, tablets: 256}]",
                  MORE[] =
                      "[{name: emb, dim: 4}, {name: also, dim: 4, tablets: 128, fields: [1]}]\n"
                      "features: {fields: [1, 2]}";
static const char *tables = ONE; /* of the next jobs */

static struct err e;

static void coord_start(void)
{
    struct coord_options o = {
        .shards = SHARDS, .lease_ms = 1000, .resend_ms = 200, .version = "test"};
    r.node = sim_node_new(r.sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&o, sim_node_env(r.node), r.store, &r.coord, &e) == 0, "%s", e.text);
    sim_node_set_handler(r.node, &coord_handler, r.coord);
    sim_listen(r.node, "sim://coordinator");
}

static void go(uint64_t ms)
{
    (void)sim_run(r.sim, sim_now_ns(r.sim) + ms * 1000000, NULL, NULL);
}

static void coord_again(void)
{
    sim_kill(r.node);
    coord_free(r.coord);
    coord_start();
    go(1000);
}

static void shard_start(uint32_t i, uint64_t incarnation)
{
    char name[24];
    (void)snprintf(name, sizeof name, "server-%u", i);
    fake_shard_start(&r.shard[i], r.sim, name, 0, incarnation);
}

static void rig_start(void)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    log_set_level(LOG_LEVEL_ERROR + 1);
    tables = ONE;
    memset(&r, 0, sizeof r);
    memset(&e, 0, sizeof e);
    r.sim = sim_new(&calm);
    r.store = coord_store_memory();
    coord_start();
    for (uint32_t i = 0; i < SHARDS; i++)
        shard_start(i, 1);
    go(500);
}

static void rig_stop(void)
{
    coord_free(r.coord);
    sim_free(r.sim);
    coord_store_close(r.store);
    for (uint32_t i = 0; i < SHARDS; i++)
        free(r.shard[i].shard_of);
}

static const char *text(const char *job, const char *more)
{
    (void)snprintf(r.yaml, sizeof r.yaml,
                   "job: %s\ndata: {format: libsvm, train: [a]}\ntables: %s\n"
                   "model: {kind: probe}\n%s"
                   "train: {batch: 10, task_batches: 4, epochs: 1, consistency: ssp, lanes: 2}\n",
                   job, tables, more);
    return r.yaml;
}

static bool over(void *context)
{
    (void)context;
    return r.client.submit_status != 0 || r.client.state == WIRE_JOB_DONE ||
           r.client.state == WIRE_JOB_FAILED;
}

static void job_begin(const char *job, const char *more, const char *from)
{
    static struct fake_shard *shards[SHARDS];
    struct fake_worker *w = &r.worker;
    if (r.client.node != NULL)
        sim_kill(r.client.node);
    if (w->node != NULL)
        sim_kill(w->node);
    memset(&r.client, 0, sizeof r.client);
    memset(w, 0, sizeof *w);
    w->rows[0] = 1005;
    w->batch = 10;
    w->seats = 2;
    w->step_ns = 5000000;
    w->resend_ns = SECOND / 2;
    w->digest = 42;
    for (uint32_t i = 0; i < SHARDS; i++)
        shards[i] = &r.shard[i];
    fake_worker_start(w, r.sim, "worker-0", shards, SHARDS);
    r.client.from = from;
    fake_client_start(&r.client, r.sim, text(job, more), 1);
}

static void job_run(const char *job, const char *more, const char *from)
{
    job_begin(job, more, from);
    ck_assert_msg(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, over, NULL),
                  "job hangs in phase %u", r.coord->slot[0].at.phase);
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
}

/* Submits without a client. Returns the status, and the sentence in e. */
static int submit(const char *job, const char *more, const char *from)
{
    uint64_t run;
    const char *yaml = text(job, more);
    const struct coord_submit s = {yaml, strlen(yaml), 1, from, from[0] != 0};
    memset(&e, 0, sizeof e);
    return coord_submit(&r.coord->slot[0], 77, &s, NULL, &run, &e);
}

static void refused(int status, const char *words)
{
    ck_assert_msg(e.code == status && strstr(e.text, words) != NULL, "%d: %s", e.code, e.text);
}

static struct coord_space *space(const char *name)
{
    COORD_EACH_SPACE (&r.coord->fleet, s)
        if (coord_space_holds(&r.coord->fleet, s) && strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

START_TEST(spaces_of_two_jobs_are_beside_one_another)
{
    char said[ERR_TEXT_MAX];
    rig_start();
    job_run("one", "", NULL);
    struct coord_space *one = space("one");
    ck_assert_ptr_nonnull(one);
    uint64_t numbers = one->numbers.word[0], number = one->made->number;
    coord_submit_say(&r.coord->slot[0], said);
    ck_assert_str_eq(said, "");
    job_begin("two", "", NULL);
    while (r.client.run == 0)
        go(1);
    coord_submit_say(&r.coord->slot[0], said);
    ck_assert_msg(strstr(said, "space two is new") != NULL && strstr(said, "those of one") != NULL,
                  "%s", said);
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, over, NULL));
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
    struct coord_space *two = space("two");
    ck_assert(two != NULL && two != one && two->numbers.word[0] != 0);
    ck_assert_uint_eq(two->numbers.word[0] & numbers, 0);
    ck_assert(one->numbers.word[0] == numbers && one->made->number == number);
    ck_assert_str_eq(one->made->spec.name, "one");
    ck_assert_uint_eq(r.shard[0].clears, 0);
    rig_stop();
}
END_TEST

/* Spaces, their tables and which one is at hand are there after a restart. */
START_TEST(spaces_are_there_after_a_restart)
{
    rig_start();
    job_run("one", "", NULL);
    job_run("two", "space: second\n", NULL);
    uint64_t one = space("one")->numbers.word[0], two = space("second")->numbers.word[0];
    coord_again();
    ck_assert_uint_eq(coord_spaces_held(&r.coord->fleet), 2);
    ck_assert(space("one")->numbers.word[0] == one && space("second")->numbers.word[0] == two);
    ck_assert_ptr_eq(r.coord->slot[0].space, space("second"));
    ck_assert_str_eq(space("one")->made->spec.name, "one");
    job_run("one", "", "fleet");
    ck_assert_uint_eq(coord_spaces_held(&r.coord->fleet), 2);
    ck_assert_ptr_eq(r.coord->slot[0].space, space("one"));
    ck_assert_uint_eq(space("one")->numbers.word[0], one);
    rig_stop();
}
END_TEST

START_TEST(spaces_say_what_becomes_of_rows)
{
    rig_start();
    job_run("one", "", NULL);
    ck_assert_int_ne(submit("two", "", "fleet"), 0);
    refused(SHOAL_E_NOINPUT, "space two has no tables here, but one");
    job_run("two", "", NULL);
    ck_assert_int_ne(submit("one", "", ""), 0);
    refused(SHOAL_E_EXISTS, "--set fresh=all drops them for good");
    ck_assert_int_eq(submit("other", "space: one\n", "fleet"), 0);
    ck_assert_ptr_eq(r.coord->slot[0].space, space("one"));
    rig_stop();
}
END_TEST

/* A job that drops all tables drops those of its space: another one stays, under its name, also
 * where it is the only one. _i 1: the coordinator starts again in the middle. */
START_TEST(spaces_fresh_drops_the_tables_of_one)
{
    rig_start();
    job_run("one", "", NULL);
    uint64_t one = space("one")->numbers.word[0], number = space("one")->made->number;
    job_run("two", "fresh: [all]\n", NULL);
    ck_assert_uint_eq(coord_spaces_held(&r.coord->fleet), 2);
    ck_assert_uint_eq(space("two")->numbers.word[0] & one, 0);
    r.shard[1].drop_slow = _i == 1;
    job_begin("two", "fresh: [all]\n", NULL);
    if (_i == 1) {
        go(3000);
        ck_assert(coord_fresh_half(space("two")) && !coord_fresh_half(space("one")));
        coord_again();
        r.shard[1].drop_slow = false;
    }
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, over, NULL));
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
    for (uint32_t i = 0; i < SHARDS; i++)
        ck_assert(r.shard[i].clears == 2 &&
                  table_set_equal(r.shard[i].clear_tables, space("two")->numbers));
    ck_assert(space("one")->numbers.word[0] == one && space("one")->made->number == number);
    ck_assert(!coord_fresh_half(space("two")));
    job_run("one", "", "fleet");
    rig_stop();
}
END_TEST

/* A job that was to drop the tables of its space ended half way: jobs of other spaces begin, one of
 * this space only if it drops the rest. */
START_TEST(spaces_of_which_some_are_half_cleared)
{
    rig_start();
    job_run("one", "", NULL);
    job_run("two", "", NULL);
    r.shard[1].drop_slow = true;
    job_begin("two", "fresh: [all]\n", NULL);
    go(3000);
    (void)coord_end_fail(&r.coord->slot[0], SHOAL_E_STOPPED, "stopped");
    r.shard[1].drop_slow = false;
    go(1000);
    ck_assert_int_ne(submit("two", "", "fleet"), 0);
    refused(SHOAL_E_EXISTS, "--set fresh=all, which drops the rest");
    job_run("one", "", "fleet");
    job_run("two", "fresh: [all]\n", NULL);
    ck_assert(!coord_fresh_half(space("two")));
    rig_stop();
}
END_TEST

/* Asks as a reader does. */
static int map_of(const char *name, struct wire_MAP_GET_reply *out)
{
    struct wire w = {.type = WIRE_TYPE_MAP_GET, .u.MAP_GET.reads = true};
    struct coord_ask a = {.from = 1, .request = &w};
    (void)snprintf(w.u.MAP_GET.space, LIMIT_NAME, "%s", name);
    wire_reply_to(&w, 0, &a.reply);
    int rc = coord_made_map_get(&r.coord->slot[0], &a);
    *out = a.reply.u.MAP_GET_reply;
    e = a.e;
    return rc;
}

START_TEST(spaces_are_read_by_name)
{
    struct wire_MAP_GET_reply map;
    rig_start();
    job_run("one", "", NULL);
    ck_assert_int_eq(map_of("", &map), 0);
    ck_assert_str_eq(map.space, "one");
    ck_assert_int_eq(map_of("another", &map), 0); /* the only one */
    job_run("two", "", NULL);
    ck_assert_int_ne(map_of("", &map), 0);
    refused(SHOAL_E_USAGE, "2 spaces (one, two)");
    ck_assert_int_ne(map_of("another", &map), 0);
    refused(SHOAL_E_NOT_FOUND, "no space another here");
    ck_assert_int_eq(map_of("one", &map), 0);
    ck_assert_uint_eq(map.tables_0, space("one")->numbers.word[0]);
    ck_assert_int_eq(map_of("two", &map), 0);
    ck_assert_uint_eq(map.tables_0, space("two")->numbers.word[0]);
    rig_stop();
}
END_TEST

static void store_lost(void)
{
    sim_kill(r.node);
    coord_free(r.coord);
    coord_store_close(r.store);
    r.store = coord_store_memory();
    coord_start();
}

static int drop(const char *name, uint64_t id)
{
    struct wire w = {.type = WIRE_TYPE_DROP, .id = id};
    struct coord_ask a = {.from = 1, .request = &w};
    (void)snprintf(w.u.DROP.space, LIMIT_NAME, "%s", name);
    int rc = coord_drop_request(&r.coord->fleet, &a, coord_aside_used, r.coord);
    e = a.e;
    if (rc != 0)
        return rc;
    go(3000);
    e.code = r.coord->fleet.drop.answered.status;
    (void)snprintf(e.text, sizeof e.text, "%s", r.coord->fleet.drop.answered.text);
    return e.code;
}

/* _i 1: the coordinator starts again after the drop. */
START_TEST(spaces_that_are_dropped_are_gone)
{
    struct wire_MAP_GET_reply map;
    rig_start();
    job_run("one", "", NULL);
    job_run("two", "", NULL);
    uint64_t one = space("one")->numbers.word[0];
    ck_assert_int_ne(drop("three", 1), 0);
    refused(SHOAL_E_NOT_FOUND, "no space three here: the servers hold tables of one, two");
    ck_assert_msg(drop("one", 2) == 0, "%s", e.text);
    ck_assert_ptr_null(space("one"));
    ck_assert_ptr_null(strstr(r.shard[1].names, "\"name\": \"one\""));
    if (_i == 1)
        coord_again();
    ck_assert_ptr_null(space("one"));
    ck_assert_int_eq(map_of("", &map), 0);
    ck_assert_str_eq(map.space, "two");
    ck_assert_int_ne(submit("one", "", "fleet"), 0);
    refused(SHOAL_E_NOINPUT, "space one has no tables here, but two");
    job_run("one", "", NULL); /* a new one, with the numbers of the empty tables */
    ck_assert_uint_eq(space("one")->numbers.word[0], one);
    ck_assert_uint_eq(coord_spaces_held(&r.coord->fleet), 2);
    rig_stop();
}
END_TEST

/* A job that is refused late leaves the space of the job before. */
START_TEST(spaces_of_a_refused_job_are_not_taken)
{
    rig_start();
    job_run("one", "", NULL);
    job_run("two", "", NULL);
    r.coord->fleet.taken->newest = UINT64_C(1) << 40;
    ck_assert_int_ne(submit("one", "", "fleet"), 0);
    refused(SHOAL_E_UNAVAILABLE, "not all servers have said yet");
    coord_again();
    ck_assert_ptr_eq(r.coord->slot[0].space, space("two"));
    rig_stop();
}
END_TEST

/* Numbers and tablets of dropped tables are given again, to tables of any shape, so neither runs
 * out; those of another space stay where they are. _i 1: the coordinator starts again after each
 * drop. */
START_TEST(spaces_give_the_places_of_dropped_ones_again)
{
    uint64_t most = 0;
    rig_start();
    tables = MORE;
    job_run("one", "", NULL);
    tables = ONE;
    job_run("two", "", NULL);
    const struct table_set one = space("one")->numbers, two = space("two")->numbers;
    const struct coord_cluster *cl = &r.coord->fleet.cluster;
    uint32_t first = cl->first[table_set_nth(two, 0)];
    for (uint64_t i = 0; i < 40; i++) {
        const char *name = i % 2 == 0 ? "one" : "three";
        ck_assert_msg(drop(name, 2 + i) == 0, "%s", e.text);
        if (_i == 1)
            coord_again();
        cl = &r.coord->fleet.cluster;
        ck_assert(table_set_equal(cl->held, two));
        tables = i % 3 == 0 ? WIDE : i % 3 == 1 ? MORE : ONE;
        job_run(i % 2 == 0 ? "three" : "one", "", NULL);
        ck_assert_uint_eq(cl->first[table_set_nth(two, 0)], first);
        most = cl->tablets > most ? cl->tablets : most;
    }
    ck_assert(!table_set_meet(one, two) && cl->tables <= 8);
    ck_assert_uint_le(most, 2048);
    rig_stop();
}
END_TEST

/* All spaces are dropped: the fleet is as one without tables, also after a restart (_i 1) and when
 * the store is lost (_i 2). */
START_TEST(spaces_that_are_all_dropped_leave_an_empty_fleet)
{
    struct wire_MAP_GET_reply map;
    rig_start();
    job_run("one", "", NULL);
    job_run("two", "", NULL);
    ck_assert_msg(drop("one", 1) == 0, "%s", e.text);
    ck_assert_msg(drop("two", 2) == 0, "%s", e.text);
    ck_assert_str_eq(r.shard[0].names, "none");
    if (_i == 1)
        coord_again();
    if (_i == 2)
        store_lost();
    go(3000);
    ck_assert_uint_eq(coord_spaces_held(&r.coord->fleet), 0);
    ck_assert_int_ne(map_of("", &map), 0);
    tables = WIDE;
    job_run("three", "", NULL);
    ck_assert_uint_eq(space("three")->numbers.word[0] & 1, 1);
    rig_stop();
}
END_TEST

/* A plan by which all tablets of shard 1 go to shard 0. */
static void move_all(void)
{
    const struct coord_cluster *cl = &r.coord->fleet.cluster;
    uint16_t *goal = calloc(cl->tablets, sizeof *goal);
    for (uint32_t i = 0; i < SHARDS; i++)
        r.shard[i].takes = 0;
    ck_assert_msg(coord_moves_begin(&r.coord->fleet, MOVES_REBALANCE, "", goal, &e) == 0, "%s",
                  e.text);
    free(goal);
}

/* Tablets of a dropped table are moved by the map alone: no shard is asked to take them, which has
 * no such table. */
START_TEST(spaces_that_are_dropped_are_in_no_ones_way)
{
    rig_start();
    job_run("one", "", NULL);
    job_run("two", "", NULL);
    ck_assert_msg(drop("one", 1) == 0, "%s", e.text);
    ck_assert_msg(drop("two", 2) == 0, "%s", e.text);
    move_all();
    go(10000);
    ck_assert_int_eq(r.coord->fleet.moves.kind, MOVES_NONE);
    ck_assert_uint_eq(coord_cluster_led(&r.coord->fleet.cluster, 1), 0);
    ck_assert_uint_eq(r.shard[0].takes, 0);
    job_run("one", "", NULL); /* spare tablets are dealt anew */
    ck_assert_uint_gt(coord_cluster_led(&r.coord->fleet.cluster, 1), 0);
    rig_stop();
}
END_TEST

/* Tablets whose table the taker lacks, and of which nobody knows the schema since the store was
 * lost, are left out of a plan, which ends. */
START_TEST(spaces_of_unknown_schema_stay_where_they_are)
{
    rig_start();
    job_run("one", "", NULL);
    job_run("two", "", NULL);
    uint32_t led = coord_cluster_led(&r.coord->fleet.cluster, 1);
    r.shard[0].take_fails = "there is no such table";
    r.shard[0].take_status = SHOAL_E_NO_TABLE;
    move_all();
    go(120000);
    ck_assert_int_eq(r.coord->fleet.moves.kind, MOVES_NONE);
    ck_assert_uint_eq(coord_cluster_led(&r.coord->fleet.cluster, 1), led);
    rig_stop();
}
END_TEST

/* Each space has its own list of what it has learnt, also after a restart. */
START_TEST(spaces_keep_what_they_have_learnt)
{
    rig_start();
    job_run("one", "", NULL);
    uint64_t first = space("one")->taken->is.at.job, version = space("one")->taken->version;
    ck_assert_uint_eq(first, r.coord->slot[0].at.number);
    job_run("two", "", NULL);
    ck_assert_uint_eq(space("two")->taken->is.at.job, r.coord->slot[0].at.number);
    ck_assert_uint_gt(space("two")->taken->version, version);
    coord_again();
    ck_assert_uint_eq(space("one")->taken->is.at.job, first);
    ck_assert_uint_eq(space("one")->taken->version, version);
    rig_stop();
}
END_TEST

/* A server with rows in memory starts again: the space that rests has lost them. */
START_TEST(spaces_that_rest_are_lost_with_a_servers_memory)
{
    struct wire_MAP_GET_reply map;
    rig_start();
    for (uint32_t i = 0; i < SHARDS; i++)
        r.shard[i].in_memory = true;
    go(1000);
    job_run("one", "", NULL);
    job_run("two", "", NULL);
    ck_assert_uint_eq(space("one")->state, SPACE_IS);
    sim_kill(r.shard[1].node);
    go(300);
    shard_start(1, 2);
    r.shard[1].in_memory = true;
    go(1000);
    ck_assert_int_ne(map_of("one", &map), 0); /* not marked yet */
    refused(SHOAL_E_NOT_FOUND, "they are lost: begin the space anew");
    ck_assert_msg(drop("two", 1) == 0, "%s", e.text);
    job_run("three", "", NULL);
    ck_assert_uint_eq(space("one")->state, SPACE_LOST);
    ck_assert_int_ne(submit("one", "", "fleet"), 0);
    refused(SHOAL_E_NOINPUT, "they are lost: shoal drop one");
    ck_assert_int_ne(submit("one", "", "folder"), 0); /* LOAD takes no table that had rows */
    refused(SHOAL_E_NOINPUT, "shoal drop one, then begin it with a checkpoint");
    ck_assert_int_ne(submit("one", "", ""), 0);
    refused(SHOAL_E_NOINPUT, "shoal drop one");
    ck_assert_int_ne(map_of("one", &map), 0);
    refused(SHOAL_E_NOT_FOUND, "they are lost");
    ck_assert_msg(drop("one", 2) == 0, "%s", e.text);
    job_run("one", "", NULL);
    rig_stop();
}
END_TEST

/* A job begins with the tables of its space, and is being set up, when a server with rows in memory
 * starts again, alone (_i 0) or while no coordinator runs (_i 1): the job says so and ends. */
START_TEST(rows_lost_in_setup_end_the_job)
{
    rig_start();
    for (uint32_t i = 0; i < SHARDS; i++)
        r.shard[i].in_memory = true;
    go(1000);
    job_run("one", "", NULL);
    r.shard[0].create_later = "not yet";
    job_begin("one", "", "fleet");
    while (r.coord->slot[0].at.phase != PHASE_SETUP)
        go(10);
    go(100);
    sim_kill(r.shard[1].node);
    if (_i == 1)
        sim_kill(r.node);
    go(300);
    shard_start(1, 2);
    r.shard[1].in_memory = true;
    if (_i == 1) {
        coord_free(r.coord);
        coord_start();
    }
    go(1000);
    r.shard[0].create_later = NULL;
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, over, NULL));
    ck_assert_int_eq(r.client.state, WIRE_JOB_FAILED);
    ck_assert_msg(strstr(r.client.text, "server-1 died, and its rows were in memory") != NULL, "%s",
                  r.client.text);
    ck_assert_int_ne(submit("one", "", "fleet"), 0);
    rig_stop();
}
END_TEST

/* A server whose rows are on its disk comes with durability: memory, in another folder: it is not
 * taken as long as it has rows. */
START_TEST(rows_on_a_disk_do_not_vanish_with_the_durability)
{
    rig_start();
    job_run("one", "", NULL);
    r.shard[1].sequence = 100;
    go(2000);
    struct fake_shard *s = &r.shard[1];
    fake_shard_die(s);
    s->cluster[0] = s->cluster[1] = s->sequence = s->names_version = s->taken_newest = 0;
    memset(s->taken, 0, sizeof s->taken);
    s->number = s->shards = 0;
    s->names[0] = 0;
    s->in_memory = true;
    go(300);
    shard_start(1, 2);
    go(2000);
    ck_assert_msg(strstr(s->refused, "comes with durability: memory") != NULL, "%s", s->refused);
    rig_stop();
}
END_TEST

static void memory_start(void)
{
    rig_start();
    for (uint32_t i = 0; i < SHARDS; i++)
        r.shard[i].in_memory = true;
    go(1000);
}

/* A server with rows in memory starts again. */
static void memory_again(uint32_t i)
{
    sim_kill(r.shard[i].node);
    go(300);
    shard_start(i, r.shard[i].incarnation + 1);
    r.shard[i].in_memory = true;
    go(1000);
}

/* All of a space is half dropped (_i 0), or a table of it (_i 1), when a server loses the rest. */
START_TEST(spaces_that_are_half_dropped_are_lost_with_a_servers_memory)
{
    memory_start();
    job_run("one", "", NULL);
    job_run("two", "", NULL);
    ck_assert(coord_space_half_put(&r.coord->fleet, space("one"), _i == 0 ? "" : "emb"));
    memory_again(1);
    job_run("two", "fresh: [all]\n", NULL);
    ck_assert_uint_eq(space("one")->state, SPACE_LOST);
    ck_assert_int_ne(submit("one", "", "fleet"), 0);
    refused(SHOAL_E_NOINPUT, "they are lost: shoal drop one");
    ck_assert_msg(drop("one", 3) == 0, "%s", e.text);
    ck_assert_ptr_null(space("one"));
    job_run("one", "", NULL);
    rig_stop();
}
END_TEST

/* A server that leads no tablet of a space has none of its rows: the space is whole when the server
 * loses those of another one. */
START_TEST(spaces_without_tablets_on_a_server_lose_nothing_with_it)
{
    struct wire_MAP_GET_reply map;
    uint32_t list[4096], count = 0;
    memory_start();
    job_run("one", "", NULL);
    const struct coord_cluster *cl = &r.coord->fleet.cluster;
    for (uint32_t i = 0; i < cl->tablets; i++)
        if (cl->shard_of[i] == 1)
            list[count++] = i;
    ck_assert(coord_cluster_move(&r.coord->fleet, list, count, 0));
    job_run("two", "", NULL);
    ck_assert_uint_gt(coord_cluster_led(cl, 1), 0);
    memory_again(1);
    ck_assert_msg(map_of("one", &map) == 0, "%s", e.text);
    ck_assert_int_ne(map_of("two", &map), 0);
    if (_i == 1) { /* its job does not miss them either */
        job_run("one", "", "fleet");
        ck_assert_uint_eq(space("two")->state, SPACE_LOST);
    } else {
        job_run("two", "fresh: [all]\n", NULL);
        ck_assert_uint_eq(space("two")->state, SPACE_IS);
        ck_assert_msg(submit("one", "", "fleet") == 0, "%s", e.text);
    }
    ck_assert_uint_eq(space("one")->state, SPACE_IS);
    rig_stop();
}
END_TEST

/* The same while a job of the space runs: it goes on. */
START_TEST(spaces_without_tablets_on_a_server_train_on_without_it)
{
    uint32_t list[4096], count = 0;
    memory_start();
    job_run("one", "", NULL);
    const struct coord_cluster *cl = &r.coord->fleet.cluster;
    for (uint32_t i = 0; i < cl->tablets; i++)
        if (cl->shard_of[i] == 1)
            list[count++] = i;
    ck_assert(coord_cluster_move(&r.coord->fleet, list, count, 0));
    job_run("two", "", NULL);
    job_begin("one", "", "fleet");
    while (r.worker.batches < 10)
        go(1);
    memory_again(1);
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, over, NULL));
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
    ck_assert_uint_eq(space("one")->state, SPACE_IS);
    ck_assert_uint_eq(space("two")->state, SPACE_LOST);
    rig_stop();
}
END_TEST

/* No rows are left that a server could have lost. */
START_TEST(spaces_that_are_all_dropped_miss_no_rows)
{
    memory_start();
    job_run("one", "", NULL);
    ck_assert_msg(drop("one", 1) == 0, "%s", e.text);
    memory_again(1);
    job_run("two", "", NULL);
    rig_stop();
}
END_TEST

/* A server had a journal once, and has rows in memory since. */
START_TEST(rows_in_memory_are_not_taken_for_rows_of_a_former_journal)
{
    memory_start();
    job_run("one", "", NULL);
    struct fake_shard *s = &r.shard[1];
    r.coord->fleet.members.shard[1].synced = 100;
    fake_shard_die(s);
    s->cluster[0] = s->cluster[1] = s->sequence = s->names_version = s->taken_newest = 0;
    memset(s->taken, 0, sizeof s->taken);
    s->number = s->shards = 0;
    s->names[0] = 0;
    go(300);
    shard_start(1, 2);
    s->in_memory = true;
    go(2000);
    ck_assert_str_eq(s->refused, "");
    rig_stop();
}
END_TEST

/* A job that begins with a checkpoint keeps tables of its space that the checkpoint lacks. */
START_TEST(spaces_of_a_job_with_a_checkpoint_can_lose_rows)
{
    memory_start();
    job_run("one", "", NULL);
    struct coord_job *j = &r.coord->slot[0];
    const struct coord_progress was = j->at;
    j->at.phase = PHASE_SETUP;
    j->at.from = FROM_TO_START;
    j->at.run++;
    ck_assert(coord_back_needs(j));
    j->at.from = FROM_BACK; /* all rows of the space go first */
    ck_assert(!coord_back_needs(j));
    j->at = was;
    rig_stop();
}
END_TEST

/* The coordinator (_i 0) or a server (_i 1) goes away while the rows of a space are dropped: only
 * another drop takes the space. */
START_TEST(spaces_that_are_half_dropped_are_dropped_again)
{
    struct wire_MAP_GET_reply map;
    rig_start();
    job_run("one", "", NULL);
    job_run("two", "", NULL);
    r.shard[1].drop_slow = true;
    (void)drop("one", 1);
    ck_assert_uint_ne(r.coord->fleet.drop.asker, 0);
    if (_i == 1) {
        sim_kill(r.shard[1].node);
        go(3000);
        ck_assert_uint_eq(r.coord->fleet.drop.asker, 0);
        shard_start(1, 2);
    }
    coord_again();
    ck_assert_ptr_nonnull(space("one"));
    ck_assert_int_ne(submit("one", "", "fleet"), 0);
    refused(SHOAL_E_NOINPUT, "space one is half dropped");
    ck_assert_int_ne(map_of("one", &map), 0);
    refused(SHOAL_E_NOT_FOUND, "shoal drop one once more");
    r.shard[1].drop_slow = false;
    ck_assert_msg(drop("one", 2) == 0, "%s", e.text);
    ck_assert_ptr_null(space("one"));
    job_run("one", "", NULL);
    rig_stop();
}
END_TEST

static struct wire heard;

static void heard_message(void *core, peer_t from, struct msg *m)
{
    (void)core, (void)from;
    ck_assert_int_eq(wire_decode(m, &heard, &e), 0);
    msg_free(m);
}

static void heard_drained(void *core)
{
    (void)core;
}

/* Asks as shoal import does; the status and the sentence in e. */
static int import(uint32_t number)
{
    static const struct env_handler handler = {.on_message = heard_message,
                                               .on_drained = heard_drained};
    struct sim_node *node = sim_node_new(r.sim, "asker", &handler, NULL);
    struct wire w = {.type = WIRE_TYPE_IMPORT, .id = 900};
    peer_t to;
    w.u.IMPORT = (struct wire_IMPORT){.number = number, .rows = 7, .token = 5};
    (void)snprintf(w.u.IMPORT.table, sizeof w.u.IMPORT.table, "emb");
    memset(&heard, 0, sizeof heard);
    ck_assert_int_eq(env_connect(sim_node_env(node), "sim://coordinator", ENV_COORDINATOR, &to), 0);
    ck_assert_int_eq(env_send(sim_node_env(node), to, wire_encode(&w)), 0);
    go(50);
    ck_assert(heard.reply && heard.id == w.id);
    sim_kill(node);
    memset(&e, 0, sizeof e);
    if (heard.status != 0)
        (void)err_set(&e, heard.status, "%s", heard.error);
    return heard.status;
}

/* Rows of files come into no table that is being dropped, or that was. */
START_TEST(spaces_that_are_dropped_take_no_import)
{
    rig_start();
    job_run("one", "", NULL);
    job_run("two", "", NULL);
    uint32_t one = table_set_nth(space("one")->numbers, 0);
    uint32_t two = table_set_nth(space("two")->numbers, 0);
    ck_assert_int_eq(import(one), 0);
    r.shard[1].drop_slow = true;
    (void)drop("one", 1);
    ck_assert_int_ne(import(two), 0);
    refused(SHOAL_E_BUSY, "one is being dropped");
    r.shard[1].drop_slow = false;
    go(1000);
    ck_assert_ptr_null(space("one"));
    ck_assert_int_ne(import(one), 0);
    refused(SHOAL_E_NOT_FOUND, "is of no space here");
    ck_assert_int_eq(import(two), 0);
    rig_stop();
}
END_TEST

/* The store of release 0.2.0 after a job that failed before it had tables: a job before that one
 * has made those that are there. */
START_TEST(spaces_of_an_old_store_are_those_of_its_tables)
{
    rig_start();
    job_run("one", "", NULL);
    uint64_t one = space("one")->numbers.word[0];
    struct coord_job *j = &r.coord->slot[0];
    ck_assert_int_eq(coord_store_remove(r.store, "numbers", &e), 0);
    ck_assert_int_eq(coord_store_remove(r.store, "space", &e), 0);
    ck_assert_int_eq(coord_store_remove(r.store, "tables", &e), 0);
    j->at.tables = 0;
    ck_assert(coord_phase_put(j));
    coord_again();
    ck_assert_ptr_nonnull(space("one"));
    ck_assert_uint_eq(space("one")->numbers.word[0], one);
    job_run("two", "", NULL);
    ck_assert(space("two") != NULL && space("one") != NULL);
    ck_assert_uint_eq(space("one")->numbers.word[0], one);
    ck_assert_uint_eq(space("two")->numbers.word[0] & one, 0);
    rig_stop();
}
END_TEST

/* The only space that is left is not read for another one, which was there. */
START_TEST(spaces_that_were_dropped_are_not_read_as_the_last_one)
{
    struct wire_MAP_GET_reply map;
    rig_start();
    job_run("one", "", NULL);
    job_run("two", "", NULL);
    ck_assert_msg(drop("one", 1) == 0, "%s", e.text);
    ck_assert_int_ne(map_of("one", &map), 0);
    refused(SHOAL_E_NOT_FOUND, "no space one here: the servers hold tables of two");
    ck_assert_int_eq(map_of("two", &map), 0);
    ck_assert_int_eq(map_of("", &map), 0); /* a client of a release without spaces */
    ck_assert_str_eq(map.space, "two");
    rig_stop();
}
END_TEST

static void told(void *context, const struct coord_call *call, int status, const char *why)
{
    (void)context;
    (void)call;
    ck_assert_msg(status == 0, "%s", why);
}

/* Has the list of spaces made; all shards take it. */
static void list_made(void)
{
    int rc = coord_names_forget(&r.coord->fleet, space("two"), LEGEND_FIELDS, NULL, told, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    go(1000);
    ck_assert_ptr_nonnull(strstr(r.shard[0].names, "\"two\""));
    ck_assert_ptr_nonnull(strstr(r.shard[1].names, "\"two\""));
}

/* A job of a space has fewer tables than the one before: the shards still have the last one, whose
 * place no other space gets, after a restart (_i 1) and when the store is lost (_i 2) too. It goes
 * when the space's tables are dropped. */
START_TEST(spaces_that_give_up_a_table_keep_its_place)
{
    rig_start();
    job_run("one", "", NULL);
    tables = MORE;
    job_run("two", "", NULL);
    struct coord_space *two = space("two");
    uint64_t had = two->numbers.word[0];
    ck_assert_int_eq(coord_cluster_map(&r.coord->fleet, two->made->table, two->made->tables - 1,
                                       false, &two->numbers, &two->left, &e),
                     0);
    ck_assert(coord_space_numbers_put(&r.coord->fleet, two));
    uint64_t has = two->numbers.word[0], left = two->left.word[0];
    ck_assert(has != had && (has | left) == had);
    list_made();
    if (_i == 1)
        coord_again();
    if (_i == 2)
        store_lost();
    go(3000);
    ck_assert_ptr_nonnull(space("two"));
    ck_assert(space("two")->numbers.word[0] == has && space("two")->left.word[0] == left);
    job_run("three", "", NULL);
    ck_assert_uint_eq(space("three")->numbers.word[0] & (had | space("one")->numbers.word[0]), 0);
    tables = ONE;
    job_run("two", "fresh: [all]\n", NULL);
    ck_assert(set_is(r.shard[0].clear_tables, had));
    ck_assert_uint_eq(space("two")->left.word[0], 0);
    ck_assert_uint_eq(coord_map_places(&r.coord->fleet.cluster).word[0],
                      r.coord->fleet.cluster.held.word[0]);
    rig_stop();
}
END_TEST

/* The store is lost. What the tables have learnt is taken after the list of spaces, of each space
 * its own. */
START_TEST(spaces_are_known_before_what_they_have_learnt)
{
    rig_start();
    job_run("one", "", NULL);
    job_run("two", "", NULL);
    list_made();
    uint64_t one = space("one")->taken->is.at.job, two = space("two")->taken->is.at.job;
    for (uint32_t i = 0; i < SHARDS; i++)
        r.shard[i].names_held_slow = true;
    store_lost();
    go(2000);
    ck_assert_uint_eq(r.coord->fleet.taken->version, 0);
    for (uint32_t i = 0; i < SHARDS; i++)
        r.shard[i].names_held_slow = false;
    go(3000);
    ck_assert_uint_eq(coord_spaces_held(&r.coord->fleet), 2);
    ck_assert_uint_eq(space("one")->taken->is.at.job, one);
    ck_assert_uint_eq(space("two")->taken->is.at.job, two);
    ck_assert_uint_eq(r.coord->fleet.taken->version, r.shard[0].taken_newest);
    rig_stop();
}
END_TEST

/* Every shard has a newer list of spaces than the coordinator, whose store was brought back from a
 * copy. */
static void shards_know(const char *names)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        r.shard[i].names_version += 1000;
        (void)snprintf(r.shard[i].names, sizeof r.shard[i].names, "%s", names);
    }
    go(3000);
    ck_assert(coord_names_ready(&r.coord->fleet.names));
    ck_assert_uint_eq(r.coord->fleet.names.version, r.shard[0].names_version);
}

/* _i 1: the coordinator starts again. */
START_TEST(spaces_that_a_newer_list_lacks_are_forgotten)
{
    char *second, names[2048];
    struct wire_MAP_GET_reply map;
    rig_start();
    job_run("one", "", NULL);
    job_run("two", "", NULL);
    list_made();
    uint64_t one = space("one")->numbers.word[0];
    (void)snprintf(names, sizeof names, "%s", r.shard[0].names);
    second = strstr(names, "\nspace: ");
    ck_assert_ptr_nonnull(second);
    *second = 0; /* the first one alone */
    shards_know(names);
    if (_i == 1)
        coord_again();
    ck_assert_ptr_null(space("two"));
    ck_assert_uint_eq(r.coord->fleet.cluster.held.word[0], one);
    ck_assert_uint_eq(space("one")->numbers.word[0], one);
    ck_assert_int_eq(map_of("one", &map), 0);
    rig_stop();
}
END_TEST

/* The number of a space that was dropped is that of another model. */
START_TEST(spaces_of_another_name_do_not_have_the_old_tables)
{
    char names[2048];
    struct wire_MAP_GET_reply map;
    rig_start();
    job_run("one", "", NULL);
    job_run("two", "", NULL);
    list_made();
    uint64_t two = space("two")->numbers.word[0];
    (void)snprintf(names, sizeof names, "%s", r.shard[0].names);
    char *name = strstr(names, "\"two\"");
    ck_assert_ptr_nonnull(name);
    memcpy(name, "\"new\"", 5);
    shards_know(names);
    ck_assert_ptr_null(space("two"));
    ck_assert(space("new") != NULL && space("new")->numbers.word[0] == two);
    ck_assert_uint_eq(space("new")->made->number, 0);
    ck_assert_int_ne(map_of("new", &map), 0); /* its schemas are not known */
    ck_assert_int_ne(map_of("two", &map), 0);
    ck_assert_int_eq(map_of("one", &map), 0);
    rig_stop();
}
END_TEST

/* A text that could not be read after a start is not stored. */
START_TEST(spaces_of_a_list_that_cannot_be_read_are_not_taken)
{
    char names[2048];
    rig_start();
    job_run("one", "", NULL);
    job_run("two", "", NULL);
    list_made();
    const uint64_t version = r.coord->fleet.names.version;
    for (uint32_t i = 0; i < SHARDS; i++) {
        r.shard[i].names_version += 1000;
        (void)snprintf(names, sizeof names, "%s", r.shard[i].names);
        (void)snprintf(r.shard[i].names, sizeof r.shard[i].names,
                       "%.1000s\nnames: {\"a\": ", names);
    }
    go(3000);
    ck_assert_uint_eq(r.coord->fleet.names.version, version);
    coord_again(); /* reads the stored text */
    ck_assert_uint_eq(coord_spaces_held(&r.coord->fleet), 2);
    rig_stop();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("spaces");
    TCase *t = tcase_create("spaces");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, spaces_of_two_jobs_are_beside_one_another);
    tcase_add_test(t, spaces_are_there_after_a_restart);
    tcase_add_test(t, spaces_say_what_becomes_of_rows);
    tcase_add_loop_test(t, spaces_fresh_drops_the_tables_of_one, 0, 2);
    tcase_add_test(t, spaces_of_which_some_are_half_cleared);
    tcase_add_test(t, spaces_are_read_by_name);
    tcase_add_loop_test(t, spaces_that_are_dropped_are_gone, 0, 2);
    tcase_add_test(t, spaces_of_a_refused_job_are_not_taken);
    tcase_add_loop_test(t, spaces_give_the_places_of_dropped_ones_again, 0, 2);
    tcase_add_loop_test(t, spaces_that_are_all_dropped_leave_an_empty_fleet, 0, 3);
    tcase_add_test(t, spaces_that_are_dropped_are_in_no_ones_way);
    tcase_add_test(t, spaces_of_unknown_schema_stay_where_they_are);
    tcase_add_loop_test(t, spaces_that_give_up_a_table_keep_its_place, 0, 3);
    tcase_add_test(t, spaces_keep_what_they_have_learnt);
    tcase_add_test(t, spaces_that_rest_are_lost_with_a_servers_memory);
    tcase_add_loop_test(t, rows_lost_in_setup_end_the_job, 0, 2);
    tcase_add_test(t, rows_on_a_disk_do_not_vanish_with_the_durability);
    tcase_add_test(t, spaces_that_were_dropped_are_not_read_as_the_last_one);
    tcase_add_test(t, spaces_are_known_before_what_they_have_learnt);
    tcase_add_loop_test(t, spaces_that_a_newer_list_lacks_are_forgotten, 0, 2);
    tcase_add_test(t, spaces_of_another_name_do_not_have_the_old_tables);
    tcase_add_test(t, spaces_of_a_list_that_cannot_be_read_are_not_taken);
    tcase_add_loop_test(t, spaces_that_are_half_dropped_are_dropped_again, 0, 2);
    tcase_add_loop_test(t, spaces_that_are_half_dropped_are_lost_with_a_servers_memory, 0, 2);
    tcase_add_loop_test(t, spaces_without_tablets_on_a_server_lose_nothing_with_it, 0, 2);
    tcase_add_test(t, spaces_without_tablets_on_a_server_train_on_without_it);
    tcase_add_test(t, spaces_that_are_all_dropped_miss_no_rows);
    tcase_add_test(t, rows_in_memory_are_not_taken_for_rows_of_a_former_journal);
    tcase_add_test(t, spaces_of_a_job_with_a_checkpoint_can_lose_rows);
    tcase_add_test(t, spaces_that_are_dropped_take_no_import);
    tcase_add_test(t, spaces_of_an_old_store_are_those_of_its_tables);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
