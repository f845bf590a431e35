/* test_ring_job.c: whole jobs whose workers keep the network: the real coordinator with fake shards
 * and workers (tests/lib/ring_fake.h), which die, come, and freeze. Every row of every epoch is
 * applied once, and every step of the network is made. */
#include "server/coord/coord.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/stop.h"
#include "server/coord/keep/cut.h"
#include "server/coord/work/ring_job.h"
#include "server/coord/work/task.h"
#include "tests/lib/coord_kept.h"
#include "tests/lib/ring_fake.h"
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)
#define MS UINT64_C(1000000)
enum { SHARDS = 2, WORKERS = 12, LANES = 4, STEPS = 26 /* of an epoch */ };

static struct rig {
    struct sim *sim;
    struct sim_node *node;
    struct coord_kept kept;
    struct coord_store *store;
    struct coord *coord;
    struct fake_shard *shard[SHARDS];
    struct fake_worker worker[WORKERS];
    struct fake_side side[WORKERS];
    struct fake_network network;
    struct fake_client client;
    char yaml[1024];
    uint32_t workers;
} r;

static char folder[64];

static const char *checkpoints(void)
{
    static char text[128];
    (void)snprintf(text, sizeof text, "checkpoint: {dir: %s}\n", folder);
    return text;
}

static void coord_start(void)
{
    struct coord_options o = {.shards = SHARDS,
                              .lease_ms = 1000,
                              .resend_ms = 100,
                              .version = "test",
                              .folder = &coord_folder_disk};
    struct err e = {0};
    r.node = sim_node_new(r.sim, "coordinator", &coord_handler, NULL);
    r.store = coord_kept_open(&r.kept, sim_node_env(r.node));
    ck_assert_msg(coord_new(&o, sim_node_env(r.node), r.store, &r.coord, &e) == 0, "%s", e.text);
    sim_node_set_handler(r.node, &coord_handler, r.coord);
    sim_listen(r.node, "sim://coordinator");
}

static void coord_stop(void)
{
    sim_kill(r.node);
    coord_free(r.coord);
    coord_store_close(r.store);
}

static void worker_add(void)
{
    uint32_t i = r.workers++;
    struct fake_worker *w = &r.worker[i];
    char name[24];
    ck_assert_uint_lt(i, WORKERS);
    *w = (struct fake_worker){.rows = {1005, 300, 200},
                              .batch = 10,
                              .seats = LANES,
                              .step_ns = 5 * MS,
                              .resend_ns = SECOND / 2,
                              .digest = 42};
    for (uint32_t n = 0; n < FAKE_EPOCHS; n++)
        w->quality[n] = 0.5 + 0.02 * n;
    fake_side_make(&r.side[i], w, &r.network);
    (void)snprintf(name, sizeof name, "worker-%u", i);
    fake_worker_start(w, r.sim, name, r.shard, SHARDS);
}

static void rig_start(const char *train, const char *more, uint32_t workers, const char *from,
                      const struct sim_options *options)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    (void)snprintf(r.yaml, sizeof r.yaml,
                   "job: t\ndata: {format: libsvm, train: [a], valid: [b], test: [c]}\n"
                   "tables: [{name: emb, dim: 4}]\nmodel: {kind: deepfm, hidden: [4]}\n"
                   "train: {batch: 10, task_batches: 4, lanes: 4, dense: allreduce, %s}\n%s",
                   train, more);
    r.sim = sim_new(options == NULL ? &calm : options);
    r.kept.values = coord_store_memory();
    r.kept.left = COORD_KEPT_ALL;
    r.network.lanes = LANES;
    r.network.bsp = strstr(train, "bsp") != NULL;
    coord_start();
    for (uint32_t s = 0; s < SHARDS; s++) {
        char name[24];
        (void)snprintf(name, sizeof name, "server-%u", s);
        r.shard[s] = calloc(1, sizeof *r.shard[s]);
        fake_shard_start(r.shard[s], r.sim, name, 0, 1);
    }
    for (uint32_t w = 0; w < workers; w++)
        worker_add();
    fake_client_start(&r.client, r.sim, r.yaml, workers);
    r.client.from = from;
}

static void rig_stop(void)
{
    coord_free(r.coord);
    sim_free(r.sim);
    coord_store_close(r.store);
    coord_store_close(r.kept.values);
    for (uint32_t s = 0; s < SHARDS; s++) {
        free(r.shard[s]->shard_of);
        free(r.shard[s]);
    }
    memset(&r, 0, sizeof r);
}

static struct coord_job *job(void)
{
    return &r.coord->slot[0];
}

static struct coord_ring *ring(void)
{
    return &job()->ring->ring;
}

