/* member.h: the shards of the fleet by number, and when each was last heard. Pure: time is an
 * argument.
 *
 * A shard number belongs to (server name, index on that server): a server that comes back gets its
 * numbers back. A shard is never declared dead; the coordinator waits for it. An operator alone
 * takes a number from a server whose disk is lost (replace.h): it is then vacant, and the next
 * server that comes with an empty folder gets it. A number whose server was drained is retired: no
 * server is awaited for it, until an order adds another one (add.h). */
#ifndef SERVER_COORD_FLEET_MEMBER_H
#define SERVER_COORD_FLEET_MEMBER_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/job/job.h"
#include "proto/job/schema.h"
#include "proto/wire/wire.h"
#include "server/coord/store/store.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_NOBODY UINT32_MAX

struct coord_shard {
    char server[LIMIT_NAME]; /* empty: number not given yet */
    uint32_t index;          /* on its server */
    char endpoint[256];
    uint64_t incarnation;
    uint64_t former;   /* the incarnation before, since this coordinator started; 0: none */
    bool rebooted;     /* valid with `former`: the machine started again, too */
    bool placed;       /* its folder records its cluster and number */
    uint64_t synced;   /* sequence that was on its disk when it was last heard */
    uint64_t noted;    /* the part of `synced` that is stored */
    uint64_t noted_ns; /* when it was stored */
    /* durability memory: the incarnation that the tables were last made in; 0: none. It stays when
     * the server comes with another durability, until the lost rows are marked (spaces.h) */
    uint64_t made;
    bool retired; /* its server was drained; all other values are 0; stored */
    /* no folder has the number: the next empty one of the server, or if `replaced` is not 0 of any
     * server, gets it; stored */
    bool vacant;
    uint64_t replaced; /* folders that know only runs below this one are of before; stored */
    bool seen;         /* heard since this coordinator started */
    bool ready;        /* recovered, and accepts work */
    uint64_t map_told; /* epoch of the map that this incarnation got before it was ready; 0: none */
    peer_t peer;       /* connection of its last beat */
    uint64_t beat_ns;
    char holder[LIMIT_NAME];     /* name of the key that it came with; empty: it came with none
                              * (allowed.h) */
    char key[48];                /* the public key that it has shown; empty: none */
    uint64_t keys_version;       /* version of the allow-list that it applies */
    uint64_t keys_sent_ns;       /* when another list was last sent to it; 0: send it at once */
    uint64_t shares_sent_ns;     /* when SHARES was last sent to it; 0: send it at once */
    uint64_t hang_ns;            /* when its server last said that its disk or this shard's loop
                              * hangs; 0: neither does */
    uint32_t hang_s, loop_s;     /* for how long each had hung by then; 0: it did not */
    uint64_t short_ns;           /* the time from which it refuses pushes for lack of disk; 0: it
                              * accepts them */
    double pull_rate, push_rate; /* keys a second between its last two beats */
    struct wire_SHARD_BEAT figures;
};

struct coord_members {
    struct coord_shard *shard; /* (LIMIT_SHARDS), owned */
    uint32_t shards;           /* numbers, those that are retired too; stored */
    uint32_t founded;        /* the shards that the cluster was founded with; 0: not yet; stored */
    uint64_t next_worker;    /* the next worker's number; stored before a worker learns it */
    uint64_t rss_peak_bytes; /* highest sum over the servers heard */
};

/* NEW: first beat since this coordinator started; READY: ready after not ready; RESTARTED: another
 * incarnation. After each of these the shard has to be set up again (coord_setup). */
enum coord_beat { COORD_BEAT_SAME, COORD_BEAT_NEW, COORD_BEAT_READY, COORD_BEAT_RESTARTED };

/* Reads back the shard numbers given and the next worker number. shards: how many numbers there
 * are when the store does not say it, since no cluster was founded. */
int coord_member_open(struct coord_members *m, uint32_t shards, struct coord_store *store,
                      struct err *e);
void coord_member_close(struct coord_members *m);

/* Visits the shard numbers that are not retired. */
#define COORD_EACH_SHARD(m, s)                                                                     \
    for (uint32_t s = coord_member_next(m, 0); s < (m)->shards; s = coord_member_next(m, s + 1))
/* Returns the first number from here on that is not retired; `shards`: there is none. */
uint32_t coord_member_next(const struct coord_members *m, uint32_t from);
/* True when it is a number, and not retired. */
bool coord_member_used(const struct coord_members *m, uint32_t shard);
/* Returns how many numbers below this one are not retired; for `shards`: the count of shards. */
uint32_t coord_member_rank(const struct coord_members *m, uint32_t shard);
uint32_t coord_member_count(const struct coord_members *m);
/* Checks `shards` of the coordinator's file: a cluster has the shards that its store knows. 0, or
 * CONFIG. */
