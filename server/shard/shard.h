/* shard.h: the core of a shard: one thread, one engine, one set of peers.
 *
 * The order of the loop is the durability rule:
 *     on_message:  decode; a push waits where it must (hold: cut.h; its clock: bsp.h; rows, room:
 *                  park.h), then it is admitted (the record queues, marks move); a pull is noted;
 *                  before a message that shard.c marks SETTLE the pushes so far are settled:
 *                  committed, applied, replied to
 *     on_drained, after 8,192 keys, and when what was parked may go on:
 *                  commit the journal once -> apply -> reply to pushes (fsync: once synced) ->
 *                  answer pulls now due -> write images
 *
 * So no reply leaves before its record is committed, a pull that came with a push sees that push,
 * and journal order is apply order. What a reply says is durable: `journal`: committed, which
 * outlives kill -9 (a sync begins within SHARD_SYNC_NS, for power); `fsync`: synced, for the reply
 * waits on (engine_acknowledged, on_synced); `memory`: nothing.
 *
 * The core reads no clock, socket, thread or file: it knows struct env and struct engine alone, so
 * a whole cluster runs in the simulator. Everything here runs on the env's thread. Every handler
 * may be called twice for one request: resends are normal. */
#ifndef SERVER_SHARD_SHARD_H
#define SERVER_SHARD_SHARD_H

#include "embedding/engine.h"
#include "proto/base/env.h"
#include "proto/wire/allow.h"
#include "proto/wire/wire.h"
#include "server/shard/beat.h"
#include "server/shard/bsp.h"
#include "server/shard/clock.h"
#include "server/shard/cut.h"
#include "server/shard/keys.h"
#include "server/shard/lead.h"
#include "server/shard/park.h"
#include "server/shard/request.h"
#include "server/shard/rows_go.h"
#include "server/shard/survey.h"

struct shard_options {
    const char *server;   /* the server's name; borrowed, as all text here, until shard_close */
    uint32_t shard_index; /* of shard_count in this server */
    uint32_t shard_count;
    const char *coordinator;      /* endpoint; NULL: none, whoever connects sends the map */
    struct engine_options engine; /* dir, durability, sizes; callbacks are the shard's own */
    uint64_t waiting_max;         /* bytes of requests waiting; 0: 1 GiB */
    void (*process)(void *context, uint64_t *rss, uint64_t *rss_peak); /* NULL: beats say 0 */
    /* long work in the loop moves: engine_options.on_pulse; NULL: nobody asks */
    void (*pulse)(void *context, uint64_t done, uint64_t of);
    /* Another list of who may come, the coordinator's: its text. NULL: nobody is asked for keys. 0,
     * or why it is not taken. */
    int (*allow)(void *context, const char *text, size_t bytes, struct err *e);
    uint64_t boot; /* machine_boot; 0: not known */
    bool insecure; /* it listens on tcp without keys: told in its beats */
    void (*on_fatal)(void *context,
                     /* the disk is broken: log and leave; NULL: the env is stopped */
                     const struct err *e);
    void *context;
};

#define SHARD_SYNC_NS UINT64_C(100000000)

struct shard_counts {
    uint64_t pulls, keys_pulled, pushes, keys_pushed, skipped, refused, malformed, unsent;
    uint64_t cold_pulls, cold_pushes;  /* that waited for rows from the store */
    uint64_t waited_ns, waited_ns_max; /* by pulls */
    uint64_t staleness[64];            /* pulls by clocks of staleness; the last cell: all beyond */
};

/* Names and counts come from the same list of types (WIRE_MAP). */
struct dispatch_counts {
#define X(name, number, request_frames, reply_frames) uint64_t name;
    WIRE_MAP(X)
#undef X
};

