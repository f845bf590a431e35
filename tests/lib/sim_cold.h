/* sim_cold.h: engines whose rows are sometimes not in memory, whatever the size of the table: for a
 * share of a shard's calls engine_warm returns false and calls on_fetched a few milliseconds later.
 * For programs that are linked with --wrap of engine_open, engine_close and engine_warm. */
#ifndef TESTS_LIB_SIM_COLD_H
#define TESTS_LIB_SIM_COLD_H

#include <stdint.h>

/* Sets the share of calls that return false, in percent, for engines opened later. 0: none. */
void sim_cold_share(uint32_t percent);
/* Returns how often a call returned false. */
uint64_t sim_cold_answers(void);

#endif
