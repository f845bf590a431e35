/* sim_jobs.c: the kinds of jobs, with their text and input. */
#include "tests/lib/sim_jobs.h"

#include "proto/base/key.h"
#include "proto/base/rng.h"
#include "tests/lib/worker_files.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DAY_S UINT64_C(86400)
#define ROWS 240u
#define VALID 60u

static struct oracle_count counts[SIM_JOBS_VALUES];

#define PROBE "{kind: probe}"
#define DEEPFM "{kind: deepfm, hidden: [4], norm: none}"
#define FILES "label: label, train: [train.csv], valid: [valid.csv]"
#define OBJECTS "label: label, train: [part-*.csv], valid: [part-*.csv], "
#define JOIN "label: click, train: [train.csv], join: {clicks: [clicks.csv], id: id, window: 30min}"

const struct sim_job sim_jobs[SIM_JOBS] = {
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
_Static_assert(sizeof sim_jobs / sizeof sim_jobs[0] == SIM_JOBS, "each has its number");

bool sim_job_grows(const struct sim_job *k)
{
    return strstr(k->data, "grow") != NULL;
}

uint32_t sim_job_epochs(const struct sim_job *k)
{
    bool once = sim_job_grows(k) || strstr(k->more, "replay") != NULL;
    return once ? 1 : strstr(k->train, "stop") != NULL ? 4 : 2;
}

void sim_job_text(const struct sim_job *k, char yaml[SIM_JOB_TEXT])
{
    bool tasks = strstr(k->model, "mmoe") != NULL, join = strstr(k->data, "join") != NULL;
    int n = snprintf(
        yaml, SIM_JOB_TEXT,
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
        k->model, sim_job_epochs(k), k->mode, k->train, k->more);
    ck_assert_uint_lt((size_t)n, SIM_JOB_TEXT);
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
    uint32_t a = (uint32_t)rng_below(r, SIM_JOBS_VALUES_A),
             b = (uint32_t)rng_below(r, SIM_JOBS_VALUES_B);
    *at += (size_t)snprintf(data + *at, 64, "%u,%u,%u,%" PRIu64 ",%u,%u\n", (a + b) % 2, a, b,
                            SIM_JOBS_WALL_S - 3 * DAY_S + i * (2 * DAY_S / rows), a % 2, i);
    if (count) {
        count_value(0, a, &counts[a]);
        count_value(1, b, &counts[SIM_JOBS_VALUES_A + b]);
    }
}

/* Writes the log, the same lines as objects, and clicks for every fifth line. */
const struct oracle_count *sim_jobs_input(void)
{
    static char data[1 << 15], part[1 << 15];
    memset(counts, 0, sizeof counts);
    struct rng r = rng_of(1, 0, 0);
    size_t at = (size_t)snprintf(data, sizeof data, "%s", header), first = at;
    for (uint32_t i = 0; i < ROWS; i++) {
        line_add(data, &at, &r, i, ROWS, true);
        if ((i + 1) % (ROWS / SIM_JOBS_PARTS) != 0)
            continue;
        char name[32];
        int n = snprintf(part, sizeof part, "%s%.*s", header, (int)(at - first), data + first);
        (void)snprintf(name, sizeof name, "part-%u.csv", i / (ROWS / SIM_JOBS_PARTS));
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
                               SIM_JOBS_WALL_S - 3 * DAY_S + i * (2 * DAY_S / ROWS) + 60);
    worker_write("clicks.csv", data, at);
    return counts;
}
