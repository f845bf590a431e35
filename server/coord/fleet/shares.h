/* shares.h: the shares of the servers' memory, by space. `memory` of the coordinator's file gives
 * weights; a space that it does not name weighs 1. Every shard is told the list (wire_share) while
 * several spaces hold tables: each space's weight over the sum of all.
 *
 *     file, spaces -> list -> each shard whose beat tells another digest -> SHARES -> its use
 *                          -> each shard, every two seconds              -> SHARES -> its use
 *
 * A shard keeps the list in memory only, so one that starts again gets it with its first beats.
 * Copies that follow get it, too, and their use is not counted.
 *
 * Invariants:
 *  1. The parts of all spaces are WIRE_SHARE_PARTS, and each space has one at least. [assert:
 *     parts_give] [test: coord_shares_follow_the_weights] */
#ifndef SERVER_COORD_FLEET_SHARES_H
#define SERVER_COORD_FLEET_SHARES_H

#include "proto/base/env.h"
#include "proto/base/json.h"
#include "proto/wire/wire.h"
#include "server/coord/fleet/options.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_fleet;
struct coord_shard;
struct coord_space;

/* The figures that a shard has reported of its shares. */
struct coord_shares_told {
    uint64_t digest; /* digest of the list that `use` belongs to; 0: it has reported none */
    struct wire_share_use use[LIMIT_SPACES];
    /* when its share last put off, or refused, a push of the space; 0: not since it was set */
    uint64_t waited_ns[LIMIT_SPACES], refused_ns[LIMIT_SPACES];
};

struct coord_shares {
    struct wire_share
        list[LIMIT_SPACES]; /* (count); none while fewer than two spaces have tables */
    uint32_t count;
    uint64_t digest;                /* XXH3 of the list; 0: it is empty */
    struct coord_shares_told *told; /* (LIMIT_SHARDS), owned; NULL: no list was ever made */
};

/* Makes the list anew, and tells it to the shards that have another one. Cheap. */
void coord_shares_tick(struct coord_fleet *f);
/* Takes other weights. */
void coord_shares_weigh(struct coord_fleet *f, const struct coord_weights *memory);
/* A reply to SHARES. */
void coord_shares_answer(struct coord_fleet *f, peer_t from, const struct wire *reply,
                         const struct msg *m);
/* Adds to the space's object of the status: weight, share and use. Nothing without shares. */
void coord_shares_json(const struct coord_fleet *f, const struct coord_space *s, struct json *item);
/* Adds a sentence for each space that is held to its share, and for each weight of a space that is
 * not there. */
void coord_shares_notes(const struct coord_fleet *f, struct json *notes);
void coord_shares_close(struct coord_shares *s);

#endif
