/* sim_jobs.h: small jobs of every kind for simulated clusters, over one log: files, the same lines
 * as objects, clicks for a join. Paths are names in the working folder. */
#ifndef TESTS_LIB_SIM_JOBS_H
#define TESTS_LIB_SIM_JOBS_H

#include "tests/lib/sim_oracle.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_JOBS 17u
#define SIM_JOB_TEXT 2048u
#define SIM_JOBS_WALL_S UINT64_C(1700000000) /* the calendar's time; the log ends a day before */
#define SIM_JOBS_VALUES_A 30u
#define SIM_JOBS_VALUES_B 7u
#define SIM_JOBS_VALUES (SIM_JOBS_VALUES_A + SIM_JOBS_VALUES_B)
#define SIM_JOBS_PARTS 4u /* number of objects */

struct sim_job {
    const char *name, *model, *mode;
    const char *data;  /* further keys of `data` */
    const char *train; /* keys of `train` */
    const char *more;  /* further lines */
    bool counts;       /* a probe that counts each line once in an epoch */
};

extern const struct sim_job sim_jobs[SIM_JOBS];

bool sim_job_grows(const struct sim_job *k);
uint32_t sim_job_epochs(const struct sim_job *k);
void sim_job_text(const struct sim_job *k, char yaml[SIM_JOB_TEXT]);
/* Writes the log into worker_files.h's folder. Returns (SIM_JOBS_VALUES) how often a probe counts
 * each key in an epoch. */
const struct oracle_count *sim_jobs_input(void);

#endif
