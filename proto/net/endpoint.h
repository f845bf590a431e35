/* endpoint.h: what may stand in `listen`, and whether others than this machine reach it. Inside of
 * proto/net. */
#ifndef PROTO_NET_ENDPOINT_H
#define PROTO_NET_ENDPOINT_H

#include "proto/base/err.h"

#include <stdbool.h>

/* "tcp://HOST:PORT" (PORT 1..65535, 0 or *) or "ipc://PATH" -> the form that ZeroMQ binds
 * (localhost becomes 127.0.0.1). CONFIG: neither of them. DENIED: tcp on a host other than 127.*,
 * [::1] and localhost, without `insecure`.
 */
int endpoint_check(const char *endpoint, bool insecure, char bindable[256], struct err *e);

#endif
