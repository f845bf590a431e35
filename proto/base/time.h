/* time.h: readings of the clocks, for daemons' main, benchmarks and logs. Cores never call these:
 * they ask env_now. */
#ifndef PROTO_BASE_TIME_H
#define PROTO_BASE_TIME_H

#include <stdint.h>

uint64_t time_monotonic_ns(void);
uint64_t time_wall_ns(void);

#endif
