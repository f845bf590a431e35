/* test_keys.c: the messages that a coordinator accepts by role and key: every role with every
 * message; the list of keys, sent to shards; the key that a server, a worker and a client must
 * have. */
#include "proto/base/log.h"
#include "proto/wire/allow.h"
#include "server/coord/coord.h"
#include "server/coord/job/sight.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/submit.h"
#include "tests/lib/suite.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)

static struct sim *sim;
static struct sim_node *node, *client;
static struct coord_store *store;
static struct coord *c;
static peer_t to;

static struct { /* the last answer to the client */
    bool got;
    struct wire w;
    char frame[2][1024];
    uint32_t lists; /* KEYLIST messages so far */
    bool mute;      /* lists are not acknowledged */
} came;

static void on_message(void *core, peer_t from, struct msg *m)
{
    static struct wire w, out;
    struct err e;
    (void)core;
    ck_assert_int_eq(wire_decode(m, &w, &e), 0);
    if (w.type == WIRE_TYPE_KEYLIST && !w.reply) {
        came.lists++;
        (void)snprintf(came.frame[0], sizeof came.frame[0], "%.*s", (int)m->frame[1].bytes,
                       (const char *)m->frame[1].data);
        wire_reply_to(&w, 0, &out);
        out.u.KEYLIST_reply.version = w.u.KEYLIST.version;
        if (!came.mute)
            env_send(sim_node_env(client), from, wire_encode(&out));
    } else if (w.reply) {
        came.got = true;
        came.w = w;
        for (uint32_t i = 1; i < m->frame_count; i++)
            (void)snprintf(came.frame[i - 1], sizeof came.frame[0], "%.*s", (int)m->frame[i].bytes,
                           (const char *)m->frame[i].data);
    }
    msg_free(m);
}

static void on_drained(void *core)
{
    (void)core;
}

static const struct env_handler handler = {on_message, on_drained, NULL};

static void begin(void)
{
    static const struct coord_options o = {.shards = 1, .version = "test", .lease_ms = 3000};
    struct err e = {0};
    node = sim_node_new(sim, "coordinator", NULL, NULL);
    ck_assert_msg(coord_new(&o, sim_node_env(node), store, &c, &e) == 0, "%s", e.text);
    sim_node_set_handler(node, &coord_handler, c);
    sim_listen(node, "sim://coordinator");
}

static void setup(void)
{
    static const struct sim_options o = {
        .seed = 1, .delay_min_ns = 1, .delay_max_ns = 2, .work_min_ns = 1, .work_max_ns = 2};
    log_set_level(LOG_LEVEL_ERROR);
    memset(&came, 0, sizeof came);
    sim = sim_new(&o);
    store = coord_store_memory();
    begin();
    client = sim_node_new(sim, "client", &handler, NULL);
    ck_assert_int_eq(env_connect(sim_node_env(client), "sim://coordinator", ENV_COORDINATOR, &to),
                     0);
}

static void teardown(void)
{
    coord_free(c);
    coord_store_close(store);
    sim_free(sim);
}

static void who_is(enum role role, const char *name, const char *key)
{
    struct env_who who = {.role = role};
    (void)snprintf(who.name, sizeof who.name, "%s", name);
    (void)snprintf(who.key, sizeof who.key, "%s", key);
    sim_node_who(client, &who);
}

/* Returns the status of the answer; 1: none has come. */
static int ask(struct wire *w, int frames, size_t first)
{
    static const uint8_t nothing[512];
    static uint64_t id;
    w->id = ++id;
    struct msg *m = wire_encode(w);
    for (int i = 0; i < frames; i++)
        if (i == 0 && first > 0)
            memcpy(msg_add(m, first), nothing, first);
        else
            (void)msg_add(m, 0);
    came.got = false;
    ck_assert_int_eq(env_send(sim_node_env(client), to, m), 0);
    (void)sim_run(sim, sim_now_ns(sim) + 5 * MS, NULL, NULL);
    return came.got ? came.w.status : 1;
}

