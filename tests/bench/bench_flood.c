/* bench_flood.c: a given amount of garbage for a server, in a given time.
 *
 *     bench_flood PORT connections|messages SECONDS COUNT
 *     bench_flood 0 spin SECONDS SHARE
 *
 * connections: half never send a byte; the others send random bytes, half of ZMTP's greeting, or
 * all of it and then random bytes; at most 400 are open at once. messages, over 8 valid
 * connections: random bytes, headers with changed bytes, too many frames, frames that are too
 * large, that are announced and never sent, or that never end. spin: only uses the time of SHARE
 * processors. The output is one JSON object: how much of COUNT was done, and the processor time
 * that it took. No test: run by tests/load. */
#include "proto/base/rng.h"
#include "proto/wire/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { OPEN = 400, DEALERS = 8, NOISE = 1 << 20 };

static struct sockaddr_in server = {.sin_family = AF_INET};
static struct rng rng;
static uint8_t noise[NOISE];
static const uint8_t greeting[64] = {[0] = 0xff, [9] = 0x7f, [10] = 3, [12] = 'N', 'U', 'L', 'L'};

static double clock_now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns a connection, or -1 when the server accepts none at the moment. */
static int connection_open(bool wait)
{
    struct timeval most = {.tv_sec = 2};
    struct linger reset = {.l_onoff = 1}; /* else ports stay in use, and run out */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (wait ? 0 : SOCK_NONBLOCK), 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    if (connect(fd, (const struct sockaddr *)&server, sizeof server) == 0 || errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

static bool put(int fd, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    while (bytes > 0) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* ---- connections ----------------------------------------------------------------------------- */

/* Sends garbage on a new connection, which is closed after OPEN later ones. Returns false when it
 * could not be made. */
static bool garbage_connection(uint64_t i)
{
    static int open[OPEN];
    int *place = &open[i % OPEN];
    if (i >= OPEN && *place >= 0)
        close(*place);
    *place = connection_open(i % 2 == 1);
    if (*place < 0 || i % 2 == 0)
        return *place >= 0;
    size_t some = 1 + rng_below(&rng, 2000);
    const uint8_t *at = noise + rng_below(&rng, NOISE - 2000);
    if (i % 6 == 1) {
        (void)put(*place, at, some);
    } else if (i % 6 == 3) {
        (void)put(*place, greeting, 32);
    } else {
        (void)put(*place, greeting, sizeof greeting);
        (void)put(*place, at, some);
    }
    return true;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Opens a DEALER connection by hand, with a valid greeting and handshake. */
static int dealer_open(void)
{
    static const char ready[] = "\5READY\xbSocket-Type\0\0\0\6DEALER";
    uint8_t theirs[256], head[2] = {4, sizeof ready - 1};
    int fd = connection_open(true);
    if (fd < 0)
        return -1;
    if (put(fd, greeting, sizeof greeting) && recv(fd, theirs, 64, MSG_WAITALL) == 64 &&
        put(fd, head, sizeof head) && put(fd, ready, sizeof ready - 1) &&
        recv(fd, head, sizeof head, MSG_WAITALL) == sizeof head && head[0] == 4 &&
        recv(fd, theirs, head[1], MSG_WAITALL) == head[1])
        return fd;
    close(fd);
    return -1;
}

static bool frame(int fd, bool more, const void *data, size_t bytes)
{
    uint8_t head[9] = {(uint8_t)(2 | more)};
    for (int i = 0; i < 8; i++)
        head[8 - i] = (uint8_t)((uint64_t)bytes >> (8 * i));
    return put(fd, head, sizeof head) && (data == NULL || put(fd, data, bytes));
}

/* A header of a random type with a byte changed, and cut short: with only a changed byte it might
 * be an order to stop, which a server without a coordinator obeys. */
static bool header_broken(int fd)
{
    struct wire w = {.type = (enum wire_type)(1 + rng_below(&rng, 40)), .id = rng_next(&rng)};
    struct msg *m = wire_encode(&w);
    if (m == NULL)
        return false;
    uint8_t *bytes = m->frame[0].data;
    bytes[rng_below(&rng, m->frame[0].bytes)] ^= (uint8_t)(1 + rng_below(&rng, 255));
    bool sent = frame(fd, false, bytes, m->frame[0].bytes - 1);
    msg_free(m);
    return sent;
}

/* Sends an invalid message on a connection that may be cut for it. Returns false when it was
 * cut. */
static bool garbage_message(int fd, uint64_t i)
{
    static const uint8_t empty[] = {1, 0, 1, 0, 1, 0, 1, 0}; /* four frames, more to come */
    const uint8_t *at = noise + rng_below(&rng, NOISE / 2);
    size_t some = 1 + rng_below(&rng, 300);
    switch (i % 16) {
    case 0: /* frames too many */
        for (int k = 0; k < 20; k++)
            if (!frame(fd, k < 19, at, some))
                return false;
        return true;
    case 4: /* whole, and large */
        return frame(fd, true, at, some) && frame(fd, false, at, NOISE / 2);
    case 8: /* never the last */
        for (int k = 0; k < 8; k++)
            if (!frame(fd, true, at, 100000))
                return false;
        return false;
    case 6: /* nor of these */
        for (int k = 0; k < 256; k++)
            if (!put(fd, empty, sizeof empty))
                return false;
        return false;
    case 12: /* announced, and never sent */
        (void)frame(fd, false, NULL, i % 32 < 16 ? (size_t)1 << 40 : LIMIT_FRAME_BYTES);
        return false;
    case 1:
    case 5:
    case 9:
    case 13:
        return header_broken(fd);
    default:
        return frame(fd, false, at, some);
    }
}

/* Returns false when it could not be sent. */
static bool garbage_to(uint64_t i)
{
    static int dealer[DEALERS];
    int *fd = &dealer[i % DEALERS];
    char answers[4096];
    if (*fd <= 0)
        *fd = dealer_open();
    if (*fd < 0)
        return false;
    while (recv(*fd, answers, sizeof answers, MSG_DONTWAIT) > 0)
        continue;
    if (!garbage_message(*fd, i / DEALERS)) {
        close(*fd);
        *fd = 0;
    }
    return true;
}

/* ---- pace ------------------------------------------------------------------------------------ */

static void spin(double seconds, double share)
{
    double began = clock_now(CLOCK_MONOTONIC), now;
    while ((now = clock_now(CLOCK_MONOTONIC)) - began < seconds)
        if (clock_now(CLOCK_PROCESS_CPUTIME_ID) > share * (now - began))
            usleep(1000);
}

int main(int argc, char **argv)
{
    double seconds = argc == 5 ? atof(argv[3]) : 0, number = argc == 5 ? atof(argv[4]) : 0;
    bool connections = argc == 5 && strcmp(argv[2], "connections") == 0;
    bool messages = argc == 5 && strcmp(argv[2], "messages") == 0;
    uint64_t i = 0, done = 0;
    if (seconds <= 0 || (!connections && !messages && strcmp(argv[2], "spin") != 0)) {
        fprintf(stderr, "usage: bench_flood PORT connections|messages|spin SECONDS COUNT\n");
        return 64;
    }
    server.sin_port = htons((uint16_t)atoi(argv[1]));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    rng = rng_of(1, 0, 0);
    for (size_t k = 0; k < NOISE; k++)
        noise[k] = (uint8_t)rng_next(&rng);
    double began = clock_now(CLOCK_MONOTONIC), gone = 0;
    if (!connections && !messages)
        spin(seconds, number);
    while ((connections || messages) && (double)i < number && gone < seconds) {
        gone = clock_now(CLOCK_MONOTONIC) - began;
        for (; (double)i < number * gone / seconds && (double)i < number; i++)
            done += (connections ? garbage_connection : garbage_to)(i);
        usleep(1000);
    }
    printf("{\"done\": %" PRIu64 ", \"cpu\": %.3f}\n", done, clock_now(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
