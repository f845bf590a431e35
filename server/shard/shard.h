/* shard.h: the core of a shard: one thread, one engine, one set of peers.
 *
 * The order of the loop is the durability rule:
 *     on_message:  decode; a push waits where it must (hold: cut.h; its clock: bsp.h; rows, room:
 *                  park.h), then it is admitted (the record queues, marks move); a pull is noted;
 *                  before a message that shard.c marks SETTLE the pushes so far are settled:
 *                  committed, applied, replied to
 *     on_drained, after 8,192 keys, and when parked requests may go on:
 *                  commit the journal once -> apply -> reply to pushes (fsync: once synced) ->
 *                  answer pulls now due -> write images
 *
 * So no reply leaves before its record is committed, a pull that came with a push sees that push,
 * and journal order is apply order. The durability of an acknowledged push: with `journal` its
 * record is committed, which outlives kill -9 (a sync begins within SHARD_SYNC_NS, against loss of
 * power); with `fsync` it is synced, for the reply waits until then (engine_acknowledged,
 * on_synced); with `memory` there is none. An assignment is synced with `journal`, too (assign.h).
 *
 * The core reads no clock, socket, thread or file: it knows struct env and struct engine alone, so
 * a whole cluster runs in the simulator. Everything here runs on the env's thread. Every handler
 * may be called twice for one request: resends are normal. */
#ifndef SERVER_SHARD_SHARD_H
#define SERVER_SHARD_SHARD_H

#include "embedding/engine.h"
#include "proto/base/env.h"
#include "proto/meter/meter.h"
#include "proto/wire/allow.h"
#include "proto/wire/wire.h"
#include "server/shard/ages.h"
#include "server/shard/beat.h"
#include "server/shard/bsp.h"
#include "server/shard/clock.h"
#include "server/shard/copies.h"
#include "server/shard/cut.h"
#include "server/shard/follow.h"
#include "server/shard/gauges.h"
#include "server/shard/heat.h"
#include "server/shard/lead.h"
#include "server/shard/move.h"
#include "server/shard/naming.h"
#include "server/shard/park.h"
#include "server/shard/request.h"
#include "server/shard/rows_go.h"
#include "server/shard/span.h"
#include "server/shard/survey.h"

struct shard_options {
    const char *server;   /* the server's name; all text here is borrowed until shard_close */
    const char *zone;     /* zone of the server's file; NULL: none */
    uint32_t shard_index; /* from 0; this server has shard_count of them */
    uint32_t shard_count;
    /* endpoints (coordinators.h); NULL: none, the map comes from a peer */
    const char *coordinator;
    struct engine_options engine; /* dir, durability, sizes; callbacks are the shard's own */
    uint64_t waiting_max;         /* bytes of waiting requests; 0: 1 GiB */
    uint64_t copy_rate; /* bytes a second of a copy that begins anew; 0: no bound (follow.h, 4) */
    void (*process)(void *context, uint64_t *rss, uint64_t *rss_peak); /* NULL: beats say 0 */
    /* called as long work in the loop advances: engine_options.on_pulse; may be NULL */
    void (*pulse)(void *context, uint64_t done, uint64_t of);
    /* Takes another allow-list of the coordinator: its text. NULL: peers need no keys. 0, or the
     * reason why the list is refused. */
    int (*allow)(void *context, const char *text, size_t bytes, struct err *e);
    uint64_t boot; /* machine_boot; 0: not known */
    bool insecure; /* it listens on tcp without keys: its beats say so */
    void (*on_fatal)(void *context,
                     /* the disk is broken: log and exit; NULL: the env is stopped */
                     const struct err *e);
    void *context;
};

#define SHARD_SYNC_NS UINT64_C(100000000)

struct shard_counts {
    uint64_t pulls, keys_pulled, pushes, keys_pushed, skipped, refused, malformed, unsent;
    uint64_t cold_pulls, cold_pushes;  /* requests that waited for rows from the store */
    uint64_t waited_ns, waited_ns_max; /* time that pulls have waited */
    uint64_t staleness[64];            /* pulls by clocks of staleness; the last cell: all beyond */
    uint64_t bytes_pulled, bytes_pushed; /* bytes of weights and gradients */
    uint64_t assigned; /* pushes among `pushes` that brought a tablet whole (assign.h) */
    uint64_t keys_echoed, bytes_echoed;   /* rows that went back with pushes (echo.h) */
    struct meter_times times[HEAT_KINDS]; /* times of requests, from arrival to answer */
    struct meter_times commits;           /* writes of a group of pushes to the journal */
    uint64_t refused_as[METER_REASONS];   /* requests among `refused`, by -status */
};

