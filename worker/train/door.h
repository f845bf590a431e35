/* door.h: the endpoint at which other workers reach this one, and what may come in there.
 *
 *               door_open                          it listens
 *   DOOR_SHUT -------------> DOOR_OPENS, a thread ------------> DOOR_OPEN
 *       ^                    finds the address |
 *       +--------------------------------------+
 *              opened: with the reason
 *
 * A trainer opens it before its first job with train.dense: allreduce, and it stays open until the
 * process ends: the worker has one endpoint for its life. Over tcp those workers may connect whose
 * keys the coordinator has told with a ring (door_admit), and no other process; before the first
 * ring and between two jobs none may. A request passes if the role of its peer has the right to it
 * (allow.h, WIRE_WORKER); every other one is refused by its name.
 *
 * Thread: the worker's loop. */
#ifndef WORKER_TRAIN_DOOR_H
#define WORKER_TRAIN_DOOR_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct door_options {
    struct env *env; /* borrowed */
    /* The endpoint to listen at and the host that others are told, as env_listen takes them. On a
     * thread of the pool; may take seconds. */
    int (*where)(void *context, char endpoint[256], char host[256], struct err *e);
    void *context;
    /* status 0: it is open. Once for each door_open, on the loop, never from inside it. */
    void (*opened)(void *owner, const struct err *e);
    /* A request that its peer may send, decoded. m stays the caller's. */
    void (*request)(void *owner, peer_t from, const struct wire *w, const struct msg *m);
    void *owner;
};

enum door_state { DOOR_SHUT, DOOR_OPENS, DOOR_OPEN };

struct door {
    struct door_options options;
    enum door_state state;
    char endpoint[256]; /* DOOR_OPEN: what other workers are told */
    struct env_work work;
    struct { /* the thread's while it opens */
        char endpoint[256], host[256];
        int status;
        struct err error;
    } found;
};

void door_init(struct door *d, const struct door_options *options);
void door_open(struct door *d); /* it is shut */
/* True while the thread is at work: *d must stay. */
bool door_busy(const struct door *d);
/* Where other workers reach this one; "": it is not open. */
const char *door_endpoint(const struct door *d);
/* From now on the workers of these members (members), told by the coordinator, may connect: exactly
 * their keys. 0: none may. NOMEM: the former ones may. A door that is shut takes no list. */
int door_admit(struct door *d, const struct wire_ring_member *member, uint32_t members);
/* A request that came, or, with `malformed`, a message that could not be decoded; m stays the
 * caller's. A refused one is answered. */
void door_message(struct door *d, peer_t from, const struct wire *w, const struct msg *m,
                  const struct err *malformed);

#endif
