/* worker_script.h: a worker's client in the simulator, with a coordinator and two shards whose
 * replies a case writes itself. */
#ifndef TESTS_LIB_WORKER_SCRIPT_H
#define TESTS_LIB_WORKER_SCRIPT_H

#include "proto/job/job.h"
#include "tests/sim/sim.h"
#include "worker/train/client.h"
#include "worker/train/rows.h"

#define SCRIPT_RUN 77u
#define SCRIPT_SEEN 256u
#define SCRIPT_COORDINATOR 2u
#define SCRIPT_MS UINT64_C(1000000)

/* A request that came, other than HELLO and MAP_GET. */
struct script_seen {
    uint32_t node; /* shard 0 or 1, SCRIPT_COORDINATOR */
    uint64_t at_ns;
    struct wire w;
};

struct script {
    struct sim *sim;
    struct sim_node *node[3], *own;
    struct client *client;
    struct job job;
    struct model *model;
    struct table_schema schema[MODEL_TABLES_MAX];
    uint32_t tables;          /* 1, with 64 tablets; shard 0 has the first half */
    struct script_seen *seen; /* owned (SCRIPT_SEEN) */
    uint32_t count, maps;     /* requests that were seen; MAP_GETs that came */
    /* fills `out`, a reply with status 0; false: the request is lost. n: earlier requests of this
     * type to this node */
    bool (*answer)(const struct wire *in, uint32_t node, uint32_t n, struct wire *out);
};

extern struct script script;

/* Opens the client; afterwards it has the map. */
void script_open(bool (*answer)(const struct wire *in, uint32_t node, uint32_t n,
                                struct wire *out));
void script_close(void);
void script_run_ms(uint64_t ms);
/* Returns the n-th request of a type that came to any node; the case fails if there is none. */
const struct script_seen *script_seen(enum wire_type type, uint32_t n);
uint32_t script_count(enum wire_type type);

#endif
