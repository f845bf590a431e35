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
#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/job/job.h"
#include "proto/job/schema.h"
#include "proto/wire/wire.h"
#include "server/coord/store.h"

#include <stdbool.h>
#include <stdint.h>

/* Who has computed for the job, and by what: each worker that joined, with its
 * backend, its device and why that was taken, for the report. A worker that goes on by another
 * backend stands there twice. Kept in memory: of a coordinator that was started again it has those
 * that joined since. Pure. */

#define COORD_ROLL_MAX 256u

/* What a worker said of itself when it joined. */
struct coord_compute {
    char backend[32], kernel[WIRE_KERNEL], device[WIRE_DEVICE], why[WIRE_WHY];
};

struct coord_roll {
    struct coord_roll_entry {
        char name[LIMIT_NAME];
        struct coord_compute by;
        uint32_t joined; /* times */
        bool broken;     /* the worker left because of its device, and has not come again */
    } * entry;           /* owned (count) */
    uint32_t count, capacity;
};

void coord_compute_of(const struct wire_WORKER_JOIN *join, struct coord_compute *out);
/* backend, kernel, device, why. */
void coord_compute_set(struct json *to, const struct coord_compute *by);

void coord_roll_close(struct coord_roll *r);
/* A worker has joined. Past COORD_ROLL_MAX of them, or without memory, it is not noted. True: it
 * had left because of its device, and is back. */
bool coord_roll_note(struct coord_roll *r, const char *name, const struct coord_compute *by);
/* A worker leaves because of its device. True: for the first time since it came. */
bool coord_roll_broken(struct coord_roll *r, const char *name);
/* [{"name", "backend", "kernel", "device", "why", "joined"}] */
struct json *coord_roll_json(const struct coord_roll *r);

#define COORD_NOBODY UINT32_MAX

struct coord_shard {
    char server[LIMIT_NAME]; /* empty: number not given yet */
    uint32_t index;          /* on its server */
    char endpoint[256];
    uint64_t incarnation;
    uint64_t former;   /* the incarnation before, since this coordinator started; 0: none */
    bool rebooted;     /* with it: so was its machine */
    bool placed;       /* its folder knows where it belongs */
    uint64_t synced;   /* sequence that was on its disk when it was last heard */
    uint64_t noted;    /* of it, what is stored */
    uint64_t noted_ns; /* when */
    /* durability memory: the incarnation that the tables were last made in; 0: none */
    uint64_t made;
    bool seen;         /* since this coordinator started */
    bool ready;        /* recovered, takes work */
    uint64_t map_told; /* epoch of the map that this incarnation got before it was ready; 0: none */
    bool greeted;      /* was told what every shard is told (coord_setup_greet) */
    bool set_up;       /* has map, tables and run of the job (coord_flow) */
    bool busy;         /* a step of setting up is asked for */
    uint32_t step;     /* of setting up: how many are done */
    peer_t peer;       /* connection of its last beat */
    uint64_t beat_ns;
    char holder[LIMIT_NAME]; /* name of the key that it came with; empty: of none (keys.h) */
    char key[48];            /* that it has shown; empty: none */
    uint64_t keys_version;   /* of the list that it goes by */
    uint64_t keys_sent_ns;   /* when it was last told of another; 0: at once */
    uint64_t hang_ns;        /* when its server last said that its disk hangs; 0: it answers */
    uint32_t hang_s;         /* for how long by then */
    uint64_t short_ns;       /* since then it refuses pushes for lack of disk; 0: it takes them */
    struct wire_SHARD_BEAT figures;
};

