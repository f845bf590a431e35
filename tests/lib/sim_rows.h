/* sim_rows.h: the rows that the servers of a simulated cluster have. */
#ifndef TESTS_LIB_SIM_ROWS_H
#define TESTS_LIB_SIM_ROWS_H

#include "tests/lib/sim_cluster.h"

#include <stdbool.h>
#include <stdint.h>

/* The weights (the table's width) of a key's row in memory at one of the servers. False: none of
 * them has it. */
bool cluster_row(const struct cluster *c, uint32_t table, uint64_t key, float *weights);

#endif
