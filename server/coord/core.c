/* core.c: what all parts of the coordinator stand on: its store, its answers, its times. */
#include "server/coord/core.h"
#include "proto/base/log.h"

static bool stored(struct coord *c, int status, const struct err *e)
{
    if (status == 0)
        return true;
    log_error("store: %s; stopping, because nothing more can be promised", e->text);
    c->fatal = status;
    env_stop(c->env);
    return false;
}

bool coord_put(struct coord *c, const char *key, const void *value, size_t bytes)
{
    struct err e = {0};
    return c->fatal == 0 && stored(c, coord_store_put(c->store, key, value, bytes, &e), &e);
}

bool coord_note(struct coord *c, const char *key, const void *value, size_t bytes)
{
    struct err e = {0};
    return c->fatal == 0 && stored(c, coord_store_note(c->store, key, value, bytes, &e), &e);
}

void coord_send(struct coord *c, peer_t to, struct msg *m)
{
    if (m == NULL)
        return;
    if (c->fatal != 0) /* it may not be stored */
        msg_free(m);
    else
        (void)env_send(c->env, to, m);
}

uint64_t coord_lease_ns(const struct coord *c)
{
    uint32_t ms = c->options.lease_ms;
    if (c->job.parsed && c->job.spec.coordinator.lease_ms < ms)
        ms = c->job.spec.coordinator.lease_ms;
    return ms * UINT64_C(1000000);
}

uint32_t coord_live_workers(const struct coord *c)
{
    uint32_t wanted = c->job.at.workers_wanted, deaths = c->job.at.worker_deaths;
    uint32_t expected = wanted > deaths ? wanted - deaths : 0;
    uint32_t live = c->members.workers > expected ? c->members.workers : expected;
    return live == 0 ? 1 : live;
}

uint32_t coord_retry_ms(const struct coord *c)
{
    uint32_t ms = 5 * c->members.workers;
    return ms < 20 ? 20 : ms > 500 ? 500 : ms;
}
