/* test_ask.c: a question to a coordinator that stands by is answered at once with the one that
 * leads, if that is there, unless the coordinator has led before; and one to a coordinator of
 * another release is refused by name. */
#include "deploy/cli/cli.h"
#include "proto/base/time.h"
#include "proto/net/net.h"
#include "proto/wire/coordinators.h"
#include "proto/wire/wire.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct coordinator {
    struct net *net;
    pthread_t thread;
    char endpoint[256];
    atomic_bool leads;               /* it answers */
    bool older;                      /* as an older release does */
    char leader[COORDINATORS_BYTES]; /* which one it names else; "": none leads */
};
static struct coordinator c, other;

/* The same as a release before this one sends it: the version is the header's first field. */
static struct msg *older(const struct wire *w)
{
    struct msg *m = wire_encode(w);
    unsigned char *header = m->frame[0].data;
    ck_assert_uint_eq(header[1], WIRE_OLDEST);
    header[1]--;
    return m;
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct coordinator *by = core;
    struct env *env = net_env(by->net);
    struct wire w, reply;
    struct err e;
    ck_assert_int_eq(wire_decode(m, &w, &e), 0);
    env_known(env, from);
    wire_reply_to(&w, 0, &reply);
    if (by->leads)
        (void)env_send(env, from, by->older ? older(&reply) : wire_encode(&reply));
    else if (by->leader[0] != '\0')
        (void)env_send(env, from,
                       wire_refusal(&w, SHOAL_E_NOT_LEADER, COORDINATORS_LEADS, by->leader));
    else
        (void)env_send(env, from, wire_refusal(&w, SHOAL_E_NOT_LEADER, COORDINATORS_NONE));
    msg_free(m);
}

static void on_drained(void *core)
{
    (void)core;
}

static void *run(void *arg)
{
    struct coordinator *by = arg;
    net_run(by->net);
    return NULL;
}

static void coordinator_start(struct coordinator *by, const char *name)
{
    static const struct env_handler handler = {on_message, on_drained, NULL};
    const struct net_options o = {.keys = NULL};
    struct err e = {0};
    char listen[128];
    (void)snprintf(listen, sizeof listen, "ipc:///tmp/shoal-test-ask-%d-%s", getpid(), name);
    ck_assert_msg(net_new(&o, &by->net, &e) == 0, "%s", e.text);
    net_set_handler(by->net, &handler, by);
    ck_assert_msg(net_listen(by->net, listen, by->endpoint, &e) == 0, "%s", e.text);
    ck_assert_int_eq(pthread_create(&by->thread, NULL, run, by), 0);
}

static void coordinator_end(struct coordinator *by)
{
    net_interrupt(by->net);
    pthread_join(by->thread, NULL);
    net_free(by->net);
    (void)unlink(&by->endpoint[strlen("ipc://")]);
}

static void setup(void)
{
    other.leads = true;
    coordinator_start(&other, "other");
    c.leads = c.older = false;
    (void)snprintf(c.leader, sizeof c.leader, "%.*s", (int)sizeof c.leader - 1, other.endpoint);
    coordinator_start(&c, "own");
}

static void teardown(void)
{
    coordinator_end(&c);
    coordinator_end(&other);
}

/* Asks for at most `ms`; returns the seconds that it took. */
static double asked(struct ask *a, uint32_t ms, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_HELLO, .u.HELLO.version = WIRE_VERSION}, reply;
    uint64_t begun_ns = time_monotonic_ns();
    *e = (struct err){0};
    (void)cli_ask(a, &w, NULL, ms, &reply, NULL, e);
    return (double)(time_monotonic_ns() - begun_ns) * 1e-9;
}

static void *leads_soon(void *arg)
{
    (void)usleep(500000);
    c.leads = true;
    return arg;
}

