/* ring.h: the ring of workers that keep a job's network in step: its members, the lanes of each,
 * and the step from which it goes on. Pure: no message, no clock, no store but the layout of what
 * is stored. worker/ring has the workers' side; ring_job.h has the job's ring and its message.
 *
 *                                              coord_ring_report: all
 *   RING_NONE ---------------> RING_GATHERS ---------------------------> RING_STANDS
 *       ^   coord_ring_gather   |   ^    ^                                 |    |
 *       |                       |   +----+-- coord_ring_gather: a member --+    |
 *       +-----------------------+            has gone, or one can come          |
 *       +--- coord_ring_gather: no worker is left ------------------------------+
 *
 * Each gathering has the next number. A worker that learns of it stops its sums and reports the
 * newest step that it has whole. The ring goes on from the largest of them: a step that one worker
 * has whole has the contributions of all lanes. The others take the network from that worker
 * (worker/ring/handover.h). If no member has any, the tables have the network as of the step that
 * was published last.
 *
 *  1. A number is stored before it is told, and never given twice. [test:
 *     ring_numbers_rise_with_each_gathering]
 *  2. Members hold stretches of lanes that cover all of them, one lane each at least. [test:
 *     ring_members_hold_all_lanes]
 *  3. The starts (worker/ring/way.h) follow from the lanes alone, and stay for the life of a run.
 *     So does the order in which contributions are added up, and the bits of the network depend
 *     neither on the number of workers nor on the moment at which each came. A stored ring keeps
 *     the starts that it has. [test: ring_keeps_its_starts]
 *  4. No step is forgotten: the ring goes on from a step at or above the published one, and above
 *     or at every step that a member reports. [assert: ring_stand] */
#ifndef SERVER_COORD_WORK_RING_H
#define SERVER_COORD_WORK_RING_H

#include "proto/base/sm.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

enum coord_ring_state { RING_NONE, RING_GATHERS, RING_STANDS };

struct coord_ring_member {
    uint64_t worker;
    uint32_t first, lanes; /* its stretch of lanes */
    uint64_t since;        /* it is a member of all rings from this number on */
    bool told, has;        /* it has reported; it has the network as of `step` */
    uint64_t step;
};

#define COORD_RING_TABLES UINT32_MAX

struct coord_ring {
    enum coord_ring_state state;
    uint32_t lanes, starts;
    uint64_t number, stood; /* stood: the number of the last ring that stood; 0: none has */
    uint64_t step;          /* RING_STANDS: it goes on from here */
    uint32_t source; /* RING_STANDS: index of a member that has the step, or COORD_RING_TABLES */
    uint64_t published;
    uint32_t count;
    struct coord_ring_member member[WIRE_RING_MEMBERS];
};

void coord_ring_open(struct coord_ring *r, uint32_t lanes);
/* The ring gathers anew with the same members: a lane was lost, and another ring's step says where
 * it goes on. There are members. */
void coord_ring_again(struct coord_ring *r);
/* The workers (count) that live and can be members, each once. Members of the last ring stay, in
 * their order; others take the places of those that have gone, then those behind; at most a worker
 * for each lane, and WIRE_RING_MEMBERS. Returns whether it gathers anew: false: it has the members
 * already that it can have. Without a worker it is RING_NONE. */
bool coord_ring_gather(struct coord_ring *r, const uint64_t *worker, uint32_t count);
/* True when coord_ring_gather with these workers would change the members. */
bool coord_ring_changes(const struct coord_ring *r, const uint64_t *worker, uint32_t count);
/* True when a network that the worker had in ring `of` is that of the run: in the last ring that
 * stood, or in one since which no ring has made a step without this worker. */
bool coord_ring_counts(const struct coord_ring *r, uint64_t worker, uint64_t of);
/* A member reports for gathering `number`. has: it has the network whole as of `step`. A report for
 * another number, of another worker, or that comes again changes nothing. Returns true when the
 * ring stands by it. */
bool coord_ring_report(struct coord_ring *r, uint64_t worker, uint64_t number, bool has,
                       uint64_t step);
/* The tables have the network as of this step, durably. */
void coord_ring_published(struct coord_ring *r, uint64_t step);
/* The ring stands, no member has the network, and the tables have it as of this step, as the
 * members have found: the ring goes on from there. */
void coord_ring_found(struct coord_ring *r, uint64_t step);

/* The member; NULL: the worker is none. */
const struct coord_ring_member *coord_ring_find(const struct coord_ring *r, uint64_t worker);
/* The worker that holds a lane; 0: there is no ring. */
uint64_t coord_ring_holder(const struct coord_ring *r, uint32_t lane);
/* The newest step of which it is known that the network has it. */
uint64_t coord_ring_at(const struct coord_ring *r);
/* The batch at which a lane goes on in a ring that stands, with all batches up to `mark` in the
 * rows: it is in neither the rows nor the network, or only in one of them. */
uint64_t coord_ring_batch(const struct coord_ring *r, uint64_t mark);

/* The stored record, under "ring". */
struct coord_ring_record {
    uint64_t run, number, stood, step, published;
    uint32_t state, lanes, starts, source, count, zero;
    uint64_t worker[WIRE_RING_MEMBERS];
};
_Static_assert(sizeof(struct coord_ring_record) == 576, "coord_ring_record is stored");
void coord_ring_to_record(const struct coord_ring *r, uint64_t run, struct coord_ring_record *out);
/* After a restart: a ring that stood goes on, and one that gathered gathers again under its number,
 * for the members report until they are answered. False: the record is of another run, or
 * impossible. */
bool coord_ring_from_record(struct coord_ring *r, uint64_t run, const struct coord_ring_record *in);

#endif
