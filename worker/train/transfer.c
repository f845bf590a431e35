/* transfer.c: pulls and pushes of one batch. */
#include "worker/train/transfer.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* one GAP may be a late copy of an old answer; ten in a row over some seconds prove the loss */
enum { LOST_AFTER = 10 };

struct transfer_part {
    struct request request;
    struct transfer *transfer;
    struct part part;
    uint32_t keys; /* keys of the part; part.key_count is 0 where a push became a tick */
    bool moved;    /* a shard that led no more may have passed it on */
    uint32_t gaps; /* GAP answers so far */
    uint32_t lost; /* ... while no earlier push was in flight */
};

/* ---- messages out ---------------------------------------------------------------------------- */

static uint64_t map_epoch(const struct transfer *t)
{
    const struct map *map = client_map(t->client);
    if (map == NULL)
        return 0;
    return map->epoch;
}

/* The number of the part's table on the shards; without a map, a number that no table has. */
static uint32_t table_number(const struct transfer *t, const struct part *p)
{
    const struct map *map = client_map(t->client);
    return map == NULL ? LIMIT_TABLES : table_set_nth(map->tables, p->table);
}

/* The head of a request. The fields of all types, which are many bytes, are not cleared. */
static void request_head(struct wire *w, enum wire_type type, uint64_t id)
{
    w->type = type;
    w->reply = false;
    w->id = id;
    w->status = 0;
    w->error[0] = '\0';
}

/* Dense weights and the model's statistics come as they are: every example reads them. */
static enum value_kind values_wanted(const struct transfer_part *p)
{
    if (p->transfer->rows->table[p->part.table].block != NULL)
        return VALUES_FP32;
    return p->transfer->name.values;
}

static struct msg *pull_build(struct request *r)
{
    struct transfer_part *p = container_of(r, struct transfer_part, request);
    struct transfer *t = p->transfer;
    struct wire w;
    request_head(&w, WIRE_TYPE_PULL, r->id);
    w.u.PULL = (struct wire_PULL){.run = t->name.run,
                                  .table = table_number(t, &p->part),
                                  .lane = t->name.lane,
                                  .batch = t->name.batch,
                                  .bound = t->name.bound,
                                  .key_count = p->part.key_count,
                                  .map_epoch = map_epoch(t),
                                  .traced = t->trace != NULL,
                                  .values = WIRE_VALUES + values_wanted(p)};
    struct msg *m = wire_encode(&w);
    if (m != NULL && rows_add_keys(t->rows, &p->part, false, m) != 0) {
        msg_free(m);
        m = NULL;
    }
    return m;
}

static struct msg *push_build(struct request *r)
{
    struct transfer_part *p = container_of(r, struct transfer_part, request);
    struct transfer *t = p->transfer;
    struct wire w;
    request_head(&w, WIRE_TYPE_PUSH, r->id);
    w.u.PUSH = (struct wire_PUSH){.run = t->name.run,
                                  .table = table_number(t, &p->part),
                                  .lane = t->name.lane,
                                  .generation = t->name.generation,
                                  .from = t->name.batch - 1,
                                  .to = t->name.batch,
                                  .tablet_first = p->part.tablet_first,
                                  .tablet_count = p->part.tablet_count,
                                  .lr_scale = t->name.lr_scale,
                                  .key_count = p->part.key_count,
                                  .map_epoch = map_epoch(t),
                                  .worker = t->name.worker,
                                  .task = t->name.task,
                                  .event_time = t->name.event_time,
                                  .traced = t->trace != NULL,
                                  .clock = rows_steps(t->rows, p->part.table, p->part.shard),
                                  .width = t->rows->table[p->part.table].width,
                                  .echo = rows_echoes(t->rows, &p->part),
                                  .values = WIRE_VALUES + values_wanted(p)};
    struct msg *m = wire_encode(&w);
    if (m != NULL && (rows_add_keys(t->rows, &p->part, true, m) != 0 ||
                      rows_add_gradients(t->rows, &p->part, m) != 0 ||
                      rows_add_echo(t->rows, &p->part, m) != 0)) {
        msg_free(m);
        m = NULL;
    }
    return m;
}

/* ---- answers --------------------------------------------------------------------------------- */

static enum request_verdict refuse(struct transfer *t, int status, const char *text)
{
    transfer_cancel(t);
    t->refused(t, status, text);
    return REQUEST_DONE;
}