struct coord_worker {
    uint64_t number;
    uint64_t pass; /* shown with all that it asks; told to nobody else; not 0 */
    char name[LIMIT_NAME];
    uint32_t pid;
    peer_t peer;
    char key[48];    /* that it joined with; empty: none */
    char holder[48]; /* whose place it takes: of that key, else of the user or address */
    struct coord_compute by;
    uint32_t lanes_max;
    uint64_t beat_ns;
    uint64_t reported_id;      /* newest request that was neither a beat nor a question */
    uint64_t asked_id;         /* newest question for a lane: older ones are late copies */
    uint32_t asked_lane;       /* what was granted for it; meaningless without a generation */
    uint64_t asked_generation; /* 0: nothing was */
    double rate;               /* examples a second */
    bool rated;                /* it is known, though it may be 0 */
    /* the last beat with more examples, before the first its first lane, 0: none yet; how many; how
     * long after the one before */
    uint64_t rate_ns, rate_examples, rate_span_ns;
    uint64_t refused; /* batches that it told of, of which a push was refused for its values */
    uint32_t failed_before; /* rounds of workers that had failed when it joined (work.c) */
    /* stall.h: when it was last seen to get on, or got work; until when it gets none, 0: it may
     * have some; times in a row that its work was taken away */
    uint64_t moved_ns, barred_ns;
    uint32_t stalls;
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
/* Shard numbers that are given, those past `shards` too, which an earlier start gave. */
int coord_member_given(const struct coord_members *m, struct coord_store *store, uint32_t *given,
                       struct err *e);

/* Takes a beat of a shard that belongs here (cluster.h): finds or gives the number (synced first);
 * a folder that has a number keeps it. BUSY when all numbers are given to other servers. */
int coord_member_shard_beat(struct coord_members *m, struct coord_store *store,
                            const struct wire_SHARD_BEAT *beat, peer_t peer, uint64_t now_ns,
                            uint32_t *shard, enum coord_beat *what, struct err *e);
/* The number given to the beat's (server, index), or COORD_NOBODY. */
uint32_t coord_member_number(const struct coord_members *m, const struct wire_SHARD_BEAT *beat);
/* Every shard is ready for the job at hand (setup.h). */
bool coord_member_all_set_up(const struct coord_members *m);
/* Whether the shard's folder says that it belongs to a cluster. */
bool coord_member_belongs(const struct wire_SHARD_BEAT *beat);
/* Stores how far the shard was on disk, at most once a second; not synced by itself. */
int coord_member_note_synced(struct coord_members *m, uint32_t shard, struct coord_store *store,
                             uint64_t now_ns, struct err *e);
/* The same at once: a job ends with what is on disk up to `synced`. */
int coord_member_note_digested(struct coord_members *m, uint32_t shard, struct coord_store *store,
                               uint64_t synced, struct err *e);
/* Set up, and heard within its lease. */
bool coord_shard_there(const struct coord_shard *s, uint64_t now_ns, uint64_t lease_ns);
/* The coordinator itself stood still for so long: nobody's silence of that time counts. */
void coord_member_forgive(struct coord_members *m, uint64_t gap_ns, uint64_t now_ns);
/* An instant moved on by the gap, but not past now: some have been heard since. */
uint64_t coord_later(uint64_t then_ns, uint64_t gap_ns, uint64_t now_ns);
/* Its rows are in memory alone; of one that was not heard yet: as it was last. */
bool coord_shard_in_memory(const struct coord_shard *s);
/* The most memory that the shard's process had, told beside a beat. */
void coord_member_note_rss(struct coord_members *m, uint32_t shard, uint64_t peak_bytes);
/* What an acknowledged push survives on every shard heard of: the least that one of them says. */
enum durability coord_member_durability(const struct coord_members *m);
/* CONFIG: the job names a durability, and a shard has another. */
int coord_member_durability_check(const struct coord_members *m, const struct job *job,
                                  struct err *e);
/* A shard whose rows are in memory alone has its tables now: noted by its incarnation. */
int coord_member_note_made(struct coord_members *m, uint32_t shard, struct coord_store *store,
                           struct err *e);
/* Whether rows in memory are all there, or none: 0, or UNAVAILABLE, which names a server that has
 * lost its part and one that has not. Of a job that begins with them: NOINPUT where all have. */
int coord_member_made_check(const struct coord_members *m, bool begins, struct err *e);
/* Shard that beats over this connection, or COORD_NOBODY. */
uint32_t coord_member_shard_of(const struct coord_members *m, peer_t peer);
bool coord_member_shards_ready(const struct coord_members *m);

struct coord_caller { /* who joins: its connection, when, and the pass that it is to have */
    peer_t peer;
    uint64_t now_ns, pass;
    const char *key, *address; /* borrowed; NULL: none */
};

/* A number for a worker, synced before it is known to anyone; the same worker again for a join
 * repeated over one connection. BUSY when there are LIMIT_WORKERS, or more than their share of one
 * key or connection: others find a place. */
int coord_member_join(struct coord_members *m, struct coord_store *store,
                      const struct wire_WORKER_JOIN *join, const struct coord_caller *caller,
                      struct coord_worker **out, struct err *e);
/* NULL: dead or never was */
struct coord_worker *coord_member_worker(struct coord_members *m, uint64_t number);
/* Shown by whoever has the key that the worker joined with. */
struct coord_worker *coord_member_of_pass(struct coord_members *m, uint64_t pass, const char *key);
/* its figures stay in `gone` */
void coord_member_worker_gone(struct coord_members *m, uint64_t number);
/* All of them: what they compute is of another job, or of another state; they join again. */
void coord_member_workers_forget(struct coord_members *m);
/* Number of a worker not heard for lease_ns, or 0. The caller takes its work back and calls
 * coord_member_worker_gone.
 */
uint64_t coord_member_expired(const struct coord_members *m, uint64_t now_ns, uint64_t lease_ns);
/* Sums of all workers, gone ones too. */
void coord_member_sums(const struct coord_members *m, struct wire_WORKER_BEAT *out);
/* Another job: nobody's figures count any more. */
void coord_member_forget_figures(struct coord_members *m);

/* Which shard leads which tablet. Pure: a function of tables and shard count.
 *
 * Every table is dealt over the shards by itself, in contiguous ranges of tablets that differ by
 * one at most, so that a batch sorted by tablet goes out as one range a shard. Global tablet
 * numbers run through all tables: schema.tablet_first + tablet. */

/* Tables as declared, by number, complete and without gap: numbers 0..count-1, names unique,
 * tablets one after another from 0. SCHEMA. */
int coord_map_check(const struct table_schema *table, uint32_t count, struct err *e);
/* Tablets of all tables. */
uint32_t coord_map_tablets(const struct table_schema *table, uint32_t count);
/* shard_of: (coord_map_tablets). CONFIG when a sparse table would have fewer than
 * LIMIT_SHARD_TABLETS_MIN tablets a shard; dense tables are small and may leave a shard without
 * one. */
int coord_map_make(const struct table_schema *table, uint32_t count, uint32_t shards,
                   uint16_t *shard_of, struct err *e);

#endif
