/* admin.c: control messages. */
#include "server/shard/admin.h"

#include "embedding/row_json.h"
#include "proto/base/assert.h"
#include "proto/base/crash.h"
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "server/shard/clock.h"
#include "server/shard/park.h"
#include "server/shard/place.h"
#include "server/shard/shares.h"

#include <inttypes.h>
#include <stdio.h>

/* Refuses the present request with the engine's message, if there is one, when rc is not 0; returns
 * true then. */
static bool refused(struct shard *s, peer_t from, int rc, const struct err *e)
{
    if (rc)
        shard_refuse(s, from, s->in.type, s->in.id, rc, "shard %s: %s", s->name,
                     e->text[0] ? e->text : err_text(rc));
    return rc != 0;
}

void admin_hello(struct shard *s, peer_t from)
{
    uint64_t id = s->in.id;
    struct wire_HELLO_reply *r = &shard_reply(s, WIRE_TYPE_HELLO, id)->u.HELLO_reply;
    *r = (struct wire_HELLO_reply){
        .version = WIRE_VERSION, .map_epoch = s->lead.epoch, .wall_s = env_wall_s(s->env)};
    text_copy(r->name, sizeof r->name, s->name);
    text_copy(r->build, sizeof r->build, crash_build());
    shard_send_reply(s, from);
}

int admin_take_map(struct shard *s, struct err *e)
{
    bool changed;
    int rc = lead_apply(&s->lead, s->engine, &changed);
    if (rc == 0)
        rc = heat_take_lead(s);
    if (rc)
        return err_set(e, rc, "cannot take the map of epoch %" PRIu64 ": %s", s->lead.epoch,
                       err_text(rc));
    if (changed)
        bsp_lead_changed(s);
    return 0;
}

void admin_table_create(struct shard *s, peer_t from)
{
    uint64_t id = s->in.id;
    struct table_schema schema;
    struct err e = {0};
    int rc = wire_schema_from(&s->in.u.TABLE_CREATE, &s->m->frame[1], &schema, &e);
    if (!rc)
        rc = engine_table_create(s->engine, &schema, &e);
    if (!rc)
        rc = admin_take_map(s, &e); /* the map may already give tablets of this table */
    if (refused(s, from, rc, &e))
        return;
    shard_reply(s, WIRE_TYPE_TABLE_CREATE, id)->u.TABLE_CREATE_reply.rows =
        table_rows(engine_table(s->engine, schema.table));
    shard_send_reply(s, from);
}

void admin_run_open(struct shard *s, peer_t from)
{
    const struct wire_RUN_OPEN r = s->in.u.RUN_OPEN;
    const struct table_set tables = table_set_or_all(WIRE_TABLES_OF(r));
    uint64_t id = s->in.id;
    struct err e = {0};
    int rc = 0;
    /* the request may be a dead coordinator's; the drop must not take rows of this run */
    if (rows_go_busy(s, tables))
        rc = err_set(&e, SHOAL_E_AGAIN, "fields are being dropped; ask again");
    else if (r.must_exist)
        rc = engine_run_still(s->engine, r.run, &e);
    if (!rc)
        rc = engine_run_open_tables(s->engine, r.run, r.lanes, r.mode, tables, &e);
    if (refused(s, from, rc, &e))
        return;
    shard_reply(s, WIRE_TYPE_RUN_OPEN, id)->u.RUN_OPEN_reply.run = r.run;
    shard_send_reply(s, from);
}

void admin_run_drop(struct shard *s, peer_t from)
{
    uint64_t run = s->in.u.RUN_DROP.run, id = s->in.id;
    struct err e = {0};
    int rc = engine_run_drop(s->engine, run, &e);
    if (rc == SHOAL_E_OLD_RUN || rc == SHOAL_E_NOT_FOUND)
        rc = 0; /* dropped already: this is a resend */
    if (refused(s, from, rc, &e))
        return;
    park_purge(s);
    shard_reply(s, WIRE_TYPE_RUN_DROP, id)->u.RUN_DROP_reply.run = run;
    shard_send_reply(s, from);
}

/* True when the shard leads a tablet of a table that counts in the run. Else it knows no mark of
 * its lanes. */
static bool leads_of_run(const struct shard *s, uint64_t run)
{
    const struct table_set tables = engine_run_counts(s->engine, run);
    TABLE_SET_EACH (t, &tables)
        if (s->lead.range[t].count > 0)
            return true;
    return false;
}

