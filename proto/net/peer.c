/* peer.c: the table of peers, by name and by routing id, and their queues. */
#include "proto/net/peer.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS (2u * LIMIT_PEERS)
#define BUCKETS (2u * LIMIT_PEERS)
#define SLOT_BITS 16

_Static_assert(SLOTS <= 1u << SLOT_BITS, "a slot fits the low bits of a name");

struct peers {
    /* seed of the hash: a stranger that picks routing ids cannot aim at one bucket */
    uint64_t seed;
    uint64_t names; /* drawn so far */
    uint32_t incoming, outgoing;
    uint64_t waiting_bytes, waiting_most, peer_most;
    struct silence {
        struct peer *newest, *oldest;
    } silence[2];         /* incoming: strangers, known ones */
    struct peer *waiting; /* peers with a queue, in no order */
    struct peer *free;    /* owned; the low bits of a free peer's last name keep its slot */
    uint32_t slots_used;
    struct peer *slot[SLOTS]; /* owned; a free one has name 0 or an old one */
    struct peer *bucket[BUCKETS];
};

struct peers *peers_new(uint64_t seed, uint64_t waiting_bytes)
{
    struct peers *ps = calloc(1, sizeof(*ps));
    if (ps != NULL) {
        ps->seed = seed;
        ps->waiting_most = waiting_bytes != 0 ? waiting_bytes : PEERS_WAITING_BYTES;
        ps->peer_most = MIN(ps->waiting_most / 4, LIMIT_PEER_BYTES);
    }
    return ps;
}

static uint32_t slot_of(peer_t name)
{
    return (uint32_t)(name & ((1u << SLOT_BITS) - 1));
}

static struct peer **bucket_of(struct peers *ps, const struct sock_id *id)
{
    return &ps->bucket[hash_bytes(id->data, id->bytes, ps->seed) % BUCKETS];
}

struct peer *peers_find(const struct peers *ps, peer_t name)
{
    uint32_t slot = slot_of(name);
    if (name == 0 || slot >= ps->slots_used || ps->slot[slot]->name != name ||
        ps->slot[slot]->sock == NULL)
        return NULL;
    return ps->slot[slot];
}

/* ---- queues ---------------------------------------------------------------------------------- */

/* Removes the oldest message, which was sent or dropped; next is the one after it. */
static void queue_advance(struct peers *ps, struct peer *p, struct msg *next, size_t bytes)
{
    p->head = next;
    if (next == NULL)
        p->tail = NULL;
    p->waiting--;
    p->waiting_bytes -= bytes;
    ps->waiting_bytes -= bytes;
}

/* Drops waiting messages; the caller unlinks the peer from the list of waiting ones. */
static void queue_drop(struct peers *ps, struct peer *p)
{
    while (p->head != NULL) {
        struct msg *m = p->head;
        queue_advance(ps, p, m->next, msg_bytes(m));
        msg_free(m);
    }
}

static int queue_push(struct peers *ps, struct peer *p, struct msg *m, uint64_t now_ns)
{
    size_t bytes = msg_bytes(m);
    if (p->waiting >= LIMIT_PEER_QUEUE ||
        (p->waiting > 0 && p->waiting_bytes + bytes > ps->peer_most) ||
        ps->waiting_bytes + bytes > ps->waiting_most) {
        msg_free(m);
        return SHOAL_E_BUSY;
    }
    if (p->head == NULL) {
        p->moved_ns = now_ns;
        p->next_waiting = ps->waiting;
        ps->waiting = p;
        p->head = m;
    } else {
        p->tail->next = m;
    }
    m->next = NULL;
    p->tail = m;
    p->waiting++;
    p->waiting_bytes += bytes;
    ps->waiting_bytes += bytes;
    return 0;
}

static int socket_send(struct peer *p, struct msg *m)
{
    return sock_send(p->sock, p->incoming ? &p->id : NULL, m);
}

int peers_send(struct peers *ps, struct peer *p, struct msg *m, uint64_t now_ns)
{
    if (p->head == NULL) { /* else it would overtake queued messages */
        int rc = socket_send(p, m);
        if (rc == 0)
            return 0;
        if (rc != SHOAL_E_AGAIN) {
            msg_free(m);
            return SHOAL_E_UNAVAILABLE;
        }
    }
    return queue_push(ps, p, m, now_ns);
}

/* 0: the queue is empty; AGAIN: it is not; UNAVAILABLE: the peer left. */
static int queue_flush(struct peers *ps, struct peer *p, uint64_t now_ns)
{
    while (p->head != NULL) {
        struct msg *m = p->head;
        size_t bytes = msg_bytes(m);
        struct msg *next = m->next;
        int rc = socket_send(p, m);
        if (rc == SHOAL_E_AGAIN)
            return now_ns - p->moved_ns > PEER_STALL_NS ? SHOAL_E_UNAVAILABLE : SHOAL_E_AGAIN;
        if (rc != 0)
            return SHOAL_E_UNAVAILABLE;
        queue_advance(ps, p, next, bytes);
        p->moved_ns = now_ns;
    }
    return 0;
}

void peers_flush(struct peers *ps, uint64_t now_ns, void (*left)(void *context, struct peer *p),
                 void *context)
{
    struct peer **link = &ps->waiting;
    while (*link != NULL) {
        struct peer *p = *link;
        /* for its side effect: ZeroMQ then notices that a pipe has room again */
        sock_readable(p->sock);
        int rc = queue_flush(ps, p, now_ns);
        if (rc == SHOAL_E_AGAIN) {
            link = &p->next_waiting;
            continue;
        }
        *link = p->next_waiting;
        p->next_waiting = NULL;
        if (rc != 0) {
            queue_drop(ps, p);
            left(context, p);
        }
    }
}

