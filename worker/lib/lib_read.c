/* lib_read.c: the batches of a job's input without a fleet: the same lines in the same order, with
 * the same keys, as a worker reads them. */
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/job/config.h"
#include "proto/job/job.h"
#include "worker/data/dataset.h"
#include "worker/lib/lib_batch.h"
#include "worker/lib/lib_error.h"
#include "worker/lib/lib_options.h"
#include "worker/train/known_names.h"

#include <stdlib.h>
#include <string.h>

struct shoal_read {
    struct job job;
    struct model_shape shape;
    struct dataset *data;
    struct batch batch;
    struct lib_batch *out;
    uint64_t position, number;
    uint32_t epoch;
    bool parsed;
};

static int split_of(const char *name, uint32_t *split, struct err *e)
{
    static const char *const names[] = {
        [WIRE_TRAIN] = "train", [WIRE_VALID] = "valid", [WIRE_TEST] = "test"};
    for (*split = WIRE_TRAIN; *split <= WIRE_TEST; ++*split)
        if (name == NULL || strcmp(name, names[*split]) == 0)
            return 0;
    return err_set(e, SHOAL_E_USAGE, "shoal_read_open: %.40s is none of train, valid, test", name);
}

static int job_read(struct shoal_read *r, const struct shoal_read_options *o, struct err *e)
{
    struct string_list set = {0};
    int rc = 0;
    for (size_t i = 0; i < o->set_count && rc == 0; i++)
        if (config_list_add(&set, o->set[i]) != 0)
            rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    if (rc == 0)
        rc = job_load(o->job, &set, &r->job, e);
    config_list_free(&set);
    r->parsed = rc == 0;
    if (rc == 0 && job_command(&r->job) != NULL && !o->commands)
        rc =
            err_set(e, SHOAL_E_DENIED, "%s of %s is a command: set options.commands to have it run",
                    job_command(&r->job), o->job);
    return rc;
}

/* True when the job names no input of this split. */
static bool nothing_named(const struct job *job, uint32_t split)
{
    const char *what;
    return job_input(job, split, &what)->count == 0 && !job->data.objects.of[split].on;
}

int shoal_read_open(const struct shoal_read_options *options, shoal_read **out,
                    struct shoal_error *e)
{
    struct shoal_read_options o = {0};
    struct err own = {0};
    uint32_t split = WIRE_TRAIN;
    *out = NULL;
    int rc = lib_options_take(&o, sizeof o, options, options == NULL ? 0 : options->size,
                              "shoal_read_open", e);
    if (rc != SHOAL_OK)
        return rc;
    if (o.job == NULL)
        return lib_error_set(e, SHOAL_ERROR_USAGE,
                             "shoal_read_open: options.job names no job file");
    if (getenv("SHOAL_LOG") == NULL)
        log_set_level(LOG_LEVEL_ERROR);
    struct shoal_read *r = calloc(1, sizeof *r);
    if (r == NULL)
        return lib_error_set(e, SHOAL_ERROR_MEMORY, "out of memory");
    batch_init(&r->batch);
    r->epoch = o.epoch;
    rc = split_of(o.split, &split, &own);
    if (rc == 0)
        rc = job_read(r, &o, &own);
    if (rc == 0)
        rc = dataset_shape(&r->job, &r->shape, &own);
    if (rc == 0)
        rc = known_names_complete(&r->job, &r->shape, false, &own);
    if (rc == 0)
        rc = dataset_open(&r->job, split, &r->data, &own);
    if (rc == 0)
        rc = lib_batch_new(&r->job, &r->shape, &r->out);
    if (rc == SHOAL_E_NOINPUT && r->parsed && nothing_named(&r->job, split)) {
        shoal_read_close(r);
        return lib_error_set(e, SHOAL_ERROR_NO_INPUT, "%s", own.text);
    }
    if (rc != 0) {
        own.code = rc;
        shoal_read_close(r);
        return lib_error(e, &own);
    }
    r->out->batch.kind = split == WIRE_TRAIN ? SHOAL_TRAIN : SHOAL_SCORE;
    *out = r;
    return lib_error_none(e);
}

int shoal_read_next(shoal_read *r, struct shoal_batch **out, struct shoal_error *e)
{
    struct err own = {0};
    uint64_t rows = dataset_rows(r->data);
    *out = NULL;
    do { /* a batch of malformed lines alone is none */
        if (r->position >= rows)
            return lib_error_set(e, SHOAL_END, "all rows are read");
        uint32_t take = (uint32_t)MIN(rows - r->position, job_batch_rows(&r->job));
        int rc =
            batch_read(r->data, r->job.train.seed, r->epoch, r->position, take, &r->batch, &own);
        if (rc != 0) {
            own.code = rc;
            return lib_error(e, &own);
        }
        r->position += take;
        r->number++;
    } while (r->batch.examples == 0);
    lib_batch_of_read(r->out, &r->batch);
    r->out->batch.number = r->number;
    r->out->batch.epoch = r->epoch;
    *out = &r->out->batch;
    return lib_error_none(e);
}

void shoal_read_close(shoal_read *r)
{
    if (r == NULL)
        return;
    lib_batch_free(r->out);
    batch_free(&r->batch);
    if (r->data != NULL)
        dataset_close(r->data);
    if (r->parsed)
        job_free(&r->job);
    free(r);
}
