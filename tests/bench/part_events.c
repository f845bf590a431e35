/* part_events.c: the text of an event file that is unpacked in a second on a core, the speed of its
 * batches in the log's order and shuffled, and the gain of kept parsed rows in an FM's second
 * epoch.
 *
 * Batches are read in this process, by one thread, whole epochs in both orders in turn; seconds are
 * those that the thread was on a core. The other figures come from the users' programs. The second
 * epoch is measured in pairs, one run without parsed rows and one with them (data.cache_max), each
 * first in every other pair; the ratio is the median of the pairs' ratios. */
#include "deploy/cli/cli.h"
#include "proto/base/file.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/bench/part.h"
#include "worker/data/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { READS = 9, PAIRS = 7, PATH = 4400, BATCH = 4096 };
enum { TEXT, ROWS, KINDS };

struct events_bench {
    const char *dir;
    uint64_t rows;
    char log[PATH], events[PATH], job[PATH], run[PATH];
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, size_t count)
{
    qsort(x, count, sizeof *x, compare);
    return x[count / 2];
}

static int say(const char *const argv[], struct json **out, struct err *e)
{
    char *text = NULL;
    size_t bytes = 0;
    int rc = child_output(argv, &text, &bytes, e);
    if (rc == 0 && out != NULL)
        rc = json_parse(text, bytes, out, e);
    free(text);
    return rc;
}

static int prepare(struct events_bench *b, struct err *e)
{
    char count[32];
    struct stat st;
    (void)snprintf(b->log, sizeof b->log, "%s/events.tsv", b->dir);
    (void)snprintf(b->events, sizeof b->events, "%s/log.events", b->dir);
    (void)snprintf(b->job, sizeof b->job, "%s/events.yaml", b->dir);
    (void)snprintf(b->run, sizeof b->run, "%s/events-run", b->dir);
    FILE *f = file_stream(b->job, false);
    if (f == NULL)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", b->job, strerror(errno));
    fprintf(f,
            "job: bench\ndata: {format: criteo, train: [\"%s\"], cache: \"%s/events-cache\"}\n"
            "tables: [{name: emb, dim: 8, optimizer: {kind: adagrad, lr: 0.02}}]\n"
            "model: {kind: fm}\ntrain: {epochs: 2, batch: 16384, consistency: ssp, staleness: 2, "
            "prefetch: 2, lanes: 2}\ndurability: memory\n",
            b->log, b->dir);
    fclose(f);
    (void)snprintf(count, sizeof count, "%" PRIu64, b->rows);
    const char *const synth[] = {"shoal", "synth", "--rows", count, "--seed",
                                 "1",     "--out", b->log,   NULL};
    return stat(b->log, &st) == 0 && st.st_size > 0 ? 0 : say(synth, NULL, e);
}

static double in(const struct json *j, const char *name)
{
    return json_as_number(json_get(j, name), 0);
}

static int file_measure(struct events_bench *b, struct part_out *out, struct err *e)
{
    const char *const convert[] = {"shoal", "convert", b->job, "--out", b->events, "--json", NULL};
    const char *const check[] = {"shoal", "convert", "--check", b->events, "--json", NULL};
    double rate[READS], write;
    struct json *j = NULL;
    (void)file_unlink(b->events);
    int rc = say(convert, &j, e);
    if (rc != 0)
        return rc;
    write = in(j, "rows") / in(j, "core_seconds");
    double row_bytes = in(j, "bytes") / in(j, "rows");
    json_free(j);
    for (int i = 0; i < READS && rc == 0; i++) {
        rc = say(check, &j, e);
        rate[i] = rc == 0 ? in(j, "decoded_bytes") / in(j, "core_seconds") * 1e-9 : 0;
        if (rc == 0)
            json_free(j);
    }
    if (rc == 0)
        rc = part_figure(out, "events_decode_core", median(rate, READS), 2, "GB/s");
    if (rc == 0)
        rc = part_figure(out, "events_convert_core", write, 0, "examples/s");
    return rc == 0 ? part_figure(out, "events_row_bytes", row_bytes, 1, "bytes") : rc;
}

/* Reads one epoch as batches. epoch 0: in the log's order. */
static int epoch_read(const struct dataset *d, uint32_t epoch, double *rate, struct err *e)
{
    uint64_t rows = dataset_rows(d), examples = 0;
    double begin = part_core_seconds();
    struct batch batch;
    int rc = 0;
    batch_init(&batch);
    for (uint64_t at = 0; at < rows && rc == 0; at += BATCH) {
        rc = batch_read(d, 1, epoch, at, rows - at < BATCH ? (uint32_t)(rows - at) : BATCH, &batch,
                        e);
        examples += batch.examples;
    }
    batch_free(&batch);
    *rate = (double)examples / (part_core_seconds() - begin);
    return rc;
}

