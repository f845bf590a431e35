/* sim_one_job.h: the small job of the simulator's tests of a fleet, and its input. */
#ifndef TESTS_LIB_SIM_ONE_JOB_H
#define TESTS_LIB_SIM_ONE_JOB_H

#include "embedding/engine.h"
#include "tests/lib/sim_oracle.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_ONE_JOB_ROWS 600u
#define SIM_ONE_JOB_VALUES 60u /* of the one field */

/* Writes train.csv and valid.csv (worker_files.h). counts: (SIM_ONE_JOB_VALUES), the examples of
 * each key in train.csv. */
void sim_one_job_input(struct oracle_count *counts);
/* True when the rows count examples (probe). */
bool sim_one_job_counts(const char *model);
/* Writes the job's text. mode: train.consistency. train: ", KEY: VALUE", more keys of `train`; "":
 * none. */
void sim_one_job_text(char *out, size_t bytes, const char *model, const char *mode, uint32_t epochs,
                      const char *train, enum durability durability);

#endif
