/* bsp.c: holds and releases the pushes of a clock.
 *
 * 1. Everything that engine_admit_push could refuse, except for a full disk, is refused before a
 *    push is held: a clock is released whole, in lane order. [test:
 *    wrong_push_is_refused_before_it_is_held]
 * 2. When the disk does stop a release, the rest of the clock's parts are refused with it. So the
 *    applied parts are a prefix in lane order, and the others follow when they are sent again.
 *    [test: clock_that_the_disk_stops_half_way_is_refused_from_there_on]
 * 3. Parts of one lane are disjoint and of one batch. [assert: part_put, part_back] [test:
 *    second_push_of_a_held_batch_replaces_the_first]
 * 4. When a journal that is full or memory that is short stops a release (BUSY), the rest stays
 *    held and is tried again: the applied parts are a prefix in lane order then, too. [test:
 *    clock_that_finds_no_room_half_way_goes_on_later] */
#include "server/shard/bsp.h"

#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"
#include "server/shard/park.h"
#include "server/shard/push_group.h"

#include <inttypes.h>
#include <stdlib.h>

static struct bsp_hold *hold_of(struct bsp *b, uint64_t run, uint32_t table)
{
    struct bsp_hold *h = b->hold;
    while (h != NULL && (h->run != run || h->table != table))
        h = h->next;
    return h;
}

static struct bsp_hold *hold_new(struct bsp *b, uint64_t run, uint32_t table, uint32_t lanes)
{
    SHOAL_ASSERT(lanes > 0 && lanes <= LIMIT_LANES);
    struct bsp_hold *h = calloc(1, sizeof *h + lanes * sizeof h->lane[0]);
    if (h == NULL)
        return NULL;
    h->run = run;
    h->table = table;
    h->lanes = lanes;
    h->next = b->hold;
    b->hold = h;
    return h;
}

/* Checks 1.: keys unique, sorted and inside the covered tablets; gradients valid. */
static int check(struct engine *g, const struct push_record *r, const struct table_schema *schema,
                 struct err *e)
{
    uint64_t before = 0;
    for (uint32_t i = 0; i < r->key_count; i++) {
        uint64_t mixed = key_mix(r->keys[i]);
        uint32_t tablet = key_tablet(mixed, schema->tablet_bits);
        if ((i > 0 && mixed <= before) || tablet - r->tablet_first >= r->tablet_count)
            return err_set(e, SHOAL_E_MALFORMED,
                           "push of lane %u batch %" PRIu64
                           ": key %u is out of order or outside the covered tablets",
                           r->lane, r->to, i);
        before = mixed;
    }
    int rc = engine_check_body(g, r, e);
    if (rc)
        return rc;
    if (!(r->lr_scale >= 0 && r->lr_scale <= LIMIT_GRADIENT) || r->from >= r->to)
        return err_set(e, SHOAL_E_MALFORMED, "push of lane %u: lr_scale or (from, to] out of range",
                       r->lane);
    return 0;
}

static struct request *part_take(struct bsp_hold *h, struct bsp_lane *lane, struct request **at)
{
    struct request *q = *at;
    *at = q->next;
    q->next = NULL;
    SHOAL_ASSERT(lane->tablets >= q->push.r.tablet_count);
    lane->tablets -= q->push.r.tablet_count;
    SHOAL_ASSERT((lane->part == NULL) == (lane->tablets == 0));
    SHOAL_ASSERT(h->held > 0);
    h->held--;
    return q;
}

/* True when q ends before the next part begins. */
static bool apart(const struct request *q, const struct request *behind)
{
    const struct push_record *r = &q->push.r;
    return behind == NULL || r->tablet_first + r->tablet_count <= behind->push.r.tablet_first;
}

/* Puts the first part back to its place. */
static void part_back(struct bsp_hold *h, struct bsp_lane *lane, struct request *q)
{
    SHOAL_ASSERT(apart(q, lane->part)); /* 3. */
    q->next = lane->part;
    lane->part = q;
    lane->tablets += q->push.r.tablet_count;
    h->held++;
}

