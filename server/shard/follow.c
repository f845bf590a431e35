/* follow.c: the follower's part: it takes records, goes back, or begins anew. */
#include "server/shard/follow.h"

#include "embedding/copy.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/shard/admin.h"
#include "server/shard/place.h"
#include "server/shard/shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WAIT_NS UINT64_C(5000000)    /* rows, room or a cut are waited for */
#define AGAIN_NS UINT64_C(50000000)  /* the leader cannot answer yet */
#define ANEW_NS UINT64_C(1000000000) /* a copy failed */
/* the making of a cut, or the reading of a part, may take that long */
#define COPY_NS UINT64_C(10000000000)
#define PART_BYTES UINT64_C(4194304)
#define PARTS_A_SECOND 4u /* at least so many, where the rate has a bound */
/* divisor of a lease: a request without an answer is sent again; the leader holds it for a sixth at
 * most */
#define RESEND 4u

static void go_on_in(struct shard *s, uint64_t ns)
{
    env_timer_start(s->env, &s->follow.timer, ns);
}

static void reply_drop(struct follow *f)
{
    msg_free(f->m);
    f->m = NULL;
    f->at = 0;
}

/* ---- requests ---- */

static void send(struct shard *s, struct wire *w, const void *frame, size_t bytes, bool framed)
{
    struct follow *f = &s->follow;
    w->reply = false;
    w->id = ++f->id;
    w->status = 0;
    w->error[0] = 0;
    f->asked_ns = env_now_ns(s->env);
    struct msg *m = wire_encode(w);
    if (framed) {
        void *at = msg_add(m, bytes);
        if (at != NULL && bytes > 0)
            memcpy(at, frame, bytes);
        if (at == NULL) {
            msg_free(m);
            m = NULL;
        }
    }
    shard_send(s, f->peer, m); /* a lost one is sent again */
}

static void ask_records(struct shard *s)
{
    struct follow *f = &s->follow;
    uint64_t newest = engine_sequence(s->engine);
    if (!engine_back(s->engine) || engine_acknowledged(s->engine) < newest)
        return; /* 1. on_synced, on_recovered */
    s->out.type = WIRE_TYPE_FOLLOW;
    s->out.u.FOLLOW = (struct wire_FOLLOW){.shard = s->lead.self,
                                           .copy = s->copies.place,
                                           .term = f->term,
                                           .after = newest,
                                           .last_term = engine_last_term(s->engine)};
    send(s, &s->out, NULL, 0, false);
}

static uint32_t part_bytes(const struct shard *s)
{
    uint64_t rate = s->options.copy_rate;
    if (rate == 0)
        return PART_BYTES;
    return (uint32_t)MIN(rate / PARTS_A_SECOND, PART_BYTES);
}

/* A part has come that was asked for at asked_ns. */
static void part_pay(struct shard *s, uint64_t asked_ns, uint64_t bytes)
{
    struct follow *f = &s->follow;
    if (s->options.copy_rate > 0)
        f->paid_ns =
            MAX(f->paid_ns, asked_ns) + bytes * UINT64_C(1000000000) / s->options.copy_rate;
}

/* Asks for the next part, or waits until the parts so far are paid for. */
static void ask_part(struct shard *s)
{
    struct follow *f = &s->follow;
    uint64_t now = env_now_ns(s->env);
    if (now < f->paid_ns) { /* 4. */
        go_on_in(s, f->paid_ns - now);
        return;
    }
    s->out.type = WIRE_TYPE_COPY;
    s->out.u.COPY = (struct wire_COPY){.shard = s->lead.self,
                                       .copy = s->copies.place,
                                       .term = f->term,
                                       .number = f->number,
                                       .most = part_bytes(s)};
    send(s, &s->out, f->position, f->position_bytes, true);
}

/* ---- records ---- */

