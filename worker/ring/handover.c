/* handover.c: pieces of the network are asked for, and given. */
#include "worker/ring/handover.h"

#include "embedding/table.h"
#include "proto/base/container_of.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESEND_MS 200u
#define NS_PER_MS UINT64_C(1000000)

/* A piece of the network: the tablets of both parts come first, then weights. */
struct piece {
    uint32_t what; /* enum wire_ring_read */
    uint32_t part;
    uint64_t at;
};

struct flight {
    struct piece piece;
    uint64_t id, due_ns; /* id 0: the place is free */
};

struct handover {
    struct env *env;
    struct network *network;
    uint64_t run, ring, step, id, wait_ns;
    enum handover_what what;
    uint64_t shares;
    bool counts, skipped;
    uint64_t heard_ns; /* when an answer came, or it began */
    peer_t source;
    float *before, *now; /* owned: both parts, where they are wanted */
    struct piece next;
    bool asked; /* every piece has been asked for */
    struct flight flight[HANDOVER_FLIGHTS];
    struct env_timer timer;
    void (*done)(void *owner, int status, const char *text);
    void *owner;
};

/* ---- pieces that are asked for --------------------------------------------------------------- */

/* The kind of pieces after this one, which also says where a handover begins: after a kind that
 * there is not. WIRE_RING_KINDS: there is none. */
static uint32_t what_next(const struct handover *h, uint32_t what)
{
    if (what == WIRE_RING_KINDS && h->what != HANDOVER_WEIGHTS)
        return WIRE_RING_IMAGE;
    if (what == WIRE_RING_KINDS)
        return WIRE_RING_WEIGHTS;
    if (what == WIRE_RING_BEFORE || h->what == HANDOVER_SHARES)
        return WIRE_RING_KINDS;
    return WIRE_RING_BEFORE;
}

/* The piece is of those that are wanted. */
static bool piece_wanted(const struct handover *h, const struct piece *p)
{
    return h->what != HANDOVER_SHARES ||
           (h->shares >> network_share(h->network, p->part, (uint32_t)p->at) & 1) != 0;
}

/* Goes on to the next piece that there is, from h->next on. */
static void piece_find(struct handover *h)
{
    struct piece *p = &h->next;
    for (;;) {
        uint64_t end = network_floats(h->network, p->part);
        if (p->what == WIRE_RING_IMAGE)
            end = network_tablets(h->network, p->part);
        while (p->at < end && !piece_wanted(h, p))
            p->at++;
        if (p->at < end)
            return;
        p->at = 0;
        if (++p->part < NETWORK_PARTS)
            continue;
        p->part = 0;
        p->what = what_next(h, p->what);
        if (p->what == WIRE_RING_KINDS) {
            h->asked = true;
            return;
        }
    }
}

static void flight_send(struct handover *h, struct flight *f)
{
    struct wire w = {.type = WIRE_TYPE_RING_READ, .id = f->id};
    w.u.RING_READ = (struct wire_RING_READ){.run = h->run,
                                            .ring = h->ring,
                                            .step = h->step,
                                            .what = f->piece.what,
                                            .part = f->piece.part,
                                            .at = f->piece.at};
    f->due_ns = env_now_ns(h->env) + h->wait_ns;
    struct msg *m = wire_encode(&w);
    if (m != NULL)
        (void)env_send(h->env, h->source, m); /* a lost message is sent again */
}

static void handover_end(struct handover *h, int status, const char *text)
{
    struct err e = {0};
    env_timer_stop(h->env, &h->timer);
    memset(h->flight, 0, sizeof h->flight);
    if (status == 0 && h->what == HANDOVER_WHOLE)
        network_settle(h->network, h->step, h->before);
    else if (status == 0 && h->what == HANDOVER_SHARES)
        network_taken(h->network, h->shares);
    else if (status == 0)
        status =
            network_weights_take(h->network, h->step, h->skipped, h->counts, h->now, h->before, &e);
    if (e.text[0] != '\0')
        text = e.text;
    h->done(h->owner, status, text);
}

