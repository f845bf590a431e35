/* test_worker_listen.c: where a worker listens: the defaults, `listen`, `advertise`. */
#include "worker/worker_listen.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

START_TEST(a_worker_listens_where_others_reach_it)
{
    static const struct {
        const char *listen, *advertise, *coordinator, *endpoint, *host;
    } cases[] = {
        {"", "", "tcp://127.0.0.1:7000", "tcp://127.0.0.1:*", ""},
        {"", "", "tcp://localhost:7000", "tcp://127.0.0.1:*", ""},
        {"", "", "tcp://no-such-host.invalid:7000,tcp://127.0.0.1:7000", "tcp://127.0.0.1:*", ""},
        {"", "host7", "tcp://127.0.0.1:7000", "tcp://127.0.0.1:*", "host7"},
        {"tcp://0.0.0.0:7080", "", "tcp://127.0.0.1:7000", "tcp://0.0.0.0:7080", "127.0.0.1"},
        {"tcp://0.0.0.0:7080", "host7", "tcp://no-such-host.invalid:7000", "tcp://0.0.0.0:7080",
         "host7"},
        {"tcp://localhost:7080", "", "tcp://127.0.0.1:7000", "tcp://127.0.0.1:7080", ""},
        {"ipc:///run/w", "", "ipc:///run/c", "ipc:///run/w", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct worker_listen l = {cases[i].listen, cases[i].advertise, cases[i].coordinator};
        char endpoint[256], host[256];
        struct err e = {0};
        ck_assert_msg(worker_listen_where(&l, endpoint, host, &e) == 0, "%zu: %s", i, e.text);
        ck_assert_str_eq(endpoint, cases[i].endpoint);
        ck_assert_str_eq(host, cases[i].host);
    }
}
END_TEST

START_TEST(over_a_socket_it_has_one_of_its_own)
{
    const struct worker_listen l = {"", "", "ipc:///run/shoal/coordinator/socket"};
    char endpoint[256], host[256], expected[256];
    struct err e = {0};
    unsetenv("RUNTIME_DIRECTORY");
    ck_assert_int_eq(worker_listen_where(&l, endpoint, host, &e), 0);
    (void)snprintf(expected, sizeof expected, "ipc:///run/shoal/coordinator/socket.worker-%d",
                   (int)getpid());
    ck_assert_str_eq(endpoint, expected);
    setenv("RUNTIME_DIRECTORY", "/run/shoal/worker-1", 1); /* of a unit */
    ck_assert_int_eq(worker_listen_where(&l, endpoint, host, &e), 0);
    ck_assert_str_eq(endpoint, "ipc:///run/shoal/worker-1/socket");
    ck_assert_str_eq(host, "");
    unsetenv("RUNTIME_DIRECTORY");
}
END_TEST

START_TEST(a_path_that_is_too_long_for_a_socket_is_refused)
{
    char path[160] = "ipc:///", endpoint[256], host[256];
    struct err e = {0};
    unsetenv("RUNTIME_DIRECTORY");
    memset(path + 7, 'x', 105);
    const struct worker_listen l = {"", "", path};
    ck_assert_int_eq(worker_listen_where(&l, endpoint, host, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "at most 107 bytes") != NULL, "%s", e.text);
}
END_TEST

START_TEST(what_cannot_work_is_refused_at_the_start)
{
    static const struct {
        const char *listen, *coordinator;
        bool keys, plain;
        const char *says; /* NULL: it is taken */
    } cases[] = {
        {"", "tcp://a:7000", false, false, NULL},
        {"tcp://0.0.0.0:7080", "tcp://a:7000", true, false, NULL},
        {"tcp://0.0.0.0:7080", "tcp://a:7000", false, true, NULL},
        {"tcp://0.0.0.0:7080", "tcp://a:7000", false, false, "make keys"},
        {"tcp://0.0.0.0:7080", "ipc:///run/c", true, false, "sees no key"},
        {"tcp://0.0.0.0:7080", "ipc:///run/c", false, true, "sees no key"},
        {"tcp://0.0.0.0", "tcp://a:7000", true, false, "no host and port"},
        {"7080", "tcp://a:7000", true, false, "no host and port"},
        {"ipc:///run/w", "ipc:///run/c", false, false, NULL},
        {"ipc://", "ipc:///run/c", false, false, "1 to 107 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct worker_listen l = {cases[i].listen, "", cases[i].coordinator};
        struct err e = {0};
        int rc = worker_listen_check(&l, cases[i].keys, cases[i].plain, &e);
        ck_assert_msg((rc == 0) == (cases[i].says == NULL), "%zu: %d %s", i, rc, e.text);
        if (cases[i].says != NULL)
            ck_assert_msg(rc == SHOAL_E_CONFIG && strncmp(e.text, "listen", 6) == 0 &&
                              strstr(e.text, cases[i].says) != NULL,
                          "%zu: %s", i, e.text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker_listen");
    TCase *t = suite_case(suite, "listen", 30, NULL, NULL);
    tcase_add_test(t, a_worker_listens_where_others_reach_it);
    tcase_add_test(t, over_a_socket_it_has_one_of_its_own);
    tcase_add_test(t, a_path_that_is_too_long_for_a_socket_is_refused);
    tcase_add_test(t, what_cannot_work_is_refused_at_the_start);
    return suite_main(suite);
}
