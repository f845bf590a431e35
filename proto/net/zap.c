/* zap.c: one thread at inproc://zeromq.zap.01, and the domains that it knows.
 *
 * 1. Any request but one with a key in the domain's list is answered with 300, a temporary refusal.
 *    The other side's ZeroMQ then retries, so the peer is admitted once the list, or its line in
 *    it, exists. After 400 it would never retry. [test: net_keys_matrix,
 *    net_who_was_refused_comes_in_when_listed]
 * 2. Without the thread no peer is admitted: sockets enforce their domain. [test:
 *    net_without_an_answer_nobody_comes_in]
 *
 * A domain's list is changed and read under the lock. The domain's own thread, the only one that
 * changes it, reads it without. */
#include "proto/net/zap.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/base/time.h"
#include "proto/net/recent.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define ENDPOINT "inproc://zeromq.zap.01"
#define FRAMES 7 /* frames of a request with a key; the last is the key */
#define FRAME_BYTES 256

struct zap_domain {
    char name[32];
    struct keylist *list; /* owned */
    uint64_t version;
    struct net_refused refused[NET_REFUSED_MOST]; /* count 0: free */
    struct zap_domain *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct zap_domain *domains;
static uint64_t domains_made;
static pthread_t thread;
static bool running;

/* ---- domains --------------------------------------------------------------------------------- */

struct zap_domain *zap_domain_new(void)
{
    struct zap_domain *d = calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    pthread_mutex_lock(&lock);
    (void)snprintf(d->name, sizeof d->name, "shoal-%" PRIu64, ++domains_made);
    d->next = domains;
    domains = d;
    pthread_mutex_unlock(&lock);
    return d;
}

const char *zap_domain_name(const struct zap_domain *d)
{
    return d->name;
}

void zap_domain_set(struct zap_domain *d, struct keylist *l)
{
    pthread_mutex_lock(&lock);
    struct keylist *former = d->list;
    d->list = l;
    d->version++;
    pthread_mutex_unlock(&lock);
    keylist_free(former);
}

const struct keylist *zap_domain_list(const struct zap_domain *d, uint64_t *version)
{
    *version = d->version;
    return d->list;
}

void zap_domain_free(struct zap_domain *d)
{
    if (d == NULL)
        return;
    pthread_mutex_lock(&lock);
    struct zap_domain **link = &domains;
    while (*link != d)
        link = &(*link)->next;
    *link = d->next;
    pthread_mutex_unlock(&lock);
    keylist_free(d->list);
    free(d);
}

/* ---- refused keys ---------------------------------------------------------------------------- */

static bool lately(const struct net_refused *r, uint64_t now_ns)
{
    return r->count > 0 && now_ns - r->last_ns < NET_REFUSED_NS;
}

/* The caller holds the lock. */
static void refused_note(struct zap_domain *d, const char *key, const char *address)
{
    uint64_t now_ns = time_monotonic_ns();
    struct net_refused *to = &d->refused[0];
    for (uint32_t i = 0; i < NET_REFUSED_MOST; i++) {
        struct net_refused *r = &d->refused[i];
        if (r->count > 0 && strcmp(r->key, key) == 0 && strcmp(r->address, address) == 0) {
            to = r;
            break;
        }
        if (r->last_ns < to->last_ns)
            to = r;
    }
    if (strcmp(to->key, key) != 0 || strcmp(to->address, address) != 0 || !lately(to, now_ns)) {
        *to = (struct net_refused){.first_ns = now_ns};
        text_copy(to->key, sizeof to->key, key);
        text_copy(to->address, sizeof to->address, address);
    }
    to->last_ns = now_ns;
    to->count++;
}

uint32_t zap_domain_refused(struct zap_domain *d, struct net_refused out[NET_REFUSED_MOST])
{
    uint64_t now_ns = time_monotonic_ns();
    uint32_t count = 0;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < NET_REFUSED_MOST; i++)
        if (lately(&d->refused[i], now_ns) &&
            (d->list == NULL || keylist_find(d->list, d->refused[i].key) == NULL))
            out[count++] = d->refused[i];
    pthread_mutex_unlock(&lock);
    return count;
}

/* ---- requests -------------------------------------------------------------------------------- */

struct question {
    uint32_t frames;
    struct {
        uint8_t bytes[FRAME_BYTES];
        size_t count;
    } frame[FRAMES];
};

/* version, id, domain, address, routing id, mechanism, key */
enum { AT_VERSION, AT_ID, AT_DOMAIN, AT_ADDRESS, AT_ROUTING, AT_MECHANISM, AT_KEY };

static bool is(const struct question *q, int frame, const char *text)
{
    return q->frame[frame].count == strlen(text) &&
           memcmp(q->frame[frame].bytes, text, strlen(text)) == 0;
}

