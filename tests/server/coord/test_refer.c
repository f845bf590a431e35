/* test_refer.c: what a coordinator that stands by answers. */
#include "proto/wire/wire.h"
#include "server/coord/refer.h"

#include <check.h>

static struct msg *sent;

static int send_note(struct env *env, peer_t to, struct msg *m)
{
    (void)env;
    ck_assert_uint_eq(to, 5);
    msg_free(sent);
    sent = m;
    return 0;
}

/* Hands the message in; returns the error text of its answer, or NULL. */
static const char *answer(const char *leader, const struct wire *w)
{
    static const struct env_ops ops = {.send = send_note};
    static struct wire got;
    struct env env = {&ops};
    coord_refer(&env, 5, wire_encode(w), leader);
    if (sent == NULL)
        return NULL;
    ck_assert_int_eq(wire_decode(sent, &got, NULL), 0);
    ck_assert(got.reply && got.id == 7 && got.type == w->type);
    ck_assert_int_eq(got.status, SHOAL_E_NOT_LEADER);
    msg_free(sent);
    sent = NULL;
    return wire_error(&got);
}

START_TEST(coord_refer_names_the_leader)
{
    const struct wire w = {.type = WIRE_TYPE_STATUS, .id = 7};
    ck_assert_str_eq(answer("tcp://h1:7000", &w), "the coordinator at tcp://h1:7000 leads");
    ck_assert_str_eq(answer("", &w), "no coordinator leads yet");
}
END_TEST

/* A reply to the coordinator that this process was. */
START_TEST(coord_refer_answers_no_reply)
{
    struct wire w;
    const struct wire request = {.type = WIRE_TYPE_KEYLIST, .id = 7};
    wire_reply_to(&request, 0, &w);
    ck_assert_ptr_null(answer("tcp://h1:7000", &w));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_refer");
    TCase *t = tcase_create("coord_refer");
    tcase_add_test(t, coord_refer_names_the_leader);
    tcase_add_test(t, coord_refer_answers_no_reply);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
