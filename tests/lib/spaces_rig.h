/* spaces_rig.h: a coordinator with two fake shards, on which models are trained one after the
 * other, each in its space. The functions are here, and not in a file of their own, since tests of
 * other rooms link no coordinator. */
#ifndef TESTS_LIB_SPACES_RIG_H
#define TESTS_LIB_SPACES_RIG_H

#include "proto/base/file.h"
#include "proto/base/log.h"
#include "server/coord/coord.h"
#include "server/coord/fleet/folder.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/submit.h"
#include "tests/lib/server_fake.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RIG_SECOND UINT64_C(1000000000)
#define RIG_SHARDS 2u

static struct {
    struct sim *sim;
    struct sim_node *node;
    struct coord_store *store;
    struct coord *coord;
    struct fake_shard shard[RIG_SHARDS];
    struct fake_worker worker;
    struct fake_client client;
    char yaml[1024], dir[64]; /* dir: of checkpoints */
    uint32_t jobs;            /* at the same time, of the next coordinator; 0: one */
} r;

static struct err rig_error;

static inline void rig_coord_start(void)
{
    struct coord_options o = {.shards = RIG_SHARDS,
                              .lease_ms = 1000,
                              .resend_ms = 200,
                              .jobs = r.jobs,
                              .version = "test",
                              .folder = &coord_folder_disk};
    r.node = sim_node_new(r.sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&o, sim_node_env(r.node), r.store, &r.coord, &rig_error) == 0, "%s",
                  rig_error.text);
    sim_node_set_handler(r.node, &coord_handler, r.coord);
    sim_listen(r.node, "sim://coordinator");
}

static inline void rig_go(uint64_t ms)
{
    (void)sim_run(r.sim, sim_now_ns(r.sim) + ms * 1000000, NULL, NULL);
}

static inline void rig_coord_again(void)
{
    sim_kill(r.node);
    coord_free(r.coord);
    rig_coord_start();
    rig_go(1000);
}

static inline void rig_shard_start(uint32_t i, uint64_t incarnation)
{
    char name[24];
    (void)snprintf(name, sizeof name, "server-%u", i);
    fake_shard_start(&r.shard[i], r.sim, name, 0, incarnation);
}

static inline void rig_start(void)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    log_set_level(LOG_LEVEL_ERROR + 1);
    memset(&r, 0, sizeof r);
    (void)snprintf(r.dir, sizeof r.dir, "/tmp/spaces-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(r.dir));
    memset(&rig_error, 0, sizeof rig_error);
    r.sim = sim_new(&calm);
    r.store = coord_store_memory();
    rig_coord_start();
    for (uint32_t i = 0; i < RIG_SHARDS; i++)
        rig_shard_start(i, 1);
    rig_go(500);
}

static inline void rig_stop(void)
{
    coord_free(r.coord);
    sim_free(r.sim);
    coord_store_close(r.store);
    for (uint32_t i = 0; i < RIG_SHARDS; i++)
        free(r.shard[i].shard_of);
    (void)file_remove_tree(r.dir);
}

static inline const char *rig_text(const char *job, const char *more)
{
    (void)snprintf(r.yaml, sizeof r.yaml,
                   "job: %s\ndata: {format: libsvm, train: [a]}\ntables: [{name: emb, dim: 4}]\n"
                   "model: {kind: probe}\ncheckpoint: {dir: %s/%s}\n%s"
                   "train: {batch: 10, task_batches: 4, epochs: 1, consistency: ssp, lanes: 2}\n",
                   job, r.dir, job, more);
    return r.yaml;
}

static inline bool rig_over(void *context)
{
    (void)context;
    return r.client.submit_status != 0 || r.client.state == WIRE_JOB_DONE ||
           r.client.state == WIRE_JOB_FAILED;
}

static inline void rig_job_begin(const char *job, const char *more, const char *from)
{
    static struct fake_shard *shards[RIG_SHARDS];
    struct fake_worker *w = &r.worker;
    if (r.client.node != NULL)
        sim_kill(r.client.node);
    if (w->node != NULL)
        sim_kill(w->node);
    memset(&r.client, 0, sizeof r.client);
    memset(w, 0, sizeof *w);
    w->rows[0] = 1005;
    w->batch = 10;
    w->seats = 2;
    w->step_ns = 5000000;
    w->resend_ns = RIG_SECOND / 2;
    w->digest = 42;
    for (uint32_t i = 0; i < RIG_SHARDS; i++)
        shards[i] = &r.shard[i];
    fake_worker_start(w, r.sim, "worker-0", shards, RIG_SHARDS);
    r.client.from = from;
    fake_client_start(&r.client, r.sim, rig_text(job, more), 1);
}

static inline void rig_job_run(const char *job, const char *more, const char *from)
{
    rig_job_begin(job, more, from);
    ck_assert_msg(sim_run(r.sim, sim_now_ns(r.sim) + 60 * RIG_SECOND, rig_over, NULL),
                  "job hangs in phase %u", r.coord->slot[0].at.phase);
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
}

/* Submits without a client. Returns the status, and the sentence in e. */
static inline int rig_submit(const char *job, const char *more, const char *from)
{
    uint64_t run;
    const char *yaml = rig_text(job, more);
    const struct coord_submit s = {yaml, strlen(yaml), 1, from, from[0] != 0};
    memset(&rig_error, 0, sizeof rig_error);
    return coord_submit(&r.coord->slot[0], 77, &s, NULL, &run, &rig_error);
}

static inline void rig_refused(int status, const char *words)
{
    ck_assert_msg(rig_error.code == status && strstr(rig_error.text, words) != NULL, "%d: %s",
                  rig_error.code, rig_error.text);
}

static inline struct coord_space *rig_space(const char *name)
{
    COORD_EACH_SPACE (&r.coord->fleet, s)
        if (coord_space_holds(&r.coord->fleet, s) && strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

#endif
