/* test_place.c: a shard's place in its cluster: set once, kept in its folder, and protected from a
 * map that would leave rows behind. */
#include "tests/server/shard_rig.h"

#include "server/shard/place.h"
#include "server/shard/server_dir.h"
#include "tests/lib/file_fault.h"

#include <inttypes.h>
#include <unistd.h>

#define EVAL UINT32_MAX

static char dir[64];

static void setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/shoal-place-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static uint64_t push_to(struct rig *r, uint32_t tablet, uint64_t from)
{
    return rig_push(r, (struct rig_push_args){
                           .from = from, .to = from + 1, .key = rig_key(tablet, 0), .gradient = 2});
}

START_TEST(a_map_is_kept_before_it_is_led)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    sim_kill(r.shard_node); /* only answered requests were written */
    shard_close(r.shard, false);
    rig_shard(&r);
    const struct engine_place *p = engine_place(r.shard->engine);
    ck_assert_uint_eq(p->cluster[0], RIG_CLUSTER);
    ck_assert_uint_eq(p->number, 0);
    ck_assert_uint_eq(p->shards, 2);
    ck_assert_uint_eq(p->map_epoch, 1);
    ck_assert_uint_eq(p->tablets, 2u << RIG_BITS);
    ck_assert_uint_eq(r.beat.cluster_high, RIG_CLUSTER);
    ck_assert_uint_eq(r.beat.map_epoch, 1);
    ck_assert_uint_eq(r.beat.newest_run, RIG_RUN);
    ck_assert(r.beat.holds);
    struct wire w = rig_wire(&r, WIRE_TYPE_MAP_HELD);
    uint64_t held = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_uint_eq(rig_reply(&r, held)->u.MAP_HELD_reply.map_epoch, 1);
    ck_assert_uint_eq(r.answer[held].m->frame[1].bytes, 2 * (2u << RIG_BITS));
    rig_free(&r);
}
END_TEST

/* _i 0: a row is there; 1: only a mark; 2: neither, and the map is accepted. */
START_TEST(a_map_that_leaves_rows_is_refused)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    if (_i == 0)
        rig_push(
            &r,
            (struct rig_push_args){
                .from = 0, .to = 1, .first = 9, .count = 1, .key = rig_key(9, 0), .gradient = 2});
    else if (_i == 1)
        rig_push(&r, (struct rig_push_args){.from = 0, .to = 1, .first = 9, .count = 1});
    else
        rig_push(&r, (struct rig_push_args){
                         .from = 0, .to = 1, .count = 8, .key = rig_key(7, 0), .gradient = 2});
    rig_run(&r, 5);
    uint64_t taken = rig_map(&r, 2, 8);
    rig_run(&r, 5);
    uint64_t pull = rig_pull(&r, EVAL, 0, 0, rig_key(9, 0));
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, taken), _i < 2 ? SHOAL_E_CONFIG : 0);
    ck_assert_int_eq(rig_status(&r, pull), _i < 2 ? 0 : SHOAL_E_NOT_LEADER);
    if (_i == 0)
        ck_assert(rig_value(&r, pull) == -2);
    if (_i < 2)
        ck_assert_ptr_nonnull(strstr(rig_reply(&r, taken)->error, "tablet 9 of table t0"));
    ck_assert_uint_eq(engine_place(r.shard->engine)->map_epoch, _i < 2 ? 1 : 2);
    rig_free(&r);
}
END_TEST

START_TEST(a_foreign_or_older_or_other_map_is_refused)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    r.foreign = 1;
    uint64_t foreign = rig_map(&r, 9, 1000);
    r.foreign = 0;
    uint64_t other = rig_map(&r, 1, 8), same = rig_map(&r, 1, 1000), next = rig_map(&r, 3, 1000),
             older = rig_map(&r, 2, 1000);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, foreign), SHOAL_E_CONFIG);
    ck_assert_int_eq(rig_status(&r, other), SHOAL_E_CONFIG);
    ck_assert_int_eq(rig_status(&r, same), 0);
    ck_assert_int_eq(rig_status(&r, next), 0);
    ck_assert_int_eq(rig_status(&r, older), SHOAL_E_CONFIG);
    rig_free(&r);
}
END_TEST

static uint64_t names(struct rig *r, uint64_t version, const char *line)
{
    struct wire w = rig_wire(r, WIRE_TYPE_NAMES_SET);
    w.u.NAMES_SET =
        (struct wire_NAMES_SET){.version = version, .cluster_high = RIG_CLUSTER + r->foreign};
    return rig_send(r, &w, 1, line, strlen(line), NULL, 0);
}

