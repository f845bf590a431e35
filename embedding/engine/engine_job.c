/* engine_job.c: jobs begun, stepped, weighed and closed. */
#include "embedding/engine/engine_job.h"

#include "embedding/engine/engine_state.h"
#include "proto/base/assert.h"

void engine_job_begin(struct engine *g, enum engine_job_kind kind, struct engine_job *job,
                      const struct engine_job_ops *ops)
{
    SHOAL_ASSERT(g->job[kind] == NULL);
    job->ops = ops;
    g->job[kind] = job;
}

void engine_job_end(struct engine *g, enum engine_job_kind kind)
{
    g->job[kind] = NULL;
}

void engine_jobs_step(struct engine *g, enum engine_job_kind from, enum engine_job_kind below)
{
    for (unsigned kind = from; kind < (unsigned)below; kind++)
        if (g->job[kind] != NULL && g->job[kind]->ops->step != NULL)
            g->job[kind]->ops->step(g);
}

bool engine_jobs_urgent(const struct engine *g)
{
    for (unsigned kind = 0; kind < JOB_KINDS; kind++)
        if (g->job[kind] != NULL && g->job[kind]->ops->urgent != NULL &&
            g->job[kind]->ops->urgent(g))
            return true;
    return false;
}

uint64_t engine_jobs_bytes(const struct engine *g)
{
    uint64_t bytes = 0;
    for (unsigned kind = 0; kind < JOB_KINDS; kind++)
        if (g->job[kind] != NULL && g->job[kind]->ops->bytes != NULL)
            bytes += g->job[kind]->ops->bytes(g);
    return bytes;
}

void engine_jobs_close(struct engine *g)
{
    for (unsigned kind = 0; kind < JOB_KINDS; kind++) {
        if (g->job[kind] != NULL)
            g->job[kind]->ops->close(g);
        SHOAL_ASSERT(g->job[kind] == NULL);
    }
}