int coord_member_file_check(const struct coord_members *m, uint32_t shards, struct err *e);
/* Stores which numbers there are, and which are retired. */
int coord_member_numbers_put(const struct coord_members *m, struct coord_store *store,
                             struct err *e);
/* The number is its server's alone (server, index of m->shard) from the first beat on, which must
 * be of an empty folder. Stored. */
int coord_member_reserve(struct coord_members *m, struct coord_store *store, uint32_t shard,
                         uint64_t now_ns, struct err *e);
/* The number is retired: forgets its values, in the store too. */
int coord_member_retire(struct coord_members *m, struct coord_store *store, uint32_t shard,
                        struct err *e);

/* Takes a beat of a shard that belongs here (cluster.h): finds its number or gives it one, synced
 * first. A folder that has a number keeps it. BUSY: all numbers are given to other servers. */
int coord_member_shard_beat(struct coord_members *m, struct coord_store *store,
                            const struct wire_SHARD_BEAT *beat, peer_t peer, uint64_t now_ns,
                            uint32_t *shard, enum coord_beat *what, struct err *e);
/* The shard's folder is lost, and its number is vacant; run: the next one that is drawn. */
int coord_member_vacate(struct coord_members *m, uint32_t shard, uint64_t run,
                        struct coord_store *store, struct err *e);
/* Returns the number given to the beat's (server, index), or COORD_NOBODY. */
uint32_t coord_member_number(const struct coord_members *m, const struct wire_SHARD_BEAT *beat);
/* True when the shard's folder says that it belongs to a cluster. */
bool coord_member_belongs(const struct wire_SHARD_BEAT *beat);
/* Stores how far the shard was on disk, at most once a second, without a sync of its own. */
int coord_member_note_synced(struct coord_members *m, uint32_t shard, struct coord_store *store,
                             uint64_t now_ns, struct err *e);
/* Stores it at once: a job ends with what is on disk up to `synced`. */
int coord_member_note_digested(struct coord_members *m, uint32_t shard, struct coord_store *store,
                               uint64_t synced, struct err *e);
/* True when the shard is set up for a job and was heard within its lease. */
bool coord_shard_there(const struct coord_shard *s, bool set_up, uint64_t now_ns,
                       uint64_t lease_ns);
/* The coordinator itself stood still for gap_ns: no shard's silence in that time counts. */
void coord_member_forgive(struct coord_members *m, uint64_t gap_ns, uint64_t now_ns);
/* Returns the instant moved on by the gap, but not past now, since a shard may have been heard
 * after the gap. */
uint64_t coord_later(uint64_t then_ns, uint64_t gap_ns, uint64_t now_ns);
/* True when the shard's rows are in memory alone; for a shard not heard yet, its last known state
 * counts. */
bool coord_shard_in_memory(const struct coord_shard *s);
/* True when the process that had the shard's rows, in its memory alone, has gone: none are left. */
bool coord_shard_lost(const struct coord_shard *s);
/* Notes the peak memory of the shard's process, which comes beside a beat. */
void coord_member_note_rss(struct coord_members *m, uint32_t shard, uint64_t peak_bytes);
/* Returns what an acknowledged push survives on every shard heard: the weakest durability of
 * them. */
enum durability coord_member_durability(const struct coord_members *m);
/* CONFIG: the job names a durability, and a shard has another. */
int coord_member_durability_check(const struct coord_members *m, const struct job *job,
                                  struct err *e);
/* Another copy leads the shard now (copies.h): takes its values, and stores what is stored of a
 * shard. whole: it has all acknowledged records. */
int coord_member_lead(struct coord_members *m, struct coord_store *store, uint32_t shard,
                      const struct coord_shard *copy, bool whole, struct err *e);
/* The shard has its tables now: notes its incarnation if it keeps rows in memory alone. Whatever
 * was lost with the one before is marked. */
int coord_member_note_made(struct coord_members *m, uint32_t shard, struct coord_store *store,
                           struct err *e);
/* The ways out for a server that is away and may be gone for good, as a clause of a sentence. */
const char *coord_member_ways(uint32_t replicas, const char *server, char out[ERR_TEXT_MAX]);
/* Returns the shard that beats over this connection, or COORD_NOBODY. */
uint32_t coord_member_shard_of(const struct coord_members *m, peer_t peer);
bool coord_member_shards_ready(const struct coord_members *m);

/* Gives a worker a number that was never given before, and stores it before returning. */
int coord_member_worker_number(struct coord_members *m, struct coord_store *store, uint64_t *number,
                               struct err *e);
/* Another job begins: the peak of memory is measured anew. */
void coord_member_forget_rss(struct coord_members *m);

#endif