static bool overlap(const struct push_record *a, const struct push_record *b)
{
    return a->tablet_first < b->tablet_first + b->tablet_count &&
           b->tablet_first < a->tablet_first + a->tablet_count;
}

/* Adds q to the lane's parts (3.). The sender of a replaced part needs no answer: it sent again, or
 * it is gone. */
static void part_put(struct shard *s, struct bsp_hold *h, struct request *q)
{
    const struct push_record *r = &q->push.r;
    struct bsp_lane *lane = &h->lane[r->lane];
    for (struct request **at = &lane->part; *at != NULL;)
        if ((*at)->push.r.to != r->to || overlap(&(*at)->push.r, r))
            request_give(&s->pool, part_take(h, lane, at));
        else
            at = &(*at)->next;
    SHOAL_ASSERT(lane->part == NULL || lane->to == r->to); /* 3. */
    const struct request *before = NULL;
    struct request **at = &lane->part;
    for (; *at != NULL && (*at)->push.r.tablet_first < r->tablet_first; at = &(*at)->next)
        before = *at;
    SHOAL_ASSERT((before == NULL || apart(before, q)) && apart(q, *at)); /* 3. */
    q->next = *at;
    *at = q;
    lane->to = r->to;
    lane->seen = MAX(r->to, lane->seen);
    lane->tablets += r->tablet_count;
    h->held++;
}

/* True when every led tablet has the lane's batch in a part held here or is past it already. Some
 * of a batch's parts may be applied and answered before, when the disk stopped a clock half way or
 * the map changed; those are not sent again. */
static bool lane_whole(const struct shard *s, const struct bsp_hold *h, uint32_t i)
{
    const struct bsp_lane *lane = &h->lane[i];
    const struct lead_range *range = &s->lead.range[h->table];
    uint32_t at = range->first;
    if (lane->tablets == range->count)
        return true;
    for (const struct request *q = lane->part; q != NULL; q = q->next) {
        const struct push_record *r = &q->push.r;
        if (engine_mark_range(s->engine, h->run, i, h->table, at, r->tablet_first - at) < lane->to)
            return false;
        at = r->tablet_first + r->tablet_count;
    }
    return engine_mark_range(s->engine, h->run, i, h->table, at, range->first + range->span - at) >=
           lane->to;
}

/* The clock that can be released: the smallest batch held, when every lane has the whole of a batch
 * or is past that clock; else 0. */
static uint64_t complete_clock(const struct shard *s, const struct bsp_hold *h)
{
    uint64_t clock = UINT64_MAX;
    for (uint32_t i = 0; i < h->lanes; i++)
        if (h->lane[i].part != NULL && h->lane[i].to < clock)
            clock = h->lane[i].to;
    if (clock == UINT64_MAX)
        return 0;
    SHOAL_ASSERT(clock > 0); /* 0 means that there is none */
    for (uint32_t i = 0; i < h->lanes; i++) {
        const struct bsp_lane *lane = &h->lane[i];
        bool whole = lane->part != NULL && lane_whole(s, h, i);
        if (!whole && engine_mark(s->engine, h->run, i, h->table) < clock)
            return 0;
    }
    return clock;
}

/* True when all rows of a clock are in memory. Every part asks each time, for asking keeps rows in
 * memory that have already come. */
static bool clock_warm(struct shard *s, struct bsp_hold *h, uint64_t clock)
{
    bool warm = true;
    for (uint32_t i = 0; i < h->lanes; i++)
        for (const struct request *q = h->lane[i].part; q != NULL && h->lane[i].to == clock;
             q = q->next)
            warm &= engine_warm(s->engine, h->table, q->push.r.keys, q->push.r.key_count);
    if (!warm && h->asked != clock)
        s->counts.cold_pushes++;
    h->asked = clock;
    return warm;
}

