/* worker_listen.c: finds the endpoint of a worker that listens. */
#include "worker/worker_listen.h"

#include "proto/base/limits.h"
#include "proto/job/instance.h"
#include "proto/net/name.h"
#include "proto/net/net.h"
#include "proto/wire/coordinators.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SOCKET_PATH 107 /* the most bytes of a socket's path */

static bool tcp(const char *endpoint)
{
    return strncmp(endpoint, "tcp://", 6) == 0;
}

int worker_listen_check(const struct worker_listen *l, bool keys, bool insecure_plaintext,
                        struct err *e)
{
    if (l->listen[0] == '\0')
        return 0;
    if (tcp(l->listen) && !coordinators_tcp(l->coordinator))
        return err_set(
            e, SHOAL_E_CONFIG,
            "listen: %s: the coordinator at %s is reached over a socket, where it sees no "
            "key of this worker, so no other worker would be let in: leave listen out, "
            "and a socket is used, or reach the coordinator over tcp",
            l->listen, l->coordinator);
    int rc = net_listen_check(l->listen, keys, insecure_plaintext, e);
    if (rc != 0)
        err_wrap(e, rc, "listen");
    return rc;
}

/* The default over ipc. */
static int socket_find(const struct worker_listen *l, char endpoint[256], struct err *e)
{
    char folder[LIMIT_PATH];
    struct coordinators c;
    int n, rc = coordinators_parse(l->coordinator, &c, e);
    if (rc != 0)
        return rc;
    instance_folder("RUNTIME_DIRECTORY", folder, sizeof folder);
    if (folder[0] != '\0')
        n = snprintf(endpoint, 256, "ipc://%s/socket", folder);
    else
        n = snprintf(endpoint, 256, "%s.worker-%d", c.endpoint[0], (int)getpid());
    if (n - 6 <= SOCKET_PATH)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "%.200s: the path of a socket has at most %d bytes: name a shorter one, "
                   "listen: ipc://PATH",
                   endpoint, SOCKET_PATH);
}

int worker_listen_where(const struct worker_listen *l, char endpoint[256], char host[256],
                        struct err *e)
{
    char address[64] = "";
    int rc = 0;
    host[0] = '\0';
    if (l->listen[0] == '\0' && !coordinators_tcp(l->coordinator))
        return socket_find(l, endpoint, e);
    if (l->listen[0] != '\0')
        rc = name_resolve(l->listen, endpoint, e);
    bool shown = l->listen[0] == '\0' || (name_any(endpoint) && l->advertise[0] == '\0');
    if (rc == 0 && shown)
        rc = coordinators_toward(l->coordinator, name_toward, address, e);
    if (rc != 0)
        return rc;
    if (l->listen[0] == '\0')
        (void)snprintf(endpoint, 256, "tcp://%s:*", address);
    if (l->advertise[0] != '\0')
        (void)snprintf(host, 256, "%s", l->advertise);
    else if (name_any(endpoint))
        (void)snprintf(host, 256, "%s", address);
    return 0;
}
