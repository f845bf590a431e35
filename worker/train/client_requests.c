/* client_requests.c: the table of requests in flight: sending, sending again, answers.
 *
 * 1. A request in flight is in exactly one chain of the table and has a due time; the timer is
 *    never later than the earliest one. [assert: request_link]
 *    [test: client_sends_again_with_the_same_id]
 * 2. A reply counts only if its id and type are those of a request in flight and it comes from the
 *    peer that the request is for. [test: client_is_not_fooled_by_another_type]
 * 3. The request leaves the table before `reply` is called, so that its owner may start, change or
 *    free it, but not start it and also return LATER or NOW. [assert: client_answer] */
#include "worker/train/client_inner.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <string.h>

enum {
    TRIES_BEFORE_SLOWING = 3,
    PAUSE_FIRST_MS = 50,
    PAUSE_LAST_MS = 1000,
    PAUSES_SAID = 20,
    TRIES_SAID = 8
};

/* ---- one request ----------------------------------------------------------------------------- */

static void request_link(struct client *c, struct request *r)
{
    struct request **chain = &c->chain[r->id % CLIENT_CHAINS];
    SHOAL_ASSERT(r->id != 0 && r->back == NULL); /* 1 */
    r->next = *chain;
    r->back = chain;
    if (r->next != NULL)
        r->next->back = &r->next;
    *chain = r;
}

static void request_unlink(struct request *r)
{
    SHOAL_ASSERT(*r->back == r);
    *r->back = r->next;
    if (r->next != NULL)
        r->next->back = r->back;
    r->next = NULL;
    r->back = NULL;
}

static void request_due(struct client *c, struct request *r, uint64_t delay_ns)
{
    r->due_ns = env_now_ns(c->env) + delay_ns;
    if (c->timer.due_ns == 0 || r->due_ns < c->timer.due_ns)
        env_timer_start(c->env, &c->timer, delay_ns);
}

static uint64_t pause_ns(const struct request *r)
{
    uint64_t ms = r->pause_ms;
    if (ms == 0)
        ms = MIN((uint64_t)PAUSE_FIRST_MS << MIN(r->pauses, 5), PAUSE_LAST_MS);
    return ms * MS;
}

static uint64_t resend_ns(const struct client *c, const struct request *r)
{
    uint32_t slow;
    if (r->tries <= TRIES_BEFORE_SLOWING)
        slow = 0;
    else
        slow = r->tries - TRIES_BEFORE_SLOWING;
    return ((uint64_t)c->resend_ms << (slow < 3 ? slow : 3)) * MS;
}

static void request_send(struct client *c, struct request *r)
{
    peer_t peer = client_peer_of(c, r->target);
    if (peer == 0 || (r->write && c->muted)) {
        request_due(c, r, CLIENT_MAP_PAUSE_MS * MS);
        if (peer == 0)
            client_map_refresh(c);
        return;
    }
    SHOAL_ASSERT(request_active(r));
    struct msg *m = r->build(r);
    if (m == NULL || env_send(c->env, peer, m) != 0) {
        r->pauses++;
        request_due(c, r, pause_ns(r));
        return;
    }
    r->order = ++c->last_order;
    /* logged at powers of two, because a coordinator may be away for days */
    if (++r->tries >= TRIES_SAID && (r->tries & (r->tries - 1)) == 0)
        log_warn(
            "%s has not been answered by %s after %u tries; sent again", wire_type_name(r->type),
            r->target == CLIENT_COORDINATOR ? client_coordinator(c) : c->shard[r->target].endpoint,
            r->tries - 1);
    if (r->target == CLIENT_COORDINATOR)
        coordinators_asked(&c->coordinators);
    else
        client_seek_sent(c, r->target);
    request_due(c, r, resend_ns(c, r));
    if (r->tries > TRIES_BEFORE_SLOWING && r->target != CLIENT_COORDINATOR) {
        client_map_refresh(c);
        client_seek_silent(c, r->target);
    }
}

void client_start(struct client *c, struct request *r)
{
    SHOAL_ASSERT(r->id == 0 && r->build != NULL && r->reply != NULL);
    r->id = ++c->last_id;
    r->order = 0;
    r->tries = 0;
    r->pauses = 0;
    request_link(c, r);
    request_send(c, r);
}

void client_again(struct client *c, struct request *r)
{
    SHOAL_ASSERT(r->id != 0 && r->back != NULL);
    request_send(c, r);
}