START_TEST(coord_every_role_and_message)
{
    static const struct {
        enum wire_right right;
        enum wire_type type;
        int frames;
    } cell[] = {
#define X(name, number, request_frames, reply_frames)                                              \
    {WIRE_RIGHT_##name, WIRE_TYPE_##name, request_frames},
        WIRE_MAP(X)
#undef X
    };
    uint32_t denied = 0, passed = 0;
    for (int role = 0; role <= ROLE_NOBODY; role++)
        for (size_t i = 0; i < sizeof cell / sizeof *cell; i++) {
            uint32_t roles = allow_roles(cell[i].right, WIRE_COORDINATOR);
            bool may = role == ROLE_LOCAL ? roles != 0 : role < ROLES && (roles >> role & 1) != 0;
            struct wire w = {.type = cell[i].type};
            if (w.type == WIRE_TYPE_STOP)
                w.u.STOP.job_only = true;
            who_is((enum role)role, "n", "k");
            int status = ask(&w, cell[i].frames, w.type == WIRE_TYPE_TASK_DONE ? 512 : 0);
            if (roles == 0)
                ck_assert_msg(status == SHOAL_E_USAGE, "%s", allow_text(cell[i].right));
            else
                ck_assert_msg((status == SHOAL_E_DENIED) == !may, "%s of %s: %d",
                              allow_text(cell[i].right), role_text((enum role)role), status);
            ck_assert(status != SHOAL_E_DENIED ||
                      strstr(came.w.error, allow_text(cell[i].right)) != NULL);
            denied += status == SHOAL_E_DENIED;
            passed += may;
        }
    ck_assert_uint_gt(passed, 40);
    ck_assert_uint_ge(denied, 90);
}
END_TEST

static int beat(const char *server, uint64_t keylist)
{
    struct wire w = {.type = WIRE_TYPE_SHARD_BEAT};
    w.u.SHARD_BEAT = (struct wire_SHARD_BEAT){.shard_count = 1,
                                              .incarnation = 5,
                                              .ready = true,
                                              .number = UINT32_MAX,
                                              .keylist = keylist};
    (void)snprintf(w.u.SHARD_BEAT.server, sizeof w.u.SHARD_BEAT.server, "%s", server);
    (void)snprintf(w.u.SHARD_BEAT.endpoint, sizeof w.u.SHARD_BEAT.endpoint, "tcp://h:1");
    return ask(&w, 0, 0);
}

START_TEST(coord_a_servers_name_is_its_keys)
{
    who_is(ROLE_COORD, "rack1", "key-1");
    ck_assert_int_eq(beat("s1", 0), 0);
    who_is(ROLE_COORD, "rack2", "key-2");
    ck_assert_int_eq(beat("s1", 0), SHOAL_E_DENIED);
    ck_assert_ptr_nonnull(strstr(came.w.error, "rack1"));
    who_is(ROLE_COORD, "rack1", "key-3"); /* another key under the old name */
    ck_assert_int_eq(beat("s1", 0), 0);

    coord_free(c); /* and after a restart */
    sim_kill(node);
    begin();
    who_is(ROLE_COORD, "rack2", "key-2");
    ck_assert_int_eq(beat("s1", 0), SHOAL_E_DENIED);
    who_is(ROLE_COORD, "rack1", "key-3");
    ck_assert_int_eq(beat("s1", 0), 0);
    ck_assert_str_eq(c->fleet.members.shard[0].key, "key-3");
}
END_TEST

START_TEST(coord_map_tells_the_keys_that_were_shown)
{
    struct wire q = {.type = WIRE_TYPE_MAP_GET};
    who_is(ROLE_COORD, "rack1", "key-1");
    ck_assert_int_eq(beat("s1", 0), 0);
    struct coord_made *m = c->slot[0].space->made; /* as if a job had made a table of one tablet */
    m->number = m->tables = m->tablets = c->fleet.cluster.tablets = 1;
    m->numbers = c->slot[0].space->numbers = table_set_word(1);
    m->table = calloc(1, sizeof *m->table);
    ck_assert_ptr_nonnull(m->table);
    free(c->fleet.cluster.shard_of);
    c->fleet.cluster.shard_of = calloc(1, sizeof *c->fleet.cluster.shard_of);
    who_is(ROLE_WORKER, "w", "key-2");
    ck_assert_int_eq(ask(&q, 0, 0), 0);
    ck_assert_str_eq(came.frame[1], "tcp://h:1 key-1\n");
    m->number = c->fleet.cluster.tablets = 0;
}
END_TEST

/* A job's commands often contain tokens. */
START_TEST(coord_readers_get_no_command)
{
    static const char text[] = "data: {train: [{cmd: 'get s3cret'}]}\nmodel.kind: lr\n";
    static const enum role whole[] = {ROLE_WORKER, ROLE_ADMIN, ROLE_LOCAL};
    struct wire q = {.type = WIRE_TYPE_JOB_TEXT};
    struct coord_made *m = c->slot[0].space->made;
    struct err e = {0};
    m->yaml = strdup(text);
    m->yaml_bytes = strlen(text);
    ck_assert_msg(job_parse(text, strlen(text), "job", NULL, &m->spec, &e) == 0, "%s", e.text);
    m->number = 1;
    c->slot[0].space->numbers = table_set_word(1);
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        who_is(whole[i], "n", "k");
        ck_assert_int_eq(ask(&q, 0, 0), 0);
        ck_assert_str_eq(came.frame[0], text);
    }
    who_is(ROLE_SERVE, "n", "k");
    ck_assert_int_eq(ask(&q, 0, 0), 0);
    ck_assert_str_eq(came.frame[0], "data.train[0].cmd: \"hidden\"\nmodel.kind: \"lr\"\n");
}
END_TEST

