/* heat.c: nanoseconds by tablet. */
#include "server/shard/heat.h"

#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"
#include "server/shard/shard.h"

#include <stdlib.h>
#include <string.h>

/* 2^(-1/10), by which the sums shrink in a step, in parts of 2^16 */
#define STEP_FACTOR 61147u
/* the golden ratio, in parts of 2^32: its multiples fall evenly between 0 and 1 */
#define TURN 0x9e3779b9u

int heat_range(struct heat *h, uint32_t table, uint32_t first, uint32_t span)
{
    SHOAL_ASSERT(table < LIMIT_TABLES && first + span <= LIMIT_TABLETS);
    struct heat_table *t = &h->table[table];
    uint64_t(*ns)[HEAT_KINDS] = NULL;
    if (t->first == first && t->span == span)
        return 0;
    if (span > 0 && (ns = calloc(span, sizeof *ns)) == NULL)
        return SHOAL_E_NOMEM;
    uint32_t from = MAX(first, t->first), to = MIN(first + span, t->first + t->span);
    if (from < to)
        memcpy(ns[from - first], t->ns[from - t->first], (to - from) * sizeof *ns);
    free(t->ns);
    *t = (struct heat_table){ns, first, span};
    return 0;
}

void heat_close(struct heat *h)
{
    for (uint32_t t = 0; t < LIMIT_TABLES; t++)
        free(h->table[t].ns);
    *h = (struct heat){0};
}

void heat_shrink(struct heat *h, uint64_t now_ns)
{
    uint64_t steps = (now_ns - h->shrunk_ns) / HEAT_STEP_NS, factor = 1u << 16;
    if (steps == 0)
        return;
    h->shrunk_ns += steps * HEAT_STEP_NS;
    for (; steps > 0 && factor > 0; steps--)
        factor = factor * STEP_FACTOR >> 16;
    for (uint32_t t = 0; t < LIMIT_TABLES; t++)
        for (uint32_t i = 0; i < h->table[t].span; i++)
            for (int k = 0; k < HEAT_KINDS; k++)
                h->table[t].ns[i][k] = h->table[t].ns[i][k] * factor >> 16;
}

void heat_add(struct heat *h, const struct table_schema *s, enum heat_kind kind,
              const uint64_t *keys, uint32_t count, uint64_t began_ns, uint64_t now_ns)
{
    const struct heat_table *t = &h->table[s->table];
    const uint32_t step = (count + HEAT_KEYS - 1) / HEAT_KEYS;
    if (count == 0)
        return;
    const uint64_t share = MAX(now_ns - began_ns, count) * step / count;
    if (now_ns - h->shrunk_ns >= HEAT_STEP_NS)
        heat_shrink(h, now_ns);
    h->turn += TURN;
    for (uint32_t at = (uint32_t)((uint64_t)h->turn * step >> 32); at < count; at += step) {
        uint32_t tablet = key_tablet(key_mix(keys[at]), s->tablet_bits);
        if (tablet - t->first < t->span)
            t->ns[tablet - t->first][kind] += share;
    }
}

/* ---- in the shard ---- */

int heat_take_lead(struct shard *s)
{
    int rc = 0;
    for (uint32_t t = 0; rc == 0 && t < LIMIT_TABLES; t++)
        rc = heat_range(&s->heat, t, s->lead.range[t].first, s->lead.range[t].span);
    return rc;
}

/* Returns a tablet's sums; NULL: it is in no led range. */
static uint64_t *sums_of(const struct shard *s, uint32_t tablet)
{
    for (uint32_t t = 0; t < LIMIT_TABLES; t++) {
        const struct table *table = engine_table(s->engine, t);
        const struct heat_table *h = &s->heat.table[t];
        if (table == NULL)
            continue;
        uint32_t own = tablet - table_schema_of(table)->tablet_first;
        if (own - h->first < h->span)
            return h->ns[own - h->first];
    }
    return NULL;
}

void heat_tablet(const struct shard *s, uint32_t tablet, uint64_t ns[HEAT_KINDS])
{
    const uint64_t *sums = sums_of(s, tablet);
    for (int k = 0; k < HEAT_KINDS; k++)
        ns[k] = sums != NULL ? sums[k] : 0;
}

void heat_tablet_set(struct shard *s, uint32_t tablet, const uint64_t ns[HEAT_KINDS])
{
    uint64_t *sums = sums_of(s, tablet);
    if (sums != NULL)
        memcpy(sums, ns, HEAT_KINDS * sizeof *ns);
}

static void fill(struct shard *s, const struct table *t, struct wire_heat *out)
{
    const struct table_schema *schema = table_schema_of(t);
    const struct heat_table *h = &s->heat.table[schema->table];
    /* as in the census of the table */
    const uint64_t row_bytes = 4ull * schema_row_floats(schema) + sizeof(uint64_t);
    heat_shrink(&s->heat, env_now_ns(s->env));
    for (uint32_t i = 0; i < h->span; i++) {
        if (!lead_covers(&s->lead, schema, h->first + i, 1))
            continue; /* a hole in the led range */
        uint64_t rows = table_tablet_rows(t, h->first + i);
        out[i] =
            (struct wire_heat){rows, rows * row_bytes, h->ns[i][HEAT_PULL], h->ns[i][HEAT_PUSH]};
    }
}

void heat_on_message(struct shard *s, peer_t from)
{
    uint64_t id = s->in.id;
    uint32_t table = s->in.u.HEAT.table;
    const struct table *t = NULL;
    struct heat_table of = {0};
    if (table < LIMIT_TABLES && (t = engine_table(s->engine, table)) != NULL)
        of = s->heat.table[table];
    shard_reply(s, WIRE_TYPE_HEAT, id)->u.HEAT_reply =
        (struct wire_HEAT_reply){.tablet_first = of.first, .tablet_count = of.span};
    struct msg *m = wire_encode(&s->out);
    struct wire_heat *out = msg_add(m, of.span * sizeof *out);
    if (out == NULL) {
        msg_free(m);
        shard_refuse(s, from, WIRE_TYPE_HEAT, id, SHOAL_E_NOMEM,
                     "shard %s: no memory for the reply; ask again later", s->name);
        return;
    }
    memset(out, 0, of.span * sizeof *out);
    if (of.span > 0)
        fill(s, t, out);
    shard_send(s, from, m);
}
