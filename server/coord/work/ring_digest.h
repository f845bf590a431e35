/* ring_digest.h: the networks of a ring's members, compared by their digests (wire.h, RING). All
 * members have the same bits after each step; a member whose machine computes or keeps something
 * wrong has others, and gives the wrong gradients to all.
 *
 *   each member tells a digest --coord_digests_note--> DIGESTS_ALIKE: so far, none differs
 *                                                      DIGESTS_OPEN: some differ, not all have told
 *                                                      DIGESTS_WRONG: most are alike, some not
 *                                                      DIGESTS_LOST: no digest is that of most
 *
 * A digest that more than half of the members have is the right one. The members that have another
 * one leave. Where there is none, the right network is not known, and the job goes back to a
 * checkpoint. A comparison that is open when the members change is decided by those that have told
 * (coord_digests_close), so that no ring begins with networks that are known to differ.
 *
 * The two newest steps are compared: the message of one member may be late by one. Pure. */
#ifndef SERVER_COORD_WORK_RING_DIGEST_H
#define SERVER_COORD_WORK_RING_DIGEST_H

#include "proto/wire/wire.h"

#include <stdint.h>

struct coord_digests {
    uint32_t members;
    struct coord_digest_step {
        uint64_t step; /* 0: none */
        uint64_t told; /* a bit for each member that has told its digest: */
        uint64_t digest[WIRE_RING_MEMBERS];
    } newest, before;
};

enum coord_digest_word { DIGESTS_ALIKE, DIGESTS_OPEN, DIGESTS_WRONG, DIGESTS_LOST };
struct coord_digest_verdict {
    enum coord_digest_word word;
    uint64_t step, wrong; /* wrong: a bit for each member that differs from most */
    uint32_t one, other;  /* DIGESTS_LOST: two members that differ */
};

/* A ring of so many members begins, 1 to WIRE_RING_MEMBERS. */
void coord_digests_open(struct coord_digests *d, uint32_t members);
/* A member has this digest after this step, above 0. One that comes again changes nothing. */
struct coord_digest_verdict coord_digests_note(struct coord_digests *d, uint32_t member,
                                               uint64_t step, uint64_t digest);
/* The members change: decides what is open, and forgets all. Never DIGESTS_OPEN. */
struct coord_digest_verdict coord_digests_close(struct coord_digests *d);

#endif
