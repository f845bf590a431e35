/* drop.c: whole fields, from the wire to the engine. */
#include "server/shard/drop.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/plant.h"
#include "server/shard/group.h"
#include "server/shard/shard.h"

#include <string.h>

#define STEP_ROWS 65536u          /* some 10 ms */
#define WAIT_NS UINT64_C(5000000) /* for pushes, a cut or a load that are in the way */
#define SYNC_POLL_NS UINT64_C(1000000)

/* Whether there is a tablet left; d->table and d->tablet are then its. */
static bool find_next(const struct shard *s, struct dropping *d)
{
    static const uint64_t none[LIMIT_FIELDS / 64];
    for (; d->table < LIMIT_TABLES;
         d->table++, d->tablet = PLANTED("second_table_skipped") ? d->tablet : 0) {
        const struct table *t = engine_table(s->engine, d->table);
        if (t != NULL && memcmp(d->fields.of[d->table], none, sizeof none) != 0 &&
            d->tablet < 1u << table_schema_of(t)->tablet_bits)
            return true;
    }
    return false;
}

static int drop_some(struct shard *s, struct err *e)
{
    struct dropping *d = &s->dropping;
    for (uint64_t seen = 0; seen < d->step_rows && find_next(s, d); d->tablet++) {
        uint64_t gone;
        seen += table_tablet_rows(engine_table(s->engine, d->table), d->tablet) + 1;
        int rc = engine_fields_drop(s->engine, d->table, d->tablet, d->fields.of[d->table],
                                    d->names, &gone, e);
        d->rows += gone;
        if (rc)
            return rc;
    }
    return 0;
}

/* The number of the field may be another's soon: what is gone must not be back after a loss of
 * power. */
static bool on_disk(struct shard *s)
{
    struct dropping *d = &s->dropping;
    struct engine_stats stats;
    if (d->through == 0) {
        engine_stats_get(s->engine, &stats);
        d->through = stats.sequence;
    }
    return engine_synced(s->engine) >= d->through || !engine_sync_due(s->engine);
}

static void step_cb(struct env_timer *t)
{
    struct shard *s = container_of(t, struct shard, dropping.timer);
    struct dropping *d = &s->dropping;
    struct err e = {0};
    SHOAL_ASSERT(d->peer != 0);
    if (s->fatal.code || group_settle(s) != 0)
        return;
    int rc = drop_some(s, &e);
    if (rc == SHOAL_E_AGAIN || rc == SHOAL_E_BUSY) {
        env_timer_start(s->env, t, WAIT_NS);
    } else if (rc) {
        shard_refuse(s, d->peer, WIRE_TYPE_FIELD_DROP, d->id, rc, "shard %s: %s", s->name, e.text);
        d->peer = 0;
    } else if (find_next(s, d)) {
        env_timer_start(s->env, t, 0);
    } else if (!PLANTED("drop_unsynced") && !on_disk(s)) {
        env_timer_start(s->env, t, SYNC_POLL_NS);
    } else {
        shard_reply(s, WIRE_TYPE_FIELD_DROP, d->id)->u.FIELD_DROP_reply.rows = d->rows;
        shard_send_reply(s, d->peer);
        d->peer = 0;
    }
}

static void begin(struct shard *s, peer_t from)
{
    const struct wire_FIELD_DROP *r = &s->in.u.FIELD_DROP;
    struct dropping *d = &s->dropping;
    struct err e = {0};
    int rc = engine_fields_take(s->engine, r->what, &d->fields, &e);
    if (rc) {
        shard_refuse(s, from, WIRE_TYPE_FIELD_DROP, s->in.id, rc, "shard %s: %s", s->name, e.text);
        return;
    }
    /* the job's own rows may be there */
    if (r->run != 0 && engine_newest_run(s->engine) >= r->run && !PLANTED("fresh_again"))
        memset(&d->fields, 0, sizeof d->fields);
    d->peer = from;
    d->id = s->in.id;
    d->names = r->run == 0;
    d->table = d->tablet = 0;
    d->rows = d->through = 0;
    env_timer_start(s->env, &d->timer, 0);
}

void drop_on_message(struct shard *s, peer_t from)
{
    uint64_t id = s->in.id;
    if (!lead_ready(&s->lead)) /* it would drop nothing and say that all is well */
        shard_refuse(s, from, WIRE_TYPE_FIELD_DROP, id, SHOAL_E_AGAIN,
                     "shard %s has no map yet; ask again", s->name);
    else if (s->dropping.peer == 0)
        begin(s, from);
    else if (s->dropping.peer != from || s->dropping.id != id) /* else its answer comes */
        shard_refuse(s, from, WIRE_TYPE_FIELD_DROP, id, SHOAL_E_AGAIN,
                     "shard %s: other fields are being dropped; ask again", s->name);
}

bool drop_busy(const struct shard *s)
{
    return s->dropping.peer != 0;
}

void drop_init(struct shard *s)
{
    s->dropping = (struct dropping){.step_rows = STEP_ROWS, .timer = {.fire = step_cb}};
}

void drop_close(struct shard *s)
{
    env_timer_stop(s->env, &s->dropping.timer);
}
