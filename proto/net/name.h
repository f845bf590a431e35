/* name.h: names of machines in endpoints, and the address by which another machine is reached.
 *
 * Both calls ask the resolver and may take seconds: never on a loop. Any thread. */
#ifndef PROTO_NET_NAME_H
#define PROTO_NET_NAME_H

#include "proto/base/err.h"

#include <stdbool.h>

/* Whether the endpoint names a machine by a name: tcp://, and its host is neither an address, nor
 * "*", nor one of this machine's network interfaces, which ZeroMQ takes as they are. */
bool name_in(const char *endpoint);
/* "tcp://NAME:PORT" with the first address of the name in its place, of IPv4 where it has one;
 * any other endpoint as it is. UNAVAILABLE: the name has no address, and why. */
int name_resolve(const char *endpoint, char numeric[256], struct err *e);
/* Whether the host of a bound endpoint stands for all addresses of the machine. */
bool name_any(const char *endpoint);
/* The address, as it stands in an endpoint ([..] for IPv6), that this machine shows to `endpoint`;
 * nothing is sent. UNAVAILABLE: its name has no address, or there is no way to it. */
int name_toward(const char *endpoint, char address[64], struct err *e);

#endif
