/* copies.c: the leader's part: followers, the in-sync list, the lease. */
#include "server/shard/copies.h"

#include "embedding/follow.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/shard/admin.h"
#include "server/shard/follow.h"
#include "server/shard/push_group.h"
#include "server/shard/shard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_NS_DEFAULT UINT64_C(6000000000) /* until the coordinator tells the lease */
#define RETRY_NS UINT64_C(5000000)
/* divisors of a lease: the timer's period; a FOLLOW without records is answered; a follower is
 * silent */
#define TICKS 24u
#define HOLD 6u
#define SILENCE 2u

uint64_t copies_beat_ns(const struct shard *s)
{
    if (s->copies.role == COPIES_ALONE)
        return UINT64_MAX;
    return s->copies.lease_ns / 4;
}

/* ---- the in-sync list ---- */

static bool silent(const struct shard *s, const struct copies_follower *f)
{
    return f->gone || env_now_ns(s->env) - f->heard_ns > s->copies.lease_ns / SILENCE;
}

/* The follower for whose sake the journal keeps most. */
static uint32_t slowest(const struct copies *c)
{
    uint32_t found = LIMIT_COPIES;
    for (uint32_t i = 0; i < LIMIT_COPIES; i++)
        if (i != c->place && (c->in_sync >> i & 1) != 0 &&
            (found == LIMIT_COPIES || c->follower[i].have < c->follower[found].have))
            found = i;
    return found;
}

/* Waits from now on for followers that have caught up, and no longer for those that fell back. */
static void joining_step(struct shard *s)
{
    struct copies *c = &s->copies;
    c->joining = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct copies_follower *f = &c->follower[i];
        if (i != c->place && !silent(s, f) && !f->copying && f->near)
            c->joining |= 1u << i;
    }
    c->joining &= ~c->in_sync;
}

static uint32_t wanted(const struct shard *s)
{
    const struct copies *c = &s->copies;
    uint32_t bits = 1u << c->place;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct copies_follower *f = &c->follower[i];
        bool in = (c->in_sync >> i & 1) != 0;
        bool joins = (c->joining >> i & 1) != 0 && f->have >= c->acknowledged;
        if (i != c->place && !silent(s, f) && !f->copying && (in || joins))
            bits |= 1u << i;
    }
    if (engine_records_press(s->engine) && slowest(c) < LIMIT_COPIES &&
        c->follower[slowest(c)].have < copies_newest(s))
        bits &= ~(1u << slowest(c));
    return bits;
}

/* Asks for another list, when it is to be another one and no request is under way; or sends the
 * request that is under way again. */
static void in_sync_ask(struct shard *s, uint32_t bits)
{
    struct copies *c = &s->copies;
    struct wire *w = &s->out;
    c->asked |= bits;
    if (c->asked_id == 0) {
        c->asked_id = env_random(s->env) | 1;
        c->order++;
    }
    c->asked_ns = env_now_ns(s->env);
    memset(&w->u, 0, sizeof w->u);
    w->type = WIRE_TYPE_IN_SYNC;
    w->reply = false;
    w->id = c->asked_id;
    w->status = 0;
    w->error[0] = 0;
    w->u.IN_SYNC = (struct wire_IN_SYNC){s->lead.self, c->term, bits, c->order};
    shard_send(s, s->beat.coordinator, wire_encode(w));
}

static void in_sync_step(struct shard *s)
{
    struct copies *c = &s->copies;
    if (c->role != COPIES_LEADS || !c->begun || c->over || s->beat.coordinator == 0)
        return;
    if (c->asked_id != 0) {
        if (env_now_ns(s->env) - c->asked_ns > c->lease_ns / TICKS * 2)
            in_sync_ask(s, c->wanted);
        return;
    }
    joining_step(s);
    uint32_t bits = wanted(s);
    /* a list that was refused may still be stored by a late copy of its request: the leader waits
     * for its followers until a newer request is answered */
    if (bits == (c->in_sync | 1u << c->place) && (c->asked & ~bits) == 0)
        return;
    if (c->refused && env_now_ns(s->env) - c->asked_ns < c->lease_ns / TICKS)
        return; /* the timer asks again */
    if (bits != c->wanted)
        log_info("shard %s: asks that the copies %#x be in sync, %#x are", s->name, bits,
                 c->in_sync);
    c->wanted = bits;
    in_sync_ask(s, bits);
}

/* Another copy may lead: nothing is answered until the coordinator has answered a new beat. */
static void doubt(struct shard *s)
{
    s->copies.over = true;
    s->copies.over_beat = s->beat.id;
    beat_now(s);
}

