/* test_checkpoint.c: checkpoints in the simulator: the real coordinator on real folders, with
 * fake shards that record every row; a restored job must continue at the exact batch. */
#include "proto/base/hash.h"
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "proto/job/manifest.h"
#include "server/coord/coord.h"
#include "server/coord/core/phase.h"
#include "server/coord/gauges.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/status.h"
#include "server/coord/job/submit.h"
#include "server/coord/keep/checkpoint_keep.h"
#include "server/coord/keep/newest.h"
#include "server/coord/work/objects_index.h"
#include "tests/lib/server_fake.h"

#include <check.h>
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)
#define SHARDS 2u

struct rig {
    struct sim *sim;
    struct sim_node *node;
    struct coord_store *store;
    struct coord *coord;
    struct fake_shard *shard[SHARDS];
    struct fake_worker worker[2];
    struct fake_client client;
    char dir[64], yaml[2048];
    uint64_t digest;
    uint32_t lease_ms;     /* 0: 1000 */
    const double *quality; /* (FAKE_EPOCHS); NULL: each epoch is better than the one before */
    bool hooks, hook_holds;
    char hooked[8][LIMIT_PATH]; /* folders that the command was run with */
    uint32_t hook_count, hook_polls, hook_asked, hook_killed;
    const char *root;                      /* checkpoint_root; NULL: none */
    const char *signers;                   /* checkpoint_signers; NULL: none */
    const struct coord_folder_ops *folder; /* NULL: the disk's */
    uint32_t hook_deaf;                    /* stops that the command survives */
    int hook_status;
};

static struct rig r;
static char folder[64]; /* outlives a rig */

static int hook_start(void *context, uint32_t slot, const struct string_list *words,
                      const char *path, struct err *e)
{
    (void)slot;
    (void)context;
    (void)e;
    ck_assert_uint_eq(words->count, 2);
    ck_assert_str_eq(words->item[0], "publish-it");
    (void)snprintf(r.hooked[r.hook_count++ % 8], LIMIT_PATH, "%s", path);
    r.hook_polls = 0;
    r.hook_status = r.hook_status > 128 ? 0 : r.hook_status; /* a signal ended the last run only */
    return 0;
}

static bool hook_poll(void *context, uint32_t slot, int *exit_status)
{
    (void)slot;
    (void)context;
    *exit_status = r.hook_status;
    return !r.hook_holds && ++r.hook_polls > 3;
}

static void hook_stop(void *context, uint32_t slot, bool kill)
{
    (void)slot;
    (void)context;
    *(kill ? &r.hook_killed : &r.hook_asked) += 1;
    if (r.hook_asked + r.hook_killed > r.hook_deaf) {
        r.hook_status = 128 + (kill ? 9 : 15);
        r.hook_holds = false;
    }
}

static void coord_start(void)
{
    struct coord_options o = {.shards = SHARDS,
                              .lease_ms = r.lease_ms == 0 ? 1000 : r.lease_ms,
                              .resend_ms = 100,
                              .version = "test",
                              .folder = r.folder != NULL ? r.folder : &coord_folder_disk,
                              .checkpoint_root = r.root,
                              .checkpoint_signers = r.signers,
                              .hook_start = r.hooks ? hook_start : NULL,
                              .hook_poll = hook_poll,
                              .hook_stop = hook_stop};
    struct err e = {0};
    r.node = sim_node_new(r.sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&o, sim_node_env(r.node), r.store, &r.coord, &e) == 0, "%s", e.text);
    sim_node_set_handler(r.node, &coord_handler, r.coord);
    sim_listen(r.node, "sim://coordinator");
}

static void coord_kill(void)
{
    sim_kill(r.node);
    coord_free(r.coord);
    r.coord = NULL;
}

static void worker_add(uint32_t i)
{
    struct fake_worker *w = &r.worker[i];
    char name[24];
    *w = (struct fake_worker){.rows = {1005, 300, 200},
                              .batch = 10,
                              .seats = 2,
                              .step_ns = 5000000,
                              .resend_ns = SECOND / 2};
    w->digest = r.digest;
    for (uint32_t n = 0; n < FAKE_EPOCHS; n++)
        w->quality[n] = r.quality != NULL ? r.quality[n] : 0.5 + 0.02 * n;
    (void)snprintf(name, sizeof name, "worker-%u", i);
    fake_worker_start(w, r.sim, name, r.shard, SHARDS);
}

/* train, more: keys of the job; from: a checkpoint to continue from. */
static void rig_start(const char *train, const char *more, const char *from)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    if (r.digest == 0)
        r.digest = 42;
    (void)snprintf(
        r.yaml, sizeof r.yaml,
        "job: t\ndata: {format: libsvm, train: [a], valid: [b], test: [c], max_bad: 0.01}\n"
        "tables: [{name: emb, dim: 4}]\nmodel: {kind: probe}\ntrain: {batch: 10, task_batches: 4, "
        "lanes: 2, %s}\n"
        "checkpoint: {dir: %s%s}\n",
        train, folder, more);
    r.sim = sim_new(&calm);
    r.store = coord_store_memory();
    coord_start();
    for (uint32_t s = 0; s < SHARDS; s++) {
        char name[24];
        (void)snprintf(name, sizeof name, "server-%u", s);
        r.shard[s] = calloc(1, sizeof *r.shard[s]);
        fake_shard_start(r.shard[s], r.sim, name, 0, 1);
    }
    for (uint32_t w = 0; w < 2; w++)
        worker_add(w);
    fake_client_start(&r.client, r.sim, r.yaml, 2);
    r.client.from = from;
}

static void rig_stop(void)
{
    coord_free(r.coord);
    sim_free(r.sim);
    coord_store_close(r.store);
    for (uint32_t s = 0; s < SHARDS; s++) {
        free(r.shard[s]->shard_of);
        free(r.shard[s]);
    }
    memset(&r, 0, sizeof r);
}

static bool job_over(void *context)
{
    (void)context;
    return r.client.submit_status != 0 || r.client.state == WIRE_JOB_DONE ||
           r.client.state == WIRE_JOB_FAILED;
}

static void job_done(void)
{
    ck_assert_msg(sim_run(r.sim, sim_now_ns(r.sim) + 120 * SECOND, job_over, NULL),
                  "job hangs in phase %u", r.coord->slot[0].at.phase);
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "state %u, status %d: %s", r.client.state,
                  r.client.submit_status, r.client.text);
}

/* Checks that each row of each epoch from `first` on counts exactly once. */
static void rows_once(uint32_t epochs)
{
    for (uint32_t e = 1; e <= epochs; e++)
        for (uint32_t row = 0; row < 1005; row++)
            ck_assert_msg(r.shard[0]->seen[e][row] == 1, "epoch %u row %u applied %u times", e, row,
                          r.shard[0]->seen[e][row]);
}

static uint32_t batches_all(void)
{
    return r.worker[0].batches + r.worker[1].batches;
}

static void run_batches(uint32_t batches)
{
    while (batches_all() < batches)
        ck_assert(sim_step(r.sim));
}

static void checkpoint_wait(void)
{
    uint64_t until = sim_now_ns(r.sim) + 30 * SECOND;
    while (!r.client.checkpoint.answered && sim_now_ns(r.sim) < until)
        ck_assert(sim_step(r.sim));
    ck_assert_msg(r.client.checkpoint.answered, "no answer");
}

static const char *checkpoint_make(const char *name)
{
    fake_client_checkpoint(&r.client, name);
    checkpoint_wait();
    ck_assert_msg(r.client.checkpoint.status == 0, "%s", r.client.checkpoint.text);
    return r.client.checkpoint.reply.path;
}

/* Counts the entries of the folder, unfinished ones included, once no errand is left there. */
static uint32_t entries(const char *suffix)
{
    while (r.coord != NULL && !sim_stopped(r.node) && r.coord->fleet.errands.count > 0)
        ck_assert(sim_step(r.sim));
    DIR *d = opendir(folder);
    uint32_t count = 0;
    for (const struct dirent *entry; d != NULL && (entry = readdir(d)) != NULL;) {
        size_t bytes = strlen(entry->d_name), end = strlen(suffix);
        count += entry->d_name[0] != '.' && bytes >= end &&
                 strcmp(entry->d_name + bytes - end, suffix) == 0;
    }
    closedir(d);
    return count;
}

static struct json *manifest_of(const char *path)
{
    void *text;
    size_t bytes;
    struct json *m;
    struct err e = {0};
    ck_assert_msg(coord_folder_disk.get(path, MANIFEST_FILE, 1 << 20, &text, &bytes, &e) == 0, "%s",
                  e.text);
    ck_assert_msg(manifest_parse(text, bytes, &m, &e) == 0, "%s", e.text);
    free(text);
    return m;
}

static void file_get(const char *path, const char *file, void **bytes, size_t *count)
{
    struct err e = {0};
    ck_assert_msg(coord_folder_disk.get(path, file, 1 << 24, bytes, count, &e) == 0, "%s", e.text);
}

static struct coord_progress progress_in(const char *path)
{
    struct coord_progress at;
    void *state;
    size_t bytes;
    file_get(path, MANIFEST_STATE_FILE, &state, &bytes);
    memcpy(&at, (char *)state + 24, sizeof at); /* as in state_change */
    free(state);
    return at;
}

static double report_number(const char *path)
{
    struct json *j;
    ck_assert_int_eq(json_parse(r.client.report, strlen(r.client.report), &j, NULL), 0);
    double x = json_as_number(json_get(j, path), -1);
    json_free(j);
    return x;
}

/* ---- making ---------------------------------------------------------------------------------- */

START_TEST(checkpoint_is_made_while_training_goes_on)
{
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(30);
    const char *path = checkpoint_make("");
    ck_assert(r.coord->slot[0].at.phase == PHASE_TRAIN && batches_all() < 101);
    ck_assert_ptr_nonnull(strstr(path, "/000001"));
    struct json *m = manifest_of(path);
    ck_assert_uint_eq(json_count(json_get(m, "parts")), SHARDS);
    ck_assert_uint_eq(json_count(json_get(m, "lanes")), 2);
    ck_assert_int_eq(json_as_int(json_get(m, "rows"), 0), 20);
    ck_assert_int_eq(json_as_int(json_get(m, "epoch"), 0), 1);
    ck_assert_str_eq(json_as_string(json_get(m, "phase"), ""), "train");
    ck_assert_int_eq(json_as_int(json_get(m, "map.shards"), 0), SHARDS);
    ck_assert_uint_eq(json_count(json_get(m, "map.ranges")), 4); /* two tables, a range a shard */
    json_free(m);
    ck_assert_str_eq(r.client.checkpoint.reply.path, path);
    job_done();
    rows_once(2);
    for (uint32_t s = 0; s < SHARDS; s++)
        for (uint32_t i = 0; i < FAKE_CUTS; i++)
            /* this cut and those of the best epochs are dropped */
            ck_assert_uint_eq(r.shard[s]->kept[i].cut, 0);
    ck_assert_double_eq(report_number("checkpoints_made"), 1);
    ck_assert_double_eq(report_number("checkpoints.0.rows"), 20);
    ck_assert_double_ge(report_number("checkpoints.0.seconds"),
                        report_number("checkpoints.0.held_seconds"));
    ck_assert_uint_eq(entries(".tmp"), 0);
    rig_stop();
}
END_TEST

START_TEST(checkpoint_names_are_checked)
{
    static const struct {
        const char *name;
        int status;
    } bad[] = {{"../out", SHOAL_E_USAGE},
               {"a/b", SHOAL_E_USAGE},
               {"x.tmp", SHOAL_E_USAGE},
               {"mine", SHOAL_E_EXISTS}};

    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(10);
    ck_assert_ptr_nonnull(strstr(checkpoint_make("mine"), "/mine"));
    for (uint32_t i = 0; i < 4; i++) {
        fake_client_checkpoint(&r.client, bad[i].name);
        checkpoint_wait();
        ck_assert_msg(r.client.checkpoint.status == bad[i].status, "%s: %d", bad[i].name,
                      r.client.checkpoint.status);
    }
    ck_assert_ptr_nonnull(strstr(checkpoint_make(""), "/000001"));
    ck_assert_uint_eq(entries(""), 2);
    rig_stop();
}
END_TEST

START_TEST(checkpoint_without_a_folder_or_a_job_is_refused)
{
    rig_start("epochs: 1, consistency: ssp", "", NULL);
    while (r.coord->slot[0].at.phase == PHASE_NONE) /* its folder is looked at */
        ck_assert(sim_step(r.sim));
    fake_client_checkpoint(&r.client, "");
    checkpoint_wait();
    /* nothing has been learnt yet */
    ck_assert_int_eq(r.client.checkpoint.status, SHOAL_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(r.client.checkpoint.text, "nothing to checkpoint"));
    rig_stop();
    rig_start("epochs: 1, consistency: ssp", "", NULL);
    *strstr(r.yaml, "checkpoint:") = 0;
    run_batches(10);
    fake_client_checkpoint(&r.client, "");
    checkpoint_wait();
    ck_assert_int_eq(r.client.checkpoint.status, SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(r.client.checkpoint.text, "checkpoint.dir"));
    rig_stop();
}
END_TEST

/* A checkpoint after the job is done, made by the coordinator that ran it and by a restarted one.
 * It is complete and opens a run of its own, which is dropped on the shards afterwards. */
START_TEST(checkpoint_of_a_job_that_is_done)
{
    char path[LIMIT_PATH];
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    job_done();
    uint64_t run = r.coord->slot[0].at.run;
    for (uint32_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s", checkpoint_make(""));
        ck_assert_ptr_nonnull(strstr(path, i == 0 ? "/000001" : "/000002"));
        ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_DONE);
        ck_assert_uint_gt(r.coord->slot[0].at.run, run);
        run = r.coord->slot[0].at.run;
        struct json *m = manifest_of(path);
        ck_assert_str_eq(json_as_string(json_get(m, "phase"), ""), "digest");
        ck_assert(json_as_bool(json_get(m, "end"), false));
        ck_assert_int_eq(json_as_int(json_get(m, "epoch"), 0), 2);
        ck_assert_int_eq(json_as_int(json_get(m, "rows"), 0), 20);
        json_free(m);
        sim_run(r.sim, sim_now_ns(r.sim) + 2 * SECOND, NULL, NULL);
        for (uint32_t s = 0; s < SHARDS; s++) {
            ck_assert_uint_eq(r.shard[s]->run.run, 0);
            for (uint32_t k = 0; k < FAKE_CUTS; k++)
                ck_assert_uint_eq(r.shard[s]->kept[k].cut, 0);
        }
        coord_kill();
        coord_start();
        sim_run(r.sim, sim_now_ns(r.sim) + 2 * SECOND, NULL, NULL);
    }
    rig_stop();
    rig_start("epochs: 2, consistency: ssp", "", path);
    job_done();
    ck_assert_uint_eq(batches_all(), 0); /* the job is over: only its last evaluation runs again */
    rows_once(2);
    rig_stop();
}
END_TEST

/* A reader gets the map of all tables that were made, even while the next job, which has fewer
 * tables, is in the map and has not made them yet. */
static void map_read(void)
{
    struct coord_job *j = &r.coord->slot[0];
    struct wire q = {.type = WIRE_TYPE_MAP_GET, .u.MAP_GET.reads = true};
    struct coord_ask a = {.request = &q};
    uint64_t numbers = j->space->numbers.word[0];
    wire_reply_to(&q, 0, &a.reply);
    j->space->numbers = table_set_word(1);
    ck_assert_int_eq(coord_made_map_get(j, &a), 0);
    j->space->numbers = table_set_word(numbers);
    ck_assert_uint_gt(j->space->made->tables, 1);
    ck_assert_uint_eq(a.reply.u.MAP_GET_reply.tables_0,
                      (UINT64_C(1) << j->space->made->tables) - 1);
    ck_assert_uint_eq(a.reply.u.MAP_GET_reply.tablet_count, j->space->made->tablets);
}

/* The tables that the servers hold stay readable. */
static void tables_read(void)
{
    struct wire q = {.type = WIRE_TYPE_TABLE_GET, .u.TABLE_GET.table = 0};
    struct coord_ask a = {.request = &q};
    wire_reply_to(&q, 0, &a.reply);
    ck_assert_int_eq(coord_made_table_get(&r.coord->slot[0], &a), 0);
    ck_assert_str_eq(a.reply.u.TABLE_GET_reply.name, "table0");
    map_read();
    char *text;
    size_t bytes;
    ck_assert_int_eq(coord_made_text(r.coord->slot[0].space, true, &text, &bytes, &a.e), 0);
    ck_assert_ptr_nonnull(memmem(text, bytes, "epochs: 2", 9)); /* the job that made them */
    free(text);
}

static void next_job(struct fake_client *client, const char *epochs, uint32_t workers)
{
    memcpy(strstr(r.yaml, "epochs: 2"), epochs, 9);
    memset(client, 0, sizeof *client);
    fake_client_start(client, r.sim, r.yaml, workers);
    client->from = "fleet";
}

/* A checkpoint of the tables alone, after a job that failed (_i 0) or while one waits (1), and by a
 * restarted coordinator (2, 3). No run is open meanwhile. A job can start from its tables; none can
 * resume from it. */
