/* test_replicas.c: jobs on a fleet whose shards have followers, under faults that follow from a
 * seed: servers are killed and started again, frozen, or cut from one another and from the
 * coordinator; the coordinator is killed.
 *
 * There is one fault at a time, or a pair of faults of which a copy survives, and it begins while
 * all copies are in sync, so no acknowledged push may be lost, in `memory` mode either. Where no
 * copy loses records with its process half the seeds do not wait: the next fault may begin before
 * the copies are in sync again. In a quarter of the seeds the transactions of the coordinator's
 * store take time, or are lost with it. In an eighth machines lose power, one or more at once: then
 * `journal` may lose pushes on all copies, and the job trains them again or ends with a sentence.
 * At the end
 *  - the rows equal those of an undisturbed run without followers (probe: the input's counts);
 *  - all copies of a shard are equal bit for bit (sim_copies.h).
 * The oracle (sim_oracle.h) knows every acknowledged push and checks it on the copy that leads.
 *
 * SHOAL_SIM_SEEDS, SHOAL_SIM_FIRST and SHOAL_SIM_KIND are those of test_cluster. */
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/rng.h"
#include "server/coord/job/slot.h"
#include "server/shard/shard.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/sim_cluster.h"
#include "tests/lib/sim_copies.h"
#include "tests/lib/sim_one_job.h"
#include "tests/lib/sim_oracle.h"
#include "tests/lib/worker_files.h"
#include "worker/train/trainer.h"

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
#define EPOCHS 2u
#define STRIKES 6u
#define TAKEOVERS 20u
#define TAKEOVER_NS (300 * MS)

static struct backend *backend;
static struct cluster cluster;
static char yaml[2048], who[64];
static const char *folder;
static uint32_t epochs = EPOCHS;
static uint32_t swaps; /* how often the coordinator that stood by has led */
static bool standby;   /* two coordinators; the faults are the deaths of the one that leads */
static bool quiet;     /* no message is lost or late; the faults are deaths of servers */
static struct oracle_count counts[SIM_ONE_JOB_VALUES];

