/* beat.c: handles a shard's beat. */
#include "server/coord/job/beat.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "server/coord/core/phase.h"
#include "server/coord/core/setup_state.h"
#include "server/coord/job/back.h"
#include "server/coord/job/handle.h"
#include "server/coord/job/older.h"
#include "server/coord/job/setup.h"
#include "server/coord/job/slot.h"

static void job_shard_came_back(struct coord_job *j, uint32_t shard, enum coord_beat what)
{
    const struct coord_shard *s = &j->fleet->members.shard[shard];
    if (what == COORD_BEAT_RESTARTED) {
        coord_checkpoint_shard_lost(j, shard);
        if (coord_phase_running(j))
            j->at.restarts++;
    }
    coord_setup_lost(j, shard);
    if (coord_back_rows_lost(j, shard))
        coord_back_lost(j, shard);
    else if (what == COORD_BEAT_RESTARTED && s->rebooted)
        coord_handle_anew(j, s->server);
}

/* A shard that had no rows to lose has none that it loses with the tablets that it gets. */
static void rowless_note(struct coord_fleet *f, uint32_t shard)
{
    struct err e = {0};
    if (coord_shard_lost(&f->members.shard[shard]) && !coord_cluster_lost(f, shard))
        (void)coord_fleet_stored(f, coord_member_note_made(&f->members, shard, f->store, &e), &e);
}

static void shard_came_back(struct coord *c, uint32_t shard, enum coord_beat what)
{
    struct coord_shard *s = &c->fleet.members.shard[shard];
    SHOAL_ASSERT(shard < c->fleet.members.shards && (what != COORD_BEAT_SAME || !s->ready));
    rowless_note(&c->fleet, shard);
    coord_call_forget_shard(&c->fleet.calls, NULL, shard);
    if (what == COORD_BEAT_RESTARTED)
        coord_checkpoint_shard_lost(&c->aside, shard);
    COORD_EACH_JOB (c, j)
        job_shard_came_back(j, shard, what);
}

void coord_beat_taken(struct coord *c)
{
    uint32_t shard;
    while ((shard = coord_copies_taken(&c->fleet)) != COORD_NOBODY)
        shard_came_back(c, shard, COORD_BEAT_RESTARTED);
}

/* The beat of a copy that follows was taken. */
static void follower_answer(struct coord *c, peer_t from, uint64_t id, uint32_t shard,
                            uint32_t place)
{
    const struct coord_shard *s = coord_copies_at(&c->fleet, shard, place);
    coord_copies_answer(&c->fleet, from, id, shard, place);
    coord_copies_map(&c->fleet, s);
    coord_names_send(&c->fleet, s);
    coord_taken_send(&c->fleet, shard, s);
}

/* The beat of a shard that belongs here. */
static int beat_take(struct coord *c, const struct wire_SHARD_BEAT *beat, peer_t from, uint64_t id,
                     struct err *e)
{
    enum coord_beat what;
    uint32_t shard, place;
    uint64_t now = env_now_ns(c->fleet.env);
    int rc = coord_copies_beat(&c->fleet, beat, from, &shard, &place, e);
    coord_beat_taken(c);
    if (rc != 0)
        return rc;
    if (place != COORD_NOBODY) {
        follower_answer(c, from, id, shard, place);
        return 0;
    }
    rc = coord_member_shard_beat(&c->fleet.members, c->fleet.store, beat, from, now, &shard, &what,
                                 e);
    if (rc == 0)
        rc = coord_member_note_synced(&c->fleet.members, shard, c->fleet.store, now, e);
    if (rc != 0)
        return rc;
    coord_copies_heard(&c->fleet, shard);
    if (what == COORD_BEAT_RESTARTED)
        log_event(SERVER_AGAIN, beat->server, "server %s (shard %u) has started again",
                  beat->server, shard);
    if (what == COORD_BEAT_NEW)
        log_info("server %s is shard %u at %s", beat->server, shard, beat->endpoint);
    /* names first: their error gives the better advice */
    bool names = coord_names_learn(&c->fleet, shard, beat);
    COORD_EACH_JOB (c, j)
        if (names)
            coord_older_names(j, beat);
    bool taken = coord_taken_learn(&c->fleet, shard, beat);
    COORD_EACH_JOB (c, j)
        if (taken)
            coord_older_taken(j, beat);
    bool numbers = coord_cluster_learn(&c->fleet, shard, beat);
    COORD_EACH_JOB (c, j)
        if (numbers)
            coord_older_run(j, beat);
    rc = coord_allowed_learn(&c->fleet, shard, from, beat->keylist, e);
    if (rc != 0)
        return rc;
    if (what != COORD_BEAT_SAME || !beat->ready)
        shard_came_back(c, shard, what);
    coord_copies_answer(&c->fleet, from, id, shard, COORD_NOBODY); /* before the map */
    COORD_EACH_JOB (c, j)
        if (!beat->ready)
            coord_setup_map_early(j, shard);
    return 0;
}

/* The cluster has just become known: takes the beats that waited for it. */
static void claims_take(struct coord *c)
{
    struct coord_claims *claims = &c->fleet.cluster.claims;
    struct err e;
    for (uint32_t i = 0; i < claims->count && c->fleet.fatal == 0; i++)
        /* a shard whose beat fails here beats again */
        (void)beat_take(c, &claims->claim[i].beat, claims->claim[i].peer, 0, &e);
    claims->count = 0;
}

/* Checks a beat before anything in it is used. 0: the shard belongs here; AGAIN: it waits. */
static int claim(struct coord_fleet *f, const struct wire_SHARD_BEAT *beat, peer_t from,
                 struct err *e)
{
    int rc = coord_cluster_claim(f, beat, e);
    if (rc != SHOAL_E_AGAIN || coord_cluster_known(&f->cluster))
        return rc;
    rc = coord_claims_beat(f, beat, from, e);
    if (rc != 0)
        return rc;
    return coord_names_claim(f, beat, e);
}

int coord_beat_shard(struct coord *c, struct coord_ask *a)
{
    const struct wire_SHARD_BEAT *beat = &a->request->u.SHARD_BEAT;
    int rc = coord_allowed_claim(&c->fleet, beat->server, &a->who, &a->e);
    if (rc == 0)
        rc = claim(&c->fleet, beat, a->from, &a->e);
    a->silent = true;
    if (rc == 0 && c->fleet.cluster.claims.count > 0)
        claims_take(c);
    if (rc == 0)
        rc = beat_take(c, beat, a->from, a->request->id, &a->e);
    bool waits = rc == SHOAL_E_AGAIN;
    if (waits)
        coord_copies_answer(&c->fleet, a->from, a->request->id, WIRE_NO_SHARD, COORD_NOBODY);
    static const struct err none;
    const struct err *refused = &a->e;
    if (waits || rc == 0)
        refused = &none;
    coord_cluster_note(&c->fleet, beat, refused);
    if (waits)
        return 0;
    return rc;
}
