/* park.c: lists of the requests that wait for rows or room.
 *
 * 1. A push stays behind earlier pushes of its run, lane and table: else the engine would call it a
 *    GAP. [assert: push_parked]
 *    [test: push_waits_for_its_rows_and_its_lane_waits_behind_it]
 * 2. Every walk tries the head of a list, unless a clock of bsp has just found no room, and the
 *    engine fetches in the order of the requests: so the list always makes progress. [test:
 *    walk_ends_after_a_few_that_are_not_there] */
#include "server/shard/park.h"

#include "proto/base/assert.h"
#include "server/shard/push_group.h"
#include "server/shard/shard.h"

/* The engine reports when memory has room again, but not when the journal has: a tick tries again
 * after this time. */
#define ROOM_NS UINT64_C(5000000)

void park_init(struct shard *s)
{
    s->park = (struct park){.purge_due = false};
}

void park_close(struct shard *s)
{
    env_timer_stop(s->env, &s->park.timer);
}

void park_fetched(struct shard *s)
{
    s->park.pushes_due = s->park.pulls_due = true;
    /* not from here: the engine may be in the middle of a step */
    env_timer_start(s->env, &s->park.timer, 0);
}

void park_short(struct shard *s, struct table_set tables)
{
    s->park.short_of_room = table_set_or(s->park.short_of_room, tables);
    if (!s->park.timer.due_ns)
        env_timer_start(s->env, &s->park.timer, ROOM_NS);
}

/* ---- pushes ---- */

bool park_same_lane(const struct push_record *a, const struct push_record *b)
{
    return a->lane == b->lane && a->run == b->run && a->table == b->table;
}

static bool same_push(const struct request *p, const struct request *q)
{
    const struct push_record *a = &p->push.r, *b = &q->push.r;
    if (request_of_no_run(p) || request_of_no_run(q))
        return p->peer == q->peer && p->id == q->id;
    return park_same_lane(a, b) && a->generation == b->generation && a->from == b->from &&
           a->to == b->to && a->tablet_first == b->tablet_first &&
           a->tablet_count == b->tablet_count;
}

/* Puts q in the place of an older request that same() takes for the same. Returns the older one, or
 * NULL: there is none. */
static struct request *replace(struct request_list *l, struct request *q,
                               bool (*same)(const struct request *, const struct request *))
{
    for (struct request **at = &l->head; *at != NULL; at = &(*at)->next) {
        struct request *o = *at;
        if (!same(o, q))
            continue;
        q->next = o->next;
        *at = q;
        if (l->tail == o)
            l->tail = q;
        SHOAL_ASSERT((q->next == NULL) == (l->tail == q));
        o->next = NULL;
        return o;
    }
    return NULL;
}

bool park_lane_waits(const struct request_list *l, const struct push_record *r)
{
    for (const struct request *q = l->head; q != NULL; q = q->next)
        if (park_same_lane(&q->push.r, r))
            return true;
    return false;
}

/* True when q now waits: in the place of an older copy, behind its own lane (1.), or because all
 * pushes wait. */
static bool put_behind(struct shard *s, struct request *q)
{
    struct park *p = &s->park;
    span_turn(s, &q->span, WIRE_SPAN_ROWS);
    struct request *older = replace(&p->pushes, q, same_push);
    if (older != NULL) {
        /* its sender sent again and waits for the newer id */
        request_give(&s->pool, older);
        return true;
    }
    bool behind = table_set_has(&p->short_of_room, q->push.r.table) ||
                  park_lane_waits(&p->pushes, &q->push.r);
    if (behind)
        request_append(&p->pushes, q);
    return behind;
}

void park_enter(struct shard *s, struct request *q)
{
    const struct push_record *r = &q->push.r;
    if (put_behind(s, q))
        return;
    if (!engine_warm(s->engine, r->table, r->keys, r->key_count)) {
        s->counts.cold_pushes++;
        request_append(&s->park.pushes, q);
    } else if (push_group_admit(s, q) == SHOAL_E_BUSY) {
        park_short(s, engine_short_tables(s->engine));
        request_append(&s->park.pushes, q);
    }
}

