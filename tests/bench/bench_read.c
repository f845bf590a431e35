/* bench_read.c: how many examples a second batch_read makes of a log.
 *
 *     bench_read LOG [THREADS [SECONDS [BATCH [CACHE]]]]
 *
 * LOG is in the Criteo format (`shoal synth` makes one), plain or packed, or a job.yaml that
 * names the log: decoding and indexing come before the clock starts; with a folder CACHE,
 * parsing too. Threads take batches of shuffled epochs in turn. Said are examples by the clock
 * on the wall, and by the seconds that the threads were on a core, and these in bytes of plain
 * files too: the figures by core are those to compare on a machine that does other work. No
 * test: run by hand, or by tests/bench/read_forms. */
#include "proto/base/file.h"
#include "proto/base/time.h"
#include "proto/job/config.h"
#include "worker/data/dataset.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static struct dataset *data;
static atomic_ullong next, examples;
static uint32_t batch_rows = 4096;
static uint64_t stop_ns;

static double core_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Bytes of the plain files of data.train. */
static uint64_t file_bytes(const struct job *job)
{
    struct stat st;
    uint64_t bytes = 0;
    for (size_t i = 0; i < job->data.train.count; i++)
        bytes += stat(job->data.train.item[i], &st) == 0 ? (uint64_t)st.st_size : 0;
    return bytes;
}

static int job_take(const char *log, struct job *job, struct err *e)
{
    char *text;
    size_t bytes, n = strlen(log);
    if (n < 5 || strcmp(log + n - 5, ".yaml") != 0)
        return config_list_add(&job->data.train, log);
    int rc = file_read_whole(log, 1 << 20, &text, &bytes);
    if (rc != 0)
        return err_set(e, rc, "%s cannot be read", log);
    rc = job_parse(text, bytes, log, NULL, job, e);
    free(text);
    return rc;
}

static void *read_batches(void *unused)
{
    uint64_t batches = dataset_rows(data) / batch_rows;
    struct batch b;
    struct err e = {0};
    (void)unused;
    batch_init(&b);
    while (time_monotonic_ns() < stop_ns) {
        uint64_t n = atomic_fetch_add(&next, 1);
        if (batch_read(data, 2026, 1 + (uint32_t)(n / batches), n % batches * batch_rows,
                       batch_rows, &b, &e) != 0) {
            fprintf(stderr, "bench_read: %s\n", e.text);
            exit(74);
        }
        atomic_fetch_add(&examples, b.examples);
    }
    batch_free(&b);
    return NULL;
}

int main(int argc, char **argv)
{
    struct job job = {.data = {.format = DATA_CRITEO, .shuffle = true},
                      .features = {.fields_auto = true, .number = NUMBER_LOG1P}};
    int threads = argc > 2 ? atoi(argv[2]) : 1;
    double seconds = argc > 3 ? atof(argv[3]) : 10;
    pthread_t thread[256];
    struct err e = {0};
    if (argc > 4)
        batch_rows = (uint32_t)atoi(argv[4]);
    if (argc < 2 || threads < 1 || threads > 256 || batch_rows < 1 || batch_rows > LIMIT_BATCH) {
        fputs("usage: bench_read LOG [THREADS [SECONDS [BATCH [CACHE]]]]\n", stderr);
        return 64;
    }
    int rc = job_take(argv[1], &job, &e);
    if (argc > 5) {
        (void)snprintf(job.data.cache, sizeof job.data.cache, "%s", argv[5]);
        job.data.cache_max = UINT64_MAX;
    }
    if (rc != 0 || dataset_open(&job, 0, &data, &e) != 0) {
        fprintf(stderr, "bench_read: %s\n", e.text);
        return 66;
    }
    if (dataset_rows(data) < batch_rows) {
        fputs("bench_read: the log has fewer rows than a batch\n", stderr);
        return 64;
    }
    uint64_t start = time_monotonic_ns();
    double cores = core_seconds();
    stop_ns = start + (uint64_t)(seconds * 1e9);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, read_batches, NULL) != 0)
            return 70;
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    double wall = 1e-9 * (double)(time_monotonic_ns() - start),
           count = (double)atomic_load(&examples);
    cores = core_seconds() - cores;
    double mb = 1e-6 * (double)file_bytes(&job) / (double)dataset_rows(data);
    printf("%d threads, batches of %u: %.0f examples/s, %.0f for each second on a core (%.1f MB)\n",
           threads, batch_rows, count / wall, count / cores, count / cores * mb);
    dataset_close(data);
    job_free(&job);
    return 0;
}
