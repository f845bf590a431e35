/* zoo_library.c: the operations of zoo.h over libzookeeper's single-threaded client. It is a shared
 * object, so that shoal-coordinator does not link the library.
 *
 * Each operation sends its requests and runs the client until all have been answered. A session is
 * given up when no request of its last timeout was answered: another coordinator may lead by then.
 * ZooKeeper counts the timeout from a request's arrival and the client from its sending, so the
 * client gives up first. */
#include "proto/base/minmax.h"
#include "server/coord/store/zoo.h"

#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zookeeper/zookeeper.h>

struct zoo {
    zhandle_t *handle; /* owned; NULL: the session has ended */
    const struct ACL_vector *acl;
    int64_t timeout_ms;
    _Atomic int64_t heard_ms; /* when the newest request that has an answer was sent */
    int64_t sent_ms;
    int waits; /* requests without an answer */
    int rc;    /* the first error of them, as the library has it */
    /* a look at the own node, while nothing else is asked */
    int64_t looked_ms;
    bool looks, owns, own_gone;
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t); /* it runs while the machine is suspended */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool lives(const struct zoo *z)
{
    return now_ms() - z->heard_ms < z->timeout_ms;
}

static int ended(struct zoo *z, struct err *e)
{
    z->heard_ms = INT64_MIN / 2;
    if (z->handle != NULL)
        zookeeper_close(z->handle); /* ends what waits */
    z->handle = NULL;
    return err_set(e, SHOAL_E_IO,
                   "ZooKeeper: the session has ended: no server has answered for "
                   "%" PRId64 " ms, or it was refused",
                   z->timeout_ms);
}

static int result(int rc, struct err *e)
{
    if (rc == ZOK)
        return 0;
    int code = SHOAL_E_IO;
    if (rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZSESSIONMOVED)
        code = SHOAL_E_UNAVAILABLE;
    else if (rc == ZBADVERSION)
        code = SHOAL_E_FENCED;
    else if (rc == ZNODEEXISTS)
        code = SHOAL_E_EXISTS;
    else if (rc == ZNONODE)
        code = SHOAL_E_NOT_FOUND;
    else if (rc == ZNOAUTH || rc == ZAUTHFAILED)
        code = SHOAL_E_DENIED;
    return err_set(e, code, "ZooKeeper: %s", zerror(rc));
}

/* Runs the client once. wake_fd: ends the wait, too; -1: none. */
static int run(struct zoo *z, int wake_fd, bool *woken, struct err *e)
{
    int fd = -1, interest = 0, events = 0;
    struct timeval tv = {0};
    if (z->handle == NULL)
        return ended(z, e);
    (void)zookeeper_interest(z->handle, &fd, &interest, &tv);
    struct pollfd p[2] = {{.fd = fd}, {.fd = wake_fd, .events = POLLIN}};
    p[0].events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) |
                          (interest & ZOOKEEPER_WRITE ? POLLOUT : 0));
    int64_t wait = tv.tv_sec * 1000 + tv.tv_usec / 1000 + 1;
    (void)poll(p, 2, (int)MIN(wait, fd < 0 ? 20 : z->timeout_ms / 8));
    if (p[0].revents & (POLLIN | POLLERR | POLLHUP))
        events |= ZOOKEEPER_READ;
    if (p[0].revents & POLLOUT)
        events |= ZOOKEEPER_WRITE;
    *woken = (p[1].revents & POLLIN) != 0;
    (void)zookeeper_process(z->handle, events);
    int state = zoo_state(z->handle);
    if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE || !lives(z))
        return ended(z, e);
    return 0;
}

static int connected(struct zoo *z, struct err *e)
{
    bool woken;
    int rc = 0;
    z->rc = ZOK;
    while (rc == 0 && (z->handle == NULL || zoo_state(z->handle) != ZOO_CONNECTED_STATE))
        rc = run(z, -1, &woken, e);
    z->sent_ms = now_ms();
    return rc;
}

static int answered(struct zoo *z, int sent, struct err *e)
{
    bool woken;
    int rc = 0;
    if (sent != ZOK && z->rc == ZOK)
        z->rc = sent;
    while (rc == 0 && z->waits > 0)
        rc = run(z, -1, &woken, e);
    return rc != 0 ? rc : result(z->rc, e);
}

/* Notes the answer to a request of that time; of several at a time the oldest counts. */
static void heard(struct zoo *z, int64_t sent_ms, int rc)
{
    if (rc != ZCONNECTIONLOSS && rc != ZOPERATIONTIMEOUT && rc != ZCLOSING &&
        rc != ZSESSIONEXPIRED && sent_ms > z->heard_ms)
        z->heard_ms = sent_ms;
}

static void answer_note(struct zoo *z, int rc)
{
    z->waits--;
    heard(z, z->sent_ms, rc);
    if (z->rc == ZOK)
        z->rc = rc;
}

/* ---- operations ------------------------------------------------------------------------------ */

static void multi_done(int rc, const void *context)
{
    struct zoo *z = (struct zoo *)(uintptr_t)context;
    answer_note(z, rc);
}

static int multi(struct zoo *z, const struct zoo_step *step, size_t count, struct err *e)
{
    zoo_op_t op[ZOO_TOGETHER];
    zoo_op_result_t results[ZOO_TOGETHER];
    int rc = connected(z, e);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < count; i++) {
        const struct zoo_step *s = &step[i];
        if (s->kind == ZOO_CHECK)
            zoo_check_op_init(&op[i], s->path, s->version);
        else if (s->kind == ZOO_SET)
            zoo_set_op_init(&op[i], s->path, s->data, (int)s->bytes, s->version, NULL);
        else if (s->kind == ZOO_MAKE || s->kind == ZOO_MAKE_OWN)
            zoo_create_op_init(&op[i], s->path, s->data, (int)s->bytes, z->acl,
                               s->kind == ZOO_MAKE_OWN ? ZOO_EPHEMERAL : 0, NULL, 0);
        else
            zoo_delete_op_init(&op[i], s->path, -1);
    }
    int sent = zoo_amulti(z->handle, (int)count, op, results, multi_done, z);
    z->waits += sent == ZOK;
    return answered(z, sent, e);
}

