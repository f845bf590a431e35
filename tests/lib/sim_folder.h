/* sim_folder.h: folders of a simulated cluster's servers, which are dead meanwhile: copied, taken
 * away, changed for another's, and put back. */
#ifndef TESTS_LIB_SIM_FOLDER_H
#define TESTS_LIB_SIM_FOLDER_H

#include "tests/lib/sim_cluster.h"

/* What server i has now, for sim_folder_older. */
void sim_folder_keep(const struct cluster *c, uint32_t i);
/* From now on it has nothing; what was kept; the folder of server `other`, which gets its own. */
void sim_folder_empty(const struct cluster *c, uint32_t i);
void sim_folder_older(const struct cluster *c, uint32_t i);
void sim_folder_swap(const struct cluster *c, uint32_t i, uint32_t other);
/* What it had before sim_folder_empty or sim_folder_older. */
void sim_folder_back(const struct cluster *c, uint32_t i);

#endif
