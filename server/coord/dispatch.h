/* dispatch.h: the handler of each request, the rights that it needs, and its line in the audit.
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_DISPATCH_H
#define SERVER_COORD_DISPATCH_H

#include "proto/base/env.h"

struct coord;
struct msg;
struct wire;

/* Calls the handler of a request, writes the audit line and sends the answer. who: the sender,
 * which may have left by now. */
void coord_dispatch(struct coord *c, peer_t from, const struct env_who *who, const struct wire *w,
                    const struct msg *m);
/* Refuses a request with this status. */
void coord_refuse(struct coord *c, peer_t from, const struct wire *w, int rc, const char *text);

#endif
