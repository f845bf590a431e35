/* copies_records.c: followers that wait get the leader's records, which the journal keeps for
 * them. */
#include "embedding/follow.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "server/shard/copies.h"
#include "server/shard/shard.h"

#include <string.h>

#define GIVEN_UP 20u            /* leases */
#define ANSWER_BYTES (1u << 20) /* records of one answer */

void copies_follower_refuse(struct copies_follower *f, int status, const char *text)
{
    enum wire_type type = f->waits == COPIES_PART ? WIRE_TYPE_COPY : WIRE_TYPE_FOLLOW;
    bool asked = f->waits != COPIES_NOTHING;
    f->waits = COPIES_NOTHING;
    if (asked)
        shard_refuse(f->s, f->peer, type, f->id, status, "shard %s: %s", f->s->name, text);
}

static void records_release(void *data, void *hint)
{
    (void)data;
    engine_records_release(hint);
}

/* Adds the records to the answer: those of the tail themselves, others as a copy. */
static int records_add(struct shard *s, struct msg *m, const void *records, size_t bytes)
{
    void *hold = NULL;
    if (bytes > 0)
        hold = engine_records_hold(s->engine, records);
    if (hold == NULL) {
        void *frame = msg_add(m, bytes);
        if (frame != NULL && bytes > 0)
            memcpy(frame, records, bytes);
        return frame == NULL ? SHOAL_E_NOMEM : 0;
    }
    int rc = SHOAL_E_NOMEM;
    if (m != NULL)
        rc = msg_add_borrowed(m, (void *)(uintptr_t)records, bytes, records_release, hold);
    if (rc != 0)
        engine_records_release(hold);
    return rc;
}

void copies_answer(struct copies_follower *f, uint64_t back, const void *records, size_t bytes)
{
    struct shard *s = f->s;
    SHOAL_ASSERT(f->waits == COPIES_RECORDS && f->peer != 0);
    f->waits = COPIES_NOTHING;
    shard_reply(s, WIRE_TYPE_FOLLOW, f->id)->u.FOLLOW_reply =
        (struct wire_FOLLOW_reply){s->copies.term, copies_newest(s), back};
    struct msg *m = wire_encode(&s->out);
    if (records_add(s, m, records, bytes) != 0) {
        msg_free(m); /* out of memory: the follower asks again */
        return;
    }
    shard_send(s, f->peer, m);
}

static void records_cb(void *context, int status, const void *records, size_t bytes, uint64_t last)
{
    struct copies_follower *f = context;
    f->reading = false;
    if (f->waits != COPIES_RECORDS)
        return;
    if (f->read_after != f->have)
        copies_serve_one(f); /* it has asked again meanwhile */
    else if (status != 0)
        copies_follower_refuse(f, status, "the records behind its last one cannot be read");
    else if (bytes > 0) {
        f->goal = last >= copies_newest(f->s) ? last : UINT64_MAX;
        copies_answer(f, UINT64_MAX, records, bytes);
    }
}

/* Answers a FOLLOW that waits, if there are records. */
void copies_serve_one(struct copies_follower *f)
{
    struct err e = {0};
    if (f->waits != COPIES_RECORDS || f->reading)
        return;
    f->reading = true;
    f->read_after = f->have;
    int rc = engine_records(f->s->engine, f->have, ANSWER_BYTES, records_cb, f, &e);
    if (rc) {
        f->reading = false;
        copies_follower_refuse(f, rc, e.text);
    }
}

void copies_serve(struct shard *s)
{
    for (uint32_t i = 0; i < s->copies.count; i++)
        copies_serve_one(&s->copies.follower[i]);
}

bool copies_given_up(const struct shard *s, const struct copies_follower *f)
{
    return env_now_ns(s->env) - f->heard_ns > s->copies.lease_ns * GIVEN_UP;
}

void copies_keep(struct shard *s)
{
    const struct copies *c = &s->copies;
    bool press = engine_records_press(s->engine);
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct copies_follower *f = &c->follower[i];
        bool counts = ((c->in_sync | c->asked) >> i & 1) != 0 || (!press && !copies_given_up(s, f));
        if (i != c->place && counts)
            lowest = MIN(lowest, f->have);
    }
    engine_records_keep(s->engine, lowest);
}
