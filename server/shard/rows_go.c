/* rows_go.c: removes rows: the request from the wire, the steps in the engine. */
#include "server/shard/rows_go.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "server/shard/admin.h"
#include "server/shard/beat.h"
#include "server/shard/cut.h"
#include "server/shard/naming.h"
#include "server/shard/park.h"
#include "server/shard/push_group.h"
#include "server/shard/shard.h"
#include "server/shard/survey.h"

#include <string.h>

#define STEP_ROWS 65536u          /* some 10 ms */
#define WAIT_NS UINT64_C(5000000) /* pause while pushes, a cut or a load are in the way */
#define SYNC_POLL_NS UINT64_C(1000000)

/* ---- fields ---- */

/* True when a tablet is left: d->table and d->tablet name it. */
static bool find_next(const struct shard *s, struct rows_go *d)
{
    static const uint64_t none[LIMIT_FIELDS / 64];
    for (; d->table < LIMIT_TABLES; d->table++, d->tablet = 0) {
        const struct table *t = engine_table(s->engine, d->table);
        if (t != NULL && memcmp(d->fields.of[d->table], none, sizeof none) != 0 &&
            d->tablet < 1u << table_schema_of(t)->tablet_bits)
            return true;
    }
    return false;
}

static int drop_some(struct shard *s, struct err *e)
{
    struct rows_go *d = &s->rows_go;
    for (uint64_t seen = 0; seen < d->step_rows && find_next(s, d); d->tablet++) {
        uint64_t gone;
        seen += table_tablet_rows(engine_table(s->engine, d->table), d->tablet) + 1;
        int rc = engine_fields_drop(s->engine, d->table, d->tablet, d->fields.of[d->table],
                                    d->asked.run == 0, &gone, e);
        d->rows += gone;
        if (rc)
            return rc;
    }
    return 0;
}

/* True when the removal is on disk. The field's number may soon belong to another field, so removed
 * rows must not be back after a loss of power. */
static bool on_disk(struct shard *s)
{
    struct rows_go *d = &s->rows_go;
    if (d->through == 0)
        d->through = engine_sequence(s->engine);
    return engine_synced(s->engine) >= d->through || !engine_sync_due(s->engine);
}

/* Ends the request and answers it. */
static void answer(struct shard *s, int status, const char *text)
{
    struct rows_go *d = &s->rows_go;
    peer_t peer = d->peer;
    SHOAL_ASSERT(peer != 0);
    d->peer = 0;
    if (status) {
        shard_refuse(s, peer, WIRE_TYPE_ROWS_GO, d->id, status, "shard %s: %s", s->name, text);
        return;
    }
    shard_reply(s, WIRE_TYPE_ROWS_GO, d->id)->u.ROWS_GO_reply.rows = d->rows;
    shard_send_reply(s, peer);
}

static void step_cb(struct env_timer *t)
{
    struct shard *s = container_of(t, struct shard, rows_go.timer);
    struct rows_go *d = &s->rows_go;
    struct err e = {0};
    SHOAL_ASSERT(d->peer != 0);
    if (s->fatal.code || push_group_settle(s) != 0)
        return;
    int rc = drop_some(s, &e);
    if (rc == SHOAL_E_AGAIN || rc == SHOAL_E_BUSY)
        env_timer_start(s->env, t, WAIT_NS);
    else if (rc == 0 && find_next(s, d))
        env_timer_start(s->env, t, 0);
    else if (rc == 0 && !on_disk(s))
        env_timer_start(s->env, t, SYNC_POLL_NS);
    else
        answer(s, rc, e.text);
}

/* All fields of all tables that are asked for. */
static void tables_take(struct rows_go *d)
{
    const struct table_set tables = WIRE_TABLES_OF(d->asked);
    memset(&d->fields, 0, sizeof d->fields);
    TABLE_SET_EACH (t, &tables)
        memset(d->fields.of[t], 0xff, sizeof d->fields.of[t]);
}

static int fields_begin(struct shard *s, struct err *e)
{
    struct rows_go *d = &s->rows_go;
    const struct table_set tables = WIRE_TABLES_OF(d->asked);
    if (!lead_ready(&s->lead)) /* without a map it would drop nothing and report success */
        return err_set(e, SHOAL_E_AGAIN, "it has no map yet; ask again");
    int rc = 0;
    if (d->asked.what == WIRE_ROWS_FIELDS)
        rc = engine_fields_take(s->engine, d->asked.fields, tables, &d->fields, e);
    else
        tables_take(d);
    if (rc)
        return rc;
    /* the run was opened here already, so the rows may be the job's own */
    if (d->asked.run != 0 && engine_newest_run_of(s->engine, tables) >= d->asked.run)
        memset(&d->fields, 0, sizeof d->fields);
    d->table = d->tablet = 0;
    env_timer_start(s->env, &d->timer, 0);
    return 0;
}

