/* assign.c: the invariant is in assign.h. */
#include "server/shard/assign.h"

#include "proto/base/assert.h"
#include "server/shard/push.h"

#include <inttypes.h>

/* ---- ASSIGN ---- */

/* Rows by key: wire_decode has checked that they are of no run. */
static int check_rows(struct shard *s, const struct wire_ASSIGN *w, struct err *e)
{
    const struct table_schema *schema;
    int rc = shard_schema(s, 0, w->table, &schema, e);
    if (rc)
        return rc;
    return push_check_led(s, schema, w->tablet, w->tablet_count, e);
}

static int check_image(struct shard *s, const struct wire_ASSIGN *w, struct err *e)
{
    const struct table_schema *schema;
    int rc = shard_schema(s, w->run, w->table, &schema, e);
    if (rc)
        return rc;
    if (shard_run_untold(s, w->run))
        return err_set(e, SHOAL_E_AGAIN,
                       "shard %s has come back and waits to hear who may push; send again",
                       s->name);
    if (w->from >= w->to || s->m->frame[1].bytes == 0)
        return err_set(e, SHOAL_E_MALFORMED,
                       "lane %u assigns table %s as of batch %" PRIu64 " behind %" PRIu64
                       ", with an image of %zu bytes",
                       w->lane, schema->name, w->to, w->from, s->m->frame[1].bytes);
    return push_check_led(s, schema, w->tablet, 1, e);
}

static int check(struct shard *s, const struct wire_ASSIGN *w, struct err *e)
{
    if (w->key_count > 0)
        return check_rows(s, w, e);
    return check_image(s, w, e);
}

void assign_on_message(struct shard *s, peer_t from)
{
    struct err e = {0};
    struct request *q = shard_take(s, from, check(s, &s->in.u.ASSIGN, &e), &e);
    if (q != NULL)
        push_enter(s, q);
}

void assign_reply(struct shard *s, const struct request *q)
{
    const struct push_plan *plan = &q->push.plan;
    SHOAL_ASSERT(q->type == WIRE_TYPE_ASSIGN);
    shard_reply(s, WIRE_TYPE_ASSIGN, q->id)->u.ASSIGN_reply =
        (struct wire_ASSIGN_reply){.applied = plan->applied > 0,
                                   .mark = plan->mark,
                                   .made = plan->assigned.made,
                                   .replaced = plan->assigned.replaced,
                                   .kept = plan->assigned.kept,
                                   .blocked = plan->assigned.blocked};
}

/* ---- IMAGE ---- */

static int acknowledged(struct shard *s, uint64_t sequence, struct err *e)
{
    uint64_t through = engine_acknowledged(s->engine);
    if (s->copies.role == COPIES_LEADS)
        through = copies_acknowledged(s, through);
    if (sequence <= through)
        return 0;
    return err_set(e, SHOAL_E_AGAIN,
                   "the tablet's record %" PRIu64 " is not yet durable, or not in every copy; ask "
                   "again",
                   sequence);
}

static int find(struct shard *s, const struct wire_IMAGE *w, struct engine_image *out,
                struct err *e)
{
    const struct engine_image_of of = {w->table, w->tablet, w->run, w->lane};
    const struct table_schema *schema;
    int rc = shard_schema(s, w->run, w->table, &schema, e);
    if (rc == 0)
        rc = push_check_led(s, schema, w->tablet, 1, e);
    if (rc == 0)
        rc = engine_image(s->engine, &of, out, e);
    if (rc == 0)
        rc = acknowledged(s, out->sequence, e); /* 1. */
    return rc;
}

void assign_on_image(struct shard *s, peer_t from)
{
    const struct wire_IMAGE w = s->in.u.IMAGE;
    uint64_t id = s->in.id;
    struct engine_image image;
    struct err e = {0};
    int rc = find(s, &w, &image, &e);
    if (rc) {
        shard_refuse(s, from, WIRE_TYPE_IMAGE, id, rc, "shard %s: %s", s->name, e.text);
        return;
    }
    shard_reply(s, WIRE_TYPE_IMAGE, id)->u.IMAGE_reply =
        (struct wire_IMAGE_reply){image.mark, image.rows};
    struct msg *m = wire_encode(&s->out);
    void *frame = msg_add(m, image.bytes);
    if (frame == NULL) {
        msg_free(m);
        shard_refuse(s, from, WIRE_TYPE_IMAGE, id, SHOAL_E_NOMEM,
                     "shard %s: no memory for the image of tablet %u; ask again", s->name,
                     w.tablet);
        return;
    }
    table_image_write(image.from, w.tablet, frame);
    shard_send(s, from, m);
}