static enum request_verdict part_refused(struct transfer_part *p, const struct wire *w)
{
    struct transfer *t = p->transfer;
    struct err e = {0};
    if (client_passing(w->status))
        return REQUEST_LATER;
    if (w->status == SHOAL_E_NOT_LEADER) { /* the client seeks the shard that leads */
        p->moved = true;
        return REQUEST_LATER;
    }
    err_set(&e, w->status, "shard %u refused the %s of lane %d batch %" PRIu64 ", table %s: %s",
            p->part.shard, t->push ? "push" : "pull", (int)t->name.lane, t->name.batch,
            t->rows->table[p->part.table].schema->name, wire_error(w));
    return refuse(t, w->status, e.text);
}

static void part_trace(const struct transfer_part *p, const struct wire *answer)
{
    const struct transfer *t = p->transfer;
    const struct wire_trace_part part = {.id = answer->id,
                                         .shard = p->request.target,
                                         .table = table_number(t, &p->part),
                                         .keys = p->part.key_count,
                                         .tries = p->request.tries};
    trace_part(t->trace, t->push, &part, client_now_ns(t->client));
}

static void part_answered(struct transfer_part *p, const struct wire *answer)
{
    struct transfer *t = p->transfer;
    SHOAL_ASSERT(t->pending > 0);
    if (t->trace != NULL)
        part_trace(p, answer);
    if (t->first_ns == 0)
        t->first_ns = client_now_ns(t->client);
    t->keys += p->part.key_count;
    if (--t->pending == 0)
        t->done(t);
}

/* staleness = clock - 1 - low: the number of clocks by which the slowest live lane was behind the
 * pushes that this pull could have seen. */
static void staleness_count(struct transfer *t, const struct wire_PULL_reply *reply)
{
    if (t->staleness == NULL)
        return;
    uint64_t clocks = 0;
    if (reply->clock > reply->low)
        clocks = reply->clock - 1 - reply->low;
    t->staleness[MIN(clocks, STALENESS_CELLS - 1)]++;
}

static enum request_verdict pull_reply(struct request *r, const struct wire *w, const struct msg *m)
{
    struct transfer_part *p = container_of(r, struct transfer_part, request);
    struct transfer *t = p->transfer;
    const struct wire_PULL_reply *reply = &w->u.PULL_reply;
    uint32_t width = t->rows->table[p->part.table].schema->width;
    struct err e = {0};
    SHOAL_ASSERT(!t->push && p < t->part + t->part_count);
    if (w->status != 0)
        return part_refused(p, w);
    if (reply->key_count != p->part.key_count || reply->width != width) {
        err_set(&e, SHOAL_E_SCHEMA,
                "shard %u answered a pull of %u keys of width %u with %u rows of width %u",
                p->part.shard, p->part.key_count, width, reply->key_count, reply->width);
        return refuse(t, SHOAL_E_SCHEMA, e.text);
    }
    SHOAL_ASSERT(reply->values <= VALUES_BF16); /* wire_decode has checked it */
    rows_steps_note(t->rows, p->part.table, p->part.shard, reply->steps);
    rows_take(t->rows, &p->part, (enum value_kind)reply->values, m->frame[1].data);
    if (reply->waited_ns > t->held_ns)
        t->held_ns = reply->waited_ns;
    staleness_count(t, reply);
    part_answered(p, w);
    return REQUEST_DONE;
}

/* A shard has refused a part for its values: it is sent again as a tick. A refusal of a tick is a
 * late copy of the answer to the earlier push. */
static enum request_verdict part_poisoned(struct transfer_part *p, const struct wire *w)
{
    struct transfer *t = p->transfer;
    if (p->part.key_count == 0)
        return REQUEST_LATER;
    t->poisoned(t, &p->part, wire_error(w));
    p->part.key_count = 0;
    return REQUEST_NOW;
}

/* Passes the rows on that came with a push. False: they are not those that were asked for, and the
 * transfer is refused. */
static bool part_echoed(struct transfer_part *p, const struct wire_PUSH_reply *reply,
                        const struct msg *m, uint32_t echoes)
{
    struct transfer *t = p->transfer;
    struct part whole = p->part;
    uint32_t width = t->rows->table[whole.table].schema->width;
    struct err e = {0};
    bool came = reply->key_count > 0;
    if (came && (reply->key_count != echoes || reply->width != width || p->part.key_count == 0)) {
        err_set(&e, SHOAL_E_SCHEMA,
                "shard %u answered a push that asked for %u rows of width %u with %u of width %u",
                whole.shard, echoes, width, reply->key_count, reply->width);
        refuse(t, SHOAL_E_SCHEMA, e.text);
        return false;
    }
    const void *rows = NULL;
    if (came)
        rows = m->frame[1].data;
    whole.key_count = p->keys;
    t->echoed(t, &whole, reply, rows);
    return true;
}

/* Echoes that a part asks for, or asked for before it went out as a tick. */
static uint32_t echoes_of(const struct transfer_part *p)
{
    struct part whole = p->part;
    whole.key_count = p->keys;
    return rows_echoes(p->transfer->rows, &whole);
}

