/* fetcher.c: see fetcher.h.
 *
 * 1. A shard gives an absent key negative zeros, which no stored row consists of (PULL): so the
 *    sign of all floats of a row says whether it is there. */
#include "worker/train/fetcher.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/job/schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* AHEAD: the caller's arrays are met in the order of tablets, so at random; the memory of a place
 * so far ahead is asked for meanwhile. */
enum { PARTS = 12, REPLY_BYTES = 4 << 20, INSERTED = 64, STRETCH_BITS = 20, AHEAD = 16, LINE = 64 };

struct place { /* the place of a key in the order of tablets */
    uint64_t mixed;
    uint32_t index;
};

/* Places [at, last), of which [at, end) are in flight. */
struct fetch_part {
    struct request request;
    struct fetcher *of;
    uint32_t at, end, last;
    uint32_t keys; /* different ones among those in flight */
};

struct fetcher {
    struct fetcher_options options;
    struct place *place; /* owned; (count), sorted */
    uint32_t per_message;
    uint64_t taken;
    uint32_t busy; /* parts with places left */
    bool over;
    struct fetch_part part[PARTS];
};

static void finish(struct fetcher *f, int status, const struct err *e)
{
    if (f->over)
        return;
    f->over = true;
    for (uint32_t i = 0; i < PARTS; i++)
        client_cancel(f->options.client, &f->part[i].request);
    f->options.done(f->options.context, status, e);
}

/* ---- a message ------------------------------------------------------------------------------- */

static uint32_t tablet_of(const struct fetcher *f, uint32_t place)
{
    return key_tablet(f->place[place].mixed, f->options.schema->tablet_bits);
}

static bool same_key(const struct fetcher *f, uint32_t place)
{
    return place > 0 && f->place[place].mixed == f->place[place - 1].mixed;
}

/* Chooses the keys of the next message: those from `at` on in tablets that one shard leads. False:
 * the map does not have the table's tablets. */
static bool message_choose(struct fetch_part *p)
{
    struct fetcher *f = p->of;
    const struct table_schema *s = f->options.schema;
    const struct map *map = client_map(f->options.client);
    const uint32_t first = s->tablet_first + tablet_of(f, p->at);
    const uint32_t last = s->tablet_first + (1u << s->tablet_bits);
    if (last > map->tablet_count)
        return false;
    const uint32_t beyond = first + map_stretch(map, first, last) - s->tablet_first;
    p->keys = 1;
    for (p->end = p->at + 1; p->end < p->last && tablet_of(f, p->end) < beyond; p->end++) {
        bool other = !same_key(f, p->end);
        if (other && p->keys == f->per_message)
            break;
        p->keys += other;
    }
    p->request.target = map->shard[first];
    return true;
}

static void map_lacks(struct fetcher *f)
{
    struct err e;
    (void)err_set(&e, SHOAL_E_NO_TABLE, "the map has no tablets of table %s",
                  f->options.schema->name);
    finish(f, e.code, &e);
}

static struct msg *message_build(struct request *r)
{
    struct fetch_part *p = container_of(r, struct fetch_part, request);
    const struct fetcher *f = p->of;
    struct wire w;
    client_head(r, &w);
    w.u.PULL = (struct wire_PULL){.table = f->options.number,
                                  .lane = UINT32_MAX,
                                  .bound = WIRE_BOUND_ASYNC,
                                  .key_count = p->keys,
                                  .parts = f->options.state != NULL ? WIRE_ASSIGN_STATE : 0,
                                  .map_epoch = client_map(f->options.client)->epoch};
    struct msg *m = wire_encode(&w);
    uint64_t *keys = NULL;
    if (m != NULL)
        keys = msg_add(m, p->keys * sizeof *keys);
    if (keys == NULL) {
        msg_free(m);
        return NULL;
    }
    for (uint32_t i = p->at, n = 0; i < p->end; i++)
        if (i == p->at || !same_key(f, i))
            keys[n++] = key_unmix(f->place[i].mixed);
    return m;
}

/* ---- an answer ------------------------------------------------------------------------------- */

/* Floats of a row in an answer. */
static uint32_t row_floats(const struct fetcher_options *o)
{
    return o->schema->width + (o->state != NULL ? o->state_floats : 0);
}