/* ---- pulls ---- */

/* Pulls of no lane (evaluation, tools) differ by their ids. */
static bool same_pull(const struct request *a, const struct request *b)
{
    return a->peer == b->peer && a->pull.run == b->pull.run && a->pull.table == b->pull.table &&
           request_same_pull(a, b) && (a->pull.lane != UINT32_MAX || a->id == b->id);
}

void park_pull(struct shard *s, struct request *q)
{
    SHOAL_ASSERT(q->type == WIRE_TYPE_PULL && q->pull.parked);
    struct request *older = replace(&s->park.pulls, q, same_pull);
    if (older != NULL)
        request_give(&s->pool, older);
    else
        request_append(&s->park.pulls, q);
}

void park_expire(struct shard *s, uint64_t before_ns, struct request_list *out)
{
    struct request_list all = s->park.pulls;
    struct request *q;
    s->park.pulls = (struct request_list){0};
    while ((q = request_pop(&all)) != NULL)
        if (q->arrived_ns < before_ns)
            request_append(out, q);
        else
            request_append(&s->park.pulls, q);
}

void park_peer_gone(struct shard *s, peer_t peer, struct request_list *out)
{
    struct request_list all = s->park.pulls;
    struct request *q;
    s->park.pulls = (struct request_list){0};
    while ((q = request_pop(&all)) != NULL)
        request_append(q->peer == peer ? out : &s->park.pulls, q);
}

static uint32_t count(const struct request_list *l)
{
    uint32_t n = 0;
    for (const struct request *q = l->head; q != NULL; q = q->next)
        n++;
    return n;
}

uint32_t park_count(const struct shard *s)
{
    uint32_t n = count(&s->park.pushes) + count(&s->park.pulls);
    SHOAL_ASSERT(n <= request_pool_used(&s->pool));
    return n;
}

/* ---- purge ---- */

static void purge_list(struct shard *s, struct request_list *l)
{
    struct request_list all = *l;
    struct request *q;
    *l = (struct request_list){0};
    while ((q = request_pop(&all)) != NULL) {
        uint32_t mode, lanes;
        bool pull = q->type == WIRE_TYPE_PULL;
        uint64_t run = q->push.r.run;
        if (pull)
            run = q->pull.run;
        if (engine_run_mode(s->engine, run, &mode, &lanes) == 0 ||
            (pull ? q->pull.lane == UINT32_MAX : request_of_no_run(q)))
            request_append(l, q);
        else
            shard_refuse_request(s, q, SHOAL_E_OLD_RUN, "this run was dropped or replaced");
    }
}

/* A pull at a gate whose run is gone is taken out at the next tick and refused there. */
void park_purge(struct shard *s)
{
    SHOAL_ASSERT(s->group.head == NULL);
    s->park.purge_due = false;
    bsp_purge(s);
    purge_list(s, &s->hold.queue);
    purge_list(s, &s->park.pushes);
    purge_list(s, &s->park.pulls);
    purge_list(s, &s->arrived);
}

void park_tables_gone(struct shard *s, struct table_set tables)
{
    /* park_purge leaves requests of no run, and of runs of other tables, in each of them */
    struct request_list *const all[] = {&s->park.pulls, &s->arrived, &s->hold.queue,
                                        &s->park.pushes};
    struct request *q;
    park_purge(s);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct request_list was = *all[i];
        *all[i] = (struct request_list){0};
        while ((q = request_pop(&was)) != NULL) {
            uint32_t table = q->push.r.table;
            if (q->type == WIRE_TYPE_PULL)
                table = q->pull.table;
            if (table_set_has(&tables, table))
                shard_refuse_request(s, q, SHOAL_E_NO_TABLE, "the table is gone");
            else
                request_append(all[i], q);
        }
    }
}

void park_purge_soon(struct shard *s)
{
    s->park.purge_due = true;
    env_timer_start(s->env, &s->park.timer, 0);
}
