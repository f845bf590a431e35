/* worker_listen.h: where a worker listens for other workers (train.dense: allreduce): `listen` and
 * `advertise` of worker.yaml, --listen and --advertise of train.
 *
 * Without `listen`, by the coordinator's endpoint:
 *
 *     tcp                 tcp://ADDRESS:*: the address by which it is reached, any port
 *     ipc, in a unit      ipc://$RUNTIME_DIRECTORY/socket
 *     ipc, by hand        the coordinator's path and ".worker-PID": users that reach the
 *                         coordinator's socket, and no others, reach this one */
#ifndef WORKER_WORKER_LISTEN_H
#define WORKER_WORKER_LISTEN_H

#include "proto/base/err.h"

#include <stdbool.h>

/* Most connections that come in at a time: a ring has 64 members, of which one sends chunks and
 * some may read the network at the same time; the rest is for strangers until they are refused. */
#define WORKER_LISTEN_CONNECTIONS 256u

struct worker_listen {
    const char *listen, *advertise; /* "": not given */
    const char *coordinator;        /* endpoints */
};

/* Checks what can be checked at the start. keys: the worker has a key file. CONFIG: no endpoint;
 * tcp without keys; or tcp with a coordinator on ipc, which learns no key by which others could be
 * admitted. */
int worker_listen_check(const struct worker_listen *l, bool keys, bool insecure_plaintext,
                        struct err *e);
/* trainer_options.where: on a thread, may take seconds. UNAVAILABLE: a name has no address; CONFIG:
 * the path of the socket is too long. */
int worker_listen_where(const struct worker_listen *l, char endpoint[256], char host[256],
                        struct err *e);

#endif