/* Opens the event file for reading in one of both orders; it was read once before. */
static int order_open(struct events_bench *b, bool shuffled, struct dataset **d, struct err *e)
{
    struct job job = {.data = {.format = DATA_EVENTS, .shuffle = shuffled, .delimiter = ","},
                      .features = {.fields_auto = true},
                      .train = {.lanes = 1, .batch = BATCH}};
    double warm;
    (void)snprintf(job.data.cache, sizeof job.data.cache, "%s/events-cache", b->dir);
    int rc = config_list_add(&job.data.train, b->events) != 0
                 ? err_set(e, SHOAL_E_NOMEM, "no memory for a job")
                 : dataset_open(&job, WIRE_TRAIN, d, e);
    job_free(&job);
    return rc == 0 ? epoch_read(*d, 1, &warm, e) : rc;
}

static int orders_tell(struct part_out *out, double *log, double *shuffled, double *ratio,
                       double read, struct err *e)
{
    int rc = part_figure(out, "events_log", median(log, PAIRS), 0, "examples/s");
    if (rc == 0)
        rc = part_figure(out, "events_shuffled", median(shuffled, PAIRS), 0, "examples/s");
    if (rc == 0)
        rc = part_figure(out, "events_shuffled_of_log", median(ratio, PAIRS), 2, "");
    if (rc == 0)
        rc = part_figure(out, "events_shuffled_read", read, 3, "of the file's bytes");
    return rc == 0 ? 0 : err_set(e, rc, "out of memory for a figure");
}

static int orders_measure(struct events_bench *b, struct part_out *out, struct err *e)
{
    double log[PAIRS], shuffled[PAIRS], ratio[PAIRS], read = 0;
    struct dataset *d[2] = {NULL, NULL};
    struct stat st;
    int rc = stat(b->events, &st) != 0 ? err_set(e, SHOAL_E_IO, "%s: it is gone", b->events) : 0;
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = order_open(b, i == 1, &d[i], e);
    uint64_t before = rc == 0 ? dataset_read_bytes(d[1]) : 0;
    for (uint32_t i = 0; i < PAIRS && rc == 0; i++) {
        rc = epoch_read(d[0], 2 + i, &log[i], e);
        if (rc == 0)
            rc = epoch_read(d[1], 2 + i, &shuffled[i], e);
        ratio[i] = rc == 0 ? shuffled[i] / log[i] : 0;
    }
    if (rc == 0)
        read = (double)(dataset_read_bytes(d[1]) - before) / PAIRS / (double)st.st_size;
    dataset_close(d[0]);
    dataset_close(d[1]);
    return rc == 0 ? orders_tell(out, log, shuffled, ratio, read, e) : rc;
}

/* Returns the examples a second of the second epoch. */
static int epoch_run(struct events_bench *b, int kind, double *rate, struct err *e)
{
    char report[PATH + 32];
    const char *const local[] = {"shoal",
                                 "local",
                                 b->job,
                                 "--run-dir",
                                 b->run,
                                 "--set",
                                 kind == ROWS ? "data.cache_max=1T" : "data.cache_max=0",
                                 NULL};
    struct json *j = NULL;
    (void)file_remove_tree(b->run);
    (void)snprintf(report, sizeof report, "%s/report.json", b->run);
    int rc = say(local, NULL, e);
    if (rc == 0)
        rc = cli_json_file(report, &j, e);
    if (rc != 0)
        return rc;
    double seconds = in(json_array_at(json_get(j, "epochs"), 1), "seconds");
    json_free(j);
    *rate = (double)b->rows / seconds;
    return seconds > 0 ? 0 : err_set(e, SHOAL_E_INTERNAL, "%s has no second epoch", report);
}

static int epochs_measure(struct events_bench *b, struct part_out *out, struct err *e)
{
    double rate[KINDS][PAIRS], ratio[PAIRS], warm;
    int rc = epoch_run(b, ROWS, &warm, e); /* keeps the rows, and touches memory */
    for (int i = 0; i < PAIRS && rc == 0; i++) {
        for (int k = 0; k < KINDS && rc == 0; k++) {
            int kind = (i + k) % KINDS;
            rc = epoch_run(b, kind, &rate[kind][i], e);
        }
        if (rc == 0)
            ratio[i] = rate[ROWS][i] / rate[TEXT][i];
    }
    (void)file_remove_tree(b->run);
    if (rc == 0)
        rc = part_figure(out, "epoch2_fm_parsed_again", median(rate[TEXT], PAIRS), 0, "examples/s");
    if (rc == 0)
        rc = part_figure(out, "epoch2_fm_cached", median(rate[ROWS], PAIRS), 0, "examples/s");
    return rc == 0 ? part_figure(out, "epoch2_fm_cached_ratio", median(ratio, PAIRS), 2, "") : rc;
}

int part_events(struct part_out *out, const char *dir, uint64_t rows, struct err *e)
{
    struct events_bench b = {.dir = dir, .rows = rows};
    int rc = prepare(&b, e);
    if (rc == 0)
        rc = file_measure(&b, out, e);
    if (rc == 0)
        rc = orders_measure(&b, out, e);
    return rc == 0 ? epochs_measure(&b, out, e) : rc;
}
