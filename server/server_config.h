/* server_config.h: server.yaml as a plain value. Everything is checked: an unknown key, a wrong
 * type or a value out of range is refused with file, line and the nearest known key
 * (SHOAL_E_CONFIG).
 *
 *     name: s1                      # by default drawn once and kept in data_dir/name
 *     listen: ipc:///run/shoal/server/socket  # shard i listens at PATH-i; for tcp://HOST:PORT at
 *                                   port + i (port 0: any)
 *     advertise: host               # what peers are told instead of the host in `listen`
 *     data_dir: /var/lib/shoal
 *     shards: 2                     # one thread each
 *     memory: 8GiB                  # of rows, all shards together; 0: 70 % of what is allowed
 *     disk: 0                       # bytes that data_dir may take, all shards together; 0: no
 *                                   bound
 *     disk_free: 0                  # bytes of the file system that stay free; 0: min(5 %, 8 GiB)
 *     journal: {max: 0, keep: 0, segment: 64MiB}
 *     coordinator: ipc:///run/shoal/coordinator/socket  # or a list (coordinators.h)
 *     durability: journal           # memory | journal | fsync
 *     keys: FILE                    # this server's key; over tcp peers must show theirs
 *     allow: FILE                   # the allow-list, for a server without a coordinator
 *     net: {drop: 0, io_threads: 1, copy_rate: 0}  # bytes a second; 0: no bound
 *     checkpoint_root: ""           # checkpoints are written and loaded below it alone
 *     checkpoint_signers: ""        # loads only checkpoints that a key of this file signed
 *     insecure_plaintext: false     # listen on tcp without keys
 *     metrics: 127.0.0.1:9464       # http.h; empty: none
 *     metrics_token: FILE */
#ifndef SERVER_SERVER_CONFIG_H
#define SERVER_SERVER_CONFIG_H

#include "proto/base/limits.h"
#include "proto/job/config.h"
#include "proto/job/job.h"
#include "proto/wire/coordinators.h"
#include "server/coord/fleet/options.h"

#include <stdint.h>

struct server_config {
    char name[LIMIT_NAME]; /* empty: the name in data_dir */
    char listen[256];
    char zone[LIMIT_NAME]; /* copies of a shard lie in different ones; empty: none */
    char advertise[256];   /* empty: the host that the socket is bound to */
    char data_dir[LIMIT_PATH];
    char coordinator[COORDINATORS_LIST];      /* empty: none */
    char keys[LIMIT_PATH], allow[LIMIT_PATH]; /* may be empty */
    uint32_t shards;
    uint64_t memory, disk, disk_free;
    struct {
        uint64_t max, segment, keep;
    } journal;
    enum durability durability;
    struct {
        double drop;
        uint32_t io_threads;
        uint64_t copy_rate;
    } net;
    char checkpoint_root[LIMIT_PATH - 256];
    char checkpoint_signers[LIMIT_PATH];
    char metrics[256], metrics_token[LIMIT_PATH]; /* may be empty */
    bool insecure_plaintext;
};

/* path NULL: takes the defaults and `set` ("dotted.key=value") alone. */
int server_config_load(const char *path, const struct string_list *set, struct server_config *out,
                       struct err *e);
int server_config_parse(const char *text, size_t bytes, const char *name,
                        const struct string_list *set, struct server_config *out, struct err *e);
/* The endpoint of shard i. SHOAL_E_CONFIG when the port would pass 65535. */
int server_config_endpoint(const struct server_config *c, uint32_t shard, char out[256],
                           struct err *e);
/* The division of a server's `memory` and `disk`. Each shard gets an equal part of both. A shard's
 * part of the memory is divided into:
 *
 *     requests that wait   1/16, at most 1 GiB; but room for four frames of LIMIT_FRAME_BYTES
 *     replies in flight    1/16, at most 256 MiB; but room for two frames
 *     the engine           the rest: rows, their index, images in flight, caches of the store
 *                          (engine_options.memory)
 *
 * Memory that the first two do not use serves the allocator. Below 1 GiB for a shard, the room for
 * frames is more than 1/16: only messages of 16 MiB need it. */

struct budget { /* the bytes of one shard */
    uint64_t engine, waiting, replies;
    uint64_t kept; /* for all shards together: bytes of freed frames that are kept for reuse */
    uint64_t disk; /* 0: no bound */
};

/* memory: above 0. disk 0: no bound. */
void server_config_divide(uint64_t memory, uint64_t disk, uint32_t shards, struct budget *out);

/* coordinator.yaml as a plain value. Everything is checked: an unknown key, a wrong
 * type or a value out of range is refused with file, line and the nearest known key
 * (SHOAL_E_CONFIG).
 *
 *     listen: ipc:///run/shoal/coordinator/socket
 *     advertise: host           # what peers are told instead of the host in `listen`
 *     store: zookeeper://h1:2181,h2:2181/shoal  # of several coordinators; empty: data_dir/store
 *     data_dir: /var/lib/shoal/coordinator
 *     shards: 1                 # of all servers together: a job waits until so many are ready
 *     replicas: 1               # copies of each shard
 *     min_in_sync: 1            # pushes wait while fewer copies are in sync
 *     shard_lease: 6s           # a leader with followers stops when it is not answered
 *     replace_after: 0          # a server silent for so long is replaced; 0: by order alone
 *     jobs: 4                   # at the same time, each in another space; others wait
 *     lease: 10s                # a worker silent for so long is dead
 *     resend: 500ms             # requests to shards are sent again after this
 *     report: DIR/report.json   # written when a job is done; empty: only kept for `shoal`
 *     tensorboard: DIR          # event files of the jobs that run; empty: none
 *     checkpoint_root: ""       # all checkpoints that jobs write or load lie below it
 *     checkpoint_signers: ""    # jobs begin only with checkpoints that its keys signed
 *     publish: false            # true: jobs may run a command here (checkpoint.publish)
 *     memory: {ads: 2}          # weights of spaces in the memory of the servers; others: 1
 *     net: {drop: 0}
 *     keys: FILE                # over tcp
 *     allow: FILE               # the keys that may connect
 *     insecure_plaintext: false # listen on tcp without keys
 *     metrics: 127.0.0.1:9465   # http.h; empty: none
 *     metrics_token: FILE */

struct coord_config {
    char listen[256], advertise[256];
    char store[1024];                        /* as written; empty: data_dir/store */
    char store_hosts[1024], store_path[129]; /* its parts */
    char data_dir[LIMIT_PATH];
    char report[LIMIT_PATH], tensorboard[LIMIT_PATH]; /* may be empty */
    char keys[LIMIT_PATH], allow[LIMIT_PATH];         /* may be empty */
    uint32_t shards, jobs, lease_ms, resend_ms;
    uint32_t replicas, min_in_sync, shard_lease_ms, replace_after_ms;
    double drop;
    char checkpoint_root[LIMIT_PATH - 256];
    char checkpoint_signers[LIMIT_PATH];
    char metrics[256], metrics_token[LIMIT_PATH]; /* may be empty */
    bool insecure_plaintext;
    bool publish;
    struct coord_weights memory;
};

/* The weights of a file of coordinator.yaml's keys, which may change while it runs. CONFIG. */
int server_config_memory(const struct config *c, const char *name, struct coord_weights *out,
                         struct err *e);
/* path NULL: takes the defaults and `set` ("dotted.key=value") alone. */
int server_config_coordinator(const char *path, const struct string_list *set,
                              struct coord_config *out, struct err *e);
int server_config_parse_coordinator(const char *text, size_t bytes, const char *name,
                                    const struct string_list *set, struct coord_config *out,
                                    struct err *e);

#endif
