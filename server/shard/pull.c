/* pull.c: pulls are checked, wait for their clock and their rows, and are answered. */
#include "server/shard/pull.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/job/half.h"
#include "server/shard/park.h"

#include <inttypes.h>

#define LANE_NONE UINT32_MAX
/* No worker pulls so many batches ahead of its pushes (train.prefetch). */
#define BATCHES_AHEAD 4096u
/* A sender that has not asked again for so long no longer waits for the pull (net.resend is 60 s at
 * most). */
#define AGE_NS UINT64_C(180000000000)

static int check(struct shard *s, const struct wire_PULL *w, struct err *e)
{
    /* clocks are known only when all marks are back */
    if (w->lane != LANE_NONE && !engine_back(s->engine))
        return err_set(e, SHOAL_E_AGAIN, "shard %s brings its rows back; send again", s->name);
    const struct table_schema *schema;
    int rc = shard_schema(s, w->run, w->table, &schema, e);
    if (rc)
        return rc;
    if ((w->parts & ~WIRE_ASSIGN_STATE) != 0)
        return err_set(e, SHOAL_E_VERSION, "shard %s knows no parts %u of rows", s->name, w->parts);
    if (w->parts != 0 && w->lane != LANE_NONE)
        return err_set(e, SHOAL_E_MALFORMED, "a pull of lane %u asks for optimizer state", w->lane);
    if ((uint64_t)w->key_count * table_assign_floats(schema, w->parts) * sizeof(float) >
        LIMIT_FRAME_BYTES)
        return err_set(e, SHOAL_E_TOO_BIG,
                       "pull of %u rows of table %s passes a frame of %u bytes; ask for fewer",
                       w->key_count, schema->name, LIMIT_FRAME_BYTES);
    if (w->values > WIRE_VALUES + VALUES_BF16)
        return err_set(e, SHOAL_E_VERSION, "shard %s knows no values of kind %u for rows", s->name,
                       w->values);
    if (!lead_keys(&s->lead, schema, s->m->frame[1].data, w->key_count))
        return err_set(
            e, SHOAL_E_NOT_LEADER,
            "shard %u does not lead all tablets of this pull of table %s; map epoch %" PRIu64,
            s->lead.self, schema->name, s->lead.epoch);
    return 0;
}

void pull_on_message(struct shard *s, peer_t from)
{
    struct err e = {0};
    struct request *q = shard_take(s, from, check(s, &s->in.u.PULL, &e), &e);
    if (q == NULL)
        return;
    q->pull.epoch = s->lead.epoch;
    request_append(&s->arrived, q);
}

static void count(struct shard *s, const struct request *q, uint64_t low, uint64_t waited_ns)
{
    s->counts.pulls++;
    s->counts.keys_pulled += q->pull.key_count;
    if (q->pull.lane == LANE_NONE)
        return;
    uint64_t stale = 0;
    if (q->pull.clock > low)
        stale = q->pull.clock - 1 - low;
    s->counts.staleness[MIN(stale, 63)]++;
    s->counts.waited_ns += waited_ns;
    s->counts.waited_ns_max = MAX(s->counts.waited_ns_max, waited_ns);
}

/* The batches that the rows include. Under bsp they are those of the clocks before this one. */
static uint64_t steps(const struct shard *s, const struct request *q, uint64_t before)
{
    uint32_t mode, lanes;
    if (before == 0 || engine_run_mode(s->engine, q->pull.run, &mode, &lanes) != 0)
        return engine_steps(s->engine, q->pull.run, q->pull.table);

    return (before - 1) * lanes;
}

/* Writes the rows of q: weights, or with WIRE_ASSIGN_STATE both. */
static void rows_write(const struct table *t, const struct request *q, const struct pull_args *args,
                       void *rows)
{
    if (q->pull.parts != 0)
        table_pull_state(t, q->pull.keys, q->pull.key_count, rows);
    else
        table_pull_as(t, args, q->pull.keys, q->pull.key_count, rows);
}

/* Answers q, or parks it until its rows have come. before: 0, or the bsp clock whose pushes must
 * not be seen. */