static uint64_t stored_number(void)
{
    struct coord_ring_record record = {.number = 0};
    (void)coord_store_get_fixed(r.kept.values, "ring", &record, sizeof record, NULL);
    return record.number;
}

/* Checks the invariants of the ring; called after each event. */
static void check(void)
{
    const struct coord_tasks *t = job()->tasks;
    if (job()->went_back == 0) /* another run has numbers of its own */
        ck_assert_uint_ge(stored_number(), r.network.number_told);
    for (uint32_t l = 0; l < t->lanes && ring()->lanes > 0; l++)
        if (t->lane[l].state == LANE_HELD && job()->at.phase == PHASE_TRAIN)
            ck_assert_uint_eq(t->lane[l].worker, coord_ring_holder(ring(), l));
    /* lanes are in step, so are their clocks: none may wait for another one's */
    for (uint32_t l = 0; l < t->lanes; l++)
        if (t->lane[l].state == LANE_HELD && t->lane[l].placed)
            ck_assert_uint_eq(t->lane[l].clock, t->lane[l].at);
}

static void step(void)
{
    ck_assert(sim_step(r.sim));
    check();
}

static void until_step(uint64_t s)
{
    uint64_t late = sim_now_ns(r.sim) + 60 * SECOND;
    while (r.network.complete < s) {
        ck_assert_msg(sim_now_ns(r.sim) < late, "step %u does not come: ring %u %s, phase %u",
                      (unsigned)s, (unsigned)ring()->number,
                      ring()->state == RING_STANDS ? "stands" : "gathers", job()->at.phase);
        step();
    }
}

static void pass(uint64_t ns)
{
    uint64_t end = sim_now_ns(r.sim) + ns;
    while (sim_now_ns(r.sim) < end)
        step();
}

static bool job_over(void *context)
{
    (void)context;
    check();
    return r.client.submit_status != 0 || r.client.state == WIRE_JOB_DONE ||
           r.client.state == WIRE_JOB_FAILED;
}

static void run_job(void)
{
    ck_assert_msg(sim_run(r.sim, sim_now_ns(r.sim) + 200 * SECOND, job_over, NULL),
                  "job hangs in phase %u, epoch %u, ring %u (%u), step %u, rest %u",
                  job()->at.phase, job()->at.epoch, (unsigned)ring()->number, ring()->state,
                  (unsigned)r.network.complete, job()->ring->rest.state);
}

static void job_done(uint32_t epochs)
{
    run_job();
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "state %u, status %d: %s", r.client.state,
                  r.client.submit_status, r.client.text);
    for (uint32_t e = 1; e <= epochs; e++)
        for (uint32_t row = 0; row < 1005; row++)
            ck_assert_msg(r.shard[0]->seen[e][row] == 1, "epoch %u row %u applied %u times", e, row,
                          r.shard[0]->seen[e][row]);
    ck_assert_uint_eq(r.network.low, (uint64_t)STEPS * epochs);
    ck_assert_uint_eq(r.network.high, (uint64_t)STEPS * epochs);
}

static void worker_kill(uint32_t i)
{
    sim_kill(r.worker[i].node);
}

START_TEST(ring_job_runs_to_its_report)
{
    static const char *const mode[] = {"async", "ssp", "bsp"};
    char train[64];
    uint32_t workers = (uint32_t)_i / 3 + 1;
    (void)snprintf(train, sizeof train, "epochs: 2, consistency: %s", mode[_i % 3]);
    rig_start(train, "", workers, NULL, NULL);
    job_done(2);
    ck_assert_uint_eq(ring()->starts, LANES);
    ck_assert_uint_eq(r.network.rings, 1);
    ck_assert_uint_eq(r.network.contributions, 2 * STEPS * LANES);
    ck_assert_uint_eq(job()->tally.lanes_moved, 0);
    rig_stop();
}
END_TEST

START_TEST(ring_is_stored_before_it_is_told)
{
    r.kept.delay_ns = 20 * MS;
    rig_start("epochs: 1", "", 2, NULL, NULL);
    until_step(5);
    ck_assert_uint_eq(stored_number(), 1);
    worker_kill(0);
    worker_add();
    job_done(1);
    ck_assert_uint_gt(r.kept.delayed, 10);
    ck_assert_uint_ge(r.network.number_told, 2);
    rig_stop();
}
END_TEST