/* False: the context has ended. */
static bool question_read(void *socket, struct question *q)
{
    int more = 1;
    size_t bytes = sizeof more;
    for (q->frames = 0; more; q->frames++) {
        uint8_t spare[FRAME_BYTES], *to = q->frames < FRAMES ? q->frame[q->frames].bytes : spare;
        int n;
        do
            n = zmq_recv(socket, to, FRAME_BYTES, 0);
        while (n < 0 && errno == EINTR);
        if (n < 0 || zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &bytes) != 0)
            return false;
        if (q->frames < FRAMES)
            q->frame[q->frames].count = (size_t)MIN(n, FRAME_BYTES);
    }
    return true;
}

static void address_of(const struct question *q, char out[64])
{
    size_t n = MIN(q->frame[AT_ADDRESS].count, 63);
    memcpy(out, q->frame[AT_ADDRESS].bytes, n);
    out[n] = 0;
}

/* Returns NULL when the holder of the key is admitted, else the reason. *found: its entry in the
 * list. */
static const char *judge(const struct question *q, const char *address, char key[KEYFILE_KEY],
                         struct keylist_entry *found)
{
    struct zap_domain *d;
    key[0] = 0;
    found->key[0] = 0;
    if (q->frames != FRAMES || !is(q, AT_VERSION, "1.0") || !is(q, AT_MECHANISM, "CURVE") ||
        q->frame[AT_KEY].count != 32)
        return "no-key";
    if (zmq_z85_encode(key, q->frame[AT_KEY].bytes, 32) == NULL)
        return "no-key";
    pthread_mutex_lock(&lock);
    for (d = domains; d != NULL && !is(q, AT_DOMAIN, d->name); d = d->next)
        continue;
    const struct keylist *list = NULL;
    if (d != NULL)
        list = d->list;
    const struct keylist_entry *entry = NULL;
    if (list != NULL)
        entry = keylist_find(list, key);
    if (entry != NULL)
        *found = *entry;
    else if (list != NULL)
        refused_note(d, key, address);
    pthread_mutex_unlock(&lock);
    if (entry != NULL)
        return NULL;
    if (list == NULL)
        return "no-list-yet";
    return "not-listed";
}

static bool answer(void *socket, const struct question *q, bool come, const char *key)
{
    const char *code = "300", *said = "no";
    size_t key_bytes = 0;
    if (come) {
        code = "200";
        said = "OK";
        key_bytes = strlen(key);
    }
    const struct {
        const void *bytes;
        size_t count;
    } frame[] = {{"1.0", 3},
                 {q->frames > AT_ID ? q->frame[AT_ID].bytes : NULL,
                  q->frames > AT_ID ? q->frame[AT_ID].count : 0},
                 {code, 3},
                 {said, 2},
                 {key, key_bytes},
                 {"", 0}};
    for (int i = 0; i < 6; i++)
        if (zmq_send(socket, frame[i].bytes, frame[i].count, i < 5 ? ZMQ_SNDMORE : 0) < 0)
            return false;
    return true;
}

static void connect_tell(struct recent *recent, const char *key, const struct keylist_entry *who,
                         const char *address, const char *result)
{
    uint64_t before;
    char times[64] = "";
    if (!recent_tell(recent, key, address, result, time_monotonic_ns(), &before))
        return;
    if (before > 0)
        (void)snprintf(times, sizeof times, "%" PRIu64 " more before", before);
    log_audit_bounded(.key = key, .role = who != NULL ? role_text(who->role) : NULL,
                      .name = who != NULL ? who->name : NULL, .peer = address,
                      .operation = "CONNECT", .object = times, .result = result);
}

static void *serve(void *socket)
{
    static struct recent recent; /* used by this thread only */
    struct question q;
    struct keylist_entry who;
    char key[KEYFILE_KEY], address[64];
    (void)pthread_setname_np(pthread_self(), "keys");
    while (question_read(socket, &q)) {
        address_of(&q, address);
        const char *why = judge(&q, address, key, &who);
        bool come = why == NULL; /* 1 */
        connect_tell(&recent, key, come ? &who : NULL, address, come ? "ok" : why);
        if (!answer(socket, &q, come, key))
            break;
    }
    int none = 0;
    (void)zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    (void)zmq_close(socket);
    return NULL;
}

/* ---- the thread ------------------------------------------------------------------------------ */

int zap_start(void *context, struct err *e)
{
    if (running)
        return 0;
    void *socket = zmq_socket(context, ZMQ_REP);
    if (socket == NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE, "ZeroMQ gives no socket: %s", zmq_strerror(errno));
    if (zmq_bind(socket, ENDPOINT) != 0) {
        int rc = err_set(e, SHOAL_E_UNAVAILABLE, "nobody can be asked for keys: %s: %s", ENDPOINT,
                         zmq_strerror(errno));
        (void)zmq_close(socket);
        return rc;
    }
    if (pthread_create(&thread, NULL, serve, socket) != 0) {
        (void)zmq_close(socket);
        return err_set(e, SHOAL_E_NOMEM, "cannot start the thread that asks for keys");
    }
    running = true;
    return 0;
}

void zap_stop(void)
{
    if (running)
        (void)pthread_join(thread, NULL);
    running = false;
}
