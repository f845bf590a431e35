/* fleet.c: the services that all parts of the coordinator use: store, replies, lease times. */
#include "server/coord/fleet/fleet.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"

#include <stdlib.h>
#include <string.h>

static bool stored(struct coord_fleet *f, int status, const struct err *e)
{
    if (status == 0)
        return true;
    log_error("store: %s; stopping, because nothing more can be promised", e->text);
    f->fatal = status;
    env_stop(f->env);
    return false;
}

bool coord_fleet_store(struct coord_fleet *f, struct coord_store *store, const char *key,
                       const void *value, size_t bytes, bool sync)
{
    struct err e = {0};
    if (f->fatal != 0)
        return false;
    return stored(f,
                  sync ? coord_store_put(store, key, value, bytes, &e)
                       : coord_store_note(store, key, value, bytes, &e),
                  &e);
}

bool coord_put(struct coord_fleet *f, const char *key, const void *value, size_t bytes)
{
    return coord_fleet_store(f, f->store, key, value, bytes, true);
}

bool coord_remove(struct coord_fleet *f, const char *key)
{
    struct err e = {0};
    return f->fatal == 0 && stored(f, coord_store_remove(f->store, key, &e), &e);
}

bool coord_fleet_waits(const struct coord_fleet *f)
{
    return coord_store_newest(f->store) > coord_store_complete(f->store);
}

static void hold(struct coord_fleet *f, peer_t to, struct msg *m)
{
    struct coord_held *h = malloc(sizeof *h);
    if (h == NULL) {
        msg_free(m); /* the peer asks again */
        return;
    }
    *h = (struct coord_held){.after = coord_store_newest(f->store), .to = to, .m = m};
    if (f->held == NULL)
        f->held = h;
    else
        f->held_last->next = h;
    f->held_last = h;
}

void coord_send(struct coord_fleet *f, peer_t to, struct msg *m)
{
    if (m == NULL)
        return;
    if (f->fatal != 0) /* the message may tell of a value that is not stored */
        msg_free(m);
    else if (coord_fleet_waits(f))
        hold(f, to, m);
    else
        (void)env_send(f->env, to, m);
}

/* Sends the held messages whose transactions are complete. */
static void release(struct coord_fleet *f)
{
    uint64_t complete = coord_store_complete(f->store);
    while (f->held != NULL && f->held->after <= complete) {
        struct coord_held *h = f->held;
        f->held = h->next;
        (void)env_send(f->env, h->to, h->m);
        free(h);
    }
    if (coord_fleet_waits(f))
        return;
    coord_errand_begin(f);
    if (f->stopping)
        env_stop(f->env);
}

void coord_fleet_end(struct coord_fleet *f)
{
    struct err e = {0};
    if (f->fatal == 0 && stored(f, coord_store_commit(f->store, &e), &e))
        release(f);
}

void coord_fleet_told(void *context, int rc, const struct err *e)
{
    struct coord_fleet *f = context;
    if (f->fatal == 0 && stored(f, rc, e))
        release(f);
}

struct msg *coord_framed(const struct wire *w, const void *bytes, size_t count)
{
    struct msg *m = wire_encode(w);
    void *at = m == NULL ? NULL : msg_add(m, count);
    if (at == NULL) {
        msg_free(m);
        return NULL;
    }
    if (count > 0)
        memcpy(at, bytes, count);
    return m;
}

bool coord_send_frame(struct coord_fleet *f, peer_t to, const struct wire *w, const void *bytes,
                      size_t count)
{
    struct msg *m = coord_framed(w, bytes, count);
    coord_send(f, to, m);
    return m != NULL;
}

uint64_t coord_fleet_lease_ns(const struct coord_fleet *f)
{
    return f->options.lease_ms * UINT64_C(1000000);
}

int coord_drop_check(const struct coord_fleet *f, struct err *e)
{
    return f->drop.asker == 0 ? 0
                              : err_set(e, SHOAL_E_BUSY,
                                        "%s is being dropped from all servers (shoal drop): ask "
                                        "again when it is done",
                                        f->drop.name);
}
