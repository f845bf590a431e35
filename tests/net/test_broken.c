/* test_broken.c: breaks the invariants of the loop on purpose: each breach must be caught by its
 * own assert. The test replaces the socket: each look at it finds input, each receive returns a
 * message. */
#include "proto/net/net.c"
#include "tests/lib/broken.h"
#include "tests/lib/suite.h"

#include <check.h>

static struct net n = {.touched_end = &n.touched, .options.drain_budget = 2};
static struct peer peer = {.name = 1};
static struct line line = {.net = &n, .peer = &peer, .sock = (struct sock *)&line};
static bool stops; /* while it receives */

bool __wrap_sock_readable(struct sock *s);
bool __wrap_sock_readable(struct sock *s)
{
    (void)s;
    return true;
}

int __wrap_sock_receive(struct sock *s, struct sock_id *from, struct msg **out);
int __wrap_sock_receive(struct sock *s, struct sock_id *from, struct msg **out)
{
    (void)s, (void)from;
    n.stopping = stops;
    *out = msg_new();
    return 0;
}

/* The idle callback never runs. */
int __wrap_uv_idle_start(uv_idle_t *idle, uv_idle_cb cb);
int __wrap_uv_idle_start(uv_idle_t *idle, uv_idle_cb cb)
{
    (void)idle, (void)cb;
    return 0;
}

static void message_gives_more(void *core, peer_t from, struct msg *m)
{
    (void)core, (void)from;
    msg_free(m);
    n.options.drain_budget = 0;
}

static void drained(void *core)
{
    (void)core;
}

static const struct env_handler handler = {message_gives_more, drained, NULL};

static void the_loop_sleeps_on_a_socket_with_input(void)
{
    n.handler = &handler;
    net_touch(&line);
    prepare_cb(&(uv_prepare_t){.data = &n});
}

static void more_is_drained_than_the_budget(void)
{
    n.handler = &handler;
    net_touch(&line);
    drain(&n);
}

static void a_message_is_delivered_after_the_stop(void)
{
    uint32_t budget = 1;
    bool delivered = false;
    stops = true;
    line_drain(&line, &budget, &delivered);
}

static void who_left_is_told_out_of_a_send(void)
{
    n.peers = peers_new(1, 0);
    n.sending = true;
    check_cb(&(uv_check_t){.data = &n});
}

static const struct broken list[] = {
    {"proto/net/net.c", 1, the_loop_sleeps_on_a_socket_with_input, "input == (uv_is_active("},
    {"proto/net/net.c", 2, more_is_drained_than_the_budget, "budget < n->options.drain_budget"},
    {"proto/net/net.c", 3, a_message_is_delivered_after_the_stop, "!n->stopping"},
    {"proto/net/net.c", 4, who_left_is_told_out_of_a_send, "!n->sending"},
};

START_TEST(each_broken_invariant_ends_the_process_by_its_own_assert)
{
    broken_check(list, sizeof list / sizeof list[0]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("broken");
    tcase_add_test(suite_case(suite, "broken", 60, NULL, NULL),
                   each_broken_invariant_ends_the_process_by_its_own_assert);
    return suite_main(suite);
}