/* Asks for the next pieces; the last answer ends it. */
static void handover_pump(struct handover *h)
{
    bool flies = false;
    for (uint32_t i = 0; i < HANDOVER_FLIGHTS; i++) {
        struct flight *f = &h->flight[i];
        if (f->id == 0 && !h->asked) {
            *f = (struct flight){.piece = h->next, .id = ++h->id};
            flight_send(h, f);
            h->next.at += h->next.what == WIRE_RING_IMAGE ? 1 : WIRE_RING_FLOATS;
            piece_find(h);
        }
        flies |= f->id != 0;
    }
    if (!flies)
        handover_end(h, 0, "");
    else if (h->timer.due_ns == 0)
        env_timer_start(h->env, &h->timer, h->wait_ns);
}

static void timer_fire(struct env_timer *t)
{
    struct handover *h = container_of(t, struct handover, timer);
    for (uint32_t i = 0; i < HANDOVER_FLIGHTS; i++)
        if (h->flight[i].id != 0 && h->flight[i].due_ns <= env_now_ns(h->env))
            flight_send(h, &h->flight[i]);
    env_timer_start(h->env, &h->timer, h->wait_ns);
}

int handover_start(const struct handover_options *options, struct handover **out, struct err *e)
{
    struct handover *h = calloc(1, sizeof *h);
    uint64_t floats = network_floats(options->network, NETWORK_DENSE) +
                      network_floats(options->network, NETWORK_STATS);
    uint32_t resend_ms = options->resend_ms;
    int rc = SHOAL_E_NOMEM;
    if (resend_ms == 0)
        resend_ms = RESEND_MS;
    if (h != NULL) {
        *h = (struct handover){.env = options->env,
                               .network = options->network,
                               .run = options->run,
                               .ring = options->ring,
                               .step = options->step,
                               .what = options->what,
                               .shares = options->shares,
                               .counts = options->counts,
                               .wait_ns = resend_ms * NS_PER_MS,
                               .heard_ns = env_now_ns(options->env),
                               .timer.fire = timer_fire,
                               .done = options->done,
                               .owner = options->owner};
        h->next.what = what_next(h, WIRE_RING_KINDS);
        h->before = calloc(options->what == HANDOVER_SHARES ? 1 : floats, sizeof *h->before);
        h->now = calloc(options->what == HANDOVER_WEIGHTS ? floats : 1, sizeof *h->now);
    }
    if (h != NULL && h->before != NULL && h->now != NULL)
        rc = env_connect(h->env, options->endpoint, options->key, &h->source);
    if (rc != 0) {
        if (h != NULL) {
            free(h->before);
            free(h->now);
        }
        free(h);
        return err_set(e, rc, "the worker at %s, which has the network, cannot be asked: %s",
                       options->endpoint, err_text(rc));
    }
    *out = h;
    piece_find(h);
    handover_pump(h);
    return 0;
}

void handover_stop(struct handover *h)
{
    if (h == NULL)
        return;
    env_timer_stop(h->env, &h->timer);
    env_disconnect(h->env, h->source);
    free(h->before);
    free(h->now);
    free(h);
}

uint64_t handover_waits_ns(const struct handover *h)
{
    return env_now_ns(h->env) - h->heard_ns;
}

/* ---- pieces that come ------------------------------------------------------------------------ */

static int floats_take(struct handover *h, const struct piece *p, const struct frame *floats,
                       struct err *e)
{
    float *to = p->what == WIRE_RING_BEFORE ? h->before : h->now;
    uint64_t all = network_floats(h->network, p->part), at = p->at;
    uint64_t count = MIN(all - at, WIRE_RING_FLOATS);
    if (floats->bytes != count * sizeof(float))
        return err_set(e, SHOAL_E_MALFORMED, "%zu bytes of weights, %" PRIu64 " floats expected",
                       floats->bytes, count);
    if (p->part == NETWORK_STATS)
        at += network_floats(h->network, NETWORK_DENSE);
    memcpy(to + at, floats->data, floats->bytes);
    return 0;
}

static void piece_take(struct handover *h, struct flight *f, const struct msg *m)
{
    struct piece p = f->piece;
    struct err e = {0};
    int rc;
    f->id = 0;
    if (p.what == WIRE_RING_IMAGE)
        rc = network_image_take(h->network, p.part, (uint32_t)p.at, m->frame[1].data,
                                m->frame[1].bytes, &e);
    else
        rc = floats_take(h, &p, &m->frame[1], &e);
    if (rc != 0)
        handover_end(h, rc, e.text);
    else
        handover_pump(h);
}