/* One dies at each step, or two: the others, or a spare, go on from the newest step. */
START_TEST(ring_goes_on_after_a_death)
{
    for (uint32_t dies = 0; dies < 3; dies++) {
        rig_start(_i % 2 == 0 ? "epochs: 2" : "epochs: 2, consistency: bsp", "", 3, NULL, NULL);
        until_step((uint64_t)_i * 3 + 1);
        if (_i % 3 == 0)
            worker_add();
        worker_kill(dies);
        if (_i % 4 == 0)
            worker_kill((dies + 1) % 3);
        job_done(2);
        ck_assert_uint_eq(ring()->starts, LANES);
        ck_assert_uint_ge(r.network.rings, 2);
        rig_stop();
    }
}
END_TEST

/* A worker that comes gets lanes of others, once it has the network. */
START_TEST(ring_grants_each_lane_to_its_member)
{
    rig_start("epochs: 2", "", 1, NULL, NULL);
    until_step(4);
    ck_assert_uint_eq(ring()->count, 1);
    worker_add();
    until_step(8);
    ck_assert_uint_eq(ring()->count, 2);
    ck_assert_uint_eq(coord_lane_held(job()->tasks, r.worker[1].number), 2);
    worker_add();
    worker_add();
    worker_add(); /* a spare */
    until_step(14);
    pass(SECOND / 10);
    ck_assert_uint_eq(ring()->count, 4);
    uint32_t spare = 4;
    for (uint32_t i = 0; i < 5; i++)
        if (coord_lane_held(job()->tasks, r.worker[i].number) == 0)
            spare = i;
        else
            ck_assert_uint_eq(coord_lane_held(job()->tasks, r.worker[i].number), 1);
    ck_assert_uint_ge(spare, 2);
    worker_kill(1);
    until_step(r.network.complete + 3);
    ck_assert_uint_eq(coord_lane_held(job()->tasks, r.worker[spare].number), 1);
    job_done(2);
    rig_stop();
}
END_TEST

/* Lanes come and go many times, and their clocks stay those of the ring's steps: a lane with a
 * smaller one would hold others back, and wait for them itself. */
START_TEST(ring_lanes_have_the_clocks_of_their_steps)
{
    rig_start("epochs: 3, consistency: ssp, staleness: 1", "", 2, NULL, NULL);
    for (uint32_t i = 0; i < 8; i++) {
        until_step(r.network.complete + 3);
        worker_add();
        worker_kill(i); /* check() has the assertion */
    }
    job_done(3);
    rig_stop();
}
END_TEST

/* All die: others take the network from the tables, and what was trained since comes again. */
START_TEST(ring_goes_on_from_the_tables_after_all_have_died)
{
    rig_start("epochs: 2", "", 2, NULL, NULL);
    r.network.publish_every = (uint64_t)_i;
    until_step(11);
    worker_kill(0);
    worker_kill(1);
    uint64_t published = r.network.low;
    if (_i == 0)
        ck_assert_uint_eq(published, 0);
    else
        ck_assert_uint_ge(published, 8);
    pass(2 * SECOND);
    ck_assert_int_eq(ring()->state, RING_NONE);
    r.network.slowest_mark = UINT64_MAX;
    worker_add();
    worker_add();
    until_step(12);
    ck_assert_uint_eq(r.network.slowest_mark, published);
    job_done(2);
    ck_assert_uint_eq(ring()->starts, LANES);
    rig_stop();
}
END_TEST

/* All die when the tasks of an epoch are done, and the tables lack the last steps. */
START_TEST(ring_keeps_tasks_until_a_publish_covers_them)
{
    rig_start("epochs: 2", "", 2, NULL, NULL);
    r.network.no_settle = true;
    r.network.publish_every = 8;
    while (job()->tasks->stop == 0 || job()->tasks->pushed < job()->tasks->stop)
        step();
    pass(SECOND / 2);
    ck_assert_int_eq(job()->at.phase, PHASE_TRAIN);
    ck_assert_uint_eq(job()->at.epoch, 1);
    ck_assert_uint_eq(r.network.low, 24);
    worker_kill(0);
    worker_kill(1);
    pass(2 * SECOND);
    r.network.no_settle = false;
    r.network.slowest_mark = UINT64_MAX;
    worker_add();
    job_done(2);
    ck_assert_uint_eq(r.network.slowest_mark, 24);
    rig_stop();
}
END_TEST

/* Where an evaluation begins, the tables have the network of the last step. */
START_TEST(ring_rests_before_an_evaluation)
{
    uint32_t evals = 0;
    rig_start("epochs: 2", "evaluate: {every_batches: 40}\n", 2, NULL, NULL);
    while (r.client.state != WIRE_JOB_DONE && r.client.state != WIRE_JOB_FAILED) {
        uint32_t was = job()->at.phase;
        step();
        if (was != PHASE_TRAIN || job()->at.phase == PHASE_TRAIN)
            continue;
        evals++;
        for (uint32_t s = 0; s < SHARDS; s++)
            for (uint32_t l = 0; l < LANES; l++)
                ck_assert_uint_eq(r.shard[s]->run.lane[l].mark, r.network.low);
        ck_assert_uint_eq(ring()->published, r.network.low);
    }
    ck_assert_uint_ge(evals, 6);
    job_done(2);
    rig_stop();
}
END_TEST