START_TEST(checkpoint_of_tables_whatever_the_last_job_came_to)
{
    static struct fake_client next;
    char path[LIMIT_PATH];
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    if (_i % 2 == 0) {
        run_batches(30);
        coord_end_fail(&r.coord->slot[0], SHOAL_E_DATA, "bad lines");
    } else {
        job_done();
        next_job(&next, "epochs: 3", 9);
        (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND, NULL, NULL);
        ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_WAITING);
    }
    for (uint32_t again = 0; again < 2; again++) {
        (void)sim_run(r.sim, sim_now_ns(r.sim) + 2 * SECOND, NULL, NULL);
        if (_i >= 2 || again == 1) {
            coord_kill();
            coord_start();
            (void)sim_run(r.sim, sim_now_ns(r.sim) + 2 * SECOND, NULL, NULL);
        }
        tables_read();
        (void)snprintf(path, sizeof path, "%s", checkpoint_make(""));
        struct json *m = manifest_of(path);
        ck_assert(manifest_tables(m));
        ck_assert_uint_eq(json_count(json_get(m, "tables")), 2);
        json_free(m);
        ck_assert_uint_eq(progress_in(path).phase, PHASE_TABLES);
        ck_assert_uint_eq(r.coord->slot[0].checkpoint->list->made, 0); /* no job goes back to it */
        (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND, NULL, NULL);
        for (uint32_t s = 0; s < SHARDS; s++) {
            ck_assert_uint_eq(r.shard[s]->run.run, 0);
            for (uint32_t k = 0; k < FAKE_CUTS; k++)
                ck_assert_uint_eq(r.shard[s]->kept[k].cut, 0);
        }
    }
    rig_stop();
    rig_start("epochs: 2, consistency: ssp", "", path);
    ck_assert(sim_run(r.sim, 60 * SECOND, job_over, NULL));
    ck_assert_int_eq(r.client.submit_status, SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(r.client.text, "--start-from"));
    rig_stop();
    rig_start("epochs: 2, consistency: ssp", "", path);
    r.client.start = true;
    while (r.client.submit_status == 0 && r.coord->slot[0].at.from != FROM_STARTED)
        ck_assert(sim_step(r.sim));
    ck_assert_msg(r.client.submit_status == 0, "%s", r.client.text);
    rig_stop();
}
END_TEST

/* Asks for a checkpoint without these servers; returns its status. */
static int without(const char *name, const char *servers)
{
    fake_client_checkpoint_without(&r.client, name, servers);
    checkpoint_wait();
    return r.client.checkpoint.status;
}

/* The disk of a server is lost for good while a job trains: what the others hold is kept, and the
 * manifest tells what is missing. 1: by another coordinator, whose job waits in SETUP. */
START_TEST(checkpoint_without_a_server_that_is_gone)
{
    char gone[LIMIT_NAME], lacks[512];
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(30);
    (void)snprintf(gone, sizeof gone, "%s", r.coord->fleet.members.shard[0].server);
    ck_assert_int_eq(without("early", gone), SHOAL_E_UNAVAILABLE); /* it is there */
    ck_assert_ptr_nonnull(strstr(r.client.checkpoint.text, "take --without away"));
    fake_shard_die(r.shard[strcmp(gone, "server-1") == 0]);
    if (_i == 1) {
        coord_kill();
        coord_start();
    }
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 3 * SECOND, NULL, NULL);
    ck_assert_int_eq(without("plain", ""), _i == 1 ? SHOAL_E_BUSY : SHOAL_E_UNAVAILABLE);
    if (_i == 0)
        ck_assert_ptr_nonnull(strstr(r.client.checkpoint.text, "--without server-"));
    ck_assert_int_eq(without("", gone), SHOAL_E_USAGE);
    ck_assert_int_eq(without("other", "server-7"), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(without("none", "server-0,server-1"), SHOAL_E_UNAVAILABLE);
    ck_assert_msg(without("half", gone) == 0, "%s", r.client.checkpoint.text);
    ck_assert_uint_eq(r.client.checkpoint.reply.rows, 10); /* of one shard */
    struct json *m = manifest_of(r.client.checkpoint.reply.path);
    ck_assert(manifest_tables(m) && manifest_lacks(m, lacks, sizeof lacks));
    ck_assert_str_eq(lacks, r.client.checkpoint.reply.lacks);
    ck_assert_ptr_nonnull(strstr(lacks, gone));
    ck_assert_uint_eq(json_count(json_get(m, "parts")), 1);
    ck_assert_uint_eq(json_count(json_get(m, "missing")), 1);
    ck_assert_int_eq(json_as_int(json_get(m, "missing.0.shard"), -1), 0);
    json_free(m);
    fake_shard_start(r.shard[strcmp(gone, "server-1") == 0], r.sim, gone, 0, 2);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 2 * SECOND, NULL, NULL);
    m = manifest_of(checkpoint_make("whole")); /* the next one leaves nothing out */
    ck_assert(!manifest_lacks(m, lacks, sizeof lacks));
    ck_assert_uint_eq(json_count(json_get(m, "parts")), SHARDS);
    json_free(m);
    rig_stop();
}
END_TEST

/* A waiting job makes its own tables only after the checkpoint of the present tables is made. */
START_TEST(checkpoint_of_tables_is_waited_for)
{
    static struct fake_client next;
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    job_done();
    r.shard[0]->export_how = FAKE_EXPORT_NEVER;
    next_job(&next, "epochs: 3", 2);
    while (r.coord->slot[0].at.phase != PHASE_WAITING || r.coord->slot[0].at.number != next.run)
        ck_assert(sim_step(r.sim));
    fake_client_checkpoint(&r.client, "here");
    for (uint32_t w = 0; w < 2; w++) {
        sim_kill(r.worker[w].node);
        worker_add(w);
    }
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 3 * SECOND, NULL, NULL);
    ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_TABLES);
    r.shard[0]->export_how = 0;
    checkpoint_wait();
    ck_assert_msg(r.client.checkpoint.status == 0, "%s", r.client.checkpoint.text);
    while (next.state != WIRE_JOB_DONE)
        ck_assert(sim_step(r.sim));
    rig_stop();
}
END_TEST

/* Sets `valid` as the job's data.valid. */
static void valid_name(char valid)
{
    char *at = strstr(r.yaml, "valid: [b]");
    ck_assert_ptr_nonnull(at);
    at[8] = valid;
}

/* Returns the text of a part of the report; the caller frees it. */
static char *report_part(const char *path)
{
    struct json *j;
    ck_assert_int_eq(json_parse(r.client.report, strlen(r.client.report), &j, NULL), 0);
    char *text = json_text(json_get(j, path), 0);
    json_free(j);
    ck_assert_ptr_nonnull(text);
    return text;
}

/* _i 2 and 3: the job reaches its limit of minutes within an epoch, with windows of several
 * tasks. */
START_TEST(checkpoint_of_a_job_that_is_done_keeps_its_figures)
{
    static const char *const jobs[] = {"epochs: 2, consistency: ssp", "epochs: 2, consistency: bsp",
                                       "epochs: 14, consistency: ssp, max_minutes: 0.035",
                                       "epochs: 14, consistency: bsp, max_minutes: 0.035"};
    char path[LIMIT_PATH], last[64];
    rig_start(jobs[_i], "", NULL);
    job_done();
    char *windows = report_part("train.windows"), *evaluations = report_part("evaluations");
    double trained = report_number("batches.applied");
    uint32_t points = r.coord->slot[0].trace->curve.count;
    (void)snprintf(last, sizeof last, "evaluations.%u.batch", r.coord->slot[0].valid->count - 1);
    uint32_t count = 0;
    for (const char *at = windows; (at = strstr(at, "\"batch\"")) != NULL; at++)
        count++;
    ck_assert_int_eq(r.coord->slot[0].windows->stride > 1, _i >= 2);
    if (_i % 2 == 0)
        ck_assert_double_eq(report_number(last), trained); /* under bsp some are empty */
    trained = report_number(last);
    (void)snprintf(last, sizeof last, "train.windows.%u.batch", count - 1);
    ck_assert_double_eq(report_number(last), trained);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("end"));
    rig_stop();
    rig_start(jobs[_i], "", path);
    job_done();
    char *again = report_part("train.windows"), *evaluated = report_part("evaluations");
    ck_assert(strcmp(again, windows) == 0);
    ck_assert(strcmp(evaluated, evaluations) == 0);
    ck_assert_uint_eq(r.coord->slot[0].trace->curve.count, points);
    free(again);
    free(evaluated);
    free(windows);
    free(evaluations);
    rig_stop();
}
END_TEST

/* Makes the current job look like one over a growing log, with epoch 1 as its first round. */
static void grows(void)
{
    struct coord_job *j = &r.coord->slot[0];
    struct coord_grow *g = j->grow;
    const struct coord_object_record object = {.rows = 1005, .digest = 42};
    j->spec.data.objects.grow_ms = 1000;
    j->source = &coord_grow_source;
    g->at = (struct coord_grow_record){.job = j->at.number,
                                       .rows = 1005,
                                       .batches = 101,
                                       .list_bytes = 2,
                                       .round = 1,
                                       .objects = 1};
    g->record_bytes = sizeof g->at + 2 + sizeof object;
    char *record = g->record = malloc(g->record_bytes);
    memcpy(record, &g->at, sizeof g->at);
    memcpy(record + sizeof g->at, "a\n", 2);
    memcpy(record + sizeof g->at + 2, &object, sizeof object);
}

/* Returns where lane 0 continues, read from the state of a checkpoint. */
static uint64_t next_batch_in(const char *path)
{
    struct coord_lane_record lane;
    void *state;
    size_t bytes;
    file_get(path, MANIFEST_STATE_FILE, &state, &bytes);
    const char *found = memmem(state, bytes, "lanes", 5);
    ck_assert_ptr_nonnull(found);
    memcpy(&lane, found + 5, sizeof lane);
    free(state);
    return lane.next_batch;
}

/* The run that is opened for the checkpoint has marks of 0. Where more rounds may come, the lanes
 * begin at 0 too. */
START_TEST(checkpoint_of_a_log_that_grows_begins_its_lanes_anew)
{
    rig_start("epochs: 1, consistency: ssp", "", NULL);
    job_done();
    grows();
    ck_assert_uint_gt(r.coord->slot[0].tasks->lane[0].next_batch, 1);
    const char *path = checkpoint_make("");
    ck_assert_uint_eq(progress_in(path).phase, PHASE_GROW);
    ck_assert_uint_eq(next_batch_in(path), 1);
    struct json *m = manifest_of(path);
    ck_assert_int_eq(json_as_int(json_get(m, "lanes.0.next_batch"), 0), 1);
    ck_assert_int_eq(json_as_int(json_get(m, "lanes.0.mark"), -1), 0);
    json_free(m);
    rig_stop();
}
END_TEST

/* Makes the same change in the store. */
static void grows_in_store(void)
{
    static const char was[] = "train: [a]",
                      is[] = "train: [{object: {list: l, open: o}}], objects: {grow: 1s}";
    const struct coord_job *j = &r.coord->slot[0];
    struct err e = {0};
    char key[COORD_KEY_MAX], yaml[4096];
    const char *at = memmem(j->yaml, j->yaml_bytes, was, strlen(was));
    ck_assert_ptr_nonnull(at);
    int bytes = snprintf(yaml, sizeof yaml, "%.*s%s%.*s", (int)(at - j->yaml), j->yaml, is,
                         (int)(j->yaml + j->yaml_bytes - at - strlen(was)), at + strlen(was));
    coord_grow_key(j->at.run, j->at.epoch, key);
    ck_assert_int_eq(coord_store_put(r.store, key, j->grow->record, j->grow->record_bytes, &e), 0);
    ck_assert_int_eq(coord_store_put(r.store, "job", yaml, (size_t)bytes, &e), 0);
}

/* Each checkpoint opens a run of its own. The current round is known under it, too. */
START_TEST(checkpoint_of_a_log_that_grows_by_a_coordinator_that_did_not_see_it)
{
    rig_start("epochs: 1, consistency: ssp", "", NULL);
    job_done();
    grows();
    grows_in_store();
    for (uint32_t i = 0; i < 3; i++) {
        coord_kill();
        coord_start();
        sim_run(r.sim, sim_now_ns(r.sim) + 2 * SECOND, NULL, NULL);
        ck_assert(coord_grow_on(&r.coord->slot[0]));
        ck_assert_uint_eq(progress_in(checkpoint_make("")).phase, PHASE_GROW);
    }
    rig_stop();
}
END_TEST

/* A job that `shoal stop` ends is reported as stopped, and its last checkpoint continues at the
 * exact batch. The stop comes while it trains (0 to 4), in an evaluation (5), or in the test
 * (6). */
START_TEST(stopped_job_makes_its_last_checkpoint)
{
    static const char train[] = "epochs: 2, consistency: ssp";
    char path[LIMIT_PATH], *said;
    rig_start(train, "", NULL);
    if (_i < 5)
        run_batches(5 + 40 * (uint32_t)_i);
    while (_i >= 5 && r.coord->slot[0].at.phase != (_i == 5 ? PHASE_EVAL : PHASE_TEST))
        ck_assert(sim_step(r.sim));
    ck_assert(coord_stop_order(&r.coord->slot[0], 1));
    said = coord_status_text(&r.coord->slot[0]);
    ck_assert_ptr_nonnull(strstr(said, "its last checkpoint is made first"));
    free(said);
    if (_i == 2) { /* the order is stored */
        coord_kill();
        coord_start();
        r.client.state = WIRE_JOB_NONE;
    }
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 20 * SECOND, job_over, NULL));
    ck_assert_str_eq(coord_phase_name(&r.coord->slot[0]), "stopped");
    (void)snprintf(path, sizeof path, "%s/000001", folder);
    ck_assert_ptr_nonnull(strstr(r.coord->slot[0].at.text, path));
    ck_assert(!manifest_tables(manifest_of(path)));
    ck_assert_uint_eq(entries(""), 1);
    rig_stop();
    rig_start(train, "", path);
    job_done();
    rows_once(2);
    rig_stop();
}
END_TEST

/* The job ends at once when it is asked a second time (0), before it trains (1), while a server is
 * away (2), and without a folder (3). A checkpoint that cannot be made does not delay the end for
 * ever (4). */
START_TEST(stopped_job_ends_without_a_checkpoint)
{
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(_i == 1 ? 0 : 20);
    if (_i == 1)
        while (r.coord->slot[0].at.phase != PHASE_SETUP)
            ck_assert(sim_step(r.sim));
    if (_i == 2)
        r.coord->slot[0].setup.shard[0].done = false;
    if (_i == 3)
        r.coord->slot[0].spec.checkpoint.dir[0] = 0;
    if (_i == 4)
        r.coord->slot[0].checkpoint->end_failed = 100;
    ck_assert(coord_stop_order(&r.coord->slot[0], 1) == (_i == 0 || _i == 4));
    ck_assert(!coord_stop_order(&r.coord->slot[0], 2));
    if (_i == 4) {
        ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 2 * SECOND, job_over, NULL));
        ck_assert_ptr_nonnull(strstr(r.coord->slot[0].at.text, "it has no last checkpoint"));
        ck_assert_str_eq(coord_phase_name(&r.coord->slot[0]), "stopped");
    }
    ck_assert_uint_eq(entries(""), 0);
    rig_stop();
}
END_TEST

/* The job is asked to stop while it evaluates within a round: the resumed job trains the rest of
 * the round. */
START_TEST(checkpoint_of_the_end_within_a_round_is_gone_on_with)
{
    char path[LIMIT_PATH];
    rig_start("epochs: 1, consistency: ssp", ", at_end: true}\nevaluate: {every_batches: 24", NULL);
    while (r.coord->slot[0].at.phase != PHASE_EVAL)
        ck_assert(sim_step(r.sim));
    ck_assert(coord_epoch_open(&r.coord->slot[0]));
    grows();
    ck_assert(coord_stop_order(&r.coord->slot[0], 1));
    job_done();
    double examples = report_number("examples");
    ck_assert_double_lt(examples, 1005);
    ck_assert_double_eq(report_number("checkpoints_made"), 1);
    (void)snprintf(path, sizeof path, "%s/000001", folder);
    struct json *m = manifest_of(path);
    ck_assert_str_eq(json_as_string(json_get(m, "phase"), ""), "train");
    ck_assert_double_eq(json_as_number(json_get(m, "examples"), 0), examples);
    json_free(m);
    m = manifest_of(checkpoint_make("")); /* a later one does not know the place in the round */
    ck_assert(manifest_tables(m));
    json_free(m);
    rig_stop();
    rig_start("epochs: 1, consistency: ssp", "", path);
    job_done();
    rows_once(1);
    rig_stop();
}
END_TEST

/* The coordinator dies when the checkpoint of the job's end is made but the job is not yet done:
 * the restarted one makes no second checkpoint of the same end. */
START_TEST(checkpoint_of_the_end_is_made_once)
{
    rig_start("epochs: 1, consistency: ssp", ", at_end: true", NULL);
    while (!r.coord->slot[0].checkpoint->end_made)
        ck_assert(sim_step(r.sim));
    ck_assert_uint_ne(r.coord->slot[0].at.phase, PHASE_DONE);
    coord_kill();
    coord_start();
    job_done();
    ck_assert_uint_eq(entries(""), 1);
    ck_assert_double_eq(report_number("checkpoints_made"), 1);
    rig_stop();
}
END_TEST