/* Commits and applies the pushes of the group. False: the shard ends. */
static bool group_settle(struct shard *s)
{
    struct follow *f = &s->follow;
    if (f->grouped == 0)
        return true;
    int rc = engine_commit(s->engine);
    for (uint32_t i = 0; i < f->grouped && rc == 0; i++)
        rc = engine_apply_push(s->engine, &f->group[i].push, &f->group[i].plan);
    if (rc) {
        struct err e;
        err_set(&e, rc, "shard %s: the leader's pushes could not be written or applied (%s)",
                s->name, err_text(rc));
        shard_fatal(s, &e);
    }
    f->grouped = 0;
    return rc == 0;
}

/* Makes the leader's cut before its record is taken. False: later, a cut is being written. */
static bool cut_made(struct shard *s, const struct engine_followed *r)
{
    int rc = cut_follow(s, r->cut, r->run);
    if (rc == SHOAL_E_BUSY || rc == SHOAL_E_AGAIN)
        return false;
    if (rc)
        log_warn("shard %s: this copy has no cut %" PRIu64 ": %s", s->name, r->cut, err_text(rc));
    return true;
}

/* Drops the cut that the leader drops. False: later, it is being written. */
static bool cut_dropped(struct shard *s, uint64_t cut)
{
    if (s->hold.going == cut)
        return false;
    int rc = engine_cut_drop(s->engine, cut);
    if (rc != 0 && rc != SHOAL_E_NOT_FOUND)
        log_warn("shard %s: cut %" PRIu64 " cannot be deleted: %s", s->name, cut, err_text(rc));
    return true;
}

/* Takes one record. 0; AGAIN, BUSY: later. */
static int take_one(struct shard *s, const uint8_t *at, size_t bytes, struct err *e)
{
    struct follow *f = &s->follow;
    uint32_t kind = engine_follow_kind(at, bytes);
    int rc = 0;
    if ((!record_pushes(kind) || f->grouped == FOLLOW_GROUP) && !group_settle(s))
        return SHOAL_E_BUSY;
    struct engine_followed *r = &f->group[f->grouped];
    if (kind == RECORD_CUT || kind == RECORD_CUT_DROP)
        rc = engine_follow_peek(s->engine, at, bytes, r, e);
    if (rc == 0 && kind == RECORD_CUT && !cut_made(s, r))
        return SHOAL_E_BUSY;
    if (rc == 0 && kind == RECORD_CUT_DROP && !cut_dropped(s, r->cut))
        return SHOAL_E_BUSY;
    if (rc == 0)
        rc = engine_follow(s->engine, at, bytes, r, e);
    if (rc)
        return rc;
    f->at += r->bytes;
    f->taken++;
    f->taken_bytes += r->bytes;
    s->sequence = r->sequence;
    f->grouped += record_pushes(r->kind);
    f->tables_due |= r->kind == RECORD_TABLE || record_restores(r->kind);
    if (r->kind == RECORD_TERM)
        beat_now(s); /* only a copy that has told the term can be in sync */
    return 0;
}

/* Takes records of the reply. True: all are taken, and the reply is gone. */
static bool take(struct shard *s)
{
    struct follow *f = &s->follow;
    const struct frame *records = &f->m->frame[1];
    struct err e = {0};
    int rc = 0;
    while (rc == 0 && f->at < records->bytes)
        rc = take_one(s, (const uint8_t *)records->data + f->at, records->bytes - f->at, &e);
    if (!group_settle(s))
        return false;
    if (f->tables_due && engine_back(s->engine)) {
        f->tables_due = false;
        struct err e2 = {0};
        if (admin_take_map(s, &e2))
            log_error("shard %s: %s", s->name, e2.text);
    }
    switch (rc) {
    case 0:
        if (s->sequence >= f->last)
            f->even_ns = env_now_ns(s->env);
        reply_drop(f);
        return true;
    case SHOAL_E_AGAIN:
    case SHOAL_E_BUSY:
        go_on_in(s, WAIT_NS); /* or sooner: on_fetched, on_recovered */
        return false;
    case SHOAL_E_NOT_FOUND:
    case SHOAL_E_CORRUPT:
        follow_anew(s, e.text);
        return false;
    default:
        log_error("shard %s: cannot take the leader's records: %s", s->name, e.text);
        go_on_in(s, ANEW_NS);
        return false;
    }
}

