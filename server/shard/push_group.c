/* push_group.c: the pushes of a drain.
 *
 * 1. A push is answered only after engine_commit has returned 0 for it and, under fsync,
 *    engine_acknowledged has reached it. [assert: answer]
 *    [test: fsync_answers_nothing_before_the_sync]
 * 2. Pushes are applied in the order of admission, which is journal order. [assert:
 *    push_group_admit, push_group_settle]
 * 3. A skipped push and a GAP wait for the newest sequence admitted before them: the records that
 *    they depend on may not be synced yet. [assert: push_group_settle] [test:
 *    fsync_answers_nothing_before_the_sync]
 * 4. The message's bytes live until the push is applied, not until it is answered. [assert: answer,
 *    apply] */
#include "server/shard/push_group.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "server/shard/assign.h"
#include "server/shard/echo.h"

#include <inttypes.h>
#include <stdio.h>

/* An image counts as a key for so many bytes. */
#define IMAGE_KEY_BYTES 128u

static void group_append(struct shard *s, struct request *q)
{
    span_turn(s, &q->span, WIRE_SPAN_LOOP);
    s->spans.grouped |= q->span.traced;
    request_append(&s->group, q);
}

void push_group_answer_later(struct shard *s, struct request *q, int status, uint64_t mark)
{
    SHOAL_ASSERT(status == 0 || status == SHOAL_E_GAP);
    q->push.plan.mark = mark;
    q->push.plan.applied = 0;
    q->push.plan.sequence = 0;
    q->push.status = status;
    q->push.wait_sequence = s->sequence; /* 3. */
    group_append(s, q);
}

int push_group_admit(struct shard *s, struct request *q)
{
    struct err e = {0};
    struct push_plan *plan = &q->push.plan;
    SHOAL_ASSERT(request_pushes(q) && q->push.status == 0);
    SHOAL_ASSERT(!shard_holds(s)); /* cut.c, 1; move.h, 1 */
    q->push.r.age = ages_of(s->engine, &q->push.r);
    int rc = engine_admit_push(s->engine, &q->push.r, plan, &e);
    if (rc == SHOAL_E_GAP) {
        push_group_answer_later(s, q, rc, plan->mark);
        return rc;
    }
    if (rc == SHOAL_E_BUSY)
        return rc;
    if (rc) {
        shard_refuse_request(s, q, rc, e.text);
        return rc;
    }
    SHOAL_ASSERT(plan->applied + plan->skipped == q->push.r.tablet_count);
    /* only a push that changes rows has a record */
    SHOAL_ASSERT((plan->applied > 0) == (plan->sequence > 0));
    if (plan->applied > 0) {
        SHOAL_ASSERT(plan->sequence > s->sequence); /* 2. */
        s->sequence = plan->sequence;
        s->group_keys += q->push.r.key_count + q->push.r.image_bytes / IMAGE_KEY_BYTES;
        ages_count(&s->ages, &q->push.r);
    }
    q->push.wait_sequence = s->sequence;
    group_append(s, q);
    return 0;
}

/* s->out: the reply has begun. */
static void answer_without_rows(struct shard *s, const struct request *q)
{
    struct wire *w = &s->out;
    if (q->push.status) {
        w->status = q->push.status;
        snprintf(w->error, sizeof w->error,
                 "lane %u batch %" PRIu64 " follows %" PRIu64 ", but the mark here is %" PRIu64
                 "; send on from there",
                 q->push.r.lane, q->push.r.to, q->push.r.from, q->push.plan.mark);
        shard_count_refusal(s, q->push.status);
    }
    struct msg *m = wire_encode(w);
    if (m != NULL && w->status == 0 && q->type == WIRE_TYPE_PUSH)
        (void)msg_add_borrowed(m, NULL, 0, NULL, NULL);
    shard_send(s, q->peer, m);
}

static void answer(struct shard *s, struct request *q, uint64_t now_ns)
{
    const struct push_plan *plan = &q->push.plan;
    SHOAL_ASSERT(plan->sequence <= engine_acknowledged(s->engine)); /* 1. */
    SHOAL_ASSERT(q->bytes == 0 || q->push.replies);                 /* 4. */
    meter_time(&s->counts.times[HEAT_PUSH], now_ns - q->arrived_ns);
    if (q->span.traced) {
        SHOAL_ASSERT(s->spans.waiting > 0);
        s->spans.waiting--;
        if (q->push.status == 0)
            span_end(s, q, now_ns);
    }
    if (q->type == WIRE_TYPE_ASSIGN)
        assign_reply(s, q);
    else
        (void)echo_reply(s, q);
    if (q->push.replies)
        shard_send(s, q->peer, request_take_reply(&s->pool, q));
    else
        answer_without_rows(s, q);
    request_give(&s->pool, q);
}

