/* member.h: the shards of the fleet by number, and when each was last heard. Pure: time is an
 * argument.
 *
 * A shard number belongs to (server name, index on that server): a server that comes back gets its
 * numbers back. A shard is never declared dead; the coordinator waits for it. An operator alone
 * takes a number from a server whose disk is lost (replace.h): it is then vacant, and the next
 * server that comes with an empty folder gets it. */
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
    /* durability memory: the incarnation that the tables were last made in; 0: none */
    uint64_t made;
    bool vacant;       /* its server was replaced: the next empty folder gets the number; stored */
    uint64_t replaced; /* folders that know only runs below this one are of before; stored */
    bool seen;         /* heard since this coordinator started */
    bool ready;        /* recovered, and accepts work */
    uint64_t map_told; /* epoch of the map that this incarnation got before it was ready; 0: none */
    peer_t peer;       /* connection of its last beat */
    uint64_t beat_ns;
    char holder[LIMIT_NAME]; /* name of the key that it came with; empty: it came with none
                              * (allowed.h) */
    char key[48];            /* the public key that it has shown; empty: none */
    uint64_t keys_version;   /* version of the allow-list that it applies */
    uint64_t keys_sent_ns;   /* when another list was last sent to it; 0: send it at once */
    uint64_t hang_ns;        /* when its server last said that its disk hangs; 0: it answers */
    uint32_t hang_s;         /* for how long it had hung by then */
    uint64_t short_ns;       /* the time from which it refuses pushes for lack of disk; 0: it
                              * accepts them */
    struct wire_SHARD_BEAT figures;
};

struct coord_members {
    struct coord_shard *shard; /* (shards), owned */
    uint32_t shards;
    uint64_t next_worker;    /* the next worker's number; stored before a worker learns it */
    uint64_t rss_peak_bytes; /* highest sum over the servers heard */
};

/* NEW: first beat since this coordinator started; READY: ready after not ready; RESTARTED: another
 * incarnation. After each of these the shard has to be set up again (coord_setup). */
enum coord_beat { COORD_BEAT_SAME, COORD_BEAT_NEW, COORD_BEAT_READY, COORD_BEAT_RESTARTED };

/* Reads back the shard numbers given and the next worker number. */
int coord_member_open(struct coord_members *m, uint32_t shards, struct coord_store *store,
                      struct err *e);
void coord_member_close(struct coord_members *m);
/* Returns the count of shard numbers that are given, also those past `shards`, which an earlier
 * start gave. */
int coord_member_given(const struct coord_members *m, struct coord_store *store, uint32_t *given,
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
/* The shard keeps its rows in memory alone and has its tables now: notes its incarnation. */
int coord_member_note_made(struct coord_members *m, uint32_t shard, struct coord_store *store,
                           struct err *e);
/* Checks that the rows in memory are all there, or none are. UNAVAILABLE: some servers have lost
 * their rows and others have not; the error names one of each. NOINPUT: a job begins with these
 * tables (`begins`), and all servers have lost them. */
int coord_member_made_check(const struct coord_members *m, bool begins, struct err *e);
/* Returns the shard that beats over this connection, or COORD_NOBODY. */
uint32_t coord_member_shard_of(const struct coord_members *m, peer_t peer);
bool coord_member_shards_ready(const struct coord_members *m);

/* Gives a worker a number that was never given before, and stores it before returning. */
int coord_member_worker_number(struct coord_members *m, struct coord_store *store, uint64_t *number,
                               struct err *e);
/* Another job begins: the peak of memory is measured anew. */
void coord_member_forget_rss(struct coord_members *m);

#endif
