/* inspect.c: JSON for people and tools. */
#include "server/shard/inspect.h"

#include "embedding/row_json.h"
#include "proto/base/json.h"

void inspect_on_message(struct shard *s, peer_t from, struct msg *m)
{
    uint32_t number = s->in.u.INSPECT.table;
    uint64_t key = s->in.u.INSPECT.key, id = s->in.id;
    msg_free(m);
    bool found, stored;
    struct err e = {0};
    const struct table *t = engine_row(s->engine, number, key, &stored, &e);
    if (t == NULL) {
        shard_refuse(s, from, WIRE_TYPE_INSPECT, id, e.code, "shard %s: %s", s->name, e.text);
        return;
    }
    struct json *j = row_json(t, key, s->name, stored, &found);
    shard_reply(s, WIRE_TYPE_INSPECT, id)->u.INSPECT_reply.found = found;
    shard_send_json(s, from, j);
}

static void set_count(void *context, const char *name, uint64_t count)
{
    if (count)
        json_set_int(context, name, (int64_t)count);
}

static struct json *staleness(const struct shard_counts *c)
{
    struct json *list = json_new_array();
    uint32_t last = 64;
    while (last > 0 && c->staleness[last - 1] == 0)
        last--;
    for (uint32_t i = 0; i < last; i++)
        json_append(list, json_new_int((int64_t)c->staleness[i]));
    return list;
}

/* What its rules did to keys and rows; what is 0 is left out. */
static void set_table_counts(struct json *j, const struct table *t)
{
    struct table_counts c;
    table_counts_get(t, &c);
    set_count(j, "not_admitted", c.not_admitted);
    set_count(j, "admitted", c.admitted);
    set_count(j, "aged", c.aged);
    set_count(j, "expired", c.expired);
    set_count(j, "evicted", c.evicted);
    set_count(j, "blocked", c.blocked);
    set_count(j, "clipped", c.clipped);
    set_count(j, "waiting", c.waiting);
    set_count(j, "beside_bytes", c.beside_bytes);
}

static struct json *tables(struct shard *s)
{
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        const struct table *t = engine_table(s->engine, i);
        if (t == NULL)
            continue;
        struct json *j = json_new_object();
        json_set_string(j, "name", table_schema_of(t)->name);
        json_set_int(j, "rows", (int64_t)table_rows(t));
        set_count(j, "cold_rows", table_cold_rows(t));
        json_set_int(j, "row_bytes", (int64_t)table_row_bytes(t));
        json_set_int(j, "tablets", s->lead.range[i].count);
        set_table_counts(j, t);
        json_append(list, j);
    }
    return list;
}

/* Numbers of the cuts kept here. */
static struct json *cuts(const struct shard *s)
{
    struct json *list = json_new_array();
    uint64_t cut[64];
    uint32_t count = engine_cuts(s->engine, cut, 64);
    for (uint32_t i = 0; i < count; i++)
        json_append(list, json_new_int((int64_t)cut[i]));
    return list;
}

void inspect_on_status(struct shard *s, peer_t from, struct msg *m)
{
    uint64_t id = s->in.id;
    msg_free(m);
    if (s->in.u.SHARD_STATUS.part == 1) {
        struct json *part = json_new_object();
        json_set(part, "gradients", engine_refused_json(s->engine));
        json_set(part, "tables", tables(s));
        shard_reply(s, WIRE_TYPE_SHARD_STATUS, id)->u.SHARD_STATUS_reply.rows = 0;
        shard_send_json(s, from, part);
        return;
    }
    const struct shard_counts *c = &s->counts;
    struct engine_stats g;
    engine_stats_get(s->engine, &g);
    struct json *j = json_new_object(), *types = json_new_object();
    json_set_string(j, "shard", s->name);
    json_set_string(j, "endpoint", s->endpoint);
    if (s->lead.self != LEAD_NO_SHARD)
        json_set_int(j, "number", s->lead.self);
    json_set_int(j, "map_epoch", (int64_t)s->lead.epoch);
    const struct {
        const char *name;
        uint64_t value;
    } figure[] = {
        {"rows", g.rows},
        {"row_bytes", g.row_bytes},
        {"cold_rows", g.cold_rows},
        {"fetched", g.fetched},
        {"evicted", g.evicted},
        {"evicted_clean", g.evicted_clean},
        {"memory_bytes", g.memory_bytes},
        {"memory_max", s->options.engine.memory},
        {"store_memory", g.store_memory},
        {"disk_bytes", g.disk_bytes},
        {"disk_max", s->options.engine.disk},
        {"disk_short", g.disk_short},
        {"journal_bytes", g.journal_bytes},
        {"journal_written", g.journal_written},
        {"image_bytes_written", g.image_bytes_written},
        {"sequence", g.sequence},
        {"flushed_sequence", g.flushed_sequence},
        {"acknowledged", engine_acknowledged(s->engine)},
        {"replayed", g.replayed},
        {"recovered_ns", g.recovered_ns},
        {"tablets_dirty", g.tablets_dirty},
        {"tablets_away", g.tablets_away},
        {"pulls", c->pulls},
        {"keys_pulled", c->keys_pulled},
        {"pushes", c->pushes},
        {"keys_pushed", c->keys_pushed},
        {"skipped", c->skipped},
        {"refused", c->refused},
        {"malformed", c->malformed},
        {"unsent", c->unsent},
        {"waited_ns", c->waited_ns},
        {"waited_ns_max", c->waited_ns_max},
        {"waiting", s->clock.waiting},
        {"held", bsp_held(&s->bsp)},
        {"parked", park_count(s)},
        {"cold_pulls", c->cold_pulls},
        {"cold_pushes", c->cold_pushes},
        {"requests", s->pool.used},
        {"request_bytes", s->pool.bytes},
        {"frames_live", msg_frames_live()},
        {"allocations", msg_allocations()},
        {"cut_held", s->hold.cut},
        {"cut_writing", s->hold.going},
    };
    for (size_t i = 0; i < sizeof figure / sizeof figure[0]; i++)
        json_set_int(j, figure[i].name, (int64_t)figure[i].value);
    json_set(j, "staleness", staleness(c));
#define X(name, number, request_frames, reply_frames) set_count(types, #name, s->dispatched.name);
    WIRE_MAP(X)
#undef X
    json_set(j, "messages", types);
    json_set(j, "tables", tables(s));
    json_set(j, "cuts", cuts(s));
    json_set(j, "gradients", engine_refused_json(s->engine));
    shard_reply(s, WIRE_TYPE_SHARD_STATUS, id)->u.SHARD_STATUS_reply.rows = g.rows;
    shard_send_json(s, from, j);
}
