/* test_nomem.c: a checkpoint's cut is in progress, the cut of a best epoch waits behind it, and
 * there is no memory for the second one's question: the job ends, once, and each resource is
 * released once. */
#include "proto/base/log.h"
#include "server/coord/coord.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"
#include "tests/lib/server_fake.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static struct sim *sim;
static struct coord_store *store;
static struct coord *c;
static struct fake_shard *shard[2];
static struct fake_worker worker;
static struct fake_client client;
static char folder[64], yaml[1024];
static bool no_memory; /* for a HOLD */

bool __real_coord_call_start(struct coord_calls *calls, const struct coord_call *asked);
bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *asked);
bool __wrap_coord_call_start(struct coord_calls *calls, const struct coord_call *asked)
{
    return !(no_memory && asked->request.type == WIRE_TYPE_HOLD) &&
           __real_coord_call_start(calls, asked);
}

static void coordinator_start(void)
{
    struct coord_options o = {
        .shards = 2, .lease_ms = 10000, .resend_ms = 100, .folder = &coord_folder_disk};
    struct err e = {0};
    struct sim_node *node = sim_node_new(sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&o, sim_node_env(node), store, &c, &e) == 0, "%s", e.text);
    sim_node_set_handler(node, &coord_handler, c);
    sim_listen(node, "sim://coordinator");
}

/* One shard sleeps from the checkpoint's HOLD until the first epoch is evaluated. */
static void setup(void)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    (void)snprintf(folder, sizeof folder, "/tmp/shoal-nomem-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(yaml, sizeof yaml,
                   "job: t\ndata: {format: libsvm, train: [a], valid: [b]}\n"
                   "tables: [{name: emb, dim: 4}]\nmodel: {kind: probe}\n"
                   "train: {batch: 10, lanes: 2, epochs: 3, early_stop: {patience: 2}}\n"
                   "checkpoint: {dir: %s}\n",
                   folder);
    sim = sim_new(&calm);
    store = coord_store_memory();
    coordinator_start();
    for (uint32_t s = 0; s < 2; s++) {
        char name[24];
        (void)snprintf(name, sizeof name, "server-%u", s);
        shard[s] = calloc(1, sizeof *shard[s]);
        fake_shard_start(shard[s], sim, name, 0, 1);
    }
    worker = (struct fake_worker){.rows = {505, 300, 0},
                                  .batch = 10,
                                  .seats = 2,
                                  .step_ns = 5000000,
                                  .resend_ns = SECOND / 2,
                                  .digest = 42};
    for (uint32_t n = 0; n < FAKE_EPOCHS; n++)
        worker.quality[n] = 0.5 + 0.02 * n;
    fake_worker_start(&worker, sim, "worker", shard, 2);
    fake_client_start(&client, sim, yaml, 1);
    while (c->slot[0].at.phase != PHASE_EVAL)
        ck_assert(sim_step(sim));
    sim_pause(shard[1]->node, sim_now_ns(sim) + SECOND / 2);
    fake_client_checkpoint(&client, "one");
    while (c->slot[0].cut->state != CUT_HOLDING ||
           !c->slot[0].cut->waits) /* rows are written first */
        ck_assert(sim_step(sim));
    ck_assert(c->slot[0].cut->state == CUT_HOLDING &&
              c->slot[0].checkpoint->state == CHECKPOINT_CUTTING);
    no_memory = true;
}

static void teardown(void)
{
    char command[128];
    coord_free(c);
    sim_free(sim);
    coord_store_close(store);
    for (uint32_t s = 0; s < 2; s++) {
        free(shard[s]->shard_of);
        free(shard[s]);
    }
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static void failed_once(int status, const char *text)
{
    ck_assert_uint_eq(c->slot[0].at.phase, PHASE_FAILED);
    ck_assert_int_eq(c->slot[0].at.status, status);
    ck_assert_msg(strstr(c->slot[0].at.text, text) != NULL, "%s", c->slot[0].at.text);
    ck_assert(c->slot[0].cut->state == CUT_IDLE && !c->slot[0].cut->waits);
    ck_assert_int_eq(c->slot[0].checkpoint->state, CHECKPOINT_IDLE);
    ck_assert_uint_eq(c->slot[0].checkpoint->list->failed, 1);
    (void)sim_run(sim, sim_now_ns(sim) + SECOND, NULL, NULL);
    ck_assert_uint_eq(client.state, WIRE_JOB_FAILED);
    ck_assert_int_ne(client.checkpoint.status, 0);
}

/* The first cut is made. */
START_TEST(nomem_behind_a_cut_that_is_made_ends_the_job)
{
    while (c->slot[0].at.phase != PHASE_FAILED)
        ck_assert(sim_step(sim));
    failed_once(SHOAL_E_NOMEM, "no memory to ask for a cut");
}
END_TEST

/* The first order is withdrawn. */
START_TEST(nomem_behind_a_checkpoint_that_is_given_up_ends_the_job)
{
    coord_checkpoint_give_up(&c->slot[0], SHOAL_E_UNAVAILABLE, "a server is away");
    failed_once(SHOAL_E_NOMEM, "no memory to ask for a cut");
}
END_TEST

/* The job ends for another reason, which is the one that is reported. */
START_TEST(nomem_at_the_end_of_a_job_does_not_end_it_twice)
{
    coord_end_fail(&c->slot[0], SHOAL_E_STOPPED, "stopped");
    failed_once(SHOAL_E_STOPPED, "stopped");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_nomem");
    TCase *t = tcase_create("coord_nomem");
    log_set_level(LOG_LEVEL_ERROR);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, nomem_behind_a_cut_that_is_made_ends_the_job);
    tcase_add_test(t, nomem_behind_a_checkpoint_that_is_given_up_ends_the_job);
    tcase_add_test(t, nomem_at_the_end_of_a_job_does_not_end_it_twice);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
