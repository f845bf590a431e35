/* door.c: opens the door, and lets requests in. */
#include "worker/train/door.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/sm.h"
#include "proto/wire/allow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    [DOOR_SHUT] = "shut", [DOOR_OPENS] = "opens", [DOOR_OPEN] = "open"};
static const uint32_t moves[] = {
    [DOOR_SHUT] = SM_TO(DOOR_OPENS),
    [DOOR_OPENS] = SM_TO(DOOR_SHUT) | SM_TO(DOOR_OPEN),
    [DOOR_OPEN] = 0,
};
static const struct sm door_moves = SM("the door of a worker", names, moves);

/* ---- opening --------------------------------------------------------------------------------- */

static void where_run(struct env_work *w) /* on a thread of the pool */
{
    struct door *d = container_of(w, struct door, work);
    d->found.status =
        d->options.where(d->options.context, d->found.endpoint, d->found.host, &d->found.error);
}

static void where_done(struct env_work *w)
{
    struct door *d = container_of(w, struct door, work);
    struct err e = {0};
    int rc = d->found.status;
    if (rc == 0)
        rc = env_listen(d->options.env, d->found.endpoint, d->found.host, d->endpoint, &e);
    else
        e = d->found.error;
    if (rc == 0) {
        sm_move(&door_moves, &d->state, DOOR_OPEN);
        log_info("other workers reach this one at %s", d->endpoint);
    } else {
        sm_move(&door_moves, &d->state, DOOR_SHUT);
        d->endpoint[0] = 0;
        e.code = rc;
        err_wrap(&e, rc, "this worker cannot listen for other workers (listen)");
    }
    d->options.opened(d->options.owner, &e);
}

void door_init(struct door *d, const struct door_options *options)
{
    *d = (struct door){.options = *options, .work = {.run = where_run, .done = where_done}};
}

void door_open(struct door *d)
{
    sm_move(&door_moves, &d->state, DOOR_OPENS);
    env_work_start(d->options.env, &d->work);
}

bool door_busy(const struct door *d)
{
    return d->state == DOOR_OPENS;
}

const char *door_endpoint(const struct door *d)
{
    return d->endpoint;
}

/* ---- those that may come --------------------------------------------------------------------- */

int door_admit(struct door *d, const struct wire_ring_member *member, uint32_t members)
{
    struct env_who who[WIRE_RING_MEMBERS];
    SHOAL_ASSERT(members <= WIRE_RING_MEMBERS);
    if (d->state != DOOR_OPEN)
        return 0;
    for (uint32_t i = 0; i < members; i++) {
        who[i] = (struct env_who){.role = ROLE_WORKER};
        (void)snprintf(who[i].name, sizeof who[i].name, "worker-%" PRIu64, member[i].worker);
        (void)snprintf(who[i].key, sizeof who[i].key, "%s", member[i].key);
    }
    return env_admit(d->options.env, who, members);
}

/* ---- what comes ------------------------------------------------------------------------------ */

static void refuse(struct door *d, peer_t to, const struct wire *w, int rc, const char *text)
{
    struct msg *m = wire_refusal(w, rc, "%s", text);
    if (m != NULL)
        (void)env_send(d->options.env, to, m);
}

void door_message(struct door *d, peer_t from, const struct wire *w, const struct msg *m,
                  const struct err *malformed)
{
    const struct env_who *who = env_who(d->options.env, from);
    if (malformed->code != 0) {
        if (who->role == ROLE_NOBODY) /* a shard or the coordinator, to which it has connected */
            log_warn("a message was dropped: %s", malformed->text);
        else if (w->type != WIRE_TYPE_NONE && !w->reply)
            refuse(d, from, w, malformed->code, malformed->text);
        return;
    }
    enum wire_right right = allow_right_of(w);
    if (allow_may(right, WIRE_WORKER, who->role, false)) {
        env_known(d->options.env, from);
        d->options.request(d->options.owner, from, w, m);
        return;
    }
    struct err e = {0};
    int rc = allow_denied(right, WIRE_WORKER, role_text(who->role), &e);
    log_audit_bounded(.key = who->key, .role = role_text(who->role), .name = who->name,
                      .peer = who->address, .operation = allow_text(right), .result = "denied");
    refuse(d, from, w, rc, e.text);
}