static const char *checkpoint_make(void)
{
    fake_client_checkpoint(&r.client, "");
    uint64_t late = sim_now_ns(r.sim) + 100 * SECOND;
    while (!r.client.checkpoint.answered && sim_now_ns(r.sim) < late)
        step();
    ck_assert_msg(r.client.checkpoint.answered, "no answer");
    ck_assert_msg(r.client.checkpoint.status == 0, "%s", r.client.checkpoint.text);
    return r.client.checkpoint.reply.path;
}

/* Every cut is even: the rows of all lanes and the network are of one step. A job resumes there,
 * with as many workers as there are now, and the starts that it had. */
START_TEST(ring_rests_before_a_cut)
{
    static char path[LIMIT_PATH];
    rig_start("epochs: 2", checkpoints(), 2, NULL, NULL);
    until_step((uint64_t)_i * 7 + 1);
    if (_i % 2 == 1)
        worker_kill(0);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make());
    uint64_t cut = r.shard[0]->noted.run.lane[0].mark;
    for (uint32_t s = 0; s < SHARDS; s++)
        for (uint32_t l = 0; l < LANES; l++)
            ck_assert_uint_eq(r.shard[s]->noted.run.lane[l].mark, cut);
    ck_assert_uint_ge(cut, (uint64_t)_i * 7 + 1);
    ck_assert_uint_ge(ring()->published, cut);
    struct fake_network network = {.low = cut, .high = cut};
    rig_stop();
    r.network = network;
    rig_start("epochs: 2", checkpoints(), (uint32_t)_i % 3 + 1, path, NULL);
    job_done(2);
    ck_assert_uint_eq(ring()->starts, LANES);
    ck_assert_uint_eq(r.network.contributions, (2 * STEPS - cut) * LANES);
    rig_stop();
}
END_TEST

/* The last publish stopped half way, and all members died: nothing has the network of one step. */
START_TEST(ring_torn_publish_ends_the_job_in_words)
{
    rig_start("epochs: 2", "", 2, NULL, NULL);
    r.network.publish_every = 4;
    until_step(6);
    r.network.torn = true;
    until_step(10);
    ck_assert_uint_lt(r.network.low, r.network.high);
    worker_kill(0);
    worker_kill(1);
    pass(2 * SECOND);
    worker_add();
    run_job();
    ck_assert_uint_eq(r.client.state, WIRE_JOB_FAILED);
    ck_assert_ptr_nonnull(strstr(r.client.text, "half as of step 4 and half as of step 8"));
    rig_stop();
}
END_TEST

/* With a checkpoint the job goes back to it, and all is trained again from there. */
START_TEST(ring_torn_publish_sends_the_job_back)
{
    rig_start("epochs: 2", checkpoints(), 2, NULL, NULL);
    until_step(5);
    (void)checkpoint_make();
    uint64_t cut = r.network.low;
    ck_assert_uint_ge(cut, 5);
    r.network.publish_every = 4;
    until_step(cut + 6);
    r.network.torn = true;
    until_step(cut + 11);
    worker_kill(0);
    worker_kill(1);
    pass(2 * SECOND);
    worker_add();
    worker_add();
    while (job()->went_back == 0)
        step();
    r.network.torn = false;
    r.network.low = r.network.high = cut; /* as the servers load them */
    job_done(2);
    ck_assert_uint_eq(job()->went_back, 1);
    ck_assert_uint_eq(ring()->starts, LANES);
    rig_stop();
}
END_TEST

/* A step that no lane can have is refused. */
START_TEST(ring_refuses_what_cannot_be)
{
    rig_start("epochs: 2", "", 2, NULL, NULL);
    until_step(5);
    uint32_t first = r.worker[1].number == ring()->member[0].worker;
    r.side[1 - first].begun = 1000;
    pass(SECOND);
    ck_assert_int_eq(r.worker[first].refused, 0);
    ck_assert_int_eq(r.worker[1 - first].refused, SHOAL_E_MALFORMED);
    rig_stop();
}
END_TEST

/* ---- digests --------------------------------------------------------------------------------- */

/* Each worker tells a digest of step 2, that of `wrong` (bits) is another one. */
static void digests_tell(uint32_t wrong)
{
    for (uint32_t i = 0; i < r.workers; i++) {
        r.side[i].digest = 7 + (wrong >> i & 1);
        r.side[i].digest_step = 2;
    }
}