/* A checkpoint that fails costs nothing but itself, and the next job waits until it is over. */
START_TEST(checkpoint_of_a_job_that_is_done_may_fail)
{
    rig_start("epochs: 1, consistency: ssp", "", NULL);
    job_done();
    fake_client_checkpoint(&r.client, "");
    while (r.coord->slot[0].checkpoint->state < CHECKPOINT_OPENING)
        ck_assert(sim_step(r.sim));
    ck_assert(coord_checkpoint_opening(&r.coord->slot[0]));
    struct coord_submit submit = {r.yaml, strlen(r.yaml), 0, "", false};
    uint64_t run;
    struct err e;
    ck_assert_int_eq(coord_submit(&r.coord->slot[0], 99, &submit, NULL, &run, &e), SHOAL_E_BUSY);
    fake_shard_die(r.shard[0]);
    checkpoint_wait();
    ck_assert_int_eq(r.client.checkpoint.status, SHOAL_E_UNAVAILABLE);
    fake_client_checkpoint(&r.client, "");
    checkpoint_wait();
    ck_assert_int_eq(r.client.checkpoint.status, SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(r.client.checkpoint.text, "is away"));
    ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_DONE);
    ck_assert_uint_eq(entries(""), 0);
    rig_stop();
}
END_TEST

START_TEST(checkpoint_by_batches_keeps_the_newest)
{
    rig_start("epochs: 4, consistency: ssp", ", every_batches: 40, keep: 2", NULL);
    run_batches(20);
    (void)checkpoint_make("mine");
    job_done();
    rows_once(4);
    double made = report_number("checkpoints_made");
    ck_assert_msg(made >= 6 && made <= 11, "%g", made); /* 404 batches */
    ck_assert_uint_eq(entries(""), 3);                  /* one has a name of its own */
    ck_assert_uint_eq(entries("mine"), 1);
    rig_stop();
}
END_TEST

/* Named checkpoints are kept by the order in which they were made. One with a reader is passed over
 * until the reader is gone. */
START_TEST(checkpoint_named_ones_are_kept_by_their_number)
{
    int hold = COORD_FOLDER_NONE;
    rig_start("epochs: 4, consistency: ssp", ", every_batches: 40, keep: 1, keep_named: 2", NULL);
    run_batches(20);
    ck_assert_int_eq(coord_folder_disk.hold(checkpoint_make("zeta"), &hold, NULL), 0);
    for (uint32_t i = 0; i < 4; i++) {
        static const char *const names[] = {"beta", "gamma", "alpha", "delta"};
        run_batches(60 * (i + 1));
        (void)checkpoint_make(names[i]);
        ck_assert_uint_eq(entries("zeta"), i < 3);
        if (i == 2)
            coord_folder_disk.let_go(&hold);
    }
    ck_assert(entries("alpha") == 1 && entries("delta") == 1 && entries("mma") == 0);
    job_done();
    ck_assert_uint_eq(entries(""), 3);
    rig_stop();
}
END_TEST

/* A checkpoint that lacks a server's rows takes no place of one that has all. */
START_TEST(checkpoint_named_ones_that_lack_rows_are_counted_apart)
{
    static const char *const names[] = {"part-a", "part-b", "part-c"};
    char gone[LIMIT_NAME];
    rig_start("epochs: 4, consistency: ssp", ", keep_named: 1", NULL);
    run_batches(20);
    (void)checkpoint_make("whole");
    job_done();
    (void)snprintf(gone, sizeof gone, "%s", r.coord->fleet.members.shard[0].server);
    fake_shard_die(r.shard[strcmp(gone, "server-1") == 0]);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 3 * SECOND, NULL, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_msg(without(names[i], gone) == 0, "%s", r.client.checkpoint.text);
        (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND, NULL, NULL);
        ck_assert_uint_eq(entries("whole"), 1);
    }
    ck_assert(entries("part-a") == 0 && entries("part-b") == 0 && entries("part-c") == 1);
    fake_shard_start(r.shard[strcmp(gone, "server-1") == 0], r.sim, gone, 0, 2);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 2 * SECOND, NULL, NULL);
    (void)checkpoint_make("next");
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND, NULL, NULL);
    ck_assert(entries("whole") == 0 && entries("part-c") == 1 && entries("next") == 1);
    rig_stop();
}
END_TEST

/* A job of the same name in another space neither counts nor removes them. */
START_TEST(checkpoint_of_another_space_stays)
{
    rig_start("epochs: 4, consistency: ssp", ", keep_named: 1", NULL);
    run_batches(20);
    (void)checkpoint_make("mine");
    job_done();
    rig_stop();
    rig_start("epochs: 4, consistency: ssp", ", keep_named: 1}\nspace: other\n#", NULL);
    run_batches(20);
    (void)checkpoint_make("other-a");
    (void)checkpoint_make("other-b");
    job_done();
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND, NULL, NULL);
    ck_assert(entries("mine") == 1 && entries("other-a") == 0 && entries("other-b") == 1);
    rig_stop();
}
END_TEST

/* When two clusters shared a job's name and a folder, each removed the other's checkpoints. */
START_TEST(checkpoint_folder_of_another_run_is_refused)
{
    struct coord_folder_claim other = {.fd = 0};
    ck_assert_int_eq(coord_folder_disk.claim(folder, "t", _i == 0, &other, NULL), 0);
    rig_start("epochs: 4, consistency: ssp", ", every_batches: 40, keep: 2", NULL);
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 120 * SECOND, job_over, NULL));
    ck_assert_int_eq(r.client.submit_status, SHOAL_E_CANTCREATE);
    ck_assert_ptr_nonnull(
        strstr(r.client.text, "checkpoint.dir: another coordinator trains a job"));
    rig_stop();
    coord_folder_disk.disclaim(&other);
    rig_start("epochs: 4, consistency: ssp", ", every_batches: 40, keep: 2", NULL);
    run_batches(20);
    ck_assert_int_eq(coord_folder_disk.claim(folder, "t", false, &other, NULL), SHOAL_E_CANTCREATE);
    job_done();
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND, NULL, NULL);
    ck_assert_int_eq(coord_folder_disk.claim(folder, "t", true, &other, NULL), 0); /* over */
    coord_folder_disk.disclaim(&other);
    rig_stop();
}
END_TEST

/* Another coordinator has taken the folder while this one was away: the job goes on, and removes no
 * checkpoint before it has the folder back. */
START_TEST(checkpoint_folder_that_another_took_loses_none)
{
    struct coord_folder_claim other = {.fd = 0};
    rig_start("epochs: 8, consistency: ssp", ", every_batches: 40, keep: 1", NULL);
    run_batches(20);
    coord_kill();
    ck_assert_int_eq(coord_folder_disk.claim(folder, "t", true, &other, NULL), 0);
    coord_start();
    uint32_t from = batches_all();
    run_batches(from + 200);
    uint32_t kept = entries("");
    ck_assert_uint_ge(kept, 3);
    coord_folder_disk.disclaim(&other);
    job_done();
    ck_assert_uint_eq(entries(""), 1);
    rig_stop();
}
END_TEST

START_TEST(checkpoint_by_minutes)
{
    rig_start("epochs: 4, consistency: ssp", ", every_minutes: 0.005, keep: 0", NULL);
    job_done();
    double made = report_number("checkpoints_made"), seconds = report_number("seconds");
    ck_assert_msg(made >= 2 && made <= seconds / 0.3, "%g in %g s", made, seconds);
    ck_assert_uint_eq(entries(""), (uint32_t)made);
    rig_stop();
}
END_TEST

/* Cuts of best epochs and checkpoints requested at every moment: each waits for the other. */
START_TEST(checkpoint_and_best_epochs_do_not_disturb_each_other)
{
    rig_start("epochs: 5, consistency: ssp, early_stop: {metric: auc, patience: 2}", "", NULL);
    uint32_t made = 0;
    while (!job_over(NULL)) {
        if (!r.client.checkpoint.asked || r.client.checkpoint.answered) {
            made += r.client.checkpoint.answered && r.client.checkpoint.status == 0;
            fake_client_checkpoint(&r.client, "");
        }
        ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + SECOND / 25, job_over, NULL) ||
                  sim_now_ns(r.sim) < 200 * SECOND);
    }
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
    rows_once(5);
    ck_assert_uint_gt(made, 10);
    ck_assert_double_eq(report_number("cuts"), 4);
    rig_stop();
}
END_TEST

/* ---- what goes wrong ------------------------------------------------------------------------- */

/* A shard does not answer for five seconds: the other shards hold their pushes for a second, then
 * go on until the shard writes rows before the next attempt, and then hold again for a second at
 * most. */
START_TEST(checkpoint_holds_pushes_for_a_second_at_most)
{
    uint64_t longest = 0, shortest_open = UINT64_MAX, since = 0, until, holds = 0;
    r.lease_ms = 10000;
    rig_start("epochs: 4, consistency: async", "", NULL);
    run_batches(20);
    fake_client_checkpoint(&r.client, "");
    while (r.coord->slot[0].cut->state != CUT_HOLDING)
        ck_assert(sim_step(r.sim));
    sim_pause(r.shard[1]->node, sim_now_ns(r.sim) + 5 * SECOND);
    bool held = false;
    for (until = sim_now_ns(r.sim) + 8 * SECOND, since = sim_now_ns(r.sim);
         sim_now_ns(r.sim) < until;) {
        ck_assert(sim_step(r.sim));
        uint64_t now = sim_now_ns(r.sim);
        if ((r.shard[0]->held != 0) == held)
            continue;
        if (held && now - since > longest)
            longest = now - since;
        if (!held && holds++ > 0 && now - since < shortest_open)
            shortest_open = now - since;
        held = !held;
        since = now;
    }
    ck_assert_uint_ge(holds, 2);
    ck_assert_uint_le(longest, SECOND + SECOND / 10);
    ck_assert_uint_ge(shortest_open, SECOND * 9 / 10);
    checkpoint_wait();
    ck_assert_msg(r.client.checkpoint.status == 0, "%s", r.client.checkpoint.text);
    /* the attempt that succeeded held pushes for no longer */
    ck_assert(r.coord->slot[0].checkpoint->list->record[0].held_seconds < 1.1);
    job_done();
    rows_once(4);
    rig_stop();
}
END_TEST

START_TEST(checkpoint_that_a_shard_cannot_write_is_given_up)
{
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(20);
    r.shard[1]->export_how = FAKE_EXPORT_FAILS;
    fake_client_checkpoint(&r.client, "");
    checkpoint_wait();
    ck_assert_int_eq(r.client.checkpoint.status, SHOAL_E_NO_SPACE);
    ck_assert_ptr_nonnull(strstr(r.client.checkpoint.text, "server-1"));
    ck_assert_uint_eq(entries(""), 0);
    r.shard[1]->export_how = FAKE_EXPORT_WELL;
    (void)checkpoint_make("");
    job_done();
    rows_once(2);
    ck_assert_double_eq(report_number("checkpoints_failed"), 1);
    rig_stop();
}
END_TEST

/* ---- a folder that hangs --------------------------------------------------------------------- */

/* True when the status says that the folder does not answer. */
static bool hang_told(void)
{
    char *text = coord_status_text(&r.coord->slot[0]);
    bool told = strstr(text, "checkpoint folder ") != NULL && strstr(text, folder) != NULL &&
                strstr(text, "has not answered for") != NULL;
    free(text);
    return told;
}

static void slowly(void)
{
    for (uint32_t w = 0; w < 2; w++)
        r.worker[w].step_ns = SECOND / 2;
}

/* A hanging folder used to stop the coordinator, and leases ran out. In the second case both of its
 * errands hang: the one before the folder exists, and the one before it gets its name. */
START_TEST(checkpoint_folder_that_hangs_stops_nothing_else)
{
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    slowly();
    run_batches(10);
    if (_i == 1)
        r.shard[1]->export_how = FAKE_EXPORT_NEVER;
    fake_client_checkpoint(&r.client, "");
    if (_i == 1) {
        while (r.coord->slot[0].checkpoint->state != CHECKPOINT_EXPORTING)
            ck_assert(sim_step(r.sim));
        r.shard[1]->export_how = FAKE_EXPORT_WELL;
    }
    sim_wedge(r.node, sim_now_ns(r.sim) + 60 * SECOND);
    ck_assert(!sim_run(r.sim, sim_now_ns(r.sim) + 10 * SECOND, job_over, NULL));
    ck_assert(hang_told());
    ck_assert_int_eq(r.coord->slot[0].checkpoint->state,
                     _i == 0 ? CHECKPOINT_MAKING : CHECKPOINT_NAMING);
    uint32_t before = batches_all();
    ck_assert(!sim_run(r.sim, sim_now_ns(r.sim) + 10 * SECOND, job_over, NULL));
    ck_assert_uint_ge(batches_all(), before + 20);
    ck_assert_uint_eq(r.coord->slot[0].at.worker_deaths, 0);
    ck_assert(!sim_run(r.sim, sim_now_ns(r.sim) + 45 * SECOND, job_over, NULL));
    checkpoint_wait();
    ck_assert_msg(r.client.checkpoint.status == 0, "%s", r.client.checkpoint.text);
    ck_assert(!hang_told());
    job_done();
    rows_once(2);
    ck_assert(entries("") == 1 && entries(".tmp") == 0);
    rig_stop();
}
END_TEST

/* A folder that never answers: the first errand is given up after its limit, later ones at once,
 * and the job ends meanwhile, even one that wants a checkpoint of its end. Once the folder answers,
 * no unfinished entry is left. */
START_TEST(checkpoint_that_waits_for_a_folder_that_hangs_has_an_end)
{
    rig_start("epochs: 4, consistency: ssp", ", every_batches: 20, at_end: true", NULL);
    slowly();
    run_batches(10);
    uint64_t since = sim_now_ns(r.sim);
    sim_wedge(r.node, since + 3600 * SECOND);
    fake_client_checkpoint(&r.client, "mine");
    while (!r.client.checkpoint.answered && sim_now_ns(r.sim) < since + 150 * SECOND)
        ck_assert(sim_step(r.sim));
    ck_assert_int_eq(r.client.checkpoint.status, SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(r.client.checkpoint.text, "has not answered for 120 s"));
    fake_client_checkpoint(&r.client, "mine");
    checkpoint_wait();
    ck_assert_ptr_nonnull(strstr(r.client.checkpoint.text, "has not answered for 120 s"));
    job_done();
    rows_once(4);
    ck_assert_int_eq(r.client.status, SHOAL_E_IO);
    ck_assert_ptr_nonnull(strstr(r.client.text, "has not answered for"));
    ck_assert_uint_lt(sim_now_ns(r.sim), since + 1800 * SECOND);
    ck_assert_uint_le(r.coord->fleet.errands.count, 4);
    ck_assert_uint_eq(entries(""), 0); /* waits until it answers */
    rig_stop();
}
END_TEST

/* A client that submits a job is told that its folder hangs. When the folder answers, the job
 * begins once if its client still asks (_i 0), and never if the client is gone (1). */
START_TEST(checkpoint_folder_that_hangs_is_told_to_who_submits)
{
    bool heard = false;
    rig_start("epochs: 1, consistency: ssp", "", NULL);
    sim_wedge(r.node, 40 * SECOND);
    while (sim_now_ns(r.sim) < 39 * SECOND) {
        ck_assert(sim_step(r.sim));
        heard = heard || strstr(r.client.text, "has not answered for 8 s: submit again") != NULL;
    }
    ck_assert(heard && r.coord->slot[0].at.phase == PHASE_NONE && hang_told());
    if (_i == 0) {
        job_done();
        rows_once(1);
        ck_assert(r.coord->slot[0].checkpoint->claim.path[0] == 0 && r.coord->look == NULL);
    } else {
        sim_kill(r.client.node);
        (void)sim_run(r.sim, 30 * SECOND + SECOND, NULL, NULL);
        sim_wedge(r.node, 60 * SECOND);
        (void)sim_run(r.sim, 70 * SECOND, NULL, NULL);
        ck_assert(r.coord->slot[0].at.phase == PHASE_NONE && r.coord->look == NULL);
        struct coord_folder_claim other = {.fd = 0};
        ck_assert_int_eq(coord_folder_disk.claim(folder, "t", true, &other, NULL), 0);
        coord_folder_disk.disclaim(&other);
    }
    rig_stop();
}
END_TEST

START_TEST(checkpoint_ends_with_the_shard_that_dies)
{
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(20);
    r.shard[1]->export_how = FAKE_EXPORT_NEVER;
    fake_client_checkpoint(&r.client, "");
    ck_assert(!sim_run(r.sim, sim_now_ns(r.sim) + SECOND / 10, job_over, NULL));
    ck_assert_int_eq(r.coord->slot[0].checkpoint->state, CHECKPOINT_EXPORTING);
    ck_assert_uint_eq(entries(".tmp"), 1);
    sim_kill(r.shard[1]->node);
    if (_i == 0) /* _i 0: it comes back at once; else its lease runs out first */
        fake_shard_start(r.shard[1], r.sim, "server-1", 0, 2);
    checkpoint_wait();
    ck_assert_int_eq(r.client.checkpoint.status, SHOAL_E_UNAVAILABLE);
    ck_assert_uint_eq(entries(""), 0);
    if (_i == 1)
        fake_shard_start(r.shard[1], r.sim, "server-1", 0, 2);
    r.shard[1]->export_how = FAKE_EXPORT_WELL;
    job_done();
    rows_once(2);
    rig_stop();
}
END_TEST

