/* sim_cold.h: engines whose rows are sometimes not in memory, whatever the size of the table: for a
 * share of what a shard asks, engine_warm says no and calls on_fetched a few milliseconds later.
 * For programs that are linked with --wrap of engine_open, engine_close and engine_warm. */
#ifndef TESTS_LIB_SIM_COLD_H
#define TESTS_LIB_SIM_COLD_H

#include <stdint.h>

/* From now on, for engines opened later: the share of questions that are answered with no, in
 * percent. 0: none. */
void sim_cold_share(uint32_t percent);
/* How often the answer was no. */
uint64_t sim_cold_answers(void);

#endif
