/* sim_ill.c: compares ill workers with the coordinator's actions and status. */
#include "tests/lib/sim_ill.h"
#include "server/coord/core/awaited.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/status.h"
#include "server/coord/work/stall.h"
#include "tests/lib/sim_cluster.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static bool is_ill(const struct cluster *c, const struct coord_worker *w)
{
    unsigned i = 0;
    if (sscanf(w->name, "worker-%u", &i) != 1 || i >= c->workers)
        return false; /* a hostile peer */
    return c->worker[i].node != NULL && c->worker[i].ill_until_ns > sim_now_ns(c->sim);
}

/* True when another worker is not ill, not barred from lanes, and gets replies from all servers. */
static bool other_could(const struct cluster *c, const struct coord_worker *than)
{
    const struct coord_workers *m = &c->coord->slot[0].workers;
    uint64_t now = sim_now_ns(c->sim);
    for (uint32_t i = 0; i < m->count; i++) {
        const struct coord_worker *w = &m->worker[i];
        if (w != than && !is_ill(c, w) && w->barred_ns <= now &&
            coord_stall_cut(&c->coord->slot[0], w) == COORD_NOBODY)
            return true;
    }
    return false;
}

/* True when its lanes lack only replies of servers, which let it wait for other lanes. */
static bool waits(const struct coord *c, const struct coord_worker *w)
{
    return w->figures.waits >= coord_lane_held(c->slot[0].tasks, w->number) &&
           coord_stall_cut(&c->slot[0], w) == COORD_NOBODY;
}

static uint64_t limit(const struct coord *c, uint32_t stalls)
{
    uint32_t doublings = stalls < COORD_STALL_DOUBLINGS ? stalls : COORD_STALL_DOUBLINGS;
    return COORD_STALL_LEASES * coord_lease_ns(&c->slot[0]) << doublings;
}

static void lanes_look(const struct cluster *c, const struct coord_worker *w, const char *who)
{
    const struct coord *at = c->coord;
    uint64_t now = sim_now_ns(c->sim);
    uint32_t held = coord_lane_held(at->slot[0].tasks, w->number);
    if (at->slot[0].at.phase != PHASE_TRAIN || held == 0 || waits(at, w) ||
        coord_awaited_any(&at->slot[0]) || !other_could(c, w))
        return;
    ck_assert_msg(now - w->moved_ns <= limit(at, w->stalls) + SECOND,
                  "%s: %s cannot get on, and holds %u lanes since %" PRIu64 " ms", who, w->name,
                  held, (now - w->moved_ns) / 1000000);
}

static void named_look(const struct cluster *c, const struct coord_worker *w, const char *who,
                       struct sim_ill *seen)
{
    struct coord *at = c->coord;
    uint64_t now = sim_now_ns(c->sim);
    bool barred = w->barred_ns > now && now - (w->barred_ns - limit(at, w->stalls - 1)) > SECOND,
         cut = coord_stall_cut(&at->slot[0], w) != COORD_NOBODY &&
               w->figures.late_ms * UINT64_C(1000000) > 2 * coord_lease_ns(&at->slot[0]);
    if (!barred && !cut)
        return;
    char *text = coord_status_text(&at->slot[0]), link[200];
    (void)snprintf(link, sizeof link, "worker %s gets no answer from server %s", w->name,
                   cut ? at->fleet.members.shard[w->figures.late_shard].server : "");
    ck_assert_msg(!cut || strstr(text, link) != NULL, "%s: status does not say \"%s\": %s", who,
                  link, text);
    (void)snprintf(link, sizeof link, "worker %s ", w->name);
    ck_assert_msg(strstr(text, link) != NULL, "%s: status does not name %s: %s", who, w->name,
                  text);
    seen->taken += barred;
    seen->named += cut;
    free(text);
}

void sim_ill_look(struct cluster *c, const char *who, struct sim_ill *seen)
{
    const struct coord_workers *m = c->coord != NULL ? &c->coord->slot[0].workers : NULL;
    for (uint32_t i = 0; m != NULL && i < m->count; i++) {
        const struct coord_worker *w = &m->worker[i];
        if (!is_ill(c, w))
            continue;
        lanes_look(c, w, who);
        named_look(c, w, who, seen);
    }
}
