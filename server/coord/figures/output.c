/* output.c: see output.h. */
#include "server/coord/figures/output.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "server/coord/core/core.h"
#include "server/coord/figures/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct coord_output_batch {
    struct coord_output_batch *next;
    char run[LIMIT_NAME + 24];
    uint64_t step;
    uint32_t count;
    struct coord_scalar of[];
};

/* Sets the errand's folder to the file's, for messages to people. */
static void folder_set(struct coord_errand *r, const char *what, const char *path)
{
    const char *slash = strrchr(text_or(path, ""), '/');
    r->what = what;
    if (slash != NULL)
        (void)snprintf(r->folder, sizeof r->folder, "%.*s", (int)(slash - path), path);
    else
        text_copy(r->folder, sizeof r->folder, what);
}

static void nothing_undo(struct coord_errand *r)
{
    (void)r; /* text that is written stays */
}

/* ---- the report ------------------------------------------------------------------------------ */

struct output_report {
    struct coord_errand errand;
    const struct coord_options *options; /* the coordinator's, borrowed */
    uint64_t number;                     /* the job's */
    char *text;                          /* owned */
};

static int report_run(struct coord_errand *r, struct err *e)
{
    struct output_report *o = container_of(r, struct output_report, errand);
    return o->options->write_report(o->options->context, o->text, e);
}

static void report_free(struct coord_errand *r)
{
    struct output_report *o = container_of(r, struct output_report, errand);
    free(o->text);
    free(o);
}

static void report_failed(struct coord_job *j, int rc, const struct err *e)
{
    coord_missed(j, rc, "the job is done, but its report is not written: %s", e->text);
}

static void report_written(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord_job *j = context;
    const struct output_report *o = container_of(r, struct output_report, errand);
    bool known = j->at.number == o->number && j->at.phase == PHASE_FINISH;
    if (j->output->report == r)
        j->output->report = NULL;
    if (rc == 0)
        coord_errand_leave(j->fleet, r);
    else if (known)
        report_failed(j, rc, e);
    else
        log_warn("the report of a job that was stopped at its end is not written: %s", e->text);
}

void coord_output_report(struct coord_job *j)
{
    struct err e = {0};
    SHOAL_ASSERT(j->report != NULL);
    if (j->fleet->options.write_report == NULL)
        return;
    struct output_report *o = calloc(1, sizeof *o);
    if (o == NULL || (o->text = strdup(j->report)) == NULL) {
        free(o);
        report_failed(j, err_set(&e, SHOAL_E_NOMEM, "no memory to write it"), &e);
        return;
    }
    o->errand.run = report_run;
    o->errand.undo = nothing_undo;
    o->errand.free = report_free;
    o->options = &j->fleet->options;
    o->number = j->at.number;
    folder_set(&o->errand, "report folder", j->fleet->options.report_path);
    int rc = coord_errand_start(j->fleet, &o->errand, j, report_written, &e);
    if (rc != 0)
        report_failed(j, rc, &e);
    else
        j->output->report = &o->errand;
}

bool coord_output_report_waits(const struct coord_job *j)
{
    return j->output->report != NULL;
}

/* ---- figures --------------------------------------------------------------------------------- */

struct output_figures {
    struct coord_errand errand;
    const struct coord_options *options; /* the coordinator's, borrowed */
    uint64_t number;                     /* number of the job at hand when it was begun */
    struct coord_output_batch *head;     /* owned */
};

static struct output_figures *figures_of(struct coord_errand *r)
{
    return container_of(r, struct output_figures, errand);
}

static void batches_free(struct coord_output_batch *b)
{
    while (b != NULL) {
        struct coord_output_batch *next = b->next;
        free(b);
        b = next;
    }
}

static int batches_write(const struct coord_options *o, const struct coord_output_batch *b,
                         struct err *e)
{
    int rc = 0;
    for (; b != NULL && rc == 0; b = b->next)
        rc = o->write_scalars(o->context, b->run, b->step, b->of, b->count, e);
    return rc;
}

