/* sim_one_job.c: see sim_one_job.h. */
#include "tests/lib/sim_one_job.h"

#include "proto/base/key.h"
#include "proto/base/rng.h"
#include "tests/lib/worker_files.h"

#include <stdio.h>
#include <string.h>

/* counts: NULL: not counted */
static void file_make(const char *name, uint32_t rows, uint32_t seed, struct oracle_count *counts)
{
    static char data[1 << 16];
    struct rng r = rng_of(seed, 0, 0);
    size_t at = (size_t)snprintf(data, sizeof data, "label,a\n");
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t a = (uint32_t)rng_below(&r, SIM_ONE_JOB_VALUES);
        char text[16];
        int bytes = snprintf(text, sizeof text, "%u", a);
        at += (size_t)snprintf(data + at, sizeof data - at, "%u,%s\n",
                               (a * 3 + (uint32_t)rng_below(&r, 9)) % 2, text);
        if (counts != NULL) {
            counts[a].key = key_of_value(0, text, (size_t)bytes);
            counts[a].examples++;
        }
    }
    worker_write(name, data, at);
}

void sim_one_job_input(struct oracle_count *counts)
{
    file_make("train.csv", SIM_ONE_JOB_ROWS, 1, counts);
    file_make("valid.csv", 100, 2, NULL);
}

bool sim_one_job_counts(const char *model)
{
    return strstr(model, "probe") != NULL;
}

void sim_one_job_text(char *out, size_t bytes, const char *model, const char *mode, uint32_t epochs,
                      const char *train, enum durability durability)
{
    static const char *const names[] = {"memory", "journal", "fsync"};
    bool probe = sim_one_job_counts(model);
    snprintf(
        out, bytes,
        "job: sim\n"
        "data: {format: csv, label: label, train: [%s], valid: [%s], cache: %s}\n"
        "tables:\n"
        "  - {name: emb, dim: 2, tablets: 64, init: {kind: %s}, optimizer: {kind: %s, lr: %s}}\n"
        "model: %s\n"
        "train: {batch: 16, epochs: %u, consistency: %s, staleness: 2, prefetch: 2, lanes: 3, "
        "backend: cpu, task_batches: 4%s}\n"
        "durability: %s\n"
        "coordinator: {lease: 1s}\n"
        "net: {resend: 100ms}\n",
        worker_path("train.csv"), worker_path("valid.csv"), worker_path("cache"),
        probe ? "zero" : "uniform", probe ? "sgd" : "adagrad", probe ? "1" : "0.3", model, epochs,
        mode, train, names[durability]);
}
