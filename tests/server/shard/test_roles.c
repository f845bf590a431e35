/* test_roles.c: the messages that a shard accepts by role: every role with every message, the
 * allow-list that arrives late, and a key that floods. */
#include "proto/wire/allow.h"
#include "tests/lib/suite.h"
#include "tests/server/shard_rig.h"

static int frames_of(enum wire_type type)
{
    switch (type) {
#define X(name, number, request_frames, reply_frames)                                              \
    case WIRE_TYPE_##name:                                                                         \
        return request_frames;
        WIRE_MAP(X)
#undef X
    default:
        return 0;
    }
}

/* Sends a request that needs this right, as empty as possible. */
static uint64_t ask(struct rig *r, enum wire_type type, enum wire_right right)
{
    static const uint8_t nothing[512];
    struct wire w = rig_wire(r, type);
    size_t bytes = 0;
    if (type == WIRE_TYPE_PULL)
        w.u.PULL.lane = right == WIRE_RIGHT_PULL_LANE ? 0 : UINT32_MAX;
    if (right == WIRE_RIGHT_PULL_STATE)
        w.u.PULL.parts = WIRE_ASSIGN_STATE;
    if (type == WIRE_TYPE_TASK_DONE)
        bytes = 512;
    if (right == WIRE_RIGHT_ASSIGN_ROWS) { /* a key and a number, of no table */
        w.u.ASSIGN.table = LIMIT_TABLES - 1;
        w.u.ASSIGN.key_count = w.u.ASSIGN.tablet_count = 1;
        bytes = 12;
    }
    return rig_send(r, &w, frames_of(type), nothing, bytes, nothing, 0);
}

/* X(the right, its message): PULL_LANE, for instance, belongs to PULL. */
static const struct {
    enum wire_right right;
    enum wire_type type;
} cell[] = {
#define X(name, number, request_frames, reply_frames) {WIRE_RIGHT_##name, WIRE_TYPE_##name},
    WIRE_MAP(X)
#undef X
        {WIRE_RIGHT_PULL_LANE, WIRE_TYPE_PULL},
    {WIRE_RIGHT_PULL_STATE, WIRE_TYPE_PULL},
    {WIRE_RIGHT_ASSIGN_ROWS, WIRE_TYPE_ASSIGN}};
_Static_assert(sizeof cell / sizeof *cell == WIRE_RIGHTS, "a cell for each right");

static void who_is(struct rig *r, enum role role)
{
    struct env_who who = {.role = role};
    (void)snprintf(who.name, sizeof who.name, "somebody");
    (void)snprintf(who.key, sizeof who.key, "key-%d", (int)role);
    sim_node_who(r->client, &who);
}

START_TEST(every_role_and_message_at_a_shard)
{
    uint32_t denied = 0, passed = 0;
    for (int role = 0; role <= ROLE_NOBODY; role++) {
        struct rig r = {0};
        rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
        ck_assert_int_eq(env_connect(sim_node_env(r.client), "sim://shard", ENV_COORDINATOR, &r.to),
                         0);
        who_is(&r, (enum role)role);
        for (size_t i = 0; i < WIRE_RIGHTS; i++) {
            uint32_t roles = allow_roles(cell[i].right, WIRE_SHARD);
            bool may = role == ROLE_LOCAL ? (roles & ~WIRE_ALLOW_BOSS) != 0
                                          : role < ROLES && (roles >> role & 1) != 0;
            uint64_t id = ask(&r, cell[i].type, cell[i].right);
            rig_run(&r, 5);
            int status = rig_status(&r, id);
            if (roles == 0) /* no message to a shard, whatever the role */
                ck_assert_msg(status == SHOAL_E_USAGE, "%s", allow_text(cell[i].right));
            else
                ck_assert_msg((status == SHOAL_E_DENIED) == !may, "%s of %s: %d",
                              allow_text(cell[i].right), role_text((enum role)role), status);
            ck_assert(status != SHOAL_E_DENIED ||
                      strstr(rig_reply(&r, id)->error, allow_text(cell[i].right)) != NULL);
            denied += status == SHOAL_E_DENIED;
            passed += roles != 0 && may;
        }
        rig_free(&r);
    }
    ck_assert_uint_gt(passed, 20);
    ck_assert_uint_gt(denied, 150);
}
END_TEST

/* ---- the list -------------------------------------------------------------------------------- */

static char taken[64];
static uint32_t lists;

static int allow(void *context, const char *text, size_t bytes, struct err *e)
{
    (void)context;
    if (bytes > 0 && text[0] == 'x')
        return err_set(e, SHOAL_E_CONFIG, "no list");
    (void)snprintf(taken, sizeof taken, "%.*s", (int)bytes, text);
    lists++;
    return 0;
}

