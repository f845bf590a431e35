/* traces.c: a ring of traces; traces.h. */
#include "server/coord/fleet/traces.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/fleet/fleet.h"

#include <stdlib.h>
#include <string.h>

void coord_traces_close(struct coord_traces *t)
{
    free(t->trace);
}

int coord_traces_order(struct coord_fleet *f, struct coord_ask *a)
{
    f->traces.every = a->request->u.TRACE_EVERY.every;
    if (f->traces.every == 0)
        log_info("workers trace no more batches");
    else
        log_info("workers trace one batch in %u of each lane", f->traces.every);
    return 0;
}

/* Returns the number of the oldest trace in the ring. */
static uint64_t first(const struct coord_traces *t)
{
    return SAT_SUB(t->taken, WIRE_TRACES_MAX);
}

static struct wire_trace *at(const struct coord_traces *t, uint64_t i)
{
    SHOAL_ASSERT(i >= first(t) && i < t->taken);
    return &t->trace[i % WIRE_TRACES_MAX];
}

static bool same(const struct wire_trace *a, const struct wire_trace *b)
{
    return a->run == b->run && a->lane == b->lane && a->batch == b->batch &&
           a->generation == b->generation && a->worker == b->worker;
}

/* Takes a trace that is not here yet: workers send again what was not answered in time. */
static void take(struct coord_traces *t, const struct wire_trace *in)
{
    for (uint64_t i = first(t); i < t->taken; i++)
        if (same(at(t, i), in))
            return;
    struct wire_trace *to = &t->trace[t->taken++ % WIRE_TRACES_MAX];
    *to = *in;
    to->parts[0] = MIN(to->parts[0], LIMIT_SHARDS * LIMIT_TABLES);
    to->parts[1] = MIN(to->parts[1], LIMIT_SHARDS * LIMIT_TABLES);
}

/* A trace is of a batch of a lane, and its stages add up. */
static bool sound(const struct wire_trace *t)
{
    uint64_t sum = 0;
    for (int s = 0; s < WIRE_STAGES; s++) {
        if (t->stage_ns[s] > INT64_MAX / WIRE_STAGES)
            return false;
        sum += t->stage_ns[s];
    }
    return sum == t->wall_ns && t->run != 0 && t->batch != 0 && t->lane < LIMIT_LANES;
}

int coord_traces_take(struct coord_fleet *f, struct coord_ask *a)
{
    struct coord_traces *t = &f->traces;
    const char *in = a->m->frame[1].data;
    if (t->trace == NULL)
        t->trace = calloc(WIRE_TRACES_MAX, sizeof *t->trace);
    if (t->trace == NULL)
        return err_set(&a->e, SHOAL_E_NOMEM, "no memory for traces");
    for (uint32_t i = 0; i < a->request->u.TRACES.count; i++) {
        struct wire_trace one; /* a frame may be unaligned */
        memcpy(&one, in + i * sizeof one, sizeof one);
        if (!sound(&one))
            return err_set(&a->e, SHOAL_E_MALFORMED,
                           "a trace is of a batch of a lane, and its stages add up");
        take(t, &one);
    }
    return 0;
}

/* Copies the traces that are asked for, the oldest first, and returns their number; out NULL: only
 * counts them. */
static uint32_t collect(const struct coord_traces *t, const struct wire_TRACE *q, uint64_t run,
                        struct wire_trace *out)
{
    uint32_t count = 0;
    for (uint64_t i = first(t); i < t->taken; i++) {
        const struct wire_trace *of = at(t, i);
        if (of->run != run || (q->batch != 0 && (of->batch != q->batch || of->lane != q->lane)))
            continue;
        if (out != NULL)
            out[count] = *of;
        count++;
    }
    return count;
}

int coord_traces_ask(struct coord_fleet *f, struct coord_ask *a)
{
    const struct coord_traces *t = &f->traces;
    const struct wire_TRACE *q = &a->request->u.TRACE;
    uint64_t run = q->run;
    if (run == 0 && t->taken > 0)
        run = at(t, t->taken - 1)->run;
    uint32_t count = collect(t, q, run, NULL);
    a->reply.u.TRACE_reply = (struct wire_TRACE_reply){run, t->every, count};
    struct msg *m = wire_encode(&a->reply);
    struct wire_trace *out = msg_add(m, count * sizeof *out);
    if (out == NULL) {
        msg_free(m);
        return err_set(&a->e, SHOAL_E_NOMEM, "no memory for the answer; ask for one batch");
    }
    (void)collect(t, q, run, out);
    a->silent = true;
    coord_send(f, a->from, m);
    return 0;
}