void copies_on_in_sync(struct shard *s, peer_t from)
{
    struct copies *c = &s->copies;
    if (from != s->beat.coordinator || s->in.id != c->asked_id || c->asked_id == 0 ||
        c->role != COPIES_LEADS)
        return;
    c->asked_id = 0;
    if (s->in.status == SHOAL_E_NOT_LEADER) {
        doubt(s);
        return;
    }
    c->refused = s->in.status != 0;
    if (c->refused)
        return;
    c->in_sync = s->in.u.IN_SYNC_reply.in_sync;
    c->asked = 0;
    c->beat_id = s->beat.id;
    push_group_synced(s);
    in_sync_step(s);
}

/* ---- FOLLOW ---- */

struct copies_follower *copies_sender(struct shard *s, peer_t from, uint32_t shard, uint32_t copy,
                                      uint64_t term)
{
    struct copies *c = &s->copies;
    enum wire_type type = s->in.type;
    uint64_t id = s->in.id;
    if (c->role == COPIES_LEADS && term > c->term)
        doubt(s);
    if (c->role != COPIES_LEADS || term != c->term) {
        shard_refuse(s, from, type, id, SHOAL_E_NOT_LEADER,
                     "shard %s does not lead in term %" PRIu64 "; it knows term %" PRIu64, s->name,
                     term, c->term);
        return NULL;
    }
    if (shard != s->lead.self || copy >= c->count || copy == c->place) {
        shard_refuse(s, from, type, id, SHOAL_E_MALFORMED,
                     "shard %s is copy %u of %u of shard %u: the sender is no other copy of it",
                     s->name, c->place, c->count, s->lead.self);
        return NULL;
    }
    struct copies_follower *f = &c->follower[copy];
    if (f->peer == from && id <= f->id)
        return NULL; /* a late one: the follower waits for the answer to a newer one */
    if (!c->begun || !engine_back(s->engine)) {
        shard_refuse(s, from, type, id, SHOAL_E_AGAIN, "shard %s begins term %" PRIu64, s->name,
                     c->term);
        return NULL;
    }
    f->peer = from;
    f->gone = false;
    f->id = id;
    f->heard_ns = f->parked_ns = env_now_ns(s->env);
    return f;
}

/* Finds the newest record that both have; a sender that has none of a term has it only if there is
 * none from before the first term, for loads left no record then. */
static int common_with(const struct shard *s, const struct wire_FOLLOW *w, uint64_t *common)
{
    if (w->last_term != 0)
        return engine_common(s->engine, w->last_term, w->after, common);
    int rc = engine_common(s->engine, 0, UINT64_MAX, common);
    if (rc == 0 && (*common != 0 || w->after != 0))
        rc = SHOAL_E_NOT_FOUND;
    return rc;
}

void copies_on_follow(struct shard *s, peer_t from)
{
    const struct wire_FOLLOW w = s->in.u.FOLLOW;
    struct copies_follower *f = copies_sender(s, from, w.shard, w.copy, w.term);
    uint64_t common;
    if (f == NULL)
        return;
    copies_cut_end(s, f);
    f->waits = COPIES_RECORDS;
    f->have = 0;
    f->near = false;
    if (common_with(s, &w, &common)) {
        copies_follower_refuse(f, SHOAL_E_NOT_FOUND, "its records do not lead to those here");
    } else if (common < w.after) {
        copies_answer(f, common, NULL, 0);
    } else {
        f->have = w.after;
        f->near = w.after >= f->goal || w.after == copies_newest(s);
        copies_serve_one(f);
    }
    copies_keep(s);
    push_group_synced(s);
    in_sync_step(s);
}

void copies_peer_gone(struct shard *s, peer_t peer)
{
    struct copies *c = &s->copies;
    for (uint32_t i = 0; i < LIMIT_COPIES; i++)
        if (c->follower[i].peer == peer) {
            c->follower[i].gone = true;
            c->follower[i].waits = COPIES_NOTHING;
            in_sync_step(s);
        }
}

/* ---- terms ---- */

/* Journals the beginning of the term; the timer calls again until that is done. */
static void term_begin(struct shard *s)
{
    struct copies *c = &s->copies;
    struct err e = {0};
    if (c->begun || !engine_back(s->engine) || push_group_settle(s) != 0)
        return;
    int rc = engine_tail(s->engine, COPIES_TAIL_BYTES, &e);
    if (rc == 0 && engine_last_term(s->engine) < c->term)
        rc = engine_term_begin(s->engine, c->term, &e);
    if (rc == 0)
        rc = admin_take_map(s, &e);
    if (rc == SHOAL_E_AGAIN || rc == SHOAL_E_BUSY)
        return;
    if (rc) {
        shard_fatal(s, &e);
        return;
    }
    c->begun = true;
    s->sequence = copies_newest(s);
    log_info("shard %s: leads from record %" PRIu64 " on, in term %" PRIu64, s->name, s->sequence,
             c->term);
    copies_keep(s);
    copies_serve(s);
    push_group_synced(s);
    beat_now(s); /* tells the term of its last record */
}

