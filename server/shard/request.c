/* request.c: the pool of pulls and pushes. */
#include "server/shard/request.h"

#include "proto/base/assert.h"
#include "proto/base/rng.h"

#include <stdlib.h>

/* further places for pushes that will not wait, when waiting pushes have all others */
#define AT_ONCE (LIMIT_WAITING / 16)
#define PLACES (REQUEST_KINDS * LIMIT_WAITING + AT_ONCE)

static enum request_kind kind_of(enum wire_type type)
{
    SHOAL_ASSERT(type == WIRE_TYPE_PULL || type == WIRE_TYPE_PUSH || type == WIRE_TYPE_ASSIGN);
    if (type == WIRE_TYPE_PULL)
        return REQUEST_PULL;
    return REQUEST_PUSH;
}

static struct request_share *share_of(struct request_pool *p, enum wire_type type)
{
    return &p->share[kind_of(type)];
}

int request_pool_init(struct request_pool *p, uint64_t bytes_max)
{
    uint64_t all = bytes_max;
    if (all == 0)
        all = 1ull << 30;
    *p = (struct request_pool){.share[REQUEST_PULL].bytes_max = all / 4,
                               .share[REQUEST_PUSH].bytes_max = all - all / 4};
    p->block = calloc(PLACES, sizeof *p->block);
    if (p->block == NULL)
        return SHOAL_E_NOMEM;
    return 0;
}

void request_pool_close(struct request_pool *p)
{
    for (uint32_t i = 0; i < p->begun; i++)
        msg_free(p->block[i].m);
    free(p->block);
    *p = (struct request_pool){0};
}

uint32_t request_pool_used(const struct request_pool *p)
{
    return p->share[REQUEST_PULL].used + p->share[REQUEST_PUSH].used;
}

uint64_t request_pool_bytes(const struct request_pool *p)
{
    return p->share[REQUEST_PULL].bytes + p->share[REQUEST_PUSH].bytes;
}

bool request_pool_pressed(const struct request_pool *p)
{
    const struct request_share *s = &p->share[REQUEST_PUSH];
    return s->refused || s->used > LIMIT_WAITING / 2 || s->bytes > s->bytes_max / 2;
}

bool request_pool_full(const struct request_pool *p, const struct wire *w, const struct msg *m)
{
    const struct request_share *s = &p->share[kind_of(w->type)];
    return s->used >= LIMIT_WAITING || s->bytes + msg_bytes(m) > s->bytes_max;
}

static struct request_count *count_of(struct request_share *s, uint64_t holder)
{
    return &s->of[rng_mix(holder) % REQUEST_PLACES];
}

/* True when one holder has half of a share of which three quarters are taken. */
static bool greedy(struct request_share *s, uint64_t from)
{
    const struct request_count *has = count_of(s, from);
    if (s->used < LIMIT_WAITING / 4 * 3 && s->bytes < s->bytes_max / 4 * 3)
        return false;
    return has->used > LIMIT_WAITING / 2 || has->bytes > s->bytes_max / 2;
}

bool request_may_wait(struct request_pool *p, const struct request *q, uint32_t waiting,
                      uint64_t bytes)
{
    struct request_share *s = &p->share[REQUEST_PULL];
    const struct request_count *has = count_of(s, q->holder);
    SHOAL_ASSERT(q->taken && q->type == WIRE_TYPE_PULL && has->used > 0);
    return waiting < LIMIT_WAITING / 8 * 5 && bytes + q->bytes <= s->bytes_max / 8 * 5 &&
           has->used <= LIMIT_WAITING / 2 && has->bytes <= s->bytes_max / 2;
}

static bool room(struct request_share *s, uint64_t from, size_t bytes, bool at_once)
{
    if (at_once)
        return s->used < LIMIT_WAITING + AT_ONCE && s->bytes + bytes <= 2 * s->bytes_max;
    return s->used < LIMIT_WAITING && s->bytes + bytes <= s->bytes_max && !greedy(s, from);
}

