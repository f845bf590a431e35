/* client_world.h: a worker's client in the simulator, with a peer that is the coordinator and all
 * shards, and whose answers a case writes itself; and a shard that moves to another place. */
#ifndef TESTS_LIB_CLIENT_WORLD_H
#define TESTS_LIB_CLIENT_WORLD_H

#include "tests/sim/sim.h"
#include "worker/train/client.h"

#define WORLD_MS UINT64_C(1000000)

struct world {
    struct sim *sim;
    struct sim_node *peer, *node;
    struct client *client;
    int status[16];  /* status of answer n; beyond: 0 */
    bool silent[16]; /* the n-th request is not answered */
    uint64_t id[64]; /* id of request n */
    uint64_t at_ms[64];
    uint32_t seen, maps_seen, hellos, gone;
    uint64_t map_epoch_said;          /* in the last question for the map */
    bool echoes;                      /* each request comes back as a question */
    uint32_t answers_each;            /* copies of each answer */
    bool lives;                       /* the peer sends signs of life */
    uint32_t map_shards, map_leaders; /* the first ones lead; 0: all */
    const char *map_lines;
    uint32_t map_changes;
    int name_status; /* of a look at a name's address */
};
extern struct world world;

/* A request of a case, to the coordinator unless the case says otherwise. */
struct world_question {
    struct request request;
    int status;
    uint32_t answers;
    enum request_verdict verdict; /* for refusals */
};
extern struct world_question question, other;

/* Around each test: a client that has no map yet. */
void world_setup(void);
void world_teardown(void);
void world_run_ms(uint64_t ms);

/* A place of shard 1. */
struct world_place {
    struct sim_node *node;
    const char *endpoint;
    bool answers, pongs;
    int status;
    uint32_t seen, pings;
    uint64_t id[64], at_ns[64];
};
extern struct world_place old_place, new_place;
void world_place_open(struct world_place *p, const char *endpoint);
/* Opens both places; the map names the old one, and `question` and `other` are for shard 1. */
void world_places_open(void);

#endif
