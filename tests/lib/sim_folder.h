/* sim_folder.h: copies, removes, exchanges and restores folders of a simulated cluster's servers
 * while the servers are dead. */
#ifndef TESTS_LIB_SIM_FOLDER_H
#define TESTS_LIB_SIM_FOLDER_H

#include "tests/lib/sim_cluster.h"

/* Copies the present folder of server i, for sim_folder_older. */
void sim_folder_keep(const struct cluster *c, uint32_t i);
/* Give server i no folder, the copied folder, or the folder of server `other`, which gets its
 * own. */
void sim_folder_empty(const struct cluster *c, uint32_t i);
void sim_folder_older(const struct cluster *c, uint32_t i);
void sim_folder_swap(const struct cluster *c, uint32_t i, uint32_t other);
/* Restores the folder from before sim_folder_empty or sim_folder_older. */
void sim_folder_back(const struct cluster *c, uint32_t i);

#endif
