/* recent.h: repeated connections, reported once in a while: a probe that connects every ten
 * seconds, a key that is refused every second. An internal header.
 *
 * A new entry replaces the oldest of RECENT_PLACES. So strangers can cause a line to be repeated,
 * but can hide none. Thread: that of its owner. */
#ifndef PROTO_NET_RECENT_H
#define PROTO_NET_RECENT_H

#include <stdbool.h>
#include <stdint.h>

#define RECENT_PLACES 256u
#define RECENT_NS UINT64_C(600000000000)

struct recent {
    struct {
        uint64_t what; /* 0: free */
        uint64_t told_ns, count;
    } place[RECENT_PLACES];
};

/* True when this key, address and result should be reported now: not reported within RECENT_NS.
 * *before: how often it occurred unreported since the last report. */
bool recent_tell(struct recent *r, const char *key, const char *address, const char *result,
                 uint64_t now_ns, uint64_t *before);

#endif
