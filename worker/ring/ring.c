/* ring.c: chunks as requests: sent, sent again, answered. */
#include "worker/ring/ring.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESEND_MS 200u
#define RESEND_MOST_MS 1000u
#define NS_PER_MS UINT64_C(1000000)

/* A chunk that was sent and is not answered. */
struct flight {
    struct exchange_chunk chunk;
    uint64_t id; /* id of the request; 0: the place is free */
    uint64_t begun_ns, due_ns;
    uint32_t tries;
};

struct ring {
    struct env *env;
    struct exchange *sum; /* owned */
    uint64_t run, number, id, wait_ns;
    bool alone;   /* it has no other member */
    bool refused; /* the next member has refused a chunk, which was logged */
    peer_t next;
    char before_key[48];
    struct flight flight[RING_FLIGHTS];
    struct env_timer again_timer, done_timer;
    struct ring_figures figures;
    void (*done)(void *owner);
    void (*stale)(void *owner, uint64_t number);
    void *owner;
};

/* ---- chunks that go -------------------------------------------------------------------------- */

static void flight_send(struct ring *r, struct flight *f)
{
    uint64_t wait_ns = MIN(r->wait_ns << MIN(f->tries, 8u), RESEND_MOST_MS * NS_PER_MS);
    struct wire w = {.type = WIRE_TYPE_RING_CHUNK, .id = f->id};
    w.u.RING_CHUNK = (struct wire_RING_CHUNK){.run = r->run,
                                              .ring = r->number,
                                              .step = f->chunk.step,
                                              .chunk = f->chunk.chunk,
                                              .hop = f->chunk.hop,
                                              .weight = f->chunk.weight,
                                              .floats = f->chunk.floats,
                                              .values = (uint32_t)f->chunk.values,
                                              .refused = f->chunk.refused};
    f->due_ns = env_now_ns(r->env) + wait_ns;

    struct msg *m = wire_encode(&w);
    void *values = msg_add(m, (size_t)f->chunk.floats * half_bytes(f->chunk.values));
    if (values == NULL) { /* no memory now: it is sent when it is due again */
        msg_free(m);
        return;
    }
    exchange_values(r->sum, &f->chunk, values);
    if (f->tries++ == 0) {
        r->figures.chunks++;
        r->figures.bytes += msg_bytes(m);
    } else {
        r->figures.again++;
    }
    (void)env_send(r->env, r->next, m); /* a lost message is sent again */
}

/* Sends what is due, as far as there are free places. */
static void ring_pump(struct ring *r)
{
    bool flies = false;
    for (uint32_t i = 0; i < RING_FLIGHTS; i++) {
        struct flight *f = &r->flight[i];
        if (f->id != 0 && !exchange_wanted(r->sum, &f->chunk))
            f->id = 0;
        if (f->id == 0 && exchange_next(r->sum, &f->chunk)) {
            f->id = ++r->id;
            f->begun_ns = env_now_ns(r->env);
            f->tries = 0;
            flight_send(r, f);
        }
        flies |= f->id != 0;
    }
    if (flies && r->again_timer.due_ns == 0)
        env_timer_start(r->env, &r->again_timer, r->wait_ns);
}

static void again_fire(struct env_timer *t)
{
    struct ring *r = container_of(t, struct ring, again_timer);
    uint64_t now = env_now_ns(r->env);
    for (uint32_t i = 0; i < RING_FLIGHTS; i++) {
        struct flight *f = &r->flight[i];
        if (f->id != 0 && f->due_ns <= now && exchange_wanted(r->sum, &f->chunk))
            flight_send(r, f);
    }
    ring_pump(r);
}

/* ---- its life -------------------------------------------------------------------------------- */

static void done_fire(struct env_timer *t)
{
    struct ring *r = container_of(t, struct ring, done_timer);
    r->done(r->owner);
}