/* One of three has other bits than the two others: it leaves, even if it is the first. */
START_TEST(ring_goes_on_without_a_network_that_differs)
{
    rig_start("epochs: 2", "", 3, NULL, NULL);
    until_step(5);
    digests_tell(1u << _i);
    pass(SECOND / 2);
    ck_assert_int_eq(r.worker[_i].refused, SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(r.worker[_i].refused_text, "differs from that of most others"));
    for (int i = 0; i < 3; i++)
        ck_assert(i == _i || r.worker[i].refused == 0);
    ck_assert_ptr_null(coord_ring_find(ring(), r.worker[_i].number));
    ck_assert_uint_eq(coord_lane_held(job()->tasks, r.worker[_i].number), 0);
    worker_kill((uint32_t)_i);
    job_done(2);
    rig_stop();
}
END_TEST

/* Two that differ: the right network is not known. */
START_TEST(ring_of_two_networks_ends_the_job_in_words)
{
    rig_start("epochs: 2", "", 2, NULL, NULL);
    until_step(5);
    digests_tell(1);
    run_job();
    ck_assert_uint_eq(r.client.state, WIRE_JOB_FAILED);
    ck_assert_msg(strstr(r.client.text, "differ after step 2") != NULL, "%s", r.client.text);
    ck_assert_ptr_nonnull(strstr(r.client.text, "worker-0"));
    ck_assert_ptr_nonnull(strstr(r.client.text, "worker-1"));
    rig_stop();
}
END_TEST

START_TEST(ring_of_two_networks_sends_the_job_back)
{
    rig_start("epochs: 2", checkpoints(), 2, NULL, NULL);
    until_step(5);
    (void)checkpoint_make();
    uint64_t cut = r.network.low;
    until_step(cut + 3);
    digests_tell(2);
    while (job()->went_back == 0)
        step();
    digests_tell(0);
    r.network.low = r.network.high = cut; /* as the servers load them */
    job_done(2);
    ck_assert_uint_eq(job()->went_back, 1);
    rig_stop();
}
END_TEST

/* Two of three have told, and differ, when the third dies: no ring goes on with the two. */
START_TEST(ring_does_not_go_on_with_networks_that_differ)
{
    rig_start("epochs: 2", "", 3, NULL, NULL);
    until_step(5);
    r.side[2].silent = true;
    digests_tell(1);
    pass(SECOND / 10);
    ck_assert(!coord_goes_back(job()));
    worker_kill(2);
    run_job();
    ck_assert_uint_eq(ring()->number, 1);
    ck_assert_uint_eq(r.client.state, WIRE_JOB_FAILED);
    ck_assert_msg(strstr(r.client.text, "differ after step 2") != NULL, "%s", r.client.text);
    rig_stop();
}
END_TEST

/* ---- without a worker ------------------------------------------------------------------------ */

/* Asks for a checkpoint; returns its status, with the text in r.client.checkpoint.text. */
static int checkpoint_asked(uint64_t most_ns)
{
    uint64_t late = sim_now_ns(r.sim) + most_ns;
    fake_client_checkpoint(&r.client, "");
    while (!r.client.checkpoint.answered && sim_now_ns(r.sim) < late)
        step();
    ck_assert_msg(r.client.checkpoint.answered, "no answer");
    return r.client.checkpoint.status;
}

/* No rest can come: that is said at once. When a worker is there again, it comes. */
START_TEST(ring_checkpoint_without_a_worker_fails_at_once)
{
    rig_start("epochs: 2", checkpoints(), 2, NULL, NULL);
    until_step(5);
    worker_kill(0);
    worker_kill(1);
    pass(5 * SECOND);
    ck_assert_int_eq(checkpoint_asked(SECOND / 2), SHOAL_E_UNAVAILABLE);
    ck_assert_msg(strstr(r.client.checkpoint.text, "has no worker") != NULL, "%s",
                  r.client.checkpoint.text);
    ck_assert_ptr_nonnull(strstr(r.client.checkpoint.text, "Start a worker"));
    worker_add();
    pass(SECOND);
    (void)checkpoint_make();
    job_done(2);
    rig_stop();
}
END_TEST

/* The workers die while they are to rest: it waits as long as they may come again. */
START_TEST(ring_checkpoint_whose_workers_die_ends)
{
    rig_start("epochs: 2", checkpoints(), 2, NULL, NULL);
    until_step(5);
    r.network.no_settle = true;
    fake_client_checkpoint(&r.client, "");
    pass(SECOND / 2);
    ck_assert(!r.client.checkpoint.answered);
    ck_assert_int_eq(job()->cut->state, CUT_RESTING);
    worker_kill(0);
    worker_kill(1);
    pass(4 * SECOND);
    ck_assert(r.client.checkpoint.answered);
    ck_assert_int_eq(r.client.checkpoint.status, SHOAL_E_UNAVAILABLE);
    r.network.no_settle = false;
    worker_add();
    job_done(2);
    rig_stop();
}
END_TEST

