/* sim_ill.h: checks the coordinator's duty to a job with ill workers: workers of a simulated
 * cluster that send beats and cannot make progress (struct cluster_worker, ill_..). A check ends
 * the test if
 *
 *   - such a worker still holds lanes after the limit of stall.h, although another one could go on,
 *   - it has lost its lanes, and the status does not name it,
 *   - it has had no reply from a server for two leases, and the status names neither of the two. */
#ifndef TESTS_LIB_SIM_ILL_H
#define TESTS_LIB_SIM_ILL_H

#include <stdint.h>

struct cluster;

struct sim_ill { /* observations, for a tally */
    uint64_t taken, named;
};

void sim_ill_look(struct cluster *c, const char *who, struct sim_ill *seen);

#endif