/* The coordinator is killed while it makes a checkpoint: the next start removes the unfinished
 * folder, and the shards drop the cut. */
START_TEST(checkpoint_of_a_dead_coordinator_is_removed)
{
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(20);
    r.shard[1]->export_how = FAKE_EXPORT_NEVER;
    fake_client_checkpoint(&r.client, "");
    ck_assert(!sim_run(r.sim, sim_now_ns(r.sim) + SECOND / 10, job_over, NULL));
    char left[128];
    int hold;
    (void)snprintf(left, sizeof left, "%s/000001.00beef.tmp", folder);
    coord_kill(); /* its lock is gone; a folder as kill -9 would leave it: */
    ck_assert_int_eq(coord_folder_disk.begin(left, &hold, NULL), 0);
    coord_folder_disk.let_go(&hold);
    ck_assert_uint_eq(entries(".tmp"), 1);
    r.client.checkpoint.asked = false;
    r.shard[1]->export_how = FAKE_EXPORT_WELL;
    coord_start();
    ck_assert_uint_eq(entries(""), 0);
    job_done();
    rows_once(2);
    for (uint32_t s = 0; s < SHARDS; s++)
        for (uint32_t i = 0; i < FAKE_CUTS; i++)
            ck_assert_uint_eq(r.shard[s]->kept[i].cut, 0);
    rig_stop();
}
END_TEST

/* ---- going on -------------------------------------------------------------------------------- */

/* A checkpoint at every place of two epochs; the cluster is discarded, and another one
 * continues. */
static bool has_cut(const struct fake_shard *s, uint64_t cut)
{
    for (uint32_t i = 0; i < FAKE_CUTS; i++)
        if (s->kept[i].cut == cut)
            return true;
    return false;
}

/* The coordinator dies after it gave a cut up and before the shards were told. The restarted one
 * tells them, but keeps the cut of the best epoch. */
START_TEST(checkpoint_cuts_that_were_given_up_go_at_registration)
{
    rig_start("epochs: 3, consistency: ssp, early_stop: {metric: auc, patience: 2}", "", NULL);
    while (r.coord->slot[0].at.best_cut == 0 || r.coord->slot[0].at.phase != PHASE_TRAIN)
        ck_assert(sim_step(r.sim));
    uint64_t best = r.coord->slot[0].at.best_cut, lost = r.coord->fleet.counters.next_cut++,
             later = lost + 5;
    ck_assert(coord_put(&r.coord->fleet, "counters", &r.coord->fleet.counters,
                        sizeof r.coord->fleet.counters));
    r.shard[0]->kept[2].cut = lost;
    r.shard[0]->kept[3].cut = later; /* never drawn: not this coordinator's business */
    ck_assert(has_cut(r.shard[0], best));
    coord_kill();
    coord_start();
    while (!r.coord->slot[0].setup.shard[0].done)
        ck_assert(sim_step(r.sim));
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND / 20, NULL, NULL);
    ck_assert_uint_eq(r.coord->slot[0].at.best_cut, best);
    ck_assert(has_cut(r.shard[0], best));
    ck_assert(!has_cut(r.shard[0], lost));
    ck_assert(has_cut(r.shard[0], later));
    job_done();
    rig_stop();
}
END_TEST

/* A server is away for four hours, with a checkpoint due each minute: no checkpoint begins, no
 * questions pile up, and the server is accepted when it returns. */
START_TEST(checkpoint_waits_for_a_server_that_is_away)
{
    rig_start("epochs: 2, consistency: ssp", ", every_minutes: 1", NULL);
    run_batches(20);
    sim_kill(r.shard[1]->node);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 4 * 3600 * SECOND, NULL, NULL);
    ck_assert_uint_lt(r.coord->fleet.calls.count, 20);
    ck_assert_uint_le(r.coord->slot[0].checkpoint->list->failed, 1);
    fake_shard_start(r.shard[1], r.sim, "server-1", 0, 2);
    job_done();
    rig_stop();
}
END_TEST

/* Questions to all shards do not fill the call table while one shard is away. It is told of the
 * cuts when it comes back. */
START_TEST(checkpoint_cuts_given_up_ask_nothing_of_who_is_away)
{
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(20);
    sim_kill(r.shard[1]->node);
    r.shard[1]->kept[3].cut = r.coord->fleet.counters.next_cut - 1;
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 20 * SECOND, NULL, NULL);
    for (uint32_t i = 0; i < 3000; i++)
        coord_cut_drop(&r.coord->slot[0], r.coord->fleet.counters.next_cut - 1);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 20 * SECOND, NULL, NULL);
    ck_assert_uint_lt(r.coord->fleet.calls.count, 20);
    fake_shard_start(r.shard[1], r.sim, "server-1", 0, 2);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND, NULL, NULL);
    ck_assert_uint_eq(r.shard[1]->kept[3].cut, 0);
    job_done();
    rig_stop();
}
END_TEST

START_TEST(checkpoint_goes_on_at_the_very_batch)
{
    static const char *const modes[] = {"epochs: 2, consistency: async",
                                        "epochs: 2, consistency: ssp",
                                        "epochs: 2, consistency: bsp"};
    char path[LIMIT_PATH];
    rig_start(modes[_i % 3], "", NULL);
    run_batches(7 + 19 * (uint32_t)_i);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("here"));
    rig_stop();
    rig_start(modes[_i % 3], "", path);
    job_done();
    rows_once(2);
    for (uint32_t s = 0; s < SHARDS; s++)
        ck_assert_uint_eq(r.shard[s]->loads, 1);
    ck_assert_uint_lt(batches_all(), 202 + 16 - 7 - 19 * (uint32_t)_i);
    ck_assert_double_eq(report_number("examples"), 2 * 1005);
    ck_assert_double_eq(report_number("epochs.1.train_logloss"), 0.5);
    ck_assert_double_gt(report_number("test.auc"), 0.5);
    rig_stop();
}
END_TEST

/* No lane is held in an evaluation; the next epoch follows. */
START_TEST(checkpoint_of_an_evaluation_goes_on)
{
    char path[LIMIT_PATH];
    rig_start("epochs: 3, consistency: ssp", "", NULL);
    while (r.coord->slot[0].at.phase != PHASE_EVAL)
        ck_assert(sim_step(r.sim));
    (void)snprintf(path, sizeof path, "%s", checkpoint_make(""));
    struct json *m = manifest_of(path);
    ck_assert_str_eq(json_as_string(json_get(m, "phase"), ""), "eval");
    json_free(m);
    rig_stop();
    rig_start("epochs: 3, consistency: ssp", "", path);
    job_done();
    rows_once(3);
    ck_assert_double_gt(report_number("epochs.0.valid.auc"), 0.4);
    rig_stop();
}
END_TEST

/* Early stopping continues with the best epoch so far and the number of misses since. That epoch's
 * tables are not in the checkpoint, so the best of the later epochs is kept. With another measure
 * or other data the count begins anew. */
START_TEST(checkpoint_goes_on_with_the_best_epoch)
{
    static const double quality[][FAKE_EPOCHS] = {{0, 0.6, 0.9, 0.7, 0.65, 0.6, 0.55},
                                                  {0, 0.6, 0.8, 0.7, 0.95, 0.6, 0.55, 0.5}};
    static const char *const after[] = {"auc", "auc", "logloss"};
    static const uint32_t epochs[] = {4, 6, 5}, best[] = {2, 4, 3}, final[] = {3, 4, 3};
    char path[LIMIT_PATH], train[160];
    r.quality = quality[_i == 1];
    rig_start("epochs: 10, consistency: ssp, early_stop: {metric: auc, patience: 2, lr_decay: 0.5}",
              "", NULL);
    while (r.coord->slot[0].at.epoch < 3 || r.coord->slot[0].at.phase != PHASE_TRAIN)
        ck_assert(sim_step(r.sim));
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("here"));
    ck_assert_uint_eq(r.coord->slot[0].at.epoch, 3);
    rig_stop();
    r.quality = quality[_i == 1];
    (void)snprintf(
        train, sizeof train,
        "epochs: 10, consistency: ssp, early_stop: {metric: %s, patience: 2, lr_decay: 0.5}",
        after[_i]);
    rig_start(train, "", path);
    job_done();
    ck_assert_uint_eq(r.coord->slot[0].at.epoch, epochs[_i]);
    ck_assert_double_eq(report_number("best_epoch"), best[_i]);
    ck_assert_double_eq(report_number("final_epoch"), final[_i]);
    char measured[40]; /* the report's top figures belong to the tables that are kept */
    (void)snprintf(measured, sizeof measured, "epochs.%u.valid.auc", final[_i] - 1);
    ck_assert_double_eq(report_number("valid.auc"), report_number(measured));
    /* if these are not the tables of the best epoch, the report says so */
    ck_assert_int_eq(strstr(r.client.report, "the tables of epoch 2, the best, are not there") !=
                         NULL,
                     best[_i] != final[_i]);
    ck_assert_uint_eq(r.shard[0]->restores, 1);
    ck_assert_double_eq_tol(r.coord->slot[0].at.lr_scale, _i == 1 ? 0.125 : 0.25, 1e-12);
    rig_stop();
}
END_TEST

/* The coordinator dies while the new cluster loads, or later: the checkpoint is loaded once, and
 * the job continues. */
START_TEST(checkpoint_restore_survives_the_coordinator)
{
    char path[LIMIT_PATH];
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(120);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("here"));
    rig_stop();
    rig_start("epochs: 2, consistency: ssp", "", path);
    for (uint32_t i = 0; i < 6; i++) {
        static const uint32_t phases[] = {PHASE_WAITING, PHASE_INDEX, PHASE_TABLES,
                                          PHASE_SETUP,   PHASE_LANES, PHASE_TRAIN};
        uint64_t until = sim_now_ns(r.sim) + 20 * SECOND;
        while (r.coord->slot[0].at.phase != phases[i] && sim_now_ns(r.sim) < until &&
               r.coord->slot[0].at.phase < PHASE_TRAIN)
            ck_assert(sim_step(r.sim));
        if (r.coord->slot[0].at.number == 0)
            continue;
        coord_kill();
        coord_start();
    }
    job_done();
    rows_once(2);
    for (uint32_t s = 0; s < SHARDS; s++)
        ck_assert_uint_eq(r.shard[s]->loads, 1);
    rig_stop();
}
END_TEST

/* ---- what the job asked for and did not get ---- */

static int put_nothing(const char *path, const char *file, const void *bytes, size_t count,
                       struct err *e)
{
    (void)file;
    (void)bytes;
    return err_set(e, SHOAL_E_NO_SPACE, "cannot write %zu bytes in %s", count, path);
}

static int begin_none(const char *path, int *hold, struct err *e)
{
    (void)hold;
    return err_set(e, SHOAL_E_CANTCREATE, "cannot make %s", path);
}

/* A checkpoint folder without room is reported before the job trains, and is left as it was. */
START_TEST(checkpoint_folder_without_room_is_refused_with_the_job)
{
    struct coord_folder_ops full = coord_folder_disk;
    full.put = put_nothing;
    rig_start("epochs: 1, consistency: ssp", ", at_end: true", NULL);
    r.coord->fleet.options.folder = &full;
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 10 * SECOND, job_over, NULL));
    ck_assert_int_eq(r.client.submit_status, SHOAL_E_NO_SPACE);
    ck_assert_ptr_nonnull(strstr(r.client.text, "checkpoint.dir: cannot write"));
    ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_NONE);
    ck_assert_uint_eq(entries(".tmp"), 0);
    r.coord->fleet.options.folder = &coord_folder_disk;
    rig_stop();
}
END_TEST

/* The job is done and its tables are there; its status says that the checkpoint is missing. */
START_TEST(checkpoint_of_the_end_that_cannot_be_made_is_the_jobs_status)
{
    struct coord_folder_ops none = coord_folder_disk;
    none.begin = begin_none;
    rig_start("epochs: 1, consistency: ssp", ", at_end: true", NULL);
    run_batches(20);
    r.coord->fleet.options.folder = &none;
    job_done();
    ck_assert_int_eq(r.client.status, SHOAL_E_CANTCREATE);
    ck_assert_ptr_nonnull(strstr(r.client.text, "the job is done, but its checkpoint of the end"));
    ck_assert_ptr_nonnull(strstr(r.client.text, "cannot make"));
    ck_assert_ptr_nonnull(
        strstr(r.client.report, "the job is done, but its checkpoint of the end"));
    r.coord->fleet.options.folder = &coord_folder_disk;
    coord_kill(); /* a restarted coordinator reports the same */
    coord_start();
    ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_DONE);
    ck_assert_int_eq(r.coord->slot[0].at.status, SHOAL_E_CANTCREATE);
    rig_stop();
}
END_TEST

/* ---- what the status tells ---- */

static uint64_t wall_s;

static uint64_t wall_moved(void)
{
    return wall_s;
}

static struct json *status_json(void)
{
    char *text = coord_status_text(&r.coord->slot[0]);
    struct json *j;
    ck_assert_int_eq(json_parse(text, strlen(text), &j, NULL), 0);
    free(text);
    return j;
}

static double age_told(void)
{
    struct json *j = status_json();
    ck_assert_str_eq(json_as_string(json_get(j, "checkpoint.name"), ""), "one");
    ck_assert_double_gt(json_as_number(json_get(j, "checkpoint.bytes"), 0), 0);
    double age = json_as_number(json_get(j, "checkpoint.age_seconds"), -1);
    json_free(j);
    return age;
}

static void failure_told(void)
{
    struct json *j = status_json();
    ck_assert_int_ge(json_as_int(json_get(j, "checkpoints_failed"), 0), 1);
    ck_assert_ptr_nonnull(strstr(json_as_string(json_get(j, "checkpoint_failure"), ""), "cannot "));
    json_free(j);
}

/* The age is measured by the monotonic clock. Only over a restart of the coordinator is the wall
 * clock used. */
START_TEST(checkpoint_newest_and_last_failure_are_told)
{
    struct coord_folder_ops ops = coord_folder_disk;
    ops.wall_s = wall_moved;
    wall_s = 1700000000;
    r.folder = &ops;
    rig_start("epochs: 1, consistency: ssp", ", every_minutes: 0.2", NULL);
    for (uint32_t w = 0; w < 2; w++)
        r.worker[w].step_ns = 20 * SECOND;
    run_batches(2);
    (void)checkpoint_make("one");
    ops.begin = begin_none;
    wall_s += 5000; /* it was set; the reported age does not move */
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 30 * SECOND, job_over, NULL);
    ck_assert_double_eq_tol(age_told(), 30, 2);
    failure_told();
    coord_kill();
    coord_start(); /* by the wall clock: the other one is lost */
    ck_assert_double_eq_tol(age_told(), 5000, 2);
    failure_told();
    wall_s -= 9000;
    coord_kill();
    coord_start();
    ck_assert_double_eq_tol(age_told(), 0, 2);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 7 * SECOND, job_over, NULL);
    ck_assert_double_eq_tol(age_told(), 7, 2);
    rig_stop();
}
END_TEST

static bool late_told(void)
{
    struct json *j = status_json();
    char *text = json_text(json_get(j, "problems"), 0);
    bool told = strstr(text, "checkpoint.every_") != NULL && strstr(text, "cannot make") != NULL;
    free(text);
    json_free(j);
    return told;
}

/* A late checkpoint is reported as a problem after three intervals, until it is made. */
/* The only value of a metric; NAN: it is not told. */
static double told_value(enum meter_id id)
{
    struct meter_sheet s = {.samples = 0};
    double value = NAN;
    coord_gauges_put(r.coord, &s);
    for (uint32_t i = 0; i < s.samples; i++)
        if (s.sample[i].id == id)
            value = s.number[s.sample[i].number];
    meter_free(&s);
    return value;
}

/* A job that has never made a checkpoint has none that grows old: the time counts from its
 * beginning. */
START_TEST(checkpoint_that_was_never_made_is_told_since_when)
{
    struct coord_folder_ops ops = coord_folder_disk;
    r.folder = &ops;
    rig_start("epochs: 1, consistency: ssp", ", every_minutes: 0.5", NULL);
    for (uint32_t w = 0; w < 2; w++)
        r.worker[w].step_ns = 20 * SECOND;
    ck_assert(isnan(told_value(METER_ID_CHECKPOINT_SINCE)));
    while (r.coord->slot[0].at.phase != PHASE_TRAIN)
        ck_assert(sim_step(r.sim));
    ops.begin = begin_none;
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 100 * SECOND, job_over, NULL);
    ck_assert(isnan(told_value(METER_ID_CHECKPOINT_AGE)));
    ck_assert_double_eq_tol(told_value(METER_ID_CHECKPOINT_SINCE), 100, 2);
    ck_assert_double_eq(told_value(METER_ID_CHECKPOINT_EVERY), 30);
    ops.begin = coord_folder_disk.begin;
    while (r.coord->slot[0].checkpoint->list->made == 0)
        ck_assert(sim_step(r.sim));
    ck_assert_double_lt(told_value(METER_ID_CHECKPOINT_SINCE), 30);
    ck_assert_double_eq_tol(told_value(METER_ID_CHECKPOINT_SINCE),
                            told_value(METER_ID_CHECKPOINT_AGE), 0.1);
    rig_stop();
}
END_TEST