void admin_fence(struct shard *s, peer_t from)
{
    const struct wire_FENCE r = s->in.u.FENCE;
    uint64_t id = s->in.id, mark = 0, clock, low = UINT64_MAX;
    struct err e = {0};
    if (!lead_ready(&s->lead)) {
        /* with no tablet led every mark would be 0, and the lane's offset wrong for ever */
        shard_refuse(s, from, WIRE_TYPE_FENCE, id, SHOAL_E_AGAIN,
                     "shard %s has no map yet; ask again", s->name);
        return;
    }
    int64_t offset = (int64_t)(r.clock - r.at);
    if (refused(s, from,
                engine_fence(s->engine, r.run, r.lane, r.generation, r.live,
                             r.placed ? &offset : NULL, &mark, &e),
                &e))
        return;
    SHOAL_ASSERT(engine_lane_generation(s->engine, r.run, r.lane) == r.generation);
    bsp_fenced(s, r.run, r.lane, r.generation);
    (void)engine_clock(s->engine, r.run, r.lane, 0, &clock, &low);
    if (low == UINT64_MAX)
        low = 0;
    if (!leads_of_run(s, r.run)) {
        mark = UINT64_MAX;
        low = 0;
    }
    shard_reply(s, WIRE_TYPE_FENCE, id)->u.FENCE_reply =
        (struct wire_FENCE_reply){mark, clock_high(s->engine, &s->lead, r.run), low};
    shard_send_reply(s, from);
}

void admin_fences(struct shard *s, peer_t from)
{
    const struct wire_FENCES r = s->in.u.FENCES;
    const struct wire_lane_fence *f = s->m->frame[1].data;
    uint64_t id = s->in.id, mark;
    struct err e = {0};
    uint32_t mode, lanes;
    int rc = 0;
    if (!lead_ready(&s->lead)) /* as in admin_fence */
        rc = err_set(&e, SHOAL_E_AGAIN, "there is no map yet; ask again");
    else if (engine_run_mode(s->engine, r.run, &mode, &lanes))
        rc = err_set(&e, SHOAL_E_OLD_RUN, "run %" PRIu64 " is not open here", r.run);
    for (uint32_t i = 0; rc == 0 && i < r.lane_count; i++) {
        int64_t offset = (int64_t)(f[i].clock - f[i].at);
        rc = engine_fence(s->engine, r.run, f[i].lane, f[i].generation, f[i].live != 0,
                          f[i].live & WIRE_PLACED ? &offset : NULL, &mark, &e);
        if (rc == 0)
            bsp_fenced(s, r.run, f[i].lane, f[i].generation);
    }
    if (refused(s, from, rc, &e))
        return;
    shard_run_told(s, r.run);
    shard_reply(s, WIRE_TYPE_FENCES, id)->u.FENCES_reply.run = r.run;
    shard_send_reply(s, from);
}

void admin_map_set(struct shard *s, peer_t from)
{
    const struct wire_MAP_SET r = s->in.u.MAP_SET;
    uint64_t id = s->in.id;
    struct err e = {0};
    bool newer = r.map_epoch > engine_place(s->engine)->map_epoch;
    int rc = place_map(s, &r, s->m->frame[1].data, NULL, &e);
    if (!rc)
        rc = admin_take_map(s, &e);
    if (!rc)
        rc = move_map_taken(s, newer, &e);
    if (refused(s, from, rc, &e))
        return;
    SHOAL_ASSERT(s->lead.epoch == r.map_epoch);
    shard_reply(s, WIRE_TYPE_MAP_SET, id)->u.MAP_SET_reply.map_epoch = s->lead.epoch;
    shard_send_reply(s, from);
}

void admin_names_set(struct shard *s, peer_t from)
{
    const struct wire_NAMES_SET r = s->in.u.NAMES_SET;
    const struct frame *line = &s->m->frame[1];
    uint64_t id = s->in.id;
    struct err e = {0};
    if (refused(s, from, place_names(s, &r, line->data, line->bytes, &e), &e))
        return;
    shard_reply(s, WIRE_TYPE_NAMES_SET, id)->u.NAMES_SET_reply.version = r.version;
    shard_send_reply(s, from);
}

void admin_taken_set(struct shard *s, peer_t from)
{
    const struct wire_TAKEN_SET r = s->in.u.TAKEN_SET;
    const struct frame *f = &s->m->frame[1];
    uint64_t id = s->in.id;
    struct err e = {0};
    if (refused(s, from, place_taken(s, &r, f->data, f->bytes, &e), &e))
        return;
    shard_reply(s, WIRE_TYPE_TAKEN_SET, id)->u.TAKEN_SET_reply.version = r.version;
    shard_send_reply(s, from);
}

/* True for a late, older list of the same coordinator: keys that were revoked since stay
 * revoked. */
static bool keylist_late(uint64_t now, uint64_t other)
{
    return now >> 32 == other >> 32 && (uint32_t)other < (uint32_t)now;
}

