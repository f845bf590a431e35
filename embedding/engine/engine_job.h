/* engine_job.h: what an engine does over several turns of the loop beside its flushing: a cut that
 * waits for the store, a scrub, a load, a load taken back, tablets that come back after a start.
 * While one is under way it sits in engine.job[kind]; the flush steps it, the memory budget counts
 * its bytes and engine_close ends it, without knowing what it is. So rooms above the engine's have
 * jobs as well. Thread: the engine's. */
#ifndef EMBEDDING_ENGINE_ENGINE_JOB_H
#define EMBEDDING_ENGINE_ENGINE_JOB_H

#include <stdbool.h>
#include <stdint.h>

struct engine;

/* One of a kind at a time; the kinds step in this order, those from JOB_LOAD on behind the flush:
 * images of others have their turn first. */
enum engine_job_kind { JOB_CUT, JOB_SCRUB, JOB_LOAD, JOB_UNLOAD, JOB_RELOAD, JOB_KINDS };

struct engine_job_ops {
    void (*step)(struct engine *g);         /* goes on if it can; cheap. NULL: a timer steps it */
    bool (*urgent)(const struct engine *g); /* images are waited for; NULL: never */
    uint64_t (*bytes)(const struct engine *g); /* of rows in memory, or soon there; NULL: none */
    void (*close)(struct engine *g);           /* frees it, after work_drain */
};

/* In the struct of a job, which is found with container_of. */
struct engine_job {
    const struct engine_job_ops *ops;
};

void engine_job_begin(struct engine *g, enum engine_job_kind kind, struct engine_job *job,
                      const struct engine_job_ops *ops);
/* It has ended; its memory is the caller's. Nothing happens when there is none. */
void engine_job_end(struct engine *g, enum engine_job_kind kind);
/* Steps the jobs of kinds [from, below). A step may end jobs and begin others. */
void engine_jobs_step(struct engine *g, enum engine_job_kind from, enum engine_job_kind below);
bool engine_jobs_urgent(const struct engine *g);
uint64_t engine_jobs_bytes(const struct engine *g);
void engine_jobs_close(struct engine *g);

#endif
