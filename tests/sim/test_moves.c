/* test_moves.c: jobs while tablets go from shard to shard, under faults that follow from a seed:
 * servers are killed and started again, frozen, or cut from one another and from the coordinator;
 * the coordinator is killed.
 *
 * A new plan with random owners begins as soon as the former one has ended, and some plans are
 * stopped half way. Servers leave and join: one is drained, the folders of the shards that are
 * retired are emptied, and their servers are added as new ones, with and without a job. Some jobs
 * go back to the best epoch, whose cut has other owners. At the end the rows equal those of an
 * undisturbed run on one server (probe: the input's counts), each on the shard that the map names
 * and on no other one.
 * The oracle (sim_oracle.h) knows every acknowledged push and checks it on the shard that leads.
 *
 * SHOAL_SIM_SEEDS, SHOAL_SIM_FIRST and SHOAL_SIM_KIND are those of test_cluster. */
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/rng.h"
#include "server/coord/core/phase.h"
#include "server/coord/fleet/add.h"
#include "server/coord/job/slot.h"
#include "server/shard/shard.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/sim_cluster.h"
#include "tests/lib/sim_one_job.h"
#include "tests/lib/sim_oracle.h"
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
#define EPOCHS 2u
#define EPOCHS_STOP 6u
#define STRIKES 6u

static struct backend *backend;
static struct cluster cluster;
static char yaml[2048], who[64];
static const char *folder;
static struct oracle_count counts[SIM_ONE_JOB_VALUES];

