/* part_parse.c: the speed at which a Criteo log becomes batches, in this process, on one core:
 * opening (which makes the index: rows, chunks, checksums), then batches of 4,096 rows in the order
 * of the log and shuffled.
 *
 * The log is read once before the clock starts, so that it lies in the page cache. Seconds are
 * those that the thread was on a core: they include the system's part of reading, and not the wait
 * for a disk. */
#include "proto/base/file.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/bench/part.h"
#include "worker/data/dataset.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { ROWS = 4096, SEED = 2026 };

double part_core_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int tell(struct part_out *out, const char *what, double examples, double row_mb,
                double seconds, struct err *e)
{
    char name[64];
    (void)snprintf(name, sizeof name, "parse_%s_mb", what);
    int rc = part_figure(out, name, examples * row_mb / seconds, 1, "MB/s of text");
    (void)snprintf(name, sizeof name, "parse_%s", what);
    if (rc == 0)
        rc = part_figure(out, name, examples / seconds, 0, "examples/s");
    return rc == 0 ? 0 : err_set(e, rc, "out of memory for a figure");
}

/* Reads epoch after epoch for `seconds`; the first batches, for which buffers grow, do not
 * count. */
static int read_measure(const struct dataset *d, double seconds, double *examples, double *took,
                        struct err *e)
{
    uint32_t rows = dataset_rows(d) < ROWS ? (uint32_t)dataset_rows(d) : ROWS;
    uint64_t batches = dataset_rows(d) / rows;
    struct batch b;
    double begin = 0;
    int rc = 0;
    *examples = *took = 0;
    batch_init(&b);
    for (uint64_t n = 0; rc == 0 && *took < seconds; n++) {
        if (n == 16)
            begin = part_core_seconds();
        rc = batch_read(d, SEED, 1 + (uint32_t)(n / batches), n % batches * rows, rows, &b, e);
        if (n >= 16) {
            *examples += b.examples;
            *took = part_core_seconds() - begin;
        }
    }
    batch_free(&b);
    return rc;
}

/* Measures one order. For the log's order it also measures opening, because there is no index
 * yet. */
static int order_measure(struct part_out *out, struct job *job, const char *what, uint64_t bytes,
                         double seconds, struct err *e)
{
    struct dataset *d;
    double examples, took, begin = part_core_seconds();
    int rc = dataset_open(job, WIRE_TRAIN, &d, e);
    if (rc != 0)
        return rc;
    took = part_core_seconds() - begin;
    double rows = (double)dataset_rows(d), row_mb = (double)bytes / rows * 1e-6;
    if (!job->data.shuffle)
        rc = tell(out, "open", rows, row_mb, took, e);
    if (rc == 0)
        rc = read_measure(d, seconds, &examples, &took, e);
    if (rc == 0)
        rc = tell(out, what, examples, row_mb, took, e);
    dataset_close(d);
    return rc;
}

static int file_warm(const char *path, uint64_t *bytes, struct err *e)
{
    static char block[1 << 16];
    FILE *f = fopen(path, "rb");
    *bytes = 0;
    for (size_t n; f != NULL && (n = fread(block, 1, sizeof block, f)) > 0;)
        *bytes += n;
    if (f != NULL)
        fclose(f);
    return *bytes > 0 ? 0 : err_set(e, SHOAL_E_NOINPUT, "%s: cannot be read", path);
}

int part_parse(struct part_out *out, const char *dir, const char *log, double seconds,
               struct err *e)
{
    struct job job = {.data = {.format = DATA_CRITEO},
                      .features = {.fields_auto = true, .number = NUMBER_LOG1P}};
    uint64_t bytes;
    (void)snprintf(job.data.cache, sizeof job.data.cache, "%s/parse-cache", dir);
    (void)file_remove_tree(job.data.cache);
    int rc = file_warm(log, &bytes, e);
    if (rc == 0 && config_list_add(&job.data.train, log) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (rc == 0)
        rc = order_measure(out, &job, "log", bytes, seconds, e);
    job.data.shuffle = true;
    if (rc == 0)
        rc = order_measure(out, &job, "shuffled", bytes, seconds, e);
    (void)file_remove_tree(job.data.cache);
    job_free(&job);
    return rc;
}
