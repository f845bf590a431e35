/* test_rogue.c: clusters of real shards, workers and a real coordinator with one more worker that
 * sends what no worker should (sim_rogue.h), over jobs of every kind, from one seed each. The
 * coordinator is killed and started again at random moments and behind each job; half the seeds
 * run a second job.
 *
 * No program may crash or stop; every job must end, well or with a sentence; a coordinator that
 * starts again must start; and where the rogue was a bystander, which has never been given work,
 * the job must end well, with each key counted as often as the input has it.
 *
 * SHOAL_SIM_SEEDS=N runs N seeds of each kind, SHOAL_SIM_FIRST=S begins at seed S, SHOAL_SIM_KIND=K
 * takes one kind. What fails says the one command that repeats it. tests/sim/seeds --of rogue runs
 * many. */
#include "tests/lib/dense_case.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/sim_cluster.h"
#include "tests/lib/sim_oracle.h"
#include "tests/lib/sim_rogue.h"
#include "tests/lib/worker_files.h"

#include "proto/base/key.h"
#include "proto/base/log.h"
#include "server/coord/core.h"
#include "server/coord/phase.h"
#include "server/shard/shard.h"

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
#define WALL_S UINT64_C(1700000000)
#define DAY_S UINT64_C(86400)
#define ROWS 240u
#define VALID 60u
#define VALUES_A 30u
#define VALUES_B 7u
#define PARTS 4u

static struct backend *backend;
static struct cluster cluster;
static struct rogue rogue;
static char yaml[2048];
static const char *folder;
static struct oracle_count counts[VALUES_A + VALUES_B];

/* ---- jobs ------------------------------------------------------------------------------------ */

struct kind {
    const char *name, *model, *mode;
    const char *data;  /* further keys of `data` */
    const char *train; /* of `train` */
    const char *more;  /* further lines */
    bool counts;       /* the probe, over all lines, each once an epoch */
};

#define PROBE "{kind: probe}"
#define DEEPFM "{kind: deepfm, hidden: [4], norm: none}"
#define FILES "label: label, train: [train.csv], valid: [valid.csv]"
#define OBJECTS "label: label, train: [part-*.csv], valid: [part-*.csv], "
#define JOIN "label: click, train: [train.csv], join: {clicks: [clicks.csv], id: id, window: 30min}"