static int figures_run(struct coord_errand *r, struct err *e)
{
    struct output_figures *f = figures_of(r);
    return batches_write(f->options, f->head, e);
}

static void figures_free(struct coord_errand *r)
{
    struct output_figures *f = figures_of(r);
    batches_free(f->head);
    free(f);
}

static struct coord_output_batch *batches_take(struct coord_job *j)
{
    struct coord_output_batch *b = j->output->head;
    j->output->head = NULL;
    j->output->waiting = 0;
    return b;
}

/* The job's other figures are not written: a curve with a gap misleads. */
static void figures_failed(struct coord_job *j, uint64_t number, int rc, const struct err *e)
{
    batches_free(batches_take(j));
    log_error("%s; the job goes on without its figures", e->text);
    if (j->at.number != number || j->trace->failed)
        return;
    j->trace->failed = true;
    coord_missed(j, rc, "the job is done, but not all of its curves are written: %s", e->text);
}

static void figures_begin(struct coord_job *j);

static void figures_written(void *context, struct coord_errand *r, int rc, const struct err *e)
{
    struct coord_job *j = context;
    SHOAL_ASSERT(j->output->figures == r);
    j->output->figures = NULL;
    if (rc != 0)
        figures_failed(j, figures_of(r)->number, rc, e);
    else
        coord_errand_leave(j->fleet, r);
    figures_begin(j);
}

static void figures_begin(struct coord_job *j)
{
    struct err e = {0};
    if (j->output->figures != NULL || j->output->head == NULL)
        return;
    struct output_figures *f = calloc(1, sizeof *f);
    if (f == NULL) {
        figures_failed(j, j->at.number, err_set(&e, SHOAL_E_NOMEM, "no memory to write figures"),
                       &e);
        return;
    }
    f->errand.run = figures_run;
    f->errand.undo = nothing_undo;
    f->errand.free = figures_free;
    f->options = &j->fleet->options;
    f->number = j->at.number;
    f->head = batches_take(j);
    f->errand.what = "TensorBoard folder";
    text_copy(f->errand.folder, sizeof f->errand.folder,
              text_or(j->fleet->options.scalars_path, f->errand.what));
    int rc = coord_errand_start(j->fleet, &f->errand, j, figures_written, &e);
    if (rc != 0)
        figures_failed(j, j->at.number, rc, &e);
    else
        j->output->figures = &f->errand;
}

void coord_output_figures(struct coord_job *j, const char *run, uint64_t step,
                          const struct coord_scalar *scalar, uint32_t count)
{
    struct coord_output *o = j->output;
    struct coord_output_batch *b = NULL;
    struct err e = {0};
    SHOAL_ASSERT(j->fleet->options.write_scalars != NULL && !j->trace->failed);
    if (o->waiting < COORD_OUTPUT_BATCHES)
        b = malloc(sizeof *b + count * sizeof b->of[0]);
    if (b == NULL) {
        figures_failed(j, j->at.number,
                       err_set(&e, SHOAL_E_NOMEM, "too many figures wait to be written"), &e);
        return;
    }
    b->next = NULL;
    text_copy(b->run, sizeof b->run, run);
    b->step = step;
    b->count = count;
    memcpy(b->of, scalar, count * sizeof b->of[0]);
    if (o->head == NULL)
        o->tail = &o->head;
    *o->tail = b;
    o->tail = &b->next;
    o->waiting++;
    figures_begin(j);
}

bool coord_output_figures_wait(const struct coord_job *j)
{
    return j->output->figures != NULL || j->output->head != NULL;
}

void coord_output_close(struct coord_job *j)
{
    struct err e = {0};
    struct coord_errand *r = j->output->figures;
    int rc = 0;
    SHOAL_ASSERT(j->fleet->errands.ends);
    if (r != NULL && !r->ran)
        rc = figures_run(r, &e);
    if (rc == 0)
        rc = batches_write(&j->fleet->options, j->output->head, &e);
    if (rc != 0)
        log_error("%s", e.text);
    batches_free(batches_take(j));
    j->output->figures = NULL; /* coord_errand_close frees it */
}
