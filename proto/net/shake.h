/* shake.h: handshakes that fail, in words, each once in a while. An inside header.
 *
 * ZeroMQ tries again and again in silence. Its monitor tells of each failure, which is logged here,
 * for both sides: a coordinator sees who pins another key, and a server that its pin is not the
 * coordinator's. What the allow-list refuses is told by zap.h. */
#ifndef PROTO_NET_SHAKE_H
#define PROTO_NET_SHAKE_H

#include "proto/net/recent.h"

#include <stdbool.h>
#include <stdint.h>

/* Why, of an event of the monitor (its number and value); NULL: it is no failure, or one that
 * zap.h tells. */
const char *shake_why(uint16_t event, uint32_t value);
/* Logs the failure of a peer that came from `address`. */
void shake_failed(struct recent *told, const char *address, const char *why);
/* Logs that of a connection to `endpoint`; pins: keys that our file takes for that side's. */
void shake_refused(struct recent *told, const char *endpoint, uint32_t pins);

#endif
