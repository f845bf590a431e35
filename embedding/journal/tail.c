/* tail.c: chunks of records, the newest last. Invariants 1 to 3: tail.h. */
#include "embedding/journal/tail.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/msg.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_MOST ((1u << 20) - 128u) /* with its head a megabyte: a size of the pool */
#define CHUNK_LEAST 4096u

/* A chunk lies in a frame of the pool: a chunk that goes leaves its memory to the next one. */
struct chunk {
    struct msg *m;               /* owned: its memory */
    atomic_uint holds;           /* the tail's own among them */
    struct chunk *older, *newer; /* newer: owned */
    uint64_t first;              /* sequence of its first record */
    size_t bytes, room;
    uint32_t *end; /* owned; (count): offset behind each record */
    uint32_t count, capacity;
    _Alignas(RECORD_ALIGN) char data[]; /* (room) */
};

struct tail {
    struct chunk *oldest, *newest; /* oldest: owned */
    uint64_t next;                 /* sequence of the next record */
    uint64_t bytes, most;
};

void tail_release(void *hold)
{
    struct chunk *c = hold;
    if (atomic_fetch_sub_explicit(&c->holds, 1, memory_order_acq_rel) > 1)
        return;
    free(c->end);
    msg_free(c->m);
}

static void drop_oldest(struct tail *t)
{
    struct chunk *c = t->oldest;
    t->oldest = c->newer;
    if (t->oldest == NULL)
        t->newest = NULL;
    else
        t->oldest->older = NULL;
    t->bytes -= c->room;
    tail_release(c);
}

static void drop_all(struct tail *t)
{
    while (t->oldest != NULL)
        drop_oldest(t);
    SHOAL_ASSERT(t->bytes == 0);
}

struct tail *tail_new(uint64_t bytes, uint64_t next)
{
    struct tail *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->most = bytes;
    t->next = next;
    return t;
}

void tail_free(struct tail *t)
{
    if (t == NULL)
        return;
    drop_all(t);
    free(t);
}

void tail_limit(struct tail *t, uint64_t bytes)
{
    t->most = bytes;
    while (t->bytes > t->most && t->oldest != t->newest)
        drop_oldest(t);
}

uint64_t tail_bytes(const struct tail *t)
{
    return t->bytes;
}

static struct chunk *chunk_add(struct tail *t, size_t bytes)
{
    size_t room = (size_t)MIN(MAX(t->most / 8, CHUNK_LEAST), CHUNK_MOST);
    room = MAX(room, bytes);
    struct msg *m = msg_new();
    struct chunk *c = msg_add(m, sizeof *c + room);
    if (c == NULL) {
        msg_free(m);
        return NULL;
    }
    *c = (struct chunk){.m = m, .holds = 1, .older = t->newest, .first = t->next, .room = room};
    if (t->newest != NULL)
        t->newest->newer = c;
    else
        t->oldest = c;
    t->newest = c;
    t->bytes += room;
    tail_limit(t, t->most);
    return c;
}

static void put(char **at, const void *from, size_t bytes)
{
    if (bytes > 0)
        memcpy(*at, from, bytes);
    *at += bytes;
}

void tail_add(struct tail *t, const struct record_header *h, const struct record_payload *payload)
{
    size_t bytes = record_length(h);
    struct chunk *c = t->newest;
    SHOAL_ASSERT(h->sequence >= t->next && h->magic == RECORD_MAGIC); /* 1 */
    if (h->sequence > t->next) {
        drop_all(t);
        t->next = h->sequence;
        c = NULL;
    }
    if (c == NULL || bytes > c->room - c->bytes)
        c = chunk_add(t, bytes);
    if (c == NULL || array_room(&c->end, c->count, &c->capacity, 64) != 0) {
        log_warn("no memory to keep record %" PRIu64 " for followers; they read the journal, or "
                 "begin anew",
                 h->sequence);
        drop_all(t); /* 1 */
        t->next++;
        return;
    }
    char *at = c->data + c->bytes, *end = at + bytes;
    put(&at, h, sizeof *h);
    for (int i = 0; i < 2; i++)
        put(&at, payload->piece[i], payload->bytes[i]);
    memset(at, 0, (size_t)(end - at));
    c->bytes += bytes;
    c->end[c->count++] = (uint32_t)c->bytes;
    t->next++;
    SHOAL_ASSERT(at <= end && c->bytes <= c->room && c->first + c->count == t->next);
}

/* Nothing of the chunk is needed or held any more. */
static bool is_free(const struct tail *t, const struct chunk *c)
{
    return c->count > 0 && c->first + c->count == t->next &&
           atomic_load_explicit(&c->holds, memory_order_acquire) == 1;
}

void tail_trim(struct tail *t, uint64_t sequence)
{
    while (t->oldest != t->newest && t->oldest->newer->first <= sequence + 1)
        drop_oldest(t);
    struct chunk *c = t->oldest;
    if (c == NULL || c != t->newest || sequence + 1 < t->next || !is_free(t, c))
        return;
    c->first = t->next; /* 3 */
    c->bytes = c->count = 0;
}

uint64_t tail_first(const struct tail *t)
{
    if (t->oldest == NULL)
        return t->next;
    return t->oldest->first;
}

bool tail_read(const struct tail *t, uint64_t after, uint64_t until, size_t most,
               const void **records, size_t *bytes, uint64_t *last)
{
    const struct chunk *c = t->newest;
    if (after >= until || after + 1 < tail_first(t) || after + 1 >= t->next)
        return false;
    while (c->first > after + 1)
        c = c->older;

    uint32_t from = (uint32_t)(after + 1 - c->first), below = from + 1;
    uint32_t begin = from > 0 ? c->end[from - 1] : 0;
    while (below < c->count && c->first + below <= until && c->end[below] - begin <= most)
        below++;
    SHOAL_ASSERT(below <= c->count); /* 2 */
    *records = c->data + begin;
    *bytes = c->end[below - 1] - begin;
    *last = c->first + below - 1;
    return true;
}

void *tail_hold(const struct tail *t, const void *records)
{
    const char *at = records;
    for (struct chunk *c = t->newest; c != NULL; c = c->older)
        if (at >= c->data && at < c->data + c->bytes) {
            atomic_fetch_add_explicit(&c->holds, 1, memory_order_relaxed);
            return c;
        }
    return NULL;
}
