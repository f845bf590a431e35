/* traces.h: the traces of batches that workers have sent, for `shoal trace`.
 *
 * TRACE_EVERY says how many batches workers trace; they hear it with the reply to each beat. The
 * newest WIRE_TRACES_MAX traces are kept, over all runs, in memory: nothing of this is stored, and
 * a coordinator that starts traces none. Workers' times are told as they came; they go into no
 * decision. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_FLEET_TRACES_H
#define SERVER_COORD_FLEET_TRACES_H

#include "proto/wire/wire.h"

struct coord_fleet;
struct coord_ask;

struct coord_traces {
    uint32_t every;           /* 0: none */
    struct wire_trace *trace; /* owned (WIRE_TRACES_MAX); NULL: none came yet */
    uint64_t taken;           /* the newest is at (taken - 1) % WIRE_TRACES_MAX */
};

void coord_traces_close(struct coord_traces *t);
/* Answer TRACES (of a known worker), TRACE_EVERY and TRACE. MALFORMED: a trace that cannot be;
 * those before it are taken. */
int coord_traces_take(struct coord_fleet *f, struct coord_ask *a);
int coord_traces_order(struct coord_fleet *f, struct coord_ask *a);
int coord_traces_ask(struct coord_fleet *f, struct coord_ask *a);

#endif
