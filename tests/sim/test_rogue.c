/* test_rogue.c: clusters of real shards, real workers and a real coordinator, with one more worker
 * that sends messages that no worker should send (sim_rogue.h), over jobs of every kind, each from
 * one seed. The coordinator is killed and started again at random moments and after each job; half
 * the seeds run a second job.
 *
 * No program may crash or stop. Every job must end, well or with a sentence. A coordinator that
 * starts again must start. If the rogue was a bystander, which never gets work, the job must end
 * well, with each key counted as often as the input has it.
 *
 * SHOAL_SIM_SEEDS=N runs N seeds of each kind, SHOAL_SIM_FIRST=S begins at seed S, SHOAL_SIM_KIND=K
 * takes one kind. A failure prints the one command that repeats it. tests/sim/seeds --of rogue runs
 * many. */
#include "proto/base/log.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"
#include "server/shard/shard.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/sim_cluster.h"
#include "tests/lib/sim_jobs.h"
#include "tests/lib/sim_oracle.h"
#include "tests/lib/sim_rogue.h"
#include "tests/lib/worker_files.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define BOUND (900 * SECOND)

static struct backend *backend;
static struct cluster cluster;
static struct rogue rogue;
static char yaml[SIM_JOB_TEXT];
static const char *folder;
static const struct oracle_count *counts;

/* ---- a run ----------------------------------------------------------------------------------- */

struct tally {     /* shared with the parent, which needs it if the test was killed */
    uint64_t seed; /* being played; 0: none */
    uint64_t seeds, jobs, done, ns, sent, refused, restarts, stopped;
};
static struct tally *tallies; /* (SIM_JOBS) */

struct run {
    const struct sim_job *kind;
    struct rng rng;
    char who[64], dir[512];
    uint32_t kills; /* kills of the coordinator, in each job */
    bool bystander, second;
};

static uint64_t number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : fallback;
}

static uint64_t in(uint64_t ns)
{
    return sim_now_ns(cluster.sim) + ns;
}

static void plan(struct run *p, const struct sim_job *k, uint64_t seed)
{
    memset(p, 0, sizeof *p);
    p->kind = k;
    p->rng = rng_of(seed, 78, 8);
    p->bystander = seed % 3 == 0;
    p->second =
        rng_below(&p->rng, 2) == 0 && !sim_job_grows(k); /* it would wait for more objects */
    p->kills = (uint32_t)rng_below(&p->rng, 4);
    (void)snprintf(p->who, sizeof p->who, "%s, seed %" PRIu64, k->name, seed);
    (void)snprintf(p->dir, sizeof p->dir, "%s/run", folder);
}

static void cluster_make(struct run *p, uint64_t seed)
{
    struct cluster_options o = {.yaml = yaml, .dir = p->dir, .durability = DURABLE_JOURNAL};
    struct rng *r = &p->rng;
    o.sim = (struct sim_options){.seed = seed,
                                 .delay_min_ns = MS / 20,
                                 .delay_max_ns = MS + rng_below(r, 3) * MS,
                                 .work_min_ns = MS / 10,
                                 .work_max_ns = 4 * MS,
                                 .drop = rng_below(r, 4) == 0 ? 0.05 : 0,
                                 .reorder = rng_below(r, 2) == 1,
                                 .wall_s = SIM_JOBS_WALL_S};
    o.servers = 1 + (uint32_t)rng_below(r, 2);
    o.workers = 1 + (uint32_t)rng_below(r, 2);
    o.keep_ns = seed % 4 == 1 ? 5 * MS : 0;
    if (strstr(p->kind->more, "durability: memory") != NULL)
        o.durability = DURABLE_MEMORY;
    ck_assert_int_eq(mkdir(p->dir, 0700), 0);
    cluster_start(&cluster, &o, backend);
    oracle_watch(&cluster, p->who);
    rogue_start(&rogue, &cluster, seed, p->bystander, in((1 + rng_below(r, 20)) * SECOND));
}

/* Ends a log that grows, once the rogue is silent: it has no other end. */
static void log_end(const struct run *p)
{
    const struct coord *c = cluster.coord;
    bool all = c != NULL && c->slot[0].at.phase == PHASE_GROW &&
               c->slot[0].grow->at.read >= SIM_JOBS_PARTS;
    if (sim_job_grows(p->kind) && (all || sim_now_ns(cluster.sim) > rogue.until_ns + 30 * SECOND) &&
        c != NULL && sim_now_ns(cluster.sim) > rogue.until_ns)
        (void)coord_stop_order(&cluster.coord->slot[0], 1);
}

static void coord_again(struct tally *t)
{
    cluster_coord_kill(&cluster);
    cluster_coord_start(&cluster); /* asserts that it starts */
    t->restarts++;
}

static bool workers_left(void)
{
    return cluster.workers + 2 * cluster.options.workers < CLUSTER_WORKERS;
}

static bool workers_alive(void)
{
    for (uint32_t i = 0; i < cluster.workers; i++)
        if (cluster.worker[i].node != NULL)
            return true;
    return false;
}

/* Starts workers that have ended again, as a systemd unit does, but not for ever: if all of them
 * fail because of the rogue's messages about the input, an operator stops the job. */
static void workers_again(struct tally *t)
{
    if (workers_left())
        cluster_mend(&cluster);
    else if (!workers_alive() && coord_phase_running(&cluster.coord->slot[0])) {
        (void)coord_end_fail(&cluster.coord->slot[0], SHOAL_E_STOPPED, "stopped by request");
        t->stopped++;
    }
}

