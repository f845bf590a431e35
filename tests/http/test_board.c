/* test_board.c: what HTTP tells of loops that start, work, are not ready, and hang. */
#include "proto/http/board.h"

#include "proto/base/time.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct board *board;
static char answer[1 << 16];
static uint16_t port;

static int opened(uint32_t loops)
{
    struct err e = {0};
    char listen[32];
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t bytes = sizeof a;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* finds a free port */
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&a, &bytes), 0);
    close(fd);
    port = ntohs(a.sin_port);
    (void)snprintf(listen, sizeof listen, "127.0.0.1:%u", port);
    const struct board_options o = {.program = "shoal-test",
                                    .version = "1",
                                    .listen = listen,
                                    .token = "",
                                    .loop = "shard",
                                    .loops = loops};
    return board_open(&o, &board, &e);
}

static int ask(const char *path)
{
    char request[128];
    int rc = 0;
    size_t n = 0;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    int bytes =
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    ck_assert_int_eq(write(fd, request, (size_t)bytes), bytes);
    for (ssize_t got;
         n < sizeof answer - 1 && (got = read(fd, answer + n, sizeof answer - 1 - n)) > 0;)
        n += (size_t)got;
    answer[n] = '\0';
    close(fd);
    ck_assert_int_eq(sscanf(answer, "HTTP/1.1 %d", &rc), 1);
    return rc;
}

static uint64_t ago(uint64_t seconds)
{
    return time_monotonic_ns() - seconds * UINT64_C(1000000000);
}

static void publish(uint32_t loop, bool ready, const char *why)
{
    ck_assert(board_wants(board, loop, UINT64_MAX));
    meter_clear(board_sheet(board, loop));
    board_publish(board, loop, ready, why);
}

START_TEST(board_of_none_is_null)
{
    struct err e;
    const struct board_options o = {.listen = "", .token = "", .loops = 1};
    ck_assert_int_eq(board_open(&o, &board, &e), 0);
    ck_assert_ptr_null(board);
    ck_assert(!board_wants(board, 0, 1));
    board_pulse(board, 0, 1);
    board_close(board);
}
END_TEST

START_TEST(board_is_ready_when_all_loops_are)
{
    ck_assert_int_eq(opened(2), 0);
    ck_assert_int_eq(ask("/readyz"), 503);
    ck_assert_ptr_nonnull(strstr(answer, "shard-1 is not ready: it starts\n"));
    publish(0, true, "");
    publish(1, false, "3 of 9 tablets are not back yet");
    ck_assert_int_eq(ask("/readyz"), 503);
    ck_assert_ptr_null(strstr(answer, "shard-0"));
    ck_assert_ptr_nonnull(
        strstr(answer, "shard-1 is not ready: 3 of 9 tablets are not back yet\n"));
    publish(1, true, "");
    ck_assert_int_eq(ask("/readyz"), 200);
    board_close(board);
}
END_TEST

/* The board answers while a loop hangs, and says which. */
START_TEST(board_tells_a_loop_that_hangs)
{
    ck_assert_int_eq(opened(2), 0);
    publish(0, true, "");
    publish(1, true, "");
    ck_assert_int_eq(ask("/healthz"), 200);
    board_pulse(board, 1, ago(31));
    ck_assert_int_eq(ask("/healthz"), 503);
    ck_assert_ptr_null(strstr(answer, "shard-0"));
    ck_assert_ptr_nonnull(strstr(answer, "shard-1 has made no progress for 31 s"));
    ck_assert_int_eq(ask("/metrics"), 200);
    ck_assert_ptr_nonnull(strstr(answer, "shoal_loop_silent_seconds{loop=\"shard-1\"} 31."));
    board_pulse(board, 1, ago(0));
    ck_assert_int_eq(ask("/healthz"), 200);
    board_close(board);
}
END_TEST

/* A loop that hangs is no longer ready; a probe does not kill its daemon for one long step. */
START_TEST(board_a_silent_loop_is_not_ready_and_healthy_for_a_while)
{
    ck_assert_int_eq(opened(1), 0);
    publish(0, true, "");
    board_pulse(board, 0, ago(6));
    ck_assert_int_eq(ask("/readyz"), 503);
    ck_assert_ptr_nonnull(strstr(answer, "shard is not ready: it has made no progress for 6 s\n"));
    ck_assert_int_eq(ask("/metrics"), 200);
    ck_assert_ptr_nonnull(strstr(answer, "\nshoal_ready{loop=\"shard\"} 0\n"));
    ck_assert_int_eq(ask("/healthz"), 200);
    board_pulse(board, 0, ago(0));
    ck_assert_int_eq(ask("/readyz"), 200);
    board_close(board);
}
END_TEST

