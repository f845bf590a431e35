/* trace.c: traces of batches; trace.h. */
#include "worker/train/trace.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(TRACE_PLACES <= WIRE_TRACES_MAX, "all traces fit into one message");

void traces_set(struct traces *all, uint32_t every)
{
    if (every != 0 && all->trace == NULL)
        all->trace = calloc(TRACE_PLACES, sizeof *all->trace);
    all->every = every;
    if (all->trace == NULL)
        all->every = 0;
}

void traces_close(struct traces *all)
{
    free(all->trace);
    *all = (struct traces){.every = 0};
}

/* The i-th trace, the oldest first. */
static struct trace *at(const struct traces *all, uint32_t i)
{
    return &all->trace[(all->next + i) % TRACE_PLACES];
}

struct trace *trace_begin(struct traces *all, uint64_t now_ns, uint64_t computed_ns)
{
    SHOAL_ASSERT(all->trace != NULL);
    for (uint32_t i = 0; i < TRACE_PLACES; i++) {
        struct trace *t = at(all, i);
        if (t->state != TRACE_FREE)
            continue;
        all->next = (uint32_t)(t - all->trace + 1) % TRACE_PLACES;
        memset(t, 0, sizeof *t);
        t->state = TRACE_OPEN;
        t->stage = WIRE_STAGE_READ;
        t->w.begun_ns = t->since_ns = t->stage_ns = now_ns;
        t->computed_ns = computed_ns;
        return t;
    }
    return NULL;
}

void trace_turn(struct trace *t, enum wire_stage stage, uint64_t now_ns, uint64_t computed_ns)
{
    SHOAL_ASSERT(t->state == TRACE_OPEN && stage < WIRE_STAGES && now_ns >= t->since_ns &&
                 computed_ns >= t->computed_ns);
    t->w.stage_ns[t->stage] += now_ns - t->since_ns;
    if (t->stage != WIRE_STAGE_COMPUTE) /* else it was this batch that was computed */
        t->w.beside_ns[t->stage] += computed_ns - t->computed_ns;
    if (t->stage != stage)
        t->stage_ns = now_ns;
    t->stage = stage;
    t->since_ns = now_ns;
    t->computed_ns = computed_ns;
}

void trace_asked(struct trace *t, bool push)
{
    t->w.parts[push] = 0;
}

void trace_part(struct trace *t, bool push, const struct wire_trace_part *part, uint64_t now_ns)
{
    struct wire_trace_part *list = t->w.part[push], *to = list;
    SHOAL_ASSERT(t->state == TRACE_OPEN && now_ns >= t->stage_ns);
    uint32_t told = t->w.parts[push]++;
    if (told < WIRE_TRACE_PARTS)
        to = &list[told];
    for (uint32_t i = 1; told >= WIRE_TRACE_PARTS && i < WIRE_TRACE_PARTS; i++)
        if (list[i].took_ns < to->took_ns)
            to = &list[i];
    *to = *part; /* answers come in order of time: the new one is the slowest so far */
    to->took_ns = now_ns - t->stage_ns;
}

void trace_end(struct trace *t, uint64_t now_ns, uint64_t computed_ns)
{
    trace_turn(t, WIRE_STAGE_PUSH, now_ns, computed_ns);
    t->w.wall_ns = now_ns - t->w.begun_ns;
    t->state = TRACE_DONE;
}

void trace_drop(struct trace *t)
{
    SHOAL_ASSERT(t->state == TRACE_OPEN);
    t->state = TRACE_FREE;
}

static uint32_t count(const struct traces *all, enum trace_state from, enum trace_state to)
{
    uint32_t n = 0;
    for (uint32_t i = 0; all->trace != NULL && i < TRACE_PLACES; i++)
        n += all->trace[i].state >= from && all->trace[i].state <= to;
    return n;
}

bool traces_wait(const struct traces *all)
{
    return count(all, TRACE_DONE, TRACE_SENT) > 0;
}

struct msg *traces_build(struct traces *all, uint64_t id, uint64_t pass)
{
    uint32_t n = count(all, TRACE_DONE, TRACE_SENT), built = 0;
    struct wire w = {.type = WIRE_TYPE_TRACES, .id = id};
    w.u.TRACES = (struct wire_TRACES){.pass = pass, .count = n};
    struct msg *m = wire_encode(&w);
    struct wire_trace *out = msg_add(m, n * sizeof *out);
    if (out == NULL) {
        msg_free(m);
        return NULL;
    }
    for (uint32_t i = 0; n > 0 && i < TRACE_PLACES; i++) {
        struct trace *t = at(all, i);
        if (t->state < TRACE_DONE)
            continue;
        out[built++] = t->w;
        t->state = TRACE_SENT;
    }
    return m;
}

void traces_sent(struct traces *all)
{
    for (uint32_t i = 0; all->trace != NULL && i < TRACE_PLACES; i++)
        if (all->trace[i].state == TRACE_SENT)
            all->trace[i].state = TRACE_FREE;
}