struct shard {
    struct env *env;       /* borrowed */
    struct engine *engine; /* owned */
    struct allow_recent ordered;
    struct shard_options options;
    char name[LIMIT_NAME];
    char endpoint[256];
    struct lead lead;
    struct request_pool pool;
    struct request_list group;    /* pushes admitted since the last settling, in order */
    uint64_t group_keys;          /* of the group */
    struct request_list unsynced; /* applied pushes whose reply waits for the sync, by sequence */
    uint64_t sequence;            /* of the newest push admitted */
    uint64_t newest_cut;          /* that was ever held or kept here; 0: none */
    uint64_t run_found; /* the newest run when it started: who may push for it is not known */
    uint64_t run_told[LIMIT_RUNS]; /* ... but for these, whose fences it was told since; 0: none */
    struct request_list arrived;   /* pulls since the last tick */
    struct clock clock;            /* pulls that wait for a clock */
    struct park park;              /* pushes and pulls that wait for rows, pushes for room */
    struct bsp bsp;                /* pushes held for the others of their clock */
    struct hold hold;
    struct checkpoints checkpoints;
    struct survey digests, table_stats;
    struct audit audit;
    struct naming naming;
    struct rows_go rows_go;
    struct beat beat;
    uint64_t keylist;      /* version of the allow-list that it goes by; 0: none yet */
    struct env_timer sync; /* journal mode: a sync begins so late at most, or after the last */
    struct shard_counts counts;
    struct dispatch_counts dispatched;
    struct err fatal;    /* code 0 while all is well */
    struct wire in, out; /* scratch: the request at hand, the reply at hand */
    struct msg *m;       /* owned: of the request at hand, with its frames; NULL once it is taken */
};

extern const struct env_handler shard_handler; /* with the struct shard as core */

/* Opens the engine (recovers). env is borrowed and must outlive the shard. */
int shard_open(const struct shard_options *options, struct env *env, struct shard **out,
               struct err *e);
/* endpoint: where peers reach this shard. Connects to the coordinator and begins to beat. */
int shard_start(struct shard *s, const char *endpoint, struct err *e);
/* The loop has ended. flush_all: write every dirty tablet first (a clean stop). Frees s. */
int shard_close(struct shard *s, bool flush_all);

/* What a server tells of itself in one line. */
struct shard_figures {
    enum shard_place place;
    uint64_t rows, keys_pulled, keys_pushed;
    uint32_t tablets_away, tablets_awaited; /* engine_stats */
};
void shard_figures(const struct shard *s, struct shard_figures *out);

/* ---- for the shard's own modules: shard_answer.c ---- */
/* A reply in s->out with type and id filled in and status 0; the caller fills the union, then
 * shard_send_reply. */
struct wire *shard_reply(struct shard *s, enum wire_type type, uint64_t id);
void shard_send_reply(struct shard *s, peer_t to);
/* Sends m (NULL: out of memory) and counts what could not be sent: the peer asks again. */
void shard_send(struct shard *s, peer_t to, struct msg *m);
/* Sends s->out, filled as for shard_send_reply, with the text of j as its one frame; takes j (NULL:
 * out of memory). */
struct json;
void shard_send_json(struct shard *s, peer_t to, struct json *j);
void shard_refuse(struct shard *s, peer_t to, enum wire_type type, uint64_t id, int status,
                  const char *format, ...) __attribute__((format(printf, 6, 7)));
/* Refuses, and says true, where the shard has no map yet (AGAIN) or no such table. */
bool shard_lacks_table(struct shard *s, peer_t to, enum wire_type type, uint64_t id,
                       uint32_t table);
/* Whether the fences of the run, found at the start, may be older than those that were answered:
 * power may have taken the newest. */
bool shard_run_untold(const struct shard *s, uint64_t run);
/* The fences of a run that is open here are those that were answered. */
void shard_run_told(struct shard *s, uint64_t run);
/* Refuses (AGAIN): its tablets are not back, from a start or a restore. */
void shard_not_back(struct shard *s, peer_t to, enum wire_type type, uint64_t id);
/* The schema of a table that a push or a pull of the run is for: 0, AGAIN or NO_TABLE. NOT_LEADER:
 * the run is another job's, and so is the sender's map; a newer one helps. */
int shard_schema(struct shard *s, uint64_t run, uint32_t table, const struct table_schema **out,
                 struct err *e);
/* The request in s->in; takes s->m. NULL: refused, with e where found is not 0, else the pool is
 * full. */
struct request *shard_take(struct shard *s, peer_t from, int found, struct err *e);
/* Refuses a request and gives it back. */
void shard_refuse_request(struct shard *s, struct request *q, int status, const char *text);
void shard_fatal(struct shard *s, const struct err *e);

/* Of what messages and store are made, "protobuf-c 1.4.1, RocksDB 7.8.3"; the messages' version. */
const char *shard_libraries(unsigned *protocol);
/* How the store's files are checked, in words. */
const char *shard_checksums(void);

#endif