/* ---- rows that a load brought, all rows ---- */

static void unloaded_cb(void *context, int status, const char *text)
{
    struct shard *s = context;
    park_purge_soon(s);
    if (!status)
        copies_base(s);
    answer(s, status, text);
}

static struct table_set tables_asked(const struct shard *s)
{
    return table_set_or_all(WIRE_TABLES_OF(s->rows_go.asked));
}

/* The tables are gone: requests that wait for them are refused. */
static void cleared_cb(void *context, int status, const char *text)
{
    struct shard *s = context;
    struct err e = {0};
    const struct table_set tables = tables_asked(s);
    if (status) {
        answer(s, status, text);
        return;
    }
    if (s->hold.last && table_set_meet(engine_cut_tables(s->engine, s->hold.last), tables))
        s->hold.last = 0; /* its cut is gone */
    survey_tables_gone(s, tables);
    naming_tables_gone(s, tables);
    park_tables_gone(s, tables);
    copies_base(s);
    int rc = admin_take_map(s, &e);
    answer(s, rc, e.text);
    if (!rc)
        beat_now(s); /* tells that there are no rows */
}

static int clear_begin(struct shard *s, struct err *e)
{
    struct rows_go *d = &s->rows_go;
    const struct table_set tables = tables_asked(s);
    bool ours = s->hold.cut && table_set_meet(engine_cut_tables(s->engine, s->hold.cut), tables);
    if (ours && cut_release(s))
        return SHOAL_E_IO; /* the shard ends, and answers nothing */
    TABLE_SET_EACH (t, &tables) {
        const struct table *table = engine_table(s->engine, t);
        if (table != NULL)
            d->rows += table_rows(table);
    }
    return engine_clear(s->engine, d->asked.run, tables, cleared_cb, s, e);
}

/* ---- requests ---- */

static bool is_same(const struct wire_ROWS_GO *a, const struct wire_ROWS_GO *b)
{
    return a->run == b->run && table_set_equal(WIRE_TABLES_OF(*a), WIRE_TABLES_OF(*b)) &&
           a->what == b->what && strcmp(a->fields, b->fields) == 0;
}

static int begin(struct shard *s, struct err *e)
{
    const struct wire_ROWS_GO *r = &s->rows_go.asked;
    switch (r->what) {
    case WIRE_ROWS_ALL:
        return clear_begin(s, e);
    case WIRE_ROWS_FIELDS:
    case WIRE_ROWS_TABLES:
        return fields_begin(s, e);
    case WIRE_ROWS_LOADED:
        return engine_load_drop(s->engine, r->run, WIRE_TABLES_OF(*r), unloaded_cb, s, e);
    default:
        return err_set(e, SHOAL_E_MALFORMED, "no rows of kind %u", r->what);
    }
}

void rows_go_on_message(struct shard *s, peer_t from)
{
    struct rows_go *d = &s->rows_go;
    uint64_t id = s->in.id;
    struct err e = {0};
    if (d->peer != 0 && is_same(&s->in.u.ROWS_GO, &d->asked)) {
        d->peer = from;
        d->id = id;
        return;
    }
    if (!engine_back(s->engine)) {
        shard_not_back(s, from, WIRE_TYPE_ROWS_GO, id);
        return;
    }
    if (d->peer != 0) {
        shard_refuse(s, from, WIRE_TYPE_ROWS_GO, id, SHOAL_E_AGAIN,
                     "shard %s: other rows are going; ask again", s->name);
        return;
    }
    d->peer = from;
    d->id = id;
    d->asked = s->in.u.ROWS_GO;
    d->rows = d->through = 0;
    int rc = begin(s, &e);
    if (rc)
        answer(s, rc, e.text);
}

/* In steps, so that requests come in between. */
static bool in_steps(const struct rows_go *d)
{
    return d->asked.what == WIRE_ROWS_FIELDS || d->asked.what == WIRE_ROWS_TABLES;
}

bool rows_go_busy(const struct shard *s, struct table_set tables)
{
    const struct rows_go *d = &s->rows_go;
    return d->peer != 0 && in_steps(d) && table_set_meet(WIRE_TABLES_OF(d->asked), tables);
}

bool rows_go_stop(struct shard *s)
{
    struct rows_go *d = &s->rows_go;
    if (d->peer != 0 && !in_steps(d) && s->engine != NULL)
        return false;
    env_timer_stop(s->env, &d->timer);
    d->peer = 0;
    return true;
}

void rows_go_init(struct shard *s)
{
    s->rows_go = (struct rows_go){.step_rows = STEP_ROWS, .timer = {.fire = step_cb}};
}

void rows_go_close(struct shard *s)
{
    env_timer_stop(s->env, &s->rows_go.timer);
}