void admin_keylist(struct shard *s, peer_t from)
{
    uint64_t version = s->in.u.KEYLIST.version, id = s->in.id;
    const struct frame *text = &s->m->frame[1];
    struct err e = {0};
    int rc = 0;
    if (text->bytes > LIMIT_KEYS_BYTES)
        rc = err_set(&e, SHOAL_E_TOO_BIG, "a list of %zu bytes, at most %u", text->bytes,
                     LIMIT_KEYS_BYTES);
    else if (s->options.allow != NULL && version != s->keylist &&
             !keylist_late(s->keylist, version))
        rc = s->options.allow(s->options.context, text->data, text->bytes, &e);
    if (refused(s, from, rc, &e))
        return;
    if (!keylist_late(s->keylist, version))
        s->keylist = version;
    shard_reply(s, WIRE_TYPE_KEYLIST, id)->u.KEYLIST_reply.version = s->keylist;
    shard_send_reply(s, from);
}

void admin_stop(struct shard *s, peer_t from)
{
    bool job_only = s->in.u.STOP.job_only;
    uint64_t id = s->in.id;
    shard_reply(s, WIRE_TYPE_STOP, id)->u.STOP_reply.ends = false;
    shard_send_reply(s, from);
    if (job_only)
        return; /* jobs belong to the coordinator */
    log_info("shard %s: asked to stop", s->name);
    env_stop(s->env);
}

/* ---- inspect ---- */

void admin_inspect(struct shard *s, peer_t from)
{
    uint32_t number = s->in.u.INSPECT.table;
    uint64_t key = s->in.u.INSPECT.key, id = s->in.id;
    bool found, stored;
    struct err e = {0};
    const struct table *t = engine_row(s->engine, number, key, &stored, &e);
    if (t == NULL) {
        shard_refuse(s, from, WIRE_TYPE_INSPECT, id, e.code, "shard %s: %s", s->name, e.text);
        return;
    }
    struct json *j = row_json(t, engine_table(s->engine, number), key, s->name, stored, &found);
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

/* The effects of the table's rules on keys and rows; counts of 0 are left out. */
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
        json_set_int(j, "table", i);
        json_set_int(j, "rows", (int64_t)table_rows(t));
        set_count(j, "cold_rows", table_cold_rows(t));
        json_set_int(j, "row_bytes", (int64_t)table_row_bytes(t));
        json_set_int(j, "memory_bytes", (int64_t)table_taken(t));
        json_set_int(j, "tablets", s->lead.range[i].count);
        set_table_counts(j, t);
        ages_set(j, &s->ages.table[i]);
        json_append(list, j);
    }
    return list;
}

/* The numbers of the cuts kept here. */
static struct json *cuts(const struct shard *s)
{
    struct json *list = json_new_array();
    uint64_t cut[64];
    uint32_t count = engine_cuts(s->engine, cut, 64);
    SHOAL_ASSERT(count <= 64);
    for (uint32_t i = 0; i < count; i++)
        json_append(list, json_new_int((int64_t)cut[i]));
    return list;
}

void admin_status(struct shard *s, peer_t from)
{
    uint64_t id = s->in.id;
    if (s->in.u.SHARD_STATUS.part == 1) {
        struct json *part = json_new_object();
        json_set(part, "gradients", engine_refused_json(s->engine));
        json_set(part, "tables", tables(s));
        shard_reply(s, WIRE_TYPE_SHARD_STATUS, id)->u.SHARD_STATUS_reply.rows = 0;
        shard_send_json(s, from, part);
        return;
    }
    const struct shard_counts *c = &s->counts;
    /* each request waits in one place */
    SHOAL_ASSERT(s->clock.waiting + bsp_held(&s->bsp) + park_count(s) <=
                 request_pool_used(&s->pool));
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
        {"memory_short", g.memory_short},
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
        {"keys_echoed", c->keys_echoed},
        {"assigned", c->assigned},
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
        {"requests", request_pool_used(&s->pool)},
        {"request_bytes", request_pool_bytes(&s->pool)},
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
    if (s->copies.role != COPIES_ALONE)
        json_set(j, "copies", copies_json(s));
    json_set(j, "messages", types);
    json_set(j, "tables", tables(s));
    struct json *shares = shares_json(s);
    if (shares != NULL)
        json_set(j, "shares", shares);
    json_set(j, "cuts", cuts(s));
    json_set(j, "gradients", engine_refused_json(s->engine));
    shard_reply(s, WIRE_TYPE_SHARD_STATUS, id)->u.SHARD_STATUS_reply.rows = g.rows;
    shard_send_json(s, from, j);
}
