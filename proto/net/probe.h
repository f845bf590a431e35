/* probe.h: asks whether a process listens at an endpoint (env_probe). An internal header.
 *
 * A probe is a plain connect that is closed again, without a handshake. Only the look-up of a name
 * runs on a thread. Whatever happens, the caller has its answer after PROBE_NS.
 *
 * Thread: the loop's. */
#ifndef PROTO_NET_PROBE_H
#define PROTO_NET_PROBE_H

#include "proto/net/later.h"

#define PROBE_NS UINT64_C(1000000000)

struct probe;

struct probes {
    struct later *later; /* borrowed */
    struct probe *first; /* owned: those under way, and those whose handles close */
};

void probes_init(struct probes *ps, struct later *later);
void probes_start(struct probes *ps, struct env_probe *of, const char *endpoint);
void probes_stop(struct probes *ps, struct env_probe *of);
/* No `done` is called any more. The loop must run once more; probes_free follows later_close. */
void probes_close(struct probes *ps);
void probes_free(struct probes *ps);

#endif
