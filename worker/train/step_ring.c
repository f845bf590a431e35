/* step_ring.c: the messages about the ring from the coordinator to this worker, and back. */
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "worker/train/step_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)

/* ---- what this worker says ------------------------------------------------------------------- */

/* Every lane that this worker trains has its batches up to the rest's step in the rows. */
static bool settled(const struct steps *s)
{
    const struct wire_RING_reply *t = &s->told;
    if (t->rest == 0 || t->rest_at == 0 || s->state != STEP_OPEN || s->at != t->rest_at ||
        s->work.runs || s->work.sum)
        return false;
    for (uint32_t lane = s->first; lane < s->end; lane++)
        if (s->slot[lane].runs && s->slot[lane].lane.mark < t->rest_at)
            return false;
    return true;
}

/* The newest step that this worker has contributed to; in a rest, that one of its lanes has begun
 * to compute. */
static uint64_t begun(const struct steps *s)
{
    if (s->told.rest != 0)
        return MAX(s->begun, s->at);
    return s->at + (s->summing || s->work.sum || s->work.runs);
}

/* The worker that this one has waited for longer than a lease, to take a chunk or to hand the
 * network over; 0: none. */
static uint64_t unreached(const struct steps *s)
{
    const struct wire_RING_reply *t = &s->told;
    uint64_t limit_ns = s->as.lease_ms * MS;
    if (s->handover != NULL && handover_waits_ns(s->handover) > limit_ns)
        return s->member[s->from].worker;
    if (s->ring != NULL && t->members > 0 && ring_waits_ns(s->ring) > limit_ns)
        return s->member[(t->member + 1) % t->members].worker;
    return 0;
}

static void say(const struct steps *s, struct wire_RING *out)
{
    memset(out, 0, sizeof *out); /* two of them are compared as bytes */
    out->pass = s->as.pass;
    out->run = s->run;
    out->seen = s->told.news;
    out->ring = s->known;
    out->has = s->has;
    out->step = s->at;
    if (s->reading.whole) {
        out->marks_low = s->reading.low;
        out->marks_high = s->reading.high;
    }
    if (s->state == STEP_OPEN)
        out->rest = s->told.rest;
    out->begun = begun(s);
    out->settled = settled(s);
    out->published = s->publish.done;
    out->digest = s->digest;
    out->digest_step = s->digest_step;
    out->unreached = unreached(s);
    out->of = s->of;
    out->keeps = s->kept;
    out->state_bytes = s->state_bytes;
    out->lanes = s->options.lanes_held(s->options.context);
}

/* There is something that the coordinator acts on: it is told at once. All else goes with the next
 * request. */
static bool worth_saying(const struct steps *s, const struct wire_RING *now)
{
    struct wire_RING was = s->said;
    was.seen = now->seen;
    was.state_bytes = now->state_bytes;
    if (s->state == STEP_OPEN) {
        was.step = now->step;
        was.keeps = now->keeps;
    }
    if (now->rest == 0) {
        was.begun = now->begun;
        was.lanes = now->lanes;
    }
    return memcmp(&was, now, sizeof was) != 0;
}

/* Keeps a request out, except while a sum is stopped: its result is to be told. */
static void step_tell(struct steps *s)
{
    struct wire_RING now;
    if (s->state == STEP_OUT || s->state == STEP_STOPS)
        return;
    if (!s->work.runs) {
        s->kept = network_keeps(s->network);
        s->state_bytes = network_state_bytes(s->network);
    }
    say(s, &now);
    if (request_active(&s->request) && !worth_saying(s, &now))
        return;
    client_cancel(s->options.client, &s->request);
    client_start(s->options.client, &s->request);
}

static struct msg *ring_build(struct request *r)
{
    struct steps *s = container_of(r, struct steps, request);
    struct wire w;
    client_head(r, &w);
    say(s, &s->said);
    w.u.RING = s->said;
    return wire_encode(&w);
}

/* ---- a ring that stands ---------------------------------------------------------------------- */

static struct way_shape shape_told(const struct wire_RING_reply *t,
                                   const struct wire_ring_member *member)
{
    struct way_shape shape = {.lanes = t->lanes, .starts = t->starts, .members = t->members};
    for (uint32_t i = 0; i < t->members; i++)
        shape.first[i] = member[i].first;
    shape.first[t->members] = t->lanes;
    return shape;
}

