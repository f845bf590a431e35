/* push.c: pushes.
 *
 * 1. A push is answered only after engine_commit has returned 0 for it and, under fsync,
 *    engine_acknowledged has reached it.
 * 2. Pushes are applied in the order of admission, which is journal order.
 * 3. A skipped push and a GAP wait for the newest sequence admitted before them: what they report
 *    may not be synced yet.
 * 4. The message's bytes live until the push is applied, not until it is answered. */
#include "server/shard/push.h"

#include "proto/base/assert.h"

#include <inttypes.h>
#include <stdio.h>

static int check(struct shard *s, const struct wire_PUSH *w, const struct msg *m, struct err *e)
{
    if (!lead_ready(&s->lead))
        return err_set(e, SHOAL_E_AGAIN, "shard %s has no map yet; send again", s->name);
    const struct table *t = engine_table(s->engine, w->table);
    if (t == NULL)
        return err_set(e, SHOAL_E_NO_TABLE, "no table %u on shard %s", w->table, s->name);
    const struct table_schema *schema = table_schema_of(t);
    size_t expected = (size_t)w->key_count * schema_push_floats(schema) * sizeof(float);
    if (m->frame[2].bytes != expected)
        return err_set(e, SHOAL_E_MALFORMED,
                       "push of lane %u batch %" PRIu64
                       ": %zu bytes of gradients for %u keys of table "
                       "%s, %zu expected",
                       w->lane, w->to, m->frame[2].bytes, w->key_count, schema->name, expected);
    if (!lead_covers(&s->lead, schema, w->tablet_first, w->tablet_count))
        return err_set(
            e, SHOAL_E_NOT_LEADER,
            "shard %u does not lead all of tablets [%u, +%u) of table %s; map epoch %" PRIu64,
            s->lead.self, w->tablet_first, w->tablet_count, schema->name, s->lead.epoch);
    return 0;
}

void push_on_message(struct shard *s, peer_t from, struct msg *m)
{
    const struct wire *w = &s->in;
    struct err e = {0};
    int rc = check(s, &w->u.PUSH, m, &e);
    struct request *q = NULL;
    if (!rc && (q = request_take(&s->pool, from, w, m, env_now_ns(s->env))) == NULL)
        rc = err_set(&e, SHOAL_E_BUSY,
                     "shard %s: %u requests of %" PRIu64 " bytes are waiting; send again later",
                     s->name, s->pool.used, s->pool.bytes);
    if (rc) {
        shard_refuse(s, from, WIRE_TYPE_PUSH, w->id, rc, "%s", e.text);
        msg_free(m);
    } else if (hold_queue(s, q)) {
        /* A cut is being taken: it goes on at GO. */
    } else {
        push_enter(s, q);
    }
}

void push_enter(struct shard *s, struct request *q)
{
    uint32_t mode, lanes;
    if (engine_run_mode(s->engine, q->push.r.run, &mode, &lanes))
        shard_refuse_request(s, q, SHOAL_E_OLD_RUN,
                             "this run is not open here: it was dropped or replaced");
    else if (mode == WIRE_BSP)
        bsp_push(s, q, lanes);
    else
        park_enter(s, q);
}

void push_answer_later(struct shard *s, struct request *q, int status, uint64_t mark)
{
    q->push.plan.mark = mark;
    q->push.plan.applied = 0;
    q->push.plan.sequence = 0;
    q->push.status = status;
    q->push.wait_sequence = s->sequence; /* 3. */
    request_append(&s->group, q);
}

int push_admit(struct shard *s, struct request *q)
{
    struct err e = {0};
    struct push_plan *plan = &q->push.plan;
    int rc = engine_admit_push(s->engine, &q->push.r, plan, &e);
    if (rc == SHOAL_E_GAP) {
        push_answer_later(s, q, rc, plan->mark);
        return rc;
    }
    if (rc == SHOAL_E_BUSY)
        return rc;
    if (rc) {
        shard_refuse_request(s, q, rc, e.text);
        return rc;
    }
    if (plan->applied > 0) {
        SHOAL_ASSERT(plan->sequence > s->sequence); /* 2. */
        s->sequence = plan->sequence;
        s->group_keys += q->push.r.key_count;
    }
    q->push.wait_sequence = s->sequence;
    request_append(&s->group, q);
    return 0;
}

static void answer(struct shard *s, struct request *q)
{
    const struct push_plan *plan = &q->push.plan;
    struct wire *w = shard_reply(s, WIRE_TYPE_PUSH, q->id);
    w->u.PUSH_reply = (struct wire_PUSH_reply){plan->applied, plan->skipped, plan->mark};
    if (q->push.status) {
        w->status = q->push.status;
        snprintf(w->error, sizeof w->error,
                 "lane %u batch %" PRIu64 " follows %" PRIu64 ", but the mark here is %" PRIu64
                 "; send on from there",
                 q->push.r.lane, q->push.r.to, q->push.r.from, plan->mark);
        s->counts.refused++;
    }
    shard_send_reply(s, q->peer);
    request_give(&s->pool, q);
}

static int apply(struct shard *s, struct request *q)
{
    if (q->push.status)
        return 0;
    s->counts.pushes++;
    if (q->push.plan.applied == 0) {
        s->counts.skipped++;
        return 0;
    }
    s->counts.keys_pushed += q->push.r.key_count;
    return engine_apply_push(s->engine, &q->push.r, &q->push.plan);
}

int push_settle(struct shard *s)
{
    if (s->fatal.code || s->group.head == NULL)
        return s->fatal.code;
    int rc = engine_commit(s->engine); /* 1. */
    if (rc) {
        struct err e;
        err_set(&e, rc, "shard %s: the journal could not be written", s->name);
        shard_fatal(s, &e);
        return rc;
    }
    for (struct request *q = s->group.head; q != NULL; q = q->next) {
        rc = apply(s, q);
        if (rc) {
            struct err e;
            err_set(
                &e, rc,
                "shard %s: a journalled push could not be applied (%s); recovery will repeat it",
                s->name, err_text(rc));
            shard_fatal(s, &e);
            return rc;
        }
    }
    s->group_keys = 0;
    struct request *q;
    while ((q = request_pop(&s->group)) != NULL) {
        request_drop_message(&s->pool, q); /* 4. */
        request_append(&s->unsynced, q);
    }
    push_synced(s);
    return 0;
}

void push_synced(struct shard *s)
{
    uint64_t acknowledged = engine_acknowledged(s->engine);
    while (s->unsynced.head != NULL && s->unsynced.head->push.wait_sequence <= acknowledged)
        answer(s, request_pop(&s->unsynced));
}
