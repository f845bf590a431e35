/* admin.c: control messages. */
#include "server/shard/admin.h"
#include "server/shard/purge.h"

#include "proto/base/log.h"

#include <inttypes.h>
#include <stdio.h>

/* A refusal with the engine's sentence; true when there was one. */
static bool refused(struct shard *s, peer_t from, enum wire_type type, uint64_t id, int rc,
                    const struct err *e)
{
    if (rc)
        shard_refuse(s, from, type, id, rc, "shard %s: %s", s->name,
                     e->text[0] ? e->text : err_text(rc));
    return rc != 0;
}

void admin_hello(struct shard *s, peer_t from, struct msg *m)
{
    uint64_t id = s->in.id;
    msg_free(m);
    struct wire_HELLO_reply *r = &shard_reply(s, WIRE_TYPE_HELLO, id)->u.HELLO_reply;
    *r = (struct wire_HELLO_reply){.version = WIRE_VERSION, .map_epoch = s->lead.epoch};
    snprintf(r->name, sizeof r->name, "%s", s->name);
    shard_send_reply(s, from);
}

static int take_map(struct shard *s, struct err *e)
{
    bool changed;
    int rc = lead_apply(&s->lead, s->engine, &changed);
    if (rc)
        return err_set(e, rc, "cannot take the map of epoch %" PRIu64 ": %s", s->lead.epoch,
                       err_text(rc));
    if (changed)
        bsp_lead_changed(s);
    return 0;
}

void admin_table_create(struct shard *s, peer_t from, struct msg *m)
{
    uint64_t id = s->in.id;
    struct table_schema schema;
    struct err e = {0};
    int rc = wire_schema_from(&s->in.u.TABLE_CREATE, &m->frame[1], &schema, &e);
    msg_free(m);
    if (!rc)
        rc = engine_table_create(s->engine, &schema, &e);
    if (!rc)
        rc = take_map(s, &e); /* the map may have known its tablets already */
    if (refused(s, from, WIRE_TYPE_TABLE_CREATE, id, rc, &e))
        return;
    shard_reply(s, WIRE_TYPE_TABLE_CREATE, id)->u.TABLE_CREATE_reply.rows =
        table_rows(engine_table(s->engine, schema.table));
    shard_send_reply(s, from);
}

void admin_run_open(struct shard *s, peer_t from, struct msg *m)
{
    const struct wire_RUN_OPEN r = s->in.u.RUN_OPEN;
    uint64_t id = s->in.id, tables = r.tables ? r.tables : UINT64_MAX;
    struct err e = {0};
    msg_free(m);
    if (refused(s, from, WIRE_TYPE_RUN_OPEN, id,
                engine_run_open_tables(s->engine, r.run, r.lanes, r.mode, tables, &e), &e))
        return;
    shard_reply(s, WIRE_TYPE_RUN_OPEN, id)->u.RUN_OPEN_reply.run = r.run;
    shard_send_reply(s, from);
}

void admin_run_drop(struct shard *s, peer_t from, struct msg *m)
{
    uint64_t run = s->in.u.RUN_DROP.run, id = s->in.id;
    struct err e = {0};
    msg_free(m);
    int rc = engine_run_drop(s->engine, run, &e);
    if (rc == SHOAL_E_OLD_RUN || rc == SHOAL_E_NOT_FOUND)
        rc = 0; /* dropped already: a resend */
    if (refused(s, from, WIRE_TYPE_RUN_DROP, id, rc, &e))
        return;
    purge_requests(s);
    shard_reply(s, WIRE_TYPE_RUN_DROP, id)->u.RUN_DROP_reply.run = run;
    shard_send_reply(s, from);
}

void admin_fence(struct shard *s, peer_t from, struct msg *m)
{
    const struct wire_FENCE r = s->in.u.FENCE;
    uint64_t id = s->in.id, mark = 0;
    struct err e = {0};
    msg_free(m);
    if (!lead_ready(&s->lead)) {
        /* with no tablet led every mark would be 0, and the lane's offset wrong for ever */
        shard_refuse(s, from, WIRE_TYPE_FENCE, id, SHOAL_E_AGAIN,
                     "shard %s has no map yet; ask again", s->name);
        return;
    }
    if (refused(s, from, WIRE_TYPE_FENCE, id,
                engine_fence(s->engine, r.run, r.lane, r.generation, r.live, &mark, &e), &e))
        return;
    bsp_fenced(s, r.run, r.lane, r.generation);
    shard_reply(s, WIRE_TYPE_FENCE, id)->u.FENCE_reply.mark = mark;
    shard_send_reply(s, from);
}

void admin_map_set(struct shard *s, peer_t from, struct msg *m)
{
    const struct wire_MAP_SET r = s->in.u.MAP_SET;
    uint64_t id = s->in.id;
    struct err e = {0};
    int rc = 0;
    if (r.map_epoch == 0 || r.tablet_count > LIMIT_TABLES * LIMIT_TABLETS)
        rc = err_set(&e, SHOAL_E_MALFORMED, "map of epoch %" PRIu64 " with %u tablets", r.map_epoch,
                     r.tablet_count);
    if (!rc && lead_set_map(&s->lead, r.map_epoch, m->frame[1].data, r.tablet_count))
        rc = err_set(&e, SHOAL_E_NOMEM, "no memory for a map of %u tablets", r.tablet_count);
    msg_free(m);
    if (!rc)
        rc = take_map(s, &e);
    if (refused(s, from, WIRE_TYPE_MAP_SET, id, rc, &e))
        return;
    shard_reply(s, WIRE_TYPE_MAP_SET, id)->u.MAP_SET_reply.map_epoch = s->lead.epoch;
    shard_send_reply(s, from);
}

void admin_stop(struct shard *s, peer_t from, struct msg *m)
{
    bool job_only = s->in.u.STOP.job_only;
    uint64_t id = s->in.id;
    msg_free(m);
    shard_reply(s, WIRE_TYPE_STOP, id)->u.STOP_reply.unused = 0;
    shard_send_reply(s, from);
    if (job_only)
        return; /* jobs are the coordinator's */
    log_info("shard %s: asked to stop", s->name);
    env_stop(s->env);
}
