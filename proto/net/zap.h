/* zap.h: admits peers at the handshake: the process's handler of ZeroMQ's authentication requests
 * (ZAP, RFC 27). An internal header.
 *
 * A socket that asks for keys has a domain. A domain has an allow-list, or none yet, and without
 * one no peer is admitted. The reply names the key only. The role of its holder is looked up with
 * each message, so a new list applies at once.
 *
 * Thread: a net's thread makes, changes and reads its own domains. One thread of the process
 * answers the requests and records the refused keys. */
#ifndef PROTO_NET_ZAP_H
#define PROTO_NET_ZAP_H

#include "proto/base/err.h"
#include "proto/net/keylist.h"
#include "proto/net/net.h"

#include <stdint.h>

struct zap_domain;

/* Starts the thread in this ZeroMQ context, unless it runs. UNAVAILABLE: another handler answers
 * already, so nothing may be bound. */
int zap_start(void *context, struct err *e);
/* Waits for the end of the thread. The caller has ended the context, or is ending it, so no request
 * comes any more. */
void zap_stop(void);

/* NULL: no memory. */
struct zap_domain *zap_domain_new(void);
const char *zap_domain_name(const struct zap_domain *d);
/* Takes ownership of l and frees the list before it. */
void zap_domain_set(struct zap_domain *d, struct keylist *l);
/* Call on the domain's thread. NULL: no list yet. `version` rises with each list. */
const struct keylist *zap_domain_list(const struct zap_domain *d, uint64_t *version);
/* net_refused (net.h). */
uint32_t zap_domain_refused(struct zap_domain *d, struct net_refused out[NET_REFUSED_MOST]);
void zap_domain_free(struct zap_domain *d); /* NULL is fine */

#endif