struct kind {
    const char *name, *model, *mode;
    enum durability durability;
    uint32_t replicas;
    bool back; /* the job goes back to its best epoch */
};
static const struct kind kinds[] = {
    {"probe_ssp_journal", "{kind: probe}", "ssp", DURABLE_JOURNAL, 1, false},
    {"probe_ssp_fsync", "{kind: probe}", "ssp", DURABLE_FSYNC, 1, false},
    {"deepfm_bsp_journal", "{kind: deepfm, hidden: [4], dropout: 0.2, norm: batch}", "bsp",
     DURABLE_JOURNAL, 1, false},
    {"probe_ssp_two_copies", "{kind: probe}", "ssp", DURABLE_JOURNAL, 2, false},
    {"deepfm_bsp_two_copies", "{kind: deepfm, hidden: [4], norm: batch}", "bsp", DURABLE_JOURNAL, 2,
     false},
    {"probe_ssp_memory_two_copies", "{kind: probe}", "ssp", DURABLE_MEMORY, 2, false},
    {"back_bsp_journal", "{kind: deepfm, hidden: [4], norm: none}", "bsp", DURABLE_JOURNAL, 1,
     true},
    {"back_bsp_two_copies", "{kind: deepfm, hidden: [4], norm: none}", "bsp", DURABLE_JOURNAL, 2,
     true},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static uint64_t in(uint64_t ns)
{
    return sim_now_ns(cluster.sim) + ns;
}

/* Shared with the parent, which needs it if the test was killed. */
struct tally {
    uint64_t seed; /* being played; 0: none */
    uint64_t seeds, ns, plans, moved, joined;
    uint64_t returned, struck; /* moves and faults while a job went back */
    uint64_t server_killed, coordinator_killed, server_paused, line_cut;
};
static struct tally *tallies, *tally; /* (KINDS); of the kind that is played */

/* ---- copies ---------------------------------------------------------------------------------- */

static uint32_t all_copies(void)
{
    return cluster.options.servers * cluster.options.shards;
}

/* True when every copy of every shard is there and in sync, as the coordinator has stored it. */
static bool in_sync(void *context)
{
    (void)context;
    if (cluster.coord == NULL || !coord_cluster_ready(&cluster.coord->fleet.cluster))
        return false;
    for (uint32_t i = 0; i < all_copies(); i++)
        if (cluster.server[i].node == NULL || !engine_back(cluster.server[i].shard->engine))
            return false;
    const struct coord_fleet *f = &cluster.coord->fleet;
    COORD_EACH_SHARD (&f->members, s)
        if (f->copies.of[s].in_sync != (1u << cluster.options.replicas) - 1)
            return false;
    return true;
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* Returns a random shard that is not on this server (NULL: on any). */
static uint16_t any_shard(struct rng *r, const char *server)
{
    const struct coord_fleet *f = &cluster.coord->fleet;
    for (;;) {
        uint32_t s = (uint32_t)rng_below(r, f->members.shards);
        if (coord_member_used(&f->members, s) && (server == NULL || !coord_copies_on(f, s, server)))
            return (uint16_t)s;
    }
}

/* Begins a plan with random owners where none is under way, and stops one in ten. */
static void plan(struct rng *r)
{
    struct err e;
    uint16_t goal[1024];
    if (cluster.coord == NULL)
        return;
    struct coord_fleet *f = &cluster.coord->fleet;
    if (!coord_cluster_ready(&f->cluster) || f->cluster.tablets == 0)
        return;
    if (f->moves.kind != MOVES_NONE) {
        if (rng_below(r, f->moves.kind == MOVES_DRAIN ? 100 : 10) == 0)
            (void)coord_moves_stop(f, &e);
        return;
    }
    ck_assert_uint_le(f->cluster.tablets, 1024);
    uint64_t most = 1 + rng_below(r, 4);
    for (uint32_t i = 0; i < f->cluster.tablets; i++) {
        goal[i] = f->cluster.shard_of[i];
        if (rng_below(r, 4) < most)
            goal[i] = any_shard(r, NULL);
    }
    if (coord_moves_begin(f, MOVES_REBALANCE, "", goal, &e) == 0)
        tally->plans++;
}

/* ---- servers that leave and join ------------------------------------------------------------- */

static enum { STAYS, LEAVES, WAITS } way;
static uint32_t leaver; /* the server, unless it stays */

/* Returns how many shards have a copy on this server, or have none there. */
static uint32_t shards_on(const char *server, bool on)
{
    const struct coord_fleet *f = &cluster.coord->fleet;
    uint32_t count = 0;
    COORD_EACH_SHARD (&f->members, s)
        count += coord_copies_on(f, s, server) == on;
    return count;
}

/* True when shard k of server i has a place. */
static bool placed(uint32_t i, uint32_t k)
{
    const struct coord_fleet *f = &cluster.coord->fleet;
    struct wire_SHARD_BEAT beat = {.shard_index = k};
    uint32_t shard;
    snprintf(beat.server, sizeof beat.server, "server-%u", i);
    return coord_member_number(&f->members, &beat) != COORD_NOBODY ||
           coord_copies_find(f, &beat, &shard) != NULL;
}

static bool any_unplaced(uint32_t server)
{
    for (uint32_t k = 0; k < cluster.options.shards; k++)
        if (!placed(server, k))
            return true;
    return false;
}

static void leave_begin(struct rng *r)
{
    struct coord_fleet *f = &cluster.coord->fleet;
    uint16_t goal[1024];
    char server[32];
    struct err e;
    leaver = (uint32_t)rng_below(r, cluster.options.servers);
    snprintf(server, sizeof server, "server-%u", leaver);
    if (shards_on(server, true) == 0 || shards_on(server, false) == 0)
        return;
    for (uint32_t i = 0; i < f->cluster.tablets; i++) {
        goal[i] = f->cluster.shard_of[i];
        if (coord_copies_on(f, goal[i], server))
            goal[i] = any_shard(r, server);
    }
    if (coord_moves_begin(f, MOVES_DRAIN, server, goal, &e) == 0)
        way = LEAVES;
}

/* The disks of shards without a place are put to another use, and come back empty. */
static void unplaced_empty(void)
{
    char command[600];
    for (uint32_t i = 0; i < cluster.options.servers; i++) {
        if (!any_unplaced(i))
            continue;
        if (cluster_server_alive(&cluster, i))
            cluster_server_kill(&cluster, i);
        for (uint32_t k = 0; k < cluster.options.shards; k++) {
            snprintf(command, sizeof command, "rm -rf %s/server-%u-%u", cluster.options.dir, i, k);
            if (!placed(i, k))
                ck_assert_int_eq(system(command), 0);
        }
        cluster_server_start(&cluster, i);
    }
    way = WAITS;
}

/* Orders that all servers join that have shards without a place. */
static void join_order(void)
{
    static const struct err idle; /* no cut is looked at */
    char servers[256] = "";
    struct json *told = NULL;
    struct err e;
    for (uint32_t i = 0; i < cluster.options.servers; i++)
        if (any_unplaced(i))
            snprintf(servers + strlen(servers), sizeof servers - strlen(servers), " server-%u", i);
    if (servers[0] == 0) {
        way = STAYS;
        tally->joined++;
    } else {
        (void)coord_add_order(&cluster.coord->fleet, servers, &idle, &told, &e); /* or not yet */
    }
    json_free(told);
}

/* Does what is next for a server that leaves or joins. */
static void leave_and_join(struct rng *r, bool may_leave)
{
    char server[32];
    if (cluster.options.servers < 2 || cluster.coord == NULL ||
        cluster.options.durability == DURABLE_MEMORY) /* a server that is emptied is killed */
        return;
    struct coord_fleet *f = &cluster.coord->fleet;
    snprintf(server, sizeof server, "server-%u", leaver);
    if (!coord_cluster_ready(&f->cluster) || f->cluster.tablets == 0)
        return;
    if (way == STAYS && may_leave && f->moves.kind == MOVES_NONE && rng_below(r, 2) == 0)
        leave_begin(r);
    else if (way == LEAVES && shards_on(server, true) == 0)
        unplaced_empty();
    else if (way == LEAVES && f->moves.kind == MOVES_NONE)
        way = STAYS; /* the plan was stopped */
    else if (way == WAITS)
        join_order();
    coord_fleet_end(f);
}

/* Marks count until the job is over, which its client learns later. RUN_DROP reaches one shard
 * after the other: a tablet that moves from a shard that has dropped the run to one that has not
 * yet has no marks there. */
static void marks_check(void)
{
    if (cluster.coord != NULL && coord_phase_running(&cluster.coord->slot[0]))
        oracle_marks();
}

/* Runs until an instant or the job's end, with plans all the time. True: the job is over. */
static bool run(struct rng *r, uint64_t until)
{
    bool over = false;
    while (!over && sim_now_ns(cluster.sim) < until) {
        uint64_t step = MIN(until, in((1 + rng_below(r, 60)) * MS));
        leave_and_join(r, true);
        plan(r);
        uint32_t before = cluster.coord != NULL ? cluster.coord->fleet.moves.moved : 0;
        over = cluster_run(&cluster, step);
        marks_check();
        if (cluster.coord == NULL || cluster.coord->fleet.moves.moved <= before)
            continue;
        tally->moved += cluster.coord->fleet.moves.moved - before;
        if (cluster.coord->slot[0].at.phase == PHASE_RESTORE)
            tally->returned += cluster.coord->fleet.moves.moved - before;
    }
    return over;
}

/* Each tablet has rows on the shard that leads it alone. A copy that did not lead when a move was
 * given up may keep rows of a tablet until the next map. */
static void each_in_one_place(void)
{
    if (cluster.options.replicas > 1)
        return;
    const struct coord_cluster *cl = &cluster.coord->fleet.cluster;
    for (uint32_t i = 0; i < all_copies(); i++) {
        const struct shard *s = cluster.server[i].shard;
        for (uint32_t t = 0; t < CLUSTER_TABLES; t++) {
            const struct table *of = engine_table(s->engine, t);
            uint32_t tablets = of == NULL ? 0 : 1u << table_schema_of(of)->tablet_bits;
            for (uint32_t k = 0; k < tablets; k++)
                ck_assert_msg(cl->shard_of[table_schema_of(of)->tablet_first + k] == s->lead.self ||
                                  table_tablet_rows(of, k) == 0,
                              "%s: %s has rows of tablet %u of table %u, which shard %u leads", who,
                              s->name, k, t, cl->shard_of[table_schema_of(of)->tablet_first + k]);
        }
    }
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Cuts two servers from each other, or a server from the coordinator, one way or both. */
static void cut(struct rng *r, uint64_t until)
{
    struct sim_node *a = cluster.server[rng_below(r, all_copies())].node;
    struct sim_node *b = cluster.server[rng_below(r, all_copies())].node;
    uint64_t ways = rng_below(r, 3);
    if (rng_below(r, 3) == 0)
        b = cluster.coord_node;
    if (a == NULL || b == NULL || a == b)
        return;
    if (ways != 0)
        sim_cut(a, b, until);
    if (ways != 1)
        sim_cut(b, a, until);
}

/* Returns when the fault is over. */
static uint64_t strike(struct rng *r)
{
    uint32_t server = (uint32_t)rng_below(r, cluster.options.servers);
    uint64_t pause = (20 + rng_below(r, 4000)) * MS;
    switch (rng_below(r, 8)) {
    case 0:
    case 1:
    case 2:
    case 3:
        tally->server_killed++;
        cluster_server_kill(&cluster, server);
        break;
    case 4:
        tally->coordinator_killed++;
        cluster_coord_kill(&cluster);
        break;
    case 5:
        tally->server_paused++;
        for (uint32_t k = 0; k < cluster.options.shards; k++)
            sim_pause(cluster.server[server * cluster.options.shards + k].node, in(pause));
        return in(pause);
    default:
        tally->line_cut++;
        cut(r, in(pause));
        return in(pause);
    }
    return 0;
}

static bool goes_back(void)
{
    return cluster.coord != NULL && cluster.coord->slot[0].at.phase == PHASE_RESTORE;
}

/* Runs until the next fault. Half of the faults of a job that goes back meet its return. */
static bool run_to_fault(struct rng *r, const struct kind *k, uint32_t fault)
{
    bool over = false;
    if (!k->back || fault < STRIKES / 2)
        return run(r, in((1 + rng_below(r, 400)) * MS));
    for (uint64_t end = in(BOUND); !over && !goes_back() && sim_now_ns(cluster.sim) < end;)
        over = run(r, in(5 * MS));
    return over || run(r, in(rng_below(r, 100) * MS));
}

static void job_suffers(struct rng *r, const struct kind *k, bool faults)
{
    bool over = false;
    for (uint32_t i = 0; faults && i < STRIKES && !over; i++) {
        if (cluster.options.replicas > 1)
            (void)sim_run(cluster.sim, in(60 * SECOND), in_sync, NULL);
        over = run_to_fault(r, k, i);
        if (over || (cluster.options.replicas > 1 && !in_sync(NULL)))
            continue;
        tally->struck += goes_back();
        uint64_t until = strike(r);
        over = run(r, in((5 + rng_below(r, rng_below(r, 2) == 0 ? 200 : 4000)) * MS));
        if (!over && until > sim_now_ns(cluster.sim)) /* one fault at a time */
            over = run(r, until);
        cluster_mend(&cluster);
    }
    for (uint64_t end = in(BOUND); !over && sim_now_ns(cluster.sim) < end;) {
        over = run(r, in(10 * SECOND));
        cluster_mend(&cluster);
    }
    ck_assert_msg(over, "%s: not over after %" PRIu64 " s of virtual time", who,
                  sim_now_ns(cluster.sim) / SECOND);
}

static bool no_plan(void *context)
{
    (void)context;
    return cluster.coord != NULL && cluster.coord->fleet.moves.kind == MOVES_NONE;
}

/* Runs until the server that leaves or waits has joined. */
static void joins(struct rng *r)
{
    for (uint32_t i = 0; way != STAYS && i < 20000; i++) {
        leave_and_join(r, false);
        (void)sim_run(cluster.sim, in(100 * MS), NULL, NULL);
    }
    ck_assert_msg(way == STAYS, "%s: a server does not join", who);
}

/* Plans without a job. They pause for nine times as long as a group of tablets took, for minutes of
 * virtual time and most of a seed's real time: half of the seeds stop the plan that is under way
 * and begin no other one, and half of the others lose no message meanwhile. */
static void after_job(struct rng *r, const struct kind *k, uint64_t seed)
{
    struct err e;
    bool goes_on = seed % 4 < 2;
    if (seed % 4 == 1)
        sim_faults(cluster.sim, 0, cluster.options.sim.duplicate);
    if (!goes_on && cluster.coord->fleet.moves.kind != MOVES_NONE)
        (void)coord_moves_stop(&cluster.coord->fleet, &e);
    ck_assert_msg(sim_run(cluster.sim, in(BOUND), no_plan, NULL), "%s: the plan does not end", who);
    joins(r);
    if (seed == 0 || !goes_on || k->durability == DURABLE_MEMORY)
        return;
    leave_begin(r);
    joins(r);
    plan(r);
    ck_assert_msg(sim_run(cluster.sim, in(BOUND), no_plan, NULL), "%s: the plan does not end", who);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static struct oracle_rows calm;

static uint64_t play(const struct kind *k, uint64_t seed)
{
    struct rng r = rng_of(seed, 7, 8);
    char dir[512], command[600];
    struct cluster_result got;
    tally = &tallies[k - kinds];
    tally->seed = seed;
    snprintf(who, sizeof who, "%s, seed %" PRIu64, k->name, seed);
    snprintf(dir, sizeof dir, "%s/run", folder);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    struct cluster_options o = {
        .yaml = yaml, .servers = 1, .workers = 1, .durability = k->durability, .dir = dir};
    o.sim = (struct sim_options){.seed = seed + 1,
                                 .delay_min_ns = MS / 20,
                                 .delay_max_ns = MS,
                                 .work_min_ns = MS / 10,
                                 .work_max_ns = 4 * MS};
    if (seed != 0) {
        o.replicas = k->replicas;
        o.servers = 2 + (uint32_t)rng_below(&r, 2);
        o.shards = o.replicas;
        o.workers = 1 + (uint32_t)rng_below(&r, 3);
        o.sim.drop = (double)rng_below(&r, 3) * 0.05;
        o.sim.duplicate = (double)rng_below(&r, 3) * 0.1;
        o.sim.reorder = rng_below(&r, 2) == 1;
        o.sim.delay_max_ns = MS + rng_below(&r, 5) * MS;
    }
    sim_one_job_text(yaml, sizeof yaml, k->model, k->mode, k->back ? EPOCHS_STOP : EPOCHS,
                     k->back ? ", early_stop: {metric: logloss, patience: 1, lr_decay: 0.1}" : "",
                     k->durability);
    cluster_start(&cluster, &o, backend);
    oracle_watch(&cluster, who);
    if (seed != 0)
        job_suffers(&r, k, seed % 3 != 0);
    else
        ck_assert(cluster_run(&cluster, BOUND));
    cluster_result(&cluster, &got);
    ck_assert_msg(got.state == WIRE_JOB_DONE, "%s: state %u: %s", who, got.state, got.text);
    /* a return begins another run */
    ck_assert(k->back == (cluster.coord->slot[0].at.run != cluster.coord->slot[0].at.number));
    cluster_mend(&cluster);
    after_job(&r, k, seed);
    bool settled = cluster_settle(&cluster, in(BOUND));
    ck_assert_msg(settled, "%s: the shards do not come back", who);
    struct oracle_rows rows;
    oracle_rows_take(&rows);
    if (sim_one_job_counts(k->model))
        oracle_rows_count(&rows, counts, SIM_ONE_JOB_VALUES, EPOCHS);
    if (seed == 0) {
        oracle_rows_free(&calm);
        calm = rows;
    } else {
        oracle_rows_same(&rows, &calm);
        oracle_rows_free(&rows);
        each_in_one_place();
    }
    tally->seeds += seed != 0;
    tally->ns += seed != 0 ? sim_now_ns(cluster.sim) : 0;
    uint64_t trace = sim_trace(cluster.sim);
    cluster_free(&cluster);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
    return trace;
}

static uint64_t number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : fallback;
}

START_TEST(moves_lose_no_acknowledged_push)
{
    const char *asked = getenv("SHOAL_SIM_SEEDS");
    uint64_t first = number("SHOAL_SIM_FIRST", 1), seeds = number("SHOAL_SIM_SEEDS", 4);
    play(&kinds[_i], 0);
    for (uint64_t seed = first; seed < first + seeds; seed++)
        (void)play(&kinds[_i], seed);
    tally->seed = 0;
    if (asked != NULL) /* a single seed may move nothing */
        return;
    ck_assert_uint_gt(tally->moved, 0);
    ck_assert(!kinds[_i].back || tally->returned > 0);
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
               " plans %" PRIu64 " tablets_moved %" PRIu64 " servers_joined %" PRIu64
               " moved_in_a_return %" PRIu64 " faults_in_a_return %" PRIu64
               " server_killed %" PRIu64 " coordinator_killed %" PRIu64 " server_paused %" PRIu64
               " line_cut %" PRIu64 "\n",
               kinds[i].name, t->seeds, t->seeds, t->ns / SECOND, t->plans, t->moved, t->joined,
               t->returned, t->struck, t->server_killed, t->coordinator_killed, t->server_paused,
               t->line_cut);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) /* tests/sim/seeds asks how many kinds there are */
        return printf("%u\n", (unsigned)KINDS) < 0;
    Suite *s = suite_create("moves");
    TCase *c = tcase_create("moves");
    const char *only = getenv("SHOAL_SIM_KIND");
    bool one = only != NULL && strtoul(only, NULL, 10) < KINDS;
    tallies = mmap(NULL, sizeof *tallies * KINDS, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tallies == MAP_FAILED || argc < 1)
        return 1;
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 7200);
    tcase_add_loop_test(c, moves_lose_no_acknowledged_push, one ? atoi(only) : 0,
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
