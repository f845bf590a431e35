/* claims.h: the beats of shards while no cluster is known here.
 *
 * A cluster is founded once: when as many shards as the coordinator's file says have come (with
 * replicas, all their copies), and none of them belongs to a cluster. If the shards belong to one
 * cluster, the coordinator's store was lost, and the cluster is taken over from them:
 *
 *     beat of a shard with a number -> a claim -> MAP_HELD to the shard with the newest map
 *         -> each number that leads tablets there is claimed, by all its copies, and as many
 *            numbers as the file says are -> taken over: identity, numbers, copies; then the map
 *
 * A shard that was drained, and runs on, may claim its number as well. It leads no tablet of the
 * newest map, so it is left out where the file says so. Shards tell how many shards the cluster
 * has, as each was told last: some may not have heard yet that one was added or retired. So their
 * counts are advice. Only where all of them tell another count than the file is the claim refused
 * for that, until no further shard has come for a lease.
 *
 * With replicas it waits for every copy, because no part of the copies proves which has all
 * acknowledged records. A copy that takes over is alone in sync in its new term, and may have
 * acknowledged pushes alone; and PROMOTE lets a copy lead that was in no list. So any copy that is
 * away may have led the newest term, of which the others were never told. coord_claims_waits names
 * the copies that have come. Where a copy is lost for good together with the store, a cluster with
 * empty folders begins from a checkpoint.
 *
 * Invariant: no cluster is taken over without a shard that leads tablets by the newest map of those
 * that have come. [test: coord_lost_store_waits_for_the_shard_that_leads]
 *
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_FLEET_CLAIMS_H
#define SERVER_COORD_FLEET_CLAIMS_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_fleet;

struct coord_claims {
    struct coord_claim {
        struct wire_SHARD_BEAT beat;
        peer_t peer;
        uint64_t beat_ns;
    } * claim; /* owned, (count) */
    uint32_t count, capacity;
    uint64_t came_ns; /* when the last claim came that was not there before */
    struct {          /* the newest map that was told, for a takeover */
        uint64_t epoch;
        uint8_t leads[LIMIT_SHARDS / 8]; /* a bit for each number */
        uint64_t asked_epoch, asked_ns;  /* epoch and time of the last question */
        peer_t asked;
    } map;
};

/* Takes a beat. 0: the cluster has become known by it, and the claims are of its shards; AGAIN: it
 * waits; else why the shard is refused. */
int coord_claims_beat(struct coord_fleet *f, const struct wire_SHARD_BEAT *beat, peer_t from,
                      struct err *e);
/* A shard tells its map (MAP_HELD), while no cluster is known. */
void coord_claims_map(struct coord_fleet *f, peer_t from, const struct wire *reply,
                      const struct msg *m);
/* Writes what a takeover waits for, and what to do; false: none is under way. */
bool coord_claims_waits(const struct coord_fleet *f, char *text, size_t bytes);

#endif
