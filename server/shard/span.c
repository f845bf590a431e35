/* span.c: times of traced requests; span.h. */
#include "server/shard/span.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "server/shard/shard.h"

#include <stdlib.h>

void span_begin(struct span *p, bool traced, uint64_t now_ns)
{
    p->traced = traced;
    if (traced)
        *p = (struct span){.traced = true, .kind = WIRE_SPAN_LOOP, .since_ns = now_ns};
}

void span_turn_at(struct span *p, enum wire_span_kind kind, uint64_t now_ns)
{
    SHOAL_ASSERT(p->traced && now_ns >= p->since_ns);
    p->ns[p->kind] += now_ns - p->since_ns;
    p->since_ns = now_ns;
    p->kind = kind;
}

void span_turn_now(struct shard *s, struct span *p, enum wire_span_kind kind)
{
    span_turn_at(p, kind, env_now_ns(s->env));
}

static struct wire_span *place(struct spans *all)
{
    if (all->ring == NULL)
        all->ring = calloc(WIRE_SPANS_MAX, sizeof *all->ring);
    if (all->ring == NULL)
        return NULL;
    return &all->ring[all->noted++ % WIRE_SPANS_MAX];
}

void span_end(struct shard *s, struct request *q, uint64_t now_ns)
{
    span_turn_at(&q->span, WIRE_SPAN_LOOP, now_ns);
    struct wire_span *out = place(&s->spans);
    if (out == NULL)
        return;
    if (q->type == WIRE_TYPE_PULL)
        *out = (struct wire_span){.run = q->pull.run,
                                  .batch = q->pull.batch,
                                  .lane = q->pull.lane,
                                  .table = q->pull.table,
                                  .keys = q->pull.key_count};
    else
        *out = (struct wire_span){.run = q->push.r.run,
                                  .batch = q->push.r.to,
                                  .lane = q->push.r.lane,
                                  .table = q->push.r.table,
                                  .keys = q->push.r.key_count,
                                  .push = 1};
    out->id = q->id;
    for (int k = 0; k < WIRE_SPAN_KINDS; k++)
        out->ns[k] = q->span.ns[k];
}

void spans_close(struct spans *all)
{
    free(all->ring);
}

static bool wanted(const struct wire_span *of, const struct wire_SPANS *w)
{
    return of->run == w->run && (w->batch == 0 || (of->batch == w->batch && of->lane == w->lane));
}

/* Copies the spans that are asked for, the oldest first, and returns their number; out NULL: only
 * counts them. */
static uint32_t collect(const struct spans *all, const struct wire_SPANS *w, struct wire_span *out)
{
    uint32_t count = 0;
    for (uint64_t i = SAT_SUB(all->noted, WIRE_SPANS_MAX); i < all->noted; i++) {
        const struct wire_span *of = &all->ring[i % WIRE_SPANS_MAX];
        if (!wanted(of, w))
            continue;
        if (out != NULL)
            out[count] = *of;
        count++;
    }
    return count;
}

void span_on_message(struct shard *s, peer_t from)
{
    const struct wire_SPANS w = s->in.u.SPANS;
    uint64_t id = s->in.id;
    uint32_t count = collect(&s->spans, &w, NULL);
    shard_reply(s, WIRE_TYPE_SPANS, id)->u.SPANS_reply = (struct wire_SPANS_reply){count};
    struct msg *m = wire_encode(&s->out);
    struct wire_span *out = msg_add(m, count * sizeof *out);
    if (out == NULL) {
        msg_free(m);
        shard_refuse(s, from, WIRE_TYPE_SPANS, id, SHOAL_E_NOMEM,
                     "shard %s: no memory for the reply; ask again later", s->name);
        return;
    }
    (void)collect(&s->spans, &w, out);
    shard_send(s, from, m);
}