START_TEST(names_are_kept_and_given_and_others_are_refused)
{
    static const char
        line[] = "names: {\"fields\": {\"a\": [0, \"t0\", \"category\"]}, \"input\": \"\"}",
        other[] = "names: {\"fields\": {\"b\": [0, \"t0\", \"category\"]}, \"input\": \"\"}";
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    r.foreign = 1;
    uint64_t foreign = names(&r, 9, line);
    r.foreign = 0;
    uint64_t first = names(&r, 2, line), same = names(&r, 2, line), twin = names(&r, 2, other),
             older = names(&r, 1, line), none = names(&r, 3, "names: [7]"),
             zero = names(&r, 0, line), next = names(&r, 3, other);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, foreign), SHOAL_E_CONFIG);
    ck_assert_int_eq(rig_status(&r, first), 0);
    ck_assert_int_eq(rig_status(&r, same), 0);
    ck_assert_int_eq(rig_status(&r, twin), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(rig_reply(&r, twin)->error, "two lists of names of version 2"));
    ck_assert_int_eq(rig_status(&r, older), SHOAL_E_CONFIG);
    ck_assert_int_eq(rig_status(&r, none), SHOAL_E_MALFORMED);
    ck_assert_int_eq(rig_status(&r, zero), SHOAL_E_MALFORMED);
    ck_assert_int_eq(rig_status(&r, next), 0);
    sim_kill(r.shard_node); /* only answered requests were written */
    shard_close(r.shard, false);
    rig_shard(&r);
    ck_assert_uint_eq(r.beat.names_version, 3);
    ck_assert_uint_eq(r.beat.names_digest, engine_names(r.shard->engine)->digest);
    struct wire w = rig_wire(&r, WIRE_TYPE_NAMES_HELD);
    uint64_t held = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_uint_eq(rig_reply(&r, held)->u.NAMES_HELD_reply.version, 3);
    ck_assert_uint_eq(r.answer[held].m->frame[1].bytes, sizeof other - 1);
    ck_assert_mem_eq(r.answer[held].m->frame[1].data, other, sizeof other - 1);
    rig_free(&r);
}
END_TEST

static uint64_t taken(struct rig *r, uint64_t version, const char *bytes)
{
    struct wire w = rig_wire(r, WIRE_TYPE_TAKEN_SET);
    w.u.TAKEN_SET =
        (struct wire_TAKEN_SET){.version = version, .cluster_high = RIG_CLUSTER + r->foreign};
    return rig_send(r, &w, 1, bytes, strlen(bytes), NULL, 0);
}

static uint64_t taken_in(struct rig *r, uint32_t space, uint64_t version, const char *bytes)
{
    struct wire w = rig_wire(r, WIRE_TYPE_TAKEN_SET);
    w.u.TAKEN_SET =
        (struct wire_TAKEN_SET){.version = version, .cluster_high = RIG_CLUSTER, .space = space};
    return rig_send(r, &w, 1, bytes, strlen(bytes), NULL, 0);
}

/* Another space's older list is no older list; a space that cannot be is refused. */
START_TEST(what_is_learnt_is_kept_by_space)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    uint64_t first = taken_in(&r, 0, 5, "a"), second = taken_in(&r, 2, 4, "b, c"),
             none = taken_in(&r, LIMIT_SPACES, 6, "d"), older = taken_in(&r, 2, 3, "e");
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, first), 0);
    ck_assert_int_eq(rig_status(&r, second), 0);
    ck_assert_int_eq(rig_status(&r, none), SHOAL_E_MALFORMED);
    ck_assert_int_eq(rig_status(&r, older), SHOAL_E_CONFIG);
    struct wire w = rig_wire(&r, WIRE_TYPE_TAKEN_HELD);
    w.u.TAKEN_HELD.space = 2;
    uint64_t held = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    w = rig_wire(&r, WIRE_TYPE_TAKEN_HELD);
    w.u.TAKEN_HELD.space = LIMIT_SPACES;
    uint64_t bad = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_uint_eq(rig_reply(&r, held)->u.TAKEN_HELD_reply.version, 4);
    ck_assert_mem_eq(r.answer[held].m->frame[1].data, "b, c", 4);
    ck_assert_int_eq(rig_status(&r, bad), SHOAL_E_MALFORMED);
    rig_free(&r);
}
END_TEST

