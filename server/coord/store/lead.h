/* lead.h: the choice of the one coordinator that leads. PATH/leader in ZooKeeper is a node of the
 * leader's session: it has the leader's endpoint, and goes when the session ends, so that another
 * coordinator can make it. The leader then opens the store (store_zookeeper.h), which locks out the
 * coordinator before it. */
#ifndef SERVER_COORD_STORE_LEAD_H
#define SERVER_COORD_STORE_LEAD_H

#include "server/coord/store/store_zookeeper.h"

#define COORD_ENDPOINT 256u

/* Tries to lead. endpoint: of this process. 0: the session leads. AGAIN: another one does, or none
 * does yet; `leader` gets its endpoint, or "". Errors: those of zoo.h; UNAVAILABLE: try again. */
int coord_lead_try(const struct coord_zookeeper *o, const char *endpoint,
                   char leader[COORD_ENDPOINT], struct err *e);

#endif