START_TEST(ask_of_a_standby_says_at_once_which_one_leads)
{
    struct ask *a = NULL;
    struct err e;
    char text[2 * ERR_TEXT_MAX];
    ck_assert_int_eq(cli_ask_open(c.endpoint, NULL, &a, &e), 0);
    ck_assert_double_lt(asked(a, 10000, &e), 5);
    (void)snprintf(text, sizeof text,
                   "the coordinator at %s stands by: the coordinator at %s leads; ask "
                   "that one, or both: --coordinator A,B",
                   c.endpoint, other.endpoint);
    ck_assert_int_eq(e.code, SHOAL_E_UNAVAILABLE);
    ck_assert_str_eq(e.text, text);
    c.leads = true; /* the same command may ask again */
    ck_assert_double_lt(asked(a, 10000, &e), 5);
    ck_assert_int_eq(e.code, 0);
    cli_ask_close(a);
}
END_TEST

/* The one that it names has just ended, or does not lead any more: this one may lead in a
 * moment. */
START_TEST(ask_of_a_standby_waits_while_the_named_one_is_not_there)
{
    struct ask *a = NULL;
    struct err e;
    other.leads = false;
    if (_i == 0)
        (void)snprintf(c.leader, sizeof c.leader, "ipc:///tmp/shoal-test-ask-%d-none", getpid());
    ck_assert_int_eq(cli_ask_open(c.endpoint, NULL, &a, &e), 0);
    ck_assert_double_ge(asked(a, 1500, &e), 1.4);
    ck_assert_int_eq(e.code, SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.text, "a coordinator that stands by says: the coordinator at "));
    pthread_t later;
    ck_assert_int_eq(pthread_create(&later, NULL, leads_soon, NULL), 0);
    ck_assert_double_lt(asked(a, 10000, &e), 5);
    ck_assert_int_eq(e.code, 0);
    pthread_join(later, NULL);
    cli_ask_close(a);
}
END_TEST

/* It is asked no more, and not said to be silent. */
START_TEST(ask_of_another_release_ends_at_once)
{
    struct ask *a = NULL;
    struct err e;
    c.leads = c.older = true;
    ck_assert_int_eq(cli_ask_open(c.endpoint, NULL, &a, &e), 0);
    ck_assert_double_lt(asked(a, 10000, &e), 5);
    ck_assert_int_eq(e.code, SHOAL_E_VERSION);
    ck_assert_ptr_nonnull(strstr(e.text, "it is of another release: message HELLO is of protocol"));
    cli_ask_close(a);
}
END_TEST

/* After a change of the leader it may lead again: a command that follows a job waits for it. */
START_TEST(ask_of_one_that_has_led_waits)
{
    struct ask *a = NULL;
    struct err e;
    c.leads = true;
    ck_assert_int_eq(cli_ask_open(c.endpoint, NULL, &a, &e), 0);
    (void)asked(a, 10000, &e);
    ck_assert_int_eq(e.code, 0);
    c.leads = false;
    ck_assert_double_ge(asked(a, 1500, &e), 1.4);
    ck_assert_int_eq(e.code, SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.text, "a coordinator that stands by says: the coordinator at "));
    cli_ask_close(a);
}
END_TEST

/* None leads yet: this one may in a moment. */
START_TEST(ask_where_none_leads_waits)
{
    struct ask *a = NULL;
    struct err e;
    c.leader[0] = '\0';
    ck_assert_int_eq(cli_ask_open(c.endpoint, NULL, &a, &e), 0);
    ck_assert_double_ge(asked(a, 1500, &e), 1.4);
    ck_assert_ptr_nonnull(
        strstr(e.text, "a coordinator that stands by says: no coordinator leads"));
    cli_ask_close(a);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ask");
    TCase *t = suite_case(s, "ask", 60, setup, teardown);
    tcase_add_test(t, ask_of_a_standby_says_at_once_which_one_leads);
    tcase_add_loop_test(t, ask_of_a_standby_waits_while_the_named_one_is_not_there, 0, 2);
    tcase_add_test(t, ask_of_one_that_has_led_waits);
    tcase_add_test(t, ask_of_another_release_ends_at_once);
    tcase_add_test(t, ask_where_none_leads_waits);
    return suite_main(s);
}
