/* ring_rest.h: the rest of a ring: its members stop after one step, which all of them have made,
 * and the tables of the servers get the network as of that step. So the rows and the network of a
 * cut, an evaluation and a digest are of one step. Pure.
 *
 *   REST_NONE --coord_rest_begin--> REST_ASKED --coord_rest_begun: all members hold--> REST_KNOWN
 *       ^                                                                                 |
 *       |                                        coord_rest_settled: all pushes are done, |
 *       |                                        and the network is whole at each member  |
 *       |                                                                                 v
 *       +--coord_rest_end: nothing waits--- REST_STANDS <--coord_rest_published--- REST_SETTLED
 *       |                   for it any more
 *       +-- coord_rest_end: the members are others; the rest begins anew under another number
 *
 * In ASKED a member gives no contribution to a new step, and says which was its last one. The rest
 * is at the newest of them: a step that one member has begun can only be completed by all, and the
 * others may need it. Where no step has begun at all (`at` 0), the tables have the initial values,
 * and the rest stands at once.
 *
 *  1. The rest is at or above each step that a member has begun, so no member waits in the middle
 *     of one. [test: rest_is_at_the_newest_step_begun]
 *  2. It stands only when the tables have the network as of its step. [test:
 *     rest_stands_when_published] */
#ifndef SERVER_COORD_WORK_RING_REST_H
#define SERVER_COORD_WORK_RING_REST_H

#include <stdbool.h>
#include <stdint.h>

enum coord_rest_state { REST_NONE, REST_ASKED, REST_KNOWN, REST_SETTLED, REST_STANDS };

struct coord_rest {
    enum coord_rest_state state;
    uint32_t members;
    uint64_t number; /* number of the rest; 0: REST_NONE */
    uint64_t at;     /* from KNOWN on: the step after which the ring rests */
    uint64_t newest; /* ASKED: the newest step that is known to be begun */
    uint64_t told;   /* a bit for each member that has answered in this state */
};

/* number: not 0, and of no rest before. members: 1 to 64. least: a step up to which the ring is to
 * go in any case. */
void coord_rest_begin(struct coord_rest *r, uint64_t number, uint32_t members, uint64_t least);
/* The member holds, and has begun this step. Returns true when `at` is known by it. */
bool coord_rest_begun(struct coord_rest *r, uint64_t number, uint32_t member, uint64_t begun);
/* The member has the step `at` whole, and its pushes up to there are acknowledged. Returns true
 * when the last member says so. */
bool coord_rest_settled(struct coord_rest *r, uint64_t number, uint32_t member);
/* The tables have the network as of this step. Returns true when the rest stands by it. */
bool coord_rest_published(struct coord_rest *r, uint64_t step);
void coord_rest_end(struct coord_rest *r);

#endif
