/* lead.c: the map and the led ranges. */
#include "server/shard/lead.h"

#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"

#include <stdlib.h>
#include <string.h>

void lead_init(struct lead *l)
{
    *l = (struct lead){.self = LEAD_NO_SHARD};
}

void lead_close(struct lead *l)
{
    free(l->shard_of);
    lead_init(l);
}

bool lead_ready(const struct lead *l)
{
    return l->epoch > 0 && l->self != LEAD_NO_SHARD;
}

static bool leads(const struct lead *l, uint64_t global)
{
    return global < l->tablet_count && l->shard_of[global] == l->self;
}

int lead_set_map(struct lead *l, uint64_t epoch, const uint16_t *shard_of, uint32_t tablet_count)
{
    SHOAL_ASSERT(epoch > 0 && tablet_count <= LIMIT_FLEET_TABLETS);
    SHOAL_ASSERT(epoch >= l->epoch);
    uint16_t *copy = malloc(MAX(tablet_count, 1) * sizeof *copy);
    if (copy == NULL)
        return SHOAL_E_NOMEM;
    if (tablet_count)
        memcpy(copy, shard_of, tablet_count * sizeof *copy);
    for (uint32_t i = 0; i < tablet_count || i < l->tablet_count; i++)
        l->moved |= leads(l, i) != (i < tablet_count && copy[i] == l->self);
    free(l->shard_of);
    l->shard_of = copy;
    l->tablet_count = tablet_count;
    l->epoch = epoch;
    return 0;
}

static struct lead_range range_of(const struct lead *l, const struct table_schema *s)
{
    struct lead_range r = {0};
    for (uint32_t i = 0; i < 1u << s->tablet_bits; i++) {
        if (!leads(l, (uint64_t)s->tablet_first + i))
            continue;
        if (r.count++ == 0)
            r.first = i;
        r.span = i - r.first + 1;
    }
    SHOAL_ASSERT(r.count <= r.span && r.first + r.span <= 1u << s->tablet_bits);
    return r;
}

int lead_apply(struct lead *l, struct engine *g, bool *changed)
{
    if (changed != NULL)
        *changed = lead_ready(l) && l->moved;
    if (!lead_ready(l))
        return 0;
    SHOAL_ASSERT(l->self <= UINT16_MAX); /* the map's type for a shard number */
    int rc = engine_lead(g, l->shard_of, l->tablet_count, (uint16_t)l->self);
    if (rc)
        return rc;
    for (uint32_t t = 0; t < LIMIT_TABLES; t++) {
        const struct table *table = engine_table(g, t);
        struct lead_range r = {0};
        if (table != NULL)
            r = range_of(l, table_schema_of(table));
        if (changed != NULL && memcmp(&r, &l->range[t], sizeof r))
            *changed = true;
        l->range[t] = r;
    }
    l->moved = false;
    return 0;
}

bool lead_covers(const struct lead *l, const struct table_schema *s, uint32_t first, uint32_t count)
{
    SHOAL_ASSERT(s->table < LIMIT_TABLES);
    const struct lead_range *r = &l->range[s->table];
    if (count == 0 || first < r->first || (uint64_t)first + count > (uint64_t)r->first + r->span)
        return false;
    if (r->count == r->span)
        return true;
    for (uint32_t i = first; i < first + count; i++)
        if (!leads(l, (uint64_t)s->tablet_first + i))
            return false;
    return true;
}

bool lead_keys(const struct lead *l, const struct table_schema *s, const uint64_t *keys,
               uint32_t key_count)
{
    if (key_count == 0)
        return true;
    SHOAL_ASSERT(s->table < LIMIT_TABLES);
    const struct lead_range *r = &l->range[s->table];
    if (r->count != r->span) {
        for (uint32_t i = 0; i < key_count; i++)
            if (!leads(l, (uint64_t)s->tablet_first + key_tablet(key_mix(keys[i]), s->tablet_bits)))
                return false;
        return true;
    }
    uint32_t first = key_tablet(key_mix(keys[0]), s->tablet_bits);
    uint32_t last = key_tablet(key_mix(keys[key_count - 1]), s->tablet_bits);
    return first >= r->first && last < r->first + r->span;
}