START_TEST(checkpoint_that_is_late_is_a_problem)
{
    struct coord_folder_ops ops = coord_folder_disk;
    r.folder = &ops;
    rig_start("epochs: 1, consistency: ssp",
              _i == 0 ? ", every_minutes: 0.5" : ", every_batches: 1", NULL);
    for (uint32_t w = 0; w < 2; w++)
        r.worker[w].step_ns = 20 * SECOND;
    while (r.coord->slot[0].at.phase != PHASE_TRAIN)
        ck_assert(sim_step(r.sim));
    ops.begin = begin_none;
    uint64_t since = sim_now_ns(r.sim);
    (void)sim_run(r.sim, since + 55 * SECOND, job_over, NULL);
    ck_assert(!late_told());
    (void)sim_run(r.sim, since + 110 * SECOND, job_over, NULL);
    ck_assert(late_told());
    coord_kill();
    coord_start();
    (void)sim_run(r.sim, since + 220 * SECOND, job_over, NULL);
    ck_assert(late_told());
    ops.begin = coord_folder_disk.begin;
    while (r.coord->slot[0].checkpoint->list->made == 0)
        ck_assert(sim_step(r.sim));
    ck_assert(!late_told());
    rig_stop();
}
END_TEST

/* ---- rows in memory alone -------------------------------------------------------------------- */

static void in_memory(void)
{
    for (uint32_t s = 0; s < SHARDS; s++)
        r.shard[s]->in_memory = true;
}

/* A shard dies with its rows, is away for `away_ns`, and comes back empty. */
static void lose(uint32_t shard, uint64_t away_ns)
{
    char name[24];
    (void)snprintf(name, sizeof name, "server-%u", shard);
    fake_shard_die(r.shard[shard]);
    (void)sim_run(r.sim, sim_now_ns(r.sim) + away_ns, NULL, NULL);
    fake_shard_start(r.shard[shard], r.sim, name, 0, r.shard[shard]->incarnation + 1);
}

static void made_wait(uint32_t checkpoints, uint32_t batches)
{
    while (r.coord->slot[0].checkpoint->list->made < checkpoints)
        ck_assert(sim_step(r.sim));
    run_batches(batches);
}

static void gone_back(uint32_t epochs, uint32_t times)
{
    job_done();
    rows_once(epochs);
    ck_assert_double_eq(report_number("went_back"), times);
    ck_assert_double_gt(report_number("seconds_in_vain"), 0);
    ck_assert_double_lt(report_number("seconds_in_vain"), report_number("seconds"));
    ck_assert_double_eq(report_number("examples"), epochs * 1005);
    ck_assert_double_eq(report_number("worker_deaths"), 0);
    ck_assert_double_eq(report_number("epochs.0.train_logloss"), 0.5);
}

/* Stores the state of a coordinator that saw the shard's return and then died. */
static void return_was_seen(uint32_t shard)
{
    char record[LIMIT_NAME + 16], key[COORD_KEY_MAX];
    struct err e = {0};
    (void)snprintf(key, sizeof key, "shard/%u", shard);
    ck_assert_int_eq(coord_store_get_fixed(r.store, key, record, sizeof record, &e), 0);
    uint64_t before = r.shard[shard]->incarnation - 1;
    ck_assert_int_eq(memcmp(record + LIMIT_NAME + 8, &before, sizeof before), 0);
    memcpy(record + LIMIT_NAME + 8, &r.shard[shard]->incarnation, 8);
    ck_assert_int_eq(coord_store_put(r.store, key, record, sizeof record, &e), 0);
}

/* The server's rows are lost: all shards load the newest checkpoint, and every row counts once,
 * however long the server was away. */
START_TEST(checkpoint_in_memory_is_gone_back_to)
{
    static const char *const modes[] = {"epochs: 2, consistency: async",
                                        "epochs: 2, consistency: ssp",
                                        "epochs: 2, consistency: bsp"};
    rig_start(modes[_i % 3], ", every_batches: 20", NULL);
    in_memory();
    made_wait(1, 60 + 20 * (uint32_t)_i);
    uint64_t number = r.coord->slot[0].at.number, run = r.coord->slot[0].at.run;
    lose((uint32_t)_i / 3, _i % 2 == 0 ? 0 : 10 * SECOND);
    gone_back(2, 1);
    ck_assert_uint_eq(r.coord->slot[0].at.number, number);
    ck_assert_uint_ne(r.coord->slot[0].at.run, run);
    ck_assert_double_eq(report_number("restarts"), 1);
    for (uint32_t s = 0; s < SHARDS; s++)
        ck_assert_uint_eq(r.shard[s]->loads, 1);
    rig_stop();
}
END_TEST

/* The folder hangs when rows are lost. In the last case the coordinator has restarted by then; in
 * the third the hang lasts longer than an errand waits. The coordinator keeps sending beats and
 * answering, trains nothing, and goes back to the checkpoint when the folder answers. */
START_TEST(checkpoint_folder_that_hangs_is_waited_for_to_go_back)
{
    uint64_t hang_ns = _i == 2 ? 400 * SECOND : 30 * SECOND;
    rig_start("epochs: 2, consistency: ssp", ", every_batches: 20", NULL);
    in_memory();
    made_wait(1, 60);
    uint64_t run = r.coord->slot[0].at.run, until = sim_now_ns(r.sim) + hang_ns;
    if (_i == 3)
        coord_kill();
    sim_wedge(r.node, until);
    lose(_i == 1 ? 0 : 1, 0);
    if (_i == 3) {
        coord_start();
        sim_wedge(r.node, until);
    }
    ck_assert(!sim_run(r.sim, sim_now_ns(r.sim) + 15 * SECOND, job_over, NULL));
    ck_assert(coord_goes_back(&r.coord->slot[0]) && hang_told());
    uint32_t before = batches_all();
    fake_client_checkpoint(&r.client, "");
    checkpoint_wait();
    ck_assert_int_eq(r.client.checkpoint.status, SHOAL_E_UNAVAILABLE);
    ck_assert(!sim_run(r.sim, until - SECOND, job_over, NULL));
    ck_assert_uint_eq(batches_all(), before);
    ck_assert(coord_goes_back(&r.coord->slot[0]) && r.coord->slot[0].at.run == run && hang_told());
    ck_assert_uint_le(r.coord->fleet.errands.count, 4);
    gone_back(2, 1);
    ck_assert_uint_ne(r.coord->slot[0].at.run, run);
    ck_assert(entries(".tmp") == 0);
    rig_stop();
}
END_TEST

/* A job that waits for the folder is ended by the first stop order: it has nothing to save. */
START_TEST(job_that_waits_to_go_back_is_stopped_at_once)
{
    rig_start("epochs: 2, consistency: ssp", ", every_batches: 20", NULL);
    in_memory();
    made_wait(1, 60);
    sim_wedge(r.node, sim_now_ns(r.sim) + 60 * SECOND);
    lose(1, 0);
    ck_assert(!sim_run(r.sim, sim_now_ns(r.sim) + 10 * SECOND, job_over, NULL));
    ck_assert(!coord_stop_order(&r.coord->slot[0], 7));
    (void)coord_end_fail(&r.coord->slot[0], SHOAL_E_STOPPED, "stopped by request");
    ck_assert(!coord_goes_back(&r.coord->slot[0]));
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 70 * SECOND, NULL, NULL);
    ck_assert(r.coord->slot[0].at.phase == PHASE_FAILED && r.coord->slot[0].newest == NULL);
    ck_assert_int_eq(r.coord->slot[0].from_hold, COORD_FOLDER_NONE);
    ck_assert_uint_eq(r.coord->fleet.errands.count, 0);
    rig_stop();
}
END_TEST

/* The folder of the checkpoint that is loaded is held by an errand when the coordinator starts. */
START_TEST(checkpoint_that_is_loaded_is_held_again_by_an_errand)
{
    char path[LIMIT_PATH];
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(20);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("alpha"));
    job_done();
    rig_stop();
    rig_start("epochs: 2, consistency: ssp", "", path);
    while (r.coord->slot[0].at.phase != PHASE_SETUP)
        ck_assert(sim_step(r.sim));
    coord_kill();
    coord_start();
    ck_assert_int_eq(r.coord->slot[0].from_hold, COORD_FOLDER_NONE);
    while (r.coord->slot[0].from_hold == COORD_FOLDER_NONE &&
           r.coord->slot[0].at.phase == PHASE_SETUP)
        ck_assert(sim_step(r.sim));
    ck_assert_int_ne(r.coord->slot[0].from_hold, COORD_FOLDER_NONE);
    ck_assert_int_eq(coord_folder_disk.remove(path, NULL), SHOAL_E_BUSY);
    job_done();
    ck_assert_int_eq(r.coord->slot[0].from_hold, COORD_FOLDER_NONE);
    ck_assert_uint_eq(entries(".tmp"), 0);
    ck_assert_int_ne(coord_folder_disk.remove(path, NULL), SHOAL_E_BUSY);
    rig_stop();
}
END_TEST

/* A shard dies in each phase of the job, while the coordinator lives, is dead, or died after it had
 * seen the server's return. The kept tables of the best epoch are lost with the rows. */
START_TEST(checkpoint_in_memory_is_gone_back_to_in_every_phase)
{
    static const uint32_t phases[] = {PHASE_EVAL, PHASE_CUT, PHASE_RESTORE, PHASE_TEST,
                                      PHASE_DIGEST};
    static const double quality[FAKE_EPOCHS] = {0, 0.6, 0.9, 0.7, 0.65, 0.6, 0.55};
    r.quality = quality;
    rig_start("epochs: 4, consistency: ssp, early_stop: {metric: auc, patience: 2, lr_decay: 0.5}",
              ", every_batches: 20", NULL);
    in_memory();
    made_wait(1, 20);
    while (r.coord->slot[0].at.phase != phases[_i / 3] && !job_over(NULL))
        ck_assert(sim_step(r.sim));
    ck_assert(!job_over(NULL));
    if (_i % 3 > 0)
        coord_kill();
    lose(1, 0);
    if (_i % 3 == 2)
        return_was_seen(1);
    if (_i % 3 > 0)
        coord_start();
    job_done();
    ck_assert_double_eq(report_number("went_back"), 1);
    ck_assert_double_eq(report_number("best_epoch"), 2);
    ck_assert_double_eq(report_number("examples"), 4 * 1005);
    rig_stop();
}
END_TEST

/* The shard dies again while all load, and again while they train: each return goes back once
 * more. */
START_TEST(checkpoint_in_memory_is_gone_back_to_again)
{
    rig_start("epochs: 2, consistency: bsp", ", every_batches: 20", NULL);
    in_memory();
    made_wait(1, 60);
    lose(1, SECOND);
    while (r.coord->slot[0].at.phase != PHASE_SETUP)
        ck_assert(sim_step(r.sim));
    lose(0, 3 * SECOND);
    while (r.coord->slot[0].at.phase != PHASE_TRAIN)
        ck_assert(sim_step(r.sim));
    ck_assert_uint_eq(r.coord->slot[0].went_back, 1);
    run_batches(batches_all() + 10);
    lose(1, 0);
    gone_back(2, 2);
    rig_stop();
}
END_TEST

/* The value of the sample with this metric and these labels; NAN: there is none. */
static double sample_of(const struct meter_sheet *s, const struct meter_sheet *of, uint32_t n)
{
    const struct meter_sample *want = &of->sample[n];
    uint32_t end = n + 1 < of->samples ? of->sample[n + 1].text : of->texts;
    size_t bytes = end - want->text;
    for (uint32_t i = 0; i < s->samples; i++)
        if (s->sample[i].id == want->id && s->texts - s->sample[i].text >= bytes &&
            memcmp(s->text + s->sample[i].text, of->text + want->text, bytes) == 0)
            return s->number[s->sample[i].number];
    return NAN;
}

/* Prometheus takes a fall for a restart, and adds all of the new value to its rates. */
START_TEST(checkpoint_gone_back_to_lets_no_counter_fall)
{
    struct meter_sheet before = {.samples = 0}, after = {.samples = 0};
    uint32_t compared = 0;
    rig_start("epochs: 2, consistency: bsp", ", every_batches: 20", NULL);
    in_memory();
    made_wait(1, 60);
    run_batches(batches_all() + 30);
    coord_gauges_put(r.coord, &before);
    lose(1, SECOND);
    while (r.coord->slot[0].went_back == 0 || r.coord->slot[0].at.phase != PHASE_TRAIN)
        ck_assert(sim_step(r.sim));
    coord_gauges_put(r.coord, &after);
    for (uint32_t i = 0; i < before.samples; i++) {
        double now = sample_of(&after, &before, i), then = before.number[before.sample[i].number];
        const struct meter_row *row = &meter_rows[before.sample[i].id];
        if (row->type != METER_COUNTER || isnan(now))
            continue;
        ck_assert_msg(now >= then, "%s fell from %g to %g", row->name, then, now);
        compared++;
    }
    ck_assert_uint_ge(compared, 10);
    meter_free(&before);
    meter_free(&after);
    rig_stop();
}
END_TEST

/* Runs the job until all lanes are at batch `batches`, then kills a shard. */
static void lose_at(uint32_t batches)
{
    while (r.coord->slot[0].at.phase != PHASE_TRAIN)
        ck_assert(sim_step(r.sim));
    uint32_t before = batches_all();
    run_batches(before + batches);
    lose(0, SECOND);
    uint32_t back = r.coord->slot[0].went_back;
    while (r.coord->slot[0].went_back == back && coord_phase_running(&r.coord->slot[0]))
        ck_assert(sim_step(r.sim));
}

/* Without this limit the job would go back without end. */
START_TEST(checkpoint_gone_back_to_in_vain_ends_the_job)
{
    char path[LIMIT_PATH];
    struct err e = {0};
    uint64_t run = 0;
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    const struct coord_submit again = {r.yaml, strlen(r.yaml), 2, "", false};
    in_memory();
    run_batches(20);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("one"));
    for (uint32_t i = 0; i < 9 && coord_phase_running(&r.coord->slot[0]); i++) {
        lose_at(3);
        if (_i >= 1) { /* the coordinator that counts dies, too */
            coord_kill();
            coord_start();
        }
        if (_i == 2) /* and the job is submitted again: the run was broken off */
            (void)coord_submit(&r.coord->slot[0], 77, &again, NULL, &run, &e);
    }
    if (_i == 2) {
        gone_back(2, 9);
        rig_stop();
        return;
    }
    ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_FAILED);
    ck_assert_int_eq(r.coord->slot[0].at.status, SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(r.coord->slot[0].at.text, "never came further than before"));
    ck_assert_ptr_nonnull(strstr(r.coord->slot[0].at.text, path));
    rig_stop();
}
END_TEST

/* A server dies often, but later each time: the job makes progress. */
START_TEST(checkpoint_gone_back_to_often_is_no_end_while_the_job_comes_on)
{
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    in_memory();
    run_batches(20);
    (void)checkpoint_make("one");
    for (uint32_t i = 0; i < 9; i++)
        lose_at(3 + 8 * i);
    gone_back(2, 9);
    rig_stop();
}
END_TEST

/* The coordinator dies with the shard, or while the shards load. */
START_TEST(checkpoint_in_memory_survives_the_coordinator)
{
    rig_start("epochs: 2, consistency: ssp", ", every_batches: 20", NULL);
    in_memory();
    made_wait(1, 60);
    if (_i == 0) {
        coord_kill();
        lose(1, 0);
        coord_start();
    } else {
        lose(1, 0);
        while (r.coord->slot[0].at.phase != PHASE_SETUP)
            ck_assert(sim_step(r.sim));
        for (int i = 0; i < _i * 7; i++)
            ck_assert(sim_step(r.sim));
        coord_kill();
        coord_start();
    }
    gone_back(2, 1);
    rig_stop();
}
END_TEST

/* The job now continues from another checkpoint than it was submitted with. A client that submits
 * it again gets the running job, once that has gone back (_i 1: the folder hangs before). */