static enum request_verdict push_reply(struct request *r, const struct wire *w, const struct msg *m)
{
    struct transfer_part *p = container_of(r, struct transfer_part, request);
    struct transfer *t = p->transfer;
    SHOAL_ASSERT(t->push && p < t->part + t->part_count);
    if (w->status == SHOAL_E_GAP && (t->gap(t, &p->part, r->order) > 0 || ++p->lost < LOST_AFTER))
        return p->gaps++ == 0 ? REQUEST_NOW : REQUEST_LATER;
    if (w->status == SHOAL_E_NOT_FINITE)
        return part_poisoned(p, w);
    if (w->status != 0)
        return part_refused(p, w);
    if (w->u.PUSH_reply.skipped > 0) {
        t->skipped = true;
        t->recomputed = t->recomputed || (r->tries == 1 && !p->moved);
    }
    uint32_t echoes = echoes_of(p);
    bool tell = echoes > 0 && t->pending > 1;
    if (echoes > 0 && !part_echoed(p, &w->u.PUSH_reply, m, echoes))
        return REQUEST_DONE;
    part_answered(p, w);
    if (tell)
        t->arrived(t);
    return REQUEST_DONE;
}

/* ---- the whole ------------------------------------------------------------------------------- */

void transfer_init(struct transfer *t, struct client *client, struct rows *rows)
{
    memset(t, 0, sizeof *t);
    t->client = client;
    t->rows = rows;
}

void transfer_close(struct transfer *t)
{
    transfer_cancel(t);
    free(t->part);
    t->part = NULL;
    t->part_capacity = 0;
}

static int parts_reserve(struct transfer *t, uint32_t count, struct err *e)
{
    SHOAL_ASSERT(t->part_count == 0); /* no request of the old array is in flight */
    if (count <= t->part_capacity)
        return 0;
    struct transfer_part *more = calloc(count, sizeof *more);
    if (more == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u requests of a batch", count);
    free(t->part);
    t->part = more;
    t->part_capacity = count;
    return 0;
}

int transfer_start(struct transfer *t, const struct transfer_name *name, bool push, struct err *e)
{
    const struct map *map = client_map(t->client);
    transfer_cancel(t);
    if (map == NULL)
        return err_set(e, SHOAL_E_AGAIN, "there is no map yet");
    int rc = rows_split(t->rows, map, push, e);
    if (rc == 0)
        rc = parts_reserve(t, t->rows->part_count, e);
    if (rc != 0)
        return rc;
    t->name = *name;
    t->push = push;
    t->keys = 0;
    t->first_ns = t->held_ns = 0;
    t->skipped = t->recomputed = false;
    if (t->trace != NULL)
        trace_asked(t->trace, push);
    struct request request = {.type = WIRE_TYPE_PULL, .build = pull_build, .reply = pull_reply};
    if (push)
        request = (struct request){
            .type = WIRE_TYPE_PUSH, .write = true, .build = push_build, .reply = push_reply};
    for (uint32_t i = 0; i < t->rows->part_count; i++) {
        const struct part *p = &t->rows->part[i];
        if (!push && p->key_count == 0)
            continue;
        request.target = p->shard;
        t->part[t->part_count++] = (struct transfer_part){
            .request = request, .transfer = t, .part = *p, .keys = p->key_count};
        if (push && t->rows->poisoned && !rows_part_refused(t->rows, p))
            /* a bad batch changes nothing, however it is divided: its good parts are sent as
             * ticks */
            t->part[t->part_count - 1].part.key_count = 0;
    }
    SHOAL_ASSERT(t->part_count <= t->part_capacity && (!push || t->part_count > 0));
    t->pending = t->part_count;
    for (uint32_t i = 0; i < t->part_count; i++)
        client_start(t->client, &t->part[i].request);
    return 0;
}

void transfer_cancel(struct transfer *t)
{
    for (uint32_t i = 0; i < t->part_count; i++)
        client_cancel(t->client, &t->part[i].request);
    t->part_count = 0;
    t->pending = 0;
}

uint32_t transfer_resend(struct transfer *t, const struct part *p, uint64_t order)
{
    uint32_t waiting = 0;
    SHOAL_ASSERT(t->push);
    for (uint32_t i = 0; i < t->part_count; i++) {
        struct transfer_part *own = &t->part[i];
        if (own->part.table != p->table ||
            own->part.tablet_first >= p->tablet_first + p->tablet_count ||
            p->tablet_first >= own->part.tablet_first + own->part.tablet_count ||
            !request_active(&own->request))
            continue;
        waiting++;
        if (own->request.order < order)
            client_again(t->client, &own->request);
    }
    return waiting;
}
