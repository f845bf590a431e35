/* server_hang.h: detects a disk that does not answer. A thread whose write or sync hangs cannot
 * report it, so the main thread looks at the state of all threads in /proc: a thread in
 * uninterruptible sleep that has used no processor time since the last look waits for a disk. */
#ifndef SERVER_SERVER_HANG_H
#define SERVER_SERVER_HANG_H

#include <stdbool.h>
#include <stdint.h>

#define SERVER_HANG_THREADS 64u
#define SERVER_HANG_NS UINT64_C(2000000000) /* a disk that is slow takes a second */

struct server_hang {
    struct server_hang_thread {
        int thread;
        uint64_t used; /* processor time, in ticks */
        uint64_t since_ns;
    } at[SERVER_HANG_THREADS];
    uint32_t count;
    /* how long the logged hang had lasted at the last look; 0: no hang is logged */
    uint64_t told_ns;
};

/* Looks at all threads; called once a second or so. Returns how long the longest wait of a thread
 * has lasted; 0: no thread waits. */
uint64_t server_hang_look(struct server_hang *h, uint64_t now_ns);
/* Calls server_hang_look, and logs when a disk stops answering and when it answers again. A wait of
 * SERVER_HANG_NS or more is a hang. */
uint64_t server_hang_tell(struct server_hang *h, const char *server, const char *folder,
                          uint64_t now_ns);

#endif
