/* copies_cut.c: COPY: a follower that begins anew copies a private cut of the leader. */
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/shard/copies.h"
#include "server/shard/shard.h"

#include <inttypes.h>
#include <string.h>

#define PART_MOST (4u << 20)

_Static_assert(ENGINE_COPY_POSITION <= WIRE_COPY_POSITION, "a position fits its frame");

static void refuse(struct copies_follower *f, int status, const char *text)
{
    struct shard *s = f->s;
    if (f->waits != COPIES_PART)
        return;
    f->waits = COPIES_NOTHING;
    shard_refuse(s, f->peer, WIRE_TYPE_COPY, f->id, status, "shard %s: %s", s->name, text);
}

static void part_release(void *data, void *hint)
{
    (void)data;
    msg_free(hint);
}

static void part_cb(void *context, int status, const char *text, struct msg *of, const void *part,
                    size_t bytes, const void *next, size_t next_bytes)
{
    struct copies_follower *f = context;
    struct shard *s = f->s;
    f->reading = false;
    if (status) {
        refuse(f, status, text);
        return;
    }
    if (f->waits != COPIES_PART)
        return;
    f->waits = COPIES_NOTHING;
    shard_reply(s, WIRE_TYPE_COPY, f->id)->u.COPY_reply =
        (struct wire_COPY_reply){f->number, f->sequence, f->bytes};
    struct msg *m = wire_encode(&s->out);
    if (m == NULL)
        return; /* out of memory: the follower asks again */
    int rc = msg_add_borrowed(m, (void *)(uintptr_t)part, bytes, part_release, msg_hold(of));
    SHOAL_ASSERT(rc == 0); /* no part is larger than a frame */
    void *second = msg_add(m, next_bytes);
    if (second == NULL) {
        msg_free(m); /* the same */
        return;
    }
    if (next_bytes > 0)
        memcpy(second, next, next_bytes);
    shard_send(s, f->peer, m);
}

static void read_part(struct copies_follower *f)
{
    struct err e = {0};
    if (f->reading) {
        refuse(f, SHOAL_E_BUSY, "a part is being read; ask again");
        return;
    }
    f->reading = true;
    int rc = engine_copy_read(f->s->engine, f->number, f->position, f->position_bytes, f->part_most,
                              part_cb, f, &e);
    if (rc) {
        f->reading = false;
        refuse(f, rc, e.text);
    }
}

static void begun_cb(void *context, int status, const char *text, uint64_t number,
                     uint64_t sequence, uint64_t bytes)
{
    struct copies_follower *f = context;
    f->cutting = false;
    if (status) {
        f->copying = false;
        refuse(f, status, text);
        return;
    }
    f->number = number;
    f->sequence = f->have = sequence; /* the records behind it are kept */
    f->bytes = bytes;
    if (f->copying)
        read_part(f);
    else
        copies_cut_end(f->s, f); /* it was given up meanwhile */
}

static void cut_begin(struct copies_follower *f)
{
    struct shard *s = f->s;
    struct err e = {0};
    f->copying = f->cutting = true;
    int rc = engine_copy_begin(s->engine, begun_cb, f, &e);
    if (rc) {
        f->copying = f->cutting = false;
        refuse(f, rc, e.text);
        return;
    }
    log_info("shard %s: copy %u begins anew with a cut", s->name,
             (unsigned)(f - s->copies.follower));
}

void copies_on_copy(struct shard *s, peer_t from)
{
    const struct wire_COPY w = s->in.u.COPY;
    const struct frame *at = &s->m->frame[1];
    struct copies_follower *f = copies_sender(s, from, w.shard, w.copy, w.term);
    if (f == NULL)
        return;
    f->waits = COPIES_PART;
    f->near = false;
    if ((w.number != 0 && w.number != f->number) || at->bytes > WIRE_COPY_POSITION) {
        refuse(f, SHOAL_E_NOT_FOUND, "it has no such cut; begin again");
        return;
    }
    f->part_most = MIN(w.most, PART_MOST);
    f->position_bytes = 0;
    if (w.number != 0 && at->bytes > 0) {
        f->position_bytes = at->bytes;
        memcpy(f->position, at->data, at->bytes);
    }
    if (f->number != 0)
        read_part(f);
    else if (f->cutting)
        f->copying = true;
    else
        cut_begin(f);
}

void copies_cut_end(struct shard *s, struct copies_follower *f)
{
    f->copying = false;
    if (f->number != 0)
        engine_copy_end(s->engine, f->number);
    f->number = 0;
}

void copies_engine_gone(struct shard *s)
{
    for (uint32_t i = 0; i < LIMIT_COPIES; i++) {
        struct copies_follower *f = &s->copies.follower[i];
        f->copying = f->cutting = f->reading = false;
        f->number = 0;
    }
}
