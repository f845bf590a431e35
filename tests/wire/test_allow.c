/* test_allow.c: the table of roles and their messages, against a second list, written by hand, of
 * what must never be allowed. */
#include "proto/wire/allow.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static enum wire_right of(const char *name)
{
    for (int r = 0; r < WIRE_RIGHTS; r++)
        if (strcmp(allow_text((enum wire_right)r), name) == 0)
            return (enum wire_right)r;
    ck_abort_msg("no right %s", name);
}

/* A shard takes orders only from its coordinator; a reader writes nothing; only servers send
 * beats. */
START_TEST(allow_what_must_never_be)
{
    static const char *const writes[] = {"PUSH",       "PULL of a lane", "KEYS",     "SUBMIT",
                                         "STOP",       "CHECKPOINT",     "DROP",     "WORKER_JOIN",
                                         "SHARD_BEAT", "TABLE_DECLARE",  "KEYLIST",  "FENCE",
                                         "MAP_SET",    "RING_CHUNK",     "RING_READ"};
    static const char *const orders[] = {
        "KEYLIST", "TABLE_CREATE", "RUN_OPEN", "RUN_DROP",   "FENCE", "FENCES", "MAP_SET",
        "HOLD",    "GO",           "RESTORE",  "CUT_EXPORT", "LOAD",  "ROWS_GO"};
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++)
        for (int side = 0; side < WIRE_SIDES; side++) {
            ck_assert(!allow_may(of(writes[i]), (enum wire_side)side, ROLE_SERVE, false));
            ck_assert(!allow_may(of(writes[i]), (enum wire_side)side, ROLE_METRICS, false));
        }
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        for (int role = 0; role <= ROLE_NOBODY; role++)
            ck_assert(!allow_may(of(orders[i]), WIRE_SHARD, (enum role)role, false));
        ck_assert(allow_may(of(orders[i]), WIRE_SHARD, ROLE_NOBODY, true));
    }
    /* a worker takes the messages of a ring, from workers alone */
    for (int r = 0; r < WIRE_RIGHTS; r++) {
        const char *text = allow_text((enum wire_right)r);
        bool ring = strcmp(text, "RING_CHUNK") == 0 || strcmp(text, "RING_READ") == 0;
        for (int role = 0; role < ROLES; role++)
            ck_assert_int_eq(allow_may((enum wire_right)r, WIRE_WORKER, (enum role)role, false),
                             ring && role == ROLE_WORKER);
    }
    for (int role = 0; role < ROLES; role++)
        ck_assert_int_eq(allow_may(of("SHARD_BEAT"), WIRE_COORDINATOR, (enum role)role, false),
                         role == ROLE_COORD);
    for (int r = 0; r < WIRE_RIGHTS; r++)
        for (int side = 0; side < WIRE_SIDES; side++)
            ck_assert(!allow_may((enum wire_right)r, (enum wire_side)side, ROLE_NOBODY, false));
}
END_TEST

START_TEST(allow_a_pull_of_a_lane_is_another)
{
    struct wire w = {.type = WIRE_TYPE_PULL, .u.PULL.lane = UINT32_MAX};
    ck_assert_str_eq(allow_text(allow_right_of(&w)), "PULL without a lane");
    w.u.PULL.lane = 0;
    ck_assert_str_eq(allow_text(allow_right_of(&w)), "PULL of a lane");
    w.type = WIRE_TYPE_NONE;
    ck_assert_int_eq(allow_right_of(&w), WIRE_RIGHTS);
    ck_assert(!allow_may(WIRE_RIGHTS, WIRE_SHARD, ROLE_LOCAL, true));
}
END_TEST

START_TEST(allow_a_refusal_names_role_and_message)
{
    struct err e;
    ck_assert_int_eq(allow_denied(of("SUBMIT"), WIRE_COORDINATOR, "worker", &e), SHOAL_E_DENIED);
    ck_assert_ptr_nonnull(strstr(e.text, "worker"));
    ck_assert_ptr_nonnull(strstr(e.text, "SUBMIT"));
    ck_assert_int_eq(allow_denied(of("FENCE"), WIRE_SHARD, "admin", &e), SHOAL_E_DENIED);
    ck_assert_ptr_nonnull(strstr(e.text, "from its coordinator alone"));
}
END_TEST

static struct msg *order(const char *text)
{
    struct msg *m = msg_new();
    memcpy(msg_add(m, strlen(text)), text, strlen(text));
    return m;
}

START_TEST(allow_an_order_sent_again_is_known)
{
    struct allow_recent r = {.next = 0};
    struct msg *a = order("STOP 1"), *b = order("STOP 2");
    ck_assert(!allow_again(&r, 1, 0, a));
    ck_assert(allow_again(&r, 1, 0, a));
    ck_assert(!allow_again(&r, 2, 0, a));  /* over another connection */
    ck_assert(!allow_again(&r, 1, -1, a)); /* with another result */
    ck_assert(!allow_again(&r, 1, 0, b));
    ck_assert(allow_again(&r, 1, 0, a)); /* others in between */
    for (uint64_t peer = 3; peer < 3 + ALLOW_RECENT; peer++)
        ck_assert(!allow_again(&r, peer, 0, b));
    ck_assert(!allow_again(&r, 1, 0, a)); /* forgotten: reported once more, never hidden */
    msg_free(a);
    msg_free(b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("allow");
    TCase *t = tcase_create("allow");
    tcase_add_test(t, allow_what_must_never_be);
    tcase_add_test(t, allow_a_pull_of_a_lane_is_another);
    tcase_add_test(t, allow_a_refusal_names_role_and_message);
    tcase_add_test(t, allow_an_order_sent_again_is_known);
    suite_add_tcase(s, t);
    return suite_main(s);
}