START_TEST(checkpoint_gone_back_to_is_the_job_that_was_submitted)
{
    struct err e = {0};
    uint64_t run = 0;
    rig_start("epochs: 2, consistency: ssp", ", every_batches: 20", NULL);
    in_memory();
    made_wait(1, 60);
    uint64_t number = r.coord->slot[0].at.number;
    const struct coord_submit same = {r.yaml, strlen(r.yaml), 2, "", false};
    const struct coord_submit other = {r.yaml, strlen(r.yaml), 2, "/some/where", false};
    for (int again = 0; again < 2; again++) {
        coord_kill();
        lose(1, 0);
        coord_start();
        if (_i == 1)
            sim_wedge(r.node, sim_now_ns(r.sim) + 3 * SECOND);
        while (coord_submit(&r.coord->slot[0], 77, &same, NULL, &run, &e) == SHOAL_E_UNAVAILABLE)
            ck_assert(sim_step(r.sim));
        ck_assert_msg(run == number, "%s", e.text);
        ck_assert_uint_eq(r.coord->slot[0].went_back, again + 1);
        ck_assert_int_eq(coord_submit(&r.coord->slot[0], 77, &other, NULL, &run, &e), SHOAL_E_BUSY);
        while (again == 0 && (r.coord->slot[0].at.phase != PHASE_TRAIN || batches_all() % 7 != 0))
            ck_assert(sim_step(r.sim));
    }
    gone_back(2, 2);
    rig_stop();
}
END_TEST

/* ---- a checkpoint that gets its name at the end of its coordinator --------------------------- */

/* Runs the job until a thread is to give a checkpoint its name. */
static struct coord_making *naming_wait(void)
{
    const struct coord_checkpoint *k = r.coord->slot[0].checkpoint;
    while (k->state != CHECKPOINT_NAMING || k->making->errand.state != ERRAND_RUNS)
        ck_assert(sim_step(r.sim));
    return k->making;
}

/* The thread gives the name, and the loop, which ends, does not hear of it. killed: the process
 * dies with no chance to undo anything. */
static void coord_end_after_naming(bool killed)
{
    struct coord_making *m = naming_wait();
    struct err e = {0};
    ck_assert_msg(m->errand.run(&m->errand, &e) == 0, "%s", e.text);
    m->stays = killed;
    coord_kill();
}

/* The name was there, the list did not have it: the job began anew, and in the first case the
 * folder was removed. _i / 2: the folder hangs at the next start. */
START_TEST(checkpoint_that_has_its_name_belongs_to_the_job)
{
    rig_start("epochs: 2, consistency: ssp", ", every_batches: 20", NULL);
    in_memory();
    coord_end_after_naming(_i % 2 == 1);
    ck_assert_uint_eq(entries(""), 1);
    lose(1, 0);
    coord_start();
    sim_wedge(r.node, sim_now_ns(r.sim) + (_i / 2 == 0 ? 2 : 200) * SECOND);
    if (_i / 2 == 1) { /* for longer than an errand waits */
        ck_assert(!sim_run(r.sim, sim_now_ns(r.sim) + 190 * SECOND, job_over, NULL));
        ck_assert(coord_goes_back(&r.coord->slot[0]) && r.coord->slot[0].went_back == 0);
    }
    gone_back(2, 1);
    ck_assert_double_eq(report_number("checkpoints.0.rows"), 20);
    ck_assert_ptr_nonnull(strstr(r.client.report, "\"000001\""));
    rig_stop();
}
END_TEST

static uint32_t unread;

static int get_unread(const char *path, const char *file, size_t most, void **bytes, size_t *count,
                      struct err *e)
{
    if (unread == 0)
        return coord_folder_disk.get(path, file, most, bytes, count, e);
    unread--;
    return err_set(e, SHOAL_E_IO, "cannot read %s: Input/output error", path);
}

/* A disk that cannot be read for a while does not tell that the checkpoint is not there: the job
 * ended with "there is no checkpoint". */
START_TEST(checkpoint_that_cannot_be_read_yet_is_looked_for_again)
{
    struct coord_folder_ops ops = coord_folder_disk;
    ops.get = get_unread;
    r.folder = &ops;
    unread = 0;
    rig_start("epochs: 2, consistency: ssp", ", every_batches: 20", NULL);
    in_memory();
    coord_end_after_naming(true);
    lose(1, 0);
    unread = 3;
    coord_start();
    gone_back(2, 1);
    ck_assert_uint_eq(unread, 0);
    ck_assert_ptr_nonnull(strstr(r.client.report, "\"000001\""));
    rig_stop();
}
END_TEST

/* Its name is not there, or is another's: the job goes back to the one before, or ends without
 * one. */
START_TEST(checkpoint_without_its_name_is_not_gone_back_to)
{
    struct coord_checkpoint_coming c;
    struct err e = {0};
    bool before = _i % 2 == 1, another = _i / 2 == 1;
    rig_start("epochs: 2, consistency: ssp", ", every_batches: 20", NULL);
    in_memory();
    if (before)
        made_wait(1, 1);
    if (another) {
        coord_end_after_naming(false);
        ck_assert_int_eq(coord_store_get_fixed(r.store, "checkpoint_coming", &c, sizeof c, &e), 0);
        c.state++;
        ck_assert_int_eq(coord_store_put(r.store, "checkpoint_coming", &c, sizeof c, &e), 0);
    } else {
        (void)naming_wait();
        coord_kill();
    }
    ck_assert_uint_eq(entries(""), (uint32_t)before + another);
    lose(1, 0);
    coord_start();
    if (before) {
        gone_back(2, 1);
    } else {
        ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, job_over, NULL));
        ck_assert_int_eq(r.client.status, SHOAL_E_UNAVAILABLE);
        ck_assert_ptr_nonnull(strstr(r.client.text, "and there is no checkpoint"));
    }
    rig_stop();
}
END_TEST

/* The first checkpoint is about to get its name when rows are lost: there was "no checkpoint". */
START_TEST(checkpoint_that_is_to_get_its_name_is_gone_back_to)
{
    rig_start("epochs: 2, consistency: ssp", ", every_batches: 20", NULL);
    in_memory();
    (void)naming_wait();
    sim_wedge(r.node, sim_now_ns(r.sim) + (_i == 0 ? 1 : 20) * SECOND); /* 1: leases run out, too */
    lose(1, (_i == 0 ? 0 : 10) * SECOND);
    gone_back(2, 1);
    rig_stop();
}
END_TEST

/* It is published, old ones are removed, and that of the end is not made again. _i 1: the servers
 * keep their rows, so the job does not go back. */
START_TEST(checkpoint_that_has_its_name_is_handled_as_others)
{
    r.hooks = true;
    rig_start("epochs: 1, consistency: ssp",
              ", keep: 1, every_batches: 60, at_end: true, publish: [publish-it, now]", NULL);
    if (_i == 0)
        in_memory();
    made_wait(1, 1);
    while (r.coord->slot[0].at.phase != PHASE_DIGEST)
        ck_assert(sim_step(r.sim));
    coord_end_after_naming(false);
    uint32_t published = r.hook_count;
    ck_assert_uint_eq(entries(""), 2);
    if (_i == 0)
        lose(1, 0);
    coord_start();
    if (_i == 1) { /* none is begun before it is known */
        sim_wedge(r.node, sim_now_ns(r.sim) + 5 * SECOND);
        fake_client_checkpoint(&r.client, "asked");
        checkpoint_wait();
        ck_assert_int_eq(r.client.checkpoint.status, SHOAL_E_BUSY);
        ck_assert_ptr_nonnull(strstr(r.client.checkpoint.text, "sees if checkpoint 000002 was"));
    }
    job_done();
    ck_assert_uint_eq(r.hook_count, published + 1);
    ck_assert_double_eq(report_number("went_back"), _i == 0);
    ck_assert_double_eq(report_number("checkpoints_made"), 2);
    ck_assert(entries("") == 1 && entries("000002") == 1);
    rig_stop();
}
END_TEST

/* A job that continued from a checkpoint goes back to that one until it has made its own. While it
 * is being set up (_i 1) the shard only loads it once more. */
START_TEST(checkpoint_in_memory_that_it_began_with)
{
    char path[LIMIT_PATH];
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(60);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("here"));
    rig_stop();
    rig_start("epochs: 2, consistency: ssp", "", path);
    in_memory();
    if (_i == 0)
        run_batches(30);
    else
        while (r.coord->slot[0].at.phase != PHASE_SETUP || !r.shard[1]->loaded)
            ck_assert(sim_step(r.sim));
    lose(1, 0);
    if (_i == 0) {
        gone_back(2, 1);
    } else {
        job_done();
        rows_once(2);
        ck_assert_double_eq(report_number("went_back"), 0);
    }
    rig_stop();
}
END_TEST

/* The newest checkpoint has been moved away, or is damaged. */
START_TEST(checkpoint_before_the_newest_is_gone_back_to)
{
    char command[256];
    rig_start("epochs: 2, consistency: ssp", ", every_batches: 20", NULL);
    in_memory();
    made_wait(2, 60);
    (void)snprintf(command, sizeof command, "cd %s && n=$(ls -d 0* | tail -1) && %s", folder,
                   _i == 0 ? "rm -r $n" : "echo x >> $n/manifest.json");
    ck_assert_int_eq(system(command), 0);
    lose(1, 0);
    gone_back(2, 1);
    rig_stop();
}
END_TEST

START_TEST(checkpoint_in_memory_that_is_gone_ends_the_job)
{
    char command[128];
    rig_start("epochs: 2, consistency: ssp", ", every_batches: 20", NULL);
    in_memory();
    made_wait(1, 60);
    (void)snprintf(command, sizeof command, "rm -rf %s/0*", folder);
    ck_assert_int_eq(system(command), 0);
    lose(1, 0);
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, job_over, NULL));
    ck_assert_int_eq(r.client.status, SHOAL_E_NOINPUT);
    ck_assert_msg(strstr(r.client.text, "server server-1 died, and its rows were in memory") !=
                          NULL &&
                      strstr(r.client.text, "/00000") != NULL,
                  "%s", r.client.text);
    rig_stop();
}
END_TEST

/* ---- pushes that power took ------------------------------------------------------------------ */

/* A machine has restarted without its last acknowledged pushes. bsp: the other shards are several
 * clocks ahead; else a lane's mark lies before its task. The job has a checkpoint. */
static void power_takes(uint32_t shard, bool bsp)
{
    struct fake_shard *s = r.shard[shard];
    char name[24];
    (void)snprintf(name, sizeof name, "server-%u", shard);
    sim_kill(s->node);
    s->boot++;
    if (bsp)
        r.shard[!shard]->ahead = 2;
    else
        for (uint32_t l = 0; l < 2; l++)
            s->run.lane[l].mark = 0;
    fake_shard_start(s, r.sim, name, 0, s->incarnation + 1);
}

static void power_back(void)
{
    while (r.coord->slot[0].at.phase != PHASE_SETUP || r.coord->slot[0].went_back == 0) {
        ck_assert(!job_over(NULL));
        ck_assert(sim_step(r.sim));
    }
    for (uint32_t s = 0; s < SHARDS; s++)
        r.shard[s]->ahead = 0;
}

START_TEST(checkpoint_is_gone_back_to_where_power_took_pushes)
{
    static const char *const modes[] = {"epochs: 2, consistency: async",
                                        "epochs: 2, consistency: ssp",
                                        "epochs: 2, consistency: bsp"};
    rig_start(modes[_i], ", every_batches: 20", NULL);
    made_wait(1, 60);
    uint64_t number = r.coord->slot[0].at.number, run = r.coord->slot[0].at.run;
    r.coord->slot[0].checkpoint->retry_ns = sim_now_ns(r.sim) + 5 * SECOND; /* one was given up */
    power_takes(1, _i == 2);
    power_back();
    ck_assert_uint_eq(r.coord->slot[0].checkpoint->retry_ns, 0);
    gone_back(2, 1);
    ck_assert_uint_eq(r.coord->slot[0].at.number, number);
    ck_assert_uint_ne(r.coord->slot[0].at.run, run);
    for (uint32_t s = 0; s < SHARDS; s++) {
        ck_assert_uint_eq(r.shard[s]->clears, 1);
        ck_assert_uint_eq(r.shard[s]->loads, 1);
    }
    rig_stop();
}
END_TEST

/* The job continued from a checkpoint and has trained all. A machine's loss of power takes its last
 * pushes when no lane pulls or pushes any more. _i 1: the coordinator's machine fails, too. */
START_TEST(checkpoint_goes_on_and_power_is_noticed_to_the_end)
{
    char path[LIMIT_PATH];
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(120);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("here"));
    rig_stop();
    rig_start("epochs: 2, consistency: ssp", "", path);
    while (r.coord->slot[0].at.phase != PHASE_EVAL || r.coord->slot[0].at.epoch != 2)
        ck_assert(sim_step(r.sim));
    if (_i == 1)
        coord_kill();
    power_takes(1, false);
    if (_i == 1)
        coord_start();
    power_back();
    gone_back(2, 1);
    rig_stop();
}
END_TEST

/* The checkpoint was made while no lane was held; _i 1: while the job waited for a growing log.
 * Lanes whose place did not change get no new fence. */
START_TEST(checkpoint_of_an_evaluation_goes_on_and_power_is_noticed)
{
    static const char *const jobs[] = {"epochs: 2, consistency: ssp",
                                       "epochs: 1, consistency: ssp"};
    static const uint32_t made_in[] = {PHASE_EVAL, PHASE_GROW},
                          lost_in[] = {PHASE_EVAL, PHASE_TEST};
    uint32_t epochs = _i == 0 ? 2 : 1;
    char path[LIMIT_PATH];
    rig_start(jobs[_i], "", NULL);
    run_batches(20);
    if (_i == 1)
        grows();
    while (r.coord->slot[0].at.phase != made_in[_i])
        ck_assert(sim_step(r.sim));
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("here"));
    rig_stop();
    rig_start(jobs[_i], "", path);
    while (r.coord->slot[0].at.phase != lost_in[_i] || r.coord->slot[0].at.epoch != epochs)
        ck_assert(sim_step(r.sim));
    power_takes(1, false);
    power_back();
    gone_back(epochs, 1);
    rig_stop();
}
END_TEST

/* Power fails while the best epoch is kept. No lane is granted any more: the job's time is over. */
START_TEST(checkpoint_power_is_noticed_while_an_epoch_is_kept)
{
    rig_start(
        "epochs: 4, consistency: ssp, max_minutes: 60, early_stop: {metric: auc, patience: 2}",
        ", every_batches: 20", NULL);
    made_wait(1, 60);
    while (r.coord->slot[0].at.phase != PHASE_CUT)
        ck_assert(sim_step(r.sim));
    power_takes(1, false);
    r.coord->slot[0].spec.train.max_minutes = 1e-6;
    power_back();
    r.coord->slot[0].spec.train.max_minutes = 0;
    gone_back(4, 1);
    rig_stop();
}
END_TEST

/* Another space has tables: the job drops its own, and no other ones. */
START_TEST(checkpoint_is_gone_back_to_beside_other_spaces)
{
    const uint64_t others = UINT64_C(1) << 40;
    rig_start("epochs: 2, consistency: ssp", ", every_batches: 20", NULL);
    made_wait(1, 60);
    r.coord->fleet.spaces.space[5].numbers = table_set_word(others);
    coord_spaces_hold(&r.coord->fleet);
    power_takes(1, false);
    power_back();
    gone_back(2, 1);
    for (uint32_t s = 0; s < SHARDS; s++) {
        ck_assert_uint_eq(r.shard[s]->clears, 1);
        ck_assert(table_set_equal(r.shard[s]->clear_tables, r.coord->slot[0].space->numbers));
    }
    ck_assert_uint_eq(r.coord->fleet.cluster.held.word[0] & others, others);
    rig_stop();
}
END_TEST

/* A server or the coordinator dies while all shards load. */
START_TEST(checkpoint_gone_back_to_half_is_gone_back_to)
{
    rig_start("epochs: 2, consistency: bsp", ", every_batches: 20", NULL);
    made_wait(1, 60);
    power_takes(1, true);
    power_back();
    for (int i = 0; i < _i / 2 * 7; i++)
        ck_assert(sim_step(r.sim));
    if (_i % 2 == 0) {
        sim_kill(r.shard[0]->node);
        fake_shard_start(r.shard[0], r.sim, "server-0", 0, r.shard[0]->incarnation + 1);
    } else {
        coord_kill();
        coord_start();
    }
    gone_back(2, 1);
    for (uint32_t s = 0; s < SHARDS; s++) {
        ck_assert_uint_eq(r.shard[s]->clears, 1);
        ck_assert_uint_eq(r.shard[s]->loads, 1);
    }
    rig_stop();
}
END_TEST

/* The coordinator dies after it stored everything except that the job is set up again. */
START_TEST(checkpoint_half_stored_is_gone_back_to)
{
    static const char *const modes[] = {"epochs: 2, consistency: ssp",
                                        "epochs: 2, consistency: bsp"};
    struct coord_progress before, then;
    struct err e = {0};
    rig_start(modes[_i], ", every_batches: 20", NULL);
    made_wait(1, 60);
    power_takes(1, _i == 1);
    do {
        before = r.coord->slot[0].at;
        ck_assert(sim_step(r.sim));
    } while (r.coord->slot[0].went_back == 0);
    uint64_t run = r.coord->slot[0].at.run;
    coord_kill();
    ck_assert_int_eq(coord_store_get_fixed(r.store, "progress", &then, sizeof then, &e), 0);
    ck_assert_uint_eq(then.run, run);
    ck_assert_int_eq(coord_store_put(r.store, "progress", &before, sizeof before, &e), 0);
    for (uint32_t s = 0; s < SHARDS; s++)
        r.shard[s]->ahead = 0;
    coord_start();
    job_done();
    rows_once(2);
    ck_assert_double_eq(report_number("examples"), 2 * 1005);
    rig_stop();
}
END_TEST