/* All workers die while they are to rest, and others read the network from the tables, which is of
 * an earlier step than the rows. Under bsp no checkpoint is made of the two: the job goes back to
 * the one before. */
START_TEST(ring_checkpoint_is_of_one_step_whoever_dies)
{
    static char path[LIMIT_PATH];
    rig_start("epochs: 2, consistency: bsp", checkpoints(), 2, NULL, NULL);
    until_step(5);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make());
    uint64_t cut = r.network.low;
    r.network.publish_every = 4;
    until_step(cut + 6);
    r.network.no_settle = true;
    fake_client_checkpoint(&r.client, "");
    while (job()->cut->state != CUT_RESTING)
        step();
    worker_kill(0);
    worker_kill(1);
    worker_add();
    worker_add();
    r.network.no_settle = false;
    while (job()->went_back == 0)
        step();
    ck_assert_str_eq(job()->at.from_path, path);
    r.network.low = r.network.high = cut; /* as the servers load them */
    job_done(2);
    ck_assert_uint_eq(job()->went_back, 1);
    rig_stop();
}
END_TEST

/* The job ends without its last checkpoint, at once and in words; also where the workers die while
 * that one is made. */
START_TEST(ring_stop_without_a_worker_ends_at_once)
{
    rig_start("epochs: 2", checkpoints(), 2, NULL, NULL);
    until_step(5);
    (void)checkpoint_make();
    r.network.no_settle = _i == 1;
    if (_i == 1)
        ck_assert(coord_stop_order(job(), 1));
    worker_kill(0);
    worker_kill(1);
    pass(4 * SECOND);
    if (_i == 0)
        ck_assert(!coord_stop_order(job(), 1));
    ck_assert_uint_eq(job()->at.phase, PHASE_FAILED);
    ck_assert_int_eq(job()->at.status, SHOAL_E_STOPPED);
    ck_assert_msg(strstr(job()->at.text, "no last checkpoint: job t has no worker") != NULL, "%s",
                  job()->at.text);
    ck_assert_ptr_nonnull(strstr(job()->at.text, "goes on from an earlier one"));
    rig_stop();
}
END_TEST

/* A worker dies before it has reported its last tasks. No report of the dead comes, and none is
 * waited for. */
START_TEST(ring_epoch_ends_without_the_reports_of_the_dead)
{
    rig_start("epochs: 2", "", 2, NULL, NULL);
    r.worker[1].dead_batch = LANES / 2 * STEPS;
    while (r.worker[1].batches < LANES / 2 * STEPS)
        step();
    uint64_t died = sim_now_ns(r.sim);
    while (job()->at.phase == PHASE_TRAIN)
        step();
    ck_assert_uint_lt(job()->tasks->reported, job()->tasks->tasks);
    ck_assert_uint_lt(sim_now_ns(r.sim) - died, 2 * SECOND); /* a lease, and the fences */
    job_done(2);
    rig_stop();
}
END_TEST

/* ---- what it tells --------------------------------------------------------------------------- */

/* A worker that gives up its place again and again is named. */
START_TEST(ring_names_a_worker_that_cannot_take_part)
{
    char text[ERR_TEXT_MAX];
    rig_start("epochs: 2", "", 2, NULL, NULL);
    until_step(3);
    const struct coord_worker *w = coord_worker_find(&job()->workers, r.worker[1].number);
    for (uint32_t i = 0; i < COORD_UNABLE_TRIES; i++) {
        ck_assert(
            !coord_unable_text(&job()->ring->unable, 0, sim_now_ns(r.sim), text, sizeof text));
        coord_ring_unable(job(), w, "no memory for a ring");
    }
    ck_assert(coord_unable_text(&job()->ring->unable, 0, sim_now_ns(r.sim), text, sizeof text));
    ck_assert_ptr_nonnull(strstr(text, "worker-1"));
    pass(2 * SECOND); /* it makes steps */
    ck_assert(!coord_unable_text(&job()->ring->unable, 0, sim_now_ns(r.sim), text, sizeof text));
    rig_stop();
}
END_TEST