/* Balancers send nothing more as soon as a stop begins, and a probe does not kill the daemon that
 * writes its last rows. */
START_TEST(board_a_daemon_that_stops_is_not_ready_and_healthy)
{
    ck_assert_int_eq(opened(2), 0);
    publish(0, true, "");
    publish(1, true, "");
    ck_assert_int_eq(ask("/readyz"), 200);
    board_stops(board);
    ck_assert_int_eq(ask("/readyz"), 503);
    ck_assert_ptr_nonnull(strstr(answer, "shard-1 is not ready: it stops\n"));
    publish(0, true, ""); /* a loop that turns on */
    ck_assert_int_eq(ask("/readyz"), 503);
    ck_assert_int_eq(ask("/healthz"), 200);
    ck_assert_int_eq(ask("/metrics"), 200);
    ck_assert_ptr_nonnull(strstr(answer, "\nshoal_ready{loop=\"shard-0\"} 0\n"));
    board_stops(NULL);
    board_close(board);
}
END_TEST

/* A start has steps without a pulse that take longer than those of a loop that turns. */
START_TEST(board_a_start_may_take_longer)
{
    ck_assert_int_eq(opened(1), 0);
    board_pulse(board, 0, ago(100));
    ck_assert_int_eq(ask("/healthz"), 200);
    board_pulse(board, 0, ago(121));
    ck_assert_int_eq(ask("/healthz"), 503);
    publish(0, true, "");
    board_pulse(board, 0, ago(100));
    ck_assert_int_eq(ask("/healthz"), 503);
    board_close(board);
}
END_TEST

START_TEST(board_shows_the_newest_sheet_and_the_process)
{
    ck_assert_int_eq(opened(1), 0);
    for (int i = 0; i < 5; i++) {
        meter_clear(board_sheet(board, 0));
        meter_put(board_sheet(board, 0), READY, 10 + i, "mine", NULL);
        board_publish(board, 0, true, "");
    }
    ck_assert_int_eq(ask("/metrics"), 200);
    ck_assert_ptr_nonnull(strstr(answer, "\nshoal_ready{loop=\"mine\"} 14\n"));
    ck_assert_ptr_null(strstr(answer, "shoal_ready{loop=\"mine\"} 13"));
    ck_assert_ptr_nonnull(strstr(answer, "\nshoal_ready{loop=\"shard\"} 1\n"));
    ck_assert_ptr_nonnull(
        strstr(answer, "\nshoal_build_info{program=\"shoal-test\",version=\"1\"} 1\n"));
    ck_assert_ptr_nonnull(strstr(answer, "\nprocess_resident_memory_bytes "));
    ck_assert_ptr_nonnull(strstr(answer, "\nprocess_open_fds "));
    ck_assert_ptr_nonnull(strstr(answer, "\nprocess_start_time_seconds 1"));
    board_close(board);
}
END_TEST

/* A data server that serves workers is worth more than its metrics. */
START_TEST(board_of_a_taken_address_is_none)
{
    struct err e;
    ck_assert_int_eq(opened(1), 0);
    char listen[32];
    struct board *second;
    (void)snprintf(listen, sizeof listen, "127.0.0.1:%u", port);
    const struct board_options o = {.listen = listen, .token = "", .loop = "x", .loops = 1};
    ck_assert_int_eq(board_open(&o, &second, &e), 0);
    ck_assert_ptr_null(second);
    board_close(board);
}
END_TEST

START_TEST(board_settings_are_checked)
{
    struct err e;
    struct board_options o = {.listen = "0.0.0.0:9464", .token = "", .loops = 1};
    ck_assert_int_eq(board_check(&o, &e), SHOAL_E_CONFIG);
    ck_assert_int_eq(board_open(&o, &board, &e), SHOAL_E_CONFIG);
    o = (struct board_options){.listen = "", .token = "/etc/token", .loops = 1};
    ck_assert_int_eq(board_check(&o, &e), SHOAL_E_CONFIG);
    o.token = "";
    ck_assert_int_eq(board_check(&o, &e), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("board");
    TCase *c = tcase_create("board");
    tcase_add_test(c, board_of_none_is_null);
    tcase_add_test(c, board_is_ready_when_all_loops_are);
    tcase_add_test(c, board_tells_a_loop_that_hangs);
    tcase_add_test(c, board_a_silent_loop_is_not_ready_and_healthy_for_a_while);
    tcase_add_test(c, board_a_daemon_that_stops_is_not_ready_and_healthy);
    tcase_add_test(c, board_a_start_may_take_longer);
    tcase_add_test(c, board_shows_the_newest_sheet_and_the_process);
    tcase_add_test(c, board_of_a_taken_address_is_none);
    tcase_add_test(c, board_settings_are_checked);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