static void fill_pull(struct request *q, const struct wire_PULL *w)
{
    q->pull.run = w->run;
    q->pull.batch = w->batch;
    q->pull.table = w->table;
    q->pull.lane = w->lane;
    q->pull.bound = w->bound;
    q->pull.key_count = w->key_count;
    q->pull.values = w->values;
    q->pull.parts = w->parts;
    q->pull.keys = q->m->frame[1].data;
    /* wire_decode has checked it */
    SHOAL_ASSERT(q->m->frame[1].bytes == w->key_count * sizeof *q->pull.keys);
    q->pull.need = 0;
    q->pull.clock = 0;
    q->pull.parked = false;
}

static void fill_push(struct request *q, const struct wire_PUSH *w)
{
    q->push.r = (struct push_record){
        .run = w->run,
        .generation = w->generation,
        .from = w->from,
        .to = w->to,
        .lane = w->lane,
        .table = w->table,
        .tablet_first = w->tablet_first,
        .tablet_count = w->tablet_count,
        .lr_scale = w->lr_scale,
        .key_count = w->key_count,
        .event_time = w->event_time,
        .worker = w->worker,
        .task = w->task,
        .width = w->width,
        .clock = w->clock,
        .keys = q->m->frame[1].data,
        .gradients = q->m->frame[2].data,
    };
    SHOAL_ASSERT(q->m->frame[1].bytes == w->key_count * sizeof *q->push.r.keys);
    q->push.echo = w->echo;
    q->push.values = w->values;
    q->push.wanted = q->m->frame[3].data;
}

static void fill_rows(struct request *q, const struct wire_ASSIGN *w)
{
    const struct frame *f = &q->m->frame[1];
    const uint64_t *keys = f->data;
    const size_t rows_bytes = f->bytes - w->key_count * sizeof *keys; /* wire_decode */
    q->push.r = (struct push_record){
        .table = w->table,
        .tablet_first = w->tablet,
        .tablet_count = w->tablet_count,
        .key_count = w->key_count,
        .keys = keys,
        .rows = (const float *)(const void *)(keys + w->key_count),
        .row_floats = (uint32_t)(rows_bytes / w->key_count / sizeof(float)),
        .parts = w->parts,
    };
}

static void fill_image(struct request *q, const struct wire_ASSIGN *w)
{
    q->push.r = (struct push_record){
        .run = w->run,
        .generation = w->generation,
        .from = w->from,
        .to = w->to,
        .lane = w->lane,
        .table = w->table,
        .tablet_first = w->tablet,
        .tablet_count = 1,
        .worker = w->worker,
        .image = q->m->frame[1].data,
        .image_bytes = (uint32_t)q->m->frame[1].bytes,
    };
    SHOAL_ASSERT(q->push.r.image_bytes == q->m->frame[1].bytes); /* a frame has a limit */
}

static void fill_assign(struct request *q, const struct wire_ASSIGN *w)
{
    if (w->key_count > 0)
        fill_rows(q, w);
    else
        fill_image(q, w);
    q->push.echo = q->push.values = 0;
    q->push.wanted = NULL;
}

/* Fills in the rest of a request from its message. False: it is not traced. */
static bool fill(struct request *q, const struct wire *w)
{
    if (w->type == WIRE_TYPE_PULL) {
        fill_pull(q, &w->u.PULL);
        return w->u.PULL.traced;
    }
    q->push.plan = (struct push_plan){0};
    q->push.replies = false;
    q->push.wait_sequence = 0;
    q->push.status = 0;
    if (w->type == WIRE_TYPE_ASSIGN) {
        fill_assign(q, &w->u.ASSIGN);
        return false;
    }
    fill_push(q, &w->u.PUSH);
    return w->u.PUSH.traced;
}