/* A count for each message type of WIRE_MAP. */
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
    struct request_list group;    /* pushes admitted since the group was last settled, in order */
    uint64_t group_keys;          /* keys of the group's pushes */
    struct request_list unsynced; /* applied pushes whose reply waits for the sync, by sequence */
    struct request_list assigned; /* the same of assignments, under `journal`, too (assign.h) */
    uint64_t sequence;            /* that of the newest push admitted */
    uint64_t newest_cut;          /* the newest cut ever held or kept here; 0: none */
    /* the newest run at the start: pushes for the runs up to it wait until their fences are
     * sent again */
    uint64_t run_found;
    uint64_t run_told[LIMIT_RUNS]; /* runs whose fences were sent since the start; 0: none */
    struct request_list arrived;   /* pulls since the last tick */
    struct clock clock;            /* pulls that wait for a clock */
    struct park park;              /* pushes and pulls that wait for rows, pushes for room */
    struct bsp bsp;                /* pushes held for the other pushes of their clock */
    struct hold hold;
    struct moves moves;
    struct checkpoints checkpoints;
    struct survey digests, table_stats;
    struct audit audit;
    struct naming naming;
    struct rows_go rows_go;
    struct beat beat;
    struct copies copies;
    struct follow follow;
    struct heat heat;
    struct ages ages;
    struct spans spans;
    uint64_t keylist; /* version of the allow-list in use; 0: none yet */
    /* journal mode: starts the next sync, SHARD_SYNC_NS after a write or a sync */
    struct env_timer sync;
    struct shard_counts counts;
    struct gauges gauges;
    struct dispatch_counts dispatched;
    struct err fatal;    /* code 0 while the shard works */
    struct wire in, out; /* scratch: the present request, the present reply */
    struct msg *m;       /* owned: the present request with its frames; NULL once it is taken */
};

/* True while no push is admitted: a cut is held, or a tablet is being given to another shard. */
static inline bool shard_holds(const struct shard *s)
{
    return s->hold.cut != 0 || s->moves.give.epoch != 0;
}

extern const struct env_handler shard_handler; /* with the struct shard as core */

/* Opens the engine (recovers). env is borrowed and must outlive the shard. */
int shard_open(const struct shard_options *options, struct env *env, struct shard **out,
               struct err *e);
/* endpoint: where peers reach this shard. Connects to the coordinator and begins to beat. */
int shard_start(struct shard *s, const char *endpoint, struct err *e);
/* Called when the loop has ended; frees s. flush_all: writes every dirty tablet first (a clean
 * stop). */
int shard_close(struct shard *s, bool flush_all);

/* The figures of a server's one-line status. */
struct shard_figures {
    enum shard_place place;
    uint64_t rows, keys_pulled, keys_pushed;
    uint32_t tablets_away, tablets_awaited; /* engine_stats */
};
void shard_figures(const struct shard *s, struct shard_figures *out);

/* ---- for the shard's own modules: shard_answer.c, shard_take.c ---- */
/* Starts a reply in s->out, with type, id and status 0; the caller fills the union, then calls
 * shard_send_reply. */
struct wire *shard_reply(struct shard *s, enum wire_type type, uint64_t id);
void shard_send_reply(struct shard *s, peer_t to);
/* Sends m (NULL: out of memory) and counts a message that could not be sent: the peer asks
 * again. */
void shard_send(struct shard *s, peer_t to, struct msg *m);
/* Sends s->out, filled as for shard_send_reply, with the text of j as its one frame; takes j (NULL:
 * out of memory). */
struct json;
void shard_send_json(struct shard *s, peer_t to, struct json *j);
void shard_refuse(struct shard *s, peer_t to, enum wire_type type, uint64_t id, int status,
                  const char *format, ...) __attribute__((format(printf, 6, 7)));
void shard_count_refusal(struct shard *s, int status);
/* Returns true and refuses the request when the shard has no map yet (AGAIN) or no such table. */
bool shard_lacks_table(struct shard *s, peer_t to, enum wire_type type, uint64_t id,
                       uint32_t table);
/* True when the run was found at the start and its fences have not been sent since: they may be
 * older than those that were answered, for a loss of power may have taken the newest. */
bool shard_run_untold(const struct shard *s, uint64_t run);
/* Notes that the fences of a run that is open here are those that were answered. */
void shard_run_told(struct shard *s, uint64_t run);
/* Refuses (AGAIN): tablets are not back yet, after a start or in a restore. */
void shard_not_back(struct shard *s, peer_t to, enum wire_type type, uint64_t id);
/* Finds the schema of the table that a push or a pull of the run names. 0, AGAIN or NO_TABLE.
 * NOT_LEADER: the table is not one of the run's, so the sender's map is another job's; a newer one
 * helps. */
int shard_schema(struct shard *s, uint64_t run, uint32_t table, const struct table_schema **out,
                 struct err *e);
/* Makes a pooled request of s->in and takes s->m. NULL: the request was refused, with e when found
 * is not 0, else because the pool is full. */
struct request *shard_take(struct shard *s, peer_t from, int found, struct err *e);
/* Refuses a request and gives it back. */
void shard_refuse_request(struct shard *s, struct request *q, int status, const char *text);
/* The connection to a peer is closed: what it waits for has no receiver. */
void shard_peer_gone(struct shard *s, peer_t peer);
void shard_fatal(struct shard *s, const struct err *e);

/* The libraries of messages and store, "protobuf-c 1.4.1, RocksDB 7.8.3", and the version of the
 * wire protocol. */
const char *shard_libraries(unsigned *protocol);
/* The method that checks the store's files, as a text. */
const char *shard_checksums(void);

#endif
