/* test_http.c: the HTTP server over real sockets: what it answers, what it refuses, and what peers
 * that send garbage, read slowly or come in crowds can take. */
#include "proto/base/crash.h"
#include "proto/base/file.h"
#include "proto/base/minmax.h"
#include "proto/base/rng.h"
#include "proto/base/time.h"
#include "proto/http/http.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct http *http;
static char folder[] = "/tmp/shoal-http-XXXXXX", answer[1 << 20];
static size_t large;  /* bytes of /large */
static unsigned made; /* how often a page was made */

static void page_write(void *context, const struct http_ask *ask, struct http_reply *reply)
{
    reply->type = "text/html";
    fprintf(reply->body, "%s: %d of %u", (const char *)context, ask->other, ++made);
}

static void away_write(void *context, const struct http_ask *ask, struct http_reply *reply)
{
    (void)context;
    (void)ask;
    reply->status = 503;
    fputs("away", reply->body);
}

static void large_write(void *context, const struct http_ask *ask, struct http_reply *reply)
{
    (void)context;
    (void)ask;
    for (size_t i = 0; i < large; i++)
        putc('x', reply->body);
}

static void fault_write(void *context, const struct http_ask *ask, struct http_reply *reply)
{
    static const char *volatile nowhere;
    (void)context;
    (void)ask;
    fputs(nowhere, reply->body);
}

static const struct http_route route[] = {{"/page", page_write, "page", false, "text/plain"},
                                          {"/open", page_write, "open", true, NULL},
                                          {"/away", away_write, NULL, false, NULL},
                                          {"/large", large_write, NULL, false, NULL},
                                          {"/fault", fault_write, NULL, false, NULL}};