static void lead_begin(struct shard *s, const struct wire_SHARD_BEAT_reply *r)
{
    struct copies *c = &s->copies;
    if (c->role == COPIES_FOLLOWS)
        follow_stop(s);
    copies_replies_drop(c);
    c->role = COPIES_LEADS;
    c->begun = c->over = false;
    c->term = r->term;
    c->in_sync = r->in_sync;
    c->asked = c->joining = c->wanted = 0;
    c->refused = false;
    c->order = 0;
    c->acknowledged = copies_newest(s);
    c->asked_id = c->lease_until_ns = 0;
    for (uint32_t i = 0; i < LIMIT_COPIES; i++) {
        struct copies_follower *f = &c->follower[i];
        copies_cut_end(s, f);
        f->peer = 0;
        f->gone = false;
        f->waits = COPIES_NOTHING;
        f->have = 0;
        f->goal = UINT64_MAX;
        f->near = false;
        f->heard_ns = env_now_ns(s->env); /* it has not heard of the term yet */
    }
    term_begin(s);
    env_timer_start(s->env, &c->timer, RETRY_NS);
}

static void lead_told(struct shard *s, const struct wire_SHARD_BEAT_reply *r, uint64_t beat_id,
                      uint64_t sent_ns)
{
    struct copies *c = &s->copies;
    bool other = c->role != COPIES_LEADS || c->term != r->term;
    if (other) {
        c->map_due = r->map_epoch;
        lead_begin(s, r);
    } else if (beat_id > c->over_beat) {
        c->over = false; /* a coordinator that had just started had refused it */
    }
    if (sent_ns != 0)
        c->lease_until_ns = MAX(c->lease_until_ns, sent_ns + c->lease_ns - c->lease_ns / 10);
    else if (beat_id == 0)
        beat_now(s); /* told unasked: the lease counts from a beat */
    /* a reply that was made before the list changed must not make it shorter */
    if (other || (c->asked_id == 0 && c->asked == 0 && beat_id > c->beat_id))
        c->in_sync = r->in_sync;
    else
        c->in_sync |= r->in_sync;
    push_group_synced(s);
    in_sync_step(s);
}

static void list_refuse(struct shard *s, struct request_list *l)
{
    struct request *q;
    while ((q = request_pop(l)) != NULL)
        shard_refuse_request(s, q, SHOAL_E_NOT_LEADER, "another copy leads now");
}

/* Refuses all that waits here: another copy leads. Returns true when work of the engine is under
 * way that left no record. */
static bool lead_end(struct shard *s)
{
    struct copies *c = &s->copies;
    struct request_list pulls = {0};
    c->over = true;
    push_group_settle(s); /* the rows follow from the records, and nothing is answered */
    list_refuse(s, &s->unsynced);
    list_refuse(s, &s->assigned);
    s->spans.waiting = 0;
    move_lead_end(s);
    list_refuse(s, &s->hold.queue);
    list_refuse(s, &s->park.pushes);
    list_refuse(s, &s->park.pulls);
    list_refuse(s, &s->arrived);
    clock_expire(&s->clock, UINT64_MAX, &pulls);
    list_refuse(s, &pulls);
    bsp_lead_changed(s);
    if (s->hold.cut != 0)
        cut_release(s);
    naming_stop(s);
    survey_tables_gone(s, TABLE_SET_ALL);
    copies_replies_drop(c);
    for (uint32_t i = 0; i < LIMIT_COPIES; i++) {
        copies_follower_refuse(&c->follower[i], SHOAL_E_NOT_LEADER, "another copy leads now");
        copies_cut_end(s, &c->follower[i]);
    }
    engine_records_keep(s->engine, UINT64_MAX);
    env_timer_stop(s->env, &c->timer);
    return !rows_go_stop(s) || s->checkpoints.loader.busy;
}

static void follow_told(struct shard *s, const struct wire_SHARD_BEAT_reply *r)
{
    struct copies *c = &s->copies;
    bool unrecorded = false;
    c->in_sync = r->in_sync;
    if (c->role == COPIES_FOLLOWS && c->term == r->term && strcmp(s->follow.leader, r->leader) == 0)
        return;
    if (c->role != COPIES_FOLLOWS)
        unrecorded = lead_end(s);
    c->role = COPIES_FOLLOWS;
    c->term = r->term;
    follow_start(s, r);
    if (unrecorded)
        follow_anew(s, "it was changed without a record");
}

