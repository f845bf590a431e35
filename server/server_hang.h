/* server_hang.h: whether a disk has stopped to answer. A thread whose write or sync hangs can tell
 * nobody, so the main thread looks at what the kernel says of all threads: one that sleeps without
 * being interruptible, and has used no time since, waits for a disk. */
#ifndef SERVER_SERVER_HANG_H
#define SERVER_SERVER_HANG_H

#include <stdbool.h>
#include <stdint.h>

#define SERVER_HANG_THREADS 64u
#define SERVER_HANG_NS                                                                             \
    UINT64_C(5000000000) /* a disk that is slow, or has much to do, takes seconds */

struct server_hang {
    struct server_hang_thread {
        int thread;
        uint64_t used; /* its time on a processor, in ticks */
        uint64_t since_ns;
    } at[SERVER_HANG_THREADS];
    uint32_t count;
    uint64_t told_ns; /* the hang that has been logged: how long it was then; 0: none */
};

/* A look, once a second or so: how long the thread that has waited longest has; 0: none waits. */
uint64_t server_hang_look(struct server_hang *h, uint64_t now_ns);
/* The same, and what has changed goes to the log: that a disk does not answer, that it does again.
 * SERVER_HANG_NS and more: it hangs. */
uint64_t server_hang_tell(struct server_hang *h, const char *server, const char *folder,
                          uint64_t now_ns);

#endif