static const struct kind kinds[] = {
    {"async", PROBE, "async", FILES, "", "", true},
    {"ssp", PROBE, "ssp", FILES ", test: [valid.csv]", "", "", true},
    {"bsp", PROBE, "bsp", FILES, "", "", true},
    {"stop_bsp", DEEPFM, "bsp", FILES,
     "early_stop: {metric: logloss, patience: 1, lr_decay: 0.1}, ", "evaluate: {by: [a]}\n", false},
    {"within_ssp", DEEPFM, "ssp", FILES, "", "evaluate: {every_batches: 4, group: b, by: [a, b]}\n",
     false},
    {"tasks_ssp", "{kind: mmoe, experts: 2, hidden: [4], tower: [4]}", "ssp",
     "label: [label, other], train: [train.csv], valid: [valid.csv], columns: [{name: label, type: "
     "label}, {name: other, type: label}, {name: a, type: category}, {name: b, type: category}, "
     "{name: id, type: skip}]",
     "", "evaluate: {by: [b]}\n", false},
    {"replay_ssp", PROBE, "ssp", FILES, "", "replay: {window: 6h, checkpoint: false}\n", true},
    {"replay_bsp", PROBE, "bsp", FILES, "", "replay: {window: 6h, checkpoint: false}\n", true},
    {"objects_async", PROBE, "async", OBJECTS "objects: true", "", "", true},
    {"objects_ssp", PROBE, "ssp", OBJECTS "objects: {failed: leave_out}, test: [part-0.csv]", "",
     "", true},
    {"objects_bsp", PROBE, "bsp", OBJECTS "objects: true", "", "", true},
    {"parts_ssp", PROBE, "ssp", OBJECTS "objects: true", "",
     "replay: {window: 6h, checkpoint: false}\n", true},
    {"parts_bsp", PROBE, "bsp", OBJECTS "objects: true", "",
     "replay: {window: 6h, checkpoint: false}\n", true},
    {"grow_ssp", PROBE, "ssp", OBJECTS "objects: {grow: 1s}", "", "", true},
    {"grow_bsp", PROBE, "bsp", OBJECTS "objects: {grow: 1s}", "", "", true},
    {"join_ssp", PROBE, "ssp", JOIN, "", "", false},
    {"memory_ssp", PROBE, "ssp", FILES, "",
     "durability: memory\ncheckpoint: {dir: ck, every_batches: 6, at_end: true}\n", true},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static bool grows(const struct kind *k)
{
    return strstr(k->data, "grow") != NULL;
}

static uint32_t epochs_of(const struct kind *k)
{
    bool once = grows(k) || strstr(k->more, "replay") != NULL;
    return once ? 1 : strstr(k->train, "stop") != NULL ? 4 : 2;
}

static void job_make(const struct kind *k)
{
    bool tasks = strstr(k->model, "mmoe") != NULL, join = strstr(k->data, "join") != NULL;
    int n = snprintf(
        yaml, sizeof yaml,
        "job: rogue\n"
        "data: {format: csv, time: t, cache: cache, %s%s}\n"
        "tables:\n"
        "  - {name: emb, dim: 2, tablets: 64, init: {kind: zero}, optimizer: {kind: "
        "sgd, lr: 1}}\n"
        "model: %s\n"
        "train: {batch: 16, epochs: %u, consistency: %s, staleness: 2, prefetch: 2, "
        "lanes: 3, %sbackend: cpu, task_batches: 2}\n"
        "coordinator: {lease: 1s}\n"
        "net: {resend: 100ms}\n"
        "%s",
        k->data,
        tasks || join ? "" : ", columns: [{name: other, type: skip}, {name: id, type: skip}]",
        k->model, epochs_of(k), k->mode, k->train, k->more);
    ck_assert_uint_lt((size_t)n, sizeof yaml);
}

static void count_value(uint32_t field, uint32_t value, struct oracle_count *at)
{
    char text[16];
    int bytes = snprintf(text, sizeof text, "%u", value);
    at->key = key_of_value(field, text, (size_t)bytes);
    at->examples++;
}

static const char header[] = "label,a,b,t,other,id\n";

static void line_add(char *data, size_t *at, struct rng *r, uint32_t i, uint32_t rows, bool count)
{
    uint32_t a = (uint32_t)rng_below(r, VALUES_A), b = (uint32_t)rng_below(r, VALUES_B);
    *at += (size_t)snprintf(data + *at, 64, "%u,%u,%u,%" PRIu64 ",%u,%u\n", (a + b) % 2, a, b,
                            WALL_S - 3 * DAY_S + i * (2 * DAY_S / rows), a % 2, i);
    if (count) {
        count_value(0, a, &counts[a]);
        count_value(1, b, &counts[VALUES_A + b]);
    }
}

/* The log, the same lines as objects, and clicks on every fifth of them. */
static void files_make(void)
{
    static char data[1 << 15], part[1 << 15];
    struct rng r = rng_of(1, 0, 0);
    size_t at = (size_t)snprintf(data, sizeof data, "%s", header), first = at;
    for (uint32_t i = 0; i < ROWS; i++) {
        line_add(data, &at, &r, i, ROWS, true);
        if ((i + 1) % (ROWS / PARTS) != 0)
            continue;
        char name[32];
        int n = snprintf(part, sizeof part, "%s%.*s", header, (int)(at - first), data + first);
        (void)snprintf(name, sizeof name, "part-%u.csv", i / (ROWS / PARTS));
        worker_write(name, part, (size_t)n);
        first = at;
    }
    worker_write("train.csv", data, at);
    at = (size_t)snprintf(data, sizeof data, "%s", header);
    for (uint32_t i = 0; i < VALID; i++)
        line_add(data, &at, &r, i, VALID, false);
    worker_write("valid.csv", data, at);
    at = (size_t)snprintf(data, sizeof data, "id,t\n");
    for (uint32_t i = 0; i < ROWS; i += 5)
        at += (size_t)snprintf(data + at, 64, "%u,%" PRIu64 "\n", i,
                               WALL_S - 3 * DAY_S + i * (2 * DAY_S / ROWS) + 60);
    worker_write("clicks.csv", data, at);
}

/* ---- a run ----------------------------------------------------------------------------------- */

struct tally {     /* shared with the parent: the test may have died of anything */
    uint64_t seed; /* being played; 0: none */
    uint64_t seeds, jobs, done, ns, sent, refused, restarts, stopped;
};
static struct tally *tallies; /* (KINDS) */

struct run {
    const struct kind *kind;
    struct rng rng;
    char who[64], dir[512];
    uint32_t kills; /* of the coordinator, in each job */
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

static void plan(struct run *p, const struct kind *k, uint64_t seed)
{
    memset(p, 0, sizeof *p);
    p->kind = k;
    p->rng = rng_of(seed, 78, 8);
    p->bystander = seed % 3 == 0;
    p->second = rng_below(&p->rng, 2) == 0 && !grows(k); /* it would wait for more objects */
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
                                 .wall_s = WALL_S};
    o.servers = 1 + (uint32_t)rng_below(r, 2);
    o.workers = 1 + (uint32_t)rng_below(r, 2);
    if (strstr(p->kind->more, "durability: memory") != NULL)
        o.durability = DURABLE_MEMORY;
    ck_assert_int_eq(mkdir(p->dir, 0700), 0);
    cluster_start(&cluster, &o, backend);
    oracle_watch(&cluster, p->who);
    rogue_start(&rogue, &cluster, seed, p->bystander, in((1 + rng_below(r, 20)) * SECOND));
}

/* A log that grows has no end but this one: once the rogue is silent. */
static void log_end(const struct run *p)
{
    const struct coord *c = cluster.coord;
    bool all = c != NULL && c->job.at.phase == PHASE_GROW && c->job.grow.at.read >= PARTS;
    if (grows(p->kind) && (all || sim_now_ns(cluster.sim) > rogue.until_ns + 30 * SECOND) &&
        c != NULL && sim_now_ns(cluster.sim) > rogue.until_ns)
        (void)coord_grow_stop(cluster.coord, 1);
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

/* Workers that have ended come again, as a unit starts them; but not without end: where all of them
 * fail for what the rogue has said of the input, an operator stops the job. */
static void workers_again(struct tally *t)
{
    if (workers_left())
        cluster_mend(&cluster);
    else if (!workers_alive() && coord_phase_running(cluster.coord)) {
        (void)coord_end_fail(cluster.coord, SHOAL_E_STOPPED, "stopped by request");
        t->stopped++;
    }
}

/* Until the job is over; what it ended with. */
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
                  coord_phase_text((enum coord_phase)cluster.coord->job.at.phase));
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
    oracle_rows_count(&rows, counts, VALUES_A + VALUES_B, epochs_of(p->kind) * jobs);
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

static void play(const struct kind *k, uint64_t seed)
{
    static struct run p;
    struct tally *t = &tallies[k - kinds];
    struct cluster_result got;
    char command[600];
    t->seed = seed;
    plan(&p, k, seed);
    job_make(k);
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
        play(&kinds[_i], seed);
    tallies[_i].seed = 0;
    ck_assert(seeds < 8 || tallies[_i].done > 0);
}
END_TEST

static void setup(void)
{
    log_set_level(getenv("SHOAL_SIM_LOG") != NULL ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR);
    folder = worker_folder_make();
    ck_assert_int_eq(chdir(folder), 0);
    memset(counts, 0, sizeof counts);
    files_make();
    if (backend == NULL)
        backend = dense_backend();
}

static void teardown(void)
{
    worker_folder_remove();
}

/* For tests/sim/seeds: a line a kind, words and numbers. */
static void tallies_say(void)
{
    for (uint32_t i = 0; i < KINDS; i++)
        if (tallies[i].seeds > 0)
            printf("tally %s seeds %" PRIu64 " jobs %" PRIu64 " virtual_seconds %" PRIu64
                   " done %" PRIu64 " messages %" PRIu64 " refused %" PRIu64 " restarts %" PRIu64
                   " stopped %" PRIu64 "\n",
                   kinds[i].name, tallies[i].seeds, tallies[i].jobs, tallies[i].ns / SECOND,
                   tallies[i].done, tallies[i].sent, tallies[i].refused, tallies[i].restarts,
                   tallies[i].stopped);
}

int main(int argc, char **argv)
{
    Suite *s = suite_create("rogue");
    TCase *c = tcase_create("rogue");
    const char *only = getenv("SHOAL_SIM_KIND");
    bool one = only != NULL && strtoul(only, NULL, 10) < KINDS;
    tallies = mmap(NULL, sizeof *tallies * KINDS, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tallies == MAP_FAILED || argc < 1)
        return 1;
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 7200);
    tcase_add_loop_test(c, rogue_worker_stops_nothing, one ? atoi(only) : 0,
                        one ? atoi(only) + 1 : (int)KINDS);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    for (uint32_t i = 0; failed > 0 && i < KINDS; i++)
        if (tallies[i].seed != 0)
            fprintf(stderr,
                    "again: SHOAL_SIM_KIND=%u SHOAL_SIM_FIRST=%" PRIu64 " SHOAL_SIM_SEEDS=1 %s\n",
                    i, tallies[i].seed, argv[0]);
    if (getenv("SHOAL_SIM_SEEDS") != NULL)
        tallies_say();
    return failed ? 1 : 0;
}
