/* gauges.c: figures for Prometheus. */
#include "server/shard/gauges.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/catalog.h"
#include "server/shard/shard.h"
#include "server/shard/shares.h"

#include <stdio.h>
#include <string.h>

/* The space of all tables while a fleet has one alone: shards do not know its name. */
#define SPACE "default"

/* Notes which space has which table. */
static void spaces_look(struct shard *s)
{
    const struct engine_names *n = engine_names(s->engine);
    struct gauges *g = &s->gauges;
    struct catalog spaces;
    if (g->names_version == n->version)
        return;
    g->names_version = n->version;
    memset(g->space, 0, sizeof g->space);
    g->several = catalog_read(n->line, n->bytes, &spaces, NULL) == 0 && !spaces.alone;
    for (uint32_t i = 0; g->several && i < spaces.count; i++) {
        const struct table_set all = table_set_or(spaces.space[i].tables, spaces.space[i].left);
        TABLE_SET_EACH (t, &all)
            text_copy(g->space[t], LIMIT_NAME, spaces.space[i].name);
    }
}

static void requests_put(const struct shard *s, struct meter_sheet *out)
{
    static const char *const op[] = {[HEAT_PULL] = "pull", [HEAT_PUSH] = "push"};
    const struct shard_counts *c = &s->counts;
    const struct {
        uint64_t requests, keys, bytes, cold;
    } of[] = {[HEAT_PULL] = {c->pulls, c->keys_pulled, c->bytes_pulled, c->cold_pulls},
              [HEAT_PUSH] = {c->pushes, c->keys_pushed, c->bytes_pushed, c->cold_pushes}};
    for (int k = 0; k < HEAT_KINDS; k++) {
        const struct request_share *share =
            &s->pool.share[k == HEAT_PULL ? REQUEST_PULL : REQUEST_PUSH];
        meter_put(out, REQUESTS, (double)of[k].requests, s->name, op[k], NULL);
        meter_put(out, KEYS, (double)of[k].keys, s->name, op[k], NULL);
        meter_put(out, VALUE_BYTES, (double)of[k].bytes, s->name, op[k], NULL);
        meter_put(out, COLD_REQUESTS, (double)of[k].cold, s->name, op[k], NULL);
        meter_put(out, POOL_USED, share->used, s->name, op[k], NULL);
        meter_put(out, POOL_BYTES, (double)share->bytes, s->name, op[k], NULL);
        meter_put(out, POOL_LIMIT, (double)share->bytes_max, s->name, op[k], NULL);
        meter_put_times(out, REQUEST_SECONDS, &c->times[k], s->name, op[k], NULL);
    }
    meter_put(out, KEYS, (double)c->keys_echoed, s->name, "echo", NULL);
    meter_put(out, VALUE_BYTES, (double)c->bytes_echoed, s->name, "echo", NULL);
    meter_put(out, WAIT_SECONDS, (double)c->waited_ns * 1e-9, s->name, NULL);
    meter_put(out, SKIPPED, (double)c->skipped, s->name, NULL);
    meter_put(out, MALFORMED, (double)c->malformed, s->name, NULL);
    meter_put(out, UNSENT, (double)c->unsent, s->name, NULL);
    meter_put(out, WAITING, s->clock.waiting, s->name, "clock", NULL);
    meter_put(out, WAITING, bsp_held(&s->bsp), s->name, "bsp", NULL);
    meter_put(out, WAITING, park_count(s), s->name, "parked", NULL);
}

/* A reason that never occurred has no series, but those that alerts ask for do. */
static void refusals_put(const struct shard *s, struct meter_sheet *out)
{
    for (uint32_t i = 0; i < METER_REASONS; i++) {
        const char *reason = meter_reason(i);
        const int status = -(int)i;
        bool asked = status == SHOAL_E_BUSY || status == SHOAL_E_NO_SPACE ||
                     status == SHOAL_E_NOT_FINITE || status == SHOAL_E_DENIED;
        if (reason != NULL && (asked || s->counts.refused_as[i] > 0))
            meter_put(out, REFUSALS, (double)s->counts.refused_as[i], s->name, reason, NULL);
    }
}