struct request *request_take(struct request_pool *p, const struct request_from *from,
                             const struct wire *w, struct msg *m, bool at_once, uint64_t now_ns)
{
    size_t bytes = msg_bytes(m);
    uint64_t holder = from->holder;
    if (holder == 0)
        holder = from->peer;
    struct request_share *s = share_of(p, w->type);
    struct request *q = p->free;
    if (q == NULL && p->begun < PLACES)
        q = &p->block[p->begun];
    SHOAL_ASSERT(q != NULL || request_pool_used(p) == PLACES);
    SHOAL_ASSERT(!at_once || w->type == WIRE_TYPE_PUSH);
    if (!room(s, holder, bytes, at_once)) {
        s->refused = true;
        return NULL;
    }
    if (q == p->free)
        p->free = q->next;
    else
        p->begun++;
    s->used++;
    s->bytes += bytes;
    count_of(s, holder)->used++;
    count_of(s, holder)->bytes += bytes;
    SHOAL_ASSERT(!q->taken && q->m == NULL && q->bytes == 0); /* the place is free */
    q->taken = true;
    q->next = NULL;
    q->m = m;
    q->bytes = bytes;
    q->peer = from->peer;
    q->holder = holder;
    q->id = w->id;
    q->arrived_ns = now_ns;
    q->type = w->type;
    span_begin(&q->span, fill(q, w), now_ns);
    return q;
}

/* Takes what q holds out of it and of the counts. */
static struct msg *take_out(struct request_pool *p, struct request *q)
{
    struct request_share *s = share_of(p, q->type);
    struct request_count *has = count_of(s, q->holder);
    struct msg *m = q->m;
    SHOAL_ASSERT(s->bytes >= q->bytes && has->bytes >= q->bytes);
    s->bytes -= q->bytes;
    has->bytes -= q->bytes;
    q->bytes = 0;
    q->m = NULL;
    return m;
}

void request_drop_message(struct request_pool *p, struct request *q)
{
    msg_free(take_out(p, q));
}

bool request_reply_fits(const struct request_pool *p, const struct request *q, size_t bytes)
{
    const struct request_share *s = &p->share[kind_of(q->type)];
    return s->bytes - q->bytes + bytes <= s->bytes_max;
}

void request_keep_reply(struct request_pool *p, struct request *q, struct msg *reply)
{
    struct request_share *s = share_of(p, q->type);
    SHOAL_ASSERT(q->taken && q->type == WIRE_TYPE_PUSH && q->m == NULL && q->bytes == 0);
    q->m = reply;
    q->push.replies = true;
    q->bytes = msg_bytes(reply);
    s->bytes += q->bytes;
    count_of(s, q->holder)->bytes += q->bytes;
}

struct msg *request_take_reply(struct request_pool *p, struct request *q)
{
    SHOAL_ASSERT(q->type == WIRE_TYPE_PUSH && q->push.replies && q->m != NULL);
    q->push.replies = false;
    return take_out(p, q);
}

void request_give(struct request_pool *p, struct request *q)
{
    struct request_share *s = share_of(p, q->type);
    SHOAL_ASSERT(s->used > 0 && s->used <= LIMIT_WAITING + AT_ONCE);
    SHOAL_ASSERT(q >= p->block && q < p->block + PLACES && q->taken);
    SHOAL_ASSERT(q->next == NULL); /* it is off its list */
    request_drop_message(p, q);
    q->next = p->free;
    p->free = q;
    q->taken = false;
    SHOAL_ASSERT(count_of(s, q->holder)->used > 0);
    count_of(s, q->holder)->used--;
    s->used--;
    s->refused &= s->bytes > s->bytes_max / 4;
    SHOAL_ASSERT(s->used > 0 || s->bytes == 0);
}

void request_append(struct request_list *l, struct request *q)
{
    SHOAL_ASSERT((l->head == NULL) == (l->tail == NULL));
    SHOAL_ASSERT(l->tail != q);
    q->next = NULL;
    if (l->tail != NULL) {
        SHOAL_ASSERT(l->tail->next == NULL);
        l->tail->next = q;
    } else {
        l->head = q;
    }
    l->tail = q;
}

struct request *request_pop(struct request_list *l)
{
    struct request *q = l->head;
    if (q == NULL)
        return NULL;
    l->head = q->next;
    SHOAL_ASSERT((l->head == NULL) == (l->tail == q));
    if (l->head == NULL)
        l->tail = NULL;
    q->next = NULL;
    return q;
}

bool request_same_pull(const struct request *a, const struct request *b)
{
    uint32_t n = a->pull.key_count;
    if (a->pull.lane != b->pull.lane || a->pull.batch != b->pull.batch || n != b->pull.key_count)
        return false;
    return n == 0 ||
           (a->pull.keys[0] == b->pull.keys[0] && a->pull.keys[n - 1] == b->pull.keys[n - 1]);
}
