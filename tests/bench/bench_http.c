/* bench_http.c: peers that attack the HTTP port of a daemon, in a given time.
 *
 *     bench_http PORT SECONDS REQUESTS CONNECTIONS
 *
 * REQUESTS requests, spread over the time: valid ones, and garbage of each kind in garbage_write;
 * each is on a connection of its own, which stays open for a while. Beside them CONNECTIONS
 * connections that send nothing or half a request and are made again whenever they are closed, and
 * SLOW peers that send or read a byte a second. Half of the peers have the address of every local
 * client, 127.0.0.1; the others share 250 further addresses. The output is one JSON object: how
 * many requests went out, how many of them found the port's queue full, how many answers came, and
 * the processor time that all of it took. No test: run by tests/load. */
#include "proto/base/rng.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { OPEN = 64, SLOW = 64, CROWD = 10000, NOISE = 1 << 17, KINDS = 16 };

static struct sockaddr_in server = {.sin_family = AF_INET};
static struct rng rng;
static char noise[NOISE];
static uint64_t unheard, answers;

static double clock_now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns a connection that is made or under way; -1: there is no descriptor or no port. */
static int connection_open(int room)
{
    static uint64_t count;
    const int one = 1;
    struct linger reset = {.l_onoff = 1}; /* else ports stay in use, and run out */
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (count++ % 2 == 0)
        own.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)rng_below(&rng, 250));
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (room > 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (bind(fd, (const struct sockaddr *)&own, sizeof own) == 0 &&
        (connect(fd, (const struct sockaddr *)&server, sizeof server) == 0 || errno == EINPROGRESS))
        return fd;
    close(fd);
    return -1;
}

