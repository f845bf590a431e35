/* sim_ill.h: workers of a simulated cluster that beat and cannot get on (struct cluster_worker,
 * ill_..): what the coordinator owes the job for each of them. A look ends the test where
 *
 *   - such a worker still holds lanes after the limit of stall.h, though another one could go on,
 *   - it has lost its lanes, and status does not name it,
 *   - it has had no answer from a server for two leases, and status names neither of the two. */
#ifndef TESTS_LIB_SIM_ILL_H
#define TESTS_LIB_SIM_ILL_H

#include <stdint.h>

struct cluster;

struct sim_ill { /* what was seen, for a tally */
    uint64_t taken, named;
};

void sim_ill_look(struct cluster *c, const char *who, struct sim_ill *seen);

#endif
