/* ring_fake.c: steps of a network without floats. */
#include "tests/lib/ring_fake.h"

#include "proto/base/container_of.h"
#include "proto/base/minmax.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)

bool fake_side_holds(const struct fake_side *s, uint32_t lane)
{
    return lane - s->first < s->lanes;
}

static bool in_step(const struct fake_side *s)
{
    return s->told.state == WIRE_RING_STANDS && s->lanes > 0 && s->has && s->of == s->told.ring;
}

/* ---- steps ----------------------------------------------------------------------------------- */

bool fake_side_may(const struct fake_side *s, uint32_t lane, uint64_t batch)
{
    if (!in_step(s) || !fake_side_holds(s, lane) || batch > s->step + 1)
        return false;
    if (s->told.rest == 0 || batch <= s->step)
        return true;
    if (s->told.rest_at == 0)
        return batch <= s->begun;
    return batch <= s->told.rest_at;
}

/* Completes a step when all lanes have contributed to it. */
static void network_step(struct fake_network *n)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t l = 0; l < n->lanes; l++)
        least = MIN(least, n->given[l]);
    if (least > n->complete)
        n->complete++;
}

void fake_side_given(struct fake_side *s, uint32_t lane, uint64_t batch)
{
    struct fake_network *n = s->network;
    if (batch <= s->step)
        return; /* for its rows alone */
    ck_assert_uint_eq(batch, s->step + 1);
    s->begun = MAX(s->begun, batch);
    s->mine[lane] = batch;
    if (s->ring != n->ring)
        return; /* of before: it will give it again */
    ck_assert_uint_eq(n->given[lane] + 1, batch);
    n->given[lane] = batch;
    n->contributions++;
    network_step(n);
}

void fake_side_granted(struct fake_side *s, uint32_t lane, uint64_t mark)
{
    struct fake_network *n = s->network;
    ck_assert_msg(!in_step(s) || fake_side_holds(s, lane), "lane %u is not of worker %s", lane,
                  s->worker->name);
    n->slowest_mark = MIN(n->slowest_mark, mark);
    s->mine[lane] = MIN(s->mine[lane], mark); /* of a time before it lost the lane */
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* Assigns the network of a step, as the shards take it: with the generation of lane 0. */
static void publish(struct fake_side *s, uint64_t step)
{
    struct fake_network *n = s->network;
    if (s->told.generation != s->worker->shard[0]->run.lane[0].generation) {
        n->refused++;
        return;
    }
    for (uint32_t i = 0; i < s->worker->shards; i++)
        for (uint32_t l = 0; l < n->lanes; l++)
            ck_assert_msg(s->worker->shard[i]->run.lane[l].mark >= step,
                          "step %u is published before batch %u of lane %u", (unsigned)step,
                          (unsigned)step, l);
    n->high = MAX(n->high, step);
    if (n->torn)
        return;
    n->low = n->high;
    n->publishes++;
    s->published = step;
}

static void tables_read(struct fake_side *s)
{
    struct fake_network *n = s->network;
    n->tables_read++;
    s->marks_low = n->low;
    s->marks_high = n->high;
    if (n->low != n->high || n->low != s->told.step)
        return;
    s->has = true;
    s->step = n->low;
    s->of = s->told.ring;
}

/* ---- the ring -------------------------------------------------------------------------------- */

/* The ring stands: what this worker had given to the step after it, it gives again. */
static void ring_enter(struct fake_side *s)
{
    struct fake_network *n = s->network;
    if (s->told.ring < n->ring)
        return; /* a late answer: others are in a newer ring */
    if (n->ring != s->told.ring) {
        n->ring = s->told.ring;
        n->complete = s->told.step;
        n->rings++;
        for (uint32_t l = 0; l < n->lanes; l++)
            n->given[l] = s->told.step;
    }
    s->of = s->told.ring;
    s->begun = MIN(s->begun, s->step + 1);
    for (uint32_t i = 0; i < s->worker->seats; i++) {
        uint32_t lane = s->worker->seat[i].lane;
        if (lane != UINT32_MAX && fake_side_holds(s, lane) && s->mine[lane] == s->step + 1 &&
            n->given[lane] == s->step)
            n->given[lane]++;
    }
    network_step(n);
}

/* The answer has news of the ring. */
static void ring_obey(struct fake_side *s)
{
    bool stands = s->told.state == WIRE_RING_STANDS, member = s->told.member < s->told.members;
    s->first = s->lanes = 0;
    s->handed_ns = 0;
    if (s->told.ring > s->ring)
        s->network->number_told = MAX(s->network->number_told, s->told.ring);
    s->ring = s->told.ring;
    if (stands && !member)
        s->has = false; /* it goes on without this worker */
    if (!stands || !member)
        return;
    const struct wire_ring_member *m = &s->member[s->told.member];
    ck_assert_uint_eq(m->worker, s->worker->number);
    s->first = m->first;
    s->lanes = m->lanes;
    if (s->told.source == WIRE_RING_TABLES) {
        s->has = false;
        tables_read(s);
    } else if (!s->told.there) {
        s->has = false;
        s->handed_ns = env_now_ns(s->worker->env) + 2 * MS;
    }
    ck_assert(!s->told.there || (s->has && s->step == s->told.step));
    if (s->has && s->step == s->told.step)
        ring_enter(s);
}

/* In another run nothing of before counts. */
static void run_look(struct fake_side *s)
{
    if (s->worker->run == s->run)
        return;
    s->run = s->worker->run;
    s->has = false;
    s->step = s->begun = s->of = s->published = s->marks_low = s->marks_high = 0;
    memset(s->mine, 0, sizeof s->mine);
}

void fake_side_reply(struct fake_side *s, const struct wire *r, const struct msg *m)
{
    const struct wire_RING_reply *q = &r->u.RING_reply;
    bool other = q->news != s->told.news;
    if (r->id <= s->answered || r->status != 0)
        return;
    s->answered = r->id;
    s->worker->run = q->run;
    run_look(s);
    bool ring = q->ring != s->told.ring || q->state != s->told.state || q->step != s->told.step;
    s->told = *q;
    memcpy(s->member, m->frame[1].data, m->frame[1].bytes);
    s->sent_ns = 0; /* it asks again */
    if (other && ring)
        ring_obey(s);
    if (q->rest != s->rest)
        s->network->rests += q->rest != 0;
    s->rest = q->rest;
    if (q->publish) {
        ck_assert_uint_eq(s->step, q->rest_at);
        publish(s, q->rest_at);
    }
}

/* ---- the request ----------------------------------------------------------------------------- */

static bool settled(const struct fake_side *s)
{
    if (s->network->no_settle || s->rest == 0 || s->told.rest_at == 0 || s->step != s->told.rest_at)
        return false;
    for (uint32_t i = 0; i < s->worker->seats; i++) {
        const struct fake_seat *seat = &s->worker->seat[i];
        if (seat->lane != UINT32_MAX && seat->state == FAKE_WORKING && seat->at <= s->step)
            return false;
    }
    return true;
}

static uint32_t lanes_run(const struct fake_worker *w)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < w->seats; i++)
        held += w->seat[i].lane != UINT32_MAX;
    return held;
}