/* One server drops its tables, the other refuses: no job may start from the rest. */
START_TEST(checkpoint_half_gone_back_to_is_nobodys)
{
    struct err e = {0};
    uint64_t run;
    rig_start("epochs: 2, consistency: bsp", ", every_batches: 20", NULL);
    made_wait(1, 60);
    r.shard[0]->refuse_clear = true;
    power_takes(1, true);
    power_back();
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, job_over, NULL));
    ck_assert_int_eq(r.client.status, SHOAL_E_IO);
    ck_assert_uint_eq(r.shard[1]->clears, 1);
    const struct coord_submit submit = {r.yaml, strlen(r.yaml), 1, "fleet", true};
    ck_assert_int_eq(coord_submit(&r.coord->slot[0], 77, &submit, NULL, &run, &e), SHOAL_E_EXISTS);
    ck_assert_ptr_nonnull(strstr(e.text, "--set fresh=all"));
    rig_stop();
}
END_TEST

static void refused_from(const char *train, const char *path, int status, const char *text)
{
    rig_start(train, "", path);
    if (strstr(train, "allreduce") != NULL)
        memcpy(strstr(r.yaml, "probe"), "dcnv2", 5); /* a model that has a network */
    ck_assert(sim_run(r.sim, 60 * SECOND, job_over, NULL));
    int got = r.client.submit_status != 0 ? r.client.submit_status : r.client.status;
    ck_assert_msg(got == status && strstr(r.client.text, text) != NULL, "%s: %d, %s", train, got,
                  r.client.text);
    for (uint32_t s = 0; s < SHARDS; s++)
        ck_assert_uint_eq(r.shard[s]->loads, 0);
    rig_stop();
}

/* A job whose lanes fit its workers goes on with those of its checkpoint: 2, not 8. */
START_TEST(checkpoint_lanes_stay_where_they_fit_the_workers)
{
    char path[LIMIT_PATH];
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(120);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("here"));
    rig_stop();
    rig_start("epochs: 2, consistency: ssp", "", path);
    strstr(r.yaml, "lanes: ")[strlen("lanes: ")] = '0';
    ck_assert(sim_run(r.sim, 60 * SECOND, job_over, NULL));
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
    ck_assert_uint_eq(r.coord->slot[0].tasks->lanes, 2);
    rig_stop();
}
END_TEST

START_TEST(checkpoint_for_another_job_is_refused)
{
    char path[LIMIT_PATH], other[LIMIT_PATH];
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(120);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("here"));
    rig_stop();
    refused_from("epochs: 2, consistency: bsp", path, SHOAL_E_CONFIG, "train.consistency is bsp");
    refused_from("epochs: 2, consistency: ssp, dense: allreduce", path, SHOAL_E_CONFIG,
                 "train.dense is allreduce, in the checkpoint it was servers");
    refused_from("epochs: 1, consistency: ssp", path, SHOAL_E_CONFIG, "epoch 2");
    refused_from("epochs: 2, consistency: ssp, seed: 5", path, SHOAL_E_CONFIG, "train.seed is 5");
    refused_from("epochs: 2, consistency: ssp}\nfeatures: {fields: [1, 2]", path, SHOAL_E_CONFIG,
                 "features.fields auto is 0");
    refused_from("epochs: 2, consistency: ssp}\ndata.sample: 0.5\nfeatures: {fields: auto", path,
                 SHOAL_E_CONFIG, "data.sample is 0.5, in the checkpoint it was 1");
    r.digest = 43;
    refused_from("epochs: 2, consistency: ssp", path, SHOAL_E_DATA, "data.train has 1005 rows");
    refused_from("epochs: 2, consistency: ssp", "relative", SHOAL_E_USAGE, "absolute");
    (void)snprintf(other, sizeof other, "%s/nothing", folder);
    refused_from("epochs: 2, consistency: ssp", other, SHOAL_E_NOINPUT, "nothing");
}
END_TEST

static void ended_by(const char *why)
{
    char line[48];
    (void)snprintf(line, sizeof line, "\"ended_by\": \"%s\"", why);
    ck_assert_msg(strstr(r.client.report, line) != NULL, "%s", line);
}

/* A finished job cannot use other limits, and keeps the reason of its end. */
START_TEST(checkpoint_of_the_end_with_another_limit_is_refused)
{
    static const double quality[FAKE_EPOCHS] = {0, 0.6, 0.9, 0.7, 0.65, 0.6, 0.55};
    static const char *const is = "epochs: 10, consistency: ssp, early_stop: {metric: auc, "
                                  "patience: 2}, max_minutes: 5";
    char path[LIMIT_PATH];
    r.quality = quality;
    rig_start(is, "", NULL);
    job_done();
    ended_by("early_stop");
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("end"));
    rig_stop();
#define STOP "epochs: 10, consistency: ssp, max_minutes: 5, early_stop: {metric: "
    refused_from(STOP "auc, patience: 40}", path, SHOAL_E_CONFIG,
                 "train.early_stop.patience is 40");
    refused_from(STOP "logloss, patience: 2}", path, SHOAL_E_CONFIG, "train.early_stop.metric is");
    refused_from(STOP "auc, patience: 2, min_delta: 0.1}", path, SHOAL_E_CONFIG,
                 "train.early_stop.min_delta is 0.1");
    refused_from(STOP "auc, patience: 2, lr_decay: 0.5}", path, SHOAL_E_CONFIG,
                 "train.early_stop.lr_decay is 0.5");
    refused_from(STOP "auc, patience: 2, lr_patience: 2}", path, SHOAL_E_CONFIG,
                 "train.early_stop.lr_patience is 2");
    refused_from("epochs: 10, consistency: ssp, early_stop: {metric: auc, patience: 2}", path,
                 SHOAL_E_CONFIG, "train.max_minutes is 0");
#undef STOP
    rig_start(is, "", path);
    valid_name('d');
    job_done();
    ended_by("early_stop");
    ck_assert_uint_eq(batches_all(), 0);
    rig_stop();
}
END_TEST

static bool both_unloaded(void *context)
{
    (void)context;
    return !r.shard[0]->loaded && !r.shard[1]->loaded;
}

/* A server has no room: the job fails, the tables that the other server loaded are dropped, and the
 * same restore works afterwards. A coordinator that dies in between still tells all servers. */
START_TEST(checkpoint_restore_that_failed_can_be_tried_again)
{
    static struct fake_client again;
    char path[LIMIT_PATH];
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(120);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("here"));
    rig_stop();
    rig_start("epochs: 2, consistency: ssp", "", path);
    r.shard[1]->full_after = r.shard[0];
    ck_assert(sim_run(r.sim, 60 * SECOND, job_over, NULL));
    ck_assert_int_eq(r.client.status, SHOAL_E_NO_SPACE);
    ck_assert_uint_eq(r.shard[0]->loads, 1);
    if (_i == 1) {
        r.shard[0]->loaded = true; /* had not heard of it yet */
        coord_kill();
        coord_start();
    }
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 10 * SECOND, both_unloaded, NULL));
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 3 * SECOND, NULL, NULL);
    r.shard[1]->full_after = NULL;
    memset(&again, 0, sizeof again);
    fake_client_start(&again, r.sim, r.yaml, 0);
    again.from = path;
    for (uint32_t w = 0; w < 2; w++) {
        sim_kill(r.worker[w].node);
        worker_add(w);
    }
    while (again.state != WIRE_JOB_DONE && again.state != WIRE_JOB_FAILED &&
           again.submit_status == 0)
        ck_assert(sim_step(r.sim));
    ck_assert_msg(again.state == WIRE_JOB_DONE, "%d: %s", again.submit_status, again.text);
    ck_assert_uint_eq(r.shard[0]->loads, 2);
    ck_assert_uint_eq(r.shard[1]->loads, 1);
    rows_once(2);
    rig_stop();
}
END_TEST

/* The servers hold tables, which the restore drops first. */
START_TEST(checkpoint_goes_on_on_servers_that_held_rows)
{
    static struct fake_client again;
    char path[LIMIT_PATH];
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(120);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("here"));
    job_done();
    (void)snprintf(r.yaml + strlen(r.yaml), 32, "fresh: [all]\n");
    memset(&again, 0, sizeof again);
    fake_client_start(&again, r.sim, r.yaml, 0);
    again.from = path;
    for (uint32_t w = 0; w < 2; w++) {
        sim_kill(r.worker[w].node);
        worker_add(w);
    }
    while (again.state != WIRE_JOB_DONE && again.state != WIRE_JOB_FAILED &&
           again.submit_status == 0)
        ck_assert(sim_step(r.sim));
    ck_assert_msg(again.state == WIRE_JOB_DONE, "%d: %s", again.submit_status, again.text);
    for (uint32_t s = 0; s < SHARDS; s++) {
        ck_assert_uint_eq(r.shard[s]->clears, 1);
        ck_assert_uint_eq(r.shard[s]->loads, 1);
    }
    rows_once(2);
    rig_stop();
}
END_TEST

static void flip(const char *path, const char *file, long at)
{
    char whole[LIMIT_PATH + 64];
    (void)snprintf(whole, sizeof whole, "%s/%s", path, file);
    FILE *f = fopen(whole, "r+b");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, at, SEEK_SET), 0);
    int byte = fgetc(f);
    ck_assert_int_eq(fseek(f, at, SEEK_SET), 0);
    (void)fputc(byte ^ 4, f);
    (void)fclose(f);
}

START_TEST(checkpoint_with_a_changed_bit_is_refused)
{
    static const char *const files[] = {MANIFEST_FILE, MANIFEST_STATE_FILE, MANIFEST_JOB_FILE,
                                        "part-0001/manifest"};
    char path[LIMIT_PATH];
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(120);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("here"));
    rig_stop();
    for (uint32_t i = 0; i < 4; i++) {
        flip(path, files[i], 33);
        refused_from("epochs: 2, consistency: ssp", path, SHOAL_E_CHECKSUM, files[i]);
        flip(path, files[i], 33);
    }
    rig_start("epochs: 2, consistency: ssp", "", path); /* and mended it is taken */
    job_done();
    rows_once(2);
    rig_stop();
}
END_TEST

/* ---- publishing ------------------------------------------------------------------------------ */

static void file_write(const char *path, const char *file, const void *bytes, size_t count)
{
    char whole[LIMIT_PATH + 64];
    (void)snprintf(whole, sizeof whole, "%s/%s", path, file);
    FILE *f = fopen(whole, "wb");
    ck_assert(f != NULL && fwrite(bytes, count, 1, f) == 1 && fclose(f) == 0);
}

/* Changes a state on purpose and makes the checksums fit: that of the state and the manifest's own,
 * which ends it. */
static void state_change(const char *path, void (*change)(struct coord_progress *at))
{
    static const char last[] = ",\n  \"xxh3\": ";
    struct coord_progress at;
    void *state, *text;
    size_t bytes, count;
    char was[24], is[24], *found;
    file_get(path, MANIFEST_STATE_FILE, &state, &bytes);
    file_get(path, MANIFEST_FILE, &text, &count);
    (void)snprintf(was, sizeof was, "0x%016" PRIx64, hash_bytes(state, bytes, 0));
    /* behind "SHOALCS1" the first pair: two lengths, "progress", the value */
    ck_assert_int_eq(memcmp((char *)state + 16, "progress", 8), 0);
    memcpy(&at, (char *)state + 24, sizeof at);
    change(&at);
    memcpy((char *)state + 24, &at, sizeof at);
    file_write(path, MANIFEST_STATE_FILE, state, bytes);
    (void)snprintf(is, sizeof is, "0x%016" PRIx64, hash_bytes(state, bytes, 0));
    ck_assert_ptr_nonnull(found = memmem(text, count, was, strlen(was)));
    memcpy(found, is, strlen(is));
    for (found = (char *)text + count - sizeof last; memcmp(found, last, sizeof last - 1) != 0;)
        found--;
    (void)sprintf(found + sizeof last - 1, "\"0x%016" PRIx64 "\"\n}\n",
                  hash_bytes(text, (size_t)(found - (char *)text), 0));
    file_write(path, MANIFEST_FILE, text, count);
    free(state);
    free(text);
}

/* Returns the time that the current job has spent in all. */
static uint64_t time_spent(void)
{
    const struct coord_job *j = &r.coord->slot[0];
    return j->at.elapsed_ns + sim_now_ns(r.sim) - j->started_ns;
}

/* A job that continues from a checkpoint reports the total time of the job: up to the checkpoint,
 * or up to the job's end if it was done. */
START_TEST(checkpoint_counts_time_up_to_now)
{
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(30);
    uint64_t spent = time_spent(), trained = coord_phase_trained_ns(&r.coord->slot[0]);
    struct coord_progress at = progress_in(checkpoint_make("here"));
    ck_assert(at.elapsed_ns >= spent && at.elapsed_ns <= time_spent() && spent > 0);
    ck_assert(at.counted_ns >= trained &&
              at.counted_ns <= coord_phase_trained_ns(&r.coord->slot[0]));
    ck_assert_uint_gt(trained, 0);
    job_done();
    spent = r.coord->slot[0].at.elapsed_ns;
    (void)sim_run(r.sim, sim_now_ns(r.sim) + 100 * SECOND, NULL, NULL);
    at = progress_in(checkpoint_make("end"));
    ck_assert_uint_eq(at.elapsed_ns, spent);
    rig_stop();
}
END_TEST

static void kept_is_worse(struct coord_progress *at)
{
    at->best = at->kept = 1;
    at->best_value = 0.9;
    at->kept_value = 0.1;
}

static void kept_is_better(struct coord_progress *at)
{
    at->best = 2;
    at->kept = 1;
    at->best_value = 0.1;
    at->kept_value = 0.9;
}

static void kept_in_training(struct coord_progress *at)
{
    kept_is_worse(at);
    at->kept_value = at->best_value;
    at->phase = PHASE_TRAIN;
}

static void a_cut_of_ours(struct coord_progress *at)
{
    at->best_cut = 1;
}

static void best_to_come(struct coord_progress *at)
{
    at->best = 4; /* only three epochs are done */
}

static void faster_and_faster(struct coord_progress *at)
{
    at->lr_scale = 1e300;
}

START_TEST(checkpoint_that_somebody_has_made_is_refused)
{
    static const struct {
        void (*change)(struct coord_progress *at);
        const char *text;
    } made[] = {{kept_is_worse, "the one kept 1 (0.1)"},    {kept_is_better, "is better (0.9)"},
                {kept_in_training, "the one kept 1 (0.9)"}, {a_cut_of_ours, "that cannot be"},
                {faster_and_faster, "which cannot be"},     {best_to_come, "best evaluation is 4"}};
    char path[LIMIT_PATH];
    const char *train = "epochs: 3, consistency: ssp, early_stop: {metric: auc, patience: 2}";
    rig_start(train, "", NULL);
    while (r.coord->slot[0].at.phase != PHASE_TEST)
        ck_assert(sim_step(r.sim));
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("here"));
    rig_stop();
    state_change(path, made[_i].change);
    refused_from(train, path, SHOAL_E_CORRUPT, made[_i].text);
}
END_TEST

static void faster(struct coord_progress *at)
{
    at->lr_scale = 0.5;
}

static void sign_all(const char *path, const char *list)
{
    char name[4][SIGNATURE_NAME] = {MANIFEST_STATE_FILE, MANIFEST_JOB_FILE, "part-0000/manifest",
                                    "part-0001/manifest"};
    uint8_t seed[SIGN_SEED], key[SIGN_KEY];
    char hex[SIGNATURE_KEY];
    struct err e = {0};
    sign_key_new(seed);
    ck_assert_int_eq(sign_key_of(seed, key), 0);
    sign_hex(key, SIGN_KEY, hex);
    FILE *f = fopen(list, "w");
    ck_assert(f != NULL && fprintf(f, "%s\n", hex) > 0 && fclose(f) == 0);
    ck_assert_msg(signature_write(path, name, 4, seed, &e) == 0, "%s", e.text);
}

/* Each of the checkpoint's own files and the parts' manifests is changed. An attacker would also
 * make the checksums fit, so the state is changed that way, too. */
START_TEST(checkpoint_that_nobody_listed_has_signed_is_refused)
{
    static const char *const files[] = {MANIFEST_FILE, MANIFEST_STATE_FILE, MANIFEST_JOB_FILE,
                                        "part-0001/manifest", "signature"};
    static char list[96], other[96];
    const char *train = "epochs: 2, consistency: ssp, early_stop: {metric: auc, patience: 2}";
    char path[LIMIT_PATH], file[LIMIT_PATH + 16];
    (void)snprintf(list, sizeof list, "%s/signers", folder);
    (void)snprintf(other, sizeof other, "%s/others", folder);
    rig_start(train, "", NULL);
    run_batches(120);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("here"));
    rig_stop();
    r.signers = list;
    refused_from(train, path, SHOAL_E_NOINPUT, "cannot read the list");
    sign_all(path, other);
    (void)snprintf(file, sizeof file, "%s/signature", path);
    ck_assert_int_eq(unlink(file), 0);
    r.signers = other;
    refused_from(train, path, SHOAL_E_DENIED, "is not signed");
    sign_all(path, list);
    r.signers = other;
    refused_from(train, path, SHOAL_E_DENIED, "none of the keys that are good here");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        long at = i < 4 ? 33 : 5; /* offset 5 of the signature is not a digit */
        flip(path, files[i], at);
        r.signers = list;
        refused_from(train, path, SHOAL_E_DENIED, i < 4 ? files[i] : "is no whole signature");
        flip(path, files[i], at);
    }
    r.signers = list;
    rig_start(train, "", path); /* as it was signed */
    job_done();
    rig_stop();
    state_change(path, faster);
    r.signers = list;
    refused_from(train, path, SHOAL_E_DENIED, MANIFEST_FILE);
    rig_start(train, "", path); /* a coordinator without a list does not check */
    job_done();
    rig_stop();
}
END_TEST