struct kind {
    const char *name, *model, *mode;
    enum durability durability;
};
static const struct kind kinds[] = {
    {"probe_ssp_journal", "{kind: probe}", "ssp", DURABLE_JOURNAL},
    {"probe_ssp_memory", "{kind: probe}", "ssp", DURABLE_MEMORY},
    {"probe_ssp_fsync", "{kind: probe}", "ssp", DURABLE_FSYNC},
    {"deepfm_bsp_journal", "{kind: deepfm, hidden: [4], dropout: 0.2, norm: batch}", "bsp",
     DURABLE_JOURNAL},
    {"deepfm_bsp_memory", "{kind: deepfm, hidden: [4], norm: batch}", "bsp", DURABLE_MEMORY},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static uint64_t in(uint64_t ns)
{
    return sim_now_ns(cluster.sim) + ns;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static uint32_t all_copies(void)
{
    return cluster.options.servers * cluster.options.shards;
}

static bool in_sync(void *context)
{
    (void)context;
    return sim_copies_in_sync(&cluster);
}

static bool even(void *context)
{
    return in_sync(context) && sim_copies_even(&cluster);
}

static void all_copies_equal(void)
{
    (void)sim_run(cluster.sim, in(10 * SECOND), NULL, NULL); /* a fault may not be over yet */
    ck_assert_msg(sim_run(cluster.sim, in(BOUND), even, NULL), "%s: not in sync at the end", who);
    sim_copies_equal(&cluster, who);
}

/* ---- faults ---------------------------------------------------------------------------------- */

#define FAULTS(X)                                                                                  \
    X(server_killed)                                                                               \
    X(coordinator_killed)                                                                          \
    X(server_paused)                                                                               \
    X(any_line_cut)                                                                                \
    X(copies_cut)                                                                                  \
    X(follower_killed_leader_cut)                                                                  \
    X(coordinator_paused_in_takeover)                                                              \
    X(coordinator_killed_in_takeover)                                                              \
    X(server_without_power)                                                                        \
    X(two_copies_without_power)                                                                    \
    X(all_without_power)
enum fault {
#define X(name) FAULT_##name,
    FAULTS(X)
#undef X
        FAULTS_ALL
};

/* Shared with the parent, which needs it if the test was killed. */
struct tally {
    uint64_t seed; /* being played; 0: none */
    uint64_t seeds, ns, pushes, stored_late, stored_lost, power, ended, lost, wild;
    uint64_t fault[FAULTS_ALL];
};
static struct tally *tallies, *tally; /* (KINDS); of the kind that is played */

static uint32_t server_of(uint32_t copy)
{
    return copy / cluster.options.shards;
}

static void lines_cut(struct rng *r, struct sim_node *a, struct sim_node *b, uint64_t until)
{
    uint64_t ways = rng_below(r, 3);
    if (a == NULL || b == NULL || a == b)
        return;
    if (ways != 0)
        sim_cut(a, b, until);
    if (ways != 1)
        sim_cut(b, a, until);
}

/* Cuts two servers from each other, or a server from the coordinator, one way or both. */
static void any_line_cut(struct rng *r, uint64_t until)
{
    struct sim_node *a = cluster.server[rng_below(r, all_copies())].node;
    struct sim_node *b = cluster.server[rng_below(r, all_copies())].node;
    if (rng_below(r, 3) == 0)
        b = cluster.coord_node;
    lines_cut(r, a, b, until);
}

static void all_without_power(struct rng *r)
{
    for (uint32_t i = 0; i < cluster.options.servers; i++)
        cluster_server_power(&cluster, i, rng_next(r));
    cluster_coord_power(&cluster, rng_next(r));
}

static enum fault fault_draw(struct rng *r, const struct kind *k)
{
    if (cluster.options.power && rng_below(r, 2) == 0) {
        uint64_t kinds_of_loss = k->durability == DURABLE_MEMORY ? 1 : 3;
        return FAULT_server_without_power + (enum fault)rng_below(r, kinds_of_loss);
    }
    uint64_t one = rng_below(r, 2 * FAULT_server_without_power);
    return one < FAULT_server_without_power ? (enum fault)one : FAULT_server_killed;
}

/* The process dies, or its machine: then no connection closes. */
static void coord_dies(struct rng *r)
{
    bool silent = rng_below(r, 2) == 0;
    for (uint32_t i = 0; silent && i < all_copies(); i++)
        if (cluster.server[i].node != NULL)
            sim_cut(cluster.coord_node, cluster.server[i].node, UINT64_MAX);
    for (uint32_t i = 0; silent && i < cluster.workers; i++)
        if (cluster.worker[i].node != NULL)
            sim_cut(cluster.coord_node, cluster.worker[i].node, UINT64_MAX);
    cluster_coord_kill(&cluster);
}

/* Returns when the fault is over. */
static uint64_t strike(struct rng *r, const struct kind *k)
{
    if (standby) {
        coord_dies(r);
        return 0;
    }
    enum fault fault = fault_draw(r, k);
    uint32_t shard = (uint32_t)rng_below(r, cluster.coord->fleet.members.shards);
    uint64_t term = cluster.coord->fleet.copies.of[shard].term;
    uint32_t leader = sim_copies_leader(&cluster, shard);
    uint32_t other = (uint32_t)rng_below(r, cluster.options.replicas - 1);
    uint32_t follower = sim_copies_follower(&cluster, shard, other);
    uint32_t server = (uint32_t)rng_below(r, cluster.options.servers);
    uint64_t until = in((20 + rng_below(r, 4000)) * MS), soon = rng_below(r, 2000) * MS;
    if (leader == SIM_NO_COPY || follower == SIM_NO_COPY)
        return 0; /* a lease has run out */
    tally->fault[fault]++;
    switch (fault) {
    case FAULT_server_killed:
        cluster_server_kill(&cluster, server);
        return 0;
    case FAULT_coordinator_killed:
        cluster_coord_kill(&cluster);
        return 0;
    case FAULT_server_paused:
        for (uint32_t i = 0; i < cluster.options.shards; i++)
            sim_pause(cluster.server[server * cluster.options.shards + i].node, until);
        return until;
    case FAULT_any_line_cut:
        any_line_cut(r, until);
        return until;
    case FAULT_copies_cut:
        lines_cut(r, cluster.server[leader].node, cluster.server[follower].node, until);
        return until;
    case FAULT_follower_killed_leader_cut:
        if (k->durability == DURABLE_MEMORY) /* the last copy's rows count as lost after 2 s */
            until = in(rng_below(r, 1000) * MS);
        lines_cut(r, cluster.server[leader].node, cluster.coord_node, until);
        (void)cluster_run(&cluster, in(soon));
        if (cluster.coord->fleet.copies.of[shard].term == term) /* else it alone is in sync */
            cluster_server_kill(&cluster, server_of(follower));
        return until;
    case FAULT_coordinator_paused_in_takeover:
        cluster_server_kill(&cluster, server_of(leader));
        (void)cluster_run(&cluster, in(soon));
        sim_pause(cluster.coord_node, until + soon);
        return until + soon;
    case FAULT_coordinator_killed_in_takeover:
        cluster_server_kill(&cluster, server_of(leader));
        (void)cluster_run(&cluster, in(soon));
        cluster_coord_kill(&cluster);
        return 0;
    case FAULT_server_without_power:
        cluster_server_power(&cluster, server, rng_next(r));
        return 0;
    case FAULT_two_copies_without_power:
        cluster_server_power(&cluster, server_of(leader), rng_next(r));
        cluster_server_power(&cluster, server_of(follower), rng_next(r));
        if (k->durability != DURABLE_FSYNC && cluster.options.replicas == 2)
            oracle_power_lost();
        return 0;
    case FAULT_all_without_power:
        all_without_power(r);
        if (k->durability != DURABLE_FSYNC)
            oracle_power_lost();
        return 0;
    case FAULTS_ALL:
        break;
    }
    return 0;
}

/* Faults one behind the other: no copy in sync is lost with its records, so none has to be waited
 * for. */
static bool wild_may(const struct kind *k)
{
    return k->durability == DURABLE_FSYNC ||
           (k->durability == DURABLE_JOURNAL && !cluster.options.power);
}

static void job_suffers(struct rng *r, const struct kind *k)
{
    bool over = false, wild = wild_may(k) && rng_below(r, 2) == 0;
    tally->wild += wild;
    for (uint32_t i = 0; i < STRIKES && !over; i++) {
        if (!wild)
            (void)sim_run(cluster.sim, in(60 * SECOND), in_sync, NULL);
        over = cluster_run(&cluster, in((1 + rng_below(r, 400)) * MS));
        if (over || (!wild && !in_sync(NULL)))
            continue;
        oracle_marks();
        uint64_t until = strike(r, k);
        over =
            cluster_run(&cluster, in((5 + rng_below(r, rng_below(r, 2) == 0 ? 200 : 4000)) * MS));
        if (!over && !wild && until > sim_now_ns(cluster.sim)) /* one fault at a time */
            over = cluster_run(&cluster, until);
        cluster_mend(&cluster);
    }
    for (uint64_t end = in(BOUND); !over && sim_now_ns(cluster.sim) < end;) {
        over = cluster_run(&cluster, in(10 * SECOND));
        cluster_mend(&cluster);
    }
    ck_assert_msg(over, "%s: not over after %" PRIu64 " s of virtual time", who,
                  sim_now_ns(cluster.sim) / SECOND);
}

/* A server's disk is gone for good, in the middle of the job; it is replaced, and a new one comes
 * with an empty folder. */
static void job_loses_a_server(struct rng *r, const struct kind *k)
{
    char command[600];
    (void)k;
    struct wire w = {.type = WIRE_TYPE_REPLACE};
    struct coord_ask a = {.from = 77, .request = &w};
    uint32_t server = (uint32_t)rng_below(r, cluster.options.servers);
    (void)sim_run(cluster.sim, in(60 * SECOND), in_sync, NULL);
    bool over = cluster_run(&cluster, in((1 + rng_below(r, 400)) * MS));
    ck_assert(!over && in_sync(NULL));
    oracle_marks();
    snprintf(w.u.REPLACE.server, sizeof w.u.REPLACE.server, "server-%u", server);
    ck_assert_int_eq(coord_copies_replace(&cluster.coord->fleet, &a), SHOAL_E_BUSY);
    cluster_server_kill(&cluster, server);
    snprintf(command, sizeof command, "rm -rf %s/server-%u*", cluster.options.dir, server);
    ck_assert_int_eq(system(command), 0);
    int rc = SHOAL_E_BUSY;
    for (uint32_t i = 0; i < 20 && rc != 0; i++) {
        over = over || cluster_run(&cluster, in(500 * MS));
        (void)sim_run(cluster.sim, in(500 * MS), NULL, NULL);
        rc = coord_copies_replace(&cluster.coord->fleet, &a);
        coord_fleet_end(&cluster.coord->fleet);
    }
    ck_assert_msg(rc == 0, "%s: %s", who, a.e.text);
    for (uint32_t s = 0; s < cluster.coord->fleet.members.shards; s++)
        ck_assert_str_ne(cluster.coord->fleet.members.shard[s].server, w.u.REPLACE.server);
    over = over || cluster_run(&cluster, in(rng_below(r, 2000) * MS));
    cluster_mend(&cluster);
    ck_assert_msg(over || cluster_run(&cluster, in(BOUND)), "%s: not over", who);
}

static void absences_note(uint64_t *longest)
{
    for (uint32_t i = 0; i < cluster.workers; i++)
        if (cluster.worker[i].node != NULL)
            *longest = MAX(*longest, trainer_absence_ns(cluster.worker[i].trainer));
}

/* Servers die one by one, and come back soon. There are more workers than lanes: one of them has no
 * request under way most of the time. */
static void job_loses_leaders(struct rng *r, const struct kind *k)
{
    bool over = false;
    uint64_t longest = 0;
    (void)k;
    for (uint32_t i = 0; i < TAKEOVERS && !over; i++) {
        (void)sim_run(cluster.sim, in(60 * SECOND), in_sync, NULL);
        over = cluster_run(&cluster, in((1 + rng_below(r, 400)) * MS));
        absences_note(&longest);
        if (over || !in_sync(NULL))
            continue;
        tally->fault[FAULT_server_killed]++;
        cluster_server_kill(&cluster, (uint32_t)rng_below(r, cluster.options.servers));
        over = cluster_run(&cluster, in((5 + rng_below(r, 1000)) * MS));
        cluster_mend(&cluster);
    }
    ck_assert_msg(over || cluster_run(&cluster, in(BOUND)), "%s: not over", who);
    ck_assert_uint_gt(longest, 0);
    ck_assert_msg(longest <= TAKEOVER_NS, "%s: a worker was without a shard for %" PRIu64 " ms",
                  who, longest / MS);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static struct oracle_rows calm;

static uint64_t number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : fallback;
}

static struct cluster_options options_of(struct rng *r, const struct kind *k, uint64_t seed,
                                         const char *dir)
{
    struct cluster_options o = {
        .yaml = yaml, .servers = 1, .workers = 1, .durability = k->durability, .dir = dir};
    o.sim = (struct sim_options){.seed = seed + 1,
                                 .delay_min_ns = MS / 20,
                                 .delay_max_ns = MS,
                                 .work_min_ns = MS / 10,
                                 .work_max_ns = 4 * MS};
    if (seed == 0)
        return o;
    if (quiet) {
        o.replicas = o.shards = 2;
        o.servers = 3;
        o.workers = 4;
        return o;
    }
    o.replicas = 2 + (uint32_t)rng_below(r, 2);
    o.servers = o.replicas + (uint32_t)rng_below(r, 5 - o.replicas);
    o.shards = o.replicas;
    o.workers = 1 + (uint32_t)rng_below(r, 3);
    o.sim.drop = (double)rng_below(r, 3) * 0.05;
    o.sim.duplicate = (double)rng_below(r, 3) * 0.1;
    o.sim.reorder = rng_below(r, 2) == 1;
    o.sim.delay_max_ns = MS + rng_below(r, 5) * MS;
    o.power = number("SHOAL_SIM_POWER", seed % 8 == 3) != 0;
    o.standby = standby;
    o.power &= !standby;
    if (!o.power && !standby && number("SHOAL_SIM_KEEP", seed % 4 == 1) != 0)
        o.keep_ns = MS / 10 + seed % 5 * 5 * MS;
    if (k->durability == DURABLE_MEMORY && !o.power && seed % 4 == 0)
        o.dir = NULL; /* a copy of the rows then opens an engine without a place */
    return o;
}

/* True when power took acknowledged pushes from all copies, and the job has ended because of it. */
static bool ended_by_power(const struct cluster_result *got, const struct kind *k)
{
    return cluster.options.power && k->durability == DURABLE_JOURNAL &&
           got->state == WIRE_JOB_FAILED &&
           (strstr(got->text, "a server has lost pushes") != NULL ||
            strstr(got->text, "power took what was not on a disk yet") != NULL);
}

static void job_check(const struct kind *k, uint64_t seed)
{
    struct cluster_result got;
    struct oracle_rows rows;
    cluster_result(&cluster, &got);
    bool ended = ended_by_power(&got, k);
    if (standby)
        swaps += cluster.coords - 1;
    ck_assert_msg(got.state == WIRE_JOB_DONE || ended, "%s: state %u: %s", who, got.state,
                  got.text);
    cluster_mend(&cluster);
    bool settled = cluster_settle(&cluster, in(BOUND));
    ck_assert_msg(settled, "%s: the shards do not come back", who);
    tally->ended += ended;
    if (!ended) {
        oracle_marks();
        oracle_rows_take(&rows);
    }
    if (sim_one_job_counts(k->model) && !ended)
        oracle_rows_count(&rows, counts, SIM_ONE_JOB_VALUES, epochs);
    if (seed == 0) {
        oracle_rows_free(&calm);
        calm = rows;
        return;
    }
    if (!ended) {
        oracle_rows_same(&rows, &calm);
        oracle_rows_free(&rows);
    }
    all_copies_equal();
}

static void tally_note(void)
{
    tally->seeds++;
    tally->ns += sim_now_ns(cluster.sim);
    tally->pushes += oracle_acknowledged();
    tally->stored_late += cluster.kept.delayed;
    tally->stored_lost += cluster.kept.lost + cluster.kept.unheard;
    tally->power += cluster.options.power;
    tally->lost += oracle_lost();
}

static uint64_t play_with(const struct kind *k, uint64_t seed,
                          void (*suffers)(struct rng *r, const struct kind *k))
{
    struct rng r = rng_of(seed, 7, 8);
    char dir[512], command[600];
    tally = &tallies[k - kinds];
    tally->seed = seed;
    snprintf(who, sizeof who, "%s, seed %" PRIu64, k->name, seed);
    snprintf(dir, sizeof dir, "%s/run", folder);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    struct cluster_options o = options_of(&r, k, seed, dir);
    sim_one_job_text(yaml, sizeof yaml, k->model, k->mode, epochs, "", k->durability);
    cluster_start(&cluster, &o, backend);
    oracle_watch(&cluster, who);
    if (seed != 0)
        suffers(&r, k);
    else
        ck_assert(cluster_run(&cluster, BOUND));
    job_check(k, seed);
    if (seed != 0)
        tally_note();
    uint64_t trace = sim_trace(cluster.sim);
    cluster_free(&cluster);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
    return trace;
}

static uint64_t play(const struct kind *k, uint64_t seed)
{
    return play_with(k, seed, job_suffers);
}

START_TEST(replicas_lose_no_acknowledged_push)
{
    uint64_t first = number("SHOAL_SIM_FIRST", 1), seeds = number("SHOAL_SIM_SEEDS", 4);
    play(&kinds[_i], 0);
    for (uint64_t seed = first; seed < first + seeds; seed++)
        (void)play(&kinds[_i], seed);
    tally->seed = 0;
}
END_TEST

START_TEST(replicas_same_seed_is_the_same_run)
{
    play(&kinds[0], 0);
    uint64_t first = play(&kinds[0], 5), second = play(&kinds[0], 5);
    ck_assert_uint_eq(first, second);
    ck_assert_uint_ne(first, play(&kinds[0], 4));
    tally->seed = 0;
}
END_TEST

START_TEST(replicas_go_on_without_a_server)
{
    play(&kinds[_i], 0);
    for (uint64_t seed = 5; seed < 7; seed++) /* no loss of power beside it */
        (void)play_with(&kinds[_i], seed, job_loses_a_server);
    tally->seed = 0;
}
END_TEST

/* Shows how long a worker is without a shard whose leader has died: about as long as the
 * coordinator's tick and a worker's question for the map. */
START_TEST(replicas_take_over_at_once)
{
    epochs = 25;
    play(&kinds[_i], 0);
    quiet = true;
    for (uint64_t seed = 1; seed < 9; seed++)
        (void)play_with(&kinds[_i], seed, job_loses_leaders);
    ck_assert_uint_gt(tally->fault[FAULT_server_killed], 20);
    quiet = false;
    epochs = EPOCHS;
    tally->seed = 0;
}
END_TEST

/* The coordinator dies, sometimes in silence, and the one that stood by leads. */
START_TEST(replicas_and_workers_follow_the_coordinator_that_leads)
{
    play(&kinds[_i], 0);
    standby = true;
    swaps = 0;
    for (uint64_t seed = 6; seed < 8; seed++)
        (void)play(&kinds[_i], seed);
    ck_assert_uint_gt(swaps, 0);
    standby = false;
    tally->seed = 0;
}
END_TEST

static void setup(void)
{
    log_set_level(getenv("SHOAL_SIM_LOG") != NULL ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR);
    folder = worker_folder_make();
    ck_assert_int_eq(chdir(folder), 0);
    memset(counts, 0, sizeof counts);
    sim_one_job_input(counts);
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
    for (uint32_t i = 0; i < KINDS; i++) {
        const struct tally *t = &tallies[i];
        if (t->seeds == 0)
            continue;
        printf("tally %s seeds %" PRIu64 " jobs %" PRIu64 " virtual_seconds %" PRIu64
               " pushes_acknowledged %" PRIu64,
               kinds[i].name, t->seeds, t->seeds, t->ns / SECOND, t->pushes);
#define X(name) printf(" " #name " %" PRIu64, t->fault[FAULT_##name]);
        FAULTS(X)
#undef X
        printf(" transactions_delayed %" PRIu64 " transactions_lost %" PRIu64 " power %" PRIu64
               " ended_by_power %" PRIu64 " batches_lost %" PRIu64 " faults_in_a_row %" PRIu64 "\n",
               t->stored_late, t->stored_lost, t->power, t->ended, t->lost, t->wild);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) /* tests/sim/seeds asks how many kinds there are */
        return printf("%u\n", (unsigned)KINDS) < 0;
    Suite *s = suite_create("replicas");
    TCase *c = tcase_create("replicas");
    const char *only = getenv("SHOAL_SIM_KIND");
    bool one = only != NULL && strtoul(only, NULL, 10) < KINDS;
    tallies = mmap(NULL, sizeof *tallies * KINDS, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tallies == MAP_FAILED || argc < 1)
        return 1;
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 7200);
    tcase_add_loop_test(c, replicas_lose_no_acknowledged_push, one ? atoi(only) : 0,
                        one ? atoi(only) + 1 : (int)KINDS);
    if (!one) {
        tcase_add_loop_test(c, replicas_go_on_without_a_server, 0, (int)KINDS);
        tcase_add_loop_test(c, replicas_take_over_at_once, 0, 1);
        tcase_add_loop_test(c, replicas_take_over_at_once, 3, 4);
        tcase_add_loop_test(c, replicas_and_workers_follow_the_coordinator_that_leads, 0, 1);
        tcase_add_loop_test(c, replicas_and_workers_follow_the_coordinator_that_leads, 3, 4);
    }
    if (!one)
        tcase_add_test(c, replicas_same_seed_is_the_same_run);
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