static void ask(struct fake_side *s)
{
    struct fake_worker *w = s->worker;
    struct wire q = {.type = WIRE_TYPE_RING};
    q.u.RING =
        (struct wire_RING){.pass = w->pass,
                           .run = w->run,
                           .seen = s->told.news,
                           .ring = s->ring,
                           .has = s->has,
                           .step = s->step,
                           .marks_low = s->marks_low,
                           .marks_high = s->marks_high,
                           .rest = s->rest,
                           .begun = s->begun,
                           .settled = settled(s),
                           .published = s->published,
                           .digest = s->digest,
                           .digest_step = s->digest_step + (s->digest != 0 && s->digest_step == 0),
                           .unreached = s->unreached,
                           .of = s->of,
                           .lanes = lanes_run(w)};
    uint64_t now = env_now_ns(w->env);
    bool same = memcmp(&q.u.RING, &s->last, sizeof s->last) == 0;
    if (same && s->sent_ns != 0 && now - s->sent_ns < 1500 * MS)
        return;
    s->last = q.u.RING;
    s->sent_ns = now;
    s->id = q.id = w->next_id++;
    (void)env_send(w->env, w->coordinator, wire_encode(&q));
}

static void side_tick(struct env_timer *t)
{
    struct fake_side *s = container_of(t, struct fake_side, timer);
    struct fake_worker *w = s->worker;
    struct fake_network *n = s->network;
    env_timer_start(w->env, t, MS);
    if (!w->joined || w->ended || s->silent)
        return;
    if (s->handed_ns != 0 && env_now_ns(w->env) >= s->handed_ns) {
        s->handed_ns = 0;
        s->has = true;
        s->step = s->told.step;
        ring_enter(s);
    }
    if (in_step(s) && n->ring == s->ring && s->step < n->complete) {
        s->step++;
        if (n->publish_every > 0 && s->told.member == 0 && s->step > 1 &&
            (s->step - 1) % n->publish_every == 0 && s->step - 1 > s->published)
            publish(s, s->step - 1);
    }
    if (!n->no_answer)
        ask(s);
}

void fake_side_joined(struct fake_side *s)
{
    run_look(s);
    s->told = (struct wire_RING_reply){0};
    s->first = s->lanes = 0;
    s->rest = 0;
    s->id = s->sent_ns = 0;
    env_timer_start(s->worker->env, &s->timer, MS);
}

void fake_side_make(struct fake_side *s, struct fake_worker *w, struct fake_network *n)
{
    *s = (struct fake_side){.network = n, .worker = w, .timer.fire = side_tick};
    w->side = s;
}