/* ---- the engine is opened again ---- */

/* In `memory` a follower keeps the newest records, too: if it leads, the others read them there. */
static void tail_set(struct shard *s)
{
    struct err e = {0};
    uint64_t bytes = 0;
    if (s->options.engine.durability == DURABLE_MEMORY)
        bytes = COPIES_TAIL_BYTES;
    if (engine_tail(s->engine, bytes, &e) != 0)
        log_warn("shard %s: %s", s->name, e.text);
}

void follow_read_engine(struct shard *s)
{
    s->sequence = engine_sequence(s->engine);
    s->run_found = engine_newest_run(s->engine);
    s->newest_cut = 0;
    cut_find_newest(s);
}

/* was: of the engine that was closed. */
static int engine_opened(struct shard *s, struct place_kept was, struct err *e)
{
    int rc = place_again(s, was, e);
    if (rc != 0)
        return rc;
    follow_read_engine(s);
    if (admin_take_map(s, e))
        log_error("shard %s: %s", s->name, e->text);
    tail_set(s);
    beat_now(s);
    return 0;
}

static struct place_kept engine_closed(struct shard *s)
{
    struct place_kept place = place_keep(s);
    engine_close(s->engine, false);
    s->engine = NULL;
    s->moves.give.reading = false;
    SHOAL_ASSERT(s->group.head == NULL);
    copies_engine_gone(s);
    cut_engine_gone(s);
    rows_go_stop(s);
    s->audit.peer = 0;
    return place;
}

/* Ends the shard: its process starts again with what is on disk. */
static void broken(struct shard *s, const struct err *e)
{
    struct err fatal;
    err_set(&fatal, SHOAL_E_IO, "shard %s: its engine cannot be opened again: %s", s->name,
            e->text);
    shard_fatal(s, &fatal);
}

static void go_back(struct shard *s, uint64_t back)
{
    struct engine_options o = s->options.engine;
    struct err e = {0};
    if (back == 0 || back < s->copies.base || o.dir == NULL || o.durability == DURABLE_MEMORY) {
        follow_anew(s, "its newest records are not the shard's");
        return;
    }
    log_info("shard %s: drops its records behind %" PRIu64 ": no other copy has them", s->name,
             back);
    struct place_kept place = engine_closed(s);
    o.until = back;
    int rc = engine_open(&o, s->env, &s->engine, &e);
    if (rc == SHOAL_E_NOT_FOUND) { /* rows are stored that are newer */
        o.until = 0;
        rc = engine_open(&o, s->env, &s->engine, &e);
    }
    if (rc == 0)
        rc = engine_opened(s, place, &e);
    if (rc) {
        broken(s, &e);
        return;
    }
    if (s->sequence > back)
        follow_anew(s, "rows are stored that are newer than the shard's");
}

/* ---- anew ---- */

static void seed_drop(struct follow *f)
{
    engine_seed_free(f->seed);
    f->seed = NULL;
    f->number = f->bytes = f->bytes_of = f->whole_ns = 0;
    f->position_bytes = 0;
}

void follow_anew(struct shard *s, const char *why)
{
    struct follow *f = &s->follow;
    const struct engine_options o = s->options.engine;
    struct err e = {0};
    SHOAL_ASSERT(f->grouped == 0);
    log_info("shard %s: copies the leader's rows: %s", s->name, why);
    reply_drop(f);
    seed_drop(f);
    f->asked_ns = 0;
    f->anew_ns = env_now_ns(s->env);
    f->state = FOLLOW_CUT;
    if (engine_seed_begin(&o, &f->seed, &e) != 0) {
        f->seed = NULL;
        log_error("shard %s: %s", s->name, e.text);
    }
    go_on_in(s, f->seed != NULL ? 0 : ANEW_NS);
}

