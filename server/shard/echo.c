/* echo.c: rows that go back with the answer to a push; echo.h. */
#include "server/shard/echo.h"

#include "proto/base/assert.h"
#include "proto/job/half.h"
#include "server/shard/pull.h"

/* keys that are gathered before their rows are copied */
#define AT_ONCE 512u

struct wire_PUSH_reply *echo_reply(struct shard *s, const struct request *q)
{
    const struct push_plan *plan = &q->push.plan;
    struct wire_PUSH_reply *r = &shard_reply(s, WIRE_TYPE_PUSH, q->id)->u.PUSH_reply;
    *r = (struct wire_PUSH_reply){
        .applied = plan->applied, .skipped = plan->skipped, .mark = plan->mark};
    return r;
}

static bool gives_rows(struct shard *s, const struct request *q)
{
    if (q->push.echo == 0 || q->push.status != 0 || q->push.plan.applied == 0 || q->push.plan.bsp)
        return false;
    return s->copies.role != COPIES_LEADS || copies_leased(s);
}

/* Copies the rows of the keys whose bits are set. */
static void rows_copy(struct shard *s, const struct request *q, enum value_kind values, char *out)
{
    const struct push_record *r = &q->push.r;
    const struct table *t = engine_table(s->engine, r->table);
    const struct pull_args args = {.values = values};
    const size_t row_bytes = table_schema_of(t)->width * half_bytes(values);
    uint64_t keys[AT_ONCE];
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->key_count; i++) {
        keys[count] = r->keys[i];
        count += q->push.wanted[i / 8] >> i % 8 & 1;
        if (count < AT_ONCE && i + 1 < r->key_count)
            continue;
        SHOAL_VERIFY_ASSERT(engine_here(s->engine, r->table, keys, count)); /* echo.h */
        table_pull_as(t, &args, keys, count, out);
        out += count * row_bytes;
        count = 0;
    }
}

/* The reply with rows; NULL: there is no room for it. */
static struct msg *reply_make(struct shard *s, const struct request *q)
{
    const struct push_record *p = &q->push.r;
    const struct table *t = engine_table(s->engine, p->table);
    const enum value_kind values = pull_values(table_schema_of(t), q->push.values);
    const uint32_t width = table_schema_of(t)->width;
    const size_t bytes = (size_t)q->push.echo * width * half_bytes(values);
    struct wire_PUSH_reply *r = echo_reply(s, q);
    r->key_count = q->push.echo;
    r->width = width;
    r->values = (uint32_t)values;
    r->steps = engine_steps(s->engine, p->run, p->table);
    /* the push was admitted, and its run stays open until the group is settled */
    uint64_t unused;
    int rc = engine_clock(s->engine, p->run, p->lane, p->to, &r->clock, &unused);
    SHOAL_ASSERT(rc == 0);
    r->low = engine_low_beside(s->engine, p->run, p->lane);
    struct msg *m = wire_encode(&s->out);
    void *rows = NULL;
    if (m != NULL && request_reply_fits(&s->pool, q, msg_bytes(m) + bytes))
        rows = msg_add(m, bytes);
    if (rows == NULL) {
        msg_free(m);
        return NULL;
    }
    rows_copy(s, q, values, rows);
    s->counts.keys_echoed += q->push.echo;
    s->counts.bytes_echoed += bytes;
    return m;
}

void echo_read(struct shard *s, struct request *q)
{
    const struct push_record *r = &q->push.r;
    struct msg *reply = NULL;
    if (gives_rows(s, q)) {
        const uint64_t began_ns = env_now_ns(s->env);
        span_turn(s, &q->span, WIRE_SPAN_WORK);
        reply = reply_make(s, q);
        /* the wanted keys are spread as all of the push are */
        heat_add(&s->heat, table_schema_of(engine_table(s->engine, r->table)), HEAT_PULL, r->keys,
                 r->key_count, began_ns, env_now_ns(s->env));
    }
    request_drop_message(&s->pool, q);
    if (reply != NULL)
        request_keep_reply(&s->pool, q, reply);
}