/* The message comes over another connection than the beats; that does not turn its sender into a
 * shard. */
START_TEST(coord_a_disk_that_hangs_is_told_by_its_servers_key)
{
    struct wire q = {.type = WIRE_TYPE_SERVER_DISK};
    who_is(ROLE_COORD, "s", "key-1");
    ck_assert_int_eq(beat("s1", 0), 0);
    (void)snprintf(q.u.SERVER_DISK.server, sizeof q.u.SERVER_DISK.server, "s1");
    q.u.SERVER_DISK.seconds = 7;
    who_is(ROLE_COORD, "another", "key-2");
    ck_assert_int_eq(ask(&q, 0, 0), SHOAL_E_DENIED);
    ck_assert_uint_eq(coord_sight_hangs(&c->fleet, 0), 0);
    who_is(ROLE_COORD, "s", "key-1");
    ck_assert_int_eq(ask(&q, 0, 0), 0);
    ck_assert_uint_eq(coord_sight_hangs(&c->fleet, 0), 7);
    (void)sim_run(sim, sim_now_ns(sim) + 3000 * MS, NULL, NULL);
    ck_assert_uint_eq(coord_sight_hangs(&c->fleet, 0), 10);
    q.u.SERVER_DISK.seconds = 0;
    for (uint32_t shard = 0; shard < 2; shard++) { /* the server has shard 0 alone */
        q.u.SERVER_DISK.shard_index = shard;
        q.u.SERVER_DISK.loop_seconds = 4;
        ck_assert_int_eq(ask(&q, 0, 0), 0);
        ck_assert_uint_eq(c->fleet.members.shard[0].loop_s, shard == 0 ? 4 : 0);
    }
    ck_assert_uint_eq(coord_sight_hangs(&c->fleet, 0), 0);
    q.u.SERVER_DISK.loop_seconds = 0;
    q.u.SERVER_DISK.seconds = 5;
    ck_assert_int_eq(ask(&q, 0, 0), 0);
    (void)sim_run(sim, sim_now_ns(sim) + 11000 * MS, NULL, NULL);
    ck_assert_uint_eq(coord_sight_hangs(&c->fleet, 0), 0); /* the hang has ended */
    (void)snprintf(q.u.SERVER_DISK.server, sizeof q.u.SERVER_DISK.server, "nobody");
    ck_assert_int_eq(ask(&q, 0, 0), 0);
    ck_assert_uint_eq(coord_sight_hangs(&c->fleet, 0), 0);
}
END_TEST