/* Checks the answer of a coordinator: what this worker opens a ring with. */
static int told_check(const struct steps *s, const struct wire_RING_reply *t,
                      const struct wire_ring_member *member, struct err *e)
{
    if (t->members > WIRE_RING_MEMBERS || t->lanes != s->options.lanes ||
        (t->member >= t->members && t->member != WIRE_RING_MEMBERS) ||
        (t->source >= t->members && t->source != WIRE_RING_TABLES))
        return err_set(e, SHOAL_E_MALFORMED,
                       "ring %" PRIu64 " has %u members and %u lanes, this one is number %u",
                       t->ring, t->members, t->lanes, t->member);
    const struct way_shape shape = shape_told(t, member);
    return way_shape_check(&shape, e);
}

/* The shares of this worker in the ring. What it had is forgotten if no worker has the network: its
 * lanes go back, and all read it from the tables. */
static int shares_stand(struct steps *s, struct err *e)
{
    const struct wire_RING_reply *t = &s->told;
    network_deal(s->network, t->starts);
    if (!s->sharded || t->member == WIRE_RING_MEMBERS)
        return 0;
    s->keeps = way_kept(&s->shape, t->member);
    if (t->source != WIRE_RING_TABLES)
        return 0;
    s->options.stands(s->options.context, s->member, t->members, 0, 0);
    step_forget(s);
    return network_keep(s->network, s->keeps, e);
}

/* Takes the members of a ring that stands: lanes of others are dropped. */
static int ring_stands(struct steps *s, struct err *e)
{
    const struct wire_RING_reply *t = &s->told;
    int rc = 0;
    if (s->stood == s->known)
        return 0;
    s->stood = s->known;
    s->shape = shape_told(t, s->member);
    s->first = s->end = 0;
    if (t->member != WIRE_RING_MEMBERS) {
        s->first = s->member[t->member].first;
        s->end = t->lanes;
        if (t->member + 1 < t->members)
            s->end = s->member[t->member + 1].first;
    } else if (s->of != s->known) {
        step_forget(s); /* another network may come out of this ring */
    }
    rc = shares_stand(s, e);
    s->options.stands(s->options.context, s->member, t->members, s->first, s->end);
    return rc;
}

static void handed_over(void *owner, int status, const char *text)
{
    struct steps *s = owner;
    char why[ERR_TEXT_MAX];
    handover_stop(s->handover);
    s->handover = NULL;
    if (status != 0) {
        (void)snprintf(why, sizeof why,
                       "the worker at %.150s, which has the network, does not hand it over: %.280s",
                       s->member[s->told.source].endpoint, text);
        s->options.unable(s->options.context, status, why);
        return;
    }
    if (s->took != HANDOVER_SHARES)
        step_whole(s, s->told.step, true);
    if (s->took == HANDOVER_WEIGHTS)
        s->weights_of = s->known;
    step_turn(s);
}

/* Takes a part of the network from a member; shares: of HANDOVER_SHARES. */
static int handover_begin(struct steps *s, enum handover_what what, uint32_t from, uint64_t shares,
                          struct err *e)
{
    const struct wire_RING_reply *t = &s->told;
    const struct handover_options o = {.env = s->options.env,
                                       .run = s->run,
                                       .ring = s->known,
                                       .step = t->step,
                                       .what = what,
                                       .shares = shares,
                                       .counts = s->member[t->member].keeps != 0,
                                       .network = s->network,
                                       .endpoint = s->member[from].endpoint,
                                       .key = s->key[from],
                                       .done = handed_over,
                                       .owner = s};
    s->took = what;
    s->from = from;
    return handover_start(&o, &s->handover, e);
}

/* The weights of the ring's step are here: those that it had count, or it has taken them. */
static bool weights_ready(const struct steps *s)
{
    return s->has && s->at == s->told.step &&
           (s->told.there || s->weights_of == s->known || s->told.source == WIRE_RING_TABLES);
}

/* Takes what this worker lacks of a network with sharded state. What it has stays until then, and
 * is what it reports should the ring not come about. */