static uint64_t list_send(struct rig *r, uint64_t version, const char *text)
{
    struct wire w = rig_wire(r, WIRE_TYPE_KEYLIST);
    w.u.KEYLIST.version = version;
    uint64_t id = rig_send(r, &w, 1, text, strlen(text), NULL, 0);
    rig_run(r, 5);
    return id;
}

START_TEST(a_list_that_comes_late_is_not_taken)
{
    const uint64_t era = UINT64_C(7) << 32, other = UINT64_C(9) << 32;
    struct rig r = {0};
    uint64_t id;
    rig_new(&r, WIRE_ASYNC, 1, OPT_SGD);
    r.shard->options.allow = allow;
    lists = 0;
    id = list_send(&r, era | 1, "one");
    ck_assert_int_eq(rig_status(&r, id), 0);
    id = list_send(&r, era | 2, "two");
    ck_assert_uint_eq(rig_reply(&r, id)->u.KEYLIST_reply.version, era | 2);
    ck_assert_str_eq(taken, "two");
    id = list_send(&r, era | 2, "two"); /* repeated */
    ck_assert_int_eq(rig_status(&r, id), 0);
    ck_assert_uint_eq(lists, 2);
    id = list_send(&r, era | 1, "one"); /* a late copy: removed keys stay removed */
    ck_assert_uint_eq(rig_reply(&r, id)->u.KEYLIST_reply.version, era | 2);
    ck_assert_str_eq(taken, "two");
    id = list_send(&r, era | 3, "x");
    ck_assert_int_eq(rig_status(&r, id), SHOAL_E_CONFIG);
    id = list_send(&r, other | 1, "of another coordinator's process");
    ck_assert_int_eq(rig_status(&r, id), 0);
    ck_assert_str_eq(taken, "of another coordinator's process");
    rig_run(&r, 4000);
    ck_assert_uint_eq(r.beat.keylist, other | 1); /* beats tell which */
    rig_free(&r);
}
END_TEST

/* ---- limits ---------------------------------------------------------------------------------- */

/* Sends pulls of keys from `first` on that wait for a clock that does not come. Returns how many
 * were BUSY so far. */
static uint32_t flood(struct rig *r, peer_t to, uint32_t first, uint32_t count)
{
    uint32_t busy = 0;
    for (uint32_t i = 0; i < count; i++) {
        r->to = to; /* a beat changes it */
        (void)rig_pull(r, 0, 50, 0, rig_key(1, first + i));
        if (i % 16 == 0 || i + 1 == count)
            rig_run(r, 5);
    }
    for (uint32_t i = 1; i < RIG_IDS; i++)
        busy += r->answer[i].got && r->answer[i].w.status == SHOAL_E_BUSY;
    return busy;
}

START_TEST(a_key_that_floods_leaves_room_for_others)
{
    struct rig r = {0};
    rig_new(&r, WIRE_SSP, 2, OPT_SGD);
    peer_t boss = r.to, one, other;
    ck_assert_int_eq(env_connect(sim_node_env(r.client), "sim://shard", ENV_COORDINATOR, &one), 0);
    ck_assert_int_eq(env_connect(sim_node_env(r.client), "sim://shard", ENV_COORDINATOR, &other),
                     0);
    who_is(&r, ROLE_WORKER);
    ck_assert_uint_eq(flood(&r, one, 0, 2000), 0);
    /* the same key */
    ck_assert_uint_gt(flood(&r, other, 5000, 2000), 0);
    ck_assert_uint_le(request_pool_used(&r.shard->pool), LIMIT_WAITING / 4 * 3);

    r.to = one; /* another key: it is served */
    struct env_who who = {.role = ROLE_WORKER, .name = "b", .key = "another"};
    sim_node_who(r.client, &who);
    r.next_id = 1;
    r.answer[1].got = false;
    uint64_t id = rig_pull(&r, 0, 50, 0, rig_key(2, 1));
    rig_run(&r, 20);
    ck_assert_int_eq(rig_status(&r, id), RIG_WAITING);
    r.to = boss;
    rig_free(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("roles");
    TCase *t = suite_case(s, "roles", 100, NULL, NULL);
    log_set_level(LOG_LEVEL_ERROR);
    tcase_add_test(t, every_role_and_message_at_a_shard);
    tcase_add_test(t, a_list_that_comes_late_is_not_taken);
    tcase_add_test(t, a_key_that_floods_leaves_room_for_others);
    return suite_main(s);
}