START_TEST(what_is_learnt_is_kept_and_given_and_an_older_one_is_refused)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    r.foreign = 1;
    uint64_t foreign = taken(&r, 9, "a");
    r.foreign = 0;
    uint64_t first = taken(&r, 2, "a"), same = taken(&r, 2, "a"), older = taken(&r, 1, "b"),
             zero = taken(&r, 0, "b"), next = taken(&r, 3, "a, b");
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, foreign), SHOAL_E_CONFIG);
    ck_assert_int_eq(rig_status(&r, first), 0);
    ck_assert_int_eq(rig_status(&r, same), 0);
    ck_assert_int_eq(rig_status(&r, older), SHOAL_E_CONFIG);
    ck_assert_int_eq(rig_status(&r, zero), SHOAL_E_MALFORMED);
    ck_assert_int_eq(rig_status(&r, next), 0);
    sim_kill(r.shard_node); /* only answered requests were written */
    shard_close(r.shard, false);
    rig_shard(&r);
    ck_assert_uint_eq(r.beat.taken_version, 3);
    struct wire w = rig_wire(&r, WIRE_TYPE_TAKEN_HELD);
    uint64_t held = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_uint_eq(rig_reply(&r, held)->u.TAKEN_HELD_reply.version, 3);
    ck_assert_uint_eq(r.answer[held].m->frame[1].bytes, 4);
    ck_assert_mem_eq(r.answer[held].m->frame[1].data, "a, b", 4);
    rig_free(&r);
}
END_TEST

/* The folder of shard 0 meets a coordinator that gives it another number (_i 0) or another cluster
 * (1). The shard answers no request, and goes on when its own coordinator is back. */
START_TEST(another_place_is_not_taken)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    push_to(&r, 3, 0);
    rig_run(&r, 5);
    r.number = _i == 0;
    r.foreign = _i;
    rig_restart(&r, false);
    uint64_t pull = rig_pull(&r, EVAL, 0, 0, rig_key(3, 0));
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, pull), SHOAL_E_AGAIN);
    r.number = r.foreign = 0;
    rig_restart(&r, false);
    pull = rig_pull(&r, EVAL, 0, 0, rig_key(3, 0));
    rig_run(&r, 5);
    ck_assert(rig_value(&r, pull) == -2);
    rig_free(&r);
}
END_TEST

/* The place consists of the number and both halves of the cluster's name; the count of shards is
 * that of now. */
START_TEST(a_place_is_all_that_is_told)
{
    static const struct {
        uint32_t shard, shards;
        uint64_t high, low;
        int status;
    } told[] = {{0, 2, RIG_CLUSTER, 0, 0},
                {0, 2, 0, 0, SHOAL_E_MALFORMED},
                {LIMIT_SHARDS, 2, RIG_CLUSTER, 0, SHOAL_E_MALFORMED},
                {0, 0, RIG_CLUSTER, 0, SHOAL_E_MALFORMED},
                {1, 2, RIG_CLUSTER, 0, SHOAL_E_CONFIG},
                {0, 3, RIG_CLUSTER, 0, 0},              /* a shard was added */
                {2, 2, RIG_CLUSTER, 0, SHOAL_E_CONFIG}, /* others were retired */
                {0, 2, RIG_CLUSTER + 1, 0, SHOAL_E_CONFIG},
                {0, 2, RIG_CLUSTER, 1, SHOAL_E_CONFIG}};
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        struct err e = {0};
        struct wire_SHARD_BEAT_reply reply = {.shard = told[i].shard,
                                              .shards = told[i].shards,
                                              .cluster_high = told[i].high,
                                              .cluster_low = told[i].low};
        ck_assert_int_eq(place_told(r.shard, &reply, &e), told[i].status);
    }
    ck_assert_uint_eq(engine_place(r.shard->engine)->shards, 3);
    uint64_t fences = rig_fences(&r, RIG_RUN + 9, NULL, 0), /* its run is not open */
        map = rig_map(&r, 1, (2u << RIG_BITS) - 1);         /* its last tablet is another shard's */
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, fences), SHOAL_E_OLD_RUN);
    ck_assert_int_eq(rig_status(&r, map), SHOAL_E_CONFIG);
    rig_free(&r);
}
END_TEST

static void beat_answered(struct rig *r, peer_t to, uint32_t lease_ms)
{
    struct wire w = {.type = WIRE_TYPE_SHARD_BEAT, .reply = true};
    w.u.SHARD_BEAT_reply =
        (struct wire_SHARD_BEAT_reply){.shard = WIRE_NO_SHARD, .lease_ms = lease_ms};
    ck_assert_int_eq(env_send(sim_node_env(r->client), to, wire_encode(&w)), 0);
    rig_run(r, 5);
}