static int shares_turn(struct steps *s, struct err *e)
{
    const struct wire_RING_reply *t = &s->told;
    if (s->busy > 0 || s->handover != NULL)
        return 0;
    if (!weights_ready(s))
        return handover_begin(s, HANDOVER_WEIGHTS, t->source, 0, e);
    uint64_t missing = s->keeps & ~network_keeps(s->network);
    int rc = network_keep(s->network, s->keeps, e);
    if (rc != 0 || missing == 0)
        return rc;
    for (uint32_t i = 0; i < t->members; i++)
        if (i != t->member && (s->member[i].keeps & missing) != 0)
            return handover_begin(s, HANDOVER_SHARES, i, s->member[i].keeps & missing, e);
    s->options.lost(s->options.context,
                    "no worker of the ring has the optimizer's state of a share that this one is "
                    "to keep: this worker joins again");
    return 0;
}

/* Reads T(step), once no lane computes with the weights that it replaces. */
static int read_turn(struct steps *s, struct err *e)
{
    if (s->state == STEP_GATHERS)
        sm_move(&step_moves, &s->state, STEP_READS);
    if (s->sharded && s->told.source != WIRE_RING_TABLES)
        return shares_turn(s, e);
    s->has = false;
    s->digest = s->digest_step = 0; /* the digest goes with the network that is given up here */
    step_publish_stop(s);
    if (s->busy > 0 || s->handover != NULL)
        return 0;
    if (s->told.source != WIRE_RING_TABLES)
        return handover_begin(s, HANDOVER_WHOLE, s->told.source, 0, e);
    step_reading_turn(s);
    return 0;
}

/* This worker has the network of the ring: what it had counts, or it has read it. */
static bool ring_ready(const struct steps *s)
{
    bool counts = s->told.there || s->state == STEP_READS;
    if (s->sharded)
        return weights_ready(s) && (s->keeps & ~network_keeps(s->network)) == 0;
    return counts && s->has && s->at == s->told.step;
}

