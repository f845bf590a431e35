/* local.h: the role of a process of this machine that connects over ipc://, by the user that the
 * kernel reports (SO_PEERCRED). An internal header.
 *
 *     root, our own user, members of shoal-admin     ROLE_LOCAL: an administrator here
 *     shoal-worker                                   ROLE_WORKER
 *     shoal-server, shoal-coordinator                ROLE_COORD
 *     every other user                               ROLE_METRICS: it may look
 *
 * Our own user is checked first, so that a cluster of one user (shoal local) needs no group. The
 * names are those of deploy/systemd/shoal.sysusers. */
#ifndef PROTO_NET_LOCAL_H
#define PROTO_NET_LOCAL_H

#include "proto/base/role.h"

#include <sys/types.h>

#define LOCAL_ADMINS "shoal-admin"

/* Reads the system's databases of users and groups, so it may block for a moment; called once for
 * each connection. */
enum role local_role(uid_t user, gid_t group);

#endif
