/* test_cluster.c: whole jobs on virtual time, under faults that follow from one seed:
 *
 *  - messages are lost, doubled and reordered, and lines are cut;
 *  - servers (of several shards), workers and the coordinator are killed and started again,
 *    sometimes after hours, or frozen for many leases;
 *  - workers send beats but do no work, or are cut from one server or the coordinator, one way or
 *    both, for a while or for ever (sim_ill.h);
 *  - pools hold one batch or three, rows are not in memory, calendars jump, and a peer is hostile
 *    (sim_hostile.h).
 *
 * Workers look ahead two batches or five, so pushes get rows back where no bsp waits; some kinds
 * compute batches as windows, and pack gradients and rows.
 *
 * Half the seeds run a second job, with other rates and rules, over the tables of the first; a
 * third of these drop the tables first (fresh: [all]). Between the two jobs the cluster's stored
 * data may be lost or changed (enum link).
 *
 * Every job must end within a limit of virtual time. During the run and at its end the oracle
 * (sim_oracle.h) checks acknowledgements, every mark and every row: the probe's counts must equal
 * those of the input's lines, and rows of other models must equal those of an undisturbed run bit
 * for bit. Two runs of one seed are the same, event for event.
 *
 * SHOAL_SIM_SEEDS=N runs N seeds of each kind, SHOAL_SIM_FIRST=S begins at seed S, SHOAL_SIM_KIND=K
 * takes one kind. A failure prints the one command that repeats it. tests/sim/seeds runs many. */
#include "dense/model.h"
#include "proto/base/key.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "proto/job/job.h"
#include "proto/wire/wire.h"
#include "server/coord/job/slot.h"
#include "server/coord/work/taken_names.h"
#include "server/shard/shard.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/sim_cluster.h"
#include "tests/lib/sim_cold.h"
#include "tests/lib/sim_folder.h"
#include "tests/lib/sim_hostile.h"
#include "tests/lib/sim_ill.h"
#include "tests/lib/sim_oracle.h"
#include "tests/lib/topic.h"
#include "tests/lib/worker_files.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARTS 5u
#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define BOUND (900 * SECOND)
#define ROWS 600u
#define EPOCHS 2u
#define WALL_S UINT64_C(1700000000) /* start of the calendar */
#define DAY_S UINT64_C(86400)
#define VALUES_A 60u
#define VALUES_B 9u

static struct backend *backend;
static struct cluster cluster;
static char yaml[2048];
static const char *folder;
static uint32_t durability; /* durability of the current run */
static struct oracle_count counts[VALUES_A + VALUES_B];

/* ---- the job --------------------------------------------------------------------------------- */

static void count_value(uint32_t field, uint32_t value, struct oracle_count *at)
{
    char text[16];
    int bytes = snprintf(text, sizeof text, "%u", value);
    at->key = key_of_value(field, text, (size_t)bytes);
    at->examples++;
}

/* Writes the lines of a file as objects, each with a header, alternately with fewer and more
 * lines. */
static void parts_make(const char *data, size_t bytes)
{
    const char *header = data, *at = memchr(data, '\n', bytes), *end = data + bytes;
    size_t head = (size_t)(++at - header);
    for (uint32_t i = 0; i < PARTS; i++) {
        static char part[1 << 16];
        char name[32];
        size_t wanted = i + 1 == PARTS ? SIZE_MAX : bytes / PARTS / (1 + i % 2), n = head;
        memcpy(part, header, head);
        while (at < end && n - head < wanted) {
            size_t line = (size_t)((const char *)memchr(at, '\n', (size_t)(end - at)) - at) + 1;
            memcpy(part + n, at, line);
            n += line;
            at += line;
        }
        snprintf(name, sizeof name, "part-%u.csv", i);
        worker_write(name, part, n);
    }
}

/* Writes lines of five days, in order of time; counts the keys of train.csv. */
static void file_make(const char *name, uint32_t rows, uint32_t seed, bool count)
{
    static char data[1 << 16];
    char bare_name[32];
    struct rng r = rng_of(seed, 0, 0);
    size_t at = (size_t)snprintf(data, sizeof data, "label,a,b,t\n");
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t a = (uint32_t)rng_below(&r, VALUES_A), b = (uint32_t)rng_below(&r, VALUES_B);
        at += (size_t)snprintf(data + at, sizeof data - at, "%u,%u,%u,%" PRIu64 "\n",
                               (a * 3 + b + (uint32_t)rng_below(&r, 9)) % 2, a, b,
                               WALL_S - 5 * DAY_S + i * (5 * DAY_S / rows));
        if (count) {
            count_value(0, a, &counts[a]);
            count_value(1, b, &counts[VALUES_A + b]);
        }
    }
    worker_write(name, data, at);
    const char *bare = strchr(data, '\n') + 1; /* without the header */
    (void)snprintf(bare_name, sizeof bare_name, "bare-%s", name);
    worker_write(bare_name, bare, at - (size_t)(bare - data));
    if (count)
        parts_make(data, at);
}

struct kind {
    const char *name, *model, *mode, *more;
    enum durability durability;
    /* further keys of the job; later: of the second job's table */
    const char *data, *table, *later;
    const char *second; /* keys of the second job alone; NULL: none */
    bool replay;        /* days and windows of event time, once */
};

/* The workers keep the network. Under async the sparse rows of such a job do not move
 * (test_allreduce.c says why). */