/* The job's folder, and the checkpoint that it continues from, must lie below the root and be
 * reached by no link. */
START_TEST(checkpoint_outside_the_root_is_refused)
{
    static char root[80], link_there[96];
    char path[LIMIT_PATH], above[LIMIT_PATH];
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(60);
    (void)snprintf(path, sizeof path, "%s", checkpoint_make("here"));
    rig_stop();
    (void)snprintf(above, sizeof above, "%.200s/../here", path);
    refused_from("epochs: 2, consistency: ssp", above, SHOAL_E_USAGE, "'..'");
    (void)snprintf(root, sizeof root, "%s/root", folder);
    (void)snprintf(link_there, sizeof link_there, "%s/link", root);
    if (_i == 2) {
        r.root = root;
        refused_from("epochs: 2, consistency: ssp", "", SHOAL_E_DENIED, "make the folder");
        return;
    }
    ck_assert(mkdir(root, 0700) == 0 && symlink(folder, link_there) == 0);
    if (_i == 0) {
        r.root = root;
        refused_from("epochs: 2, consistency: ssp", "", SHOAL_E_DENIED, "checkpoint_root");
        return;
    }
    r.root = folder;
    rig_start("epochs: 2, consistency: ssp", "", path);
    job_done();
    rig_stop();
    r.root = folder;
    (void)snprintf(above, sizeof above, "%s/here", link_there);
    refused_from("epochs: 2, consistency: ssp", above, SHOAL_E_DENIED, "checkpoint_root");
}
END_TEST

START_TEST(checkpoint_publish_runs_a_command)
{
    r.hooks = true;
    r.hook_status = _i == 0 ? 0 : 3;
    rig_start("epochs: 2, consistency: ssp", ", publish: [publish-it, now]", NULL);
    run_batches(20);
    const char *path = checkpoint_make("");
    ck_assert_uint_eq(r.hook_count, 1);
    ck_assert_str_eq(r.hooked[0], path);
    job_done();
    struct json *j;
    ck_assert_int_eq(json_parse(r.client.report, strlen(r.client.report), &j, NULL), 0);
    ck_assert_str_eq(json_as_string(json_get(j, "checkpoints.0.publish"), ""),
                     _i == 0 ? "done" : "failed");
    ck_assert_int_eq(json_as_int(json_get(j, "checkpoints.0.publish_status"), -1), r.hook_status);
    json_free(j);
    rig_stop();
}
END_TEST

static void status_says(const char *publish)
{
    char *text = coord_status_text(&r.coord->slot[0]);
    struct json *j;
    ck_assert_int_eq(json_parse(text, strlen(text), &j, NULL), 0);
    ck_assert_str_eq(json_as_string(json_get(j, "publish.state"), ""), publish);
    json_free(j);
    free(text);
}

/* A command that hangs is asked to end, then killed, and the next folder gets its turn. */
START_TEST(checkpoint_publish_that_hangs_is_ended)
{
    struct json *j;
    r.hooks = r.hook_holds = true;
    r.hook_deaf = (uint32_t)_i;
    rig_start("epochs: 2, consistency: ssp", ", publish: [publish-it, now], publish_limit: 2s",
              NULL);
    run_batches(20);
    (void)checkpoint_make("one");
    uint64_t begun = sim_now_ns(r.sim);
    (void)checkpoint_make("two");
    ck_assert_uint_eq(r.hook_count, 1);
    (void)sim_run(r.sim, begun + 3 * SECOND / 2, job_over, NULL);
    ck_assert_uint_eq(r.hook_asked, 0);
    (void)sim_run(r.sim, begun + 3 * SECOND, job_over, NULL);
    ck_assert_uint_eq(r.hook_asked, 1);
    (void)sim_run(r.sim, begun + 10 * SECOND, job_over, NULL);
    status_says(_i == 0 ? "done" : "over its limit: asked to end");
    ck_assert_uint_eq(r.hook_killed, 0);
    ck_assert_uint_eq(r.hook_count, _i == 0 ? 2 : 1);
    (void)sim_run(r.sim, begun + 20 * SECOND, job_over, NULL);
    ck_assert_uint_eq(r.hook_killed, (uint32_t)_i);
    ck_assert_uint_eq(r.hook_count, 2);
    job_done();
    ck_assert_int_eq(json_parse(r.client.report, strlen(r.client.report), &j, NULL), 0);
    ck_assert_str_eq(json_as_string(json_get(j, "checkpoints.0.publish"), ""), "over its limit");
    ck_assert_int_eq(json_as_int(json_get(j, "checkpoints.0.publish_status"), -1),
                     128 + (_i == 0 ? 15 : 9));
    ck_assert_str_eq(json_as_string(json_get(j, "checkpoints.1.publish"), ""), "done");
    json_free(j);
    rig_stop();
}
END_TEST

/* The command outlives its job while another folder waits for it; the next job publishes
 * nothing. */
START_TEST(checkpoint_publish_that_outlives_its_job_is_told_of_nowhere)
{
    r.hooks = r.hook_holds = true;
    rig_start("epochs: 2, consistency: ssp", ", publish: [publish-it, now]", NULL);
    run_batches(20);
    (void)checkpoint_make("one");
    (void)checkpoint_make("two");
    ck_assert_uint_eq(r.hook_count, 1);
    struct string_list *publish = &r.coord->slot[0].spec.checkpoint.publish;
    size_t words = publish->count;
    publish->count = 0; /* as the next job's */
    coord_checkpoint_job(&r.coord->slot[0]);
    r.hook_holds = false;
    (void)sim_run(r.sim, sim_now_ns(r.sim) + SECOND, job_over, NULL);
    ck_assert(!r.coord->slot[0].checkpoint->hook.running);
    ck_assert_uint_eq(r.hook_count, 1);
    ck_assert_uint_eq(r.coord->slot[0].checkpoint->list->record[0].published, 0);
    publish->count = words;
    job_done();
    rig_stop();
}
END_TEST

/* The list wrapped around while the command ran: its record belongs to a newer checkpoint now. */
START_TEST(checkpoint_publish_that_outlives_its_record_is_told_of_nowhere)
{
    r.hooks = r.hook_holds = true;
    rig_start("epochs: 2, consistency: ssp", ", publish: [publish-it, now]", NULL);
    run_batches(20);
    (void)checkpoint_make("one");
    const struct coord_checkpoint *k = r.coord->slot[0].checkpoint;
    k->list->made = COORD_CHECKPOINTS_MAX;
    (void)checkpoint_make("two");
    ck_assert_str_eq(k->list->record[0].name, "two");
    (void)checkpoint_make("three");
    struct json *told = coord_checkpoint_publish_json(&r.coord->slot[0]);
    ck_assert_ptr_null(told);
    r.hook_holds = false;
    while (r.hook_count < 2)
        ck_assert(sim_step(r.sim));
    ck_assert_ptr_nonnull(strstr(r.hooked[1], "/three"));
    ck_assert_uint_eq(k->list->record[0].published, 4); /* passed over, and still so */
    ck_assert_uint_eq(k->list->record[1].published, 1);
    rig_stop();
}
END_TEST

/* Digits alone are the names of checkpoints that the user did not name. */
START_TEST(checkpoint_name_of_digits_is_refused)
{
    rig_start("epochs: 2, consistency: ssp", "", NULL);
    run_batches(20);
    fake_client_checkpoint(&r.client, "20261121");
    checkpoint_wait();
    ck_assert_int_eq(r.client.checkpoint.status, SHOAL_E_USAGE);
    ck_assert_uint_eq(entries(""), 0);
    job_done();
    rig_stop();
}
END_TEST

START_TEST(checkpoint_publish_needs_leave)
{
    rig_start("epochs: 2, consistency: ssp", ", publish: [publish-it, now]", NULL);
    ck_assert(sim_run(r.sim, 60 * SECOND, job_over, NULL));
    ck_assert_int_eq(r.client.submit_status, SHOAL_E_DENIED);
    ck_assert_ptr_nonnull(strstr(r.client.text, "publish: true"));
    rig_stop();
}
END_TEST

static void setup(void)
{
    log_set_level(getenv("SHOAL_SIM_LOG") != NULL ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR);
    (void)snprintf(folder, sizeof folder, "/tmp/shoal-checkpoints-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

int main(void)
{
    Suite *s = suite_create("coord_checkpoint");
    TCase *t = tcase_create("coord_checkpoint");
    tcase_add_loop_test(t, checkpoint_without_its_name_is_not_gone_back_to, 0, 4);
    tcase_add_test(t, checkpoint_that_cannot_be_read_yet_is_looked_for_again);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 100); /* real folders, really synced */
    tcase_add_test(t, checkpoint_is_made_while_training_goes_on);
    tcase_add_test(t, checkpoint_names_are_checked);
    tcase_add_test(t, checkpoint_without_a_folder_or_a_job_is_refused);
    tcase_add_test(t, checkpoint_of_a_job_that_is_done);
    tcase_add_loop_test(t, checkpoint_of_tables_whatever_the_last_job_came_to, 0, 4);
    tcase_add_test(t, checkpoint_of_tables_is_waited_for);
    tcase_add_loop_test(t, checkpoint_of_a_job_that_is_done_keeps_its_figures, 0, 4);
    tcase_add_test(t, checkpoint_of_a_log_that_grows_begins_its_lanes_anew);
    tcase_add_test(t, checkpoint_of_a_log_that_grows_by_a_coordinator_that_did_not_see_it);
    tcase_add_test(t, checkpoint_of_the_end_within_a_round_is_gone_on_with);
    tcase_add_test(t, checkpoint_of_the_end_is_made_once);
    tcase_add_test(t, checkpoint_of_a_job_that_is_done_may_fail);
    tcase_add_test(t, checkpoint_by_batches_keeps_the_newest);
    tcase_add_test(t, checkpoint_of_another_space_stays);
    tcase_add_test(t, checkpoint_named_ones_are_kept_by_their_number);
    tcase_add_test(t, checkpoint_named_ones_that_lack_rows_are_counted_apart);
    tcase_add_loop_test(t, checkpoint_folder_of_another_run_is_refused, 0, 2);
    tcase_add_test(t, checkpoint_folder_that_another_took_loses_none);
    tcase_add_test(t, checkpoint_by_minutes);
    tcase_add_test(t, checkpoint_and_best_epochs_do_not_disturb_each_other);
    tcase_add_test(t, checkpoint_holds_pushes_for_a_second_at_most);
    tcase_add_test(t, checkpoint_that_a_shard_cannot_write_is_given_up);
    tcase_add_loop_test(t, checkpoint_folder_that_hangs_stops_nothing_else, 0, 2);
    tcase_add_test(t, checkpoint_that_waits_for_a_folder_that_hangs_has_an_end);
    tcase_add_loop_test(t, checkpoint_folder_that_hangs_is_told_to_who_submits, 0, 2);
    tcase_add_loop_test(t, checkpoint_ends_with_the_shard_that_dies, 0, 2);
    tcase_add_test(t, checkpoint_of_a_dead_coordinator_is_removed);
    tcase_add_test(t, checkpoint_cuts_that_were_given_up_go_at_registration);
    tcase_add_test(t, checkpoint_waits_for_a_server_that_is_away);
    tcase_add_loop_test(t, checkpoint_without_a_server_that_is_gone, 0, 2);
    tcase_add_test(t, checkpoint_cuts_given_up_ask_nothing_of_who_is_away);
    tcase_add_loop_test(t, stopped_job_makes_its_last_checkpoint, 0, 7);
    tcase_add_loop_test(t, stopped_job_ends_without_a_checkpoint, 0, 5);
    tcase_add_loop_test(t, checkpoint_goes_on_at_the_very_batch, 0, 10);
    tcase_add_test(t, checkpoint_of_an_evaluation_goes_on);
    tcase_add_loop_test(t, checkpoint_goes_on_with_the_best_epoch, 0, 3);
    tcase_add_test(t, checkpoint_restore_survives_the_coordinator);
    tcase_add_loop_test(t, checkpoint_restore_that_failed_can_be_tried_again, 0, 2);
    tcase_add_loop_test(t, checkpoint_in_memory_is_gone_back_to, 0, 6);
    tcase_add_loop_test(t, checkpoint_in_memory_is_gone_back_to_in_every_phase, 0, 15);
    tcase_add_loop_test(t, checkpoint_folder_that_hangs_is_waited_for_to_go_back, 0, 4);
    tcase_add_test(t, job_that_waits_to_go_back_is_stopped_at_once);
    tcase_add_test(t, checkpoint_that_is_loaded_is_held_again_by_an_errand);
    tcase_add_test(t, checkpoint_folder_without_room_is_refused_with_the_job);
    tcase_add_test(t, checkpoint_of_the_end_that_cannot_be_made_is_the_jobs_status);
    tcase_add_test(t, checkpoint_newest_and_last_failure_are_told);
    tcase_add_test(t, checkpoint_that_was_never_made_is_told_since_when);
    tcase_add_loop_test(t, checkpoint_that_is_late_is_a_problem, 0, 2);
    tcase_add_test(t, checkpoint_in_memory_is_gone_back_to_again);
    tcase_add_test(t, checkpoint_gone_back_to_lets_no_counter_fall);
    tcase_add_loop_test(t, checkpoint_gone_back_to_in_vain_ends_the_job, 0, 3);
    tcase_add_test(t, checkpoint_gone_back_to_often_is_no_end_while_the_job_comes_on);
    tcase_add_loop_test(t, checkpoint_in_memory_survives_the_coordinator, 0, 4);
    tcase_add_loop_test(t, checkpoint_that_has_its_name_belongs_to_the_job, 0, 4);
    tcase_add_loop_test(t, checkpoint_that_is_to_get_its_name_is_gone_back_to, 0, 2);
    tcase_add_loop_test(t, checkpoint_that_has_its_name_is_handled_as_others, 0, 2);
    tcase_add_loop_test(t, checkpoint_gone_back_to_is_the_job_that_was_submitted, 0, 2);
    tcase_add_loop_test(t, checkpoint_in_memory_that_it_began_with, 0, 2);
    tcase_add_loop_test(t, checkpoint_before_the_newest_is_gone_back_to, 0, 2);
    tcase_add_test(t, checkpoint_in_memory_that_is_gone_ends_the_job);
    tcase_add_loop_test(t, checkpoint_is_gone_back_to_where_power_took_pushes, 0, 3);
    tcase_add_loop_test(t, checkpoint_of_an_evaluation_goes_on_and_power_is_noticed, 0, 2);
    tcase_add_test(t, checkpoint_power_is_noticed_while_an_epoch_is_kept);
    tcase_add_test(t, checkpoint_is_gone_back_to_beside_other_spaces);
    tcase_add_loop_test(t, checkpoint_goes_on_and_power_is_noticed_to_the_end, 0, 2);
    tcase_add_loop_test(t, checkpoint_gone_back_to_half_is_gone_back_to, 0, 8);
    tcase_add_loop_test(t, checkpoint_half_stored_is_gone_back_to, 0, 2);
    tcase_add_test(t, checkpoint_half_gone_back_to_is_nobodys);
    tcase_add_test(t, checkpoint_goes_on_on_servers_that_held_rows);
    tcase_add_test(t, checkpoint_lanes_stay_where_they_fit_the_workers);
    tcase_add_test(t, checkpoint_for_another_job_is_refused);
    tcase_add_test(t, checkpoint_of_the_end_with_another_limit_is_refused);
    tcase_add_test(t, checkpoint_with_a_changed_bit_is_refused);
    tcase_add_test(t, checkpoint_counts_time_up_to_now);
    tcase_add_loop_test(t, checkpoint_that_somebody_has_made_is_refused, 0, 6);
    tcase_add_test(t, checkpoint_that_nobody_listed_has_signed_is_refused);
    tcase_add_loop_test(t, checkpoint_outside_the_root_is_refused, 0, 3);
    tcase_add_loop_test(t, checkpoint_publish_runs_a_command, 0, 2);
    tcase_add_loop_test(t, checkpoint_publish_that_hangs_is_ended, 0, 2);
    tcase_add_test(t, checkpoint_publish_that_outlives_its_job_is_told_of_nowhere);
    tcase_add_test(t, checkpoint_publish_that_outlives_its_record_is_told_of_nowhere);
    tcase_add_test(t, checkpoint_name_of_digits_is_refused);
    tcase_add_test(t, checkpoint_publish_needs_leave);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
