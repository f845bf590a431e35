/* zap.h: who may shake hands: the process's answer to ZeroMQ's question (ZAP, RFC 27). An inside
 * header.
 *
 * A socket that asks for keys has a domain, and a domain has a list, or none yet: then nobody comes
 * in. The answer names the key alone; what its holder may be is looked up with each message, so
 * that another list counts at once.
 *
 * Thread: domains are made, changed and read by their net's thread; one thread of the process
 * answers, and notes who was refused. */
#ifndef PROTO_NET_ZAP_H
#define PROTO_NET_ZAP_H

#include "proto/base/err.h"
#include "proto/net/keylist.h"
#include "proto/net/net.h"

#include <stdint.h>

struct zap_domain;

/* Begins to answer, in this context of ZeroMQ, unless that is being done. UNAVAILABLE: somebody
 * else answers already, so nothing may be bound. */
int zap_start(void *context, struct err *e);
/* The context has been ended, or is being: no question comes any more. Waits for that. */
void zap_stop(void);

/* NULL: no memory. */
struct zap_domain *zap_domain_new(void);
const char *zap_domain_name(const struct zap_domain *d);
/* Takes l over; the one before goes. */
void zap_domain_set(struct zap_domain *d, struct keylist *l);
/* Of its thread; NULL: none yet. `version` goes up with each. */
const struct keylist *zap_domain_list(const struct zap_domain *d, uint64_t *version);
/* net_refused (net.h). */
uint32_t zap_domain_refused(struct zap_domain *d, struct net_refused out[NET_REFUSED_MOST]);
void zap_domain_free(struct zap_domain *d); /* NULL is fine */

#endif
