/* fleet_open.c: reads the fleet from the store, and closes it. */
#include "server/coord/job/fleet_open.h"

#include "proto/base/minmax.h"
#include "server/coord/core/fresh.h"
#include "server/coord/core/made.h"
#include "server/coord/figures/jobs.h"
#include "server/coord/figures/queue.h"
#include "server/coord/job/sight.h"
#include "server/coord/work/taken.h"

#include <stdlib.h>

/* Loads the counters. The numbers of runs begin at a random value: a coordinator that lost its
 * store must not use the number of a run that servers still know. */
static int counters_load(struct coord_fleet *f, struct err *e)
{
    int rc = coord_store_get_fixed(f->store, "counters", &f->counters, sizeof f->counters, e);
    if (rc != SHOAL_E_NOT_FOUND)
        return rc;
    uint64_t base = (env_random(f->env) & 0x7fffffff) * 1000;
    f->counters = (struct coord_counters){.next_run = base + 1, .next_cut = base + 1};
    return 0;
}

int coord_fleet_open(struct coord_fleet *f, const struct coord_options *options, struct env *env,
                     struct coord_store *store, struct err *e)
{
    f->options = *options;
    if (f->options.lease_ms == 0)
        f->options.lease_ms = 10000;
    if (f->options.resend_ms == 0)
        f->options.resend_ms = 500;
    f->options.replicas = MAX(options->replicas, 1u);
    f->options.min_in_sync = MAX(options->min_in_sync, 1u);
    if (f->options.shard_lease_ms == 0)
        f->options.shard_lease_ms = 6000;
    f->env = env;
    f->store = store;
    f->spaces.forget = coord_made_gone;
    coord_call_open(&f->calls, env, &f->members, f->options.resend_ms * UINT64_C(1000000),
                    f->options.lease_ms * UINT64_C(1000000));
    int rc = coord_member_open(&f->members, f->options.shards, store, e);
    if (rc == 0)
        rc = coord_member_file_check(&f->members, f->options.shards, e);
    if (rc == 0)
        rc = coord_cluster_open(f, e);
    if (rc == 0)
        rc = coord_spaces_open(f, e);
    if (rc == 0)
        rc = coord_copies_open(f, e);
    if (rc == 0)
        rc = coord_moves_open(f, e);
    if (rc == 0)
        rc = coord_allowed_open(f, e);
    if (rc == 0)
        rc = coord_names_open(f, e);
    if (rc == 0)
        rc = coord_jobs_open(f, e);
    if (rc == 0)
        rc = coord_queue_open(f, e);
    if (rc == 0)
        rc = coord_taken_open(f, e);
    if (rc == 0)
        rc = counters_load(f, e);
    if (rc == 0)
        rc = coord_fresh_open(f, e);
    if (rc == 0)
        rc = coord_replace_open(f, e);
    coord_store_watch(store, coord_fleet_told, f);
    if (rc != 0)
        return rc;
    f->writes.begun = f->writes.complete = coord_store_complete(store);
    uint64_t begun_ns = env_now_ns(env);
    rc = coord_store_own(store, e);
    coord_writes_begun(&f->writes, coord_store_newest(store), begun_ns);
    coord_writes_complete(&f->writes, coord_store_complete(store), env_now_ns(env));
    return rc;
}

void coord_fleet_close(struct coord_fleet *f)
{
    coord_moves_close(f);
    coord_copies_close(f);
    coord_heat_close(f);
    coord_traces_close(&f->traces);
    coord_member_close(&f->members);
    coord_cluster_close(&f->cluster);
    coord_names_close(&f->names);
    coord_spaces_close(f);
    coord_jobs_close(f->jobs);
    coord_queue_close(f->queue);
    coord_taken_close(f);
    coord_allowed_close(&f->keys);
    coord_shares_close(&f->shares);
    coord_sight_close(f->visitors);
    coord_errand_close(f);
    coord_store_watch(f->store, NULL, NULL);
    while (f->held != NULL) {
        struct coord_held *h = f->held;
        f->held = h->next;
        msg_free(h->m);
        free(h);
    }
}