#define RING "dense: allreduce, dense_publish: 1s, "
static const struct kind kinds[] = {
    {"probe_async", "{kind: probe}", "async", "", DURABLE_JOURNAL, "", "", NULL, NULL, false},
    {"probe_ssp", "{kind: probe}", "ssp", "", DURABLE_JOURNAL, "", "", NULL, NULL, false},
    {"probe_fsync", "{kind: probe}", "ssp", "", DURABLE_FSYNC, "", "", NULL, NULL, false},
    {"probe_bsp", "{kind: probe}", "bsp", "", DURABLE_JOURNAL, "", "", NULL, NULL, false},
    {"deepfm_bsp", "{kind: deepfm, hidden: [4], dropout: 0.2, norm: batch}", "bsp", "",
     DURABLE_JOURNAL, "", "", NULL, NULL, false},
    {"ahead_async", "{kind: probe}", "async", "", DURABLE_JOURNAL, "", "", NULL, NULL, false},
    {"stop_bsp", "{kind: deepfm, hidden: [4], norm: none}", "bsp",
     "early_stop: {metric: logloss, patience: 1, lr_decay: 0.1}, ", DURABLE_JOURNAL, "", "",
     ", admit: {min_count: 2}", NULL, false},
    {"aged_bsp", "{kind: deepfm, hidden: [4], norm: none}", "bsp", "", DURABLE_JOURNAL,
     ", shuffle: false", ", evict: {ttl_days: 1, every_hours: 6}",
     ", evict: {ttl_days: 2, every_hours: 4}", NULL, false},
    {"fields_async", "{kind: probe}", "async", "", DURABLE_JOURNAL, "", "", NULL,
     "features: {fields: [b]}\n", false},
    {"replay_bsp", "{kind: deepfm, hidden: [4], norm: batch}", "bsp", "", DURABLE_JOURNAL, "",
     ", evict: {ttl_days: 1, every_hours: 6}", NULL, NULL, true},
    {"replay_ssp", "{kind: probe}", "ssp", "", DURABLE_JOURNAL, "", "", NULL, NULL, true},
    {"objects_bsp", "{kind: deepfm, hidden: [4], norm: batch}", "bsp", "", DURABLE_JOURNAL,
     ", objects: true", "", NULL, NULL, false},
    {"objects_ssp", "{kind: probe}", "ssp", "", DURABLE_JOURNAL, ", objects: true", "", NULL, NULL,
     false},
    {"parts_bsp", "{kind: deepfm, hidden: [4], norm: batch}", "bsp", "", DURABLE_JOURNAL,
     ", objects: true", ", evict: {ttl_days: 1, every_hours: 6}", NULL, NULL, true},
    {"parts_ssp", "{kind: probe}", "ssp", "", DURABLE_JOURNAL, ", objects: true", "", NULL, NULL,
     true},
    {"grow_bsp", "{kind: deepfm, hidden: [4], norm: batch}", "bsp", "", DURABLE_JOURNAL,
     ", objects: {grow: 1s}", "", NULL, NULL, false},
    {"grow_ssp", "{kind: probe}", "ssp", "", DURABLE_JOURNAL, ", objects: {grow: 1s}", "", NULL,
     NULL, false},
    {"window_ssp", "{kind: probe}", "ssp", "window: 3, ", DURABLE_JOURNAL, "", "", NULL, NULL,
     false},
    {"window_bsp", "{kind: deepfm, hidden: [4], dropout: 0.2, norm: batch}", "bsp", "window: 2, ",
     DURABLE_JOURNAL, "", "", NULL, NULL, false},
    {"packed_async", "{kind: probe}", "async", "window: 2, ", DURABLE_JOURNAL, "", "", NULL, NULL,
     false},
    {"packed_ssp", "{kind: probe}", "ssp", "", DURABLE_JOURNAL, "", "", NULL, NULL, false},
    {"packed_bsp", "{kind: deepfm, hidden: [4], norm: batch}", "bsp", "window: 2, ",
     DURABLE_JOURNAL, "", "", NULL, NULL, false},
    {"ring_bsp", "{kind: deepfm, hidden: [4], dropout: 0.2, norm: batch}", "bsp", RING,
     DURABLE_JOURNAL, "", "", NULL, NULL, false},
    {"ring_async", "{kind: dcnv2, hidden: [4], cross_layers: 1, norm: batch}", "async", RING,
     DURABLE_JOURNAL, "", "", NULL, NULL, false},
    {"stream_ssp", "{kind: probe}", "ssp", "", DURABLE_JOURNAL,
     ", header: false, columns: [{name: label, type: label}, {name: a}, {name: b}, {name: t, type: "
     "skip}]"
     ", kafka: {brokers: model, range: 17}, objects: {grow: 1s}",
     "", NULL, NULL, false},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static bool grows(const struct kind *k)
{
    return strstr(k->data, "grow") != NULL;
}

static bool rings(const struct kind *k)
{
    return strstr(k->more, "allreduce") != NULL;
}

static uint32_t epochs_of(const struct kind *k)
{
    return k->replay || grows(k) ? 1 : strstr(k->more, "stop") != NULL ? 5 : EPOCHS;
}

static bool is_probe(const struct kind *k)
{
    return strstr(k->model, "probe") != NULL;
}

/* True for jobs whose gradients and rows travel in fewer bits. A probe's gradients have one value,
 * so they get 16 bits, which hold the counts of a batch. */
static bool is_packed(const struct kind *k)
{
    return strncmp(k->name, "packed", 6) == 0;
}

static bool streams(const struct kind *k)
{
    return strstr(k->data, "kafka") != NULL;
}

/* The names of objects draw rows, so they are relative. */
static const char *input_of(const struct kind *k, const char *name, const char *parts)
{
    if (streams(k))
        return strcmp(name, "train.csv") == 0 ? "{kafka: clicks}" : worker_path("bare-valid.csv");
    return strstr(k->data, "objects") != NULL ? parts : worker_path(name);
}

/* Makes the job; the counts of probes do not depend on eps. */
static void job_make(const struct kind *k, bool second)
{
    static const char *const names[] = {"memory", "journal", "fsync"};
    bool probe = is_probe(k), still = rings(k) && strcmp(k->mode, "async") == 0;
    uint32_t ahead = strncmp(k->name, "ahead", 5) == 0 ? 5 : 2;
    snprintf(
        yaml, sizeof yaml,
        "job: sim\n"
        "data: {format: csv, label: label, time: t, train: [%s], valid: [%s], cache: %s%s}\n"
        "tables:\n"
        "  - {name: emb, dim: %u, tablets: 64, init: {kind: %s}, optimizer: {kind: %s, lr: "
        "%s, eps: %s}%s}\n"
        "model: %s\n"
        "train: {batch: 16, epochs: %u, consistency: %s, staleness: 2, prefetch: %u, lanes: 3, "
        "%sbackend: cpu, "
        "task_batches: 4}\n"
        "durability: %s\n"
        "coordinator: {lease: 1s}\n"
        "net: {resend: 100ms%s}\n"
        "%s%s",
        input_of(k, "train.csv", "part-*.csv"), input_of(k, "valid.csv", "part-*.csv"),
        worker_path("cache"), k->data, is_packed(k) ? 8u : 2u,
        probe   ? "zero"
        : still ? "uniform, scale: 1"
                : "uniform",
        probe || still ? "sgd" : "adagrad",
        probe    ? "1"
        : still  ? "1.0e-12"
        : second ? "0.2"
                 : "0.3",
        second ? "0.001" : "1.0e-8", second && k->later != NULL ? k->later : k->table, k->model,
        epochs_of(k), k->mode, ahead, k->more, names[durability],
        is_packed(k) ? ", gradients: int8, values: bf16" : "",
        second && k->second != NULL ? k->second : "",
        k->replay ? "replay: {window: 6h, checkpoint: false}\n" : "");
}

/* ---- what is said of it ---------------------------------------------------------------------- */

/* Shared by the test and its parent, which reports the failure even if the test was killed. */
struct tally {
    uint64_t seed; /* being played; 0: none */
    uint64_t seeds, jobs, ns, pushes, packed, echoes, hostile;
    struct cluster_struck struck;
    uint64_t link[8];
    /* runs with loss of power; those among them that ended with a sentence */
    uint64_t power, ended;
    uint64_t network_losses; /* jobs that ended since all workers had died */
    uint64_t lost;           /* acknowledged batches that were lost, by tablet */
    struct coord_kept kept;  /* counts of the coordinators' transactions */
    struct sim_ill ill;
};
static struct tally *tallies; /* (KINDS), shared */

static void tally_note(struct tally *t, uint64_t hostile_sent)
{
    t->ns += sim_now_ns(cluster.sim);
    t->pushes += oracle_acknowledged();
    t->packed += oracle_packed();
    t->echoes += oracle_echoed();
    t->hostile += hostile_sent;
#define X(name) t->struck.name += cluster.struck.name;
    CLUSTER_STRIKES(X)
#undef X
    t->kept.delayed += cluster.kept.delayed;
    t->kept.lost += cluster.kept.lost;
    t->kept.unheard += cluster.kept.unheard;
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* ---- a log that grows ------------------------------------------------------------------------ */

#define PARTS_FIRST 3u
static uint32_t parts; /* existing parts, of PARTS */

static void part_move(uint32_t i, const char *from, const char *to)
{
    char was[600], is[64];
    snprintf(is, sizeof is, "%s-%u.csv", from, i);
    snprintf(was, sizeof was, "%s", worker_path(is));
    snprintf(is, sizeof is, "%s-%u.csv", to, i);
    ck_assert_int_eq(rename(was, worker_path(is)), 0);
}

static void parts_hold(void)
{
    for (uint32_t i = PARTS_FIRST; i < PARTS; i++)
        part_move(i, "part", "held");
    parts = PARTS_FIRST;
}

static void parts_give(void)
{
    while (parts < PARTS)
        part_move(parts++, "held", "part");
}

/* ---- a topic that grows ---------------------------------------------------------------------- */

#define TOPIC_CHUNK (ROWS / 4)
static uint64_t topic_high[TOPIC_PARTITIONS]; /* offsets given */
static uint32_t topic_rows;                   /* lines given, of ROWS */

/* Gives a chunk of the lines. Some offsets have no message, as after an aborted transaction. */
static void topic_more(void)
{
    char line[128];
    FILE *f = fopen(worker_path("bare-train.csv"), "r");
    ck_assert_ptr_nonnull(f);
    for (uint32_t i = 0; i < topic_rows + TOPIC_CHUNK; i++) {
        ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
        if (i < topic_rows)
            continue;
        uint32_t p = i % 3;
        line[strcspn(line, "\n")] = '\0';
        for (uint32_t hole = 0; hole < (i % 7 == 0); hole++, topic_high[p]++)
            topic_put(p, NULL, 0);
        topic_put(p, line, 0);
        topic_high[p]++;
    }
    topic_rows += TOPIC_CHUNK;
    (void)fclose(f);
}

static void topic_begin(void)
{
    topic_open(3);
    memset(topic_high, 0, sizeof topic_high);
    topic_rows = 0;
    topic_more();
}

/* The positions of a round that has not begun are undone when the job is stopped. */
static bool topic_learnt(const struct coord_job *j)
{
    const struct coord_taken_list *taken = coord_taken_names(j);
    const struct positions *is = &taken->positions;
    bool all = is->count == 3 && taken->at.round <= j->at.epoch;
    for (uint32_t i = 0; all && i < is->count; i++)
        all = is->of[i].to == topic_high[i];
    return all;
}

/* As log_grow. */
static void topic_step(void)
{
    struct coord *c = cluster.coord;
    if (c == NULL || c->slot[0].at.phase != PHASE_GROW || !topic_learnt(&c->slot[0]))
        return;
    if (topic_rows < ROWS)
        topic_more();
    else
        (void)coord_stop_order(&c->slot[0], 1);
}

/* All existing objects have been learnt: one more comes, and after the last one the job is to
 * end. */
static void log_grow(void)
{
    struct coord *c = cluster.coord;
    if (c == NULL || c->slot[0].at.phase != PHASE_GROW || c->slot[0].grow->at.read != parts)
        return;
    if (parts < PARTS) {
        part_move(parts, "held", "part");
        parts++;
    } else {
        (void)coord_stop_order(&c->slot[0], 1);
    }
}

/* Events between the two jobs of a run. A server's folder is lost, older, or that of another
 * server: then the folder is refused, and the second job waits until the right one is back. */
#define LINKS(X)                                                                                   \
    X(NOTHING, nothing)                                                                            \
    X(SERVERS_RESTARTED, servers_restarted)                                                        \
    X(STORE_LOST, store_lost)                                                                      \
    X(STORE_OLDER, store_older)                                                                    \
    X(FOLDER_EMPTY, folder_empty)                                                                  \
    X(FOLDER_OLDER, folder_older)                                                                  \
    X(FOLDER_SWAPPED, folder_swapped)
enum link {
#define X(name, text) LINK_##name,
    LINKS(X)
#undef X
        LINK_END /* there is no second job */
};
static const char *const link_names[] = {
#define X(name, text) #text,
    LINKS(X)
#undef X
        "one_job"};
_Static_assert(sizeof link_names / sizeof link_names[0] == 8, "struct tally has so many");

struct run {
    const struct kind *kind;
    uint64_t seed; /* 0: undisturbed */
    struct rng rng;
    char who[64], dir[512];
    struct cluster_options options;
    uint32_t strikes; /* in each job */
    enum link link;
    bool fresh;                /* the second job drops all that the first left */
    uint32_t server;           /* for LINK_FOLDER_.. */
    struct coord_store *older; /* owned; for LINK_STORE_OLDER */
    bool amid;                 /* it was copied while the first job ran */
    bool power;                /* servers and coordinator may lose power */
    bool lost;                 /* and with it perhaps acknowledged pushes */
    bool ended;                /* and a job ended for it, with a sentence */
    bool has_hostile;
    struct hostile hostile;
};

/* As cluster_run; also checks ill workers and grows the log at times. */
static bool job_run(const struct run *p, uint64_t until_ns)
{
    bool over = false;
    for (uint64_t at = sim_now_ns(cluster.sim); !over && at < until_ns;) {
        at = at + 300 * MS < until_ns ? at + 300 * MS : until_ns;
        over = cluster_run(&cluster, at);
        if (!over)
            sim_ill_look(&cluster, p->who, &tallies[p->kind - kinds].ill);
        if (streams(p->kind))
            topic_step();
        else if (grows(p->kind))
            log_grow();
    }
    return over || cluster_run(&cluster, until_ns);
}

/* The undisturbed run, after one job and after two. */
static struct calm {
    struct cluster_result result;
    struct oracle_rows rows;
} calm[2];

static uint64_t number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : fallback;
}

static void plan(struct run *p, const struct kind *k, uint64_t seed)
{
    struct rng *r = &p->rng;
    struct sim_options sim = {.seed = seed + 1,
                              .delay_min_ns = MS / 20,
                              .delay_max_ns = MS,
                              .work_min_ns = MS / 10,
                              .work_max_ns = 4 * MS,
                              .wall_s = WALL_S};
    struct cluster_options o = {
        .yaml = yaml, .servers = 1, .workers = 1, .durability = k->durability};
    memset(p, 0, sizeof *p);
    p->kind = k;
    p->seed = seed;
    p->rng = rng_of(seed, 7, 7);
    snprintf(p->who, sizeof p->who, "%s, seed %" PRIu64, k->name, seed);
    if (seed != 0) {
        sim.drop = (double)rng_below(r, 3) * 0.05 + (rng_below(r, 8) == 0 ? 0.1 : 0);
        sim.duplicate = (double)rng_below(r, 3) * 0.1;
        sim.reorder = rng_below(r, 2) == 1;
        sim.delay_max_ns = MS + rng_below(r, 10) * MS;
        sim.wall_jump_s = rng_below(r, 2) == 0 ? DAY_S : 0;
        o.servers = 1 + (uint32_t)rng_below(r, 3);
        o.shards = 1 + (uint32_t)rng_below(r, 4 / o.servers); /* 64 tablets, at least 16 for each */
        o.waiting_max = rng_below(r, 3) == 0 ? 16384 : 0;     /* one batch of a lane, or three */
        o.workers = 1 + (uint32_t)rng_below(r, 3);
        p->strikes = (uint32_t)rng_below(r, 9);
        p->has_hostile = rng_below(r, 3) == 0;
        p->link = rng_below(r, 2) == 0 ? LINK_END : (enum link)rng_below(r, LINK_END);
        p->server = (uint32_t)rng_below(r, o.servers);
        if (p->link == LINK_FOLDER_SWAPPED && o.servers == 1)
            p->link = LINK_SERVERS_RESTARTED;
    }
    if (grows(k) || rings(k))
        p->link = LINK_END;
    p->power = seed != 0 && number("SHOAL_SIM_POWER", seed % 8 == 3) != 0;
    if (p->power) { /* the simulated disk does not allow moving folders */
        o.power = true;
        o.durability = seed % 2 == 0 ? DURABLE_FSYNC : k->durability;
        if (rng_below(r, 3) != 0) { /* many clocks between two syncs */
            sim.delay_max_ns = MS / 5;
            sim.work_max_ns = MS / 2;
            sim.drop = 0;
        }
        p->link = p->link == LINK_END || p->link == LINK_NOTHING ? p->link : LINK_SERVERS_RESTARTED;
    }
    if (seed != 0 && !p->power && number("SHOAL_SIM_KEEP", seed % 4 == 1) != 0)
        o.keep_ns = MS / 10 + seed % 5 * 5 * MS;
    durability = o.durability;
    p->fresh = p->link != LINK_END && seed % 3 == 1;
    o.sim = sim;
    o.idle = p->link == LINK_STORE_OLDER;
    snprintf(p->dir, sizeof p->dir, "%s/run", folder);
    o.dir = p->dir;
    p->options = o;
    sim_cold_share(seed % 2 == 0 ? 0 : 5 + (uint32_t)rng_below(r, 30));
}

static uint64_t in(uint64_t ns)
{
    return sim_now_ns(cluster.sim) + ns;
}

static bool founded(void *context)
{
    (void)context;
    return coord_cluster_ready(&cluster.coord->fleet.cluster);
}

/* Keeps a copy of the coordinator's store: from before the first job, when it knows the cluster but
 * neither map nor run, or from a moment of that job. */
static void store_keep(struct run *p)
{
    ck_assert_msg(sim_run(cluster.sim, in(60 * SECOND), founded, NULL), "%s: not founded", p->who);
    p->amid = rng_below(&p->rng, 2) == 0;
    if (!p->amid)
        p->older = cluster_store_copy(&cluster);
    cluster_submit(&cluster);
    if (p->amid) {
        (void)cluster_run(&cluster, in(rng_below(&p->rng, 1500) * MS));
        p->older = cluster_store_copy(&cluster);
    }
}

static bool nothing_runs(void *context)
{
    const struct coord *c = cluster.coord;
    (void)context;
    return c != NULL && (c->slot[0].at.phase == PHASE_NONE || c->slot[0].at.phase >= PHASE_DONE);
}

/* A store from the middle of that job resumes the job, although it is over: the shards report
 * that. */
static void job_of_the_past_ends(const struct run *p)
{
    while (!sim_run(cluster.sim, in(10 * SECOND), nothing_runs, NULL)) {
        ck_assert_msg(sim_now_ns(cluster.sim) < 100 * BOUND, "%s: the past goes on", p->who);
        (void)cluster_run(&cluster, 0); /* workers of the first job have ended */
        cluster_mend(&cluster);
    }
}

static void folder_keep(struct run *p)
{
    (void)cluster_run(&cluster, in(rng_below(&p->rng, 400) * MS));
    cluster_server_kill(&cluster, p->server);
    sim_folder_keep(&cluster, p->server);
    cluster_server_start(&cluster, p->server);
}

/* Runs until a moment that suits a strike. Returns true if the job is over. */
static bool wait_for_moment(struct run *p, uint64_t gap)
{
    struct rng *r = &p->rng;
    if (rng_below(r, 3) != 0)
        return job_run(p, in((1 + rng_below(r, gap)) * MS));
    /* aims at the short phases, which a random time rarely hits */
    uint32_t phases = PHASE_DONE - PHASE_INDEX,
             phase = PHASE_INDEX + (uint32_t)rng_below(r, phases + 3 * grows(p->kind));
    phase = phase >= PHASE_DONE ? PHASE_GROW : phase;
    return cluster_run_phase(&cluster, phase, in(4 * SECOND)) ||
           job_run(p, in(rng_below(r, 4000) * MS / 1000));
}

static bool acknowledged(void *context)
{
    return oracle_acknowledged() >= *(uint64_t *)context;
}

static bool transaction_under_way(void *context)
{
    (void)context;
    return cluster.coord != NULL && coord_fleet_waits(&cluster.coord->fleet);
}

/* Kills the coordinator while a transaction is under way. */
static void completion_lost(struct run *p, uint64_t *back)
{
    (void)sim_run(cluster.sim, in(SECOND), transaction_under_way, NULL);
    cluster_coord_kill(&cluster);
    cluster.struck.coordinator_killed++;
    *back = in((5 + rng_below(&p->rng, 200)) * MS);
}

/* Strikes; if power may be lost, usually soon after some pushes were acknowledged. */
static void strike(struct run *p, uint64_t *back)
{
    uint64_t pushes = oracle_acknowledged() + 1 + rng_below(&p->rng, 60);
    if (p->options.keep_ns > 0 && rng_below(&p->rng, 2) == 0) {
        completion_lost(p, back);
        return;
    }
    if (p->power && rng_below(&p->rng, 4) != 0)
        (void)sim_run(cluster.sim, in(SECOND), acknowledged, &pushes);
    uint64_t before = cluster.struck.server_without_power;
    cluster_strike(&cluster, &p->rng, back);
    if (cluster.struck.server_without_power > before && durability != DURABLE_FSYNC) {
        p->lost = true;
        oracle_power_lost();
    }
}

static void job_suffers(struct run *p)
{
    struct rng *r = &p->rng;
    uint64_t gap = 30 + rng_below(r, 600);
    bool over = false;
    for (uint32_t i = 0; i < p->strikes && !over; i++) {
        uint64_t back, other;
        over = wait_for_moment(p, gap);
        if (over)
            break;
        oracle_marks();
        strike(p, &back);
        if (rng_below(r, 4) == 0) { /* a second strike before the first is repaired */
            over = job_run(p, in(rng_below(r, 40) * MS));
            strike(p, &other);
        }
        over = over || job_run(p, back);
        cluster_mend(&cluster);
    }
    /* a worker of the earlier job may still have been leaving: it is started again as usual */
    for (uint64_t end = in(BOUND); !over && sim_now_ns(cluster.sim) < end;) {
        over = job_run(p, in(10 * SECOND));
        cluster_mend(&cluster);
    }
    ck_assert_msg(over, "%s: not over after %" PRIu64 " s of virtual time", p->who,
                  sim_now_ns(cluster.sim) / SECOND);
}

static void expect_same(const struct run *p, const struct cluster_result *got,
                        const struct cluster_result *must)
{
    ck_assert_msg(got->state == WIRE_JOB_DONE, "%s: state %u: %s", p->who, got->state, got->text);
    ck_assert_msg(got->examples == must->examples, "%s: %" PRIu64 " examples, %" PRIu64 " expected",
                  p->who, got->examples, must->examples);
    ck_assert_msg(got->epochs == must->epochs, "%s: %u epochs, %u expected", p->who, got->epochs,
                  must->epochs);
    ck_assert_msg(got->rows == must->rows, "%s: %" PRIu64 " rows, %" PRIu64 " expected", p->who,
                  got->rows, must->rows);
    for (uint32_t i = 0; i < must->tables; i++)
        ck_assert_msg(strcmp(got->digest[i], must->digest[i]) == 0,
                      "%s: table %u is %s, %s expected", p->who, i, got->digest[i],
                      must->digest[i]);
}

/* Checks the probe's counts after job 0 or 1. A second job without column a counts only b, under
 * the number that b has in the tables. */
static void counts_check(const struct run *p, const struct oracle_rows *rows, uint32_t job)
{
    struct oracle_count must[VALUES_A + VALUES_B];
    for (uint32_t i = 0; i < VALUES_A + VALUES_B; i++) {
        bool twice = job == 1 && (p->kind->second == NULL || i >= VALUES_A);
        must[i] = counts[i];
        must[i].examples *= twice ? 2 : 1;
    }
    oracle_rows_count(rows, must, VALUES_A + VALUES_B, epochs_of(p->kind));
}

/* True when a job may end with this text after power took acknowledged pushes. */
static bool power_said(const struct run *p, const char *text)
{
    return (p->lost && strstr(text, "a server has lost pushes") != NULL) ||
           (rings(p->kind) && strstr(text, "the servers have lost batches of lane") != NULL) ||
           strstr(text, "power took what was not on a disk yet") != NULL;
}

/* Jobs that ended so. */
static uint32_t network_losses;

/* True when a job may end with this text after all workers have died. */
static bool network_lost(const char *text)
{
    return strstr(text, "the network half as of step") != NULL ||
           strstr(text, "all workers ended at once, the network is in the tables as of") != NULL;
}

/* Checks the rows after job 0 or 1 of the run. A second job over empty tables counts as a first
 * one. Returns false if the loss of power has ended the job with a sentence. */
static bool job_check(const struct run *p, uint32_t job)
{
    job = p->fresh ? 0 : job;
    struct calm now, *must = &calm[job];
    cluster_result(&cluster, &now.result);
    if (rings(p->kind) && now.result.state == WIRE_JOB_FAILED && network_lost(now.result.text)) {
        network_losses += !p->power;
        tallies[p->kind - kinds].network_losses++;
        return false;
    }
    if (p->lost && now.result.state == WIRE_JOB_FAILED) {
        ck_assert_msg(power_said(p, now.result.text), "%s: %s", p->who, now.result.text);
        return false;
    }
    ck_assert_msg(now.result.state == WIRE_JOB_DONE, "%s: state %u: %s", p->who, now.result.state,
                  now.result.text);
    cluster_mend(&cluster);
    ck_assert_msg(cluster_settle(&cluster, in(BOUND)), "%s: the shards do not come back", p->who);
    oracle_marks();
    oracle_rows_take(&now.rows);
    if (is_probe(p->kind))
        counts_check(p, &now.rows, job);
    if (p->seed == 0) {
        oracle_rows_free(&must->rows);
        *must = now;
        return true;
    }
    oracle_rows_same(&now.rows, &must->rows);
    expect_same(p, &now.result, &must->result);
    oracle_rows_free(&now.rows);
    return true;
}

/* ---- between two jobs ------------------------------------------------------------------------ */

static void servers_restart(uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        cluster_server_kill(&cluster, i);
    cluster_mend(&cluster);
}

static void folder_wrong(struct run *p, uint32_t other)
{
    cluster_server_kill(&cluster, p->server);
    if (p->link == LINK_FOLDER_SWAPPED) {
        cluster_server_kill(&cluster, other);
        sim_folder_swap(&cluster, p->server, other);
    } else if (p->link == LINK_FOLDER_EMPTY) {
        sim_folder_empty(&cluster, p->server);
    } else {
        sim_folder_older(&cluster, p->server);
    }
    cluster_submit(&cluster); /* starts the coordinator */
}

/* Checks that the second job waits until the right folder is back. An older folder that lacks no
 * record is a right one. */
static void folder_link(struct run *p)
{
    uint32_t other = (p->server + 1) % p->options.servers;
    struct cluster_result got;
    folder_wrong(p, other);
    if (cluster_run(&cluster, in(20 * SECOND))) {
        cluster_result(&cluster, &got);
        ck_assert_msg(p->link == LINK_FOLDER_OLDER && got.state == WIRE_JOB_DONE,
                      "%s: %s, and the job ends in state %u: %s", p->who, link_names[p->link],
                      got.state, got.text);
        return;
    }
    cluster_server_kill(&cluster, p->server);
    if (p->link == LINK_FOLDER_SWAPPED) {
        cluster_server_kill(&cluster, other);
        sim_folder_swap(&cluster, p->server, other);
    } else {
        sim_folder_back(&cluster, p->server);
    }
    cluster_mend(&cluster);
}

static bool all_came(void *context)
{
    const struct coord *c = cluster.coord;
    (void)context;
    return c != NULL && coord_member_shards_ready(&c->fleet.members);
}

/* Returns the job's error once all workers have ended; "": it has not failed. */
static const char *failed_with(struct cluster_result *got)
{
    (void)sim_run(cluster.sim, in(60 * SECOND), all_came, NULL);
    (void)cluster_run(&cluster, in(5 * SECOND));
    cluster_result(&cluster, got);
    return got->state == WIRE_JOB_FAILED ? got->text : "";
}

/* A coordinator without its store chooses new run numbers, perhaps below a run that a shard still
 * has open, or accepts a job before it hears of the existing tables. It says so, with the remedy,
 * once for each, when it learns that from the last server that registers. */
static void again_if_asked(const struct run *p)
{
    struct cluster_result got;
    if (p->link != LINK_STORE_LOST && p->link != LINK_STORE_OLDER)
        return;
    const char *text = failed_with(&got);
    if (strstr(text, "submit the job again") != NULL) {
        cluster_submit(&cluster);
        text = failed_with(&got);
    }
    if (strstr(text, "--start-from fleet") != NULL) {
        cluster_submit(&cluster);
        cluster.client->from = "fleet";
    }
}

static void second_text(const struct run *p)
{
    job_make(p->kind, !p->fresh); /* over empty tables it is a first job */
    if (p->fresh)
        strcat(yaml, "fresh: [all]\n");
}

static void second_job(struct run *p)
{
    struct coord_store *older = p->older;
    p->older = NULL;
    if (p->link != LINK_STORE_OLDER || !p->amid)
        second_text(p);
    switch (p->link) {
    case LINK_SERVERS_RESTARTED:
        servers_restart(0, p->options.servers);
        break;
    case LINK_STORE_LOST:
        cluster_store_change(&cluster, coord_store_memory());
        break;
    case LINK_STORE_OLDER:
        cluster_store_change(&cluster, older);
        if (p->amid)
            job_of_the_past_ends(p);
        for (uint32_t i = 0; i < cluster.workers; i++)
            if (cluster.worker[i].node != NULL)
                cluster_worker_kill(&cluster, i); /* they belong to the first job */
        second_text(p);
        break;
    case LINK_FOLDER_EMPTY:
    case LINK_FOLDER_OLDER:
    case LINK_FOLDER_SWAPPED:
        folder_link(p);
        return;
    case LINK_NOTHING:
    case LINK_END:
        break;
    }
    cluster_submit(&cluster);
    again_if_asked(p);
}

/* Runs one seed. Returns the trace. */
static uint64_t play(const struct kind *k, uint64_t seed)
{
    static struct run p;
    struct tally *t = &tallies[k - kinds];
    char command[600];
    t->seed = seed;
    plan(&p, k, seed);
    ck_assert_int_eq(mkdir(p.dir, 0700), 0);
    job_make(k, false);
    if (streams(k))
        topic_begin();
    else if (grows(k))
        parts_hold();
    cluster_start(&cluster, &p.options, backend);
    oracle_watch(&cluster, p.who);
    if (p.has_hostile)
        hostile_start(&p.hostile, &cluster, seed);
    if (p.link == LINK_STORE_OLDER)
        store_keep(&p);
    if (p.link == LINK_FOLDER_OLDER)
        folder_keep(&p);
    job_suffers(&p);
    p.ended = !job_check(&p, 0);
    if (streams(k))
        topic_close();
    else if (grows(k))
        parts_give();
    if (p.link != LINK_END && !p.ended) {
        second_job(&p);
        job_suffers(&p);
        p.ended = !job_check(&p, 1);
    }
    t->ended += p.ended && p.lost;
    t->power += p.power;
    t->lost += oracle_lost();
    uint64_t trace = sim_trace(cluster.sim);
    ck_assert((oracle_packed() > 0) == is_packed(k));
    tally_note(t, p.hostile.sent);
    cluster_free(&cluster);
    snprintf(command, sizeof command, "rm -rf %s", p.dir);
    ck_assert_int_eq(system(command), 0);
    if (seed != 0) {
        t->seeds++;
        t->jobs += p.link == LINK_END ? 1 : 2;
        t->link[p.link]++;
    }
    return trace;
}

/* ---- cases ----------------------------------------------------------------------------------- */

START_TEST(cluster_ends_with_the_same_rows_under_faults)
{
    const struct kind *k = &kinds[_i];
    uint64_t first = number("SHOAL_SIM_FIRST", 1), seeds = number("SHOAL_SIM_SEEDS", 4);
    const char *by = getenv("SHOAL_DENSE_BACKEND");
    if (is_probe(k) && by != NULL && getenv("SHOAL_SIM_KIND") == NULL)
        return; /* a probe computes nothing, so another backend gives the same run */
    play(k, 0);
    ck_assert_uint_gt(calm[0].result.tables, 0);
    for (uint64_t seed = first; seed < first + seeds; seed++)
        play(k, seed);
    ck_assert_uint_le(4 * network_losses, seeds + 3);
    tallies[_i].seed = 0;
    ck_assert(seeds < 2 || sim_cold_answers() > 0);
}
END_TEST

static void setup(void)
{
    log_set_level(getenv("SHOAL_SIM_LOG") != NULL ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR);
    folder = worker_folder_make();
    ck_assert_int_eq(chdir(folder), 0);
    memset(counts, 0, sizeof counts);
    file_make("train.csv", ROWS, 1, true);
    file_make("valid.csv", 100, 2, false);
    if (backend == NULL)
        backend = dense_backend();
}

static void teardown(void)
{
    worker_folder_remove();
}

START_TEST(cluster_same_seed_is_the_same_run)
{
    const struct kind *k = &kinds[1];
    setenv("SHOAL_SIM_POWER", "0", 1); /* RocksDB's threads write at any time, so disks differ */
    play(k, 0);
    uint64_t first = play(k, 3), second = play(k, 3);
    ck_assert_uint_eq(first, second);
    ck_assert_uint_ne(first, play(k, 4));
    tallies[1].seed = 0;
}
END_TEST

/* In another folder messages have other bytes, but every event happens at the same nanosecond. */
START_TEST(cluster_same_seed_goes_the_same_way_in_any_folder)
{
    const uint32_t kind[] = {1, 11}; /* files; objects */
    struct tally *t = &tallies[kind[_i]];
    uint64_t ns[2];
    setenv("SHOAL_SIM_POWER", "0", 1);
    for (uint32_t i = 0; i < 2; i++) {
        play(&kinds[kind[_i]], 0);
        ns[i] = t->ns;
        for (uint64_t seed = 3; seed < 8; seed++)
            play(&kinds[kind[_i]], seed);
        ns[i] = t->ns - ns[i];
        teardown();
        setup();
    }
    ck_assert_uint_eq(ns[0], ns[1]);
    t->seed = 0;
}
END_TEST

/* For tests/sim/seeds: prints a line for each kind, of words and numbers. */
static void tallies_say(void)
{
    for (uint32_t i = 0; i < KINDS; i++) {
        const struct tally *t = &tallies[i];
        if (t->seeds == 0)
            continue;
        printf("tally %s seeds %" PRIu64 " jobs %" PRIu64 " virtual_seconds %" PRIu64
               " pushes_acknowledged %" PRIu64 " packed %" PRIu64 " with_rows %" PRIu64
               " hostile_messages %" PRIu64,
               kinds[i].name, t->seeds, t->jobs, t->ns / SECOND, t->pushes, t->packed, t->echoes,
               t->hostile);
#define X(name) printf(" " #name " %" PRIu64, t->struck.name);
        CLUSTER_STRIKES(X)
#undef X
        printf(" lanes_taken %" PRIu64 " links_named %" PRIu64, t->ill.taken, t->ill.named);
        printf(" power %" PRIu64 " ended_by_power %" PRIu64 " batches_lost %" PRIu64, t->power,
               t->ended, t->lost);
        printf(" ended_without_network %" PRIu64, t->network_losses);
        printf(" transactions_delayed %" PRIu64 " transactions_lost %" PRIu64
               " transactions_without_completion %" PRIu64,
               t->kept.delayed, t->kept.lost, t->kept.unheard);
        for (uint32_t l = 0; l <= LINK_END; l++)
            printf(" %s %" PRIu64, link_names[l], t->link[l]);
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) /* tests/sim/seeds asks how many kinds there are */
        return printf("%u\n", (unsigned)KINDS) < 0;
    Suite *s = suite_create("cluster");
    TCase *c = tcase_create("cluster");
    const char *only = getenv("SHOAL_SIM_KIND");
    bool one = only != NULL && strtoul(only, NULL, 10) < KINDS;
    tallies = mmap(NULL, sizeof *tallies * KINDS, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tallies == MAP_FAILED || argc < 1)
        return 1;
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 7200);
    tcase_add_loop_test(c, cluster_ends_with_the_same_rows_under_faults, one ? atoi(only) : 0,
                        one ? atoi(only) + 1 : (int)KINDS);
    if (!one)
        tcase_add_test(c, cluster_same_seed_is_the_same_run);
    if (!one)
        tcase_add_loop_test(c, cluster_same_seed_goes_the_same_way_in_any_folder, 0, 2);
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