static bool is_absent(const float *row, uint32_t floats) /* 1 */
{
    for (uint32_t i = 0; i < floats; i++)
        if (row[i] != 0.0f || !signbit(row[i]))
            return false;
    return true;
}

/* row NULL: the key has none. */
static void floats_put(float *to, const float *row, uint32_t floats)
{
    if (row == NULL)
        memset(to, 0, floats * sizeof *to);
    else
        memcpy(to, row, floats * sizeof *to);
}

static void row_ahead(const struct fetcher_options *o, size_t index)
{
    const char *row = (const char *)(o->rows + index * o->schema->width);
    for (size_t at = 0; at < o->schema->width * sizeof(float); at += LINE)
        __builtin_prefetch(row + at, 1);
}

static void rows_take(const struct fetch_part *p, const float *rows)
{
    const struct fetcher_options *o = &p->of->options;
    const uint32_t width = o->schema->width, floats = row_floats(o);
    const float *row = NULL;
    for (uint32_t i = p->at; i < p->end; i++) {
        if (i + AHEAD < p->end)
            row_ahead(o, p->of->place[i + AHEAD].index);
        const size_t index = p->of->place[i].index;
        if (i == p->at || !same_key(p->of, i)) {
            row = is_absent(rows, floats) ? NULL : rows;
            rows += floats;
        }
        floats_put(o->rows + index * width, row, width);
        if (o->state != NULL)
            floats_put(o->state + index * o->state_floats, row != NULL ? row + width : NULL,
                       o->state_floats);
        if (o->found != NULL)
            o->found[index] = row != NULL;
    }
}

/* A shard's answer is checked before its rows are read. */
static bool rows_fit(const struct fetch_part *p, const struct wire_PULL_reply *reply,
                     const struct msg *m)
{
    const uint32_t floats = row_floats(&p->of->options);
    return reply->key_count == p->keys && reply->width == floats && reply->values == VALUES_FP32 &&
           m->frame[1].bytes == (size_t)p->keys * floats * sizeof(float);
}

/* The reason why an answer is not taken. */
static int answer_refuse(const struct fetch_part *p, const struct wire *w, struct err *e)
{
    const struct fetcher_options *o = &p->of->options;
    if (w->status != 0)
        return err_set(e, w->status, "%s", wire_error(w));
    if (o->state != NULL && o->state_floats > 0 && w->u.PULL_reply.width == o->schema->width)
        return err_set(e, SHOAL_E_VERSION,
                       "a server of an older release gives no optimizer state: upgrade the servers "
                       "first");
    return err_set(e, SHOAL_E_MALFORMED, "a shard's rows do not fit table %s", o->schema->name);
}

static void part_next(struct fetch_part *p);

static enum request_verdict message_reply(struct request *r, const struct wire *w,
                                          const struct msg *m)
{
    struct fetch_part *p = container_of(r, struct fetch_part, request);
    struct fetcher *f = p->of;
    struct err e;
    if (client_passing(w->status) || w->status == SHOAL_E_NOT_LEADER) {
        if (message_choose(p)) /* by the map of now */
            return REQUEST_LATER;
        map_lacks(f);
        return REQUEST_DONE;
    }
    if (w->status != 0 || !rows_fit(p, &w->u.PULL_reply, m)) {
        int status = answer_refuse(p, w, &e);
        finish(f, status, &e);
        return REQUEST_DONE;
    }
    rows_take(p, m->frame[1].data);
    f->taken += p->end - p->at;
    p->at = p->end;
    part_next(p);
    return REQUEST_DONE;
}

