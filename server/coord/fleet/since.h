/* since.h: for how long something has been wrong. A sentence on a problem is made anew at each
 * look, and its numbers change ("not heard for 12 s", "for 13 s"). So a sentence is known by its
 * words other than numbers and shards ("3", "shard-3"): shards in the same state have one sentence
 * (job/sight_servers.c), which names another one of them when the first is well again. The first
 * look that found it is its beginning. A sentence that is not found for COORD_SINCE_GONE_NS is
 * over: the next time it begins anew.
 *
 * At most COORD_SINCE_MAX sentences are known; one more takes the place of the one that was found
 * longest ago. Nothing is stored: a coordinator that starts counts from its own first look. Pure:
 * time is an argument. */
#ifndef SERVER_COORD_FLEET_SINCE_H
#define SERVER_COORD_FLEET_SINCE_H

#include <stdint.h>

#define COORD_SINCE_MAX 128u
#define COORD_SINCE_LOOK_NS UINT64_C(1000000000) /* a look comes at least this often */
#define COORD_SINCE_GONE_NS (3 * COORD_SINCE_LOOK_NS)

struct coord_since {
    struct {
        uint64_t words, first_ns, last_ns; /* words: their hash */
    } of[COORD_SINCE_MAX];
    uint32_t count;
};

/* The hash of a sentence's words other than numbers and shards. */
uint64_t coord_since_words(const char *text);
/* A look finds the sentence now. Returns the seconds since the look that found it first. */
double coord_since_seconds(struct coord_since *s, const char *text, uint64_t now_ns);

#endif