bool handover_message(struct handover *h, peer_t from, const struct wire *w, const struct msg *m)
{
    if (w->type != WIRE_TYPE_RING_READ || !w->reply || from != h->source)
        return false;
    for (uint32_t i = 0; i < HANDOVER_FLIGHTS; i++) {
        struct flight *f = &h->flight[i];
        if (f->id == 0 || f->id != w->id)
            continue;
        h->heard_ns = env_now_ns(h->env);
        if (w->status == 0) {
            h->skipped = w->u.RING_READ_reply.skipped;
            piece_take(h, f, m);
        } else if (w->status == SHOAL_E_TOO_BIG || w->status == SHOAL_E_NOT_FOUND) {
            handover_end(h, w->status, wire_error(w));
        }
        break; /* with any other status it is asked again, until the owner stops it */
    }
    return true;
}

/* ---- pieces that are given ------------------------------------------------------------------- */

static int serve_admit(const struct handover_source *s, peer_t from, const struct wire *w,
                       struct err *e)
{
    const struct wire_RING_READ *q = &w->u.RING_READ;
    const struct env_who *who = env_who(s->env, from);
    bool member = who->role == ROLE_LOCAL;
    for (uint32_t i = 0; i < s->members; i++)
        member = member || strcmp(who->key, s->keys[i]) == 0;
    if (!member)
        return err_set(e, SHOAL_E_DENIED, "the key %s is of no worker of ring %" PRIu64, who->name,
                       s->ring);
    if (q->run != s->run || q->ring < s->ring)
        return err_set(e, SHOAL_E_OLD_RUN, "ring %" PRIu64 " of run %" PRIu64 " is over", q->ring,
                       q->run);
    if (q->ring > s->ring || s->network == NULL || network_at(s->network) < q->step)
        return err_set(e, SHOAL_E_AGAIN,
                       "this worker does not have step %" PRIu64 " of ring "
                       "%" PRIu64 " yet",
                       q->step, q->ring);
    uint64_t end = 0;
    if (q->part < NETWORK_PARTS && q->what == WIRE_RING_IMAGE)
        end = network_tablets(s->network, q->part);
    else if (q->part < NETWORK_PARTS && q->what < WIRE_RING_KINDS)
        end = network_floats(s->network, q->part);
    bool here = q->at < end &&
                (q->what != WIRE_RING_IMAGE || network_has(s->network, q->part, (uint32_t)q->at));
    if (!here || network_at(s->network) != q->step)
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "no piece %" PRIu64 " of kind %u of part %u of step %" PRIu64, q->at,
                       q->what, q->part, q->step);
    return 0;
}

/* Adds the piece to its answer. */
static int piece_add(const struct network *n, const struct wire_RING_READ *q, struct msg *m)
{
    uint64_t bytes = MIN(network_floats(n, q->part) - q->at, WIRE_RING_FLOATS) * sizeof(float);
    if (q->what == WIRE_RING_IMAGE)
        bytes = network_image_bytes(n, q->part, (uint32_t)q->at);
    if (bytes > TABLE_IMAGE_MOST)
        return SHOAL_E_TOO_BIG;
    void *to = msg_add(m, bytes);
    const float *from = network_weights(n, q->part);
    if (to == NULL)
        return SHOAL_E_NOMEM;
    if (q->what == WIRE_RING_BEFORE)
        from = network_before(n, q->part);
    if (q->what == WIRE_RING_IMAGE)
        network_image_write(n, q->part, (uint32_t)q->at, to);
    else
        memcpy(to, from + q->at, bytes);
    return 0;
}

void handover_serve(const struct handover_source *s, peer_t from, const struct wire *w)
{
    struct wire reply;
    struct err e = {0};
    struct msg *m = NULL;
    int rc = serve_admit(s, from, w, &e);
    if (rc == 0) {
        env_known(s->env, from);
        wire_reply_to(w, 0, &reply);
        reply.u.RING_READ_reply.ring = s->ring;
        reply.u.RING_READ_reply.step = w->u.RING_READ.step;
        reply.u.RING_READ_reply.skipped = network_skipped(s->network);
        m = wire_encode(&reply);
        rc = piece_add(s->network, &w->u.RING_READ, m);
        if (rc != 0)
            (void)err_set(&e, rc, "a piece of the network cannot be sent: %s", err_text(rc));
    }
    if (rc != 0) {
        msg_free(m);
        m = wire_refusal(w, rc, "%s", e.text);
    }
    if (m != NULL)
        (void)env_send(s->env, from, m); /* the reader asks again */
}