int ring_open(const struct ring_options *options, struct ring **out, struct err *e)
{
    struct ring *r = calloc(1, sizeof *r);
    if (r == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a ring");
    uint32_t resend_ms = options->resend_ms;
    if (resend_ms == 0)
        resend_ms = RESEND_MS;
    *r = (struct ring){.env = options->env,
                       .run = options->run,
                       .number = options->ring,
                       .wait_ns = resend_ms * NS_PER_MS,
                       .alone = options->sum.shape.members == 1,
                       .again_timer.fire = again_fire,
                       .done_timer.fire = done_fire,
                       .done = options->done,
                       .stale = options->stale,
                       .owner = options->owner};
    (void)snprintf(r->before_key, sizeof r->before_key, "%s", options->before_key);

    int rc = exchange_new(&options->sum, &r->sum, e);
    if (rc != 0)
        goto failed;
    if (!r->alone)
        rc = env_connect(r->env, options->next_endpoint, options->next_key, &r->next);
    if (rc != 0) {
        (void)err_set(e, rc, "the next worker of the ring, at %s, cannot be connected to: %s",
                      options->next_endpoint, err_text(rc));
        goto failed;
    }
    *out = r;
    return 0;

failed:
    exchange_free(r->sum);
    free(r);
    return rc;
}

static void ring_settle(struct ring *r, uint64_t step)
{
    ring_pump(r);
    if (exchange_step(r->sum) > step)
        env_timer_start(r->env, &r->done_timer, 0);
}

void ring_reduce(struct ring *r, const struct exchange_part *part)
{
    uint64_t step = exchange_step(r->sum);
    exchange_begin(r->sum, part);
    ring_settle(r, step);
}

void ring_close(struct ring *r)
{
    if (r == NULL)
        return;
    env_timer_stop(r->env, &r->again_timer);
    env_timer_stop(r->env, &r->done_timer);
    if (!r->alone)
        env_disconnect(r->env, r->next);
    exchange_free(r->sum);
    free(r);
}

uint64_t ring_step(const struct ring *r)
{
    return exchange_step(r->sum);
}

const float *ring_sum(const struct ring *r, uint64_t *weight)
{
    return exchange_sum(r->sum, weight);
}

bool ring_refused(const struct ring *r)
{
    return exchange_refused(r->sum);
}

const float *ring_begun(const struct ring *r, uint64_t *weight)
{
    return exchange_begun(r->sum, weight);
}

uint64_t ring_waits_ns(const struct ring *r)
{
    uint64_t now = env_now_ns(r->env), longest = 0;
    for (uint32_t i = 0; i < RING_FLIGHTS; i++)
        if (r->flight[i].id != 0 && exchange_wanted(r->sum, &r->flight[i].chunk))
            longest = MAX(longest, now - r->flight[i].begun_ns);
    return longest;
}

struct ring_figures ring_figures(const struct ring *r)
{
    return r->figures;
}

/* ---- chunks that come ------------------------------------------------------------------------ */

/* A chunk of this ring and run, from the member before, in the ring's form; else the reason. */
static int chunk_admit(const struct ring *r, peer_t from, const struct wire *w, struct err *e)
{
    const struct wire_RING_CHUNK *q = &w->u.RING_CHUNK;
    const struct env_who *who = env_who(r->env, from);
    if (who->role != ROLE_LOCAL && strcmp(who->key, r->before_key) != 0)
        return err_set(e, SHOAL_E_DENIED,
                       "the key %s is not that of the worker before this one in ring %" PRIu64,
                       who->name, r->number);
    if (q->run != r->run || q->ring < r->number)
        return err_set(e, SHOAL_E_OLD_RUN,
                       "a chunk of ring %" PRIu64 " of run %" PRIu64 ", this worker is in ring "
                       "%" PRIu64 " of run %" PRIu64,
                       q->ring, q->run, r->number, r->run);
    if (q->ring > r->number)
        return err_set(e, SHOAL_E_AGAIN, "this worker is in ring %" PRIu64 " still", r->number);
    return 0;
}

static void chunk_answer(struct ring *r, peer_t to, const struct wire *w, int rc,
                         const struct err *e)
{
    struct wire reply;
    wire_reply_to(w, rc, &reply);
    reply.u.RING_CHUNK_reply.ring = r->number;
    if (rc != 0)
        (void)snprintf(reply.error, sizeof reply.error, "%s", e->text);
    struct msg *m = wire_encode(&reply);
    if (m != NULL)
        (void)env_send(r->env, to, m); /* the sender sends its chunk again */
}

static void chunk_taken(struct ring *r, peer_t from, const struct wire *w, const struct msg *m)
{
    const struct wire_RING_CHUNK q = w->u.RING_CHUNK;
    const struct exchange_chunk chunk = {.step = q.step,
                                         .weight = q.weight,
                                         .chunk = q.chunk,
                                         .hop = q.hop,
                                         .floats = q.floats,
                                         .values = (enum value_kind)q.values,
                                         .refused = q.refused};
    uint64_t step = exchange_step(r->sum);
    struct err e = {0};
    int rc = chunk_admit(r, from, w, &e);
    bool newer = rc == SHOAL_E_AGAIN;
    if (rc == 0) {
        env_known(r->env, from);
        rc = exchange_take(r->sum, &chunk, m->frame[1].data, &e);
    }
    chunk_answer(r, from, w, rc, &e);
    if (newer)
        r->stale(r->owner, q.ring);
    ring_settle(r, step);
}

/* The next member does not take a chunk, which is sent again in time. AGAIN: it is reached, and is
 * not in this ring yet, as it takes the network. */
static void chunk_refused(struct ring *r, struct flight *f, const struct wire *w)
{
    if (w->status == SHOAL_E_AGAIN) {
        f->begun_ns = env_now_ns(r->env);
        f->due_ns = f->begun_ns + r->wait_ns;
        f->tries = 1;
    }
    if (w->status == SHOAL_E_OLD_RUN) {
        r->stale(r->owner, w->u.RING_CHUNK_reply.ring);
    } else if (w->status != SHOAL_E_AGAIN && !r->refused) {
        log_warn("ring %" PRIu64 ": the next worker takes no chunk, which is sent again: %s",
                 r->number, wire_error(w));
        r->refused = true;
    }
}

static void chunk_answered(struct ring *r, const struct wire *w)
{
    uint64_t step = exchange_step(r->sum);
    for (uint32_t i = 0; i < RING_FLIGHTS; i++) {
        struct flight *f = &r->flight[i];
        if (f->id == 0 || f->id != w->id)
            continue;
        if (w->status == 0) {
            f->id = 0;
            exchange_arrived(r->sum, &f->chunk);
        } else {
            chunk_refused(r, f, w);
        }
        break;
    }
    ring_settle(r, step);
}

bool ring_message(struct ring *r, peer_t from, const struct wire *w, const struct msg *m)
{
    if (w->type != WIRE_TYPE_RING_CHUNK || (w->reply && (r->alone || from != r->next)))
        return false;
    if (w->reply)
        chunk_answered(r, w);
    else
        chunk_taken(r, from, w, m);
    return true;
}
