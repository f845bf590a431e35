/* test_notify.c: messages to systemd, through a socket in its place. */
#include "proto/base/time.h"
#include "proto/net/notify.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listen_as_systemd(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[64];
    snprintf(name, sizeof(name), "@shoal-test-notify-%d", getpid());
    memcpy(address.sun_path, name, strlen(name));
    address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, bytes), 0);
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

static const char *hear(int fd)
{
    static char text[512];
    ssize_t bytes = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
    text[bytes > 0 ? bytes : 0] = '\0';
    return text;
}

START_TEST(notify_says_what_systemd_wants_to_hear)
{
    int fd = listen_as_systemd();
    notify_ready("2 shards");
    ck_assert_str_eq(hear(fd), "READY=1\nSTATUS=2 shards");
    notify_status("2 shards"); /* an unchanged status is not sent again */
    ck_assert_str_eq(hear(fd), "");
    notify_status("%u shards", 3);
    ck_assert_str_eq(hear(fd), "STATUS=3 shards");
    notify_status("3 shards");
    ck_assert_str_eq(hear(fd), "");
    /* a line break cannot insert another assignment */
    notify_status("recovering %d%%\nREADY=1", 40);
    ck_assert_str_eq(hear(fd), "STATUS=recovering 40% READY=1");
    notify_extend_timeout(30000000);
    ck_assert_str_eq(hear(fd), "EXTEND_TIMEOUT_USEC=30000000");
    uint64_t told, before = time_monotonic_ns() / 1000;
    notify_reloading();
    ck_assert_int_eq(sscanf(hear(fd), "RELOADING=1\nMONOTONIC_USEC=%" SCNu64, &told), 1);
    ck_assert_uint_ge(told, before);
    ck_assert_uint_le(told, time_monotonic_ns() / 1000);
    notify_stopping();
    ck_assert_str_eq(hear(fd), "STOPPING=1");
    close(fd);
}
END_TEST

START_TEST(notify_is_silent_outside_systemd)
{
    int fd = listen_as_systemd();
    unsetenv("NOTIFY_SOCKET");
    notify_ready("x");
    notify_status("x");
    ck_assert_str_eq(hear(fd), "");
    close(fd);
}
END_TEST

START_TEST(notify_watchdog_pings_six_times_in_its_interval)
{
    int fd = listen_as_systemd();
    struct sim *s = sim_new(&(struct sim_options){.seed = 1});
    struct sim_node *n = sim_node_new(s, "daemon", NULL, NULL);
    unsetenv("WATCHDOG_USEC");
    notify_watchdog_start(sim_node_env(n));
    ck_assert_str_eq(hear(fd), ""); /* systemd did not ask */
    setenv("WATCHDOG_USEC", "6000000", 1);
    unsetenv("WATCHDOG_PID");
    notify_watchdog_start(sim_node_env(n));
    ck_assert_str_eq(hear(fd), "WATCHDOG=1");
    sim_run(s, UINT64_C(900000000), NULL, NULL);
    ck_assert_str_eq(hear(fd), "");
    sim_run(s, UINT64_C(1000000000), NULL, NULL);
    ck_assert_str_eq(hear(fd), "WATCHDOG=1");
    sim_run(s, UINT64_C(2000000000), NULL, NULL);
    ck_assert_str_eq(hear(fd), "WATCHDOG=1");
    sim_free(s);
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("notify");
    TCase *t = tcase_create("notify");
    tcase_add_test(t, notify_says_what_systemd_wants_to_hear);
    tcase_add_test(t, notify_is_silent_outside_systemd);
    tcase_add_test(t, notify_watchdog_pings_six_times_in_its_interval);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
