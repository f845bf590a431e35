/* recent.h: connections that come again and again, told once in a while: a probe that asks each ten
 * seconds, a key that is refused each second. An inside header.
 *
 * The oldest of RECENT_PLACES makes room, so strangers can make a line be told again, and can hide
 * none. Thread: that of its owner. */
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

/* Whether to tell of this key, address and result now: it was not told within RECENT_NS. *before:
 * how often it came untold since the last time. */
bool recent_tell(struct recent *r, const char *key, const char *address, const char *result,
                 uint64_t now_ns, uint64_t *before);

#endif
