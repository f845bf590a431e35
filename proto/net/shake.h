/* shake.h: logs failed handshakes, each once in a while. An internal header.
 *
 * ZeroMQ retries in silence, but its monitor reports each failure. Both sides log it: a coordinator
 * sees that a peer pins another key, and a server sees that its pin is not the coordinator's key.
 * zap.h reports keys that the allow-list refuses. */
#ifndef PROTO_NET_SHAKE_H
#define PROTO_NET_SHAKE_H

#include "proto/net/recent.h"

#include <stdbool.h>
#include <stdint.h>

/* The reason for a failure, from an event of the monitor (its number and value); NULL: it is no
 * failure, or one that zap.h reports. */
const char *shake_why(uint16_t event, uint32_t value);
/* Logs the failure of a peer that came from `address`. */
void shake_failed(struct recent *told, const char *address, const char *why);
/* Logs the failure of a connection to `endpoint`; pins: how many keys our file pins for that
 * side. */
void shake_refused(struct recent *told, const char *endpoint, uint32_t pins);

#endif
