/* push.c: pushes on their way to the group. */
#include "server/shard/push.h"

#include "proto/base/assert.h"
#include "proto/job/packed.h"
#include "server/shard/push_group.h"

#include <inttypes.h>

int push_check_led(const struct shard *s, const struct table_schema *schema, uint32_t first,
                   uint32_t count, struct err *e)
{
    if (lead_covers(&s->lead, schema, first, count))
        return 0;
    return err_set(
        e, SHOAL_E_NOT_LEADER,
        "shard %u does not lead all of tablets [%u, +%u) of table %s; map epoch %" PRIu64,
        s->lead.self, first, count, schema->name, s->lead.epoch);
}

static int check(struct shard *s, const struct wire_PUSH *w, struct err *e)
{
    const struct table_schema *schema;
    if (w->age != 0 || !packed_known(w->width) || w->values > WIRE_VALUES + VALUES_BF16)
        return err_set(e, SHOAL_E_VERSION,
                       "push of lane %u batch %" PRIu64
                       " has age %u, width %u and asks for values of kind %u, which shard %s does "
                       "not know: upgrade this server",
                       w->lane, w->to, w->age, w->width, w->values, s->name);
    int rc = shard_schema(s, w->run, w->table, &schema, e);
    if (rc)
        return rc;
    if (shard_run_untold(s, w->run))
        return err_set(e, SHOAL_E_AGAIN,
                       "shard %s has come back and waits to hear who may push; send again",
                       s->name);
    size_t expected = (size_t)w->key_count * packed_bytes(schema, w->width);
    if (s->m->frame[2].bytes != expected)
        return err_set(e, SHOAL_E_MALFORMED,
                       "push of lane %u batch %" PRIu64
                       ": %zu bytes of gradients for %u keys of table "
                       "%s, %zu expected",
                       w->lane, w->to, s->m->frame[2].bytes, w->key_count, schema->name, expected);
    return push_check_led(s, schema, w->tablet_first, w->tablet_count, e);
}

static void enter(struct shard *s, struct request *q)
{
    uint32_t mode, lanes;
    SHOAL_ASSERT(request_pushes(q));
    if (request_of_no_run(q))
        park_enter(s, q);
    else if (engine_run_mode(s->engine, q->push.r.run, &mode, &lanes))
        shard_refuse_request(s, q, SHOAL_E_OLD_RUN,
                             "this run is not open here: it was dropped or replaced");
    else if (mode == WIRE_BSP && q->type == WIRE_TYPE_PUSH)
        bsp_push(s, q, lanes);
    else
        park_enter(s, q);
}

/* q goes on at GO, or with the next map. */
static void hold(struct shard *s, struct request *q)
{
    span_turn(s, &q->span, WIRE_SPAN_HELD);
    request_append(&s->hold.queue, q);
}

void push_enter(struct shard *s, struct request *q)
{
    /* where nothing is held the queue is empty, so q overtakes no push */
    SHOAL_ASSERT(shard_holds(s) || s->hold.queue.head == NULL);
    if (shard_holds(s))
        hold(s, q);
    else
        enter(s, q);
}

void push_on_message(struct shard *s, peer_t from)
{
    struct err e = {0};
    struct request *q = shard_take(s, from, check(s, &s->in.u.PUSH, &e), &e);
    if (q != NULL)
        push_enter(s, q);
}

/* Puts a push from the queue back on its way, if the present map allows it. */
static void enter_again(struct shard *s, struct request *q)
{
    const struct push_record *r = &q->push.r;
    const struct table *t = engine_table(s->engine, r->table);
    struct err e;
    /* the table was there when q came; park_tables_gone takes q out with the table */
    SHOAL_ASSERT(t != NULL);
    if (push_check_led(s, table_schema_of(t), r->tablet_first, r->tablet_count, &e) == 0) {
        enter(s, q);
        return;
    }
    shard_refuse(s, q->peer, q->type, q->id, e.code, "%s", e.text);
    request_give(&s->pool, q);
}

void push_go_on(struct shard *s)
{
    struct request_list queue = s->hold.queue;
    struct request *q;
    if (shard_holds(s))
        return;
    s->hold.queue = (struct request_list){0};
    push_parked(s); /* the parked pushes came before the queued ones */
    while ((q = request_pop(&queue)) != NULL)
        enter_again(s, q);
}

/* ---- parked pushes ---- */

static bool behind_a_miss(const struct request *const *missed, uint32_t misses,
                          const struct request *q)
{
    for (uint32_t i = 0; i < misses; i++)
        if (park_same_lane(&missed[i]->push.r, &q->push.r))
            return true;
    return false;
}

void push_parked(struct shard *s)
{
    struct park *p = &s->park;
    const struct request *missed[2 * PARK_MISSES];
    uint32_t misses = 0, of[2] = {0}; /* misses in tables held to a share; in others */
    if (shard_holds(s) || s->fatal.code || !p->pushes_due)
        return; /* not at each tick: the check whether all rows are there takes milliseconds */
    p->short_of_room = TABLE_SET_NONE;
    p->pushes_due = false;
    bsp_retry(s);
    const struct table_set held = engine_held_tables(s->engine);
    struct request_list all = p->pushes;
    struct request *q;
    p->pushes = (struct request_list){0};
    while ((q = request_pop(&all)) != NULL) {
        const struct push_record *r = &q->push.r;
        uint32_t *own = &of[!table_set_has(&held, r->table)];
        bool stays = table_set_has(&p->short_of_room, r->table) || *own == PARK_MISSES ||
                     behind_a_miss(missed, misses, q);
        if (!stays && !engine_warm(s->engine, r->table, r->keys, r->key_count)) {
            missed[misses++] = q;
            (*own)++;
            stays = true;
        }
        SHOAL_VERIFY_ASSERT(stays || !park_lane_waits(&p->pushes, &q->push.r)); /* park.c, 1 */
        if (!stays && push_group_admit(s, q) == SHOAL_E_BUSY) {
            park_short(s, engine_short_tables(s->engine));
            stays = true;
        }
        if (stays)
            request_append(&p->pushes, q);
    }
}
