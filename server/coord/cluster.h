/* cluster.h: whose shards these are, and who owns what: the cluster's identity and its map, both
 * stored before anybody is told.
 *
 * A cluster is founded once: when as many shards as the coordinator's file says have come, and none
 * belongs anywhere. A coordinator whose store is empty, but whose shards belong to one cluster, has
 * lost its store: once all of them have come and agree it takes the cluster over, its map too, from
 * them. Anything else is refused in words.
 *
 *     shard beats -> coord_cluster_claim -> [unknown: waits for all] -> founded, or taken over
 *                                        -> [known: fits, or is refused] -> member.c
 *     a shard knows a newer map -> MAP_HELD -> stored -> MAP_SET to all
 *
 * Invariants:
 *  1. An owner in the map never changes: tables that come are dealt over the shards, the others
 *     stay. A job that drops all first (fresh.h) may have others in their place.
 *     [test: coord_map_of_more_tables_keeps_the_owners] [assert: map_alone]
 *  2. No shard is told a cluster, or a map, that is not in the store.
 *     [test: coord_nobody_is_told_what_is_not_stored]
 *  3. A shard that held rows is taken with these rows or not at all.
 *     [test: coord_empty_folder_under_an_old_name_is_refused, coord_older_folder_is_refused] */
#ifndef SERVER_COORD_CLUSTER_H
#define SERVER_COORD_CLUSTER_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/job/schema.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_fleet;

#define COORD_STRANGERS 16u

struct coord_cluster {
    uint64_t id[2];             /* 0, 0: not known yet */
    uint64_t map_epoch;         /* 0: no map yet */
    uint32_t tablets, tables;   /* of the map */
    uint8_t bits[LIMIT_TABLES]; /* log2 of each table's tablets */
    uint64_t held;              /* a bit for each number of a table that some slot has */
    uint16_t *shard_of;         /* owned, (tablets) */
    uint64_t newest_epoch;      /* that a shard has told of */
    uint32_t newest_shard;      /* which has it */
    uint64_t asked_ns;          /* when it was asked for it last; 0: never */
    struct coord_claim {        /* of a shard, while the cluster is not known */
        struct wire_SHARD_BEAT beat;
        peer_t peer;
        uint64_t beat_ns;
    } * claim; /* owned, (claims) */
    uint32_t claims, claim_capacity;
    struct coord_stranger { /* who was refused last */
        char server[LIMIT_NAME], text[ERR_TEXT_MAX];
        uint32_t index;
        uint64_t beat_ns;
    } stranger[COORD_STRANGERS];
    uint32_t strangers;
    uint32_t taken_over; /* 1: from its shards, as the coordinator had lost its state; stored */
    char way_back[LIMIT_PATH + 256]; /* then: what to do (lost.h) */
};

/* Reads identity and map back. CORRUPT, IO. */
int coord_cluster_open(struct coord_fleet *f, struct err *e);
void coord_cluster_close(struct coord_cluster *cl);
bool coord_cluster_known(const struct coord_cluster *cl);
/* Known, and no shard has a newer map than it: a job may begin. */
bool coord_cluster_ready(const struct coord_cluster *cl);

/* A beat, before anybody believes it. 0: the shard belongs here; AGAIN: nobody knows yet, the
 * answer is "wait"; else why it is refused. */
int coord_cluster_claim(struct coord_fleet *f, const struct wire_SHARD_BEAT *beat, peer_t from,
                        struct err *e);
/* What became of a beat, for people: why it is refused, NULL: it is not. */
void coord_cluster_note(struct coord_fleet *f, const struct wire_SHARD_BEAT *beat,
                        const char *refused);
/* What a shard that belongs here knows more of than the coordinator, which was put back to an older
 * state: newer runs, cuts and maps. True: newer runs or cuts, which are never used again
 * (coord_older_run). */
bool coord_cluster_learn(struct coord_fleet *f, uint32_t shard, const struct wire_SHARD_BEAT *beat);
/* Asks for the newer map, if there is one. Cheap. */
void coord_cluster_step(struct coord_fleet *f);

/* The map with a job's tables in it, stored: those that are in it keep their owners, the others are
 * dealt. *numbers: a bit for each number by which the shards know one of the slot's tables, before
 * the call and behind it; they rise with the job's own (wire_table_number), and are no other
 * slot's. fresh: what servers hold goes first, so it need not fit. CONFIG, BUSY, NOMEM, IO. */
int coord_cluster_map(struct coord_fleet *f, const struct table_schema *table, uint32_t tables,
                      bool fresh, uint64_t *numbers, struct err *e);

/* Whether the coordinator's file says as many shards as the tables lie on: 0, or CONFIG. */
int coord_cluster_shards(const struct coord_fleet *f, struct err *e);
/* Tablets of the map that a shard leads. */
uint32_t coord_cluster_led(const struct coord_cluster *cl, uint32_t shard);
/* {"id", "shards", "map_epoch", "tablets", "come": [{"name", "index"}], those who wait until all
 * have come, "strangers": [{"name", "index", "why", "silent_ms"}]} */
struct json *coord_cluster_json(const struct coord_fleet *f);
/* Why a server that is heard now is refused; NULL: it is not. */
const char *coord_cluster_refused(const struct coord_fleet *f, const char *server, uint32_t index);
bool coord_cluster_stranger_heard(const struct coord_fleet *f, const struct coord_stranger *s);

#endif