/* Runs until the job is over; *got: its result. */
static void job_run(struct run *p, struct tally *t, struct cluster_result *got)
{
    bool over = false;
    uint32_t kills = p->kills;
    for (uint64_t end = in(BOUND); !over && sim_now_ns(cluster.sim) < end;) {
        over = cluster_run(&cluster, in((1 + rng_below(&p->rng, 900)) * MS));
        log_end(p);
        if (!over && kills > 0 && rng_below(&p->rng, 2) == 0) {
            coord_again(t);
            kills--;
        }
        workers_again(t);
    }
    ck_assert_msg(over, "%s: not over after %" PRIu64 " s of virtual time, in phase %s", p->who,
                  sim_now_ns(cluster.sim) / SECOND,
                  coord_phase_text((enum coord_phase)cluster.coord->slot[0].at.phase));
    memset(got, 0, sizeof *got);
    got->state = cluster.client->state;
    got->status = cluster.client->submit_status;
    (void)snprintf(got->text, sizeof got->text, "%s", cluster.client->text);
}

static void rows_check(const struct run *p, uint32_t jobs)
{
    struct oracle_rows rows;
    ck_assert_msg(cluster_settle(&cluster, in(BOUND)), "%s: the shards do not come back", p->who);
    oracle_rows_take(&rows);
    oracle_rows_count(&rows, counts, SIM_JOBS_VALUES, sim_job_epochs(p->kind) * jobs);
    oracle_rows_free(&rows);
}

static void job_check(const struct run *p, const struct cluster_result *got, uint32_t jobs)
{
    bool done = got->status == 0 && got->state == WIRE_JOB_DONE;
    ck_assert_msg(done || got->text[0] != 0, "%s: it ends without a word", p->who);
    ck_assert_msg(done || !p->bystander, "%s: ended by a bystander: %s", p->who, got->text);
    if (p->bystander && p->kind->counts)
        rows_check(p, jobs);
}

static void play(const struct sim_job *k, uint64_t seed)
{
    static struct run p;
    struct tally *t = &tallies[k - sim_jobs];
    struct cluster_result got;
    char command[600];
    t->seed = seed;
    plan(&p, k, seed);
    sim_job_text(k, yaml);
    cluster_make(&p, seed);
    for (uint32_t job = 0; job < 1u + p.second && workers_left(); job++) {
        if (job > 0)
            cluster_submit(&cluster);
        rogue.until_ns = job > 0 ? in(10 * SECOND) : rogue.until_ns;
        job_run(&p, t, &got);
        job_check(&p, &got, 1 + job);
        coord_again(t);
        (void)cluster_run(&cluster, in(SECOND));
        t->jobs++;
        t->done += got.status == 0 && got.state == WIRE_JOB_DONE;
    }
    t->seeds++;
    t->ns += sim_now_ns(cluster.sim);
    t->sent += rogue.sent;
    t->refused += rogue.refused;
    cluster_free(&cluster);
    rogue_free(&rogue);
    (void)snprintf(command, sizeof command, "rm -rf %s %s/cache %s/ck", p.dir, folder, folder);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(rogue_worker_stops_nothing)
{
    uint64_t first = number("SHOAL_SIM_FIRST", 1), seeds = number("SHOAL_SIM_SEEDS", 12);
    for (uint64_t seed = first; seed < first + seeds; seed++)
        play(&sim_jobs[_i], seed);
    tallies[_i].seed = 0;
    ck_assert(seeds < 8 || tallies[_i].done > 0);
}
END_TEST

static void setup(void)
{
    log_set_level(getenv("SHOAL_SIM_LOG") != NULL ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR);
    folder = worker_folder_make();
    ck_assert_int_eq(chdir(folder), 0);
    counts = sim_jobs_input();
    if (backend == NULL)
        backend = dense_backend();
}

static void teardown(void)
{
    worker_folder_remove();
}

/* For tests/sim/seeds: prints a line for each kind, of words and numbers. */
static void tallies_say(void)
{
    for (uint32_t i = 0; i < SIM_JOBS; i++)
        if (tallies[i].seeds > 0)
            printf("tally %s seeds %" PRIu64 " jobs %" PRIu64 " virtual_seconds %" PRIu64
                   " done %" PRIu64 " messages %" PRIu64 " refused %" PRIu64 " restarts %" PRIu64
                   " stopped %" PRIu64 "\n",
                   sim_jobs[i].name, tallies[i].seeds, tallies[i].jobs, tallies[i].ns / SECOND,
                   tallies[i].done, tallies[i].sent, tallies[i].refused, tallies[i].restarts,
                   tallies[i].stopped);
}

int main(int argc, char **argv)
{
    if (argc > 1) /* tests/sim/seeds asks how many kinds there are */
        return printf("%u\n", (unsigned)SIM_JOBS) < 0;
    Suite *s = suite_create("rogue");
    TCase *c = tcase_create("rogue");
    const char *only = getenv("SHOAL_SIM_KIND");
    bool one = only != NULL && strtoul(only, NULL, 10) < SIM_JOBS;
    tallies = mmap(NULL, sizeof *tallies * SIM_JOBS, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tallies == MAP_FAILED || argc < 1)
        return 1;
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 7200);
    tcase_add_loop_test(c, rogue_worker_stops_nothing, one ? atoi(only) : 0,
                        one ? atoi(only) + 1 : (int)SIM_JOBS);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    for (uint32_t i = 0; failed > 0 && i < SIM_JOBS; i++)
        if (tallies[i].seed != 0)
            fprintf(stderr,
                    "again: SHOAL_SIM_KIND=%u SHOAL_SIM_FIRST=%" PRIu64 " SHOAL_SIM_SEEDS=1 %s\n",
                    i, tallies[i].seed, argv[0]);
    if (getenv("SHOAL_SIM_SEEDS") != NULL)
        tallies_say();
    return failed ? 1 : 0;
}
