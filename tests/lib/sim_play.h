/* sim_play.h: what the simulator's tests of single jobs share: an input, a network, and the end of
 * a job with its report. */
#ifndef TESTS_LIB_SIM_PLAY_H
#define TESTS_LIB_SIM_PLAY_H

#include "tests/lib/sim_cluster.h"

#include <stdint.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define BOUND (900 * SECOND) /* of a job, in virtual time */

/* A column of the input. values: how many it has, drawn for each line; 0: the value "x" in all. */
struct sim_column {
    const char *name;
    uint32_t values;
};

/* Makes the test's folder (worker_files.h) with train.csv: `label` and these columns. The label
 * follows from the first two that are drawn. Logs errors alone, with SHOAL_SIM_LOG all. Returns the
 * folder. */
const char *sim_play_input(const struct sim_column *column, uint32_t count, uint32_t rows,
                           uint64_t seed);
/* Messages take up to 1 ms, works up to 4 ms. */
struct sim_options sim_play_net(uint64_t seed);
/* Runs the job to its end, which must be good, with so many examples. */
void sim_play_end(struct cluster *c, uint64_t examples, struct cluster_result *out);
/* A number of the report, -1 where there is none. object: a path, or NULL: the whole. */
int64_t sim_play_reported(const struct cluster *c, const char *object, const char *key);

#endif
