/* store_zookeeper.c: the store in ZooKeeper: a log of changes, in nodes of at most SEGMENT bytes.
 *
 *     PATH/head          first, next: the segments that count; writer: the process that leads
 *     PATH/log/NUMBER    bytes of the log (16 digits, hexadecimal)
 *     PATH/leader        of the session of the coordinator that leads (lead.h)
 *
 * All transactions that wait become one append: its last segment and the head are written by one
 * multi-operation on the condition that the head still has the version that this process knows. So
 * an append is there whole or not at all, also one of many segments, the rate does not depend on
 * the delay, and a process that has lost the lead writes nothing. The log of changes has no node
 * for a key: a transaction may be larger than a request, and a start reads few large nodes.
 *
 * When the log is much larger than the values, the values are appended, and the head's `first`
 * moves there. Segments that do not count (a crash left them) are removed at the next start.
 *
 * Thread: one of its own has the session, writes, and has a copy of the values for that. Between
 * transactions it looks whether the leader's node is still this session's.
 *
 * Invariants:
 *  1. A transaction is complete after the head counts it. [assert: head_moved]
 *  2. A write whose outcome is not known is looked up in the head before it is repeated. [test:
 *     coord_zookeeper_lost_answers_change_nothing] */
#include "server/coord/store/store_zookeeper.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEGMENT (900u << 10) /* a request has at most 1 MiB */
#define SEGMENTS_MOST 1024u  /* more of them are written anew */
#define LOG_SLACK (4u << 20)
#define GROUP 64u /* nodes in one read, or removed by one request */
#define GONE UINT32_MAX

struct head { /* content of PATH/head */
    uint64_t writer, first, next;
};
_Static_assert(sizeof(struct head) == 24, "head is a stored format");

struct record {                /* before key and value of each change */
    uint32_t key_bytes, bytes; /* GONE: the key is removed */
};
_Static_assert(sizeof(struct record) == 8, "record is a stored format");

struct log {
    char *data; /* owned */
    size_t bytes, room;
};

struct zookeeper_keep {
    struct coord_keep base;
    struct coord_zookeeper o;
    char own[ZOO_PATH_MAX];    /* path of the leader's node */
    struct coord_store *store; /* borrowed: it gets the values */
    /* the thread's */
    struct head head;
    int32_t version; /* version of the head's node */
    struct coord_store *copy;
    uint64_t log_bytes;
    pthread_t thread;
    bool running;
    /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t ended_more;
    struct log waiting;
    uint64_t begun, ended, kept; /* kept: log_bytes */
    bool stop;
    int rc; /* an error: it takes nothing more */
    struct err e;
    /* the loop's */
    int wake[2];
    struct env_work work;
    bool working;
    uint64_t told;
};

/* ---- the log --------------------------------------------------------------------------------- */

static int log_add(struct log *l, const void *data, size_t bytes)
{
    if (l->room - l->bytes < bytes) {
        size_t room = MAX(l->room * 2, l->bytes + bytes);
        char *more = realloc(l->data, room);
        if (more == NULL)
            return SHOAL_E_NOMEM;
        l->data = more;
        l->room = room;
    }
    if (bytes > 0)
        memcpy(l->data + l->bytes, data, bytes);
    l->bytes += bytes;
    return 0;
}

static int change_add(struct log *l, const char *key, const void *value, size_t bytes)
{
    const struct record r = {(uint32_t)strlen(key), value == NULL ? GONE : (uint32_t)bytes};
    int rc = log_add(l, &r, sizeof r);
    if (rc == 0)
        rc = log_add(l, key, r.key_bytes);
    if (rc == 0 && value != NULL)
        rc = log_add(l, value, bytes);
    return rc;
}

static int value_add(void *context, const char *key, const void *value, size_t bytes)
{
    return change_add(context, key, value, bytes);
}