/* Sends the part's next message. */
static void part_next(struct fetch_part *p)
{
    struct fetcher *f = p->of;
    SHOAL_ASSERT(!request_active(&p->request) && f->busy > 0);
    if (p->at == p->last) {
        if (--f->busy == 0)
            finish(f, 0, NULL);
    } else if (message_choose(p)) {
        client_start(f->options.client, &p->request);
    } else {
        map_lacks(f);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int place_compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->mixed != y->mixed)
        return x->mixed < y->mixed ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void stretch_sort(struct place *p, uint32_t count)
{
    if (count > INSERTED) {
        qsort(p, count, sizeof *p, place_compare);
        return;
    }
    for (uint32_t i = 1; i < count; i++) {
        const struct place x = p[i];
        uint32_t k = i;
        for (; k > 0 && place_compare(&p[k - 1], &x) > 0; k--)
            p[k] = p[k - 1];
        p[k] = x;
    }
}

/* Sorts places by mixed key: each goes at once to the stretch of its top bits, a few places long;
 * then the stretches are sorted. False: no memory. */
static bool places_sort(struct fetcher *f)
{
    const uint32_t count = (uint32_t)f->options.count;
    const uint64_t *keys = f->options.keys;
    uint32_t bits = 1;
    while (bits < STRETCH_BITS && count >> bits > INSERTED / 4)
        bits++;
    uint32_t *end = calloc((1u << bits) + 1u, sizeof *end);
    if (end == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        end[key_tablet(key_mix(keys[i]), bits) + 1]++;
    for (uint32_t s = 0; s < 1u << bits; s++)
        end[s + 1] += end[s];
    for (uint32_t i = 0; i < count; i++) { /* end[s] goes from its begin to its end */
        const uint64_t mixed = key_mix(keys[i]);
        if (i + AHEAD < count)
            __builtin_prefetch(&f->place[end[key_tablet(key_mix(keys[i + AHEAD]), bits)]], 1);
        f->place[end[key_tablet(mixed, bits)]++] = (struct place){mixed, i};
    }
    for (uint32_t s = 0, at = 0; s < 1u << bits; at = end[s++])
        stretch_sort(f->place + at, end[s] - at);
    free(end);
    return true;
}

int fetcher_new(const struct fetcher_options *options, struct fetcher **out, struct err *e)
{
    const size_t row_bytes = row_floats(options) * sizeof(float);
    SHOAL_ASSERT(options->count <= UINT32_MAX);
    struct fetcher *f = calloc(1, sizeof *f);
    *out = NULL;
    if (f == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    f->options = *options;
    f->per_message = (uint32_t)MAX(MIN(REPLY_BYTES / row_bytes, LIMIT_KEYS), 1);
    f->place = malloc(MAX(options->count, 1) * sizeof *f->place);
    if (f->place == NULL) {
        free(f);
        return err_set(e, SHOAL_E_NOMEM, "no memory for %zu keys", options->count);
    }
    if (!places_sort(f)) {
        fetcher_free(f);
        return err_set(e, SHOAL_E_NOMEM, "no memory for %zu keys", options->count);
    }
    for (uint32_t i = 0; i < PARTS; i++)
        f->part[i] = (struct fetch_part){
            .of = f,
            .request = {.type = WIRE_TYPE_PULL, .build = message_build, .reply = message_reply},
            .at = (uint32_t)(options->count * i / PARTS),
            .last = (uint32_t)(options->count * (i + 1) / PARTS)};
    *out = f;
    return 0;
}

void fetcher_free(struct fetcher *f)
{
    if (f == NULL)
        return;
    for (uint32_t i = 0; i < PARTS; i++)
        client_cancel(f->options.client, &f->part[i].request);
    free(f->place);
    free(f);
}

void fetcher_start(struct fetcher *f)
{
    SHOAL_ASSERT(client_map(f->options.client) != NULL && f->busy == 0);
    f->busy = PARTS;
    for (uint32_t i = 0; i < PARTS && !f->over; i++)
        part_next(&f->part[i]);
}

void fetcher_remap(struct fetcher *f)
{
    const struct map *map = client_map(f->options.client);
    for (uint32_t i = 0; i < PARTS && !f->over; i++) {
        struct fetch_part *p = &f->part[i];
        if (!request_active(&p->request))
            continue;
        const uint32_t tablet = f->options.schema->tablet_first + tablet_of(f, p->at);
        if (tablet < map->tablet_count && map->shard[tablet] == p->request.target)
            continue;
        client_cancel(f->options.client, &p->request);
        if (message_choose(p))
            client_start(f->options.client, &p->request);
        else
            map_lacks(f);
    }
}

uint64_t fetcher_taken(const struct fetcher *f)
{
    return f->taken;
}