START_TEST(coord_tells_the_list_until_it_is_taken)
{
    struct err e;
    ck_assert_int_eq(coord_keys_set(c, "first", 5, &e), 0);
    came.mute = true;
    who_is(ROLE_COORD, "s", "k");
    ck_assert_int_eq(beat("s1", 0), 0);
    (void)sim_run(sim, sim_now_ns(sim) + 60 * MS, NULL, NULL);
    ck_assert_uint_ge(came.lists, 1);
    ck_assert_str_eq(came.frame[0], "first");
    uint32_t told = came.lists;
    (void)sim_run(sim, sim_now_ns(sim) + 3000 * MS, NULL, NULL);
    ck_assert_uint_ge(came.lists, told + 4); /* repeated */
    came.mute = false;
    (void)sim_run(sim, sim_now_ns(sim) + 1000 * MS, NULL, NULL);
    told = came.lists;
    (void)sim_run(sim, sim_now_ns(sim) + 3000 * MS, NULL, NULL);
    ck_assert_uint_eq(came.lists, told);
    ck_assert_int_eq(coord_keys_set(c, "second", 6, &e), 0);
    (void)sim_run(sim, sim_now_ns(sim) + 10 * MS, NULL, NULL);
    ck_assert_uint_eq(came.lists, told + 1); /* at once */
    ck_assert_str_eq(came.frame[0], "second");
    ck_assert_int_eq(beat("s1", c->fleet.keys.version), 0); /* it acknowledges the version */
    ck_assert_uint_eq(came.lists, told + 1);
    ck_assert_int_eq(beat("s1", 0), 0); /* it has started again */
    (void)sim_run(sim, sim_now_ns(sim) + 60 * MS, NULL, NULL);
    ck_assert_uint_eq(came.lists, told + 2);
}
END_TEST

START_TEST(coord_a_worker_is_who_joined_with_the_key)
{
    struct coord_worker *w;
    struct err e;
    const struct wire_WORKER_JOIN join = {.pid = 1};
    const struct coord_caller caller = {to, 1, 77, "key-1", NULL};
    struct wire q = {.type = WIRE_TYPE_WORKER_BEAT, .u.WORKER_BEAT.pass = 77};
    ck_assert_int_eq(
        coord_worker_join(&c->slot[0].workers, &c->fleet.members, store, &join, &caller, &w, &e),
        0);
    who_is(ROLE_WORKER, "w1", "key-1");
    ck_assert_int_eq(ask(&q, 0, 0), 0);
    who_is(ROLE_WORKER, "w2", "key-2"); /* another worker that knows the pass */
    ck_assert_int_eq(ask(&q, 0, 0), SHOAL_E_UNAVAILABLE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("keys");
    TCase *t = suite_case(s, "keys", 60, setup, teardown);
    tcase_add_test(t, coord_every_role_and_message);
    tcase_add_test(t, coord_a_servers_name_is_its_keys);
    tcase_add_test(t, coord_map_tells_the_keys_that_were_shown);
    tcase_add_test(t, coord_readers_get_no_command);
    tcase_add_test(t, coord_a_disk_that_hangs_is_told_by_its_servers_key);
    tcase_add_test(t, coord_tells_the_list_until_it_is_taken);
    tcase_add_test(t, coord_a_worker_is_who_joined_with_the_key);
    return suite_main(s);
}