START_TEST(ring_tells_what_it_waits_for)
{
    char text[ERR_TEXT_MAX];
    rig_start("epochs: 2", "", 2, NULL, NULL);
    r.network.no_answer = true;
    while (job()->at.phase != PHASE_TRAIN)
        step();
    pass(SECOND / 2);
    ck_assert(!coord_ring_late(job(), text, sizeof text));
    pass(SECOND);
    ck_assert(coord_ring_late(job(), text, sizeof text));
    ck_assert_ptr_nonnull(strstr(text, "none has told where it listens"));
    r.network.no_answer = false;
    until_step(3);
    ck_assert(!coord_ring_late(job(), text, sizeof text));
    r.side[1].silent = true;
    worker_add();
    pass(3 * SECOND / 2);
    ck_assert(coord_ring_late(job(), text, sizeof text));
    ck_assert_ptr_nonnull(strstr(text, "1 of them have not answered, worker-1 is one"));
    r.side[1].silent = false;
    until_step(6);
    for (uint32_t i = 0; i < 3; i++)
        worker_kill(i);
    pass(4 * SECOND);
    ck_assert_int_eq(ring()->state, RING_NONE);
    ck_assert(!coord_ring_late(job(), text, sizeof text)); /* no_workers says it */
    worker_add();
    job_done(2);
    rig_stop();
}
END_TEST

/* Under bsp the rows are of one clock, and cannot go back to the step of the tables. */
START_TEST(ring_lost_under_bsp_ends_the_job_in_words)
{
    rig_start("epochs: 2, consistency: bsp", "", 2, NULL, NULL);
    r.network.publish_every = 4;
    until_step(11);
    worker_kill(0);
    worker_kill(1);
    pass(2 * SECOND);
    worker_add();
    run_job();
    ck_assert_uint_eq(r.client.state, WIRE_JOB_FAILED);
    ck_assert_ptr_nonnull(strstr(r.client.text, "the tables as of step 8 alone"));
    rig_stop();
}
END_TEST

/* Servers that lose power lose acknowledged pushes. The weights for those batches are gone, so the
 * lane is not granted again and again. */
START_TEST(ring_job_whose_rows_were_lost_goes_back)
{
    rig_start("epochs: 2", "", 2, NULL, NULL);
    until_step(11);
    worker_kill(1);
    for (uint32_t s = 0; s < SHARDS; s++)
        for (uint32_t l = 0; l < LANES; l++)
            r.shard[s]->run.lane[l].mark = 8; /* of the tasks that are under way: 9 to 12 */
    run_job();
    ck_assert_uint_eq(r.client.state, WIRE_JOB_FAILED);
    ck_assert_msg(strstr(r.client.text, "the servers have lost batches of lane") != NULL, "%s",
                  r.client.text);
    rig_stop();
}
END_TEST

/* A member that makes no step, though it beats, loses its lanes. So does one that another member
 * does not reach. */
START_TEST(ring_member_without_progress_loses_its_place)
{
    rig_start("epochs: 2", "", 3, NULL, NULL);
    until_step(5);
    uint64_t lost = r.worker[1].number;
    if (_i == 0)
        r.worker[1].wedge_kind = WIRE_NEXT_TASK;
    else if (_i == 1)
        r.side[1].silent = true;
    else
        r.side[0].unreached = lost;
    if (_i == 2)
        pass(SECOND);
    else
        pass(5 * SECOND);
    r.side[0].unreached = 0;
    ck_assert_uint_eq(coord_lane_held(job()->tasks, lost), 0);
    ck_assert_ptr_null(coord_ring_find(ring(), lost));
    ck_assert_uint_eq(ring()->count, 2);
    ck_assert_int_eq(ring()->state, RING_STANDS);
    r.worker[1].wedge_kind = 0;
    r.worker[1].wedged = r.side[1].silent = false;
    until_step(40);
    job_done(2);
    rig_stop();
}
END_TEST

/* A member beats, and asks for none of its lanes: its seats wait for a server that it does not
 * reach. */
START_TEST(ring_member_that_asks_for_no_lane_loses_its_place)
{
    rig_start("epochs: 2", "", 2, NULL, NULL);
    r.worker[1].seats = 0;
    until_step(5);
    ck_assert_uint_eq(ring()->count, 1);
    ck_assert_uint_eq(ring()->member[0].worker, r.worker[0].number);
    job_done(2);
    rig_stop();
}
END_TEST

/* A coordinator that dies at any moment: the workers keep their network, and go on. */
START_TEST(ring_goes_on_after_the_coordinator_has_died)
{
    for (uint32_t more = 0; more < 40; more += 3) {
        r.kept.delay_ns = 2 * MS;
        rig_start("epochs: 2", "evaluate: {every_batches: 40}\n", 2, NULL, NULL);
        until_step((uint64_t)_i * 5 + 1);
        for (uint32_t i = 0; i < more; i++)
            step();
        coord_stop();
        coord_start();
        job_done(2);
        ck_assert_uint_eq(ring()->starts, LANES);
        ck_assert_uint_eq(r.network.tables_read, 2); /* when the job began */
        rig_stop();
    }
}
END_TEST