static void answer(struct shard *s, struct request *q, uint64_t low, uint64_t before)
{
    const struct table *t = engine_table(s->engine, q->pull.table);
    SHOAL_ASSERT(t != NULL);
    SHOAL_ASSERT(before == 0 || q->pull.lane != LANE_NONE); /* readers see rows as they are */
    struct pull_args args = {.values = pull_values(table_schema_of(t), q->pull.values),
                             .reader = q->pull.lane == LANE_NONE,
                             .before = before ? table_undo_clock(q->pull.run, before) : before};
    if (q->pull.parts != 0)
        args.values = VALUES_FP32;
    uint32_t width = table_assign_floats(table_schema_of(t), q->pull.parts), n = q->pull.key_count;
    size_t bytes = (size_t)n * width * half_bytes(args.values);
    if (!engine_warm(s->engine, q->pull.table, q->pull.keys, n)) {
        s->counts.cold_pulls += !q->pull.parked;
        q->pull.parked = true;
        span_turn(s, &q->span, WIRE_SPAN_ROWS);
        park_pull(s, q);
        return;
    }
    uint64_t began_ns = env_now_ns(s->env), waited_ns = began_ns - q->arrived_ns;
    if (q->span.traced)
        span_turn_at(&q->span, WIRE_SPAN_WORK, began_ns);
    struct wire_PULL_reply *r = &shard_reply(s, WIRE_TYPE_PULL, q->id)->u.PULL_reply;
    *r = (struct wire_PULL_reply){.key_count = n,
                                  .width = width,
                                  .clock = q->pull.clock,
                                  .low = low,
                                  .waited_ns = waited_ns,
                                  .values = args.values,
                                  .steps = steps(s, q, before)};
    struct msg *m = wire_encode(&s->out);
    void *rows = msg_add(m, bytes);
    if (rows == NULL) {
        msg_free(m);
        shard_refuse_request(s, q, SHOAL_E_NOMEM, "no memory for the reply; send again later");
        return;
    }
    rows_write(t, q, &args, rows);
    count(s, q, low, waited_ns);
    s->counts.bytes_pulled += bytes;
    if (q->span.traced)
        span_end(s, q, env_now_ns(s->env));
    shard_send(s, q->peer, m);
    const uint64_t now_ns = env_now_ns(s->env);
    meter_time(&s->counts.times[HEAT_PULL], now_ns - q->arrived_ns);
    heat_add(&s->heat, table_schema_of(t), HEAT_PULL, q->pull.keys, n, began_ns, now_ns);
    request_give(&s->pool, q);
}

static void put_to_wait(struct shard *s, struct request *q, uint64_t need)
{
    uint64_t mark = engine_mark(s->engine, q->pull.run, q->pull.lane, q->pull.table);
    if (q->pull.batch > mark && q->pull.batch - mark > BATCHES_AHEAD) {
        shard_refuse_request(s, q, SHOAL_E_MALFORMED,
                             "the pull is of a batch thousands ahead of what its lane has pushed");
        return;
    }
    q->pull.need = need;
    span_turn(s, &q->span, WIRE_SPAN_CLOCK);
    struct request *older = clock_take(&s->clock, q);
    if (older != NULL)
        /* its sender sent again and waits for the newer id */
        request_give(&s->pool, older);
    if (!request_may_wait(&s->pool, q, s->clock.waiting, s->clock.bytes))
        shard_refuse_request(s, q, SHOAL_E_BUSY,
                             "too many pulls wait for slower lanes; send again later");
    else if (!clock_wait(&s->clock, q))
        shard_refuse_request(s, q, SHOAL_E_BUSY,
                             "too many runs and tables have pulls waiting; send again later");
}

static void try_bsp(struct shard *s, struct request *q)
{
    uint64_t low, high, need = clock_need(q->pull.clock, 0);
    int rc = clock_range(s->engine, q->pull.run, q->pull.table, &low, &high);
    SHOAL_ASSERT(rc == 0);
    if (low < need)
        put_to_wait(s, q, need);
    else if (high > q->pull.clock)
        shard_refuse_request(
            s, q, SHOAL_E_GAP,
            "a later clock is applied here, so the rows before this batch are gone");
    else
        answer(s, q, low, q->pull.clock);
}

