/* way.h: how one array of floats is cut into chunks, and the way of each chunk through a ring of
 * members: which lanes are added where, and which member has the sum.
 *
 * The array is cut into P shares, and a share into chunks; chunk c is of share c mod P. P, the
 * number of starts, is fixed for the life of a run.
 *
 * The lanes 0 .. L-1 are divided among n members, a stretch of consecutive lanes each, in the order
 * of the ring. Chunk c is added up lane by lane from lane s = floor((c mod P) L / P) on: s, ..,
 * L-1, 0, .., s-1. So the order of the additions, and the bits of the sum, do not depend on n, nor
 * on the member that holds a lane.
 *
 *   n = P = 3, one lane each, chunk 1 begins at lane 1:
 *
 *     member 1: x1 --hop 0--> member 2: x1 + x2 --hop 1--> member 0: x1 + x2 + x0, the owner
 *                             member 2 <--hop 3-- member 1 <--hop 2-- member 0
 *
 * Hop h leaves the member at distance h (mod n) behind the one that holds s and goes to the next
 * one. The hops 0 .. last-1 carry parts of the sum; the member that gets hop last-1 adds the rest
 * and is the owner; the hops last .. last+n-2 carry the sum to all others. last is n-1, or n if s
 * lies inside the stretch of its member, which then adds lanes at both ends of the way. A chunk
 * takes last+n-1 messages: 2 (n-1) where each stretch begins with a start.
 *
 * The owner of a share's chunks and the next member, its second, are the keepers of the share: they
 * get the sums of its chunks before all others (network.h).
 *
 * Pure functions. Thread: any. */
#ifndef WORKER_RING_WAY_H
#define WORKER_RING_WAY_H

#include "proto/base/err.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct way_shape {
    uint32_t lanes, starts, members; /* members: 1 to WIRE_RING_MEMBERS */
    /* (members + 1): member i holds the lanes first[i] .. first[i + 1] - 1, at least one */
    uint32_t first[WIRE_RING_MEMBERS + 1];
};

/* Divides the lanes evenly. USAGE: there are not 1 to WIRE_RING_MEMBERS members with a lane each,
 * or not 1 to `lanes` starts. */
int way_shape_even(uint32_t lanes, uint32_t starts, uint32_t members, struct way_shape *out,
                   struct err *e);
/* Checks a shape from outside. USAGE. */
int way_shape_check(const struct way_shape *s, struct err *e);

/* An array of floats in two parts: those that are summed by weight, then those that are summed as
 * they are. */
enum { WAY_WEIGHTED = 0, WAY_PLAIN = 1, WAY_PARTS = 2 };
struct way_array {
    uint64_t floats[WAY_PARTS];
    uint32_t unit; /* floats that stay in one chunk, at most WAY_CHUNK_MOST */
    /* (starts): units of each share, one behind the other; NULL: shares are even */
    const uint32_t *share[WAY_PARTS];
};
struct way_cut {
    uint64_t weighted, plain; /* floats */
    uint32_t unit, starts;
    uint32_t floats; /* most floats of a chunk; a share without units has chunks without floats */
    uint32_t weighted_chunks, chunks;
    uint64_t first[WAY_PARTS][WIRE_RING_MEMBERS + 1]; /* unit with which each share begins */
};
#define WAY_CHUNK_MOST WIRE_RING_FLOATS
#define WAY_CHUNK_LEAST 1024u

/* Cuts an array: about four chunks for each start, of WAY_CHUNK_LEAST to WAY_CHUNK_MOST floats, and
 * the same number in each share. TOO_BIG: more chunks than a message can count. */
int way_cut(const struct way_array *array, uint32_t starts, struct way_cut *out, struct err *e);
/* The place of a chunk in the array, the weighted part first. */
struct way_place {
    uint64_t at;
    uint32_t floats;
    bool weighted;
};
struct way_place way_place(const struct way_cut *cut, uint32_t chunk);

/* The way of a chunk, as one member sees it. */
struct way {
    uint32_t last;     /* number of hops with parts of the sum */
    uint32_t distance; /* distance of this member from the first one */
    /* hop that brings it a part of the sum; WAY_NO_HOP: none does */
    uint32_t part_hop;
    uint32_t sum_hop; /* hop that brings it the sum; WAY_NO_HOP: it is the owner */
    /* its lanes: those that it adds when it begins or continues the sum, and those that it adds as
     * the owner after a whole round (none, unless the start lies inside its stretch) */
    uint32_t lane, lane_end, rest, rest_end;
    bool begins; /* it adds its lanes to nothing */
};
#define WAY_NO_HOP UINT32_MAX
void way_of(const struct way_shape *s, uint32_t member, uint32_t chunk, struct way *out);
/* The member is the second of the chunk: it gets the sum from the owner. */
static inline bool way_second(const struct way *w)
{
    return w->sum_hop == w->last;
}
/* The shares of which the member is the owner; of which it is a keeper: a bit for each. */
uint64_t way_owned(const struct way_shape *s, uint32_t member);
uint64_t way_kept(const struct way_shape *s, uint32_t member);
/* Messages that a chunk takes in all. */
uint32_t way_messages(const struct way_shape *s, uint32_t chunk);

#endif
