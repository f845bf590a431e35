/* refer.h: the answer of a coordinator that stands by. */
#ifndef SERVER_COORD_REFER_H
#define SERVER_COORD_REFER_H

#include "proto/base/env.h"

/* Answers a request, which it then owns, with NOT_LEADER and one of two sentences that clients
 * read: "the coordinator at ENDPOINT leads" or, where leader is "", "no coordinator leads yet". A
 * reply, and a message that is not valid, gets no answer. */
void coord_refer(struct env *env, peer_t from, struct msg *m, const char *leader);

#endif
