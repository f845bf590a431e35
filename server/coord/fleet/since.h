/* since.h: for how long something has been wrong. A sentence on a problem is made anew at each
 * look, and its words change: numbers ("not heard for 12 s", "for 13 s"), a cause that is found
 * later, an advice. So a problem is known by its fact, a text without those: its kind and the
 * server, worker or job that has it; of a sentence without such a name its beginning, up to the
 * first number or the first of ":;,(". The first look that found a fact is its beginning. A fact
 * that is not found for COORD_SINCE_GONE_NS is over: the next time it begins anew.
 *
 * At most COORD_SINCE_MAX facts are known; one more takes the place of the one that was found
 * longest ago. Nothing is stored: a coordinator that starts counts from its own first look. Pure:
 * time is an argument. */
#ifndef SERVER_COORD_FLEET_SINCE_H
#define SERVER_COORD_FLEET_SINCE_H

#include <stddef.h>
#include <stdint.h>

#define COORD_SINCE_MAX 128u
#define COORD_SINCE_LOOK_NS UINT64_C(1000000000) /* a look comes at least this often */
#define COORD_SINCE_GONE_NS (3 * COORD_SINCE_LOOK_NS)

struct coord_since {
    struct {
        uint64_t fact, first_ns, last_ns; /* fact: its hash */
    } of[COORD_SINCE_MAX];
    uint32_t count;
};

/* The hash of a text's words other than numbers and shards ("3", "shard-3"): shards in the same
 * state have one sentence (job/sight_servers.c). */
uint64_t coord_since_words(const char *text);
/* Writes the beginning of a sentence. */
void coord_since_fact(const char *text, char *out, size_t bytes);
/* A look finds the fact now. Returns the seconds since the look that found it first. */
double coord_since_seconds(struct coord_since *s, const char *fact, uint64_t now_ns);

#endif