/* Returns false when the engine has no room for the rest of the clock now (4.). */
static bool admit_clock(struct shard *s, struct bsp_hold *h, uint64_t clock)
{
    int rc = 0;
    for (uint32_t i = 0; i < h->lanes; i++) {
        struct bsp_lane *lane = &h->lane[i];
        while (lane->part != NULL && lane->to == clock) {
            struct request *q = part_take(h, lane, &lane->part);
            if (rc) {
                /* 2. */
                shard_refuse_request(s, q, rc, "the shard stopped within this clock; send again");
            } else if ((rc = push_group_admit(s, q)) == SHOAL_E_BUSY) {
                part_back(h, lane, q);
                park_short(s, engine_short_tables(s->engine));
                return false;
            }
        }
    }
    return true;
}

/* True when tablets [first, first + count) have batch `to` of the lanes before `lane` and the batch
 * before it of all others: the lane's part is then the next one in order. */
static bool next_in_order(const struct engine *g, uint64_t run, uint32_t table, uint32_t lanes,
                          uint32_t lane, uint64_t to, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < lanes; i++)
        if (engine_mark_range(g, run, i, table, first, count) < (i < lane ? to : to - 1))
            return false;
    return true;
}

/* True when each lane has pushed of this clock. A worker pushes it once every shard has
 * acknowledged the whole batch before, so no lane has to go on from further back. */
static bool all_pushed(const struct shard *s, const struct bsp_hold *h, uint64_t to)
{
    for (uint32_t i = 0; i < h->lanes; i++) {
        const struct bsp_lane *lane = &h->lane[i];
        /* also after the lane's fence was raised again */
        bool held = lane->part != NULL && lane->to >= to;
        if (lane->seen < to && !held && engine_mark(s->engine, h->run, i, h->table) < to)
            return false;
    }
    return true;
}

bool bsp_next(struct shard *s, const struct wire_PUSH *w)
{
    uint32_t mode, lanes;
    if (engine_run_mode(s->engine, w->run, &mode, &lanes) != 0 || mode != WIRE_BSP ||
        w->lane >= lanes || w->to == 0 || engine_table(s->engine, w->table) == NULL ||
        w->generation != engine_lane_generation(s->engine, w->run, w->lane))
        return false;
    struct bsp_hold *h = hold_of(&s->bsp, w->run, w->table);
    if (h == NULL && (h = hold_new(&s->bsp, w->run, w->table, lanes)) == NULL)
        return false;
    if (w->to > h->lane[w->lane].seen)
        h->lane[w->lane].seen = w->to;
    return all_pushed(s, h, w->to) && next_in_order(s->engine, w->run, w->table, lanes, w->lane,
                                                    w->to, w->tablet_first, w->tablet_count);
}

/* Takes out the first part that is next in order and whose rows are in memory; NULL: there is
 * none. */
static struct request *next_take(struct shard *s, struct bsp_hold *h, struct bsp_lane **of)
{
    for (uint32_t i = 0; i < h->lanes; i++)
        for (struct request **at = &h->lane[i].part; *at != NULL; at = &(*at)->next) {
            const struct push_record *r = &(*at)->push.r;
            if (!all_pushed(s, h, r->to) ||
                !next_in_order(s->engine, h->run, h->table, h->lanes, i, r->to, r->tablet_first,
                               r->tablet_count) ||
                !engine_warm(s->engine, h->table, r->keys, r->key_count))
                continue;
            *of = &h->lane[i];
            return part_take(h, *of, at);
        }
    return NULL;
}

/* While the pool is pressed, parts are applied before their clock is complete where the order
 * allows it. */
static void release_early(struct shard *s, struct bsp_hold *h)
{
    struct bsp_lane *lane;
    struct request *q;
    while (request_pool_pressed(&s->pool) && (q = next_take(s, h, &lane)) != NULL)
        if (push_group_admit(s, q) == SHOAL_E_BUSY) {
            part_put(s, h, q);
            park_short(s, engine_short_tables(s->engine));
            return;
        }
}

static void release(struct shard *s, struct bsp_hold *h)
{
    uint64_t clock;
    while ((clock = complete_clock(s, h)) != 0 && clock_warm(s, h, clock) &&
           admit_clock(s, h, clock))
        ;
    release_early(s, h);
}

void bsp_retry(struct shard *s)
{
    for (struct bsp_hold *h = s->bsp.hold; h != NULL; h = h->next)
        release(s, h);
}

