/* cluster.h: the cluster's identity, and which servers belong to it. Both are stored before a shard
 * or worker is told. cluster_map.h has its map of tablets.
 *
 * A cluster is founded once, or taken over from its servers when the coordinator's store was lost
 * (claims.h). Servers that join later are added by an order (add.h). In all other cases the shard
 * is refused, with the reason.
 *
 *     shard beats -> coord_cluster_claim -> [unknown: claims.h] -> founded, or taken over
 *                                        -> [known: fits, or is refused] -> member.c
 *
 * Invariants:
 *  1. No shard is told of a cluster or a map that is not in the store. [test:
 *     coord_nobody_is_told_what_is_not_stored]
 *  2. A shard that held rows is taken with these rows or not at all. [test:
 *     coord_empty_folder_under_an_old_name_is_refused, coord_older_folder_is_refused] */
#ifndef SERVER_COORD_FLEET_CLUSTER_H
#define SERVER_COORD_FLEET_CLUSTER_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/wire/wire.h"
#include "server/coord/fleet/claims.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_fleet;

/* Ends the error where a stored value of the cluster cannot be. */
#define COORD_CLUSTER_ADVICE                                                                       \
    "; bring the data_dir back from a copy, or empty it: the cluster is taken over from its "      \
    "servers"

#define COORD_NO_PLACE UINT8_MAX
#define COORD_STRANGERS 256u /* servers that were refused, in the list at a time */

struct coord_cluster {
    uint64_t id[2];     /* 0, 0: not known yet */
    uint64_t map_epoch; /* 0: no map yet */
    uint32_t tablets;   /* the map's */
    /* Numbers of tables below this one may have a place in the map; 0: no place is known. */
    uint32_t tables;
    /* By number: log2 of the table's tablets, or COORD_NO_PLACE, and the first of them in the map.
     */
    uint8_t bits[LIMIT_TABLES];
    uint32_t first[LIMIT_TABLES];
    struct table_set held;      /* the table numbers that a space has, or has given up */
    uint16_t *shard_of;         /* owned, (tablets) */
    uint64_t newest_epoch;      /* the newest that a shard has reported */
    uint32_t newest_shard;      /* the shard that has it */
    uint64_t asked_ns;          /* when that shard was last asked for it; 0: never */
    struct coord_claims claims; /* while the cluster is not known */
    struct coord_stranger {     /* a server that was refused */
        char server[LIMIT_NAME], text[ERR_TEXT_MAX];
        uint32_t index;
        bool waits;   /* there was no place for it */
        bool drained; /* an operator wanted it: a state, no problem */
        char zone[LIMIT_NAME];
        uint64_t beat_ns;
    } * stranger; /* owned, (strangers) */
    uint32_t strangers, stranger_capacity;
    uint64_t unlisted_ns; /* when one was last refused that has no place in the list; 0: never */
    /* 1: taken over from the shards, as the coordinator had lost its state; stored */
    uint32_t taken_over;
    char way_back[LIMIT_PATH + 256]; /* set if so: the advice (lost.h) */
};

/* Reads the stored identity and map. CORRUPT, IO. */
int coord_cluster_open(struct coord_fleet *f, struct err *e);
void coord_cluster_close(struct coord_cluster *cl);
static inline bool coord_cluster_known(const struct coord_cluster *cl)
{
    return (cl->id[0] | cl->id[1]) != 0;
}

/* Stores the identity of a cluster that has just become known, its numbers, and its copies by the
 * claims. False: the store failed, or out of memory. */
bool coord_cluster_found(struct coord_fleet *f, const uint64_t id[2], bool taken_over);

/* True when the endpoint is SCHEME:// and only printable bytes after it. Workers are told it. */
bool coord_cluster_endpoint_fits(const char *endpoint);
/* Checks a beat before anything in it is used. 0: the shard belongs here; AGAIN: the cluster is not
 * known yet (claims.h); else why the shard is refused. */
int coord_cluster_claim(struct coord_fleet *f, const struct wire_SHARD_BEAT *beat, struct err *e);
/* Records for the status why a beat is refused; code 0: it is taken. */
void coord_cluster_note(struct coord_fleet *f, const struct wire_SHARD_BEAT *beat,
                        const struct err *refused);
/* A coordinator that was restored from an older copy learns newer runs, cuts and maps from a shard
 * that belongs here. True: there were newer runs or cuts; their numbers are not used again
 * (coord_older_run). */
bool coord_cluster_learn(struct coord_fleet *f, uint32_t shard, const struct wire_SHARD_BEAT *beat);

/* True when the process that had the shard's rows, in its memory alone, has gone. A shard without
 * tablets, since it joined or was drained, had none. */
bool coord_cluster_lost(const struct coord_fleet *f, uint32_t shard);
/* The same of the rows of these tables: a shard that leads no tablet of them had none. Tables whose
 * places are not known are lost with any shard. */
bool coord_cluster_lost_of(const struct coord_fleet *f, uint32_t shard,
                           const struct table_set *tables);
/* True when a shard whose number the newest REPLACE made vacant leads tablets of these tables, also
 * after another folder has taken the number. */
bool coord_cluster_replaced_of(const struct coord_fleet *f, const struct table_set *tables);
/* Checks that the rows of these tables in memory are all there, or none are; a shard without
 * tablets of them has none. EXISTS: some servers have lost their rows and others have not; the
 * error names one of each. NOINPUT: a job begins with these tables (`begins`), and all servers have
 * lost them. */
int coord_cluster_made_check(const struct coord_fleet *f, const struct table_set *tables,
                             bool begins, struct err *e);
/* {"id", "shards", "map_epoch", "tablets", "come": [{"name", "index"}], the shards that wait until
 * all have come, "strangers": [{"name", "index", "why", "drained", "silent_ms"}], "copies":
 * coord_copies_json} */
struct json *coord_cluster_json(const struct coord_fleet *f);
/* Returns why a server that beats now is refused; NULL: it is not. */
const char *coord_cluster_refused(const struct coord_fleet *f, const char *server, uint32_t index);
bool coord_cluster_stranger_heard(const struct coord_fleet *f, const struct coord_stranger *s);

#endif
