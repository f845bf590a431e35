/* move.c: the invariants are in move.h. */
#include "server/shard/move.h"

#include "embedding/move.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/minmax.h"
#include "server/shard/admin.h"
#include "server/shard/place.h"
#include "server/shard/push.h"
#include "server/shard/push_group.h"
#include "server/shard/shard.h"

#include <inttypes.h>
#include <string.h>

#define SYNC_NS UINT64_C(1000000) /* between two looks whether the records are on disk */
#define WAIT_NS UINT64_C(5000000) /* the giver cannot read the tablet yet, or this shard take it */
#define RESEND_NS UINT64_C(500000000) /* a request without an answer is sent again */

/* ---- the taker ---- */

/* Ends what is being taken. Records of tablets that are here already stay; the map decides. */
static void take_end(struct shard *s)
{
    struct move_take *t = &s->moves.take;
    env_timer_stop(s->env, &t->timer);
    if (t->giver != 0)
        env_disconnect(s->env, t->giver);
    *t = (struct move_take){.timer = t->timer, .next_id = t->next_id, .ahead = MOVE_AHEAD};
}

static void take_refuse(struct shard *s, int status, const char *text)
{
    struct move_take *t = &s->moves.take;
    shard_refuse(s, t->asker, WIRE_TYPE_MOVE_TAKE, t->asker_id, status, "shard %s: %s", s->name,
                 text);
    take_end(s);
}

/* Asks for the next tablets. */
static void take_ask(struct shard *s)
{
    struct move_take *t = &s->moves.take;
    struct wire *w = &s->out;
    while (t->asked < t->count && t->asked - t->taken < t->ahead) {
        w->type = WIRE_TYPE_MOVE_READ;
        w->reply = false;
        w->id = t->id[t->asked % MOVE_AHEAD] = ++t->next_id;
        w->status = 0;
        w->error[0] = 0;
        w->u.MOVE_READ =
            (struct wire_MOVE_READ){.map_epoch = t->epoch, .tablet = t->tablet[t->asked]};
        t->asked_ns = env_now_ns(s->env);
        t->asked++;
        shard_send(s, t->giver, wire_encode(w)); /* a lost one is sent again */
    }
}

/* True when the records of all tablets are on disk (2.). */
static bool take_on_disk(struct shard *s)
{
    if (s->options.engine.durability == DURABLE_MEMORY ||
        engine_synced(s->engine) >= s->moves.take.sequence)
        return true;
    (void)engine_sync_due(s->engine);
    return false;
}

static void take_step(struct shard *s)
{
    struct move_take *t = &s->moves.take;
    if (t->asker == 0 || s->fatal.code)
        return;
    if (t->taken < t->count) {
        if (env_now_ns(s->env) - t->asked_ns >= RESEND_NS)
            t->asked = t->taken;
        take_ask(s);
        env_timer_start(s->env, &t->timer, RESEND_NS);
        return;
    }
    if (!take_on_disk(s)) {
        env_timer_start(s->env, &t->timer, SYNC_NS);
        return;
    }
    shard_reply(s, WIRE_TYPE_MOVE_TAKE, t->asker_id)->u.MOVE_TAKE_reply =
        (struct wire_MOVE_TAKE_reply){t->epoch, t->rows, t->bytes};
    shard_send_reply(s, t->asker); /* it waits for the copies (copies_delay) */
    t->asker = 0;
    env_timer_stop(s->env, &t->timer);
}

static void take_cb(struct env_timer *timer)
{
    take_step(container_of(timer, struct shard, moves.take.timer));
}

void move_on_take(struct shard *s, peer_t from)
{
    const struct wire_MOVE_TAKE r = s->in.u.MOVE_TAKE;
    struct move_take *t = &s->moves.take;
    uint64_t id = s->in.id;
    const uint32_t *tablet = s->m->frame[1].data;
    bool same = t->epoch == r.map_epoch && t->count == r.tablet_count &&
                memcmp(t->tablet, tablet, r.tablet_count * sizeof *tablet) == 0;
    if (r.map_epoch <= s->lead.epoch || r.tablet_count == 0) {
        shard_refuse(s, from, WIRE_TYPE_MOVE_TAKE, id, SHOAL_E_CONFIG,
                     "shard %s has the map of epoch %" PRIu64
                     " and cannot take %u tablets for epoch %" PRIu64,
                     s->name, s->lead.epoch, r.tablet_count, r.map_epoch);
        return;
    }
    if (!same) {
        take_end(s); /* the coordinator has given the other one up */
        if (env_connect(s->env, r.endpoint, r.key, &t->giver) != 0) {
            t->giver = 0;
            shard_refuse(s, from, WIRE_TYPE_MOVE_TAKE, id, SHOAL_E_AGAIN,
                         "shard %s cannot connect to %s; ask again", s->name, r.endpoint);
            return;
        }
        t->epoch = r.map_epoch;
        t->count = r.tablet_count;
        memcpy(t->tablet, tablet, r.tablet_count * sizeof *tablet);
    }
    t->asker = from;
    t->asker_id = id;
    take_step(s);
}