/* *at_ns: the time, before and after. */
static int apply(struct shard *s, struct request *q, uint64_t *at_ns)
{
    const struct push_record *r = &q->push.r;
    if (q->push.status)
        return 0;
    s->counts.pushes++;
    if (q->push.plan.applied == 0) {
        s->counts.skipped++;
        return 0;
    }
    SHOAL_ASSERT(q->bytes > 0); /* 4. */
    s->counts.assigned += q->type == WIRE_TYPE_ASSIGN;
    s->counts.keys_pushed += r->key_count;
    s->counts.bytes_pushed +=
        4ull * r->key_count *
            schema_push_floats(table_schema_of(engine_table(s->engine, r->table))) +
        r->image_bytes;
    int rc = engine_apply_push(s->engine, r, &q->push.plan);
    uint64_t began_ns = *at_ns;
    *at_ns = env_now_ns(s->env);
    heat_add(&s->heat, table_schema_of(engine_table(s->engine, r->table)), HEAT_PUSH, r->keys,
             r->key_count, began_ns, *at_ns);
    if (q->span.traced) {
        span_turn_at(&q->span, WIRE_SPAN_WORK, began_ns);
        span_turn_at(&q->span, WIRE_SPAN_LOOP, *at_ns);
    }
    return rc;
}

static void group_turn(struct shard *s, enum wire_span_kind kind)
{
    uint64_t now_ns = env_now_ns(s->env);
    for (struct request *q = s->group.head; q != NULL; q = q->next)
        if (q->span.traced)
            span_turn_at(&q->span, kind, now_ns);
}

/* The first thing that an applied push waits for. */
static enum wire_span_kind awaited(const struct shard *s, const struct request *q)
{
    if (q->push.wait_sequence > engine_acknowledged(s->engine))
        return WIRE_SPAN_SYNC;
    if (s->copies.role == COPIES_LEADS)
        return WIRE_SPAN_COPIES;
    return WIRE_SPAN_LOOP;
}

/* The pushes up to sequence `own` are as durable here as they must be: they wait for the copies. */
static void copies_turn(struct shard *s, uint64_t own)
{
    for (struct request *q = s->unsynced.head; q != NULL && q->push.wait_sequence <= own;
         q = q->next)
        if (q->span.traced && q->span.kind == WIRE_SPAN_SYNC)
            span_turn(s, &q->span, WIRE_SPAN_COPIES);
}

int push_group_settle(struct shard *s)
{
    SHOAL_ASSERT(s->group.head != NULL || s->group_keys == 0);
    if (s->fatal.code || s->group.head == NULL)
        return s->fatal.code;
    uint64_t applied = 0;
    if (s->spans.grouped)
        group_turn(s, WIRE_SPAN_JOURNAL);
    uint64_t at_ns = env_now_ns(s->env);
    int rc = engine_commit(s->engine); /* 1. */
    meter_time(&s->counts.commits, env_now_ns(s->env) - at_ns);
    if (rc) {
        struct err e;
        err_set(&e, rc, "shard %s: the journal could not be written", s->name);
        shard_fatal(s, &e);
        return rc;
    }
    if (s->copies.role == COPIES_LEADS)
        copies_serve(s); /* the followers write and apply them while this copy applies them */
    if (s->spans.grouped)
        group_turn(s, WIRE_SPAN_LOOP);
    at_ns = env_now_ns(s->env);
    for (struct request *q = s->group.head; q != NULL; q = q->next) {
        const uint64_t sequence = q->push.plan.sequence;
        SHOAL_ASSERT(sequence == 0 || sequence > applied); /* 2. */
        applied = sequence != 0 ? sequence : applied;
        rc = apply(s, q, &at_ns);
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
    s->spans.grouped = false;
    struct request *q;
    while ((q = request_pop(&s->group)) != NULL) {
        const struct request *before = s->unsynced.tail;
        SHOAL_ASSERT(before == NULL ||
                     before->push.wait_sequence <= q->push.wait_sequence); /* 3. */
        echo_read(s, q);                                                   /* 4. */
        if (q->span.traced) {
            span_turn(s, &q->span, awaited(s, q));
            s->spans.waiting++;
        }
        if (q->type == WIRE_TYPE_ASSIGN)
            request_append(&s->assigned, q);
        else
            request_append(&s->unsynced, q);
    }
    push_group_synced(s);
    return 0;
}

/* Answers the assignments that are on disk here, and as durable as pushes in the copies. */
static void assigned_answer(struct shard *s, uint64_t acknowledged, uint64_t now_ns)
{
    uint64_t most = acknowledged;
    if (s->options.engine.durability == DURABLE_JOURNAL)
        most = MIN(most, engine_synced(s->engine));
    while (s->assigned.head != NULL && s->assigned.head->push.wait_sequence <= most)
        answer(s, request_pop(&s->assigned), now_ns);
    if (s->assigned.head != NULL)
        (void)engine_sync_due(s->engine); /* shard_synced_cb comes here again */
}

void push_group_synced(struct shard *s)
{
    uint64_t acknowledged = engine_acknowledged(s->engine);
    bool copies = s->copies.role == COPIES_LEADS;
    if (copies) {
        if (s->spans.waiting > 0)
            copies_turn(s, acknowledged);
        acknowledged = copies_acknowledged(s, acknowledged);
    }
    uint64_t now_ns = 0;
    if (s->unsynced.head != NULL || s->assigned.head != NULL)
        now_ns = env_now_ns(s->env);
    while (s->unsynced.head != NULL && s->unsynced.head->push.wait_sequence <= acknowledged)
        answer(s, request_pop(&s->unsynced), now_ns);
    if (s->assigned.head != NULL)
        assigned_answer(s, acknowledged, now_ns);
    if (copies)
        copies_flush(s);
}
