/* walk.c: the program of walk.py: it asks a coordinator, in the simulator, with the message of the
 * README's example. Its caller, walk_call.h, is written by walk.py. */
#include "proto/wire/wire.h"
#include "server/coord/coord.h"
#include "tests/sim/sim.h"

#include <stdio.h>

static uint32_t answers, workers;

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct wire w;
    struct err e = {0};
    (void)core;
    (void)from;
    if (wire_decode(m, &w, &e) == 0 && w.reply && w.type == WIRE_TYPE_WORKERS && w.status == 0) {
        answers++;
        workers = w.u.WORKERS_reply.workers;
    } else {
        fprintf(stderr, "%s: %s\n", wire_type_name(w.type), e.text[0] != 0 ? e.text : w.error);
    }
    msg_free(m);
}

static void on_drained(void *core)
{
    (void)core;
}

static void call(struct env *env, peer_t coordinator)
{
#include "tests/wire/walk_call.h"
}

int main(void)
{
    static const struct env_handler handler = {on_message, on_drained, NULL};
    const struct sim_options options = {
        .seed = 1, .delay_min_ns = 1, .delay_max_ns = 2, .work_min_ns = 1, .work_max_ns = 2};
    const struct coord_options coordinator = {.shards = 1, .version = "walk"};
    struct sim *sim = sim_new(&options);
    struct sim_node *node = sim_node_new(sim, "coordinator", &coord_handler, NULL);
    struct sim_node *client = sim_node_new(sim, "client", &handler, NULL);
    struct coord_store *store = coord_store_memory();
    struct coord *c = NULL;
    struct err e = {0};
    peer_t peer = 0;
    if (coord_new(&coordinator, sim_node_env(node), store, &c, &e) != 0)
        return 2;
    sim_node_set_handler(node, &coord_handler, c);
    sim_listen(node, "sim://coordinator");
    if (env_connect(sim_node_env(client), "sim://coordinator", ENV_COORDINATOR, &peer) != 0)
        return 3;
    call(sim_node_env(client), peer);
    (void)sim_run(sim, UINT64_C(100000000), NULL, NULL);
    printf("%u answers: %u workers\n", answers, workers);
    coord_free(c);
    coord_store_close(store);
    sim_free(sim);
    return answers == 1 && workers == 0 ? 0 : 1;
}