/* A tablet has come. */
static int take_tablet(struct shard *s)
{
    struct move_take *t = &s->moves.take;
    const struct frame *image = &s->m->frame[1];
    struct err e = {0};
    int rc =
        engine_take(s->engine, t->tablet[t->taken], image->data, image->bytes, &t->sequence, &e);
    if (rc == 0) {
        t->heat[t->taken][HEAT_PULL] = s->in.u.MOVE_READ_reply.pull_ns;
        t->heat[t->taken][HEAT_PUSH] = s->in.u.MOVE_READ_reply.push_ns;
        t->taken++;
        t->rows += s->in.u.MOVE_READ_reply.rows;
        t->bytes += image->bytes;
        s->sequence = copies_newest(s);
    } else if (rc != SHOAL_E_BUSY && rc != SHOAL_E_AGAIN) {
        take_refuse(s, rc, e.text);
    }
    return rc;
}

/* The giver refuses tablet i, which is asked for again: later, or after those before it. */
static void take_refused(struct shard *s, uint32_t i)
{
    struct move_take *t = &s->moves.take;
    const struct wire *w = &s->in;
    if (w->status != SHOAL_E_BUSY && w->status != SHOAL_E_AGAIN) {
        take_refuse(s, w->status, wire_error(w));
        return;
    }
    if (i > t->taken)
        t->ahead = 1;
    else
        env_timer_start(s->env, &t->timer, WAIT_NS);
    t->asked = i;
}

void move_on_reply(struct shard *s, peer_t from)
{
    struct move_take *t = &s->moves.take;
    const struct wire *w = &s->in;
    uint32_t i = t->taken;
    while (i < t->asked && t->id[i % MOVE_AHEAD] != w->id)
        i++;
    if (from != t->giver || t->asker == 0 || i == t->asked)
        return;
    if (w->status != 0) {
        take_refused(s, i);
        return;
    }
    if (i > t->taken || push_group_settle(s) != 0)
        return; /* the one before was lost: all behind it are asked for again */
    if (take_tablet(s) == 0) {
        take_step(s);
    } else if (t->asker != 0) {
        t->asked = t->taken;
        env_timer_start(s->env, &t->timer, WAIT_NS);
    }
}

void move_synced(struct shard *s)
{
    if (s->moves.take.asker != 0 && s->moves.take.taken == s->moves.take.count)
        take_step(s);
}

/* ---- the giver ---- */

static void give_refuse(struct shard *s, peer_t to, uint64_t id, int status, const char *text)
{
    shard_refuse(s, to, WIRE_TYPE_MOVE_READ, id, status, "shard %s: %s", s->name, text);
}

static void given_cb(void *context, int status, const char *text, const void *image, size_t bytes,
                     uint64_t rows)
{
    struct shard *s = context;
    struct move_give *g = &s->moves.give;
    peer_t to = g->reader;
    g->reader = 0;
    g->reading = false;
    if (to == 0)
        return; /* a map has ended it */
    if (status) {
        give_refuse(s, to, g->reader_id, status, text);
        return;
    }
    uint64_t heat[HEAT_KINDS];
    heat_tablet(s, g->tablet, heat);
    shard_reply(s, WIRE_TYPE_MOVE_READ, g->reader_id)->u.MOVE_READ_reply =
        (struct wire_MOVE_READ_reply){g->epoch, g->tablet, rows, heat[HEAT_PULL], heat[HEAT_PUSH]};
    struct msg *m = wire_encode(&s->out);
    void *frame = msg_add(m, bytes);
    if (frame == NULL) {
        msg_free(m); /* out of memory: the taker asks again */
        return;
    }
    memcpy(frame, image, bytes);
    shard_send(s, to, m);
}

static int give_check(const struct shard *s, const struct wire_MOVE_READ *r, struct err *e)
{
    const struct lead *l = &s->lead;
    if (!lead_ready(l) || r->tablet >= l->tablet_count || l->shard_of[r->tablet] != l->self)
        return err_set(e, SHOAL_E_NOT_LEADER, "it does not lead tablet %u", r->tablet);
    if (r->map_epoch <= l->epoch)
        return err_set(e, SHOAL_E_CONFIG,
                       "it has the map of epoch %" PRIu64 ", the move is for epoch %" PRIu64,
                       l->epoch, r->map_epoch);
    /* a former reading may end after the map that ended its move: its image lacks later pushes */
    if (s->hold.cut != 0 || s->moves.give.reading)
        return err_set(e, SHOAL_E_BUSY, "a cut is held, or a tablet is being read; ask again");
    return 0;
}