struct getting {
    struct zoo *z;
    struct zoo_node *node;
};

static void get_done(int rc, const char *value, int bytes, const struct Stat *stat,
                     const void *context)
{
    const struct getting *g = context;
    answer_note(g->z, rc);
    if (rc != ZOK)
        return;
    g->node->bytes = bytes < 0 ? 0 : (size_t)bytes;
    g->node->version = stat->version;
    g->node->data = malloc(g->node->bytes + 1);
    if (g->node->data == NULL)
        g->z->rc = ZSYSTEMERROR;
    else if (bytes > 0)
        memcpy(g->node->data, value, (size_t)bytes);
}

static int get(struct zoo *z, struct zoo_node *node, size_t count, struct err *e)
{
    struct getting g[ZOO_TOGETHER];
    int sent = ZOK, rc = connected(z, e);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < count && sent == ZOK; i++) {
        g[i] = (struct getting){z, &node[i]};
        sent = zoo_aget(z->handle, node[i].path, 0, get_done, &g[i]);
        z->waits += sent == ZOK;
    }
    rc = answered(z, sent, e);
    for (size_t i = 0; rc != 0 && i < count; i++) {
        free(node[i].data);
        node[i].data = NULL;
    }
    return rc;
}

struct listing {
    struct zoo *z;
    int (*visit)(void *context, const char *name);
    void *context;
};

static void children_done(int rc, const struct String_vector *names, const void *context)
{
    const struct listing *l = context;
    answer_note(l->z, rc);
    for (int32_t i = 0; rc == ZOK && i < names->count; i++)
        (void)l->visit(l->context, names->data[i]);
}

static int children(struct zoo *z, const char *path, int (*visit)(void *context, const char *name),
                    void *context, struct err *e)
{
    const struct listing l = {z, visit, context};
    int rc = connected(z, e);
    if (rc != 0)
        return rc;
    int sent = zoo_aget_children(z->handle, path, 0, children_done, &l);
    z->waits += sent == ZOK;
    return answered(z, sent, e);
}

static void look_done(int rc, const struct Stat *stat, const void *context)
{
    struct zoo *z = (struct zoo *)(uintptr_t)context;
    z->looks = false;
    heard(z, z->looked_ms, rc);
    bool other = rc == ZNONODE;
    if (rc == ZOK && z->handle != NULL)
        other = stat->ephemeralOwner != zoo_client_id(z->handle)->client_id;
    z->own_gone = z->owns && other;
}

/* Asks for the node, or for the root, when nothing was asked for a quarter of the timeout. */
static void look(struct zoo *z, const char *own)
{
    if (z->looks || z->handle == NULL || zoo_state(z->handle) != ZOO_CONNECTED_STATE ||
        now_ms() - z->heard_ms < z->timeout_ms / 4)
        return;
    z->looked_ms = now_ms();
    z->owns = own != NULL;
    z->looks = zoo_aexists(z->handle, own == NULL ? "/" : own, 0, look_done, z) == ZOK;
}

static int await(struct zoo *z, int wake_fd, const char *own, struct err *e)
{
    bool woken = false;
    int rc = 0;
    while (rc == 0 && !woken && !z->own_gone) {
        look(z, own);
        rc = run(z, wake_fd, &woken, e);
    }
    if (rc == 0 && z->own_gone)
        rc = err_set(e, SHOAL_E_FENCED, "ZooKeeper: %s is no longer this process's", own);
    return rc;
}

static uint32_t granted_ms(const struct zoo *z)
{
    return z->handle == NULL ? 0 : (uint32_t)zoo_recv_timeout(z->handle);
}

static void end(struct zoo *z)
{
    if (z->handle != NULL)
        zookeeper_close(z->handle);
    free(z);
}

/* ---- a session ------------------------------------------------------------------------------- */

static void watch(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle, (void)type, (void)state, (void)path, (void)context;
}

static void auth_done(int rc, const void *context)
{
    (void)rc, (void)context; /* a refusal ends the session */
}

int zoo_library_open(const char *hosts, const char *login, uint32_t timeout_ms,
                     const struct zoo_ops **ops, struct zoo **out, struct err *e)
{
    static const struct zoo_ops table = {multi, get, children, await, lives, granted_ms, end};
    struct zoo *z = calloc(1, sizeof *z);
    if (z == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for ZooKeeper's session");
    zoo_set_debug_level((ZooLogLevel)0); /* it would tell of each try to connect */
    z->acl = login != NULL ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
    z->timeout_ms = timeout_ms;
    z->heard_ms = now_ms();
    z->handle = zookeeper_init(hosts, watch, (int)timeout_ms, NULL, NULL, 0);
    if (z->handle == NULL) {
        free(z);
        return err_set(e, SHOAL_E_CONFIG, "store: '%s' names no ZooKeeper servers", hosts);
    }
    if (login != NULL)
        (void)zoo_add_auth(z->handle, "digest", login, (int)strlen(login), auth_done, NULL);
    *ops = &table;
    *out = z;
    int rc = connected(z, e);
    if (rc != 0)
        end(z);
    return rc;
}
