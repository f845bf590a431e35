/* fleet.c: the services that all parts of the coordinator use: store, replies, lease times. */
#include "server/coord/fleet/fleet.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool coord_fleet_stored(struct coord_fleet *f, int status, const struct err *e)
{
    if (status == 0)
        return true;
    if (status == SHOAL_E_FENCED)
        log_warn("store: %s; this one leads no longer", e->text);
    else
        log_error("store: %s; stopping, because nothing more can be promised", e->text);
    f->fatal = status;
    env_stop(f->env);
    return false;
}

/* False, and the coordinator stops: another one may lead by now, and its answers count. */
static bool leads(struct coord_fleet *f)
{
    struct err e = {0};
    if (coord_store_owned(f->store))
        return true;
    (void)err_set(&e, SHOAL_E_FENCED, "another coordinator may lead by now");
    return f->fatal == 0 && coord_fleet_stored(f, SHOAL_E_FENCED, &e);
}

bool coord_fleet_store(struct coord_fleet *f, struct coord_store *store, const char *key,
                       const void *value, size_t bytes, bool sync)
{
    struct err e = {0};
    if (f->fatal != 0)
        return false;
    int rc;
    if (sync)
        rc = coord_store_put(store, key, value, bytes, &e);
    else
        rc = coord_store_note(store, key, value, bytes, &e);
    return coord_fleet_stored(f, rc, &e);
}

bool coord_put(struct coord_fleet *f, const char *key, const void *value, size_t bytes)
{
    return coord_fleet_store(f, f->store, key, value, bytes, true);
}

bool coord_remove(struct coord_fleet *f, const char *key)
{
    struct err e = {0};
    return f->fatal == 0 && coord_fleet_stored(f, coord_store_remove(f->store, key, &e), &e);
}

bool coord_fleet_waits(const struct coord_fleet *f)
{
    return coord_store_newest(f->store) > coord_store_complete(f->store);
}

/* The reply to the STOP that ends this process is the last one, and it is held in any case. */
static bool held_full(const struct coord_fleet *f, uint64_t bytes)
{
    return !f->stopping &&
           (f->held_count >= LIMIT_HELD || bytes > LIMIT_HELD_BYTES - f->held_bytes);
}

static bool hold(struct coord_fleet *f, peer_t to, struct msg *m)
{
    uint64_t bytes = msg_bytes(m);
    bool full = held_full(f, bytes);
    struct coord_held *h = full ? NULL : malloc(sizeof *h);
    if (full && !f->shedding)
        log_warn("the store has not answered while %u messages (%" PRIu64 " bytes) came to wait "
                 "for it: further ones are dropped until it answers, and are asked for again; see "
                 "to the disk of the coordinator",
                 f->held_count, f->held_bytes);
    f->shedding |= full;
    if (h == NULL) {
        msg_free(m); /* the peer asks again */
        return false;
    }
    *h = (struct coord_held){.after = coord_store_newest(f->store), .to = to, .m = m};
    if (f->held == NULL)
        f->held = h;
    else
        f->held_last->next = h;
    f->held_last = h;
    f->held_count++;
    f->held_bytes += bytes;
    return true;
}

/* False: the message is dropped. */
static bool send_or_hold(struct coord_fleet *f, peer_t to, struct msg *m)
{
    if (m == NULL)
        return false;
    if (f->fatal != 0 || !leads(f)) { /* the message may tell of a value that is not stored */
        msg_free(m);
        return false;
    }
    if (coord_fleet_waits(f))
        return hold(f, to, m);
    return env_send(f->env, to, m) == 0;
}

void coord_send(struct coord_fleet *f, peer_t to, struct msg *m)
{
    (void)send_or_hold(f, to, m);
}

/* Sends the held messages whose transactions are complete. */
static void release(struct coord_fleet *f)
{
    uint64_t complete = coord_store_complete(f->store);
    while (f->held != NULL && f->held->after <= complete && leads(f)) {
        struct coord_held *h = f->held;
        f->held = h->next;
        f->held_count--;
        f->held_bytes -= msg_bytes(h->m);
        (void)env_send(f->env, h->to, h->m);
        free(h);
    }
    f->shedding &= f->held != NULL;
    if (coord_fleet_waits(f) || f->fatal != 0)
        return;
    coord_errand_begin(f);
    if (f->stopping)
        env_stop(f->env);
}

void coord_fleet_end(struct coord_fleet *f)
{
    struct err e = {0};
    if (f->fatal != 0 || !leads(f))
        return;
    uint64_t begun_ns = env_now_ns(f->env);
    int rc = coord_store_commit(f->store, &e);
    coord_writes_begun(&f->writes, coord_store_newest(f->store), begun_ns);
    coord_writes_complete(&f->writes, coord_store_complete(f->store), env_now_ns(f->env));
    if (coord_fleet_stored(f, rc, &e))
        release(f);
}

void coord_fleet_told(void *context, int rc, const struct err *e)
{
    struct coord_fleet *f = context;
    coord_writes_complete(&f->writes, coord_store_complete(f->store), env_now_ns(f->env));
    if (f->fatal == 0 && coord_fleet_stored(f, rc, e))
        release(f);
}

struct msg *coord_framed_more(struct msg *m, const void *bytes, size_t count)
{
    void *at = NULL;
    if (m != NULL)
        at = msg_add(m, count);
    if (at == NULL) {
        msg_free(m);
        return NULL;
    }
    if (count > 0)
        memcpy(at, bytes, count);
    return m;
}

struct msg *coord_framed(const struct wire *w, const void *bytes, size_t count)
{
    return coord_framed_more(wire_encode(w), bytes, count);
}

bool coord_send_frame(struct coord_fleet *f, peer_t to, const struct wire *w, const void *bytes,
                      size_t count)
{
    return send_or_hold(f, to, coord_framed(w, bytes, count));
}

uint64_t coord_fleet_lease_ns(const struct coord_fleet *f)
{
    return f->options.lease_ms * UINT64_C(1000000);
}

bool coord_fleet_heard(const struct coord_fleet *f, const struct coord_shard *s)
{
    return coord_shard_there(s, s->ready, env_now_ns(f->env), coord_fleet_lease_ns(f));
}

const struct coord_shard *coord_fleet_silent(const struct coord_fleet *f)
{
    COORD_EACH_SHARD (&f->members, s)
        if (!coord_fleet_heard(f, &f->members.shard[s]))
            return &f->members.shard[s];
    return NULL;
}

int coord_drop_check(const struct coord_fleet *f, struct err *e)
{
    if (f->drop.asker != 0)
        return err_set(e, SHOAL_E_BUSY,
                       "%s is being dropped from all servers (shoal drop): ask again when it is "
                       "done",
                       f->drop.name);
    return 0;
}