/* The seed is complete. */
static void seed_open(struct shard *s)
{
    struct follow *f = &s->follow;
    const struct engine_options o = s->options.engine;
    struct engine_seed *seed = f->seed;
    struct err e = {0};
    f->seed = NULL;
    f->whole_ns = env_now_ns(s->env);
    log_info("shard %s: has copied %" PRIu64 " bytes", s->name, f->bytes);
    struct place_kept place = engine_closed(s);
    if (engine_seed_open(seed, &o, s->env, &s->engine, &e) != 0 ||
        engine_opened(s, place, &e) != 0) {
        broken(s, &e);
        return;
    }
    seed_drop(f);
    f->state = FOLLOW_RECORDS;
}

static void copy_failed(struct shard *s, const struct err *e)
{
    log_error("shard %s: %s", s->name, e->text);
    seed_drop(&s->follow);
    s->follow.asked_ns = 0;
    go_on_in(s, ANEW_NS);
}

/* Asks for the next part before it takes this one: the leader reads that one meanwhile. Returns
 * false when the copy has failed: the timer begins it again. */
static bool part_take(struct shard *s, uint64_t asked_ns)
{
    struct follow *f = &s->follow;
    const struct frame *part = &s->m->frame[1], *next = &s->m->frame[2];
    const struct wire_COPY_reply r = s->in.u.COPY_reply;
    struct err e = {0};
    if (f->seed == NULL)
        return false;
    if ((f->number != 0 && r.number != f->number) || next->bytes > WIRE_COPY_POSITION) {
        err_set(&e, SHOAL_E_CORRUPT, "the leader sent a part of another cut");
        copy_failed(s, &e);
        return false;
    }
    part_pay(s, asked_ns, part->bytes);
    f->number = r.number;
    f->bytes_of = r.bytes;
    f->position_bytes = next->bytes;
    if (next->bytes > 0) {
        memcpy(f->position, next->data, next->bytes);
        ask_part(s);
    }
    if (engine_seed_take(f->seed, part->data, part->bytes, &e) != 0) {
        copy_failed(s, &e);
        return false;
    }
    f->bytes += part->bytes;
    if (next->bytes == 0)
        seed_open(s);
    return s->fatal.code == 0;
}

/* ---- the machine ---- */

/* The request under way has no answer yet, and is not to be sent again. */
static bool waits(const struct shard *s)
{
    const struct follow *f = &s->follow;
    uint64_t most = s->copies.lease_ns / RESEND;
    if (f->state == FOLLOW_CUT)
        most = COPY_NS;
    return f->asked_ns != 0 && env_now_ns(s->env) - f->asked_ns < most;
}

void follow_step(struct shard *s)
{
    struct follow *f = &s->follow;
    if (f->state == FOLLOW_IDLE || s->fatal.code)
        return;
    go_on_in(s, s->copies.lease_ns / RESEND / 4);
    if (f->m != NULL && !take(s))
        return;
    if (f->peer == 0 || waits(s))
        return;
    if (f->state == FOLLOW_RECORDS)
        ask_records(s);
    else if (f->seed != NULL)
        ask_part(s);
    else
        follow_anew(s, "the last try failed");
}

static void refused(struct shard *s)
{
    bool copies = s->follow.state == FOLLOW_CUT;
    switch (s->in.status) {
    case SHOAL_E_NOT_LEADER: /* it has not heard of its term yet, or another one leads by now */
    case SHOAL_E_AGAIN:
    case SHOAL_E_BUSY:
    case SHOAL_E_NOMEM:
        go_on_in(s, AGAIN_NS);
        return;
    default:
        follow_anew(s, wire_error(&s->in));
        if (copies)
            go_on_in(s, ANEW_NS); /* it fails for the second time */
    }
}

