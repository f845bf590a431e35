/* test_shares.c: SHARES: a list is taken whole or not at all, and its use is told. */
#include "server/shard/shares.h"
#include "tests/server/shard_rig.h"

static uint64_t tell(struct rig *r, const struct wire_share *list, uint32_t count)
{
    struct wire w = rig_wire(r, WIRE_TYPE_SHARES);
    w.u.SHARES.count = count;
    uint64_t id = rig_send(r, &w, 1, list, count * sizeof *list, NULL, 0);
    rig_run(r, 5);
    return id;
}

static void two(struct wire_share list[2])
{
    memset(list, 0, 2 * sizeof *list);
    list[0] = (struct wire_share){
        .tables = table_set_word(1), .parts = WIRE_SHARE_PARTS / 4, .space = "ads"};
    list[1] = (struct wire_share){
        .tables = table_set_word(2), .parts = WIRE_SHARE_PARTS / 2, .space = "search"};
    table_set_add(&list[1].tables, LIMIT_TABLES - 1);
}

START_TEST(shares_are_taken_and_their_use_is_told)
{
    struct rig r = {0};
    struct wire_share list[2];
    struct wire_share_use use[2];
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    ck_assert_uint_eq(shares_digest(r.shard), 0);
    (void)rig_push(&r, (struct rig_push_args){.to = 1, .key = rig_key(3, 0), .gradient = 1});
    rig_run(&r, 5);
    two(list);
    uint64_t id = tell(&r, list, 2);
    ck_assert_int_eq(rig_status(&r, id), 0);
    ck_assert_uint_eq(rig_reply(&r, id)->u.SHARES_reply.count, 2);
    memcpy(use, r.answer[id].m->frame[1].data, sizeof use);
    ck_assert(use[0].rows == 1 && use[1].rows == 0);
    ck_assert_uint_gt(use[0].bytes, 0);
    ck_assert_uint_eq(shares_digest(r.shard), hash_bytes(list, sizeof list, 0));
    struct json *told = shares_json(r.shard);
    ck_assert_str_eq(json_get_string(json_array_at(told, 1), "space", ""), "search");
    json_free(told);
    id = tell(&r, NULL, 0);
    ck_assert_uint_eq(rig_reply(&r, id)->u.SHARES_reply.count, 0);
    ck_assert_uint_eq(shares_digest(r.shard), 0);
    ck_assert_ptr_null(shares_json(r.shard));
    rig_free(&r);
}
END_TEST

START_TEST(shares_that_cannot_be_change_nothing)
{
    struct rig r = {0};
    struct wire_share good[2], list[2];
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    two(good);
    (void)tell(&r, good, 2);
    for (uint32_t i = 0; i < 5; i++) {
        two(list);
        if (i == 0)
            list[1].tables = table_set_word(3);
        else if (i == 1)
            list[1].parts = WIRE_SHARE_PARTS;
        else if (i == 2)
            list[1].parts = 0;
        else if (i == 3)
            list[1].space[2] = '\n';
        else
            memset(list[1].space, 'x', sizeof list[1].space);
        ck_assert_int_eq(rig_status(&r, tell(&r, list, 2)), SHOAL_E_MALFORMED);
        ck_assert_uint_eq(shares_digest(r.shard), hash_bytes(good, sizeof good, 0));
    }
    rig_free(&r);
}
END_TEST

/* While pushes of one space wait for its own room, they get half of the pool. */
START_TEST(pushes_that_wait_for_their_share_leave_half_of_the_pool)
{
    struct rig r = {0};
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    struct request_share *share = &r.shard->pool.share[REQUEST_PUSH];
    r.shard->park.short_of_room = table_set_word(1);
    ck_assert(!shares_fill_pool(r.shard, 0));
    share->used += LIMIT_WAITING / 2 + 1;
    ck_assert(shares_fill_pool(r.shard, 0));
    ck_assert(!shares_fill_pool(r.shard, 1));
    ck_assert(!shares_fill_pool(r.shard, LIMIT_TABLES + 64));
    r.shard->park.short_of_room = TABLE_SET_ALL; /* all wait: it is no matter of shares */
    ck_assert(!shares_fill_pool(r.shard, 0));
    r.shard->park.short_of_room = TABLE_SET_NONE;
    share->used -= LIMIT_WAITING / 2 + 1;
    rig_free(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        shares_are_taken_and_their_use_is_told,
        shares_that_cannot_be_change_nothing,
        pushes_that_wait_for_their_share_leave_half_of_the_pool,
    };
    return rig_main("shares", tests, sizeof tests / sizeof tests[0]);
}
