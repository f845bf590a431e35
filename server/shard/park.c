/* park.c: lists of what waits for rows or room.
 *
 * 1. A push stays behind those of its run, lane and table that came before it: else the engine
 *    would call it a GAP.
 * 2. The head of a list is tried in every walk, and the engine fetches what was asked for first: so
 *    it gets on. */
#include "server/shard/park.h"

#include "proto/base/container_of.h"
#include "server/shard/pull.h"
#include "server/shard/push.h"

/* the engine says when it has made room; that the journal has some again it does not */
#define ROOM_NS UINT64_C(5000000)
#define MISSES 4u /* of one walk: requests whose rows are still not there */

static void tick_cb(struct env_timer *t)
{
    struct shard *s = container_of(t, struct shard, park.timer);
    s->park.pushes_due |= s->park.short_of_room;
    shard_tick(s);
}

void park_init(struct shard *s)
{
    s->park = (struct park){.timer = {.fire = tick_cb}};
}

void park_close(struct shard *s)
{
    env_timer_stop(s->env, &s->park.timer);
}

void park_fetched(struct shard *s)
{
    s->park.pushes_due = s->park.pulls_due = true;
    /* not from here: the engine may be in the middle of something */
    env_timer_start(s->env, &s->park.timer, 0);
}

void park_short(struct shard *s)
{
    s->park.short_of_room = true;
    if (!s->park.timer.due_ns)
        env_timer_start(s->env, &s->park.timer, ROOM_NS);
}

/* ---- pushes ---- */

static bool same_lane(const struct push_record *a, const struct push_record *b)
{
    return a->lane == b->lane && a->run == b->run && a->table == b->table;
}

static bool same_push(const struct push_record *a, const struct push_record *b)
{
    return same_lane(a, b) && a->generation == b->generation && a->from == b->from &&
           a->to == b->to && a->tablet_first == b->tablet_first &&
           a->tablet_count == b->tablet_count;
}

/* Puts q into the place of an older one that same() takes for the same; NULL: there is none, else
 * the older one. */
static struct request *replace(struct request_list *l, struct request *q,
                               bool (*same)(const struct request *, const struct request *))
{
    struct request *before = NULL;
    for (struct request *o = l->head; o != NULL; before = o, o = o->next) {
        if (!same(o, q))
            continue;
        q->next = o->next;
        *(before != NULL ? &before->next : &l->head) = q;
        if (l->tail == o)
            l->tail = q;
        o->next = NULL;
        return o;
    }
    return NULL;
}

static bool same_push_request(const struct request *a, const struct request *b)
{
    return same_push(&a->push.r, &b->push.r);
}

/* Whether q waits now: behind its own lane (1.), or because everybody does. */
static bool put_behind(struct shard *s, struct request *q)
{
    struct park *p = &s->park;
    struct request *older = replace(&p->pushes, q, same_push_request);
    if (older != NULL) {
        /* its sender sent again: the newer id is the one that is awaited */
        request_give(&s->pool, older);
        return true;
    }
    bool behind = p->short_of_room;
    for (const struct request *o = p->pushes.head; o != NULL && !behind; o = o->next)
        behind = same_lane(&o->push.r, &q->push.r);
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
    } else if (push_admit(s, q) == SHOAL_E_BUSY) {
        park_short(s);
        request_append(&s->park.pushes, q);
    }
}

static bool behind_a_miss(const struct request *const *missed, uint32_t misses,
                          const struct request *q)
{
    for (uint32_t i = 0; i < misses; i++)
        if (same_lane(&missed[i]->push.r, &q->push.r))
            return true;
    return false;
}

void park_pushes(struct shard *s)
{
    struct park *p = &s->park;
    const struct request *missed[MISSES];
    uint32_t misses = 0;
    if (s->hold.cut || s->fatal.code || !p->pushes_due)
        return; /* not at each tick: to look whether all rows are there takes milliseconds */
    p->short_of_room = p->pushes_due = false;
    bsp_retry(s);
    struct request_list all = p->pushes;
    struct request *q;
    p->pushes = (struct request_list){0};
    while ((q = request_pop(&all)) != NULL) {
        const struct push_record *r = &q->push.r;
        bool stays = p->short_of_room || misses == MISSES || behind_a_miss(missed, misses, q);
        if (!stays && !engine_warm(s->engine, r->table, r->keys, r->key_count)) {
            missed[misses++] = q;
            stays = true;
        }
        if (!stays && push_admit(s, q) == SHOAL_E_BUSY) {
            park_short(s);
            stays = true;
        }
        if (stays)
            request_append(&p->pushes, q);
    }
}

/* ---- pulls ---- */

/* A batch's pull may be several messages over different keys. Pulls of no lane (evaluation, tools)
 * are told apart by their ids. */
static bool same_pull_request(const struct request *a, const struct request *b)
{
    uint32_t n = a->pull.key_count;
    if (a->peer != b->peer || a->pull.run != b->pull.run || a->pull.table != b->pull.table ||
        a->pull.lane != b->pull.lane || a->pull.batch != b->pull.batch || n != b->pull.key_count)
        return false;
    if (a->pull.lane == UINT32_MAX)
        return a->id == b->id;
    return n == 0 ||
           (a->pull.keys[0] == b->pull.keys[0] && a->pull.keys[n - 1] == b->pull.keys[n - 1]);
}

void park_pull(struct shard *s, struct request *q)
{
    struct request *older = replace(&s->park.pulls, q, same_pull_request);
    if (older != NULL)
        request_give(&s->pool, older);
    else
        request_append(&s->park.pulls, q);
}

void park_pulls(struct shard *s)
{
    struct park *p = &s->park;
    if (!p->pulls_due)
        return;
    p->pulls_due = false;
    struct request_list all = p->pulls;
    struct request *q;
    p->pulls = (struct request_list){0};
    for (uint32_t misses = 0; ((q = request_pop(&all)) != NULL);) {
        if (misses == MISSES) {
            request_append(&p->pulls, q);
            continue;
        }
        const struct request *tail = p->pulls.tail;
        pull_try(s, q);
        misses += p->pulls.tail != tail;
    }
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
    return count(&s->park.pushes) + count(&s->park.pulls);
}
