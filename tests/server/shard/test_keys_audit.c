/* test_keys_audit.c: BLAME and SCRUB over the wire: one at a time, each answered once, from the
 * engine's search. */
#include "tests/server/shard_rig.h"

#include "proto/base/json.h"

static char dir[64];

static void begin(struct rig *r)
{
    snprintf(dir, sizeof dir, "/tmp/shoal-audit-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    *r = (struct rig){.dir = dir, .durability = DURABLE_JOURNAL};
    rig_new(r, WIRE_ASYNC, 1, OPT_SGD);
}

static void end(struct rig *r)
{
    char command[128];
    rig_free(r);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static uint64_t blame(struct rig *r, uint64_t key, uint32_t limit)
{
    struct wire w = rig_wire(r, WIRE_TYPE_BLAME);
    w.u.BLAME = (struct wire_BLAME){0, key, limit};
    return rig_send(r, &w, 0, NULL, 0, NULL, 0);
}

START_TEST(blame_tells_the_pushes_of_a_key)
{
    struct rig r;
    begin(&r);
    uint64_t key = rig_key(3, 0);
    for (uint32_t i = 0; i < 5; i++) /* every other batch has the key */
        rig_push(&r,
                 (struct rig_push_args){
                     .from = i, .to = i + 1, .key = i % 2 ? rig_key(3, 9) : key, .gradient = 3});
    rig_run(&r, 20);
    uint64_t all = blame(&r, key, 100);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, all), 0);
    ck_assert(rig_reply(&r, all)->u.BLAME_reply.complete);
    struct json *j;
    struct err e = {0};
    const struct frame *f = &r.answer[all].m->frame[1];
    ck_assert_msg(json_parse(f->data, f->bytes, &j, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(json_count(j), 3);
    ck_assert_int_eq(json_as_int(json_get(j, "0.batch"), 0), 5);
    ck_assert_int_eq(json_as_int(json_get(j, "2.batch"), 0), 1);
    ck_assert_int_eq(json_as_int(json_get(j, "1.run"), 0), RIG_RUN);
    /* two gradients of 3 */
    ck_assert_double_eq_tol(json_as_number(json_get(j, "1.norm"), 0), 4.2426, 1e-3);
    json_free(j);
    uint64_t none = blame(&r, key, 0), two = blame(&r, key, 1);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, none), SHOAL_E_USAGE);
    ck_assert_int_eq(rig_status(&r, two), 0);
    end(&r);
}
END_TEST

START_TEST(one_search_at_a_time)
{
    struct rig r;
    begin(&r);
    uint64_t first = blame(&r, 1, 10), second = blame(&r, 2, 10);
    rig_run(&r, 20);
    /* the other one is 0 */
    ck_assert_int_eq(rig_status(&r, first) + rig_status(&r, second), SHOAL_E_BUSY);
    uint64_t after = blame(&r, 1, 10);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, after), 0);
    ck_assert_uint_eq(r.shard->audit.peer, 0);
    end(&r);
}
END_TEST

/* A search ends when the peer that asked for it has left. A scrub goes on: erased keys must be
 * removed. */
START_TEST(a_search_ends_with_its_asker_and_a_scrub_does_not)
{
    struct rig r;
    begin(&r);
    uint64_t key = rig_key(3, 0);
    rig_push(&r, (struct rig_push_args){.to = 1, .key = key, .gradient = 3});
    rig_run(&r, 20);
    for (int scrub = 0; scrub < 2; scrub++) {
        struct wire w = rig_wire(&r, WIRE_TYPE_KEYS);
        w.u.KEYS = (struct wire_KEYS){.action = WIRE_KEY_SCRUB, .key_count = 1};
        uint64_t id = scrub ? rig_send(&r, &w, 1, &key, sizeof key, NULL, 0) : blame(&r, key, 10);
        for (int i = 0; i < 100 && r.shard->audit.peer == 0; i++)
            sim_run(r.sim, sim_now_ns(r.sim) + MS / 50, NULL, NULL);
        ck_assert_uint_ne(r.shard->audit.peer, 0);
        shard_handler.on_peer_gone(r.shard, r.shard->audit.peer);
        rig_run(&r, 500);
        ck_assert_int_eq(rig_status(&r, id), scrub ? 0 : SHOAL_E_STOPPED);
    }
    end(&r);
}
END_TEST

START_TEST(without_a_journal_there_is_no_past)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    uint64_t id = blame(&r, 1, 10);
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, id), SHOAL_E_NOT_FOUND);
    rig_free(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        blame_tells_the_pushes_of_a_key,
        one_search_at_a_time,
        a_search_ends_with_its_asker_and_a_scrub_does_not,
        without_a_journal_there_is_no_past,
    };
    return rig_main("audit", tests, sizeof tests / sizeof tests[0]);
}