static void setup(void)
{
    signal(SIGPIPE, SIG_IGN);
    strcpy(folder, "/tmp/shoal-http-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    http = NULL;
    large = 100000;
    made = 0;
}

static void teardown(void)
{
    http_close(http);
    (void)file_remove_tree(folder);
}

static int opened(const char *listen, const char *token)
{
    struct err e = {0};
    const struct http_options o = {.listen = listen, .token = token, .route = route, .routes = 5};
    return http_open(&o, &http, &e);
}

static int reach(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(http_port(http))};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

/* Reads until the other side closes, at most `ms`; returns the bytes. */
static size_t read_all(int fd, int ms)
{
    size_t n = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (n < sizeof answer - 1 && poll(&p, 1, ms) == 1) {
        ssize_t got = read(fd, answer + n, sizeof answer - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    answer[n] = '\0';
    return n;
}

/* Returns the status of the answer; 0: none. */
static int ask(const char *request)
{
    int fd = reach(), rc = 0;
    size_t bytes = strlen(request);
    if (send(fd, request, bytes, MSG_NOSIGNAL) == (ssize_t)bytes)
        read_all(fd, 5000);
    else
        answer[0] = '\0'; /* refused: too many are open */
    close(fd);
    if (sscanf(answer, "HTTP/1.%*c %d", &rc) != 1)
        return 0;
    return rc;
}

static const char *body(void)
{
    const char *at = strstr(answer, "\r\n\r\n");
    ck_assert_ptr_nonnull(at);
    return at + 4;
}

#define HEAD " HTTP/1.1\r\nHost: localhost\r\n"

START_TEST(http_answers_get_and_head)
{
    ck_assert_int_eq(opened("127.0.0.1:0", ""), 0);
    ck_assert_int_eq(ask("GET /page" HEAD "Accept: text/plain\r\n\r\n"), 200);
    ck_assert_str_eq(body(), "page: 1 of 1");
    ck_assert_ptr_nonnull(strstr(answer, "Content-Type: text/html"));
    ck_assert_int_eq(ask("HEAD /page" HEAD "\r\n"), 200);
    ck_assert_str_eq(body(), "");
    ck_assert_ptr_nonnull(strstr(answer, "Content-Length: 12"));
    ck_assert_int_eq(ask("GET /away" HEAD "\r\n"), 503);
    ck_assert_int_eq(ask("GET /large" HEAD "\r\n"), 200);
    ck_assert_uint_eq(strlen(body()), large);
}
END_TEST

START_TEST(http_refuses)
{
    char request[20000];
    ck_assert_int_eq(opened("127.0.0.1:0", ""), 0);
    ck_assert_int_eq(ask("GET /" HEAD "\r\n"), 404);
    ck_assert_int_eq(ask("GET /page/" HEAD "\r\n"), 404);
    ck_assert_int_eq(ask("POST /page" HEAD "Content-Length: 1\r\n\r\nx"), 405);
    ck_assert_ptr_nonnull(strstr(answer, "Allow: GET, HEAD"));
    ck_assert_int_eq(ask("DELETE /page" HEAD "\r\n"), 405);
    ck_assert_int_eq(ask("GET /page" HEAD "Content-Length: 3\r\n\r\nabc"), 413);
    ck_assert_int_eq(ask("GET /page" HEAD "Transfer-Encoding: chunked\r\n\r\n"), 413);
    memset(request, 'a', sizeof request);
    (void)memcpy(request, "GET /", 5);
    (void)snprintf(request + 15000, 100, "%s", HEAD "\r\n");
    ck_assert_int_ge(ask(request), 400);
    ck_assert_int_eq(ask("GET /page" HEAD "\r\n"), 200);
}
END_TEST

/* Within HTTP_FRESH_NS all get the same page; those that accept its other type another one. */
START_TEST(http_makes_a_page_once_in_a_while)
{
    const struct timespec fresh = {.tv_nsec = HTTP_FRESH_NS};
    static const char other[] = "GET /page" HEAD "Accept: a/b, text/plain;q=0.5\r\n\r\n";
    ck_assert_int_eq(opened("127.0.0.1:0", ""), 0);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(ask("GET /page" HEAD "\r\n"), 200);
        ck_assert_str_eq(body(), "page: 0 of 1");
    }
    ck_assert_int_eq(ask(other), 200);
    ck_assert_str_eq(body(), "page: 1 of 2");
    ck_assert_int_eq(nanosleep(&fresh, NULL), 0);
    ck_assert_int_eq(ask("GET /page" HEAD "\r\n"), 200);
    ck_assert_str_eq(body(), "page: 0 of 3");
    for (unsigned i = 4; i < 7; i++) {
        ck_assert_int_eq(ask("GET /open" HEAD "\r\n"), 200);
        ck_assert_uint_eq(made, i);
    }
}
END_TEST

/* What keeps a browser from showing, embedding or storing a page for others. */
START_TEST(http_headers_of_an_answer)
{
    static const char *const headers[] = {"\r\nContent-Security-Policy: frame-ancestors 'none'\r\n",
                                          "\r\nCross-Origin-Resource-Policy: same-origin\r\n",
                                          "\r\nReferrer-Policy: no-referrer\r\n",
                                          "\r\nX-Content-Type-Options: nosniff\r\n",
                                          "\r\nCache-Control: no-store\r\n",
                                          "\r\nConnection: close\r\n"};
    ck_assert_int_eq(opened("127.0.0.1:0", ""), 0);
    for (int known = 0; known < 2; known++) {
        ck_assert_int_eq(ask(known ? "GET /page" HEAD "\r\n" : "GET /x" HEAD "\r\n"),
                         known ? 200 : 404);
        for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
            ck_assert_msg(strstr(answer, headers[i]) != NULL, "%s", headers[i]);
        ck_assert_ptr_null(strstr(answer, "Access-Control"));
    }
}
END_TEST

static void token_make(const char *path, const char *text, mode_t mode)
{
    (void)unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(fchmod(fd, mode), 0);
    close(fd);
}

START_TEST(http_asks_for_the_token)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/token", folder);
    token_make(path, "0123456789abcdef\n", 0400);
    ck_assert_int_eq(opened("0.0.0.0:0", path), 0);
    ck_assert_int_eq(ask("GET /page" HEAD "\r\n"), 401);
    ck_assert_int_eq(ask("GET /nowhere" HEAD "\r\n"), 401);
    ck_assert_int_eq(ask("GET /page" HEAD "Authorization: Bearer 0123456789abcdeF\r\n\r\n"), 401);
    ck_assert_int_eq(ask("GET /page" HEAD "Authorization: Bearer 0123456789abcde\r\n\r\n"), 401);
    ck_assert_int_eq(ask("GET /page" HEAD "Authorization: 0123456789abcdef\r\n\r\n"), 401);
    ck_assert_int_eq(ask("GET /page" HEAD "Authorization: Bearer 0123456789abcdef\r\n\r\n"), 200);
    ck_assert_int_eq(ask("GET /open" HEAD "\r\n"), 200); /* a probe */
}
END_TEST

/* A site whose name leads to 127.0.0.1 has a browser ask with that name. With a token it cannot. */
START_TEST(http_answers_no_request_for_a_site)
{
    char path[256];
    static const char *const page[] = {"/page", "/open", "/nowhere"};
    ck_assert_int_eq(opened("127.0.0.1:0", ""), 0);
    for (size_t i = 0; i < 3; i++) {
        char request[200];
        (void)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: evil.example:1\r\n\r\n",
                       page[i]);
        ck_assert_int_eq(ask(request), 421);
        ck_assert_ptr_nonnull(strstr(body(), "open http://127.0.0.1:PORT/"));
    }
    ck_assert_uint_eq(made, 0);
    ck_assert_int_eq(ask("GET /page HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n"), 200);
    ck_assert_int_eq(ask("GET /page HTTP/1.0\r\n\r\n"), 200);
    http_close(http);
    ck_assert_int_eq(opened("localhost:0", ""), 0);
    ck_assert_int_eq(ask("GET /page HTTP/1.1\r\nHost: localhost:1\r\n\r\n"), 200);
    http_close(http);
    (void)snprintf(path, sizeof path, "%s/token", folder);
    token_make(path, "0123456789abcdef\n", 0400);
    ck_assert_int_eq(opened("127.0.0.1:0", path), 0);
    ck_assert_int_eq(ask("GET /page HTTP/1.1\r\nHost: db.lan\r\n"
                         "Authorization: Bearer 0123456789abcdef\r\n\r\n"),
                     200);
}
END_TEST

