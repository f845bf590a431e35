/* hold.c: holding pushes for a cut, and going back to one.
 *
 * 1. Between engine_hold and engine_go (or engine_release) no push is admitted.
 * 2. A RESTORE whose run is open already was done: it must not be done twice, the run may have
 *    moved on. */
#include "server/shard/hold.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "server/shard/group.h"
#include "server/shard/purge.h"
#include "server/shard/push.h"

#include <inttypes.h>

static void let_go(struct shard *s)
{
    struct request_list queue = s->hold.queue;
    struct request *q;
    env_timer_stop(s->env, &s->hold.timer);
    s->hold.cut = 0;
    s->hold.queue = (struct request_list){0};
    push_parked(s); /* they came before these */
    while ((q = request_pop(&queue)) != NULL)
        push_enter(s, q);
}

static void hold_timeout_cb(struct env_timer *t)
{
    struct shard *s = container_of(t, struct shard, hold.timer);
    log_warn("shard %s: cut %" PRIu64 " was held for 10 s without GO; pushes go on", s->name,
             s->hold.cut);
    engine_release(s->engine, s->hold.cut);
    let_go(s);
    group_settle(s); /* no message may come for a while, and the senders wait */
}

void hold_init(struct shard *s)
{
    s->hold = (struct hold){.timer = {.fire = hold_timeout_cb}};
}

void hold_close(struct shard *s)
{
    env_timer_stop(s->env, &s->hold.timer);
}

void hold_on_hold(struct shard *s, peer_t from, struct msg *m)
{
    struct hold *h = &s->hold;
    uint64_t cut = s->in.u.HOLD.cut, id = s->in.id;
    msg_free(m);
    if (cut == 0) {
        shard_refuse(s, from, WIRE_TYPE_HOLD, id, SHOAL_E_MALFORMED,
                     "cut 0 is none; cuts are numbered from 1");
        return;
    }
    if (h->cut != cut && (h->going == cut || h->last == cut)) {
        /* a late copy: this cut has gone on already */
        shard_reply(s, WIRE_TYPE_HOLD, id)->u.HOLD_reply.sequence =
            h->going == cut ? h->going_sequence : h->last_sequence;
        shard_send_reply(s, from);
        return;
    }
    if (h->cut && h->cut != cut) {
        engine_release(s->engine, h->cut);
        h->cut = cut; /* the queue stays: the new cut holds it on */
    } else if (h->cut == cut) {
        cut = 0;
    }
    if (cut) {
        int rc = engine_hold(s->engine, cut, &h->sequence); /* 1. */
        if (rc) {
            struct err e = {0};
            bool full = rc == SHOAL_E_NO_SPACE && engine_cut_room(s->engine, cut, &e) != 0;
            let_go(s);
            shard_refuse(s, from, WIRE_TYPE_HOLD, id, rc,
                         "shard %s cannot hold for cut %" PRIu64 ": %s", s->name, cut,
                         full ? e.text : err_text(rc));
            return;
        }
        h->cut = cut;
    }
    env_timer_start(s->env, &h->timer, HOLD_NS);
    shard_reply(s, WIRE_TYPE_HOLD, id)->u.HOLD_reply.sequence = h->sequence;
    shard_send_reply(s, from);
}

static void answer_go(struct shard *s, peer_t to, uint64_t id)
{
    const struct hold *h = &s->hold;
    if (h->last_status) {
        shard_refuse(s, to, WIRE_TYPE_GO, id, h->last_status,
                     "shard %s could not write its part of cut %" PRIu64 ": %s", s->name, h->last,
                     err_text(h->last_status));
        return;
    }
    shard_reply(s, WIRE_TYPE_GO, id)->u.GO_reply =
        (struct wire_GO_reply){h->last_sequence, h->last_rows, h->last_bytes};
    shard_send_reply(s, to);
}

static void hold_done_cb(void *context, int status, uint64_t rows, uint64_t bytes)
{
    struct shard *s = context;
    struct hold *h = &s->hold;
    SHOAL_ASSERT(h->going);
    h->last = h->going;
    h->last_status = status;
    h->last_sequence = h->going_sequence;
    h->last_rows = rows;
    h->last_bytes = bytes;
    h->going = 0;
    answer_go(s, h->asker, h->asker_id);
}

void hold_on_go(struct shard *s, peer_t from, struct msg *m)
{
    struct hold *h = &s->hold;
    uint64_t cut = s->in.u.GO.cut, id = s->in.id;
    msg_free(m);
    if (h->going == cut && cut) {
        h->asker = from;
        h->asker_id = id;
        return;
    }
    if (h->last == cut && cut && h->cut != cut) {
        answer_go(s, from, id);
        return;
    }
    if (h->cut != cut || !cut || h->going) {
        shard_refuse(s, from, WIRE_TYPE_GO, id, h->going ? SHOAL_E_BUSY : SHOAL_E_NOT_FOUND,
                     "shard %s does not hold cut %" PRIu64 " (held: %" PRIu64
                     ", being written: %" PRIu64 "); HOLD again",
                     s->name, cut, h->cut, h->going);
        return;
    }
    h->going = cut;
    h->going_sequence = h->sequence;
    h->asker = from;
    h->asker_id = id;
    int rc = engine_go(s->engine, cut, hold_done_cb, s);
    if (rc) {
        h->going = 0;
        engine_release(s->engine, cut);
        shard_refuse(s, from, WIRE_TYPE_GO, id, rc, "shard %s cannot write cut %" PRIu64 ": %s",
                     s->name, cut, err_text(rc));
    }
    let_go(s);
}