static void staleness_put(const struct shard *s, struct meter_sheet *out)
{
    struct meter_times t = {.sum_ns = 0}; /* sum_ns: of clocks here */
    for (uint32_t i = 0; i < 64; i++) {
        uint64_t clocks = i == 63 ? UINT64_MAX : i; /* the last cell has all beyond */
        t.cell[meter_cell(clocks)] += s->counts.staleness[i];
        t.sum_ns += i * s->counts.staleness[i];
    }
    meter_put_times(out, STALENESS, &t, s->name, NULL);
}

static void table_put(const struct shard *s, const struct table *t, const char *space,
                      struct meter_sheet *out)
{
    const char *name = table_schema_of(t)->name;
    uint64_t rows = table_rows(t), cold = table_cold_rows(t);
    struct table_counts c;
    table_counts_get(t, &c);
    const struct {
        const char *name;
        uint64_t count;
    } rule[] = {{"admitted", c.admitted}, {"not_admitted", c.not_admitted},
                {"blocked", c.blocked},   {"clipped", c.clipped},
                {"aged", c.aged},         {"expired", c.expired},
                {"evicted", c.evicted}};
    meter_put(out, ROWS, (double)SAT_SUB(rows, cold), s->name, space, name, "memory", NULL);
    meter_put(out, ROWS, (double)cold, s->name, space, name, "store", NULL);
    meter_put(out, ROW_BYTES, (double)(SAT_SUB(rows, cold) * table_row_bytes(t)), s->name, space,
              name, "memory", NULL);
    meter_put(out, ROW_BYTES, (double)(cold * table_row_bytes(t)), s->name, space, name, "store",
              NULL);
    for (size_t i = 0; i < sizeof rule / sizeof rule[0]; i++)
        meter_put(out, TABLE_KEYS, (double)rule[i].count, s->name, space, name, rule[i].name, NULL);
    const struct ages_table *ages = &s->ages.table[table_schema_of(t)->table];
    meter_put(out, AGED_PUSHES, (double)ages->pushes, s->name, space, name, NULL);
    meter_put(out, AGE, (double)ages->steps, s->name, space, name, NULL);
}

static void rows_put(const struct shard *s, const struct engine_stats *g, struct meter_sheet *out)
{
    uint64_t led = 0;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        const struct table *t = engine_table(s->engine, i);
        led += s->lead.range[i].count;
        const char *space = s->gauges.several ? s->gauges.space[i] : SPACE;
        if (t != NULL && space[0] != 0) /* else it was dropped */
            table_put(s, t, space, out);
    }
    meter_put(out, TABLETS, (double)led, s->name, "led", NULL);
    meter_put(out, TABLETS, g->tablets_dirty, s->name, "dirty", NULL);
    meter_put(out, TABLETS, g->tablets_awaited, s->name, "awaited", NULL);
    meter_put(out, TABLETS, g->tablets_away, s->name, "away", NULL);
    meter_put(out, MAP_EPOCH, (double)s->lead.epoch, s->name, NULL);
    meter_put(out, FETCHED, (double)g->fetched, s->name, NULL);
    meter_put(out, EVICTED, (double)g->evicted, s->name, NULL);
}

static void budgets_put(const struct shard *s, const struct engine_stats *g,
                        struct meter_sheet *out)
{
    const struct engine_options *o = &s->options.engine;
    uint64_t synced = engine_synced(s->engine), left, least;
    meter_put(out, MEMORY, (double)g->memory_bytes, s->name, NULL);
    meter_put(out, MEMORY_BUDGET, (double)o->memory, s->name, NULL);
    meter_put(out, MEMORY_SHORT, g->memory_short, s->name, NULL);
    meter_put(out, DISK, (double)g->disk_bytes, s->name, NULL);
    meter_put(out, DISK_BUDGET, (double)o->disk, s->name, NULL);
    meter_put(out, DISK_SHORT, g->disk_short, s->name, NULL);
    if (engine_disk_free(s->engine, &left, &least)) {
        meter_put(out, DISK_FREE, (double)left, s->name, NULL);
        meter_put(out, DISK_FREE_LEAST, (double)least, s->name, NULL);
    }
    meter_put(out, JOURNAL, (double)g->journal_bytes, s->name, NULL);
    meter_put(out, JOURNAL_WRITTEN, (double)g->journal_written, s->name, NULL);
    meter_put(out, IMAGES_WRITTEN, (double)g->image_bytes_written, s->name, NULL);
    meter_put(out, SEQUENCE, (double)g->sequence, s->name, NULL);
    meter_put(out, UNFLUSHED, (double)SAT_SUB(g->sequence, g->flushed_sequence), s->name, NULL);
    meter_put(out, UNSYNCED, (double)SAT_SUB(g->sequence, synced), s->name, NULL);
}