/* The lease stays within its limits: beats neither flood nor stop. */
START_TEST(a_lease_is_the_coordinators_to_say)
{
    static const uint32_t lease[] = {99, 600001, 0, 600000, 100};
    struct rig r = {0};
    peer_t stranger;
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    ck_assert_int_eq(env_connect(sim_node_env(r.client), "sim://shard", ENV_COORDINATOR, &stranger),
                     0);
    beat_answered(&r, stranger, 500);
    ck_assert_uint_eq(r.shard->beat.lease_ms, 9000);
    for (size_t i = 0; i < sizeof lease / sizeof lease[0]; i++) {
        beat_answered(&r, r.to, lease[i]);
        ck_assert_uint_eq(r.shard->beat.lease_ms, i < 3 ? 9000 : lease[i]);
    }
    rig_free(&r);
}
END_TEST

START_TEST(a_run_that_must_exist_is_not_made)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    struct wire w = rig_wire(&r, WIRE_TYPE_RUN_OPEN);
    w.u.RUN_OPEN =
        (struct wire_RUN_OPEN){.run = RIG_RUN, .lanes = 1, .mode = WIRE_ASYNC, .must_exist = true};
    uint64_t here = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    w.id = r.next_id++;
    w.u.RUN_OPEN.run = RIG_RUN + 1;
    uint64_t gone = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, here), 0);
    ck_assert_int_eq(rig_status(&r, gone), SHOAL_E_NOT_FOUND);
    ck_assert_uint_eq(engine_newest_run(r.shard->engine), RIG_RUN);
    rig_free(&r);
}
END_TEST

static uint64_t drop(struct rig *r, uint64_t run)
{
    struct wire w = rig_wire(r, WIRE_TYPE_RUN_DROP);
    w.u.RUN_DROP.run = run;
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

/* A coordinator with an older store opens a run that is over: with marks 0 its rows would be
 * trained once more. _i 0: in the same process; 1, 2: after a restart, killed or clean (then all is
 * in the store and the journal is trimmed); 3: without a folder. */
START_TEST(a_run_that_is_over_is_not_opened_again)
{
    struct rig r = {.dir = _i == 3 ? NULL : dir,
                    .durability = _i == 3 ? DURABLE_MEMORY : DURABLE_JOURNAL};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_open(&r, RIG_RUN + 1, 1, WIRE_ASYNC);
    uint64_t dropped = drop(&r, RIG_RUN + 1);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, dropped), 0);
    for (int i = 0; i < 2; i++) {
        if (_i == 1 || _i == 2)
            rig_restart(&r, _i == 2);
        uint64_t open = rig_open(&r, RIG_RUN, 1, WIRE_ASYNC);
        uint64_t over = rig_open(&r, RIG_RUN + 1, 1, WIRE_ASYNC);
        struct wire w = rig_wire(&r, WIRE_TYPE_RUN_OPEN);
        w.u.RUN_OPEN = (struct wire_RUN_OPEN){
            .run = RIG_RUN + 1, .lanes = 1, .mode = WIRE_ASYNC, .must_exist = true};
        uint64_t was = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
        rig_run(&r, 5);
        ck_assert_int_eq(rig_status(&r, open), 0); /* the run is open */
        ck_assert_int_eq(rig_status(&r, over), SHOAL_E_CONFIG);
        ck_assert_int_eq(rig_status(&r, was), SHOAL_E_CONFIG);
        ck_assert_ptr_nonnull(
            strstr(rig_reply(&r, over)->error, "data_dir is older than it was; submit the job"));
        ck_assert_uint_eq(engine_newest_run(r.shard->engine), RIG_RUN + 1);
    }
    rig_run(&r, 3000);
    ck_assert_uint_eq(r.beat.newest_run, RIG_RUN + 1);
    uint64_t next = rig_open(&r, RIG_RUN + 2, 1, WIRE_ASYNC);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, next), 0);
    rig_free(&r);
}
END_TEST

/* A cut belongs to the run that the coordinator names, not to the newest open one. */
START_TEST(a_cut_is_of_the_run_that_is_named)
{
    struct rig r = {.dir = dir, .durability = DURABLE_JOURNAL};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    rig_open(&r, RIG_RUN + 5, 1, WIRE_ASYNC); /* from a coordinator that has died */
    struct wire w = rig_wire(&r, WIRE_TYPE_HOLD);
    w.u.HOLD = (struct wire_HOLD){.cut = 3, .run = RIG_RUN + 1};
    uint64_t closed = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, closed), SHOAL_E_OLD_RUN);
    w.id = r.next_id++;
    w.u.HOLD.run = RIG_RUN;
    uint64_t open = rig_send(&r, &w, 0, NULL, 0, NULL, 0);
    rig_run(&r, 5);
    ck_assert_int_eq(rig_status(&r, open), 0);
    ck_assert_uint_eq(r.shard->engine->held.run, RIG_RUN);
    rig_free(&r);
}
END_TEST