/* True when a tablet of the pull has moved to another shard while it waited. */
static bool moved(struct shard *s, const struct request *q)
{
    const struct table *t = engine_table(s->engine, q->pull.table);
    return q->pull.epoch != s->lead.epoch && t != NULL &&
           !lead_keys(&s->lead, table_schema_of(t), q->pull.keys, q->pull.key_count);
}

/* Answers q, refuses it or makes it wait: for its clock (clock.h), or for its rows (park.h). */
static void try(struct shard *s, struct request *q)
{
    SHOAL_ASSERT(q->type == WIRE_TYPE_PULL);
    if (moved(s, q)) {
        shard_refuse_request(s, q, SHOAL_E_NOT_LEADER,
                             "tablets of this pull have moved to another shard: ask for the map");
        return;
    }
    if (q->pull.lane == LANE_NONE) {
        answer(s, q, 0, 0);
        return;
    }
    uint32_t mode, lanes;
    uint64_t low;
    if (s->copies.role == COPIES_LEADS && !copies_leased(s)) {
        shard_refuse_request(s, q, SHOAL_E_NOT_LEADER,
                             "its lease is over, and another copy may lead: ask for the map");
    } else if (engine_run_mode(s->engine, q->pull.run, &mode, &lanes)) {
        shard_refuse_request(s, q, SHOAL_E_OLD_RUN,
                             "this run is not open here: it was dropped or replaced");
    } else if (engine_clock(s->engine, q->pull.run, q->pull.lane, q->pull.batch, &q->pull.clock,
                            &low)) {
        shard_refuse_request(s, q, SHOAL_E_MALFORMED, "the run has no lane of this number");
    } else if (mode == WIRE_BSP) {
        try_bsp(s, q);
    } else {
        uint64_t need = 0;
        if (mode == WIRE_SSP && q->pull.bound != WIRE_BOUND_ASYNC)
            need = clock_need(q->pull.clock, q->pull.bound);
        if (low >= need)
            answer(s, q, low, 0);
        else
            put_to_wait(s, q, need);
    }
}

/* Tries the pulls that were parked. */
static void parked_try(struct shard *s)
{
    struct park *p = &s->park;
    if (!p->pulls_due)
        return;
    p->pulls_due = false;
    const struct table_set held = engine_held_tables(s->engine);
    struct request_list all = p->pulls;
    struct request *q;
    p->pulls = (struct request_list){0};
    uint32_t of[2] = {0}; /* misses of tables that are held to a share, of others */
    while ((q = request_pop(&all)) != NULL) {
        uint32_t *own = &of[!table_set_has(&held, q->pull.table)];
        if (*own == PARK_MISSES) {
            request_append(&p->pulls, q);
            continue;
        }
        const struct request *tail = p->pulls.tail;
        try(s, q);
        *own += p->pulls.tail != tail;
    }
}

void pull_expire(struct shard *s)
{
    struct request_list old = {0};
    struct request *q;
    uint64_t now = env_now_ns(s->env);
    if (now < AGE_NS)
        return;
    clock_expire(&s->clock, now - AGE_NS, &old);
    park_expire(s, now - AGE_NS, &old);
    while ((q = request_pop(&old)) != NULL)
        shard_refuse_request(s, q, SHOAL_E_TIMEOUT,
                             "the pull has waited for minutes and was not asked for again");
}

void pull_tick(struct shard *s)
{
    struct request *q;
    struct request_list due = {0};
    SHOAL_ASSERT(s->group.head == NULL); /* a pull sees the pushes that came with it */
    parked_try(s);
    clock_due(&s->clock, s->engine, &due);
    while ((q = request_pop(&due)) != NULL)
        try(s, q);
    while ((q = request_pop(&s->arrived)) != NULL)
        try(s, q);
}