void move_on_read(struct shard *s, peer_t from)
{
    const struct wire_MOVE_READ r = s->in.u.MOVE_READ;
    struct move_give *g = &s->moves.give;
    uint64_t id = s->in.id;
    struct err e = {0};
    int rc = give_check(s, &r, &e);
    if (rc == 0) {
        g->epoch = MAX(g->epoch, r.map_epoch); /* 1. */
        g->reader = from;
        g->reader_id = id;
        g->tablet = r.tablet;
        g->reading = true;
        rc = engine_give(s->engine, r.tablet, given_cb, s, &e);
        if (rc) {
            g->reader = 0;
            g->reading = false;
        }
    }
    if (rc)
        give_refuse(s, from, id, rc, e.text);
}

/* ---- the map ---- */

/* The freeze is over: pushes go on, those that were parked first. */
static void thaw(struct shard *s)
{
    struct request_list queue = s->hold.queue;
    struct request *q;
    s->moves.give.epoch = 0;
    s->moves.give.reader = 0;
    s->hold.queue = s->park.pushes;
    s->park.pushes = (struct request_list){0};
    while ((q = request_pop(&queue)) != NULL)
        request_append(&s->hold.queue, q);
    push_go_on(s);
}

/* Drops strays (3.), where this copy leads and nothing is being taken. */
static int strays_drop(struct shard *s, struct err *e)
{
    uint32_t tablet[WIRE_MOVE_TABLETS], count = WIRE_MOVE_TABLETS;
    int rc = 0;
    if (s->copies.role == COPIES_FOLLOWS || !engine_back(s->engine) || s->moves.take.epoch != 0 ||
        engine_place(s->engine)->map_epoch == 0)
        return 0;
    while (rc == 0 && count == WIRE_MOVE_TABLETS) { /* each look is one at all tablets */
        count = engine_strays(s->engine, tablet, WIRE_MOVE_TABLETS);
        if (count > 0)
            rc = engine_tablets_drop(s->engine, tablet, count, e);
    }
    return rc;
}

int move_map_taken(struct shard *s, bool drops, struct err *e)
{
    const struct move_take *t = &s->moves.take;
    int rc = 0;
    if (t->epoch != 0 && t->epoch <= s->lead.epoch) {
        for (uint32_t i = 0; i < t->taken; i++)
            heat_tablet_set(s, t->tablet[i], t->heat[i]);
        take_end(s);
    }
    if (drops) /* before pushes are admitted: no tablet is dropped beside them */
        rc = strays_drop(s, e);
    if (s->moves.give.epoch != 0 && s->moves.give.epoch <= s->lead.epoch)
        thaw(s);
    return rc;
}

void move_on_map(struct shard *s, peer_t from)
{
    const struct wire_MOVE_MAP r = s->in.u.MOVE_MAP;
    const struct wire_MAP_SET map = {r.map_epoch, r.tablet_count, r.cluster_high, r.cluster_low};
    const struct place_gone gone = {s->m->frame[2].data, r.gone_count};
    uint64_t id = s->in.id;
    struct err e = {0};
    int rc = 0;
    if (r.map_epoch >= s->lead.epoch) { /* else a later map has come: this one is done */
        rc = place_map(s, &map, s->m->frame[1].data, &gone, &e);
        if (rc == 0)
            rc = admin_take_map(s, &e);
        if (rc == 0)
            rc = move_map_taken(s, true, &e);
        s->sequence = copies_newest(s);
    }
    if (rc) {
        shard_refuse(s, from, WIRE_TYPE_MOVE_MAP, id, rc, "shard %s: %s", s->name, e.text);
        return;
    }
    shard_reply(s, WIRE_TYPE_MOVE_MAP, id)->u.MOVE_MAP_reply.map_epoch = s->lead.epoch;
    shard_send_reply(s, from);
}

/* ---- life ---- */

void move_init(struct shard *s)
{
    s->moves.take = (struct move_take){.timer.fire = take_cb, .ahead = MOVE_AHEAD};
}

void move_lead_end(struct shard *s)
{
    take_end(s);
    s->moves.give = (struct move_give){.reading = s->moves.give.reading};
}

void move_close(struct shard *s)
{
    move_lead_end(s);
}