START_TEST(http_does_not_serve_other_machines_without_a_token)
{
    ck_assert_int_eq(opened("0.0.0.0:0", ""), SHOAL_E_CONFIG);
    ck_assert_int_eq(opened("[::]:0", ""), SHOAL_E_CONFIG);
    ck_assert_int_eq(opened("192.0.2.1:9464", ""), SHOAL_E_CONFIG);
    ck_assert_int_eq(opened("127.0.0.1:0", ""), 0);
}
END_TEST

START_TEST(http_refuses_a_token_that_is_none)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/token", folder);
    ck_assert_int_eq(opened("127.0.0.1:0", path), SHOAL_E_NOINPUT);
    token_make(path, "0123456789abcdef\n", 0444);
    ck_assert_int_eq(opened("127.0.0.1:0", path), SHOAL_E_DENIED);
    token_make(path, "short\n", 0400);
    ck_assert_int_eq(opened("127.0.0.1:0", path), SHOAL_E_CONFIG);
    token_make(path, "two words of some length\n", 0400);
    ck_assert_int_eq(opened("127.0.0.1:0", path), SHOAL_E_CONFIG);
}
END_TEST

START_TEST(http_addresses_have_a_form)
{
    static const char *const bad[] = {
        "9464",    "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",     "::1:9464",     "[::1:9464",
        "[]:9464", ":9464",     "unix:run/x", "127.0.0.1:65536", "127.0.0.1:-1", "[::1]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(opened(bad[i], "") == SHOAL_E_CONFIG, "%s", bad[i]);
}
END_TEST

START_TEST(http_an_address_in_use_is_unavailable)
{
    char listen[32];
    ck_assert_int_eq(opened("127.0.0.1:0", ""), 0);
    struct http *first = http;
    (void)snprintf(listen, sizeof listen, "127.0.0.1:%u", http_port(first));
    ck_assert_int_eq(opened(listen, ""), SHOAL_E_UNAVAILABLE);
    http = first;
}
END_TEST

START_TEST(http_serves_a_unix_socket_and_replaces_a_stale_one)
{
    char listen[256];
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s/socket", folder);
    (void)snprintf(listen, sizeof listen, "unix:%s", a.sun_path);
    for (int i = 0; i < 2; i++) { /* http_close leaves its name, as a kill does */
        ck_assert_int_eq(opened(listen, ""), 0);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
        static const char request[] = "GET /page" HEAD "\r\n";
        ck_assert_int_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
        read_all(fd, 5000);
        close(fd);
        ck_assert_int_eq(strncmp(answer, "HTTP/1.1 200", 12), 0);
        http_close(http);
        http = NULL;
    }
}
END_TEST

/* Two daemons must not take each other's socket: the first would serve at no name. */
START_TEST(http_a_unix_socket_that_is_served_is_in_use)
{
    char listen[256];
    (void)snprintf(listen, sizeof listen, "unix:%s/socket", folder);
    ck_assert_int_eq(opened(listen, ""), 0);
    struct http *first = http;
    ck_assert_int_eq(opened(listen, ""), SHOAL_E_UNAVAILABLE);
    http = first;
}
END_TEST

/* The thread of HTTP blocks the signals of the daemon, but not those of faults. */
START_TEST(http_a_fault_of_its_thread_is_reported)
{
    char oldest[512] = "", report[4096] = "";
    struct file_walk all;
    int status;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)dup2(nowhere, STDERR_FILENO);
        crash_begin("shoal-test");
        crash_folder(folder);
        if (opened("127.0.0.1:0", "") == 0)
            (void)ask("GET /fault" HEAD "\r\n");
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    ck_assert(file_walk_open(&all, folder));
    for (const char *name; (name = file_walk_next(&all)) != NULL;)
        (void)snprintf(oldest, sizeof oldest, "%s/%s", folder, name);
    file_walk_close(&all);
    FILE *f = fopen(oldest, "re");
    ck_assert_msg(f != NULL, "there is no report");
    ck_assert_uint_gt(fread(report, 1, sizeof report - 1, f), 0);
    fclose(f);
    ck_assert_msg(strstr(report, ", thread: http\n") != NULL, "%s", report);
}
END_TEST

