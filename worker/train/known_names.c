/* known_names.c: completes the names of fields and tensors, or takes them from another job. */
#include "worker/train/known_names.h"

#include "dense/model.h"
#include "worker/data/dataset.h"

int known_names_complete(struct job *job, const struct model_shape *shape, bool same, struct err *e)
{
    struct legend is = {.input = NULL};
    int rc = dataset_legend(job, &is, e);
    if (rc == 0)
        rc = model_legend(job, shape, &is, e);
    if (rc == 0)
        rc = legend_match(&job->legend, &is, job->fresh.item, same ? 0 : job->fresh.count, same, e);
    if (rc != 0) {
        legend_free(&is);
        return rc;
    }
    is.learnt = job->legend.learnt;
    legend_free(&job->legend);
    job->legend = is;
    return 0;
}

int known_names_take(struct job *job, const char *text, size_t bytes, struct err *e)
{
    struct job was;
    int rc = job_parse(text, bytes, "the job that made the tables", NULL, &was, e);
    if (rc != 0)
        return rc;
    if (legend_known(&was.legend)) {
        rc = job_same_tables(&was, job, e);
        if (rc == 0)
            rc = job_same_losses(&was, job, e);
        legend_free(&job->legend);
        if (rc == 0)
            rc = legend_copy(&was.legend, &job->legend, e);
    } else {
        rc = job_same_model(&was, job, e);
    }
    job_free(&was);
    return rc;
}
