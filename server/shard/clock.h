/* clock.h: who waits for what: pulls, until the lowest clock lets them go.
 *
 * A gate stands for one (run, table) with pulls waiting, each in the order of the clock that it
 * needs. A gate's lowest clock is worked out once a tick and compared with the head alone; nothing
 * is searched.
 *
 * The lowest clock: under ssp, of the run's live lanes over all led tablets (engine_clock). Under
 * bsp, the lowest mark of ALL lanes, live or not, over this table's led tablets: a lane that nobody
 * holds is waited for until somebody takes it again, and each table moves on by itself, so what a
 * pull must see is a matter of its own table. Thread: the shard's. */
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
    uint32_t waiting;
};

int clock_init(struct clock *c);
void clock_close(struct clock *c);

/* The lowest clock that a pull must have reached: clock - bound - 1, never below 0. */
uint64_t clock_need(uint64_t clock, uint32_t bound);
/* The newest clock that a lane of a bsp run has here, of all tables led; 0: of another mode. */
uint64_t clock_high(const struct engine *g, const struct lead *lead, uint64_t run);
/* *low as above; *high: under bsp the highest mark of any lane on this table (0 otherwise).
 * NOT_FOUND for an unknown run. */
int clock_range(const struct engine *g, uint64_t run, uint32_t table, uint64_t *low,
                uint64_t *high);

/* Puts q to wait. An older pull of the same lane, batch and keys is returned for the caller to give
 * back: its sender sent again. NULL: none. *full is set, and nothing done, when there is no gate
 * left. */
struct request *clock_wait(struct clock *c, struct request *q, bool *full);
/* Takes out every pull that may be answered now, or whose run is gone, in the order of gates and
 * needs. */
void clock_due(struct clock *c, const struct engine *g, struct request_list *out);
/* Takes out the pulls of a peer that is gone. */
void clock_peer_gone(struct clock *c, peer_t peer, struct request_list *out);
/* Takes out what arrived before an instant: a sender that still wants it has sent again since. */
void clock_expire(struct clock *c, uint64_t before_ns, struct request_list *out);

#endif
