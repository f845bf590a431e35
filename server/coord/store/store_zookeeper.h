/* store_zookeeper.h: a keep that several coordinators can open, one after the other. */
#ifndef SERVER_COORD_STORE_STORE_ZOOKEEPER_H
#define SERVER_COORD_STORE_STORE_ZOOKEEPER_H

#include "proto/base/env.h"
#include "server/coord/store/store.h"
#include "server/coord/store/zoo.h"

struct coord_zookeeper {
    const struct zoo_ops *ops; /* borrowed */
    struct zoo *zoo;           /* a session, which is taken over in any case */
    const char *path;          /* the node that has the values: "/shoal"; it is made if missing */
    struct env *env;           /* completions come on its loop; NULL: a commit waits for the end */
    uint64_t writer;           /* a random number of this session */
    bool led; /* the session has won the leader's node: it is looked at while idle */
};

/* Reads all values and locks out the coordinator that had them before. CORRUPT, FENCED, IO, DENIED,
 * NOMEM, CONFIG. */
int coord_zookeeper_open(const struct coord_zookeeper *o, struct coord_store **out, struct err *e);
/* Makes the nodes of an empty store, as far as they are missing. */
int coord_zookeeper_make(const struct coord_zookeeper *o, struct err *e);

#endif
