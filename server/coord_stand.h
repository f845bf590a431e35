/* coord_stand.h: a coordinator that stands by: it answers each request with NOT_LEADER and the
 * endpoint of the coordinator that leads, and tries to lead several times a second. Several
 * coordinators run so over one store in ZooKeeper.
 *
 *     stand by --leader's node made--> store opened --on_lead--> leads (coord.h)
 *        ^------- the process begins anew: coord_main.c ----------'  session lost
 *
 * Thread: the loop of env; one try at a time runs on another thread (env_work). */
#ifndef SERVER_COORD_STAND_H
#define SERVER_COORD_STAND_H

#include "proto/base/env.h"
#include "server/coord/store/lead.h"
#include "server/server_config.h"

struct coord_stand {
    /* set by the owner */
    const struct coord_config *config; /* borrowed */
    struct env *env;                   /* borrowed */
    char endpoint[COORD_ENDPOINT];     /* others are told this one */
    /* Called once, on the loop: this process leads, with this store, which it then owns. */
    void (*on_lead)(void *context, struct coord_store *store);
    void *context;
    /* its own */
    char leader[COORD_ENDPOINT]; /* the endpoint of the one that leads; "": not known */
    int fatal;                   /* why it stopped env: settings that no later try would meet */
    struct err e;
    struct env_work work;
    struct { /* the try's, on its thread */
        int rc;
        struct err e;
        char leader[COORD_ENDPOINT];
        struct coord_zookeeper o;   /* zoo NULL: no session */
        struct coord_store *opened; /* NULL: it does not lead */
        uint32_t granted_ms;
    } attempt;
    char told[ERR_TEXT_MAX]; /* the trouble of the last try, which was logged; empty: none */
};

/* Opens the module and begins to try. UNAVAILABLE, VERSION: the module is missing or does not fit;
 * the error says which package has it. */
int coord_stand_begin(struct coord_stand *s, struct err *e);
/* After net_free: ends the session, if it does not lead. */
void coord_stand_end(struct coord_stand *s);
/* Writes one line for people (systemctl status). */
void coord_stand_describe(const struct coord_stand *s, char *text, size_t bytes);
/* to be used with the struct coord_stand as `core` */
extern const struct env_handler coord_stand_handler;

#endif