/* Takes the changes of a log into a store without a keep. */
static int log_apply(const struct log *l, struct coord_store *s, struct err *e)
{
    struct record r;
    for (size_t at = 0; at < l->bytes;) {
        char key[COORD_KEY_MAX] = {0};
        size_t left = l->bytes - at;
        if (left < sizeof r)
            return SHOAL_E_CORRUPT;
        memcpy(&r, l->data + at, sizeof r);
        size_t bytes = r.bytes == GONE ? 0 : r.bytes;
        if (r.key_bytes == 0 || r.key_bytes >= sizeof key || bytes > COORD_VALUE_MAX ||
            left - sizeof r < r.key_bytes + bytes)
            return SHOAL_E_CORRUPT;
        at += sizeof r;
        memcpy(key, l->data + at, r.key_bytes);
        at += r.key_bytes;
        int rc;
        if (r.bytes == GONE)
            rc = coord_store_remove(s, key, e);
        else
            rc = coord_store_put(s, key, l->data + at, bytes, e);
        if (rc != 0)
            return rc;
        at += bytes;
    }
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void segment_path(const struct zookeeper_keep *k, uint64_t number, char out[ZOO_PATH_MAX])
{
    (void)snprintf(out, ZOO_PATH_MAX, "%s/log/%016" PRIx64, k->o.path, number);
}

static struct zoo_step head_step(const struct zookeeper_keep *k, const struct head *h)
{
    struct zoo_step s = {.kind = ZOO_CHECK, .version = k->version};
    if (h != NULL) {
        s.kind = ZOO_SET;
        s.data = h;
        s.bytes = sizeof *h;
    }
    (void)snprintf(s.path, sizeof s.path, "%s/head", k->o.path);
    return s;
}

static int head_read(const struct zookeeper_keep *k, struct head *h, int32_t *version,
                     struct err *e)
{
    struct zoo_node n = {.data = NULL};
    int rc;
    (void)snprintf(n.path, sizeof n.path, "%s/head", k->o.path);
    do
        rc = k->o.ops->get(k->o.zoo, &n, 1, e);
    while (rc == SHOAL_E_UNAVAILABLE);
    if (rc != 0)
        return rc;
    if (n.bytes == sizeof *h)
        memcpy(h, n.data, sizeof *h);
    else
        rc = err_set(e, SHOAL_E_CORRUPT, "ZooKeeper: %s has %zu bytes: another program wrote it",
                     n.path, n.bytes);
    *version = n.version;
    free(n.data);
    return rc;
}

static int fenced(const struct zookeeper_keep *k, struct err *e)
{
    return err_set(e, SHOAL_E_FENCED, "ZooKeeper: another coordinator leads with %s now",
                   k->o.path);
}

/* True when the head has moved as wanted: a write whose answer was lost had been done. */
static bool head_moved(struct zookeeper_keep *k, const struct head *want, const struct head *is,
                       int32_t version)
{
    SHOAL_ASSERT(want->next >= k->head.next); /* 1 */
    return version == k->version + 1 && memcmp(want, is, sizeof *is) == 0;
}

/* Does the steps, of which the first checks the head, or sets it to `want` if there is one (2). */
static int steps_do(struct zookeeper_keep *k, const struct zoo_step *step, size_t count,
                    const struct head *want, struct err *e)
{
    bool lost = false;
    for (;;) {
        struct head is;
        int32_t version;
        int rc = k->o.ops->multi(k->o.zoo, step, count, e);
        if (rc == 0 && want != NULL) {
            k->version++;
            k->head = *want;
        }
        if (lost && want == NULL && (rc == SHOAL_E_EXISTS || rc == SHOAL_E_NOT_FOUND))
            return 0; /* the condition holds, so the first try has made or removed the node */
        if (rc == SHOAL_E_FENCED && !lost)
            return fenced(k, e);
        if (rc != SHOAL_E_UNAVAILABLE && rc != SHOAL_E_FENCED)
            return rc;
        lost = true;
        rc = head_read(k, &is, &version, e);
        if (rc != 0)
            return rc;
        if (want != NULL && head_moved(k, want, &is, version)) {
            k->version = version;
            k->head = is;
            return 0;
        }
        if (version != k->version)
            return fenced(k, e);
    }
}

/* Appends a log that is not empty. first: of the segments that count from then on. */
static int append(struct zookeeper_keep *k, const struct log *l, uint64_t first, struct err *e)
{
    uint64_t count = (l->bytes + SEGMENT - 1) / SEGMENT;
    const struct head want = {k->o.writer, first, k->head.next + count};
    int rc = 0;
    for (uint64_t i = 0, begin = k->head.next; rc == 0 && i < count; i++) {
        const struct head *moves = i + 1 == count ? &want : NULL;
        struct zoo_step step[2] = {head_step(k, moves), {.kind = ZOO_MAKE}};
        segment_path(k, begin + i, step[1].path);
        step[1].data = l->data + i * SEGMENT;
        step[1].bytes = MIN(SEGMENT, l->bytes - i * SEGMENT);
        rc = steps_do(k, step, 2, moves, e);
    }
    return rc;
}

static int segments_remove(struct zookeeper_keep *k, const uint64_t *number, size_t count,
                           struct err *e)
{
    struct zoo_step step[GROUP + 1];
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < count; at += GROUP) {
        size_t some = MIN(GROUP, count - at);
        step[0] = head_step(k, NULL);
        for (size_t i = 0; i < some; i++) {
            step[i + 1] = (struct zoo_step){.kind = ZOO_REMOVE};
            segment_path(k, number[at + i], step[i + 1].path);
        }
        rc = steps_do(k, step, some + 1, NULL, e);
    }
    return rc;
}

