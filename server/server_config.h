/* server_config.h: server.yaml as a plain value. Everything is checked: an unknown key, a wrong
 * type or a value out of range is refused with file, line and the nearest known key
 * (SHOAL_E_CONFIG).
 *
 *     name: s1                      # by default drawn once and kept in data_dir/name
 *     listen: tcp://127.0.0.1:7070  # shard i listens on port + i (port 0: any), or PATH-i for
 *                                   ipc://PATH
 *     advertise: host               # what peers are told instead of the host in `listen`
 *     data_dir: /var/lib/shoal
 *     shards: 2                     # one thread each
 *     memory: 8GiB                  # of rows, all shards together; 0: four fifths of the machine's
 *     disk: 0                       # bytes that data_dir may take, all shards together; 0: no
 *                                   bound
 *     disk_free: 0                  # bytes of the file system that stay free; 0: max(5 %, 2 GiB)
 *     journal: {max: 0, keep: 0, sync_ms: 0, segment: 64MiB}
 *     coordinator: tcp://127.0.0.1:7000
 *     durability: journal           # memory | journal | fsync
 *     keys: ""
 *     net: {drop: 0, io_threads: 1}
 *     insecure_plaintext: false     # allow addresses that are not loopback, without keys */
#ifndef SERVER_SERVER_CONFIG_H
#define SERVER_SERVER_CONFIG_H

#include "proto/job/config.h"
#include "proto/job/job.h"

struct server_config {
    char name[LIMIT_NAME]; /* empty: from data_dir */
    char listen[256];
    char advertise[256]; /* empty: as bound */
    char data_dir[LIMIT_PATH];
    char coordinator[256]; /* empty: none */
    uint32_t shards;
    uint64_t memory, disk, disk_free;
    struct {
        uint64_t max, segment, keep;
    } journal;
    enum durability durability;
    struct {
        double drop;
        uint32_t io_threads;
    } net;
    bool insecure_plaintext;
};

/* path NULL: defaults and `set` ("dotted.key=value") alone. */
int server_config_load(const char *path, const struct string_list *set, struct server_config *out,
                       struct err *e);
int server_config_parse(const char *text, size_t bytes, const char *name,
                        const struct string_list *set, struct server_config *out, struct err *e);
/* The endpoint of shard i. SHOAL_E_CONFIG when the port would pass 65535. */
int server_config_endpoint(const struct server_config *c, uint32_t shard, char out[256],
                           struct err *e);
/* What peers are told: `bound` with the host replaced by `advertise`. */
void server_config_advertised(const struct server_config *c, const char *bound, char out[256]);

#endif
