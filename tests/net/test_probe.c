/* test_probe.c: probes of endpoints with and without a process, and with one that does not
 * answer. */
#include "proto/base/container_of.h"
#include "proto/net/net.h"
#include "tests/lib/suite.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static struct net *net;
static struct env *env;
static uint32_t answers, expected;

static void setup(void)
{
    struct err e = {0};
    ck_assert_int_eq(net_new(&(struct net_options){0}, &net, &e), 0);
    env = net_env(net);
    answers = expected = 0;
}

static void teardown(void)
{
    net_free(net);
}

static void probe_done(struct env_probe *p)
{
    ck_assert_ptr_null(p->impl);
    if (++answers == expected)
        env_stop(env);
}

/* Asks, and writes how long it took. */
static enum env_probe_answer ask(const char *endpoint, uint64_t *ms)
{
    struct env_probe p = {.done = probe_done};
    uint64_t begun_ns = env_now_ns(env);
    expected = answers + 1;
    env_probe_start(env, &p, endpoint);
    ck_assert_uint_lt(env_now_ns(env) - begun_ns, 500 * MS); /* it does not block */
    ck_assert_uint_eq(answers, expected - 1);
    net_run(net);
    ck_assert_uint_eq(answers, expected);
    *ms = (env_now_ns(env) - begun_ns) / MS;
    return p.answer;
}

/* A socket at a free port of loopback; `waiting` may wait to be let in. */
static int tcp_socket(bool six, int waiting, char endpoint[64])
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t bytes = six ? sizeof a : sizeof four;
    struct sockaddr *at = six ? (struct sockaddr *)&a : (struct sockaddr *)&four;
    int fd = socket(at->sa_family, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, at, bytes), 0);
    if (waiting >= 0)
        ck_assert_int_eq(listen(fd, waiting), 0);
    ck_assert_int_eq(getsockname(fd, at, &bytes), 0);
    snprintf(endpoint, 64, six ? "tcp://[::1]:%u" : "tcp://127.0.0.1:%u",
             ntohs(six ? a.sin6_port : four.sin_port));
    return fd;
}

START_TEST(net_probe_finds_who_listens)
{
    char endpoint[64], named[80];
    uint64_t ms;
    for (int six = 0; six < 2; six++) {
        int fd = tcp_socket(six, 8, endpoint);
        ck_assert_int_eq(ask(endpoint, &ms), ENV_PROBE_ANSWERS);
        ck_assert_uint_lt(ms, 500);
        close(fd);
        ck_assert_int_eq(ask(endpoint, &ms), ENV_PROBE_REFUSED);
        ck_assert_uint_lt(ms, 500);
    }
    int fd = tcp_socket(false, 8, endpoint);
    snprintf(named, sizeof named, "tcp://localhost%s", strrchr(endpoint, ':'));
    ck_assert_int_eq(ask(named, &ms), ENV_PROBE_ANSWERS);
    close(fd);
    ck_assert_int_eq(ask(named, &ms), ENV_PROBE_REFUSED);
}
END_TEST

/* A process that is about to listen holds its port, but is no answer yet. */
START_TEST(net_probe_of_a_port_that_is_bound_is_refused)
{
    char endpoint[64];
    uint64_t ms;
    int fd = tcp_socket(false, -1, endpoint);
    ck_assert_int_eq(ask(endpoint, &ms), ENV_PROBE_REFUSED);
    close(fd);
}
END_TEST

/* The kernel drops what comes when too many wait to be let in, as a machine does that is gone. */
START_TEST(net_probe_without_an_answer_ends_after_a_second)
{
    char endpoint[64];
    int waiting[8];
    uint64_t ms;
    int fd = tcp_socket(false, 0, endpoint);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    a.sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1));
    for (int i = 0; i < 8; i++) {
        waiting[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(waiting[i], (struct sockaddr *)&a, sizeof a);
    }
    usleep(50000);
    ck_assert_int_eq(ask(endpoint, &ms), ENV_PROBE_UNKNOWN);
    ck_assert_uint_ge(ms, 1000);
    ck_assert_uint_lt(ms, 1500);
    for (int i = 0; i < 8; i++)
        close(waiting[i]);
    close(fd);
}
END_TEST

START_TEST(net_probe_knows_nothing_of_what_is_no_place)
{
    static const char *const none[] = {"tcp://no-such-name.invalid:7070", "tcp://", "",
                                       "inproc://x", "tcp://127.0.0.1:none"};
    uint64_t ms;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        ck_assert_int_eq(ask(none[i], &ms), ENV_PROBE_UNKNOWN);
        ck_assert_uint_lt(ms, 1500);
    }
}
END_TEST

/* A path without a file, a path with the socket of a process that is gone, and one whose process
 * admits no peer. */
START_TEST(net_probe_finds_who_listens_at_a_path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "/tmp/shoal-probe.sock"};
    const char *endpoint = "ipc:///tmp/shoal-probe.sock";
    uint64_t ms;
    unlink(a.sun_path);
    ck_assert_int_eq(ask(endpoint, &ms), ENV_PROBE_REFUSED);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(ask(endpoint, &ms), ENV_PROBE_ANSWERS);
    close(fd);
    ck_assert_int_eq(ask(endpoint, &ms), ENV_PROBE_REFUSED);
    ck_assert_uint_lt(ms, 500);
    unlink(a.sun_path);
}
END_TEST

static void never(struct env_probe *p)
{
    (void)p;
    ck_abort_msg("told of a probe that was stopped");
}

static void stop_fire(struct env_timer *t)
{
    (void)t;
    env_stop(env);
}

/* While a name is looked up, while it connects, when its answer waits, and by the end of the net:
 * no memory or descriptor stays. */
START_TEST(net_probes_may_be_stopped_at_any_time)
{
    static const char *const place[] = {"tcp://no-such-name.invalid:7070", "tcp://localhost:1",
                                        "tcp://127.0.0.1:1", "ipc:///tmp/shoal-probe-none.sock"};
    static struct env_probe p[4][2];
    struct env_timer end = {.fire = stop_fire};
    for (int i = 0; i < 4; i++) {
        p[i][0] = p[i][1] = (struct env_probe){.done = never};
        env_probe_stop(env, &p[i][0]); /* not running */
        env_probe_start(env, &p[i][0], place[i]);
        env_probe_stop(env, &p[i][0]);
        ck_assert_ptr_null(p[i][0].impl);
    }
    env_timer_start(env, &end, 200 * MS);
    net_run(net);
    for (int i = 0; i < 4; i++) {
        env_probe_start(env, &p[i][0], place[i]);
        env_probe_start(env, &p[i][1], place[i]);
        env_probe_stop(env, &p[i][1]);
    }
    /* the net ends with those that run */
}
END_TEST

int main(void)
{
    Suite *s = suite_create("probe");
    TCase *t = suite_case(s, "probe", 60, setup, teardown);
    tcase_add_test(t, net_probe_finds_who_listens);
    tcase_add_test(t, net_probe_of_a_port_that_is_bound_is_refused);
    tcase_add_test(t, net_probe_without_an_answer_ends_after_a_second);
    tcase_add_test(t, net_probe_knows_nothing_of_what_is_no_place);
    tcase_add_test(t, net_probe_finds_who_listens_at_a_path);
    tcase_add_test(t, net_probes_may_be_stopped_at_any_time);
    return suite_main(s);
}