void follow_on_reply(struct shard *s, peer_t from)
{
    struct follow *f = &s->follow;
    const struct wire *w = &s->in;
    enum wire_type type = f->state == FOLLOW_CUT ? WIRE_TYPE_COPY : WIRE_TYPE_FOLLOW;
    if (f->state == FOLLOW_IDLE || from != f->peer || w->id != f->id || w->type != type ||
        f->asked_ns == 0)
        return; /* 3. */
    uint64_t asked_ns = f->asked_ns;
    f->asked_ns = 0;
    if (w->status) {
        refused(s);
        return;
    }
    if (type == WIRE_TYPE_COPY) {
        if (!part_take(s, asked_ns))
            return;
    } else if (w->u.FOLLOW_reply.back != UINT64_MAX) {
        go_back(s, w->u.FOLLOW_reply.back);
    } else {
        SHOAL_ASSERT(f->m == NULL);
        f->last = w->u.FOLLOW_reply.last;
        f->m = s->m;
        f->at = 0;
        s->m = NULL;
    }
    follow_step(s);
}

/* A follower that has started again takes the map that its folder keeps: without it its cuts would
 * have no marks. The coordinator sends only newer ones. */
static void map_take(struct shard *s)
{
    const struct engine_place *p = engine_place(s->engine);
    struct err e = {0};
    if (s->lead.epoch != 0 || p->map_epoch == 0)
        return;
    int rc = lead_set_map(&s->lead, p->map_epoch, p->shard_of, p->tablets);
    if (rc == 0)
        rc = admin_take_map(s, &e);
    if (rc)
        log_error("shard %s: cannot take the map of its folder: %s", s->name, err_text(rc));
}

void follow_start(struct shard *s, const struct wire_SHARD_BEAT_reply *r)
{
    struct follow *f = &s->follow;
    follow_stop(s);
    map_take(s);
    f->state = FOLLOW_RECORDS;
    f->term = r->term;
    text_copy(f->leader, sizeof f->leader, r->leader);
    text_copy(f->key, sizeof f->key, r->leader_key);
    tail_set(s);
    if (f->even_ns == 0)
        f->even_ns = env_now_ns(s->env);
    if (env_connect(s->env, f->leader, f->key, &f->peer) != 0) {
        f->peer = 0;
        log_error("shard %s: cannot connect to the leader at %s", s->name, f->leader);
    }
    log_info("shard %s: follows %s in term %" PRIu64, s->name, f->leader, f->term);
    follow_step(s);
}

void follow_stop(struct shard *s)
{
    struct follow *f = &s->follow;
    SHOAL_ASSERT(f->grouped == 0);
    env_timer_stop(s->env, &f->timer);
    if (f->peer != 0)
        env_disconnect(s->env, f->peer);
    f->peer = 0;
    f->asked_ns = 0;
    f->state = FOLLOW_IDLE;
    reply_drop(f);
    seed_drop(f);
}

void follow_beat(const struct shard *s, struct wire_SHARD_BEAT *r)
{
    const struct follow *f = &s->follow;
    uint64_t now = env_now_ns(s->env);
    if (f->state == FOLLOW_IDLE)
        return;
    /* a leader that answers does so in a sixth of the lease */
    bool even = f->state == FOLLOW_RECORDS && f->last != 0 && s->sequence >= f->last &&
                now - f->even_ns <= s->copies.lease_ns / 2;
    if (!even)
        r->lag_ms = MAX((now - f->even_ns) / 1000000, 1);
    r->record_bytes = (uint32_t)(f->taken_bytes / MAX(f->taken, 1));
    if (f->state != FOLLOW_CUT)
        return;
    r->copied = f->bytes;
    r->copy_bytes = MAX(f->bytes_of, 1); /* 1 also for a copy whose first part has not come */
    if (f->whole_ns != 0)
        now = f->whole_ns; /* it is being opened, which is no part of the copy's rate */
    r->copy_ms = (now - f->anew_ns) / 1000000;
}

void follow_wake(struct shard *s)
{
    if (s->follow.state != FOLLOW_IDLE)
        go_on_in(s, 0);
}