/* A folder keeps the name of its first server, and all its shards. */
START_TEST(a_folder_is_of_one_server_and_all_its_shards)
{
    char name[LIMIT_NAME], data[600];
    struct err e = {0};
    int fd = -1, second = -1;
    snprintf(data, sizeof data, "%s/data", dir);
    static const struct {
        const char *asked, *name;
        uint32_t shards;
        int status;
    } cases[] = {{"one", "one", 2, 0},
                 {"", "one", 2, 0},
                 {"one", "one", 1, SHOAL_E_CONFIG},
                 {"two", "one", 2, SHOAL_E_CONFIG},
                 {"one", "one", 3, 0},
                 {"one", "one", 2, SHOAL_E_CONFIG}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int rc = server_dir_open(data, cases[i].asked, cases[i].shards, 0, name, &fd, &e);
        ck_assert_msg(rc == cases[i].status, "%zu: %s", i, e.text);
        ck_assert_int_eq(fd >= 0, rc == 0);
        if (rc == 0) {
            ck_assert_str_eq(name, cases[i].name);
            ck_assert_int_eq(server_dir_open(data, "one", 2, 0, name, &second, &e),
                             SHOAL_E_CANTCREATE);
        }
        if (fd >= 0)
            close(fd);
    }
}
END_TEST

/* The store of a shard is not opened on a disk with less than 4 MiB for each. A disk that does not
 * say how large it is counts as large enough. */
START_TEST(a_full_disk_is_refused_before_a_store_is_opened)
{
    char name[LIMIT_NAME], data[600];
    struct err e = {0};
    int fd = -1;
    snprintf(data, sizeof data, "%s/data", dir);
    static const struct {
        struct file_room room;
        uint32_t shards;
        int status;
    } cases[] = {{{.bytes = 1u << 30, .left = 0}, 2, SHOAL_E_NO_SPACE},
                 {{.bytes = 1u << 30, .left = (8u << 20) - 1}, 2, SHOAL_E_NO_SPACE},
                 {{.bytes = 1u << 30, .left = 8u << 20}, 2, 0},
                 {{.bytes = 1u << 30, .left = 8u << 20}, 3, SHOAL_E_NO_SPACE},
                 {{.bytes = 0, .left = 0}, 2, 0}};
    const size_t i = (size_t)_i;
    file_fault_room(&cases[i].room);
    int rc = server_dir_open(data, "one", cases[i].shards, 0, name, &fd, &e);
    file_fault_room(NULL);
    ck_assert_msg(rc == cases[i].status, "%s", e.text);
    ck_assert_int_eq(fd >= 0, rc == 0);
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        return;

    char want[120];
    snprintf(want, sizeof want,
             ": %" PRIu64 " bytes are free, and a start with %u shards needs at least %u;",
             cases[i].room.left, cases[i].shards, cases[i].shards << 22);
    ck_assert_msg(strstr(e.text, want) != NULL && strstr(e.text, data) != NULL, "%s", e.text);
    ck_assert_int_eq(server_dir_open(data, "two", 2, 0, name, &fd, &e), 0); /* no name was kept */
    close(fd);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("place");
    TCase *t = tcase_create("place");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_map_is_kept_before_it_is_led);
    tcase_add_loop_test(t, a_map_that_leaves_rows_is_refused, 0, 3);
    tcase_add_test(t, a_foreign_or_older_or_other_map_is_refused);
    tcase_add_test(t, names_are_kept_and_given_and_others_are_refused);
    tcase_add_test(t, what_is_learnt_is_kept_by_space);
    tcase_add_test(t, what_is_learnt_is_kept_and_given_and_an_older_one_is_refused);
    tcase_add_loop_test(t, another_place_is_not_taken, 0, 2);
    tcase_add_test(t, a_place_is_all_that_is_told);
    tcase_add_test(t, a_lease_is_the_coordinators_to_say);
    tcase_add_test(t, a_run_that_must_exist_is_not_made);
    tcase_add_loop_test(t, a_run_that_is_over_is_not_opened_again, 0, 4);
    tcase_add_test(t, a_cut_is_of_the_run_that_is_named);
    tcase_add_test(t, a_folder_is_of_one_server_and_all_its_shards);
    tcase_add_loop_test(t, a_full_disk_is_refused_before_a_store_is_opened, 0, 5);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