/* True: the peer has closed it, or the connection could not be made. */
static bool closed(int fd)
{
    char bytes[4096];
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

/* ---- requests -------------------------------------------------------------------------------- */

#define HOST " HTTP/1.1\r\nHost: localhost\r\n"

/* Writes a request of kind i to `out` (NOISE); returns its bytes. */
static size_t garbage_write(uint64_t i, char *out)
{
    static const char hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    static const char *const text[KINDS] = {
        [1] = "GET /metrics" HOST "\r\n",
        [2] = "GET /metrics" HOST "Accept: application/openmetrics-text\r\n\r\n",
        [3] = "POST /metrics" HOST "Content-Length: 99999999999999\r\n\r\n",
        [4] = "GET /metrics" HOST "Content-Length: 18446744073709551617\r\n\r\nx",
        [5] = "POST /" HOST "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        [6] = "GET /metrics\r\n",
        [7] = "GET /metrics" HOST "Authorization: Bearer 0123456789abcdef0123456789\r\n\r\n",
        [8] = "GET http://evil.example/metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        [9] = "GET /",
    };
    size_t bytes = 0;
    if (text[i % KINDS] != NULL)
        bytes = (size_t)snprintf(out, NOISE, "%s", text[i % KINDS]);
    switch (i % KINDS) {
    case 0: /* random bytes */
        bytes = 1 + rng_below(&rng, 3000);
        memcpy(out, noise + rng_below(&rng, NOISE - 3000), bytes);
        break;
    case 3: /* and a body */
        memcpy(out + bytes, noise, NOISE / 2);
        return bytes + NOISE / 2;
    case 10: /* a URL that nothing else asks for */
        return (size_t)snprintf(out, NOISE, "GET /metrics/%" PRIu64 HOST "\r\n", rng_next(&rng));
    case 11: /* a head without an end */
        bytes = (size_t)snprintf(out, NOISE, "GET /metrics" HOST "X: ");
        memset(out + bytes, 'x', NOISE - bytes);
        return NOISE;
    case 12: /* thousands of fields */
        bytes = (size_t)snprintf(out, NOISE, "GET /metrics" HOST);
        while (bytes < NOISE - 32)
            bytes += (size_t)snprintf(out + bytes, 32, "X-%zu: 1\r\n", bytes);
        return bytes;
    case 13: /* pipelined */
        while (bytes < 8000)
            bytes += (size_t)snprintf(out + bytes, 200, "GET /healthz" HOST "\r\n");
        return bytes;
    case 14: /* zeros in it */
        memset(out, 0, 4000);
        memcpy(out, "GET /metr\0ics", 13);
        return 4000;
    case 15: /* TLS */
        memcpy(out, hello, sizeof hello - 1);
        memcpy(out + sizeof hello - 1, noise, 500);
        return sizeof hello - 1 + 500;
    default:
        break;
    }
    return bytes;
}

/* Returns false when there was no descriptor. */
static bool request(uint64_t i)
{
    static int open[OPEN];
    static char out[NOISE];
    int *place = &open[i % OPEN];
    if (i >= OPEN && *place >= 0) {
        char first;
        answers += recv(*place, &first, 1, MSG_DONTWAIT) == 1;
        close(*place);
    }
    *place = connection_open(0);
    if (*place < 0)
        return false;
    size_t bytes = garbage_write(i / 2, out); /* each kind from both addresses */
    unheard += send(*place, out, bytes, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET;
    return true;
}

/* ---- connections that stay ------------------------------------------------------------------- */

static void crowd_turn(uint64_t connections)
{
    static int crowd[CROWD];
    for (uint64_t i = 0; i < connections; i++) {
        if (crowd[i] > 0 && closed(crowd[i])) {
            close(crowd[i]);
            crowd[i] = 0;
        }
        if (crowd[i] > 0 || (crowd[i] = connection_open(0)) < 0)
            continue;
        if (i % 2 == 0)
            (void)send(crowd[i], "GET /metrics" HOST, strlen("GET /metrics" HOST), MSG_NOSIGNAL);
    }
}

/* Half of them send a head byte by byte, the others read an answer so. */
static void slow_turn(void)
{
    static int slow[SLOW];
    static const char head[] = "GET /metrics" HOST "\r\n";
    char byte;
    for (uint64_t i = 0; i < SLOW; i++) {
        bool writes = i % 2 == 0;
        if (slow[i] > 0) {
            ssize_t n = writes ? send(slow[i], "G", 1, MSG_NOSIGNAL)
                               : recv(slow[i], &byte, 1, MSG_DONTWAIT);
            if (n == 1 || (n < 0 && errno == EAGAIN))
                continue;
            close(slow[i]);
        }
        slow[i] = connection_open(1);
        if (slow[i] >= 0 && !writes)
            (void)send(slow[i], head, strlen(head), MSG_NOSIGNAL);
    }
}

int main(int argc, char **argv)
{
    double seconds = argc == 5 ? atof(argv[2]) : 0, requests = argc == 5 ? atof(argv[3]) : 0;
    uint64_t i = 0, done = 0, crowd = argc == 5 ? strtoull(argv[4], NULL, 10) : 0;
    struct rlimit files = {.rlim_cur = 0};
    if (seconds <= 0 || crowd > CROWD) {
        fprintf(stderr, "usage: bench_http PORT SECONDS REQUESTS CONNECTIONS (at most %d)\n",
                CROWD);
        return 64;
    }
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    server.sin_port = htons((uint16_t)atoi(argv[1]));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    rng = rng_of(1, 0, 0);
    for (size_t k = 0; k < NOISE; k++)
        noise[k] = (char)rng_next(&rng);

    double began = clock_now(CLOCK_MONOTONIC), gone = 0, turned = -1;
    while (gone < seconds) {
        gone = clock_now(CLOCK_MONOTONIC) - began;
        if (gone - turned >= 1) {
            turned = gone;
            crowd_turn(crowd);
            slow_turn();
        }
        for (; (double)i < requests * gone / seconds && (double)i < requests; i++)
            done += request(i);
        usleep(1000);
    }
    printf("{\"done\": %" PRIu64 ", \"unheard\": %" PRIu64 ", \"answers\": %" PRIu64
           ", \"cpu\": %.3f}\n",
           done, unheard, answers, clock_now(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