/* The socket and the eventfd take the last descriptors; the library wants one for epoll. */
START_TEST(http_that_cannot_start_says_why_and_what_to_do)
{
    const struct http_options o = {
        .listen = "127.0.0.1:0", .token = "", .route = route, .routes = 5};
    struct rlimit before, few;
    struct err e = {0};
    int fd = dup(STDIN_FILENO);
    close(fd);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){(rlim_t)fd + 2, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    int rc = http_open(&o, &http, &e);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(rc, SHOAL_E_UNAVAILABLE);
    ck_assert_msg(strstr(e.text, "metrics: 127.0.0.1:0: libmicrohttpd ") == e.text &&
                      strstr(e.text, " does not start: Too many open files; where descriptors are "
                                     "short, raise LimitNOFILE= of the unit") != NULL,
                  "%s", e.text);
}
END_TEST

/* A peer that cannot be accepted costs no processor, and is answered once a descriptor is free. */
START_TEST(http_without_a_descriptor_waits)
{
    struct rlimit before, few;
    struct timespec begun, ended;
    struct sockaddr_in a = {.sin_family = AF_INET};
    static const char request[] = "GET /page" HEAD "\r\n";
    ck_assert_int_eq(opened("127.0.0.1:0", ""), 0);
    a.sin_port = htons(http_port(http));
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){(rlim_t)fd + 1, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    ck_assert_int_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begun), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    ck_assert_int_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
    ck_assert_uint_eq(read_all(fd, 1500), 0);
    ck_assert_int_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended), 0);
    double took_s =
        (double)(ended.tv_sec - begun.tv_sec) + (double)(ended.tv_nsec - begun.tv_nsec) * 1e-9;
    ck_assert_msg(took_s < 0.2, "%g s of the processor", took_s);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    read_all(fd, 5000);
    close(fd);
    ck_assert_int_eq(strncmp(answer, "HTTP/1.1 200", 12), 0);
}
END_TEST

/* A peer that sends nothing, one that sends a byte a second, and one that does not read: all are
 * closed by their age. */