struct peer *peers_waiting(const struct peers *ps)
{
    return ps->waiting;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void silence_unlink(struct peers *ps, struct peer *p)
{
    struct silence *s = &ps->silence[p->known];
    if (p->newer != NULL)
        p->newer->older = p->older;
    else
        s->newest = p->older;
    if (p->older != NULL)
        p->older->newer = p->newer;
    else
        s->oldest = p->newer;
}

static void silence_link(struct peers *ps, struct peer *p)
{
    struct silence *s = &ps->silence[p->known];
    p->newer = NULL;
    p->older = s->newest;
    if (s->newest != NULL)
        s->newest->newer = p;
    else
        s->oldest = p;
    s->newest = p;
}

static struct peer *peer_take(struct peers *ps, struct sock *sock, bool incoming)
{
    struct peer *p = ps->free;
    uint32_t slot = 0;
    if (p != NULL) {
        ps->free = p->next;
        slot = slot_of(p->name);
    } else {
        p = NULL;
        if (ps->slots_used < SLOTS)
            p = calloc(1, sizeof(*p));
        if (p == NULL)
            return NULL;
        slot = ps->slots_used++;
        ps->slot[slot] = p;
    }
    p->name = (++ps->names << SLOT_BITS) | slot;
    p->incoming = incoming;
    p->known = false;
    p->sock = sock;
    p->watched = -1;
    p->owner = NULL;
    p->next = NULL;
    SHOAL_ASSERT(p->head == NULL && p->waiting == 0 && p->next_waiting == NULL);
    return p;
}

struct peer *peers_add(struct peers *ps, struct sock *dealer)
{
    struct peer *p = NULL;
    if (ps->outgoing < LIMIT_PEERS)
        p = peer_take(ps, dealer, false);
    if (p != NULL)
        ps->outgoing++;
    return p;
}

/* A peer picks its routing id itself, so it is the same peer only with the same key, or the same
 * user. */
static bool same_holder(const struct sock_id *a, const struct sock_id *b)
{
    return strcmp(a->key, b->key) == 0 && a->local == b->local &&
           (!a->local || (a->user == b->user && a->group == b->group));
}

struct peer *peers_heard(struct peers *ps, struct sock *router, const struct sock_id *id,
                         peer_t *evicted)
{
    *evicted = 0;
    struct peer **bucket = bucket_of(ps, id);
    for (struct peer *p = *bucket; p != NULL; p = p->next) {
        if (p->id.bytes == id->bytes && memcmp(p->id.data, id->data, id->bytes) == 0) {
            if (!same_holder(&p->id, id)) {
                *evicted = p->name;
                peers_remove(ps, p);
                break;
            }
            if (ps->silence[p->known].newest != p) {
                silence_unlink(ps, p);
                silence_link(ps, p);
            }
            p->id.connection = id->connection;
            return p;
        }
    }
    if (ps->incoming == LIMIT_PEERS) {                   /* no peer was removed above */
        struct peer *leaves = ps->silence[false].oldest; /* a stranger */
        if (leaves == NULL)
            leaves = ps->silence[true].oldest;
        *evicted = leaves->name;
        peers_remove(ps, leaves);
    }
    struct peer *p = peer_take(ps, router, true);
    if (p == NULL)
        return NULL;
    p->id.bytes = id->bytes;
    p->id.connection = id->connection;
    memcpy(p->id.data, id->data, id->bytes);
    memcpy(p->id.key, id->key, sizeof p->id.key);
    p->id.local = id->local;
    p->id.user = id->user;
    p->id.group = id->group;
    p->who = (struct env_who){.role = ROLE_NOBODY};
    p->who_version = UINT64_MAX;
    text_copy(p->who.key, sizeof p->who.key, id->key);
    text_copy(p->who.address, sizeof p->who.address, id->address);
    p->next = *bucket;
    *bucket = p;
    silence_link(ps, p);
    ps->incoming++;
    return p;
}

void peers_known(struct peers *ps, struct peer *p)
{
    SHOAL_ASSERT(p->incoming && p->sock != NULL);
    if (p->known)
        return;
    silence_unlink(ps, p);
    p->known = true;
    silence_link(ps, p);
}

void peers_remove(struct peers *ps, struct peer *p)
{
    SHOAL_ASSERT(p->sock != NULL);
    if (p->head != NULL) {
        queue_drop(ps, p);
        struct peer **link = &ps->waiting;
        while (*link != p)
            link = &(*link)->next_waiting;
        *link = p->next_waiting;
        p->next_waiting = NULL;
    }
    if (p->incoming) {
        struct peer **link = bucket_of(ps, &p->id);
        while (*link != p)
            link = &(*link)->next;
        *link = p->next;
        silence_unlink(ps, p);
        ps->incoming--;
    } else {
        ps->outgoing--;
    }
    p->sock = NULL; /* p->name stays: its low bits are the slot, for the next peer's name */
    p->next = ps->free;
    ps->free = p;
}

void peers_free(struct peers *ps)
{
    if (ps == NULL)
        return;
    for (uint32_t i = 0; i < ps->slots_used; i++) {
        queue_drop(ps, ps->slot[i]);
        free(ps->slot[i]);
    }
    free(ps);
}