/* Goes on to the open ring, by way of the network. */
static void stands_turn(struct steps *s)
{
    const struct wire_RING_reply *t = &s->told;
    struct err e = {0};
    int rc = ring_stands(s, &e);
    if (t->member == WIRE_RING_MEMBERS || s->state == STEP_OUT)
        return;
    if (rc == 0 && !ring_ready(s))
        rc = read_turn(s, &e);
    if (rc == 0 && ring_ready(s)) {
        rc = step_open(s, &e);
        s->again = true; /* a lane may have contributed already */
    }
    if (rc != 0)
        s->options.unable(s->options.context, rc, e.text);
    if (s->state == STEP_OPEN)
        step_soon(s);
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* The answer is about another ring than this worker is in. */
static bool another(const struct steps *s)
{
    return s->told.run != s->run || s->told.ring != s->known;
}

/* Another run: the tables have gone back to a checkpoint. */
static void run_follow(struct steps *s)
{
    if (s->told.run == s->run)
        return;
    s->run = s->told.run;
    step_forget(s);
    s->publish.done = s->stood = 0;
    s->first = s->end = 0;
    s->options.stands(s->options.context, NULL, 0, 0, 0);
}

static void turn_once(struct steps *s)
{
    if (s->told.run == 0) /* no answer yet */
        return;
    if (another(s) && s->state != STEP_STOPS) {
        sm_move(&step_moves, &s->state, STEP_STOPS);
        step_stop(s);
    }
    if (s->state == STEP_STOPS) {
        if (!step_stopped(s))
            return;
        run_follow(s);
        s->known = s->told.ring;
        if (s->sharded) { /* it is to assign other shares */
            step_publish_stop(s);
            s->publish.done = 0;
        }
        sm_move(&step_moves, &s->state, STEP_GATHERS);
    }
    if (s->told.state == WIRE_RING_STANDS && s->state != STEP_OPEN)
        stands_turn(s);
    if (s->state == STEP_OPEN)
        step_go(s);
    step_publish_turn(s);
}

void step_turn(struct steps *s)
{
    s->again = true;
    if (s->turning)
        return;
    s->turning = true;
    while (s->again && s->state != STEP_OUT) {
        s->again = false;
        turn_once(s);
    }
    s->turning = false;
    step_tell(s);
}

void step_look(struct steps *s)
{
    if (s->told.rest != 0)
        step_soon(s);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void told_take(struct steps *s, const struct wire_RING_reply *t,
                      const struct wire_ring_member *member)
{
    bool held = s->told.rest != 0 && s->state == STEP_OPEN;
    s->told = *t;
    if (t->members > 0)
        memcpy(s->member, member, t->members * sizeof *member);
    for (uint32_t i = 0; i < t->members; i++) {
        s->member[i].endpoint[sizeof s->member[i].endpoint - 1] = '\0';
        (void)snprintf(s->key[i], sizeof s->key[i], "%.*s", (int)sizeof member[i].key - 1,
                       member[i].key);
    }
    if (held)
        step_soon(s);
}

static enum request_verdict ring_reply(struct request *r, const struct wire *w, const struct msg *m)
{
    struct steps *s = container_of(r, struct steps, request);
    const struct wire_RING_reply *t = &w->u.RING_reply;
    struct err e = {0};
    if (w->status == SHOAL_E_UNAVAILABLE) {
        s->options.lost(s->options.context, wire_error(w));
        return REQUEST_DONE;
    }
    if (client_passing(w->status))
        return REQUEST_LATER;
    int rc = w->status;
    if (rc != 0)
        (void)err_set(&e, rc, "the coordinator refuses RING: %s", wire_error(w));
    else if (t->state == WIRE_RING_STANDS || t->members > 0)
        rc = told_check(s, t, m->frame[1].data, &e);
    if (rc != 0) {
        s->options.failed(s->options.context, rc, e.text);
        return REQUEST_DONE;
    }
    told_take(s, t, m->frame[1].data);
    step_turn(s);
    return REQUEST_DONE;
}

/* ---- messages of other workers --------------------------------------------------------------- */

/* A chunk while this worker has no ring open. */
static void chunk_refuse(struct steps *s, peer_t from, const struct wire *w)
{
    const struct wire_RING_CHUNK *q = &w->u.RING_CHUNK;
    struct wire reply;
    int rc = SHOAL_E_AGAIN;
    if (q->run != s->run || q->ring < s->known)
        rc = SHOAL_E_OLD_RUN;
    wire_reply_to(w, rc, &reply);
    reply.u.RING_CHUNK_reply.ring = s->known;
    (void)snprintf(reply.error, sizeof reply.error,
                   "this worker knows ring %" PRIu64 " of run %" PRIu64, s->known, s->run);
    struct msg *m = wire_encode(&reply);
    if (m != NULL)
        (void)env_send(s->options.env, from, m);
}

static void network_serve(struct steps *s, peer_t from, const struct wire *w)
{
    struct handover_source source = {.env = s->options.env,
                                     .run = s->run,
                                     .ring = s->known,
                                     .keys = s->key,
                                     .members = s->told.members};
    if (s->has && !s->work.runs)
        source.network = s->network;
    handover_serve(&source, from, w);
}

bool step_message(struct steps *s, peer_t from, const struct wire *w, const struct msg *m)
{
    if (w->type == WIRE_TYPE_RING_READ && !w->reply)
        network_serve(s, from, w);
    else if (w->type == WIRE_TYPE_RING_READ)
        return s->handover != NULL && handover_message(s->handover, from, w, m);
    else if (w->type != WIRE_TYPE_RING_CHUNK)
        return false;
    else if (s->state == STEP_OPEN)
        return ring_message(s->ring, from, w, m);
    else if (!w->reply)
        chunk_refuse(s, from, w);
    return true;
}

/* ---- life ------------------------------------------------------------------------------------ */

void step_ring_init(struct steps *s)
{
    s->request = (struct request){.type = WIRE_TYPE_RING,
                                  .target = CLIENT_COORDINATOR,
                                  .build = ring_build,
                                  .reply = ring_reply};
}

void step_begin(struct steps *s, const struct step_begin *as)
{
    SHOAL_ASSERT(s->state == STEP_OUT && step_idle(s));
    s->as = *as;
    if (s->run != as->run)
        step_forget(s);
    step_from(s, s->at); /* the lanes may go back to a batch before their contributions */
    s->run = as->run;
    s->told = (struct wire_RING_reply){0};
    s->said = (struct wire_RING){0};
    s->known = s->stood = 0;
    s->first = s->end = 0;
    step_publish_stop(s);
    s->publish.done = 0;
    s->publish.last_ns = env_now_ns(s->options.env);
    sm_move(&step_moves, &s->state, STEP_GATHERS);
    step_tell(s);
}

void step_end(struct steps *s)
{
    if (s->state == STEP_OUT)
        return;
    sm_move(&step_moves, &s->state, STEP_OUT);
    client_cancel(s->options.client, &s->request);
    env_timer_stop(s->options.env, &s->soon);
    step_publish_stop(s);
    step_stop(s);
}