void bsp_push(struct shard *s, struct request *q, uint32_t lanes)
{
    const struct push_record *r = &q->push.r;
    const struct table_schema *schema = table_schema_of(engine_table(s->engine, r->table));
    struct err e = {0};
    if (r->lane >= lanes) {
        shard_refuse_request(s, q, SHOAL_E_MALFORMED, "the run has no lane of this number");
        return;
    }
    uint64_t mark = engine_mark(s->engine, r->run, r->lane, r->table);
    if (r->generation != engine_lane_generation(s->engine, r->run, r->lane)) {
        shard_refuse_request(s, q, SHOAL_E_FENCED,
                             "the lane has another generation: it was given to another worker");
    } else if (r->to <= mark) {
        q->push.plan.skipped = r->tablet_count;
        push_group_answer_later(s, q, 0, mark);
    } else if (r->from > mark) {
        push_group_answer_later(s, q, SHOAL_E_GAP, mark);
    } else if (check(s->engine, r, schema, &e)) {
        shard_refuse_request(s, q, e.code, e.text);
    } else {
        struct bsp_hold *h = hold_of(&s->bsp, r->run, r->table);
        if (h == NULL && (h = hold_new(&s->bsp, r->run, r->table, lanes)) == NULL) {
            shard_refuse_request(s, q, SHOAL_E_NOMEM, "no memory to hold a push; send again later");
            return;
        }
        SHOAL_ASSERT(h->lanes == lanes);
        part_put(s, h, q);
        span_turn(s, &q->span, WIRE_SPAN_CLOCK);
        release(s, h);
    }
}

static void refuse_lane(struct shard *s, struct bsp_hold *h, uint32_t lane, int status,
                        const char *text)
{
    while (h->lane[lane].part != NULL)
        shard_refuse_request(s, part_take(h, &h->lane[lane], &h->lane[lane].part), status, text);
    SHOAL_ASSERT(h->lane[lane].tablets == 0);
}

void bsp_fenced(struct shard *s, uint64_t run, uint32_t lane, uint64_t generation)
{
    for (struct bsp_hold *h = s->bsp.hold; h != NULL; h = h->next) {
        if (h->run != run || lane >= h->lanes)
            continue;
        const struct request *q = h->lane[lane].part;
        /* the new owner may go on from further back than the old one was */
        h->lane[lane].seen = 0;
        SHOAL_ASSERT(q == NULL || q->push.r.generation <= generation);
        if (q != NULL && q->push.r.generation < generation)
            refuse_lane(s, h, lane, SHOAL_E_FENCED,
                        "the lane was given to another worker while this push was held");
    }
}

void bsp_lead_changed(struct shard *s)
{
    for (struct bsp_hold *h = s->bsp.hold; h != NULL; h = h->next) {
        for (uint32_t i = 0; i < h->lanes; i++)
            refuse_lane(s, h, i, SHOAL_E_AGAIN,
                        "the shard's tablets changed while this push was held; send again");
        SHOAL_ASSERT(h->held == 0);
    }
}

void bsp_purge(struct shard *s)
{
    for (struct bsp_hold **at = &s->bsp.hold; *at != NULL;) {
        struct bsp_hold *h = *at;
        uint32_t mode, lanes;
        if (engine_run_mode(s->engine, h->run, &mode, &lanes) == 0) {
            at = &h->next;
            continue;
        }
        for (uint32_t i = 0; i < h->lanes; i++)
            refuse_lane(s, h, i, SHOAL_E_OLD_RUN, "this run was dropped or replaced");
        SHOAL_ASSERT(h->held == 0); /* else the parts would stay in the pool for ever */
        *at = h->next;
        free(h);
    }
}

uint32_t bsp_held(const struct bsp *b)
{
    uint32_t held = 0;
    for (const struct bsp_hold *h = b->hold; h != NULL; h = h->next)
        held += h->held;
    return held;
}

void bsp_close(struct bsp *b)
{
    while (b->hold != NULL) {
        struct bsp_hold *h = b->hold;
        b->hold = h->next;
        free(h);
    }
}