START_TEST(http_slow_readers)
{
    large = 16 << 20; /* more than two sockets hold */
    ck_assert_int_eq(opened("127.0.0.1:0", ""), 0);
    int silent = reach(), slow = reach(), deaf = reach();
    uint64_t begun_ns = time_monotonic_ns();
    static const char request[] = "GET /large" HEAD "\r\n";
    ck_assert_int_eq(write(deaf, request, strlen(request)), (ssize_t)strlen(request));
    bool slow_open = true;
    struct pollfd gone = {.fd = silent, .events = POLLIN};
    while (slow_open || poll(&gone, 1, 0) == 0) {
        ck_assert_uint_lt(time_monotonic_ns() - begun_ns, HTTP_PATIENCE_NS + UINT64_C(5000000000));
        slow_open = slow_open && send(slow, "G", 1, MSG_NOSIGNAL) == 1;
        (void)poll(NULL, 0, 500);
    }
    ck_assert_uint_gt(time_monotonic_ns() - begun_ns, HTTP_PATIENCE_NS);
    ck_assert_uint_lt(read_all(deaf, 2000), large);
    close(silent);
    close(slow);
    close(deaf);
    large = 10;
    ck_assert_int_eq(ask("GET /page" HEAD "\r\n"), 200);
}
END_TEST

/* A crowd that stays takes all places; the oldest of it gives way. */
START_TEST(http_a_crowd_leaves_room_for_a_newcomer)
{
    enum { CROWD = 200 };
    int fd[CROWD];
    ck_assert_int_eq(opened("127.0.0.1:0", ""), 0);
    for (int i = 0; i < CROWD; i++)
        fd[i] = reach();
    uint64_t begun_ns = time_monotonic_ns();
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(ask("GET /page" HEAD "\r\n"), 200);
    ck_assert_uint_lt(time_monotonic_ns() - begun_ns, UINT64_C(2000000000));
    for (int i = 0; i < CROWD; i++)
        close(fd[i]);
}
END_TEST

