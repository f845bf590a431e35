/* fleet_fake.c: fleet_fake.h. */
#include "tests/lib/fleet_fake.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

void fleet_fake_start(struct fleet_fake *f)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    const struct coord_options o = {.shards = 2, .lease_ms = FLEET_FAKE_LEASE_MS, .resend_ms = 200};
    struct err e = {0};
    *f = (struct fleet_fake){.sim = sim_new(&calm), .store = coord_store_memory()};
    f->node = sim_node_new(f->sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&o, sim_node_env(f->node), f->store, &f->coord, &e) == 0, "%s", e.text);
    sim_node_set_handler(f->node, &coord_handler, f->coord);
    sim_listen(f->node, "sim://coordinator");
    for (uint32_t s = 0; s < 2; s++) {
        char name[24];
        (void)snprintf(name, sizeof name, "server-%u", s);
        f->shard[s] = calloc(1, sizeof *f->shard[s]);
        fake_shard_start(f->shard[s], f->sim, name, 0, 1);
    }
}

void fleet_fake_end(struct fleet_fake *f)
{
    coord_free(f->coord);
    sim_free(f->sim);
    coord_store_close(f->store);
    for (uint32_t s = 0; s < 2; s++) {
        free(f->shard[s]->shard_of);
        free(f->shard[s]);
    }
}
