/* zoo.h: the few operations of ZooKeeper that store_zookeeper.c uses. The module over libzookeeper
 * gives the table, and so does a model of the tests. Thread: one at a time calls the operations of
 * a session.
 *
 * Results beside 0:
 *
 *     UNAVAILABLE   the connection was lost: the outcome is not known
 *     FENCED        a node has another version than the operation names
 *     EXISTS        a node that was to be made is there
 *     NOT_FOUND     a node is missing
 *     IO, DENIED    the session has ended, or takes nothing more */
#ifndef SERVER_COORD_STORE_ZOO_H
#define SERVER_COORD_STORE_ZOO_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZOO_PATH_MAX 256u
#define ZOO_TOGETHER 65u /* steps of a multi, or nodes of a get, at most */

struct zoo; /* a session */

enum zoo_kind {
    ZOO_CHECK,
    ZOO_SET,
    ZOO_MAKE,
    ZOO_MAKE_OWN, /* the node is the session's, and goes when the session ends */
    ZOO_REMOVE,
};

struct zoo_step {
    enum zoo_kind kind;
    char path[ZOO_PATH_MAX];
    const void *data; /* for SET and both kinds of MAKE */
    size_t bytes;
    int32_t version; /* for CHECK and SET */
};

struct zoo_node {
    char path[ZOO_PATH_MAX];
    void *data; /* filled in by get; the caller frees it */
    size_t bytes;
    int32_t version;
};

struct zoo_ops {
    /* Takes all steps or none. */
    int (*multi)(struct zoo *z, const struct zoo_step *step, size_t count, struct err *e);
    /* Reads nodes with one delay of the network for all of them. An error leaves no data. */
    int (*get)(struct zoo *z, struct zoo_node *node, size_t count, struct err *e);
    /* Calls visit with the name of each child. */
    int (*children)(struct zoo *z, const char *path, int (*visit)(void *context, const char *name),
                    void *context, struct err *e);
    /* Keeps the session alive until wake_fd can be read. own: a node that is looked at meanwhile;
     * FENCED when it is no longer the session's. NULL: none. */
    int (*wait)(struct zoo *z, int wake_fd, const char *own, struct err *e);
    /* True while the session cannot have ended: a request was answered that was sent less than a
     * timeout ago. Any thread. */
    bool (*lives)(const struct zoo *z);
    /* Returns the timeout that ZooKeeper granted. */
    uint32_t (*timeout_ms)(const struct zoo *z);
    void (*close)(struct zoo *z);
};

/* Begins a session, within timeout_ms. In the module libshoal_zookeeper.so it is found by its name.
 * hosts: "h1:2181,h2:2181". login:
 * "user:password" of the scheme digest, whose holder alone can read and write what is made; NULL:
 * every program that reaches ZooKeeper can. */
int zoo_library_open(const char *hosts, const char *login, uint32_t timeout_ms,
                     const struct zoo_ops **ops, struct zoo **out, struct err *e);

#endif
