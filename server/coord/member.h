/* member.h: who is there: shards by number, workers by number, and when each was last heard.
 * Pure: time comes in as an argument.
 *
 * A shard number belongs to (server name, index on that server) for ever: a server that comes back
 * gets its numbers back. Worker numbers are never used again. A worker is dead when its lease has
 * run out; a shard is never declared dead, it is waited for. */
#ifndef SERVER_COORD_MEMBER_H
#define SERVER_COORD_MEMBER_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/wire/wire.h"
#include "server/coord/roll.h"
#include "server/coord/store.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_NOBODY UINT32_MAX

struct coord_shard {
    char server[LIMIT_NAME]; /* empty: number not given yet */
    uint32_t index;          /* on its server */
    char endpoint[256];
    uint64_t incarnation;
    bool seen;         /* since this coordinator started */
    bool ready;        /* recovered, takes work */
    uint64_t map_told; /* epoch of the map that this incarnation got before it was ready; 0: none */
    bool greeted;      /* was told what every shard is told (coord_setup_greet) */
    bool set_up;       /* has map, tables and run of the job (coord_flow) */
    bool busy;         /* a step of setting up is asked for */
    uint32_t step;     /* of setting up: how many are done */
    peer_t peer;       /* connection of its last beat */
    uint64_t beat_ns;
    struct wire_SHARD_BEAT figures;
};

struct coord_worker {
    uint64_t number;
    char name[LIMIT_NAME];
    uint32_t pid;
    peer_t peer;
    struct coord_compute by;
    uint32_t lanes_max;
    uint64_t beat_ns;
    uint64_t asked_id;         /* newest question for a lane: older ones are late copies */
    uint32_t asked_lane;       /* what was granted for it; meaningless without a generation */
    uint64_t asked_generation; /* 0: nothing was */
    uint64_t refused; /* batches that it told of, of which a push was refused for its values */
    struct wire_WORKER_BEAT figures;
};

struct coord_members {
    struct coord_shard *shard; /* (shards), owned */
    uint32_t shards;
    struct coord_worker *worker; /* (workers), sorted by number, owned */
    uint32_t workers, worker_capacity;
    uint64_t next_worker;
    struct wire_WORKER_BEAT gone; /* sums of the workers that are no longer there */
    uint64_t rss_peak_bytes;      /* highest sum over servers seen */
};

/* NEW: first beat since this coordinator started; READY: ready after not ready; RESTARTED: another
 * incarnation. After each of these the shard has to be set up again (coord_setup). */
enum coord_beat { COORD_BEAT_SAME, COORD_BEAT_NEW, COORD_BEAT_READY, COORD_BEAT_RESTARTED };

/* Reads back the shard numbers given and the next worker number. */
int coord_member_open(struct coord_members *m, uint32_t shards, struct coord_store *store,
                      struct err *e);
void coord_member_close(struct coord_members *m);

/* Takes a beat: finds or gives the number (synced first). BUSY when all numbers are given to other
 * servers. */
int coord_member_shard_beat(struct coord_members *m, struct coord_store *store,
                            const struct wire_SHARD_BEAT *beat, peer_t peer, uint64_t now_ns,
                            uint32_t *shard, enum coord_beat *what, struct err *e);
/* Shard that beats over this connection, or COORD_NOBODY. */
uint32_t coord_member_shard_of(const struct coord_members *m, peer_t peer);
bool coord_member_shards_ready(const struct coord_members *m);

/* A number for a worker, synced before it is known to anyone; the same number again for a join
 * repeated over one connection. *number 0 with BUSY when there are LIMIT_WORKERS. */
int coord_member_join(struct coord_members *m, struct coord_store *store,
                      const struct wire_WORKER_JOIN *join, peer_t peer, uint64_t now_ns,
                      uint64_t *number, struct err *e);
/* NULL: dead or never was */
struct coord_worker *coord_member_worker(struct coord_members *m, uint64_t number);
/* its figures stay in `gone` */
void coord_member_worker_gone(struct coord_members *m, uint64_t number);
/* Number of a worker not heard for lease_ns, or 0. The caller takes its work back and calls
 * coord_member_worker_gone.
 */
uint64_t coord_member_expired(const struct coord_members *m, uint64_t now_ns, uint64_t lease_ns);
/* Sums of all workers, gone ones too. */
void coord_member_sums(const struct coord_members *m, struct wire_WORKER_BEAT *out);
/* Another job: nobody's figures count any more. */
void coord_member_forget_figures(struct coord_members *m);

#endif
