/* clock.h: pulls that wait until the lowest clock is high enough.
 *
 * A gate holds the waiting pulls of one (run, table), sorted by the clock that they need. The
 * lowest clock of a gate is computed once a tick and compared with the head alone; nothing is
 * searched.
 *
 * Under ssp, the lowest clock is that of the run's live lanes over all led tablets (engine_clock).
 * Under bsp, it is the lowest mark of ALL lanes, live or not, over this table's led tablets: pulls
 * wait for a lane without a worker until another worker takes it. Each table moves on by itself,
 * for a pull depends on its own table alone. Thread: the shard's. */
#ifndef SERVER_SHARD_CLOCK_H
#define SERVER_SHARD_CLOCK_H

#include "server/shard/lead.h"
#include "server/shard/request.h"

#define CLOCK_GATES (LIMIT_RUNS * LIMIT_TABLES)

struct clock_gate {
    uint64_t run;
    uint32_t table;
    struct request *head; /* sorted by pull.need */
};

struct clock {
    struct clock_gate *gate; /* owned, (CLOCK_GATES); the first gate_count are in use */
    uint32_t gate_count;
    uint32_t waiting; /* pulls */
    uint64_t bytes;   /* bytes of these pulls */
};

int clock_init(struct clock *c);
void clock_close(struct clock *c);

/* The lowest clock that a pull must have reached: clock - bound - 1, never below 0. */
uint64_t clock_need(uint64_t clock, uint32_t bound);
/* The newest clock that a lane of a bsp run has here, over all tables with led tablets; 0: the run
 * is of another mode. */
uint64_t clock_high(const struct engine *g, const struct lead *lead, uint64_t run);
/* *low as above; *high: under bsp the highest mark of any lane on this table (0 otherwise).
 * NOT_FOUND for an unknown run. */
int clock_range(const struct engine *g, uint64_t run, uint32_t table, uint64_t *low,
                uint64_t *high);

/* Takes out the pull of the same lane, batch and keys that waits: its sender sent it again. NULL:
 * none does. */
struct request *clock_take(struct clock *c, const struct request *q);
/* Makes q wait. False: no gate is left. */
bool clock_wait(struct clock *c, struct request *q);
/* Takes out the pulls that may be answered now and those whose run is gone, in the order of gates
 * and needs. */
void clock_due(struct clock *c, const struct engine *g, struct request_list *out);
/* Takes out the pulls of a peer that is gone. */
void clock_peer_gone(struct clock *c, peer_t peer, struct request_list *out);
/* Takes out the pulls that arrived before an instant: a sender that still waits has sent again
 * since. */
void clock_expire(struct clock *c, uint64_t before_ns, struct request_list *out);

#endif
