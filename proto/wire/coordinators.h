/* coordinators.h: the coordinators of a fleet as a server, a worker or a command sees them: the
 * list of `coordinator`, "tcp://a:7100,tcp://b:7100", and a connection to the one that is believed
 * to lead. Coordinators that share a store stand by for each other: one leads, and the others
 * refuse every request with NOT_LEADER and one of the two sentences below.
 *
 * The connection goes to another coordinator of the list:
 *     after such a refusal: to the one that it names, else to the next one after 100 ms
 *     when the connection closes or is refused: to the next one
 *     when a request and a HELLO have had no answer for a second: to the next one
 * at most ten times a second, and after 64 times without an answer of a leader once a second. A
 * refusal that names a coordinator outside the list is not followed.
 *
 * With a list of one the connection stays, whatever happens to it; only "no coordinator
 * leads yet" has the requests sent again after the pause.
 *
 * Nothing is sent again here: `moved` tells the owner, to which the change looks like a restart of
 * its coordinator. Thread: the env's. */
#ifndef PROTO_WIRE_COORDINATORS_H
#define PROTO_WIRE_COORDINATORS_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

#define COORDINATORS_MAX 5u
#define COORDINATORS_BYTES 256u                                   /* an endpoint with its 0 */
#define COORDINATORS_LIST (COORDINATORS_MAX * COORDINATORS_BYTES) /* a list with its 0 */

/* The refusals of a coordinator that stands by. %s: the endpoint of the one that leads. */
#define COORDINATORS_LEADS "the coordinator at %s leads"
#define COORDINATORS_NONE "no coordinator leads yet"

/* Takes the endpoint out of the first of them; false: the text is another one. */
bool coordinators_named(const char *refusal, char endpoint[COORDINATORS_BYTES]);

struct coordinators {
    /* Set by the owner before coordinators_open: called from a timer when `peer` is another one, or
     * is to be asked again. The owner sends all that waits for an answer again, to c->peer.
     * before: the connection that was closed; 0: none was. */
    void (*moved)(struct coordinators *c, peer_t before);
    bool logs;   /* a change of the leader is logged, and a name that is not in the list */
    peer_t peer; /* the connection; 0: not open. For the owner to read */

    struct env *env; /* borrowed */
    char endpoint[COORDINATORS_MAX][COORDINATORS_BYTES];
    uint32_t count;
    uint32_t at, to;   /* the one that is asked; the one to ask from move_ns on */
    uint64_t move_ns;  /* 0: the connection stays */
    uint64_t moved_ns; /* the last change; 0: none */
    uint32_t moves;    /* since a leader's last answer */
    uint64_t owed_ns;  /* when the oldest request without an answer was sent; 0: none is owed */
    bool pinged;       /* a HELLO was sent since */
    struct env_timer timer;
};

/* Takes a list apart; blanks before an endpoint are left out. CONFIG: it has more than
 * COORDINATORS_MAX endpoints, or one is too long or none by its form. */
int coordinators_parse(const char *list, struct coordinators *c, struct err *e);
/* True when one of them is reached over tcp. */
bool coordinators_tcp(const char *list);
/* The address by which this machine reaches the first of the list for which `toward` finds one
 * (proto/net has name_toward). Its error for the last of them, or that of coordinators_parse. */
int coordinators_toward(const char *list,
                        int (*toward)(const char *endpoint, char address[64], struct err *e),
                        char address[64], struct err *e);

/* Connects to the first of the list. c: with `moved` and `logs` set, all else 0. The errors of
 * coordinators_parse and env_connect, by a sentence that names the endpoint. */
int coordinators_open(struct coordinators *c, struct env *env, const char *list, struct err *e);
void coordinators_close(struct coordinators *c); /* allowed when it is not open */
/* The endpoint that is asked now. */
const char *coordinators_endpoint(const struct coordinators *c);

/* A request that is to be answered was sent to c->peer. */
void coordinators_asked(struct coordinators *c);
/* A message came from c->peer, or from another peer, which changes nothing. True: it is the refusal
 * of a coordinator that stands by, no answer: the request stays as it is until `moved`. */
bool coordinators_heard(struct coordinators *c, peer_t from, const struct wire *w);
/* on_peer_gone of the owner, for any peer. */
void coordinators_gone(struct coordinators *c, peer_t peer);

#endif