/* Workers die and come, and the coordinator dies, over a network that loses and doubles. */
START_TEST(ring_goes_on_after_many_changes)
{
    uint32_t losses = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        const struct sim_options o = {.seed = seed + 100 * (uint64_t)_i,
                                      .drop = 0.02,
                                      .duplicate = 0.02,
                                      .delay_min_ns = 100000,
                                      .delay_max_ns = 3 * MS,
                                      .reorder = true};
        struct rng rng = rng_of(o.seed, 3, 5);
        r.kept.delay_ns = 2 * MS;
        rig_start(_i % 2 == 0 ? "epochs: 2" : "epochs: 2, consistency: bsp",
                  "evaluate: {every_batches: 60}\n", 2, NULL, &o);
        r.network.publish_every = rng_below(&rng, 6);
        for (uint32_t change = 0; change < 8 && r.client.state != WIRE_JOB_DONE; change++) {
            pass((50 + rng_below(&rng, 400)) * MS);
            uint64_t what = rng_below(&rng, 4);
            if (what == 0 && r.workers > 2)
                worker_kill((uint32_t)rng_below(&rng, r.workers - 1));
            if (what == 1) {
                coord_stop();
                coord_start();
            }
            if (what >= 2 || change == 7)
                worker_add();
        }
        if (r.workers < WORKERS)
            worker_add();
        run_job();
        bool lost = strstr(r.client.text, "all workers ended at once") != NULL;
        ck_assert(!lost || _i % 2 == 1); /* bsp */
        losses += lost;
        if (!lost)
            job_done(2);
        rig_stop();
    }
    ck_assert_uint_le(losses, 6);
}
END_TEST

static void folder_make(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/ring_job.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void folder_remove(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

int main(void)
{
    Suite *s = suite_create("ring_job");
    TCase *t = suite_case(s, "ring_job", 60, folder_make, folder_remove);
    tcase_add_loop_test(t, ring_job_runs_to_its_report, 0, 9);
    tcase_add_test(t, ring_is_stored_before_it_is_told);
    tcase_add_loop_test(t, ring_goes_on_after_a_death, 0, 9);
    tcase_add_test(t, ring_grants_each_lane_to_its_member);
    tcase_add_test(t, ring_lanes_have_the_clocks_of_their_steps);
    tcase_add_loop_test(t, ring_goes_on_from_the_tables_after_all_have_died, 0, 3);
    tcase_add_test(t, ring_keeps_tasks_until_a_publish_covers_them);
    tcase_add_test(t, ring_rests_before_an_evaluation);
    tcase_add_loop_test(t, ring_rests_before_a_cut, 0, 6);
    tcase_add_test(t, ring_torn_publish_ends_the_job_in_words);
    tcase_add_test(t, ring_torn_publish_sends_the_job_back);
    tcase_add_test(t, ring_refuses_what_cannot_be);
    tcase_add_loop_test(t, ring_goes_on_without_a_network_that_differs, 0, 3);
    tcase_add_test(t, ring_of_two_networks_ends_the_job_in_words);
    tcase_add_test(t, ring_of_two_networks_sends_the_job_back);
    tcase_add_test(t, ring_does_not_go_on_with_networks_that_differ);
    tcase_add_test(t, ring_checkpoint_without_a_worker_fails_at_once);
    tcase_add_test(t, ring_checkpoint_whose_workers_die_ends);
    tcase_add_test(t, ring_checkpoint_is_of_one_step_whoever_dies);
    tcase_add_loop_test(t, ring_stop_without_a_worker_ends_at_once, 0, 2);
    tcase_add_test(t, ring_epoch_ends_without_the_reports_of_the_dead);
    tcase_add_test(t, ring_names_a_worker_that_cannot_take_part);
    tcase_add_test(t, ring_tells_what_it_waits_for);
    tcase_add_test(t, ring_lost_under_bsp_ends_the_job_in_words);
    tcase_add_test(t, ring_job_whose_rows_were_lost_goes_back);
    tcase_add_loop_test(t, ring_member_without_progress_loses_its_place, 0, 3);
    tcase_add_test(t, ring_member_that_asks_for_no_lane_loses_its_place);
    tcase_add_loop_test(t, ring_goes_on_after_the_coordinator_has_died, 0, 8);
    tcase_add_loop_test(t, ring_goes_on_after_many_changes, 0, 6);
    return suite_main(s);
}