/* Connects at once again whenever it is closed, and asks for nothing. */
static void crowd_run(uint16_t port)
{
    enum { CROWD = 200 };
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct pollfd p[CROWD];
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < CROWD; i++)
        p[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    for (;;) {
        for (int i = 0; i < CROWD; i++) {
            if (p[i].fd >= 0 && p[i].revents == 0)
                continue;
            if (p[i].fd >= 0)
                close(p[i].fd);
            p[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
            (void)connect(p[i].fd, (struct sockaddr *)&a, sizeof a);
        }
        (void)poll(p, CROWD, 1000);
    }
}

/* Strangers hold all places and come again: a probe is answered all the same, within the time that
 * deploy/kustomize gives it. */
START_TEST(http_a_probe_is_answered_beside_a_crowd_that_comes_again)
{
    ck_assert_int_eq(opened("127.0.0.1:0", ""), 0);
    pid_t crowd = fork();
    ck_assert_int_ge(crowd, 0);
    if (crowd == 0)
        crowd_run(http_port(http));
    uint64_t begun_ns = time_monotonic_ns(), longest_ns = 0;
    int answered = 0, asked = 0;
    while (time_monotonic_ns() - begun_ns < UINT64_C(10000000000)) {
        uint64_t asked_ns = time_monotonic_ns();
        asked++;
        answered += ask("GET /open" HEAD "\r\n") == 200;
        longest_ns = MAX(longest_ns, time_monotonic_ns() - asked_ns);
        (void)poll(NULL, 0, 200);
    }
    kill(crowd, SIGKILL);
    (void)waitpid(crowd, NULL, 0);
    ck_assert_msg(answered == asked && longest_ns < UINT64_C(5000000000),
                  "%d of %d probes were answered, the last one within %.1f s", answered, asked,
                  (double)longest_ns * 1e-9);
}
END_TEST

/* Processor time of the HTTP thread. */
static double thread_s(void)
{
    char path[512], name[32] = "";
    unsigned long user = 0, system = 0;
    struct file_walk all;
    ck_assert(file_walk_open(&all, "/proc/self/task"));
    for (const char *task; (task = file_walk_next(&all)) != NULL && strcmp(name, "http") != 0;) {
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/stat", task);
        FILE *f = fopen(path, "re");
        ck_assert_ptr_nonnull(f);
        ck_assert_int_eq(fscanf(f,
                                "%*d (%31[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                                name, &user, &system),
                         3);
        fclose(f);
    }
    file_walk_close(&all);
    ck_assert_str_eq(name, "http");
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* Beyond what it has saved the thread takes its share alone, and serves again when the flood is
 * over. */
START_TEST(http_a_flood_takes_little_of_the_processor)
{
    const double most_s = HTTP_SAVED_NS * 1e-9 + 5.0 / HTTP_SHARE + 0.1;
    static const char request[] = "GET /nowhere" HEAD "\r\n";
    struct linger reset = {.l_onoff = 1};
    ck_assert_int_eq(opened("127.0.0.1:0", ""), 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(http_port(http))};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (uint64_t until = time_monotonic_ns() + UINT64_C(5000000000);
         time_monotonic_ns() < until;) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        ck_assert_int_ge(fd, 0);
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        (void)connect(fd, (struct sockaddr *)&a, sizeof a);
        (void)send(fd, request, strlen(request), MSG_NOSIGNAL);
        close(fd);
    }
    ck_assert_msg(thread_s() <= most_s, "%g s", thread_s());
    uint64_t over_ns = time_monotonic_ns();
    while (ask("GET /page" HEAD "\r\n") != 200) {
        ck_assert_uint_lt(time_monotonic_ns() - over_ns, UINT64_C(3000000000));
        (void)poll(NULL, 0, 100);
    }
}
END_TEST

START_TEST(http_connections_are_bounded)
{
    enum { CROWD = 200 };
    int fd[CROWD], open_ones = 0;
    ck_assert_int_eq(opened("127.0.0.1:0", ""), 0);
    for (int i = 0; i < CROWD; i++)
        fd[i] = reach();
    (void)poll(NULL, 0, 500);
    for (int i = 0; i < CROWD; i++) {
        struct pollfd p = {.fd = fd[i], .events = POLLIN};
        open_ones += poll(&p, 1, 0) == 0; /* a refused one is at its end */
    }
    ck_assert_int_le(open_ones, (int)HTTP_CONNECTIONS);
    for (int i = 0; i < CROWD; i++)
        close(fd[i]);
    (void)poll(NULL, 0, 200);
    ck_assert_int_eq(ask("GET /page" HEAD "\r\n"), 200);
}
END_TEST

/* Half requests keep their places until they are too old; then there is room again. */
START_TEST(http_garbage)
{
    struct rng r = rng_of(48, 0, 0);
    char request[600];
    ck_assert_int_eq(opened("127.0.0.1:0", ""), 0);
    for (int i = 0; i < 300; i++) {
        size_t bytes = 1 + rng_below(&r, sizeof request - 5);
        for (size_t k = 0; k < bytes; k++)
            request[k] = (char)rng_next(&r);
        if (i % 2 == 0)
            memcpy(request, "GET /", 5);
        int fd = reach();
        (void)send(fd, request, bytes, MSG_NOSIGNAL);
        (void)shutdown(fd, SHUT_WR);
        read_all(fd, 5);
        close(fd);
    }
    uint64_t begun_ns = time_monotonic_ns();
    while (ask("GET /page" HEAD "\r\n") != 200) {
        ck_assert_uint_lt(time_monotonic_ns() - begun_ns, HTTP_PATIENCE_NS + UINT64_C(5000000000));
        (void)poll(NULL, 0, 200);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http");
    TCase *c = tcase_create("http");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, http_answers_get_and_head);
    tcase_add_test(c, http_refuses);
    tcase_add_test(c, http_makes_a_page_once_in_a_while);
    tcase_add_test(c, http_headers_of_an_answer);
    tcase_add_test(c, http_asks_for_the_token);
    tcase_add_test(c, http_answers_no_request_for_a_site);
    tcase_add_test(c, http_does_not_serve_other_machines_without_a_token);
    tcase_add_test(c, http_refuses_a_token_that_is_none);
    tcase_add_test(c, http_addresses_have_a_form);
    tcase_add_test(c, http_an_address_in_use_is_unavailable);
    tcase_add_test(c, http_serves_a_unix_socket_and_replaces_a_stale_one);
    tcase_add_test(c, http_a_unix_socket_that_is_served_is_in_use);
    if (!CRASH_OFF)
        tcase_add_test(c, http_a_fault_of_its_thread_is_reported);
    tcase_add_test(c, http_that_cannot_start_says_why_and_what_to_do);
    tcase_add_test(c, http_without_a_descriptor_waits);
    tcase_add_test(c, http_slow_readers);
    tcase_add_test(c, http_connections_are_bounded);
    tcase_add_test(c, http_a_crowd_leaves_room_for_a_newcomer);
    tcase_add_test(c, http_a_probe_is_answered_beside_a_crowd_that_comes_again);
    tcase_add_test(c, http_a_flood_takes_little_of_the_processor);
    tcase_add_test(c, http_garbage);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