/* Writes the values anew, if the log is much larger than they are. */
static int shorten(struct zookeeper_keep *k, struct err *e)
{
    struct log all = {0};
    uint64_t old = k->head.first, count = k->head.next - old;
    if (count <= SEGMENTS_MOST && k->log_bytes <= LOG_SLACK)
        return 0;
    uint64_t *number = malloc(count * sizeof *number);
    int rc = number == NULL ? SHOAL_E_NOMEM : coord_store_visit(k->copy, value_add, &all);
    if (rc != 0)
        err_set(e, rc, "no memory to write the values to ZooKeeper");
    bool due = count > SEGMENTS_MOST || k->log_bytes > 2 * all.bytes + LOG_SLACK;
    for (uint64_t i = 0; number != NULL && i < count; i++)
        number[i] = old + i;
    if (rc == 0 && due)
        rc = append(k, &all, k->head.next, e);
    if (rc == 0 && due) {
        k->log_bytes = all.bytes;
        rc = segments_remove(k, number, count, e);
    }
    free(number);
    free(all.data);
    return rc;
}

static int log_write(struct zookeeper_keep *k, const struct log *l, struct err *e)
{
    int rc = append(k, l, k->head.first, e);
    if (rc == 0)
        rc = log_apply(l, k->copy, e);
    k->log_bytes += l->bytes;
    return rc;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Waits for transactions, and takes all that there are. Returns false at the end. */
static bool waiting_take(struct zookeeper_keep *k, struct log *l, uint64_t *begun, int *rc,
                         struct err *e)
{
    char drop[64];
    *rc = k->o.ops->wait(k->o.zoo, k->wake[0], k->o.led ? k->own : NULL, e);
    (void)!read(k->wake[0], drop, sizeof drop);
    pthread_mutex_lock(&k->lock);
    bool goes_on = !k->stop || k->waiting.bytes > 0;
    *l = k->waiting;
    *begun = k->begun;
    k->waiting = (struct log){0};
    pthread_mutex_unlock(&k->lock);
    return goes_on;
}

static void ended_tell(struct zookeeper_keep *k, uint64_t ended, int rc, const struct err *e)
{
    pthread_mutex_lock(&k->lock);
    k->kept = k->log_bytes;
    if (rc == 0) {
        k->ended = ended;
    } else {
        k->rc = rc;
        k->e = *e;
    }
    pthread_cond_broadcast(&k->ended_more);
    pthread_mutex_unlock(&k->lock);
}

static void *thread_run(void *context)
{
    struct zookeeper_keep *k = context;
    struct err e = {0};
    struct log l;
    uint64_t begun;
    int rc = 0;
    while (rc == 0 && waiting_take(k, &l, &begun, &rc, &e)) {
        if (rc == 0 && l.bytes > 0)
            rc = log_write(k, &l, &e);
        free(l.data);
        ended_tell(k, begun, rc, &e);
        if (rc == 0 && (rc = shorten(k, &e)) != 0)
            ended_tell(k, begun, rc, &e);
    }
    return NULL;
}

/* ---- the keep -------------------------------------------------------------------------------- */

static void work_run(struct env_work *w)
{
    struct zookeeper_keep *k = container_of(w, struct zookeeper_keep, work);
    pthread_mutex_lock(&k->lock);
    while (k->ended == k->told && k->rc == 0)
        pthread_cond_wait(&k->ended_more, &k->lock);
    pthread_mutex_unlock(&k->lock);
}

static void work_start(struct zookeeper_keep *k)
{
    if (k->working)
        return;
    k->working = true;
    env_work_start(k->o.env, &k->work);
}

static void work_done(struct env_work *w)
{
    struct zookeeper_keep *k = container_of(w, struct zookeeper_keep, work);
    pthread_mutex_lock(&k->lock);
    uint64_t ended = k->ended;
    int rc = k->rc;
    pthread_mutex_unlock(&k->lock);
    k->working = false;
    while (k->told < ended) {
        k->told++;
        coord_store_done(k->store, 0, NULL);
    }
    if (k->told == k->begun)
        return;
    if (rc != 0)
        coord_store_done(k->store, rc, &k->e);
    else
        work_start(k);
}

/* Waits for the end of all that has begun. */
static int ended_wait(struct zookeeper_keep *k, struct err *e)
{
    pthread_mutex_lock(&k->lock);
    while (k->ended < k->begun && k->rc == 0)
        pthread_cond_wait(&k->ended_more, &k->lock);
    int rc = k->ended < k->begun ? k->rc : 0;
    pthread_mutex_unlock(&k->lock);
    if (rc != 0)
        return err_set(e, rc, "%s", k->e.text);
    k->told = k->begun;
    return 0;
}

static int keep_begin(struct coord_keep *b, const struct coord_transaction *t, struct err *e)
{
    struct zookeeper_keep *k = container_of(b, struct zookeeper_keep, base);
    pthread_mutex_lock(&k->lock);
    int rc = k->rc;
    if (rc != 0)
        err_set(e, rc, "%s", k->e.text);
    for (size_t i = 0; rc == 0 && i < t->count; i++) {
        const struct coord_change *c = &t->change[i];
        rc = change_add(&k->waiting, c->key, c->value, c->bytes);
        if (rc != 0)
            k->rc = err_set(&k->e, rc, "no memory to store '%s'", c->key);
    }
    k->begun += rc == 0;
    pthread_mutex_unlock(&k->lock);
    if (rc != 0)
        return rc;
    (void)!write(k->wake[1], "", 1); /* a full pipe wakes, too */
    if (k->o.env == NULL)
        return ended_wait(k, e);
    work_start(k);
    return SHOAL_E_AGAIN;
}

static bool keep_owned(struct coord_keep *b)
{
    struct zookeeper_keep *k = container_of(b, struct zookeeper_keep, base);
    pthread_mutex_lock(&k->lock);
    bool good = k->rc == 0;
    pthread_mutex_unlock(&k->lock);
    return good && k->o.ops->lives(k->o.zoo);
}

static uint64_t keep_bytes(struct coord_keep *b)
{
    struct zookeeper_keep *k = container_of(b, struct zookeeper_keep, base);
    pthread_mutex_lock(&k->lock);
    uint64_t kept = k->kept;
    pthread_mutex_unlock(&k->lock);
    return kept;
}

static void keep_close(struct coord_keep *b)
{
    struct zookeeper_keep *k = container_of(b, struct zookeeper_keep, base);
    if (k->running) {
        pthread_mutex_lock(&k->lock);
        k->stop = true;
        pthread_mutex_unlock(&k->lock);
        (void)!write(k->wake[1], "", 1);
        pthread_join(k->thread, NULL);
    }
    for (int i = 0; i < 2; i++)
        if (k->wake[i] >= 0)
            close(k->wake[i]);
    k->o.ops->close(k->o.zoo);
    coord_store_close(k->copy);
    free(k->waiting.data);
    pthread_cond_destroy(&k->ended_more);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

/* ---- opening --------------------------------------------------------------------------------- */

static int node_make(const struct coord_zookeeper *o, const char *path, const struct head *h,
                     struct err *e)
{
    struct zoo_step s = {.kind = ZOO_MAKE, .data = h};
    int rc;
    if (h != NULL)
        s.bytes = sizeof *h;
    text_copy(s.path, sizeof s.path, path);
    do
        rc = o->ops->multi(o->zoo, &s, 1, e);
    while (rc == SHOAL_E_UNAVAILABLE);
    return rc == SHOAL_E_EXISTS ? 0 : rc;
}

int coord_zookeeper_make(const struct coord_zookeeper *o, struct err *e)
{
    char path[ZOO_PATH_MAX];
    const struct head empty = {0};
    int rc = 0;
    for (size_t i = 1; rc == 0 && i <= strlen(o->path); i++)
        if (o->path[i] == '/' || o->path[i] == 0) {
            (void)snprintf(path, sizeof path, "%.*s", (int)i, o->path);
            rc = node_make(o, path, NULL, e);
        }
    (void)snprintf(path, sizeof path, "%s/log", o->path);
    if (rc == 0)
        rc = node_make(o, path, NULL, e);
    (void)snprintf(path, sizeof path, "%s/head", o->path);
    if (rc == 0)
        rc = node_make(o, path, &empty, e);
    return rc;
}

/* Locks out the coordinator before this one. From here on nothing but this process writes. */
static int lead(struct zookeeper_keep *k, struct err *e)
{
    int rc = head_read(k, &k->head, &k->version, e);
    if (rc == SHOAL_E_NOT_FOUND) {
        rc = coord_zookeeper_make(&k->o, e);
        if (rc == 0)
            rc = head_read(k, &k->head, &k->version, e);
    }
    if (rc != 0)
        return rc;
    const struct head want = {k->o.writer, k->head.first, k->head.next};
    const struct zoo_step step = head_step(k, &want);
    return steps_do(k, &step, 1, &want, e);
}

static int segments_read(struct zookeeper_keep *k, struct log *l, struct err *e)
{
    struct zoo_node node[GROUP];
    for (uint64_t at = k->head.first; at < k->head.next;) {
        size_t count = MIN(GROUP, k->head.next - at);
        for (size_t i = 0; i < count; i++) {
            node[i] = (struct zoo_node){.data = NULL};
            segment_path(k, at + i, node[i].path);
        }
        int rc = k->o.ops->get(k->o.zoo, node, count, e);
        if (rc == SHOAL_E_UNAVAILABLE)
            continue;
        if (rc == SHOAL_E_NOT_FOUND)
            return err_set(e, SHOAL_E_CORRUPT, "ZooKeeper: a part of %s/log is missing", k->o.path);
        if (rc != 0)
            return rc;
        for (size_t i = 0; i < count; i++) {
            if (rc == 0)
                rc = log_add(l, node[i].data, node[i].bytes);
            free(node[i].data);
        }
        if (rc != 0)
            return err_set(e, rc, "no memory to read %s/log", k->o.path);
        at += count;
    }
    return 0;
}

struct leftovers {
    const struct head *head;
    uint64_t number[GROUP];
    size_t count;
};

static int leftover_note(void *context, const char *name)
{
    struct leftovers *o = context;
    uint64_t number = strtoull(name, NULL, 16);
    bool counts = number >= o->head->first && number < o->head->next;
    if (!counts && o->count < GROUP)
        o->number[o->count++] = number;
    return 0;
}

static int leftovers_remove(struct zookeeper_keep *k, struct err *e)
{
    char path[ZOO_PATH_MAX];
    struct leftovers o = {.head = &k->head};
    int rc;
    (void)snprintf(path, sizeof path, "%s/log", k->o.path);
    do {
        o.count = 0;
        rc = k->o.ops->children(k->o.zoo, path, leftover_note, &o, e);
        if (rc == 0)
            rc = segments_remove(k, o.number, o.count, e);
    } while (rc == SHOAL_E_UNAVAILABLE || (rc == 0 && o.count > 0));
    return rc;
}

static int values_read(struct zookeeper_keep *k, struct err *e)
{
    struct log l = {0};
    int rc = segments_read(k, &l, e);
    if (rc == 0)
        rc = log_apply(&l, k->copy, e);
    if (rc == 0)
        rc = log_apply(&l, k->store, e);
    if (rc == SHOAL_E_CORRUPT)
        err_set(e, rc, "ZooKeeper: %s/log is damaged or of another program; restore it from a copy",
                k->o.path);
    k->log_bytes = k->kept = l.bytes;
    free(l.data);
    return rc;
}

static int keep_open(struct zookeeper_keep *k, struct err *e)
{
    size_t length = strlen(k->o.path);
    if (k->o.path[0] != '/' || length < 2 || length > 128 || k->o.path[length - 1] == '/')
        return err_set(e, SHOAL_E_CONFIG,
                       "store: a path in ZooKeeper begins with / and has 2 to 128 bytes: '%s'",
                       k->o.path);
    if (k->copy == NULL || pipe2(k->wake, O_CLOEXEC | O_NONBLOCK) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the store");
    int rc = lead(k, e);
    if (rc == 0)
        rc = leftovers_remove(k, e);
    if (rc == 0)
        rc = values_read(k, e);
    if (rc == 0 && pthread_create(&k->thread, NULL, thread_run, k) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "no thread for the store");
    k->running = rc == 0;
    return rc;
}

int coord_zookeeper_open(const struct coord_zookeeper *o, struct coord_store **out, struct err *e)
{
    struct coord_store *s = coord_store_memory();
    struct zookeeper_keep *k = calloc(1, sizeof *k);
    if (s == NULL || k == NULL) {
        o->ops->close(o->zoo);
        coord_store_close(s);
        free(k);
        return err_set(e, SHOAL_E_NOMEM, "no memory for the store");
    }
    *k = (struct zookeeper_keep){.base = {.begin = keep_begin,
                                          .close = keep_close,
                                          .owned = keep_owned,
                                          .bytes = keep_bytes},
                                 .o = *o,
                                 .store = s,
                                 .copy = coord_store_memory(),
                                 .wake = {-1, -1},
                                 .work = {.run = work_run, .done = work_done}};
    (void)snprintf(k->own, sizeof k->own, "%s/leader", o->path);
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->ended_more, NULL);
    int rc = keep_open(k, e);
    coord_store_keep(s, &k->base); /* only now, since it has these values already */
    if (rc != 0)
        coord_store_close(s);
    else
        *out = s;
    return rc;
}
