/* delay_link.c: a network link that takes its time, for tests/e2e/delayed.py:
 *
 *   delay_link NAME NAME MICROSECONDS
 *
 * makes two tap devices and prints a line. What goes out by one comes in by the other after half of
 * the round trip MICROSECONDS, in order. The caller moves the devices to the network namespaces
 * that they join. They end with the process, which ends with its parent. A kernel with the queueing
 * discipline netem needs no such program; many have none. Loss: packets beyond 32 MiB on their way,
 * as a router drops them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { PACKET_MAX = 65536, PACKETS = 512 }; /* a frame: the header, and an MTU of 65,000 */

struct packet {
    uint64_t due_ns;
    size_t bytes;
    unsigned char data[PACKET_MAX];
};

/* What is on its way from one device to the other: packet[taken % PACKETS] is the oldest. */
struct way {
    int from, to;
    uint64_t taken, put;
    struct packet packet[PACKETS];
};

static struct way way[2];

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A new device of this name; -1: the error is told. */
static int device_open(const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    (void)snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0) {
        fprintf(stderr, "delay_link: no device %s: %s\n", name, strerror(errno));
        return -1;
    }
    return fd;
}

/* Takes what has come in, while there is room. */
static void way_fill(struct way *w, uint64_t delay_ns)
{
    while (w->put - w->taken < PACKETS) {
        struct packet *p = &w->packet[w->put % PACKETS];
        ssize_t n = read(w->from, p->data, sizeof p->data);
        if (n <= 0)
            return;
        p->bytes = (size_t)n;
        p->due_ns = now_ns() + delay_ns;
        w->put++;
    }
}

/* Passes on what is due. A device that is not up yet, or whose queue is full, loses the packet. */
static void way_drain(struct way *w)
{
    while (w->taken < w->put && w->packet[w->taken % PACKETS].due_ns <= now_ns()) {
        const struct packet *p = &w->packet[w->taken++ % PACKETS];
        if (write(w->to, p->data, p->bytes) < 0 && errno == EBADF)
            exit(1);
    }
}

/* Waits for a packet, or until the next is due. */
static void ways_wait(void)
{
    struct pollfd wanted[2];
    uint64_t now = now_ns(), due = now + 1000000000u;
    for (int i = 0; i < 2; i++) {
        struct way *w = &way[i];
        wanted[i] = (struct pollfd){.fd = w->from, .events = POLLIN};
        if (w->put - w->taken == PACKETS)
            wanted[i].fd = -1;
        if (w->taken < w->put && w->packet[w->taken % PACKETS].due_ns < due)
            due = w->packet[w->taken % PACKETS].due_ns;
    }
    uint64_t left = 0;
    if (due > now)
        left = due - now;
    struct timespec time = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    (void)ppoll(wanted, 2, &time, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: delay_link NAME NAME MICROSECONDS\n");
        return 64;
    }
    int first = device_open(argv[1]), second = device_open(argv[2]);
    if (first < 0 || second < 0)
        return 69;
    uint64_t delay_ns = strtoull(argv[3], NULL, 10) * 500;
    way[0].from = way[1].to = first;
    way[1].from = way[0].to = second;
    (void)prctl(PR_SET_TIMERSLACK, 1);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    puts("ready");
    (void)fflush(stdout);
    for (;;) {
        for (int i = 0; i < 2; i++) {
            way_fill(&way[i], delay_ns);
            way_drain(&way[i]);
        }
        ways_wait();
    }
}
