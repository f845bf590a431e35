/* name.h: host names in endpoints, and the endpoint by which other machines reach this one.
 *
 * name_resolve and name_toward query the resolver and may take seconds: never on a loop. Any
 * thread. */
#ifndef PROTO_NET_NAME_H
#define PROTO_NET_NAME_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <sys/socket.h>

/* True when the endpoint contains a host name: it is tcp://, and its host is neither an address,
 * nor "*", nor one of this machine's network interfaces, which ZeroMQ takes unchanged. */
bool name_in(const char *endpoint);
/* Replaces the name in "tcp://NAME:PORT" by its first address, an IPv4 one where it has one; other
 * endpoints are copied. UNAVAILABLE: the name has no address, and why. */
int name_resolve(const char *endpoint, char numeric[256], struct err *e);
/* The address of a tcp endpoint that contains no name. CONFIG: it is none. */
int name_address(const char *numeric, struct sockaddr_storage *out, socklen_t *bytes);
/* True when the host of a bound endpoint stands for all addresses of the machine. */
bool name_any(const char *endpoint);
/* The address, in the form of an endpoint ([..] for IPv6), from which this machine would send to
 * `endpoint`; nothing is sent. UNAVAILABLE: its name has no address, or there is no route to it. */
int name_toward(const char *endpoint, char address[64], struct err *e);
/* The endpoint that peers are told: `bound` with its host replaced by `advertise`, or, where the
 * host stands for all addresses of the machine, by `shown`. shown "": no other address is known. */
void name_advertised(const char *advertise, const char *bound, const char *shown, char out[256]);

#endif
