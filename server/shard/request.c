/* request.c: the pool of pulls and pushes. */
#include "server/shard/request.h"

#include "proto/base/assert.h"

#include <stdlib.h>

int request_pool_init(struct request_pool *p, uint64_t bytes_max)
{
    *p = (struct request_pool){.bytes_max = bytes_max ? bytes_max : 1ull << 30};
    p->block = calloc(LIMIT_WAITING, sizeof *p->block);
    if (p->block == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t i = LIMIT_WAITING; i-- > 0;) {
        p->block[i].next = p->free;
        p->free = &p->block[i];
    }
    return 0;
}

void request_pool_close(struct request_pool *p)
{
    for (uint32_t i = 0; p->block != NULL && i < LIMIT_WAITING; i++)
        msg_free(p->block[i].m);
    free(p->block);
    *p = (struct request_pool){0};
}

static void fill_pull(struct request *q, const struct wire_PULL *w)
{
    q->pull.run = w->run;
    q->pull.batch = w->batch;
    q->pull.table = w->table;
    q->pull.lane = w->lane;
    q->pull.bound = w->bound;
    q->pull.key_count = w->key_count;
    q->pull.keys = q->m->frame[1].data;
    /* as wire_decode has seen to */
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
        .keys = q->m->frame[1].data,
        .gradients = q->m->frame[2].data,
    };
    SHOAL_ASSERT(q->m->frame[1].bytes == w->key_count * sizeof *q->push.r.keys);
    q->push.plan = (struct push_plan){0};
    q->push.wait_sequence = 0;
    q->push.status = 0;
}

struct request *request_take(struct request_pool *p, peer_t from, const struct wire *w,
                             struct msg *m, uint64_t now_ns)
{
    size_t bytes = msg_bytes(m);
    struct request *q = p->free;
    SHOAL_ASSERT((q == NULL) == (p->used == LIMIT_WAITING));
    if (q == NULL || p->bytes + bytes > p->bytes_max)
        return NULL;
    p->free = q->next;
    p->used++;
    p->bytes += bytes;
    SHOAL_ASSERT(q->m == NULL && q->bytes == 0); /* nobody has it */
    q->next = NULL;
    q->m = m;
    q->bytes = bytes;
    q->peer = from;
    q->id = w->id;
    q->arrived_ns = now_ns;
    q->type = w->type;
    SHOAL_ASSERT(w->type == WIRE_TYPE_PULL || w->type == WIRE_TYPE_PUSH);
    if (w->type == WIRE_TYPE_PULL)
        fill_pull(q, &w->u.PULL);
    else
        fill_push(q, &w->u.PUSH);
    return q;
}

void request_drop_message(struct request_pool *p, struct request *q)
{
    SHOAL_ASSERT(p->bytes >= q->bytes);
    p->bytes -= q->bytes;
    q->bytes = 0;
    msg_free(q->m);
    q->m = NULL;
}

void request_give(struct request_pool *p, struct request *q)
{
    SHOAL_ASSERT(p->used > 0 && p->used <= LIMIT_WAITING);
    SHOAL_ASSERT(q >= p->block && q < p->block + LIMIT_WAITING);
    SHOAL_ASSERT(q->next == NULL); /* it is off its list */
    request_drop_message(p, q);
    q->next = p->free;
    p->free = q;
    p->used--;
    SHOAL_ASSERT(p->used > 0 || p->bytes == 0);
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
