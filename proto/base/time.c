/* time.c: the two clocks. */
#include "proto/base/time.h"

#include <time.h>

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t time_monotonic_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t time_wall_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}