void hold_on_restore(struct shard *s, peer_t from, struct msg *m)
{
    const struct wire_RESTORE r = s->in.u.RESTORE;
    uint64_t id = s->in.id;
    uint32_t mode, lanes;
    struct err e = {0};
    msg_free(m);
    if (engine_run_mode(s->engine, r.run, &mode, &lanes) != 0) { /* 2. */
        if (s->hold.cut) {
            engine_release(s->engine, s->hold.cut);
            let_go(s);
            if (group_settle(s))
                return;
        }
        int rc = engine_restore(s->engine, r.cut, r.run, &e);
        if (rc) {
            shard_refuse(s, from, WIRE_TYPE_RESTORE, id, rc, "%s", e.text);
            return;
        }
        bool changed;
        /* the cut may hold other tables than there were */
        rc = lead_apply(&s->lead, s->engine, &changed);
        if (rc) {
            shard_refuse(s, from, WIRE_TYPE_RESTORE, id, rc, "shard %s: %s", s->name, err_text(rc));
            return;
        }
        purge_requests(s);
    }
    struct engine_stats stats;
    engine_stats_get(s->engine, &stats);
    shard_reply(s, WIRE_TYPE_RESTORE, id)->u.RESTORE_reply.rows = stats.rows;
    shard_send_reply(s, from);
}

void hold_on_cut_drop(struct shard *s, peer_t from, struct msg *m)
{
    uint64_t cut = s->in.u.CUT_DROP.cut, id = s->in.id;
    msg_free(m);
    if (cut && s->hold.cut == cut) {
        /* given up between HOLD and GO: nobody has to wait for the timer */
        engine_release(s->engine, cut);
        let_go(s);
        if (group_settle(s))
            return;
    }
    int rc = s->hold.going == cut ? SHOAL_E_BUSY : engine_cut_drop(s->engine, cut);
    if (rc && rc != SHOAL_E_NOT_FOUND) { /* dropped already: a resend */
        shard_refuse(s, from, WIRE_TYPE_CUT_DROP, id, rc,
                     "shard %s cannot drop cut %" PRIu64 ": %s", s->name, cut, err_text(rc));
        return;
    }
    if (s->hold.last == cut)
        s->hold.last = 0;
    shard_reply(s, WIRE_TYPE_CUT_DROP, id)->u.CUT_DROP_reply.cut = cut;
    shard_send_reply(s, from);
}

#define CUTS_AT_ONCE 256u

static bool unwanted(const struct wire_CUT_KEEP *r, uint64_t cut)
{
    return cut != 0 && cut < r->below && cut != r->keep;
}

/* Cuts that nobody will ever ask for: of checkpoints and best epochs given up by a coordinator that
 * then died. */
void hold_on_cut_keep(struct shard *s, peer_t from, struct msg *m)
{
    const struct wire_CUT_KEEP r = s->in.u.CUT_KEEP;
    uint64_t id = s->in.id, cut[CUTS_AT_ONCE];
    uint32_t dropped = 0;
    msg_free(m);
    if (unwanted(&r, s->hold.cut)) { /* nobody has to wait for the timer */
        engine_release(s->engine, s->hold.cut);
        let_go(s);
        if (group_settle(s))
            return;
    }
    uint32_t count = engine_cuts(s->engine, cut, CUTS_AT_ONCE);
    for (uint32_t i = 0; i < count; i++) {
        if (!unwanted(&r, cut[i]) || cut[i] == s->hold.going)
            continue;
        if (engine_cut_drop(s->engine, cut[i]) != 0) {
            log_warn("shard %s: cut %" PRIu64 " is not wanted any more and cannot be deleted",
                     s->name, cut[i]);
            continue;
        }
        s->hold.last = s->hold.last == cut[i] ? 0 : s->hold.last;
        dropped++;
    }
    if (dropped > 0)
        log_info("shard %s: %u cuts that nobody wants any more are gone", s->name, dropped);
    if (unwanted(&r, s->hold.going)) {
        shard_refuse(s, from, WIRE_TYPE_CUT_KEEP, id, SHOAL_E_BUSY,
                     "shard %s is still writing cut %" PRIu64 "; ask again", s->name,
                     s->hold.going);
        return;
    }
    shard_reply(s, WIRE_TYPE_CUT_KEEP, id)->u.CUT_KEEP_reply.dropped = dropped;
    shard_send_reply(s, from);
}