void client_cancel(struct client *c, struct request *r)
{
    (void)c;
    if (r->id == 0)
        return;
    if (r->back != NULL)
        request_unlink(r);
    r->id = 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

struct request *client_find(struct client *c, peer_t from, const struct wire *w)
{
    struct request *r = c->chain[w->id % CLIENT_CHAINS];
    while (r != NULL && r->id != w->id)
        r = r->next;
    if (r == NULL || !w->reply || r->type != w->type || client_peer_of(c, r->target) != from)
        return NULL;
    return r;
}

void client_answer(struct client *c, struct request *r, const struct wire *w, const struct msg *m)
{
    uint64_t id = r->id;
    request_unlink(r); /* 3 */
    r->id = 0;
    enum request_verdict verdict = r->reply(r, w, m);
    if (verdict == REQUEST_DONE)
        return;
    SHOAL_ASSERT(r->id == 0); /* 3 */
    r->id = id;
    r->tries = 0; /* it was answered */
    request_link(c, r);
    if (verdict == REQUEST_NOW) {
        request_send(c, r);
        return;
    }
    uint64_t delay = pause_ns(r);
    /* a request with a pause of its own is expected to wait */
    if (++r->pauses % PAUSES_SAID == 0 && r->pause_ms == 0)
        log_warn("%s is refused for the %uth time and sent again: %s", wire_type_name(r->type),
                 r->pauses, wire_error(w));
    request_due(c, r, delay);
}

void client_head(const struct request *r, struct wire *w)
{
    SHOAL_ASSERT(request_active(r));
    memset(w, 0, sizeof *w);
    w->type = r->type;
    w->id = r->id;
}

bool client_passing(int status)
{
    switch (status) {
    case SHOAL_E_BUSY:
    case SHOAL_E_AGAIN:
    case SHOAL_E_NO_SPACE:
    case SHOAL_E_TIMEOUT:
    case SHOAL_E_UNAVAILABLE:
    case SHOAL_E_NO_TABLE:
    case SHOAL_E_IO:
    case SHOAL_E_NOMEM:
    case SHOAL_E_STOPPED:
        return true;
    default:
        return false;
    }
}

/* ---- all requests ---------------------------------------------------------------------------- */

void client_hasten(struct client *c, uint32_t target, uint64_t order)
{
    for (uint32_t i = 0; i < CLIENT_CHAINS; i++)
        for (struct request *r = c->chain[i]; r != NULL; r = r->next)
            if (r->target == target && r->order <= order) {
                r->pauses = 0;
                request_due(c, r, 0);
            }
}

bool client_awaits(const struct client *c, uint32_t target)
{
    for (uint32_t i = 0; i < CLIENT_CHAINS; i++)
        for (const struct request *r = c->chain[i]; r != NULL; r = r->next)
            if (r->target == target)
                return true;
    return false;
}

void client_mute(struct client *c, bool muted)
{
    if (c->muted == muted)
        return;
    c->muted = muted;
    if (muted)
        return;
    for (uint32_t i = 0; i < CLIENT_CHAINS; i++)
        for (struct request *r = c->chain[i]; r != NULL; r = r->next)
            if (r->write)
                request_due(c, r, 0);
}

/* Visits the table once: sends due requests, then sets the timer for the next due time (1). */
static void client_fire(struct env_timer *t)
{
    struct client *c = container_of(t, struct client, timer);
    uint64_t now = env_now_ns(c->env), next = UINT64_MAX;
    for (uint32_t i = 0; i < CLIENT_CHAINS; i++)
        for (struct request *r = c->chain[i], *after; r != NULL; r = after) {
            after = r->next;
            if (r->due_ns <= now)
                request_send(c, r);
            if (r->due_ns < next)
                next = r->due_ns;
        }
    /* started during the visit, perhaps in a chain that was visited already */
    if (request_active(&c->map_get) && c->map_get.due_ns < next)
        next = c->map_get.due_ns;
    if (next != UINT64_MAX)
        env_timer_start(c->env, &c->timer, next > now ? next - now : 1);
}

void client_requests_init(struct client *c)
{
    c->resend_ms = 1000;
    c->timer.fire = client_fire;
}

void client_set_resend(struct client *c, uint32_t resend_ms)
{
    SHOAL_ASSERT(resend_ms > 0);
    c->resend_ms = resend_ms;
}
