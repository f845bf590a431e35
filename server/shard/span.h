/* span.h: where the time of a traced request goes in the shard (request SPANS, `shoal trace`).
 *
 * A pull or push that its worker marks as traced carries a struct span, which charges each moment
 * from its arrival to its answer to one of wire.h's kinds. When it is answered its times are copied
 * into a ring of the newest WIRE_SPANS_MAX. A request that is refused leaves nothing: it is sent
 * again. Other requests have one branch in each place. Memory: the ring is made with the first
 * traced request; without memory for it nothing is noted. Thread: the shard's. */
#ifndef SERVER_SHARD_SPAN_H
#define SERVER_SHARD_SPAN_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"

struct shard;
struct request;

struct span {
    bool traced; /* else nothing below is used */
    enum wire_span_kind kind;
    uint64_t since_ns; /* up to which the time is charged */
    uint64_t ns[WIRE_SPAN_KINDS];
};

struct spans {
    struct wire_span *ring; /* owned (WIRE_SPANS_MAX); NULL: none was ever noted */
    uint64_t noted;         /* the newest is at (noted - 1) % WIRE_SPANS_MAX */
    bool grouped;           /* a traced push is in the group of pushes */
    uint32_t waiting;       /* traced pushes that are applied and not answered */
};

/* A request that has arrived now waits for the loop. */
void span_begin(struct span *p, bool traced, uint64_t now_ns);
/* Charges the time since the last turn; from now_ns on the request does `kind`. */
void span_turn_at(struct span *p, enum wire_span_kind kind, uint64_t now_ns);
/* The same of a request that may not be traced, at the present time. */
void span_turn_now(struct shard *s, struct span *p, enum wire_span_kind kind);
static inline void span_turn(struct shard *s, struct span *p, enum wire_span_kind kind)
{
    if (p->traced)
        span_turn_now(s, p, kind);
}
/* The request is answered at now_ns: what follows is no time of the shard. */
void span_end(struct shard *s, struct request *q, uint64_t now_ns);

void spans_close(struct spans *all);
/* Answers SPANS. */
void span_on_message(struct shard *s, peer_t from);

#endif