void copies_told(struct shard *s, const struct wire_SHARD_BEAT_reply *r, uint64_t beat_id,
                 uint64_t sent_ns)
{
    struct copies *c = &s->copies;
    if (r->copies == 0 || r->term == 0 || r->term < c->term)
        return;
    if (r->copies > LIMIT_COPIES || r->copy >= r->copies || r->in_sync >> r->copies != 0) {
        log_warn("shard %s: the coordinator calls it copy %u of %u, in sync %#x", s->name, r->copy,
                 r->copies, r->in_sync);
        return;
    }
    c->place = r->copy;
    c->count = r->copies;
    c->min_in_sync = r->min_in_sync;
    c->lease_ns = LEASE_NS_DEFAULT;
    if (r->shard_lease_ms != 0)
        c->lease_ns = (uint64_t)r->shard_lease_ms * 1000000;
    if (r->leader[0] == 0)
        lead_told(s, r, beat_id, sent_ns);
    else
        follow_told(s, r);
}

static void copies_timer_cb(struct env_timer *t)
{
    struct shard *s = container_of(t, struct shard, copies.timer);
    struct copies *c = &s->copies;
    if (s->fatal.code || c->role != COPIES_LEADS)
        return;
    term_begin(s);
    copies_serve(s);
    for (uint32_t i = 0; i < c->count; i++) {
        struct copies_follower *f = &c->follower[i];
        if (f->waits == COPIES_RECORDS && !f->reading &&
            env_now_ns(s->env) - f->parked_ns > c->lease_ns / HOLD)
            copies_answer(f, UINT64_MAX, NULL, 0);
        if (f->copying && copies_given_up(s, f))
            copies_cut_end(s, f);
    }
    if (c->begun)
        copies_keep(s);
    in_sync_step(s);
    push_group_synced(s);
    env_timer_start(s->env, t, c->begun ? c->lease_ns / TICKS : RETRY_NS);
}

/* ---- requests ---- */

/* True for a message whose answer depends on which tablets the shard leads. */
static bool counts_tablets(enum wire_type type)
{
    switch (type) {
    case WIRE_TYPE_PUSH:
    case WIRE_TYPE_PULL:
    case WIRE_TYPE_ASSIGN:
    case WIRE_TYPE_IMAGE:
    case WIRE_TYPE_FENCE:
    case WIRE_TYPE_FENCES:
    case WIRE_TYPE_HOLD:
    case WIRE_TYPE_DIGEST:
    case WIRE_TYPE_KEYS:
    case WIRE_TYPE_NAMED:
    case WIRE_TYPE_MOVE_TAKE:
    case WIRE_TYPE_MOVE_READ:
        return true;
    default:
        return false;
    }
}

bool copies_refuse(struct shard *s, peer_t from)
{
    const struct copies *c = &s->copies;
    const struct wire *w = &s->in;
    enum wire_type type = w->type;
    bool lane = type == WIRE_TYPE_PUSH || type == WIRE_TYPE_ASSIGN || type == WIRE_TYPE_IMAGE ||
                (type == WIRE_TYPE_PULL && w->u.PULL.lane != UINT32_MAX);
    if (copies_every(w))
        return false;
    if (c->role == COPIES_FOLLOWS)
        shard_refuse(s, from, type, w->id, SHOAL_E_NOT_LEADER,
                     "shard %s follows in term %" PRIu64 "; ask for the map", s->name, c->term);
    else if (!c->begun)
        shard_refuse(s, from, type, w->id, SHOAL_E_AGAIN,
                     "shard %s begins to lead in term %" PRIu64 "; ask again", s->name, c->term);
    else if (counts_tablets(type) && s->lead.epoch < c->map_due) /* 4. */
        shard_refuse(s, from, type, w->id, SHOAL_E_AGAIN,
                     "shard %s begins to lead and waits for the map of epoch %" PRIu64
                     "; ask again",
                     s->name, c->map_due);
    else if (lane && !copies_leased(s))
        shard_refuse(s, from, type, w->id, SHOAL_E_NOT_LEADER,
                     "shard %s has not heard from the coordinator for its lease, and does not know "
                     "whether it still leads: ask for the map",
                     s->name);
    else
        return false;
    return true;
}

/* ---- life ---- */

void copies_init(struct shard *s)
{
    struct copies *c = &s->copies;
    *c = (struct copies){.timer = {.fire = copies_timer_cb}, .lease_ns = LEASE_NS_DEFAULT};
    c->reply_end = &c->reply;
    for (uint32_t i = 0; i < LIMIT_COPIES; i++)
        c->follower[i].s = s;
}

void copies_close(struct shard *s)
{
    env_timer_stop(s->env, &s->copies.timer);
    copies_replies_drop(&s->copies);
}
