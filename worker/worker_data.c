/* worker_data.c: looks at files and prints a proposal. */
#include "worker/worker_data.h"

#include "proto/base/file.h"
#include "worker/data/propose.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The proposed job is read as a job file is, and its columns are found in the files. */
static int job_try(struct survey *s, const char *text, struct err *e)
{
    struct job job;
    int rc = job_parse(text, strlen(text), "the proposed job", NULL, &job, e);
    if (rc != 0)
        return rc;
    rc = survey_try(s, &job, e);
    job_free(&job);
    return rc;
}

static int job_write(const char *path, const char *text, struct err *e)
{
    if (strcmp(path, "-") == 0) {
        fputs(text, stdout);
        return 0;
    }
    int fd = file_open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0 && errno == EEXIST)
        return err_set(e, SHOAL_E_EXISTS, "%s is there already; remove it or name another --job",
                       path);
    int failed = fd < 0 || file_write_all(fd, text, strlen(text)) != 0;
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (failed)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", path, strerror(why));
    return 0;
}

/* The first walk, which shows which column is the label. */
static int look(const struct worker_arguments *a, struct survey *s, struct err *e)
{
    const struct survey_label none = {.column = FEATURE_NO_COLUMN};
    int rc = survey_files(s, a->in, "", a->rows, e);
    if (rc == 0 && s->layout.format == DATA_EVENTS)
        rc = err_set(e, SHOAL_E_DATA,
                     "%s is an event file of shoal convert: `shoal convert --check FILE` tells "
                     "what is in it, and data.format: events reads it",
                     s->part[GUESS_TRAIN].names.item[0]);
    if (rc == 0)
        rc = survey_walk(s, &none, e);
    if (rc == 0 && s->part[GUESS_TRAIN].rows == 0)
        rc = err_set(e, SHOAL_E_DATA, "%s has no good row: %s", s->part[GUESS_TRAIN].names.item[0],
                     s->part[GUESS_TRAIN].bad > 0 ? s->part[GUESS_TRAIN].bad_first : "none at all");
    return rc;
}

static int tell(const struct worker_arguments *a, const struct survey *s, const struct proposal *p,
                const char *sections, struct err *e)
{
    char *text = NULL;
    if (a->as_json) {
        struct json *j = propose_json(s, p);
        text = json_text(j, 2);
        json_free(j);
    } else {
        text = propose_text(s, p);
    }
    if (text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to print the answer");
    fputs(text, stdout);
    free(text);
    if (a->as_json)
        fputc('\n', stdout);
    else if (sections != NULL)
        printf("\n%s", sections);
    return 0;
}

static int answer(const struct worker_arguments *a, struct survey *s, const struct proposal *p,
                  struct err *e)
{
    bool alone = a->job != NULL && strcmp(a->job, "-") == 0;
    char *job = propose_job(s, p, true), *sections = NULL;
    int rc = 0;
    if (a->job == NULL)
        sections = propose_job(s, p, false);
    if (job == NULL || (a->job == NULL && sections == NULL))
        rc = err_set(e, SHOAL_E_NOMEM, "no memory to write the job");
    if (rc == 0 && !alone)
        rc = tell(a, s, p, sections, e);
    if (rc == 0)
        rc = job_try(s, job, e);
    if (rc == 0 && a->job != NULL)
        rc = job_write(a->job, job, e);
    if (rc == 0 && !alone && !a->as_json) {
        if (a->job != NULL)
            printf("\nThe job is in %s: shoal local %s\n", a->job, a->job);
        else
            printf("\nThe whole job: shoal data --job job.yaml FILES; then shoal local job.yaml\n");
    }
    free(job);
    free(sections);
    return rc;
}

int worker_data(const struct worker_arguments *a, struct err *e)
{
    static struct survey s;
    struct proposal p = {.column = NULL};
    struct err why = {0};
    if (a->in->count == 0)
        return err_set(e, SHOAL_E_USAGE, "--in is missing: the files to look at");
    int rc = look(a, &s, e), label = 0;
    if (rc == 0)
        label = propose_label(&s, a->label, &p, &why);
    if (rc == 0 && label == 0)
        rc = survey_walk(&s, &p.label, e);
    if (rc == 0)
        rc = propose_columns(&s, &p, e);
    if (rc == 0 && label != 0) {
        rc = tell(a, &s, &p, NULL, e);
        if (rc == 0)
            *e = why;
        rc = rc == 0 ? label : rc;
    } else if (rc == 0) {
        rc = answer(a, &s, &p, e);
    }
    propose_free(&p);
    survey_free(&s);
    return rc;
}
