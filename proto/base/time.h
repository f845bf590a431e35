/* time.h: readings of the clocks, for the main functions of daemons, benchmarks and logs. A core
 * never calls these: it calls env_now_ns. */
#ifndef PROTO_BASE_TIME_H
#define PROTO_BASE_TIME_H

#include <stdint.h>
#include <time.h>

static inline uint64_t time_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t time_monotonic_ns(void)
{
    return time_of(CLOCK_MONOTONIC);
}

static inline uint64_t time_wall_ns(void)
{
    return time_of(CLOCK_REALTIME);
}

#endif