static void copies_put(const struct shard *s, const struct engine_stats *g, struct meter_sheet *out)
{
    const struct copies *c = &s->copies;
    char place[16];
    if (c->role != COPIES_LEADS)
        return;
    meter_put(out, IN_SYNC, __builtin_popcount(c->in_sync), s->name, NULL);
    for (uint32_t p = 0; p < c->count; p++) {
        if (p == c->place || c->follower[p].peer == 0)
            continue;
        (void)snprintf(place, sizeof place, "%u", p);
        meter_put(out, COPY_LAG, (double)SAT_SUB(g->sequence, c->follower[p].have), s->name, place,
                  NULL);
    }
}

uint64_t gauges_sync_ns(struct shard *s)
{
    const uint64_t now_ns = env_now_ns(s->env);
    struct gauges *seen = &s->gauges;
    struct engine_disk_stats d;
    engine_disk_stats_get(s->engine, &d);
    if (!seen->syncing || !d.syncing || seen->syncs != d.syncs)
        seen->sync_ns = now_ns;
    seen->syncing = d.syncing;
    seen->syncs = d.syncs;
    return now_ns - seen->sync_ns;
}

/* Since when rows wait for their write; 0: none waits. */
static uint64_t waits_ns(struct shard *s, const struct engine_stats *g)
{
    const uint64_t now_ns = env_now_ns(s->env);
    if (s->gauges.flushed_ns == 0 || s->gauges.flushed != g->flushed_sequence ||
        g->flushed_sequence == g->sequence) {
        s->gauges.flushed = g->flushed_sequence;
        s->gauges.flushed_ns = now_ns;
    }
    return now_ns - s->gauges.flushed_ns;
}

static void store_put(struct shard *s, const struct engine_stats *g, struct meter_sheet *out)
{
    struct engine_disk_stats d;
    engine_disk_stats_get(s->engine, &d);
    meter_put(out, FLUSH_AGE, (double)waits_ns(s, g) * 1e-9, s->name, NULL);
    meter_put_times(out, WRITE_SECONDS, &s->counts.commits, s->name, NULL);
    meter_put_times(out, SYNC_SECONDS, d.sync_times, s->name, NULL);
    meter_put_times(out, STORE_SECONDS, d.write_times, s->name, NULL);
    meter_put(out, SYNC_AGE, (double)gauges_sync_ns(s) * 1e-9, s->name, NULL);
    meter_put(out, SEGMENTS, (double)d.segments, s->name, NULL);
    meter_put(out, STORE_BYTES, (double)d.large, s->name, "values", NULL);
    meter_put(out, STORE_BYTES, (double)d.small, s->name, "tables", NULL);
    meter_put(out, STORE_MEMORY, (double)d.memory, s->name, "unwritten", NULL);
    meter_put(out, STORE_MEMORY, (double)d.readers, s->name, "readers", NULL);
    meter_put(out, STORE_WORK, (double)d.flushes, s->name, "flush", NULL);
    meter_put(out, STORE_WORK, (double)d.compactions, s->name, "compaction", NULL);
    meter_put(out, STORE_PENDING, (double)d.pending, s->name, NULL);
    meter_put(out, STORE_SLOWED, d.slowed > 0, s->name, NULL);
    meter_put(out, STORE_STOPPED, d.stopped, s->name, NULL);
}

void gauges_put(struct shard *s, struct meter_sheet *out)
{
    struct engine_stats g;
    engine_stats_get(s->engine, &g);
    requests_put(s, out);
    refusals_put(s, out);
    staleness_put(s, out);
    spaces_look(s);
    rows_put(s, &g, out);
    budgets_put(s, &g, out);
    shares_gauges(s, out);
    store_put(s, &g, out);
    copies_put(s, &g, out);
}
